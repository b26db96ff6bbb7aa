/* The scan of small batches, in one pass over the values. Each warp finds the
 * range of the values that it loads. One block per chunk then combines all
 * ranges. */
#pragma once

#include "gpu/predict/range.cuh"

/* SCAN_SMALL_NTHREADS: threads of a block that scans. SCAN_SMALL_NLOADS: loads
 * of 16 bytes per thread. FINALIZE_NTHREADS: threads of the block that combines
 * ranges; its 32 warps leave one range for each lane of the first warp. */
#define SCAN_SMALL_NTHREADS 256
#define SCAN_SMALL_NLOADS 2
#define SCAN_SMALL_NBYTES \
    (SCAN_SMALL_NTHREADS * SCAN_SMALL_NLOADS * 16) /* of a block */
#define FINALIZE_NTHREADS 1024

template <typename T> struct alignas(16) vector16 {
    T at[16 / sizeof(T)];
};

/* Returns the special values that do not depend on the range. */
template <typename T>
static __device__ __forceinline__ fill_words<T>
given_fills(const struct cuda_batch &batch)
{
    fill_words<T> fills;

    for (int i = 0; i < TERP_NFILLS; i++)
        fills.at[i] = (word_of<T>)((word_of<T>)1 << (8 * sizeof(T) - 1));
    fills.at[0] = (word_of<T>)terp_fill_of(&batch.encoding.params, sizeof(T));
    fills.at[1] =
        (word_of<T>)terp_missing_of(&batch.encoding.params, sizeof(T));
    return fills;
}

/* The extremes of some values, the values nearest to the extremes, and counts.
 * `min` > `max`: no values. */
template <typename T> struct alignas(16) found_range {
    T min, max, inner_min, inner_max;
    uint32_t nmin, nmax, nvalid;
};

template <typename T>
static __device__ __forceinline__ found_range<T>
no_range(void)
{
    const T largest = value_traits<T>::MAX;
    return {largest, -largest, largest, -largest, 0, 0, 0};
}

/* Returns the range of some values. NaN stands for values that do not exist. */
template <typename T, int N>
static __device__ __forceinline__ found_range<T>
range_of_values(const T (&values)[N])
{
    found_range<T> range = no_range<T>();

    for (T value : values) {
        range.min = smaller(value, range.min);
        range.max = larger(value, range.max);
    }
    for (T value : values) {
        bool above = value > range.min, below = value < range.max;
        range.inner_min =
            smaller(above ? value : range.inner_min, range.inner_min);
        range.inner_max =
            larger(below ? value : range.inner_max, range.inner_max);
        range.nmin += value == range.min;
        range.nmax += value == range.max;
        range.nvalid += value == value;
    }
    return range;
}

/* Prepares a range for combining with other ranges. `min` and `max` are the
 * extremes of all of them. */
template <typename T>
static __device__ __forceinline__ void
widen_range(found_range<T> *range, T min, T max)
{
    range->inner_min = range->min > min ? range->min : range->inner_min;
    range->inner_max = range->max < max ? range->max : range->inner_max;
    range->nmin = range->min > min ? 0 : range->nmin;
    range->nmax = range->max < max ? 0 : range->nmax;
    range->min = min;
    range->max = max;
}

/* Returns the range of the values of all lanes. */
template <typename T>
static __device__ __forceinline__ found_range<T>
reduce_range(found_range<T> own)
{
    T min = own.min, max = own.max;

#pragma unroll 1
    for (int distance = 16; distance > 0; distance /= 2) {
        min = smaller(min, __shfl_xor_sync(FULL_WARP_MASK, min, distance));
        max = larger(max, __shfl_xor_sync(FULL_WARP_MASK, max, distance));
    }
    widen_range(&own, min, max);
#pragma unroll 1
    for (int distance = 16; distance > 0; distance /= 2) {
        own.inner_min =
            smaller(own.inner_min,
                    __shfl_xor_sync(FULL_WARP_MASK, own.inner_min, distance));
        own.inner_max =
            larger(own.inner_max,
                   __shfl_xor_sync(FULL_WARP_MASK, own.inner_max, distance));
        own.nmin += __shfl_xor_sync(FULL_WARP_MASK, own.nmin, distance);
        own.nmax += __shfl_xor_sync(FULL_WARP_MASK, own.nmax, distance);
        own.nvalid += __shfl_xor_sync(FULL_WARP_MASK, own.nvalid, distance);
    }
    return own;
}

/* Grid: x = blocks of SCAN_SMALL_NBYTES bytes, y = chunks. A thread owns the
 * values that it loads. Each warp stores its range in the region `staging`. No
 * shared memory. */
template <typename T, bool magnitudes>
static __global__ void
__launch_bounds__(SCAN_SMALL_NTHREADS)
    scan_small_values(const struct cuda_batch batch)
{
    begin_kernel();
    const int n = 16 / sizeof(T);
    /* the last is one of the `lead` values */
    T values[SCAN_SMALL_NLOADS * n + 1];
    const T *src = (const T *)batch.d_chunks[blockIdx.y].src;
    /* Loads begin at multiples of 16 bytes, but values are aligned only to
     * their own size: `lead` values would fit between the first load's begin
     * and the first value. */
    const unsigned lead = (unsigned)((uintptr_t)src % 16 / sizeof(T));
    const int64_t begin = (int64_t)blockIdx.x * (SCAN_SMALL_NBYTES / sizeof(T));
    const int64_t end = (int64_t)(gridDim.x * (SCAN_SMALL_NBYTES / sizeof(T)));
    for (int k = 0; k < SCAN_SMALL_NLOADS; k++) {
        int64_t at =
            begin + (int64_t)(k * SCAN_SMALL_NTHREADS + threadIdx.x) * n - lead;
        if (at >= 0 && at + n <= (int64_t)batch.nvalues) {
            vector16<T> loaded = *(const vector16<T> *)(src + at);
            for (int i = 0; i < n; i++)
                values[k * n + i] = loaded.at[i];
        } else {
            for (int i = 0; i < n; i++)
                values[k * n + i] =
                    at + i >= 0 && at + i < (int64_t)batch.nvalues ? src[at + i]
                                                                   : (T)NAN;
        }
    }
    /* The loads begin `lead` values early, so the last `lead` values are behind
     * the last block's loads. The first block scans them. */
    const int64_t left = end - lead + threadIdx.x;
    values[SCAN_SMALL_NLOADS * n] =
        blockIdx.x == 0 && threadIdx.x < lead && left < (int64_t)batch.nvalues
            ? src[left]
            : (T)NAN;
    const fill_words<T> fills = given_fills<T>(batch);
    for (T &value : values)
        value = is_special(value, fills) ? (T)NAN : with_one_zero(value);
    if (magnitudes) {
        T least = value_traits<T>::MAX;
        for (T value : values)
            least = lesser_magnitude(value, least);
        note_least(batch.d_chunks[blockIdx.y], least);
    }
    const found_range<T> range = reduce_range(range_of_values(values));
    const unsigned warp = (blockIdx.x * SCAN_SMALL_NTHREADS + threadIdx.x) / 32;
    if (threadIdx.x % 32 == 0)
        region<found_range<T>>(batch, batch.at.staging)[warp] = range;
}

/* Returns the range of every FINALIZE_NTHREADS-th of `n` ranges, from the
 * thread's own on. */
template <typename T>
static __device__ __forceinline__ found_range<T>
sum_ranges(const found_range<T> *ranges, unsigned n)
{
    found_range<T> own = no_range<T>();

#pragma unroll 1
    for (unsigned i = threadIdx.x; i < n; i += FINALIZE_NTHREADS) {
        found_range<T> other = ranges[i];
        const T min = smaller(own.min, other.min);
        const T max = larger(own.max, other.max);
        widen_range(&own, min, max);
        widen_range(&other, min, max);
        own.inner_min = smaller(own.inner_min, other.inner_min);
        own.inner_max = larger(own.inner_max, other.inner_max);
        own.nmin += other.nmin;
        own.nmax += other.nmax;
        own.nvalid += other.nvalid;
    }
    return own;
}

/* Joins the ranges that all threads of the block have found. Only the first
 * warp gets the result. */
template <typename T>
static __device__ __forceinline__ found_range<T>
reduce_ranges(found_range<T> own, found_range<T> *s_of_warps)
{
    static_assert(FINALIZE_NTHREADS / 32 == 32, "A lane has a warp's range.");

    own = reduce_range(own);
    if (threadIdx.x % 32 == 0)
        s_of_warps[threadIdx.x / 32] = own;
    __syncthreads();
    return threadIdx.x < 32 ? reduce_range(s_of_warps[threadIdx.x]) : own;
}

/* Grid: x = 1, y = chunks. The block combines the ranges of its chunk's warps
 * and finds the chunk's parameters. Shared memory: a range per warp; one
 * barrier before the first warp reads them. */
template <typename T, bool halves>
static __global__ void
__launch_bounds__(FINALIZE_NTHREADS)
    finalize_ranges(const struct cuda_batch batch, unsigned nranges)
{
    __shared__ found_range<T> s_of_warps[32];
    struct cuda_chunk &chunk = begin_chunk(batch);
    const fill_words<T> fills = given_fills<T>(batch);
    /* This load overlaps with the loads of the ranges. */
    const T *src = (const T *)chunk.src;
    found_range<T> own =
        sum_ranges(region<found_range<T>>(batch, batch.at.staging), nranges);
    const T first = src[0];

    own = reduce_ranges(own, s_of_warps);
    if (threadIdx.x != 0 || chunk.status != TERP_OK)
        return;
    struct value_range range = {own.min,
                                own.max,
                                own.inner_min,
                                own.inner_max,
                                own.inner_min < own.max,
                                own.nmin,
                                own.nmax,
                                batch.nvalues - own.nvalid,
                                {},
                                {own.min, own.max, 0}};
    for (int i = 0; i < TERP_NFILLS; i++)
        range.fills[i] = fills.at[i];
    take_fills<T>(batch, &range);
    finish_range<T, halves>(batch, chunk, range, first);
}

/* Returns the number of blocks that scan a chunk. */
static inline uint64_t
scan_small_nblocks(const struct cuda_batch *batch)
{
    return div_up(batch->nvalues * (uint64_t)batch->carrier_nbytes,
                  SCAN_SMALL_NBYTES);
}

template <typename T, bool magnitudes, bool halves>
static cudaError_t
launch_scan_small(const struct cuda_batch *batch, cudaStream_t stream)
{
    const unsigned nblocks = (unsigned)scan_small_nblocks(batch);
    struct stage_launches launches = {batch, stream};

    launches.add(scan_small_values<T, magnitudes>, nblocks,
                 SCAN_SMALL_NTHREADS);
    launches.add(finalize_ranges<T, halves>, 1, FINALIZE_NTHREADS,
                 nblocks * (SCAN_SMALL_NTHREADS / 32));
    return launches.error;
}
