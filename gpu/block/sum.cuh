/* Sums of the numbers before each of many, by one block. */
#pragma once

#include "gpu/block/scan.cuh"

#include "codec/format/base.h"
#include "gpu/engine/platform.cuh"

/* Numbers that a thread has after one another. */
#define NUMBERS_PER_THREAD 8

/* put(i, sum of get(0) to get(i - 1)), for each i below n, which is the same in
 * all threads. Returns the sum of all. No other thread calls get(i) than the
 * one that calls put(i). */
template <unsigned NTHREADS, typename Get, typename Put>
static __device__ __forceinline__ uint64_t
sum_numbers(uint64_t n, struct block_scan<unsigned long long, NTHREADS> &s_scan,
            Get get, Put put)
{
    unsigned long long end = 0;

#pragma unroll 1
    for (uint64_t first = 0; first < n;
         first += NTHREADS * NUMBERS_PER_THREAD) {
        const uint64_t own = first + threadIdx.x * NUMBERS_PER_THREAD;
        const uint64_t stop = min_u64(n, own + NUMBERS_PER_THREAD);
        unsigned long long sum = 0, before, all;
        for (uint64_t i = own; i < stop; i++)
            sum += get(i);
        __syncthreads(); /* no thread needs the storage any more */
        before = scan_block(s_scan, sum, &all);
        before += end;
        for (uint64_t i = own; i < stop; i++) {
            const uint64_t number = get(i);
            put(i, before);
            before += number;
        }
        end += all;
    }
    return end;
}
