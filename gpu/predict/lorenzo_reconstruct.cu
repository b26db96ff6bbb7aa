/* The Lorenzo predictor when decoding: turns symbols into differences, which
 * are in the region `work` in C order, and their sums into values. */
#include "gpu/predict/lorenzo_shape.cuh"

/* ---- means ---- */

/* Returns the number of groups of 32 lines; the warps of a block share a group.
 */
static uint64_t
nblocks_of_means(const struct terp_layout *layout)
{
    return div_up(layout->nvalues / layout->dims[terp_means_dim(layout)], 32);
}

/* Returns a difference from its code and its tail. The tail is where the
 * difference will be. */
template <typename T>
static __device__ __forceinline__ word_of<T>
difference_of(int code, int tail_nbits, const word_of<T> *tail)
{
    const word_of<T> word = (word_of<T>)(int_of<T>)code;
    return tail_nbits == 0 ? word : (word << tail_nbits) + *tail;
}

/* Stores the differences of the symbols of a line's points. The warps of a
 * block take points in turns. Escapes are already stored. */
template <typename T>
static __device__ __forceinline__ void
place_symbols(const struct terp_layout *layout, const uint16_t *symbols,
              int radius, int tail_nbits, const struct line &line, int d,
              word_of<T> *quants)
{
    uint64_t coordinate[TERP_NDIMS], left = line.at;

    for (int e = 0; e < TERP_NDIMS; e++)
        coordinate[e] = split(&left, layout->dims[e]);
    for (uint64_t i = threadIdx.x / 32; i < line.extent; i += LORENZO_NWARPS) {
        for (int e = 1; e < TERP_NDIMS; e++)
            coordinate[e] = e == d ? i : coordinate[e];
        const struct tiled_row row =
            tiled_row_at(layout->rank, layout->dims, coordinate, left);
        const unsigned symbol = symbols[tiled_at(
            row, layout->rank, layout->dims[0], coordinate[0])];
        word_of<T> *quant = quants + line.at + i * line.stride;
        if (symbol != TERP_ESCAPE)
            *quant = difference_of<T>((int)symbol - radius, tail_nbits, quant);
    }
}

/* If means were subtracted, adds them, from coarse steps to fine ones. Grid: x
 * = groups of 32 lines, nblocks_for of them at a time, y = chunks. A lane owns
 * a line; the warps of a block share its points. No shared memory. A barrier
 * separates the steps, because a step reads points that other warps have
 * written in the step before. */
template <typename T>
static __global__ void
__launch_bounds__(LORENZO_NTHREADS)
    lorenzo_add_means(struct cuda_batch batch, int d)
{
    const struct cuda_chunk &chunk = begin_chunk(batch);
    const struct terp_layout *layout = batch.d_layout;
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    struct line line;

    if (!is_predicted_by(chunk, TERP_PREDICTION_LORENZO) ||
        !(chunk.model.lorenzo_dims & TERP_LORENZO_MEANS))
        return;
    const uint64_t nlines = layout->nvalues / layout->dims[d];
    const uint16_t *symbols = region<uint16_t>(batch, batch.at.symbols);
    word_of<T> *quants = region<word_of<T>>(batch, batch.at.work);
    const int radius = terp_radius_of(chunk.model.wide);
    for (uint64_t first = (uint64_t)blockIdx.x * 32; first < nlines;
         first += (uint64_t)gridDim.x * 32) {
        const bool exists =
            find_line(layout, d, layout->dims[d], first + lane, &line);
        if (exists)
            place_symbols<T>(layout, symbols, radius, chunk.model.tail_nbits,
                             line, d, quants);
        for (uint64_t step = terp_means_first_step(line.extent); step > 0;
             step /= 2) {
            __syncthreads();
            for (uint64_t i = step * (2 * warp + 1); exists && i < line.extent;
                 i += step * (2 * LORENZO_NWARPS)) {
                word_of<T> *at = quants + line.at + i * line.stride;
                *at += lorenzo_mean<word_of<T>, false>(at, 0, layout, d, i);
            }
        }
    }
}

/* ---- sums ---- */

/* Returns the dimensions to sum along: the chunk's dimensions with more than
 * one value, except the dimension of means, whose means are added first. */
static __device__ __forceinline__ unsigned
dims_to_sum(const struct cuda_batch &batch, const struct cuda_chunk &chunk)
{
    unsigned dims = 0;
    for (int d = 0; d < TERP_NDIMS; d++)
        if (batch.d_layout->dims[d] > 1)
            dims |= chunk.model.lorenzo_dims & 1u << d;
    return dims & ~(1u << means_dim_of(chunk, batch.d_layout) & ~1u);
}

/* The symbols of a chunk. `at` is NULL if lorenzo_add_means has already turned
 * them into integers. */
struct symbols_to_sum {
    const uint16_t *at;
    int radius, tail_nbits;
};

static __device__ __forceinline__ struct symbols_to_sum
symbols_of(const struct cuda_batch &batch, const struct cuda_chunk &chunk)
{
    return {chunk.model.lorenzo_dims & TERP_LORENZO_MEANS
                ? nullptr
                : region<uint16_t>(batch, batch.at.symbols),
            terp_radius_of(chunk.model.wide), chunk.model.tail_nbits};
}

/* Returns the mask of special points, or NULL if there are none. */
static __device__ __forceinline__ const uint32_t *
mask_of(const struct cuda_batch &batch, const struct cuda_chunk &chunk)
{
    return chunk.has_specials ? region<uint32_t>(batch, batch.at.mask)
                              : nullptr;
}

/* Returns the difference at x of a segment's row; 0 at special points. */
template <typename T>
static __device__ __forceinline__ word_of<T>
difference_at(const struct cuda_batch &batch, const struct segment &segment,
              const uint32_t *mask, const word_of<T> *quants,
              const struct symbols_to_sum &symbols, uint64_t x)
{
    const struct terp_layout *layout = batch.d_layout;
    if (symbols.at == nullptr)
        return quants[segment.at + x];
    if (mask != nullptr && is_set(mask, segment.at + x))
        return 0;
    unsigned symbol =
        symbols.at[tiled_at(segment.tiled, layout->rank, layout->dims[0], x)];
    return symbol == TERP_ESCAPE
               ? quants[segment.at + x]
               : difference_of<T>((int)symbol - symbols.radius,
                                  symbols.tail_nbits, quants + segment.at + x);
}

/* Finds the sum of each segment, if rows have several. Grid: x = blocks of
 * segments, nblocks_for of them at a time, y = chunks. A warp owns a segment.
 * No shared memory. */
template <typename T>
static __global__ void
__launch_bounds__(LORENZO_NTHREADS)
    lorenzo_sum_segments(struct cuda_batch batch)
{
    const struct cuda_chunk &chunk = begin_chunk(batch);
    struct segment segment;

    if (!is_predicted_by(chunk, TERP_PREDICTION_LORENZO) ||
        !(dims_to_sum(batch, chunk) & 1))
        return;
    const uint32_t *mask = mask_of(batch, chunk);
    const word_of<T> *quants = region<word_of<T>>(batch, batch.at.work);
    const struct symbols_to_sum symbols = symbols_of(batch, chunk);
    word_of<T> *sums = region<word_of<T>>(batch, batch.at.staging);
    for (uint64_t block = blockIdx.x;
         find_segment(batch.d_layout, block, &segment); block += gridDim.x) {
        word_of<T> sum = 0;
        for (uint64_t i = segment.lane; i < segment.nx; i += 32)
            sum += difference_at<T>(batch, segment, mask, quants, symbols,
                                    segment.x + i);
        sum = warp_sum(sum);
        if (threadIdx.x % 32 == 0)
            sums[block * (LORENZO_NWARPS) + threadIdx.x / 32] = sum;
    }
}

/* Turns the sum of each segment or stretch into the sum of all segments or
 * stretches before it in its row or line. Grid: x = nblocks_of_rows, y =
 * chunks. A warp owns a row or line. No shared memory. */
template <typename T>
static __global__ void
__launch_bounds__(LORENZO_NTHREADS)
    lorenzo_scan_segments(struct cuda_batch batch, int d)
{
    const struct cuda_chunk &chunk = begin_chunk(batch);

    if (is_predicted_by(chunk, TERP_PREDICTION_LORENZO) &&
        (dims_to_sum(batch, chunk) >> d & 1))
        scan_segments(batch, d, region<word_of<T>>(batch, batch.at.staging));
}

/* Returns the factors of quants that are not exact. */
template <typename T>
static __device__ __forceinline__ constants<T>
constants_of(const struct cuda_chunk &chunk)
{
    return constants_of<T>(chunk.model.step, chunk.bound, TERP_MAX_CODE);
}

/* Turns symbols into sums along dimension 0. K: how quants become values, see
 * value_of_quant. */
template <typename T, typename K>
static __device__ __forceinline__ void
sum_rows(const struct cuda_batch &batch, const struct cuda_chunk &chunk,
         const K &k)
{
    struct segment segment;
    const unsigned dims = dims_to_sum(batch, chunk);
    const uint32_t *mask = mask_of(batch, chunk);
    const bool is_split = (dims & 1) && nsegments_of(batch.d_layout) > 1;
    word_of<T> *quants = region<word_of<T>>(batch, batch.at.work);
    const word_of<T> *sums = region<word_of<T>>(batch, batch.at.staging);
    const struct symbols_to_sum symbols = symbols_of(batch, chunk);
    T *dst = (T *)chunk.dst;

    for (uint64_t block = blockIdx.x;
         find_segment(batch.d_layout, block, &segment); block += gridDim.x) {
        word_of<T> carry =
            is_split ? sums[block * (LORENZO_NWARPS) + threadIdx.x / 32] : 0;
        for (uint64_t first = 0; first < segment.nx; first += 32) {
            bool exists = first + segment.lane < segment.nx;
            uint64_t x = segment.x + first + segment.lane;
            word_of<T> sum = 0;
            if (exists)
                sum =
                    difference_at<T>(batch, segment, mask, quants, symbols, x);
            if (dims & 1) {
                sum = sum_in_row(batch.d_layout, segment, sum) + carry;
                carry = __shfl_sync(FULL_WARP_MASK, sum, 31);
            }
            if (exists && dims >> 1 == 0)
                dst[segment.at + x] = value_of_quant((int_of<T>)sum, k);
            else if (exists)
                quants[segment.at + x] = sum;
        }
    }
}

/* Not inlined, so that the kernel needs fewer registers for other chunks. */
template <typename T>
static __device__ __attribute__((noinline)) void
sum_rows_exactly(const struct cuda_batch &batch, const struct cuda_chunk &chunk)
{
    sum_rows<T>(batch, chunk, exact_quants_of<T>(chunk));
}

/* Turns symbols into sums along dimension 0; into values, if no other dimension
 * follows. Grid: x = blocks of segments, nblocks_for of them at a time, y =
 * chunks. A warp owns a segment, a lane every 32nd value of it. No shared
 * memory; lanes exchange sums by shuffles. */
template <typename T>
static __global__ void
__launch_bounds__(LORENZO_NTHREADS, 5)
    lorenzo_sum_rows(const __grid_constant__ struct cuda_batch batch)
{
    const struct cuda_chunk &chunk = begin_chunk(batch);

    if (!is_predicted_by(chunk, TERP_PREDICTION_LORENZO))
        return;
    if (is_exact(chunk))
        sum_rows_exactly<T>(batch, chunk);
    else
        sum_rows<T>(batch, chunk, constants_of<T>(chunk));
}

/* Finds the sum of each stretch. Runs only if lines have several stretches.
 * Grid: x = blocks_of_lines, y = chunks. A thread owns whole stretches. No
 * shared memory. */
template <typename T>
static __global__ void
__launch_bounds__(LORENZO_NTHREADS)
    lorenzo_sum_stretches(struct cuda_batch batch, int d)
{
    const struct cuda_chunk &chunk = begin_chunk(batch);
    struct line line;

    if (!is_predicted_by(chunk, TERP_PREDICTION_LORENZO) ||
        !(dims_to_sum(batch, chunk) >> d & 1))
        return;
    const word_of<T> *quants = region<word_of<T>>(batch, batch.at.work);
    word_of<T> *sums = region<word_of<T>>(batch, batch.at.staging);
    const uint64_t nvalues = stretch_nvalues(batch, batch.d_layout, d);
    for (uint64_t number = line_of_thread();
         find_line(batch.d_layout, d, nvalues, number, &line);
         number += lines_at_once())
        sums[line.number] = sum_of_line(line, mask_of(batch, chunk), quants);
}

/* Sums up the points of a stretch that are not special, starting from `before`,
 * the sum of all stretches before it. Turns sums into values if no other
 * dimension follows. */
template <typename T, bool masked, typename K>
static __device__ __forceinline__ void
sum_line(const struct line &line, const uint32_t *mask, word_of<T> before,
         word_of<T> *quants, bool is_last, const K &k, T *dst)
{
    uint64_t at = line.at;
    word_of<T> sum = before;
#pragma unroll 8
    for (uint64_t i = 0; i < line.extent; i++, at += line.stride) {
        word_of<T> quant = quants[at];
        sum += masked && is_set(mask, at) ? 0 : quant;
        if (is_last)
            dst[at] = value_of_quant((int_of<T>)sum, k);
        else
            quants[at] = sum;
    }
}

template <typename T, typename K>
static __device__ __forceinline__ void
sum_lines(const struct cuda_batch &batch, const struct cuda_chunk &chunk, int d,
          bool is_last, const K &k)
{
    const uint32_t *mask = mask_of(batch, chunk);
    const bool is_cut = nstretches_of(batch, batch.d_layout, d) > 1;
    const word_of<T> *sums = region<word_of<T>>(batch, batch.at.staging);
    word_of<T> *quants = region<word_of<T>>(batch, batch.at.work);
    T *dst = (T *)chunk.dst;
    struct line line;

    const uint64_t nvalues = stretch_nvalues(batch, batch.d_layout, d);
    for (uint64_t number = line_of_thread();
         find_line(batch.d_layout, d, nvalues, number, &line);
         number += lines_at_once()) {
        const word_of<T> before = is_cut ? sums[line.number] : 0;
        if (mask != nullptr)
            sum_line<T, true>(line, mask, before, quants, is_last, k, dst);
        else
            sum_line<T, false>(line, mask, before, quants, is_last, k, dst);
    }
}

/* Turns sums into values, too. Not inlined, so that the kernel needs fewer
 * registers for other chunks. */
template <typename T>
static __device__ __attribute__((noinline)) void
sum_lines_exactly(const struct cuda_batch &batch,
                  const struct cuda_chunk &chunk, int d)
{
    sum_lines<T>(batch, chunk, d, true, exact_quants_of<T>(chunk));
}

/* Sums along dimension d above 0; turns sums into values if no other dimension
 * follows. Grid: x = blocks_of_lines, y = chunks. A thread owns whole
 * stretches. No shared memory. */
template <typename T>
static __global__ void
__launch_bounds__(LORENZO_NTHREADS, 8)
    lorenzo_sum_lines(const __grid_constant__ struct cuda_batch batch, int d)
{
    const struct cuda_chunk &chunk = begin_chunk(batch);

    if (!is_predicted_by(chunk, TERP_PREDICTION_LORENZO))
        return;
    const unsigned dims = dims_to_sum(batch, chunk);
    const bool is_last = dims >> (d + 1) == 0;
    if (!(dims >> d & 1))
        return;
    if (is_last && is_exact(chunk))
        sum_lines_exactly<T>(batch, chunk, d);
    else
        sum_lines<T>(batch, chunk, d, is_last, constants_of<T>(chunk));
}

cudaError_t
cuda_lorenzo_reconstruct(const struct cuda_batch *batch, cudaStream_t stream)
{
    const struct terp_layout *layout = batch->h_layout;
    const unsigned nblocks = nblocks_for(batch, nblocks_of_segments(layout));
    const int means_dim = terp_means_dim(layout);
    struct stage_launches launches = {batch, stream};

    if (means_dim > 0)
        launches.add_typed(CUDA_TYPED(lorenzo_add_means),
                           nblocks_for(batch, nblocks_of_means(layout)),
                           LORENZO_NTHREADS, means_dim);
    if (nsegments_of(layout) > 1) {
        launches.add_typed(CUDA_TYPED(lorenzo_sum_segments), nblocks,
                           LORENZO_NTHREADS);
        launches.add_typed(CUDA_TYPED(lorenzo_scan_segments),
                           nblocks_of_rows(layout, 0), LORENZO_NTHREADS, 0);
    }
    launches.add_typed(CUDA_TYPED(lorenzo_sum_rows), nblocks, LORENZO_NTHREADS);
    for (int d = 1; d < TERP_NDIMS; d++) {
        if (layout->dims[d] == 1)
            continue;
        if (nstretches_of(*batch, layout, d) > 1) {
            launches.add_typed(CUDA_TYPED(lorenzo_sum_stretches),
                               blocks_of_lines(batch, d), LORENZO_NTHREADS, d);
            launches.add_typed(CUDA_TYPED(lorenzo_scan_segments),
                               nblocks_of_rows(layout, d), LORENZO_NTHREADS, d);
        }
        launches.add_typed(CUDA_TYPED(lorenzo_sum_lines),
                           blocks_of_lines(batch, d), LORENZO_NTHREADS, d);
    }
    return launches.error;
}
