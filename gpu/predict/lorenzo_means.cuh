/* Lorenzo's means (lorenzo.h): whether an encoder takes them, and a
 * decoder's integers of them. */
#ifndef TERP_GPU_PREDICT_LORENZO_MEANS_CUH
#define TERP_GPU_PREDICT_LORENZO_MEANS_CUH

#include "gpu/predict/lorenzo.cuh"
#include "gpu/predict/values.cuh"

#define NTHREADS 256
#define NWARPS (NTHREADS / 32)

static __device__ __forceinline__ bool
chunk_applies(const struct cuda_chunk &chunk)
{
    return chunk.status == TERP_OK &&
           chunk.prediction == TERP_PREDICTION_LORENZO;
}

/* A line along a dimension above 0. */
struct line {
    uint64_t at, stride, extent;
};

/* False when there is none of this number. */
static __device__ __forceinline__ bool
find_line(const struct terp_layout *layout, int d, uint64_t number,
          struct line *line_ret)
{
    line_ret->stride = 1;
    line_ret->extent = layout->dims[d];
    for (int e = 0; e < d; e++)
        line_ret->stride *= layout->dims[e];
    bool exists = number < layout->nvalues / line_ret->extent;
    uint64_t inner = split(&number, line_ret->stride);
    line_ret->at = number * line_ret->stride * line_ret->extent + inner;
    return exists;
}

/* ---- encode ---- */

/* What differences and means leave of the samples that the CPU takes, to the
 * chunk's sums. Blocks of NTHREADS, any number; a warp a stretch. Apart from
 * all else, which should not need as many registers. */
template <typename W>
static __device__ __attribute__((noinline)) void
weigh_means(const struct terp_layout *layout, const W *quants,
            struct cuda_chunk *chunk)
{
    const uint64_t nx = layout->dims[0];
    const uint64_t nper_row = div_up(nx, TERP_LORENZO_NVALUES);
    const uint64_t nstretches = layout->nvalues / nx * nper_row;
    const uint64_t every = terp_lorenzo_distance(layout->nvalues);
    const int means_dim = terp_means_dim(layout);
    const unsigned lane = threadIdx.x % 32;
    unsigned long long differences = 0, means = 0;
    uint64_t stride[TERP_NDIMS], inner = 1, line_stride = 1;

    if (!terp_means_are_possible(layout, chunk->lorenzo_dims, false))
        return;
    for (int d = 0; d < TERP_NDIMS; d++) {
        stride[d] = inner;
        line_stride = d == means_dim ? inner : line_stride;
        inner *= layout->dims[d];
    }
    for (uint64_t k = (uint64_t)blockIdx.x * NWARPS + threadIdx.x / 32;
         every / 2 + k * every < nstretches; k += gridDim.x * NWARPS) {
        uint64_t left = every / 2 + k * every, i = 0;
        const uint64_t x = split(&left, nper_row) * TERP_LORENZO_NVALUES;
        const W *row = quants + left * nx;
        unsigned dims = chunk->lorenzo_dims & ~(1u << means_dim);
        for (int d = 1; d < TERP_NDIMS; d++) {
            uint64_t at = split(&left, layout->dims[d]);
            if (at == 0)
                dims &= ~(1u << d);
            if (d == means_dim)
                i = at;
        }
        const uint64_t end = min_u64(nx, x + TERP_LORENZO_NVALUES);
        for (uint64_t at = x + lane; at < end; at += 32) {
            const unsigned dims_here = at > 0 ? dims : dims & ~1u;
            W own = lorenzo_difference(row + at, dims_here, stride);
            W before = 0, mean = 0;
            if (i > 0) {
                before = lorenzo_difference(row + at - line_stride, dims_here,
                                            stride);
                mean = lorenzo_mean<W, true>(row + at, dims_here, layout,
                                             means_dim, i);
            }
            differences += weight_of_difference<W>(own - before);
            means += weight_of_difference<W>(own - mean);
        }
    }
    for (int distance = 16; distance > 0; distance /= 2) {
        differences += __shfl_xor_sync(FULL_WARP_MASK, differences, distance);
        means += __shfl_xor_sync(FULL_WARP_MASK, means, distance);
    }
    if (lane == 0 && differences != 0)
        atomicAdd(&chunk->differences_sum, differences);
    if (lane == 0 && means != 0)
        atomicAdd(&chunk->means_sum, means);
}

/* ---- decode ---- */

/* Lines are taken by 32, which a block's warps share out. */
static uint64_t
nblocks_of_means(const struct terp_layout *layout)
{
    return div_up(layout->nvalues / layout->dims[terp_means_dim(layout)], 32);
}

/* The integer that a symbol or an escape stands for, of all points of a line,
 * by the warps in turn. */
template <typename T>
static __device__ __forceinline__ void
place_symbols(const struct terp_layout *layout, const uint16_t *symbols,
              const struct line &line, int d, word_of<T> *quants)
{
    uint64_t coordinate[TERP_NDIMS], left = line.at;

    for (int e = 0; e < TERP_NDIMS; e++)
        coordinate[e] = split(&left, layout->dims[e]);
    for (uint64_t i = threadIdx.x / 32; i < line.extent; i += NWARPS) {
        for (int e = 1; e < TERP_NDIMS; e++)
            coordinate[e] = e == d ? i : coordinate[e];
        const struct tiled_row row =
            tiled_row_at(layout->rank, layout->dims, coordinate, left);
        const unsigned symbol = symbols[tiled_at(
            row, layout->rank, layout->dims[0], coordinate[0])];
        if (symbol != TERP_ESCAPE)
            quants[line.at + i * line.stride] =
                (word_of<T>)(int_of<T>)((int)symbol - TERP_RADIUS);
    }
}

/* Where means were taken: symbols to integers, from coarse to fine.
 * Grid: (nblocks_of_means or fewer, which take turns, chunks). A lane has a
 * line; what a step rests on has been written, by any warp, before a barrier.
 */
template <typename T>
static __global__ void
__launch_bounds__(NTHREADS) lorenzo_add_means(struct cuda_batch batch, int d)
{
    begin_kernel();
    const struct cuda_chunk &chunk = batch.d_chunks[blockIdx.y];
    const struct terp_layout *layout = batch.d_layout;
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    struct line line;

    if (!chunk_applies(chunk) || !(chunk.lorenzo_dims & TERP_LORENZO_MEANS))
        return;
    const uint64_t nlines = layout->nvalues / layout->dims[d];
    const uint16_t *symbols =
        region<uint16_t>(batch, blockIdx.y, batch.at.symbols);
    word_of<T> *quants = region<word_of<T>>(batch, blockIdx.y, batch.at.work);
    for (uint64_t first = (uint64_t)blockIdx.x * 32; first < nlines;
         first += (uint64_t)gridDim.x * 32) {
        const bool exists = find_line(layout, d, first + lane, &line);
        if (exists)
            place_symbols<T>(layout, symbols, line, d, quants);
        for (uint64_t step = terp_means_first_step(line.extent); step > 0;
             step /= 2) {
            __syncthreads();
            for (uint64_t i = step * (2 * warp + 1); exists && i < line.extent;
                 i += step * (2 * NWARPS)) {
                word_of<T> *at = quants + line.at + i * line.stride;
                *at += lorenzo_mean<word_of<T>, false>(at, 0, layout, d, i);
            }
        }
    }
}

#endif
