/* The lossless prediction when encoding: turns values into quants, which are in
 * the region `work` in C order, and takes their differences. The differences of
 * points that are not special follow each other in the region `differences`;
 * the last kernel takes those along dimension 0 on the way there. Differences
 * pass over special points. */
#include "gpu/predict/lorenzo_shape.cuh"
#include "gpu/sections/valid_points.cuh"

#define NTHREADS LORENZO_NTHREADS

/* ---- values to quants ---- */

/* Turns values into quants, and makes the mask of values that quants, with
 * their remainders, do not reproduce; their quant is 0. Grid: x = shares of
 * values, y = chunks. A thread owns every gridDim.x * NTHREADS-th value, a warp
 * 32 bits of the mask. No shared memory. */
template <typename T>
static __global__ void
__launch_bounds__(NTHREADS) lossless_integers(const struct cuda_batch batch)
{
    struct cuda_chunk &chunk = begin_chunk(batch);
    const T *values = (const T *)chunk.src;
    const unsigned lane = threadIdx.x % 32;
    const uint64_t step = (uint64_t)gridDim.x * NTHREADS;
    uint64_t at = (uint64_t)blockIdx.x * NTHREADS + threadIdx.x;
    unsigned nunpredictable = 0;

    if (!chunk_is_lossless(chunk))
        return;
    /* The mask consists of whole words of 64 bits. */
    const uint64_t end = div_up(batch.nvalues, 64) * 64;
    const bool has_specials = chunk.has_specials;
    const fill_words<T> fills = fills_of<T>(chunk);
    const lossless_quants<T> k = quants_of_model<T>(chunk);
    const word_of<T> center = (word_of<T>)chunk.model.lossless.center;
    word_of<T> *quants = region<word_of<T>>(batch, batch.at.work);
    uint32_t *mask = region<uint32_t>(batch, batch.at.mask);
    if (!has_specials && lossless_fits_all(k)) {
        for (; at - lane < end; at += step) {
            if (at < batch.nvalues)
                quants[at] =
                    (word_of<T>)lossless_integer_of(values[at], k) - center;
            if (lane == 0)
                mask[at / 32] = 0;
        }
        return;
    }
    for (; at - lane < end; at += step) {
        bool special = false, miss = false;
        if (at < batch.nvalues) {
            const T value = values[at];
            word_of<T> remainder, quant = 0;
            bool fits = true;
            special = has_specials && is_special(value, fills);
            if (!special)
                quant =
                    (word_of<T>)lossless_quant_of(value, k, &remainder, &fits) -
                    center;
            miss = !fits;
            quants[at] = miss ? 0 : quant;
        }
        const unsigned word = __ballot_sync(FULL_WARP_MASK, special | miss);
        nunpredictable += (unsigned)__popc(__ballot_sync(FULL_WARP_MASK, miss));
        if (lane == 0)
            mask[at / 32] = word;
    }
    if (lane == 0 && nunpredictable > 0)
        atomicAdd(&chunk.nspecials, (unsigned long long)nunpredictable);
}

/* ---- differences along a dimension above 0 ---- */

/* Takes one of the steps that make differences along dimension d. A difference
 * is that from the last point before that is not special. Special points keep
 * 0. Grid and threads are those of take_lines_step. No shared memory. */
template <typename T>
static __global__ void
__launch_bounds__(NTHREADS)
    lossless_subtract_lines(const struct cuda_batch batch, int d,
                            enum lines_step step)
{
    const struct cuda_chunk &chunk = begin_chunk(batch);

    if (!chunk_is_lossless(chunk) || lossless_order(chunk, d) == 0)
        return;
    take_lines_step(batch, d, step, lossless_order(chunk, d) > 1,
                    lossless_mask(batch, chunk),
                    region<line_end<word_of<T>>>(batch, batch.at.staging));
}

/* ---- differences along dimension 0 ---- */

/* The quants before a point in its row: the quant of the last point that is not
 * special, and the difference of this quant from the one before. Both are 0 if
 * there is no such point. */
template <typename W> struct row_before {
    W last, last_difference;
};

/* Returns the same for the first point of a segment. */
template <typename W>
static __device__ __forceinline__ row_before<W>
before_segment(const struct valid_points &points, const struct segment &segment,
               const W *quants)
{
    row_before<W> before = {0, 0};
    /* index plus 1 of the row's last two valid points; 0: none */
    uint64_t at[2];
    uint64_t end = segment.at + segment.x;

    for (int i = 0; i < 2; i++) {
        at[i] = last_valid_before(points, segment.at, end);
        end = at[i] == 0 ? segment.at : at[i] - 1;
    }
    if (at[0] > 0)
        before.last = quants[at[0] - 1];
    if (at[0] > segment.at + 1)
        before.last_difference =
            before.last - (at[1] > 0 ? quants[at[1] - 1] : 0);
    return before;
}

/* Takes differences along dimension 0. Grid: x = blocks of segments,
 * nblocks_for of them at a time, y = chunks. A warp owns a segment, a lane
 * every 32nd value of it. No shared memory; lanes exchange quants by shuffles.
 */
template <typename T>
static __global__ void
__launch_bounds__(NTHREADS)
    lossless_subtract_rows(const struct cuda_batch batch)
{
    struct cuda_chunk &chunk = begin_chunk(batch);
    const unsigned lane = threadIdx.x % 32;
    struct segment segment;

    if (!chunk_is_lossless(chunk))
        return;
    if (blockIdx.x == 0 && threadIdx.x == 0)
        chunk.has_specials = chunk.nspecials > 0;
    const int order =
        batch.d_layout->dims[0] > 1 ? lossless_order(chunk, 0) : 0;
    const struct valid_points points = valid_points_of(batch, chunk);
    const word_of<T> *quants = region<word_of<T>>(batch, batch.at.work);
    word_of<T> *differences = region<word_of<T>>(batch, batch.at.differences);
    for (uint64_t block = blockIdx.x;
         find_segment(batch.d_layout, block, &segment); block += gridDim.x) {
        uint64_t number = next_number(points, segment.warp_at);
        row_before<word_of<T>> before = before_segment(points, segment, quants);
        for (uint64_t first = 0; first < segment.nx; first += 32) {
            const uint64_t x = segment.x + first + segment.lane;
            const uint64_t at = segment.at + x;
            const bool valid =
                first + segment.lane < segment.nx && is_valid(points, at);
            const unsigned all = __ballot_sync(FULL_WARP_MASK, valid);
            const unsigned lower = all & ((1u << lane) - 1);
            const unsigned below = lower >> segment.from << segment.from;
            const int from = below == 0 ? 0 : 31 - __clz((int)below);
            const word_of<T> own = valid ? quants[at] : 0;
            const word_of<T> of_from = __shfl_sync(FULL_WARP_MASK, own, from);
            const word_of<T> d = own - (below == 0 ? before.last : of_from);
            const word_of<T> counted = x > 0 ? d : 0;
            const word_of<T> d_from =
                __shfl_sync(FULL_WARP_MASK, counted, from);
            if (valid)
                differences[number + (unsigned)__popc(lower)] =
                    order == 0 ? own
                    : order == 1
                        ? d
                        : d - (below == 0 ? before.last_difference : d_from);
            if (all != 0) {
                const int last = 31 - __clz((int)all);
                before.last = __shfl_sync(FULL_WARP_MASK, own, last);
                before.last_difference =
                    __shfl_sync(FULL_WARP_MASK, counted, last);
            }
            number += (unsigned)__popc(all);
        }
    }
}

cudaError_t
cuda_lossless_quantize(const struct cuda_batch *batch, cudaStream_t stream)
{
    const struct terp_layout *layout = batch->h_layout;
    struct stage_launches launches = {batch, stream};

    launches.add_typed(CUDA_TYPED(lossless_integers),
                       nblocks_for(batch, div_up(batch->nvalues, NTHREADS)),
                       NTHREADS);
    launches.add_stage(cuda_valid_points_count, batch);
    launch_lines_steps(launches, CUDA_TYPED(lossless_subtract_lines));
    launches.add_typed(CUDA_TYPED(lossless_subtract_rows),
                       nblocks_for(batch, nblocks_of_segments(layout)),
                       NTHREADS);
    return launches.error;
}
