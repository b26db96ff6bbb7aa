/* The scratch memory in which special values are written, in the region
 * `lattice`: the results that its steps pass to each other, and functions that
 * several steps use. gpu/sections/specials_write.cu describes the steps. */
#pragma once

#include "gpu/block/sum.cuh"

#include "gpu/sections/mask_words.cuh"
#include "gpu/sections/specials.cuh"

/* Threads and warps of every block. */
#define SPECIALS_WRITE_NTHREADS 256
#define SPECIALS_WRITE_NWARPS (SPECIALS_WRITE_NTHREADS / 32)

/* Values of a segment, for which runs are counted: a block finds special values
 * in it, and in the steps behind a warp has it alone. */
#define SPECIALS_SEGMENT_NVALUES 16384
#define SPECIALS_SEGMENT_NWORDS (SPECIALS_SEGMENT_NVALUES / 32)

/* Groups of numbers in a batch, which a block measures or packs at a time, and
 * their runs. */
#define SPECIALS_PACK_NGROUPS 64
#define SPECIALS_PACK_NRUNS \
    (SPECIALS_PACK_NGROUPS * TERP_SPECIALS_GROUP_NNUMBERS)

/* Kinds of runs that are counted: of special values, of equal special values,
 * and, RUNS_COLOR + d, of differences under the mask delta of dimension d > 0,
 * or of bricks for d = TERP_NDIMS. Special values are counted, too. */
enum {
    RUNS_SPECIAL,
    RUNS_COLOR,
    RUNS_NKINDS = RUNS_COLOR + 1 + TERP_NDIMS,
    SPECIAL_VALUES = RUNS_NKINDS,
    SPECIALS_NCOUNTS
};
static_assert(sizeof(((struct cuda_specials *)NULL)->nruns) == RUNS_NKINDS * 8,
              "The state has a sum for each kind.");

/* The layout of the section. */
struct specials_summary {
    uint64_t nruns;
    uint64_t mask_delta;     /* distance of the mask delta; 0: none */
    uint32_t mask_delta_dim; /* its dimension; 0: none */
    uint32_t kind;           /* of the runs */
    uint32_t ncolors;
    uint32_t nfields;
    uint64_t palette[TERP_SPECIALS_MAX_NCOLORS];
    uint64_t values_at; /* where palette or values begin in the stream */
};

/* The arrays in scratch memory. */
struct specials_scratch {
    struct specials_summary *summary;
    /* Of each segment; for the chosen kind and special values, later of all
     * segments before it. */
    uint32_t *counts[SPECIALS_NCOUNTS];
    uint32_t *run_bits; /* bit map: a run of equal values begins */
    uint64_t *batch_at[TERP_SPECIALS_NFIELDS]; /* in the stream */
    uint8_t *width[TERP_SPECIALS_NFIELDS];
    uint32_t *run_begin, *run_end;
    uint64_t max_nruns;
    uint64_t nsegments; /* one has the place behind the last value */
};

static __device__ __host__ inline uint64_t
specials_nsegments(uint64_t nvalues)
{
    return nvalues / SPECIALS_SEGMENT_NVALUES + 1;
}

/* Thread 0 sets `scratch`, which is in shared memory; the others need a
 * barrier. */
static __device__ void
lay_out(const struct cuda_batch &batch, struct specials_scratch &scratch)
{
    uint8_t *at = region<uint8_t>(batch, batch.at.lattice);
    uint8_t *end = at + batch.npartitions * CUDA_PARTITION_MAX_NBYTES;

    if (threadIdx.x != 0)
        return;
    scratch.nsegments = specials_nsegments(batch.nvalues);
    scratch.summary = (struct specials_summary *)at;
    at += sizeof *scratch.summary;
    for (uint32_t *&counts : scratch.counts) {
        counts = (uint32_t *)at;
        at += 8 * div_up(scratch.nsegments, 2);
    }
    scratch.run_bits = (uint32_t *)at;
    at += 8 * div_up(batch.nvalues, 64);
    /* The remaining bytes are divided: a run needs its begin and its end; a
     * batch needs, for each field, the widths of its groups and its place in
     * the stream. */
    const uint64_t nbytes = SPECIALS_PACK_NRUNS * 8 +
                            TERP_SPECIALS_NFIELDS * (SPECIALS_PACK_NGROUPS + 8);
    uint64_t nbatches = (uint64_t)(end - at) / nbytes;
    scratch.max_nruns = nbatches * SPECIALS_PACK_NRUNS;
    for (int field = 0; field < TERP_SPECIALS_NFIELDS; field++) {
        scratch.batch_at[field] = (uint64_t *)at;
        at += nbatches * 8;
    }
    for (int field = 0; field < TERP_SPECIALS_NFIELDS; field++) {
        scratch.width[field] = at;
        at += nbatches * SPECIALS_PACK_NGROUPS;
    }
    scratch.run_begin = (uint32_t *)at;
    scratch.run_end = scratch.run_begin + scratch.max_nruns;
}

/* Replaces the numbers of all segments, or batches, by `first` and the sum of
 * those before. Returns `first` and the sum of all. All threads call it
 * together. */
template <typename N>
static __device__ uint64_t
sum_up_numbers(N *numbers, uint64_t n, uint64_t first)
{
    __shared__ block_scan<unsigned long long, SPECIALS_WRITE_NTHREADS> s_scan;

    __syncthreads();
    return first + sum_numbers<SPECIALS_WRITE_NTHREADS>(
                       n, s_scan, [=](uint64_t i) { return numbers[i]; },
                       [=](uint64_t i, uint64_t before) {
                           numbers[i] = (N)(first + before);
                       });
}
