/* Reads the runs of special values that overlap a block's share of a chunk.
 * cuda_model_read has checked the section before and has left its batches of
 * groups in the region `runs`. */
#pragma once

#include "gpu/block/scan.cuh"

#include "gpu/sections/specials.cuh"

/* Threads of a block, and runs of a batch that a thread reads. */
#define SPECIALS_READ_NTHREADS 512
#define SPECIALS_READ_NRUNS (SPECIALS_BATCH_NRUNS / SPECIALS_READ_NTHREADS)

/* Values of a share, which one block owns: 32, a word of the mask, for each
 * thread. */
#define SPECIALS_SHARE_NVALUES 16384

/* The section and a share of the block's chunk. */
struct specials_view {
    const uint8_t *stream;
    const struct specials_batch *batches;
    struct specials_head head;
    uint64_t nbatches;
    uint64_t raw_at;     /* the palette, or all special values */
    uint64_t begin, end; /* of the share */
};

/* A thread's consecutive runs of a batch. Runs that do not exist have length
 * 0. */
struct specials_own_runs {
    uint64_t begin[SPECIALS_READ_NRUNS], length[SPECIALS_READ_NRUNS];
    uint64_t color[SPECIALS_READ_NRUNS];
};

static __device__ inline void
specials_view_move(const struct cuda_batch &batch, uint64_t share,
                   struct specials_view &view)
{
    view.begin = share * SPECIALS_SHARE_NVALUES;
    view.end = min_u64(view.begin + SPECIALS_SHARE_NVALUES, batch.nvalues);
}

/* The view of a share; the chunk must have special values. */
static __device__ inline struct specials_view
specials_view_of(const struct cuda_batch &batch, const struct cuda_chunk &chunk,
                 uint64_t share)
{
    struct specials_view view;

    view.stream = (const uint8_t *)chunk.src;
    specials_read_head(view.stream, chunk.model_end, chunk.specials_end,
                       batch.d_layout, &view.head);
    view.batches = region<struct specials_batch>(batch, batch.at.runs);
    view.nbatches = div_up(view.head.nruns, SPECIALS_BATCH_NRUNS);
    view.raw_at = chunk.specials_end - (uint64_t)batch.own_nbytes *
                                           (view.head.ncolors == 0
                                                ? chunk.nspecials
                                                : (uint64_t)view.head.ncolors);
    specials_view_move(batch, share, view);
    return view;
}

/* The first batch that may have a run in the share. Runs are in order, so all
 * batches before it end before the share. */
static __device__ inline uint64_t
specials_first_batch(const struct specials_view &view)
{
    uint64_t low = 0, high = view.nbatches;

    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (view.batches[middle].end <= view.begin)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Replaces each of a thread's numbers by the sum of all numbers before it,
 * those of earlier threads included. Returns the sum of all. All threads call
 * it together; two barriers. */
static __device__ inline unsigned long long
specials_sums_before(unsigned long long (&numbers)[SPECIALS_READ_NRUNS])
{
    __shared__ block_scan<unsigned long long, SPECIALS_READ_NTHREADS> s_scan;
    unsigned long long own = 0, all;

    for (int i = 0; i < SPECIALS_READ_NRUNS; i++)
        own += numbers[i];
    __syncthreads();
    unsigned long long before = scan_block(s_scan, own, &all);
    for (int i = 0; i < SPECIALS_READ_NRUNS; i++) {
        const unsigned long long number = numbers[i];
        numbers[i] = before;
        before += number;
    }
    return all;
}

/* Reads the runs of batch `i`; each thread gets its own. All threads call it
 * together. */
static __device__ inline void
specials_read_runs(const struct specials_view &view, uint64_t i,
                   struct specials_own_runs &runs)
{
    __shared__ uint64_t
        s_group_at[TERP_SPECIALS_NFIELDS][SPECIALS_BATCH_NGROUPS];
    const struct specials_batch &batch = view.batches[i];
    uint64_t left = view.head.nruns - i * SPECIALS_BATCH_NRUNS;
    uint64_t number[SPECIALS_READ_NRUNS][TERP_SPECIALS_NFIELDS] = {};
    unsigned long long sum[SPECIALS_READ_NRUNS];
    unsigned first = threadIdx.x * SPECIALS_READ_NRUNS;
    unsigned group = threadIdx.x % SPECIALS_BATCH_NGROUPS;
    int own_field = (int)threadIdx.x / SPECIALS_BATCH_NGROUPS;

    __syncthreads();
    if (own_field < view.head.nfields)
        s_group_at[own_field][group] =
            specials_group_at(batch, own_field, group);
    __syncthreads();
    for (int k = 0; k < SPECIALS_READ_NRUNS; k++) {
        bool is_there = first + k < left;
        group = (first + k) / TERP_SPECIALS_GROUP_NNUMBERS;
        for (int field = 0; is_there && field < view.head.nfields; field++)
            number[k][field] =
                specials_number(view.stream, s_group_at[field][group],
                                batch.width[field][group],
                                (first + k) % TERP_SPECIALS_GROUP_NNUMBERS);
        runs.length[k] = is_there ? number[k][TERP_SPECIALS_MORE] + 1 : 0;
        runs.color[k] = number[k][TERP_SPECIALS_COLOR];
        sum[k] = runs.length[k] + number[k][TERP_SPECIALS_GAP];
    }
    specials_sums_before(sum);
    for (int k = 0; k < SPECIALS_READ_NRUNS; k++)
        runs.begin[k] = batch.end + sum[k] + number[k][TERP_SPECIALS_GAP];
}
