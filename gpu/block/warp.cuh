/* What a warp's lanes have together: all 32 call these functions. */
#pragma once

#include "gpu/engine/platform.cuh"

/* The number of this warp among those of the chunk, in blocks of NWARPS; how
 * many these are. */
template <unsigned NWARPS>
static __device__ __forceinline__ uint64_t
warp_of_chunk(void)
{
    return (uint64_t)blockIdx.x * NWARPS + threadIdx.x / 32;
}

template <unsigned NWARPS>
static __device__ __forceinline__ uint64_t
warps_of_chunk(void)
{
    return (uint64_t)gridDim.x * NWARPS;
}

template <typename W>
static __device__ __forceinline__ W
warp_sum(W value)
{
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
        value += __shfl_xor_sync(FULL_WARP_MASK, value, distance);
    return value;
}

template <typename W>
static __device__ __forceinline__ W
warp_or(W value)
{
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
        value |= __shfl_xor_sync(FULL_WARP_MASK, value, distance);
    return value;
}

static __device__ __forceinline__ uint32_t
warp_min(uint32_t value)
{
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
        value = min(value, __shfl_xor_sync(FULL_WARP_MASK, value, distance));
    return value;
}

/* The sum of the values of this lane and those before it, of which the first
 * NLANES count. */
template <unsigned NLANES = 32, typename W>
static __device__ __forceinline__ W
warp_inclusive_sum(W value)
{
#pragma unroll
    for (unsigned distance = 1; distance < NLANES; distance *= 2) {
        const W below = __shfl_up_sync(FULL_WARP_MASK, value, distance);
        value += threadIdx.x % 32 >= distance ? below : 0;
    }
    return value;
}
