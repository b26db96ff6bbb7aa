/* The scratch memory in which special values are written, in the region
 * `lattice`: the results that its steps pass to each other, and functions that
 * several steps use. gpu/sections/specials_write.cu describes the steps. */
#pragma once

#include "gpu/block/scan.cuh"

#include "gpu/sections/mask_pieces.cuh"
#include "gpu/sections/specials.cuh"

/* Threads and warps of every block. */
#define SPECIALS_WRITE_NTHREADS 1024
#define SPECIALS_WRITE_NWARPS (SPECIALS_WRITE_NTHREADS / 32)

/* Values of a thread (16: a piece of a mask), and of a segment, which is a
 * block's work. */
#define SPECIALS_NITEMS 16
#define SPECIALS_SEGMENT_NVALUES (SPECIALS_WRITE_NTHREADS * SPECIALS_NITEMS)

/* Groups of numbers in a batch, which a block measures or packs at a time, and
 * their runs. */
#define SPECIALS_PACK_NGROUPS 64
#define SPECIALS_PACK_NRUNS \
    (SPECIALS_PACK_NGROUPS * TERP_SPECIALS_GROUP_NNUMBERS)

/* Most segments of a chunk for which one block does all steps: 524288 values.
 * Tests use 0. A larger chunk has at most SPECIALS_MAX_NBLOCKS blocks, about as
 * many as a large device runs at once, since most chunks have nothing to do. */
#ifndef CUDA_SINGLE_BLOCK_MAX_NSEGMENTS
#define CUDA_SINGLE_BLOCK_MAX_NSEGMENTS 32
#endif
#define SPECIALS_MAX_NBLOCKS 264

/* Colors, which are different special values, in the sequence in which a block
 * met them, and the position where each occurs first. */
struct color_table {
    uint32_t ncolors; /* TERP_SPECIALS_MAX_NCOLORS + 1: too many */
    uint64_t color[TERP_SPECIALS_MAX_NCOLORS];
    uint64_t first[TERP_SPECIALS_MAX_NCOLORS];
};

/* Kinds of runs that are counted: of special values, of equal special values,
 * and, RUNS_COLOR + d, of differences under the mask delta of dimension d > 0,
 * or of bricks for d = TERP_NDIMS. */
enum {
    RUNS_SPECIAL,
    RUNS_COLOR,
    RUNS_NKINDS = RUNS_COLOR + 1 + TERP_NDIMS
};

/* The counts of a segment. */
struct special_segment {
    uint64_t run_at, special_at; /* runs and special values before it */
    uint32_t nruns[RUNS_NKINDS];
    uint32_t nspecials;
};

/* The layout of the section. */
struct specials_summary {
    uint64_t nruns;
    uint64_t mask_delta;     /* distance of the mask delta; 0: none */
    uint32_t mask_delta_dim; /* its dimension; 0: none */
    uint32_t ncolors;
    uint32_t nfields;
    uint64_t palette[TERP_SPECIALS_MAX_NCOLORS];
    uint64_t values_at; /* where palette or values begin in the stream */
};

/* The arrays in scratch memory. */
struct specials_scratch {
    struct specials_summary *summary;
    struct color_table *tables;
    struct special_segment *segments;
    uint16_t *run_bits; /* bit map: a run of equal values begins */
    uint64_t *batch_at[TERP_SPECIALS_NFIELDS]; /* in the stream */
    uint8_t *width[TERP_SPECIALS_NFIELDS];
    uint32_t *run_begin, *run_end;
    uint64_t max_nruns;
    uint64_t nsegments;
};

/* Thread 0 sets `scratch`, which is in shared memory; the others need a
 * barrier. */
static __device__ void
lay_out(const struct cuda_batch &batch, struct specials_scratch &scratch)
{
    uint8_t *at = region<uint8_t>(batch, batch.at.lattice);
    uint8_t *end = at + batch.npartitions * CUDA_PARTITION_MAX_NBYTES;

    if (threadIdx.x != 0)
        return;
    scratch.nsegments = div_up(batch.nvalues, SPECIALS_SEGMENT_NVALUES);
    scratch.summary = (struct specials_summary *)at;
    at += sizeof *scratch.summary;
    scratch.tables = (struct color_table *)at;
    at += min_u64(scratch.nsegments, SPECIALS_MAX_NBLOCKS) *
          sizeof *scratch.tables;
    scratch.segments = (struct special_segment *)at;
    at += scratch.nsegments * sizeof *scratch.segments;
    scratch.run_bits = (uint16_t *)at;
    at += scratch.nsegments * (SPECIALS_SEGMENT_NVALUES / 8);
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

/* Returns *sum plus the numbers of all threads before this one, and adds the
 * numbers of all threads to *sum. All threads call it together; two barriers.
 */
static __device__ uint64_t
sum_before(uint64_t number, uint64_t *sum)
{
    __shared__ struct block_scan<unsigned long long, SPECIALS_WRITE_NTHREADS>
        s_scan;
    unsigned long long all;

    __syncthreads();
    const unsigned long long before =
        *sum + scan_block(s_scan, (unsigned long long)number, &all);
    *sum += all;
    return before;
}
