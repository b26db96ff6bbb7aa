/* The scratch memory of writing special values: what its steps tell each other
 * and where that stands in the region `lattice`; and what more than one step
 * does with it. gpu/sections/specials_write.cu says what the steps are. */
#pragma once

#include "gpu/block/scan.cuh"

#include "gpu/sections/mask_pieces.cuh"
#include "gpu/sections/specials.cuh"

#define SPECIALS_WRITE_NTHREADS 1024
#define SPECIALS_WRITE_NWARPS (SPECIALS_WRITE_NTHREADS / 32)

/* Values that a thread has at a time, and those that its block has. */
#define SPECIALS_NITEMS 16
#define SPECIALS_SEGMENT_NVALUES (SPECIALS_WRITE_NTHREADS * SPECIALS_NITEMS)

/* Groups of numbers that a block measures or packs at a time. */
#define SPECIALS_PACK_NGROUPS 64
#define SPECIALS_PACK_NRUNS \
    (SPECIALS_PACK_NGROUPS * TERP_SPECIALS_GROUP_NNUMBERS)

/* A single block does all steps of a chunk of no more segments than this. A
 * larger chunk has at most as many blocks as a large device runs at once, so
 * that they are soon gone where there is nothing to do. */
#ifndef CUDA_SINGLE_BLOCK_MAX_NSEGMENTS
#define CUDA_SINGLE_BLOCK_MAX_NSEGMENTS 32
#endif
#define SPECIALS_MAX_NBLOCKS 264

/* Colors in the order in which a block met them, and where each is first. */
struct color_table {
    uint32_t ncolors; /* one more than there may be: too many */
    uint64_t color[TERP_SPECIALS_MAX_NCOLORS];
    uint64_t first[TERP_SPECIALS_MAX_NCOLORS];
};

/* Kinds of runs that are counted: of special values, of equal ones, and of the
 * mask delta of dimension d, which is RUNS_COLOR + d. */
enum {
    RUNS_SPECIAL,
    RUNS_COLOR,
    RUNS_NKINDS = RUNS_COLOR + 1 + TERP_NDIMS
};

/* What is known of a segment of the chunk. */
struct segment {
    uint64_t run_at, special_at; /* runs and special values before it */
    uint32_t nruns[RUNS_NKINDS];
    uint32_t nspecials;
};

/* What is known of the section as a whole. */
struct specials_summary {
    uint64_t nruns;
    uint64_t mask_delta;     /* its distance; 0: none */
    uint32_t mask_delta_dim; /* 0: none */
    uint32_t ncolors;
    uint32_t nfields;
    uint64_t palette[TERP_SPECIALS_MAX_NCOLORS];
    uint64_t values_at; /* of the palette or the values, in the stream */
};

/* Where all of this stands. */
struct specials_scratch {
    struct specials_summary *summary;
    struct color_table *tables;
    struct segment *segments;
    uint16_t *run_bits; /* bit map: runs of equal values begin */
    uint64_t *batch_at[TERP_SPECIALS_NFIELDS]; /* in the stream */
    uint8_t *width[TERP_SPECIALS_NFIELDS];
    uint32_t *run_begin, *run_end;
    uint64_t max_nruns;
    uint64_t nsegments;
};

/* The first thread finds out where all stands; `scratch` is in shared memory,
 * for all threads. */
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
    scratch.segments = (struct segment *)at;
    at += scratch.nsegments * sizeof *scratch.segments;
    scratch.run_bits = (uint16_t *)at;
    at += scratch.nsegments * (SPECIALS_SEGMENT_NVALUES / 8);
    /* A run takes its begin and its end; a batch of groups the width of each
     * group and its own place in the stream, for each field. */
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

/* The sum of *sum and of the numbers of all threads before this one. *sum grows
 * by the numbers of all threads. */
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
