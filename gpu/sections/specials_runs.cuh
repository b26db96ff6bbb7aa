/* The runs of special values as blocks look for those in their share
 * of a chunk. cuda_model_read has walked over the section, found that it is
 * sound, and left its batches in the region `runs`. */
#ifndef TERP_GPU_SECTIONS_SPECIALS_RUNS_CUH
#define TERP_GPU_SECTIONS_SPECIALS_RUNS_CUH

#include <cub/cub.cuh>

#include "gpu/sections/specials.cuh"

#define SPECIALS_NTHREADS 512
#define SPECIALS_NRUNS (SPECIALS_BATCH_NRUNS / SPECIALS_NTHREADS)

/* Values that a block owns. */
#define SPECIALS_SHARE_NVALUES 16384

/* A block's view of its chunk. */
struct specials_view {
    const uint8_t *stream;
    const struct specials_batch *batches;
    struct specials_head head;
    uint64_t nbatches;
    uint64_t words_at;   /* palette or all values */
    uint64_t begin, end; /* of the share */
};

/* A thread's runs of a batch, in a row. Those that are not there have no
 * length. */
struct specials_own_runs {
    uint64_t begin[SPECIALS_NRUNS], length[SPECIALS_NRUNS];
    uint64_t color[SPECIALS_NRUNS];
};

/* Of a chunk with special values. */
static __device__ inline struct specials_view
specials_view_of(const struct cuda_batch &batch, const struct cuda_chunk &chunk,
                 uint64_t share)
{
    struct specials_view view;

    view.stream = (const uint8_t *)chunk.src;
    specials_read_head(view.stream, chunk.model_end, chunk.specials_end,
                       batch.d_layout, &view.head);
    view.batches =
        region<struct specials_batch>(batch, blockIdx.y, batch.at.runs);
    view.nbatches = div_up(view.head.nruns, SPECIALS_BATCH_NRUNS);
    view.words_at = chunk.specials_end -
                    (uint64_t)batch.value_nbytes *
                        (view.head.ncolors == 0 ? chunk.nspecials
                                                : (uint64_t)view.head.ncolors);
    view.begin = share * SPECIALS_SHARE_NVALUES;
    view.end = min_u64(view.begin + SPECIALS_SHARE_NVALUES, batch.nvalues);
    return view;
}

/* Batches have their runs in order: the last one that may reach the share. */
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

/* Sums before each of a thread's numbers, and of all. */
static __device__ inline unsigned long long
specials_sums_before(unsigned long long (&numbers)[SPECIALS_NRUNS])
{
    typedef cub::BlockScan<unsigned long long, SPECIALS_NTHREADS,
                           cub::BLOCK_SCAN_WARP_SCANS>
        sum_scan;
    __shared__ typename sum_scan::TempStorage s_scan;
    unsigned long long all;

    __syncthreads();
    sum_scan(s_scan).ExclusiveSum(numbers, numbers, all);
    return all;
}

/* The runs of batch `i`. */
static __device__ inline void
specials_read_runs(const struct specials_view &view, uint64_t i,
                   struct specials_own_runs &runs)
{
    __shared__ uint64_t s_group_at[SPECIALS_NFIELDS][SPECIALS_BATCH_NGROUPS];
    const struct specials_batch &batch = view.batches[i];
    uint64_t left = view.head.nruns - i * SPECIALS_BATCH_NRUNS;
    uint64_t number[SPECIALS_NRUNS][SPECIALS_NFIELDS] = {};
    unsigned long long sum[SPECIALS_NRUNS];
    unsigned first = threadIdx.x * SPECIALS_NRUNS;
    unsigned group = threadIdx.x % SPECIALS_BATCH_NGROUPS;
    int own_field = (int)threadIdx.x / SPECIALS_BATCH_NGROUPS;

    __syncthreads();
    if (own_field < view.head.nfields)
        s_group_at[own_field][group] =
            specials_group_at(batch, own_field, group);
    __syncthreads();
    for (int k = 0; k < SPECIALS_NRUNS; k++) {
        bool is_there = first + k < left;
        group = (first + k) / SPECIALS_GROUP_NNUMBERS;
        for (int field = 0; is_there && field < view.head.nfields; field++)
            number[k][field] =
                specials_number(view.stream, s_group_at[field][group],
                                batch.width[field][group],
                                (first + k) % SPECIALS_GROUP_NNUMBERS);
        runs.length[k] = is_there ? number[k][SPECIALS_MORE] + 1 : 0;
        runs.color[k] = number[k][SPECIALS_COLOR];
        sum[k] = runs.length[k] + number[k][SPECIALS_GAP];
    }
    specials_sums_before(sum);
    for (int k = 0; k < SPECIALS_NRUNS; k++)
        runs.begin[k] = batch.end + sum[k] + number[k][SPECIALS_GAP];
}

#endif
