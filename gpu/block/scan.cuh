/* Prefix sums over the threads of a block. scan_block does what cub::BlockScan
 * does by scans of warps. It does not include CUB's headers, with which a file
 * takes four times as long to compile. */
#pragma once

#include "gpu/block/warp.cuh"

/* Shared memory of a scan: the sum of each warp. */
template <typename T, unsigned NTHREADS> struct block_scan {
    static_assert(NTHREADS % 32 == 0, "Warps are whole.");
    T sums[NTHREADS / 32];
};

/* Returns the sum of the numbers of all threads before this one, and in
 * *all_ret the sum of all threads. All threads of the block call it together.
 * The caller must place a barrier between two uses of the same shared memory.
 */
template <typename T, unsigned NTHREADS>
static __device__ __forceinline__ T
scan_block(block_scan<T, NTHREADS> &s_scan, T number, T *all_ret)
{
    const T sum = warp_inclusive_sum(number);
    T before = sum - number, all = 0;

    if (threadIdx.x % 32 == 31)
        s_scan.sums[threadIdx.x / 32] = sum;
    __syncthreads();
#pragma unroll
    for (unsigned warp = 0; warp < NTHREADS / 32; warp++) {
        if (warp == threadIdx.x / 32)
            before += all;
        all += s_scan.sums[warp];
    }
    *all_ret = all;
    return before;
}
