/* Functions that all 32 lanes of a warp call together. */
#pragma once

#include "gpu/engine/platform.cuh"

/* Returns the number of this warp among all warps that work on the chunk, and
 * how many there are. Blocks have NWARPS warps; blockIdx.x counts the blocks of
 * a chunk. */
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

/* The same of words, by one instruction where the device has it. */
static __device__ __forceinline__ uint32_t
warp_or(uint32_t value)
{
#if !defined __CUDA_ARCH__ || __CUDA_ARCH__ >= 800
    return __reduce_or_sync(FULL_WARP_MASK, value);
#else
    return warp_or<uint32_t>(value);
#endif
}

static __device__ __forceinline__ uint32_t
warp_min(uint32_t value)
{
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
        value = min(value, __shfl_xor_sync(FULL_WARP_MASK, value, distance));
    return value;
}

/* Returns the sum of the values of this lane and the lanes before it. Only the
 * first NLANES lanes get a meaningful result. */
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
