/* Extremes of a chunk's values that many blocks find together, as integers that
 * atomics can compare. */
#pragma once

#include "gpu/predict/values.cuh"

/* Returns an integer key: a larger value has a larger key. The keys of all
 * values that are not special are above 0. */
static __device__ __forceinline__ unsigned long long
key_of(double value)
{
    uint64_t bits = bits_of(value);
    return bits >> 63 ? ~bits : bits | UINT64_C(1) << 63;
}

static __device__ __forceinline__ double
value_of_key(unsigned long long key)
{
    uint64_t bits = key >> 63 ? key & ~(UINT64_C(1) << 63) : ~key;
    return value_of_bits(bits);
}

/* Raises *at to `key`. The largest value is kept as its key, the smallest one
 * as the complement of its key. Most blocks change nothing, so they only read.
 */
static __device__ __forceinline__ void
raise_key(unsigned long long *at, unsigned long long key)
{
    if (*(volatile unsigned long long *)at < key)
        atomicMax(at, key);
}

/* The extremes of some values, and two counts. `min` > `max`: no values. */
template <typename T> struct extremes {
    T min, max;
    unsigned long long n[2];
};

template <typename T>
static __device__ __forceinline__ extremes<T>
no_extremes(void)
{
    return {value_traits<T>::MAX, -value_traits<T>::MAX, {0, 0}};
}

/* Returns the extremes of all threads of a block of NWARPS warps in the first
 * thread. Has one barrier. */
template <int NWARPS, typename T>
static __device__ extremes<T>
reduce_extremes(extremes<T> own)
{
    __shared__ extremes<T> s_of_warps[NWARPS];

    for (int distance = 16; distance > 0; distance /= 2) {
        own.min = smaller(own.min,
                          __shfl_xor_sync(FULL_WARP_MASK, own.min, distance));
        own.max =
            larger(own.max, __shfl_xor_sync(FULL_WARP_MASK, own.max, distance));
        for (int i = 0; i < 2; i++)
            own.n[i] += __shfl_xor_sync(FULL_WARP_MASK, own.n[i], distance);
    }
    if (threadIdx.x % 32 == 0)
        s_of_warps[threadIdx.x / 32] = own;
    __syncthreads();
    for (int warp = 1; warp < NWARPS && threadIdx.x == 0; warp++) {
        own.min = smaller(own.min, s_of_warps[warp].min);
        own.max = larger(own.max, s_of_warps[warp].max);
        for (int i = 0; i < 2; i++)
            own.n[i] += s_of_warps[warp].n[i];
    }
    return own;
}
