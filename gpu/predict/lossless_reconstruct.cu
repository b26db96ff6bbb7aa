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

/* The sums that a launch makes, if the chunk needs them. If rows have several
 * segments, or lines several stretches, each of the two sums takes a launch of
 * its own, since it needs the sums of the segments before. */
enum {
    SUM_SECOND = 1, /* of second differences */
    SUM_FIRST = 2
};

static __device__ __forceinline__ unsigned
sums_along(const struct cuda_batch &batch, const struct cuda_chunk &chunk,
           int d, unsigned launched)
{
    const int order =
        batch.d_layout->dims[d] > 1 ? lossless_order(chunk, d) : 0;

    return launched & (order > 1 ? SUM_SECOND | SUM_FIRST
                       : order   ? (unsigned)SUM_FIRST
                                 : 0u);
}

/* Turns the sum of each segment or stretch into the sum of all segments or
 * stretches before it in its row or line. Grid: x = nblocks_of_rows, y =
 * chunks. A warp owns a row or line. No shared memory. */
template <typename T>
static __global__ void
__launch_bounds__(LORENZO_NTHREADS)
    lossless_scan_segments(const struct cuda_batch batch, int d,
                           unsigned launched)
{
    const struct cuda_chunk &chunk = begin_chunk(batch);

    if (chunk_is_lossless(chunk) && sums_along(batch, chunk, d, launched))
        scan_segments(batch, d, region<word_of<T>>(batch, batch.at.staging));
}

/* ---- rows ---- */

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

/* Finds the sum of each segment, if rows have several. `launched`: the sums
 * that the launch makes, SUM_SECOND or SUM_FIRST. Grid: x = blocks of segments,
 * nblocks_for of them at a time, y = chunks. A warp owns a segment. No shared
 * memory. */
template <typename T>
static __global__ void
__launch_bounds__(LORENZO_NTHREADS)
    lossless_sum_segments(const struct cuda_batch batch, unsigned launched)
{
    const struct cuda_chunk &chunk = begin_chunk(batch);
    struct segment segment;

    if (!chunk_is_lossless(chunk) || !sums_along(batch, chunk, 0, launched))
        return;
    const uint32_t *mask = lossless_mask(batch, chunk);
    const word_of<T> *quants = region<word_of<T>>(batch, batch.at.work);
    word_of<T> *sums = region<word_of<T>>(batch, batch.at.staging);
    for (uint64_t block = blockIdx.x;
         find_segment(batch.d_layout, block, &segment); block += gridDim.x) {
        word_of<T> sum = 0;
        for (uint64_t i = segment.lane; i < segment.nx; i += 32)
            sum +=
                summand_at<T>(mask, quants, segment, segment.x + i, launched);
        sum = warp_sum(sum);
        if (threadIdx.x % 32 == 0)
            sums[block * LORENZO_NWARPS + threadIdx.x / 32] = sum;
    }
}

/* Sums along dimension 0. Grid: x = blocks of segments, nblocks_for of them at
 * a time, y = chunks. A warp owns a segment, a lane every 32nd value of it. No
 * shared memory; lanes exchange sums by shuffles. */
template <typename T>
static __global__ void
__launch_bounds__(LORENZO_NTHREADS)
    lossless_sum_rows(const struct cuda_batch batch, unsigned launched)
{
    const struct cuda_chunk &chunk = begin_chunk(batch);
    struct segment segment;

    if (!chunk_is_lossless(chunk))
        return;
    const unsigned todo = sums_along(batch, chunk, 0, launched);
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
        line_sums<word_of<T>> carry = {before, before};
        for (uint64_t first = 0; first < segment.nx; first += 32) {
            const uint64_t x = segment.x + first + segment.lane;
            const bool exists = first + segment.lane < segment.nx;
            const bool special =
                exists && mask != nullptr && is_set(mask, segment.at + x);
            const word_of<T> own = exists ? quants[segment.at + x] : 0;
            word_of<T> sum = special ? 0 : own;
            if (todo & SUM_SECOND) {
                const word_of<T> head = x == 0 ? sum : 0;
                sum = sum_in_row(batch.d_layout, segment, sum - head) +
                      carry.second;
                carry.second = __shfl_sync(FULL_WARP_MASK, sum, 31);
                sum = x == 0 ? head : special ? 0 : sum;
            }
            if (todo & SUM_FIRST) {
                sum = sum_in_row(batch.d_layout, segment, sum) + carry.first;
                carry.first = __shfl_sync(FULL_WARP_MASK, sum, 31);
            }
            if (exists)
                quants[segment.at + x] = sum;
        }
    }
}

static void
sum_rows(struct stage_launches &launches, int d, unsigned launched)
{
    const struct cuda_batch *batch = launches.batch;
    const struct terp_layout *layout = batch->h_layout;
    const unsigned nblocks = nblocks_for(batch, nblocks_of_segments(layout));

    if (nsegments_of(layout) > 1) {
        launches.add_typed(CUDA_TYPED(lossless_sum_segments), nblocks,
                           LORENZO_NTHREADS, launched);
        launches.add_typed(CUDA_TYPED(lossless_scan_segments),
                           nblocks_of_rows(layout, d), LORENZO_NTHREADS, d,
                           launched);
    }
    launches.add_typed(CUDA_TYPED(lossless_sum_rows), nblocks, LORENZO_NTHREADS,
                       launched);
}

/* ---- lines ---- */

/* Finds the sum of each stretch. Runs only if lines have several stretches.
 * Special points count as 0, and sums of second differences leave out the first
 * point of a line. Grid: x = blocks_of_lines, y = chunks. A thread owns whole
 * stretches. No shared memory. */
template <typename T>
static __global__ void
__launch_bounds__(LORENZO_NTHREADS)
    lossless_sum_stretches(const struct cuda_batch batch, int d,
                           unsigned launched)
{
    const struct cuda_chunk &chunk = begin_chunk(batch);
    struct line line;

    if (!chunk_is_lossless(chunk) || !sums_along(batch, chunk, d, launched))
        return;
    const uint32_t *mask = lossless_mask(batch, chunk);
    const word_of<T> *quants = region<word_of<T>>(batch, batch.at.work);
    word_of<T> *sums = region<word_of<T>>(batch, batch.at.staging);
    const uint64_t nvalues = stretch_nvalues(batch, batch.d_layout, d);
    for (uint64_t number = line_of_thread();
         find_line(batch.d_layout, d, nvalues, number, &line);
         number += lines_at_once()) {
        const word_of<T> head =
            launched & SUM_SECOND && line.first == 0 &&
                    !(mask != nullptr && is_set(mask, line.at))
                ? quants[line.at]
                : 0;
        sums[line.number] = sum_of_line(line, mask, quants) - head;
    }
}

/* Sums along a stretch. `todo`: the sums to make, of SUM_SECOND and SUM_FIRST.
 * `before`: the sum of all stretches before this one, or 0 if a line is one
 * stretch. */
template <typename W, unsigned todo, bool masked>
static __device__ __forceinline__ void
sum_line(const struct line &line, const uint32_t *mask, W before, W *quants)
{
    line_sums<W> sums = {before, todo & SUM_SECOND ? 0 : before};
    uint64_t at = line.at;

#pragma unroll 8
    for (uint64_t i = 0; i < line.extent; i++, at += line.stride) {
        const bool special = masked && is_set(mask, at);
        W own = special ? 0 : quants[at];
        if (todo & SUM_SECOND && line.first + i > 0) {
            sums.second += own;
            own = special ? 0 : sums.second;
        }
        if (todo & SUM_FIRST) {
            sums.first += own;
            own = sums.first;
        }
        quants[at] = own;
    }
}

template <typename W, bool masked>
static __device__ __forceinline__ void
sum_line_by(unsigned todo, const struct line &line, const uint32_t *mask,
            W before, W *quants)
{
    if (todo == SUM_SECOND)
        sum_line<W, SUM_SECOND, masked>(line, mask, before, quants);
    else if (todo == SUM_FIRST)
        sum_line<W, SUM_FIRST, masked>(line, mask, before, quants);
    else
        sum_line<W, SUM_SECOND | SUM_FIRST, masked>(line, mask, before, quants);
}

/* Sums along dimension d above 0. Grid: x = blocks_of_lines, y = chunks. A
 * thread owns whole stretches. No shared memory. */
template <typename T>
static __global__ void
__launch_bounds__(LORENZO_NTHREADS)
    lossless_sum_lines(const struct cuda_batch batch, int d, unsigned launched)
{
    const struct cuda_chunk &chunk = begin_chunk(batch);
    struct line line;

    if (!chunk_is_lossless(chunk))
        return;
    const unsigned todo = sums_along(batch, chunk, d, launched);
    const bool is_cut = nstretches_of(batch, batch.d_layout, d) > 1;
    const uint32_t *mask = lossless_mask(batch, chunk);
    const word_of<T> *sums = region<word_of<T>>(batch, batch.at.staging);
    word_of<T> *quants = region<word_of<T>>(batch, batch.at.work);
    if (todo == 0)
        return;
    const uint64_t nvalues = stretch_nvalues(batch, batch.d_layout, d);
    for (uint64_t number = line_of_thread();
         find_line(batch.d_layout, d, nvalues, number, &line);
         number += lines_at_once()) {
        const word_of<T> before = is_cut ? sums[line.number] : 0;
        if (mask != nullptr)
            sum_line_by<word_of<T>, true>(todo, line, mask, before, quants);
        else
            sum_line_by<word_of<T>, false>(todo, line, mask, before, quants);
    }
}

static void
sum_lines(struct stage_launches &launches, int d, unsigned launched)
{
    const struct cuda_batch *batch = launches.batch;
    const struct terp_layout *layout = batch->h_layout;

    if (nstretches_of(*batch, layout, d) > 1) {
        launches.add_typed(CUDA_TYPED(lossless_sum_stretches),
                           blocks_of_lines(batch, d), LORENZO_NTHREADS, d,
                           launched);
        launches.add_typed(CUDA_TYPED(lossless_scan_segments),
                           nblocks_of_rows(layout, d), LORENZO_NTHREADS, d,
                           launched);
    }
    launches.add_typed(CUDA_TYPED(lossless_sum_lines),
                       blocks_of_lines(batch, d), LORENZO_NTHREADS, d,
                       launched);
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
    const lossless_quants<T> k = quants_of_model<T>(chunk);
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
    struct stage_launches launches = {batch, stream};

    for (int d = 0; d < TERP_NDIMS; d++) {
        const bool is_cut = (d == 0 ? nsegments_of(layout)
                                    : nstretches_of(*batch, layout, d)) > 1;
        auto *const sum = d == 0 ? sum_rows : sum_lines;
        if (layout->dims[d] == 1)
            continue;
        if (is_cut)
            sum(launches, d, SUM_SECOND);
        sum(launches, d, is_cut ? SUM_FIRST : SUM_SECOND | SUM_FIRST);
    }
    launches.add_typed(
        CUDA_TYPED(lossless_restore),
        nblocks_for(batch, div_up(batch->nvalues, LORENZO_NTHREADS)),
        LORENZO_NTHREADS);
    return launches.error;
}
