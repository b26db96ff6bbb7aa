/* Differences of Lorenzo's quants and means of quants, which predict a quant;
 * and the parameters of both in a chunk's state. */
#pragma once

#include "codec/model/lorenzo.h"
#include "codec/model/quantizer.h"
#include "gpu/engine/state.cuh"
#include "gpu/entropy/order.cuh"

/* Returns bit i of a mask. */
static __device__ __forceinline__ bool
is_set(const uint32_t *mask, uint64_t i)
{
    return mask[i / 32] >> (i % 32) & 1;
}

static __device__ __forceinline__ bool
is_exact(const struct cuda_chunk &chunk)
{
    return chunk.model.exact.significand > 0;
}

/* Returns the byte of dimensions that a stream holds. */
static __device__ __forceinline__ unsigned
coded_dims(const struct cuda_chunk &chunk)
{
    return chunk.model.lorenzo_dims |
           (chunk.means_sum < chunk.differences_sum ? TERP_LORENZO_MEANS : 0) |
           (is_exact(chunk) ? TERP_LORENZO_EXACT : 0) |
           (chunk.model.tail_nbits > 0 ? TERP_LORENZO_TAILS : 0);
}

/* Returns the dimension along which means are subtracted, or 0. */
static __device__ __forceinline__ int
means_dim_of(const struct cuda_chunk &chunk, const struct terp_layout *layout)
{
    return coded_dims(chunk) & TERP_LORENZO_MEANS ? terp_means_dim(layout) : 0;
}

/* Returns the dimensions along which an encoder still has to take differences
 * of the quants in `work`. If a chunk has special points, differences along the
 * dimensions above 0 are already taken, and special points repeat the quant
 * before them. */
static __device__ __forceinline__ unsigned
dims_to_subtract(const struct cuda_chunk &chunk, int means_dim)
{
    return chunk.nspecials > 0
               ? chunk.model.lorenzo_dims & 1
               : chunk.model.lorenzo_dims & ~(1u << means_dim & ~1u);
}

/* Returns the difference at `at` along all n dimensions of `dims`. It is a sum
 * of 2^n quants with alternating signs, at points that are one step back along
 * some of these dimensions. `dims` must leave out dimensions along which the
 * point is the first, since nothing is before it. */
template <typename W>
static __device__ __forceinline__ W
lorenzo_difference(const W *at, unsigned dims, const uint64_t *stride)
{
    W sum = 0;

    for (unsigned set = 0; set < TERP_NCLASSES; set++) {
        if ((set & ~dims) != 0)
            continue;
        const W *from = at;
        for (int d = 0; d < TERP_NDIMS; d++)
            from -= set >> d & 1 ? stride[d] : 0;
        sum += __popc(set) % 2 == 1 ? (W)0 - *from : *from;
    }
    return sum;
}

/* Returns the mean that predicts the quant at `at`, which is the i-th along
 * means_dim, i > 0. With `subtract` it is the mean of differences along `dims`.
 */
template <typename W, bool subtract>
static __device__ __forceinline__ W
lorenzo_mean(const W *at, unsigned dims, const struct terp_layout *layout,
             int means_dim, uint64_t i)
{
    const uint64_t extent = layout->dims[means_dim];
    const uint64_t step = terp_means_step(i);
    uint64_t stride[TERP_NDIMS], inner = 1, line_stride = 1;
    W sum = 0, count = 0;

    for (int d = 0; d < TERP_NDIMS; d++) {
        stride[d] = inner;
        line_stride = d == means_dim ? inner : line_stride;
        inner *= layout->dims[d];
    }
    for (uint64_t k = 1; k < TERP_MEANS_REACH; k += 2) {
        const uint64_t distance = k * step;
        if (distance <= i) {
            const W *from = at - distance * line_stride;
            sum += subtract ? lorenzo_difference(from, dims, stride) : *from;
            count++;
        }
        if (distance < extent - i) {
            const W *from = at + distance * line_stride;
            sum += subtract ? lorenzo_difference(from, dims, stride) : *from;
            count++;
        }
    }
    return mean_of_quants(sum, count);
}
