/* Prefix sums of more numbers than a block has threads, by one block. */
#pragma once

#include "gpu/block/scan.cuh"

#include "codec/format/base.h"
#include "gpu/engine/platform.cuh"

/* Consecutive numbers that a thread adds up before each scan of the block. */
#define NUMBERS_PER_THREAD 8

/* Calls put(i, get(0) + ... + get(i - 1)) for each i below n. Returns the sum
 * of all numbers. n is the same in all threads. For each i the same thread
 * calls get(i) and then put(i), so put may overwrite what get reads. */
template <unsigned NTHREADS, typename Get, typename Put>
static __device__ __forceinline__ uint64_t
sum_numbers(uint64_t n, block_scan<unsigned long long, NTHREADS> &s_scan,
            Get get, Put put)
{
    unsigned long long end = 0;

#pragma unroll 1
    for (uint64_t first = 0; first < n;
         first += NTHREADS * NUMBERS_PER_THREAD) {
        const uint64_t own = first + threadIdx.x * NUMBERS_PER_THREAD;
        uint64_t number[NUMBERS_PER_THREAD];
        unsigned long long sum = 0, before, all;
#pragma unroll
        for (unsigned i = 0; i < NUMBERS_PER_THREAD; i++)
            number[i] = own + i < n ? get(own + i) : 0;
#pragma unroll
        for (unsigned i = 0; i < NUMBERS_PER_THREAD; i++)
            sum += number[i];
        __syncthreads(); /* s_scan may be used again */
        before = scan_block(s_scan, sum, &all);
        before += end;
#pragma unroll
        for (unsigned i = 0; i < NUMBERS_PER_THREAD; i++) {
            if (own + i < n)
                put(own + i, before);
            before += number[i];
        }
        end += all;
    }
    return end;
}
