/* The lossless prediction when decoding: turns differences, which are in the
 * region `work` in C order, into quants, and these into values. Differences may
 * have been taken twice along a dimension. They are then summed up twice: first
 * from the second point of each line on, then from the first. Special points
 * count as 0 both times. */
#include "gpu/predict/lossless.cuh"

#include "gpu/predict/lorenzo_shape.cuh"

/* Running sums of a line or row. */
template <typename W> struct line_sums {
    W second, first; /* of second differences, and of first differences */
};

/* ---- rows ---- */

/* The sums that a launch makes, if the chunk needs them. Rows of several
 * segments take one launch for each, since each needs the sums of the segments
 * before. */
enum {
    SUM_SECOND = 1, /* of second differences */
    SUM_FIRST = 2
};

static __device__ __forceinline__ unsigned
sums_of_rows(const struct cuda_batch &batch, const struct cuda_chunk &chunk,
             unsigned asked)
{
    const int order =
        batch.d_layout->dims[0] > 1 ? lossless_order(chunk, 0) : 0;

    return asked & (order > 1 ? SUM_SECOND | SUM_FIRST
                    : order   ? (unsigned)SUM_FIRST
                              : 0u);
}

/* Returns the summand at x of a row. Sums of second differences leave out the
 * first point of a row. */
template <typename T>
static __device__ __forceinline__ word_of<T>
summand_at(const uint32_t *mask, const word_of<T> *quants,
           const struct segment &segment, uint64_t x, unsigned sums)
{
    const uint64_t at = segment.at + x;
    const bool counts = (mask == nullptr || !is_set(mask, at)) &&
                        !(sums & SUM_SECOND && x == 0);

    return counts ? quants[at] : 0;
}

/* Finds the sum of each segment, if rows have several. `asked`: the sums that
 * the launch makes, SUM_SECOND or SUM_FIRST. Grid: x = blocks of segments,
 * nblocks_for of them at a time, y = chunks. A warp owns a segment. No shared
 * memory. */
template <typename T>
static __global__ void
__launch_bounds__(LORENZO_NTHREADS)
    lossless_sum_segments(const struct cuda_batch batch, unsigned asked)
{
    const struct cuda_chunk &chunk = begin_chunk(batch);
    struct segment segment;

    if (!chunk_is_lossless(chunk) || !sums_of_rows(batch, chunk, asked))
        return;
    const uint32_t *mask = lossless_mask(batch, chunk);
    const word_of<T> *quants = region<word_of<T>>(batch, batch.at.work);
    word_of<T> *sums = region<word_of<T>>(batch, batch.at.staging);
    for (uint64_t block = blockIdx.x;
         find_segment(batch.d_layout, block, &segment); block += gridDim.x) {
        word_of<T> sum = 0;
        for (uint64_t i = threadIdx.x % 32; i < segment.nx; i += 32)
            sum += summand_at<T>(mask, quants, segment, segment.x + i, asked);
        sum = warp_sum(sum);
        if (threadIdx.x % 32 == 0)
            sums[block * LORENZO_NWARPS + threadIdx.x / 32] = sum;
    }
}

/* Turns the sums of segments into sums of all segments before. Grid: x =
 * nblocks_of_rows, y = chunks. A warp owns a row. No shared memory. */
template <typename T>
static __global__ void
__launch_bounds__(LORENZO_NTHREADS)
    lossless_scan_segments(const struct cuda_batch batch, unsigned asked)
{
    const struct cuda_chunk &chunk = begin_chunk(batch);

    if (chunk_is_lossless(chunk) && sums_of_rows(batch, chunk, asked))
        scan_segments(batch.d_layout,
                      region<word_of<T>>(batch, batch.at.staging));
}

/* Sums along dimension 0. Grid: x = blocks of segments, nblocks_for of them at
 * a time, y = chunks. A warp owns a segment, a lane every 32nd value of it. No
 * shared memory; lanes exchange sums by shuffles. */
template <typename T>
static __global__ void
__launch_bounds__(LORENZO_NTHREADS)
    lossless_sum_rows(const struct cuda_batch batch, unsigned asked)
{
    const struct cuda_chunk &chunk = begin_chunk(batch);
    const unsigned lane = threadIdx.x % 32;
    struct segment segment;

    if (!chunk_is_lossless(chunk))
        return;
    const unsigned todo = sums_of_rows(batch, chunk, asked);
    const bool is_split = nsegments_of(batch.d_layout) > 1;
    const uint32_t *mask = lossless_mask(batch, chunk);
    const word_of<T> *sums = region<word_of<T>>(batch, batch.at.staging);
    word_of<T> *quants = region<word_of<T>>(batch, batch.at.work);
    if (todo == 0)
        return;
    for (uint64_t block = blockIdx.x;
         find_segment(batch.d_layout, block, &segment); block += gridDim.x) {
        const word_of<T> before =
            is_split ? sums[block * LORENZO_NWARPS + threadIdx.x / 32] : 0;
        struct line_sums<word_of<T>> carry = {
            before, before
        };
        for (uint64_t first = 0; first < segment.nx; first += 32) {
            const uint64_t x = segment.x + first + lane;
            const bool exists = first + lane < segment.nx;
            const bool special =
                exists && mask != nullptr && is_set(mask, segment.at + x);
            const word_of<T> own = exists ? quants[segment.at + x] : 0;
            word_of<T> sum = special ? 0 : own;
            if (todo & SUM_SECOND) {
                const word_of<T> head = x == 0 ? sum : 0;
                sum = warp_inclusive_sum(sum - head) + carry.second;
                carry.second = __shfl_sync(FULL_WARP_MASK, sum, 31);
                sum = x == 0 ? head : special ? 0 : sum;
            }
            if (todo & SUM_FIRST) {
                sum = warp_inclusive_sum(sum) + carry.first;
                carry.first = __shfl_sync(FULL_WARP_MASK, sum, 31);
            }
            if (exists)
                quants[segment.at + x] = sum;
        }
    }
}

static void
sum_rows(struct stage_launches &launches, unsigned asked)
{
    const struct cuda_batch *batch = launches.batch;
    const struct terp_layout *layout = batch->h_layout;
    const unsigned nblocks = nblocks_for(batch, nblocks_of_segments(layout));

    if (nsegments_of(layout) > 1) {
        launches.add_typed(lossless_sum_segments<float>,
                           lossless_sum_segments<double>, nblocks,
                           LORENZO_NTHREADS, asked);
        launches.add_typed(lossless_scan_segments<float>,
                           lossless_scan_segments<double>,
                           nblocks_of_rows(layout), LORENZO_NTHREADS, asked);
    }
    launches.add_typed(lossless_sum_rows<float>, lossless_sum_rows<double>,
                       nblocks, LORENZO_NTHREADS, asked);
}

/* ---- lines ---- */

template <typename W, bool twice, bool masked>
static __device__ __forceinline__ void
sum_line(const struct line &line, const uint32_t *mask, W *quants)
{
    struct line_sums<W> sums = {
        0, 0
    };
    uint64_t at = line.at;

#pragma unroll 8
    for (uint64_t i = 0; i < line.extent; i++, at += line.stride) {
        const bool special = masked && is_set(mask, at);
        const W own = special ? 0 : quants[at];
        if (twice && i > 0)
            sums.second += own;
        sums.first += !twice || i == 0 ? own : special ? 0 : sums.second;
        quants[at] = sums.first;
    }
}

/* Sums along dimension d above 0. Grid: x = blocks_of_lines, y = chunks. A
 * thread owns whole lines. No shared memory. */
template <typename T>
static __global__ void
__launch_bounds__(LORENZO_NTHREADS)
    lossless_sum_lines(const struct cuda_batch batch, int d)
{
    const struct cuda_chunk &chunk = begin_chunk(batch);
    struct line line;

    if (!chunk_is_lossless(chunk) || lossless_order(chunk, d) == 0)
        return;
    const bool twice = lossless_order(chunk, d) > 1;
    const uint32_t *mask = lossless_mask(batch, chunk);
    word_of<T> *quants = region<word_of<T>>(batch, batch.at.work);
    for (uint64_t number = line_of_thread();
         find_line(batch.d_layout, d, number, &line);
         number += lines_at_once()) {
        if (twice && mask != nullptr)
            sum_line<word_of<T>, true, true>(line, mask, quants);
        else if (twice)
            sum_line<word_of<T>, true, false>(line, mask, quants);
        else if (mask != nullptr)
            sum_line<word_of<T>, false, true>(line, mask, quants);
        else
            sum_line<word_of<T>, false, false>(line, mask, quants);
    }
}

/* ---- quants to values ---- */

/* Turns quants into values, for models without remainders. The stage of
 * remainders makes the values of the others. Grid: x = shares of values, y =
 * chunks. A thread owns every gridDim.x * LORENZO_NTHREADS-th value. No shared
 * memory. */
template <typename T>
static __global__ void
__launch_bounds__(LORENZO_NTHREADS)
    lossless_restore(const struct cuda_batch batch)
{
    const struct cuda_chunk &chunk = begin_chunk(batch);

    if (!chunk_is_lossless(chunk) ||
        chunk.model.lossless.form == TERP_LOSSLESS_REMAINDERS)
        return;
    const struct lossless_quants<T> k = quants_of_model<T>(chunk);
    const word_of<T> center = (word_of<T>)chunk.model.lossless.center;
    const word_of<T> *quants = region<word_of<T>>(batch, batch.at.work);
    T *values = (T *)chunk.dst;
    for (uint64_t i = line_of_thread(); i < batch.nvalues; i += lines_at_once())
        values[i] = value_of_lossless<T>((int_of<T>)(quants[i] + center), 0, k);
}

cudaError_t
cuda_lossless_reconstruct(const struct cuda_batch *batch, cudaStream_t stream)
{
    const struct terp_layout *layout = batch->h_layout;
    const bool is_split = nsegments_of(layout) > 1;
    struct stage_launches launches = {batch, stream};

    if (!batch->may_be_lossless)
        return cudaSuccess;
    if (is_split)
        sum_rows(launches, SUM_SECOND);
    if (layout->dims[0] > 1)
        sum_rows(launches, is_split ? SUM_FIRST : SUM_SECOND | SUM_FIRST);
    for (int d = 1; d < TERP_NDIMS; d++)
        if (layout->dims[d] > 1)
            launches.add_typed(lossless_sum_lines<float>,
                               lossless_sum_lines<double>,
                               blocks_of_lines(batch, d), LORENZO_NTHREADS, d);
    launches.add_typed(
        lossless_restore<float>, lossless_restore<double>,
        nblocks_for(batch, div_up(batch->nvalues, LORENZO_NTHREADS)),
        LORENZO_NTHREADS);
    return launches.error;
}
