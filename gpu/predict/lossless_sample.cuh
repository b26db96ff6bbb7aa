/* Samples of the lossless tuner: a block takes the differences of a run of
 * values under all orders. cpu/predict/lossless_impl.h does the same. */
#pragma once

#include "codec/model/lossless_samples.h"
#include "gpu/block/warp.cuh"
#include "gpu/predict/lossless.cuh"

/* SAMPLE_HALO: values before a run that its differences read.
 * SAMPLE_ROW_NVALUES: values of a row of samples. SAMPLE_NROWS: rows for 0, 1
 * or 2 steps back along each of three dimensions. */
#define SAMPLE_NTHREADS 128
#define SAMPLE_NWARPS (SAMPLE_NTHREADS / 32)
#define SAMPLE_HALO TERP_LOSSLESS_MAX_ORDER
#define SAMPLE_ROW_NVALUES (TERP_LOSSLESS_RUN_NVALUES + SAMPLE_HALO)
#define SAMPLE_NROWS 27
#define SAMPLE_NWORDS ((SAMPLE_ROW_NVALUES + 31) / 32)

/* Shared memory of a block. rows [3][3][3] of dimensions 3 to 1: first the
 * quants 0, 1 and 2 steps back along each, then their differences of order 0, 1
 * and 2. */
template <typename T> struct lossless_sample {
    word_of<T> rows[SAMPLE_NROWS][SAMPLE_ROW_NVALUES];
    uint32_t valid[SAMPLE_NROWS][SAMPLE_NWORDS];
    struct terp_lossless_run run;
    unsigned ncounted, remainder_nbits;
    bool fails; /* a row has only special values */
};

/* A chunk's values, and how they become quants. */
template <typename T> struct lossless_source {
    const struct terp_layout *layout;
    const T *values;
    fill_words<T> fills;
    lossless_quants<T> k;
    word_of<T> center;
};

template <typename T>
static __device__ __forceinline__ lossless_source<T>
lossless_source_of(const struct cuda_batch &batch,
                   const struct cuda_chunk &chunk,
                   const struct terp_lossless_step &step, int64_t center)
{
    return {batch.d_layout, (const T *)chunk.src, fills_of<T>(chunk),
            lossless_quants_of<T>(step.exact, step.form), (word_of<T>)center};
}

/* Returns the nearest valid value of a row up to index i, or the first one if
 * there is none. */
static __device__ __forceinline__ unsigned
valid_before(const uint32_t valid[SAMPLE_NWORDS], unsigned i)
{
    for (int word = (int)(i / 32); word >= 0; word--) {
        const uint32_t below = word == (int)(i / 32) && i % 32 < 31
                                   ? valid[word] & ((2u << i % 32) - 1)
                                   : valid[word];
        if (below != 0)
            return 32 * (unsigned)word + 31 - (unsigned)__clz((int)below);
    }
    for (unsigned word = 0;; word++)
        if (valid[word] != 0)
            return 32 * word + (unsigned)__ffs((int)valid[word]) - 1;
}

/* A warp turns the n values of a row into quants. A special point has the quant
 * of the point before it. Returns false if all are special. */
template <typename T>
static __device__ __forceinline__ bool
sample_row(const lossless_source<T> &source, const T *values, unsigned n,
           uint32_t s_valid[SAMPLE_NWORDS], word_of<T> *s_quants)
{
    const unsigned lane = threadIdx.x % 32;
    uint32_t any = 0;

    for (unsigned word = 0; word < SAMPLE_NWORDS; word++) {
        const unsigned i = 32 * word + lane;
        bool valid = i < n;
        if (valid) {
            const T value = values[i];
            word_of<T> remainder;
            bool fits;
            valid = !is_special(value, source.fills);
            if (valid)
                s_quants[i] = (word_of<T>)lossless_quant_of(value, source.k,
                                                            &remainder, &fits) -
                              source.center;
        }
        const uint32_t all = __ballot_sync(FULL_WARP_MASK, valid);
        any |= all;
        if (lane == 0)
            s_valid[word] = all;
    }
    __syncwarp();
    for (unsigned i = lane; any != 0 && i < n; i += 32) {
        const unsigned from = valid_before(s_valid, i);
        if (from != i)
            s_quants[i] = s_quants[from];
    }
    return any != 0;
}

/* A warp counts the bits of the remainders of the run's values. */
template <typename T>
static __device__ __forceinline__ void
count_values(const lossless_source<T> &source, lossless_sample<T> *s)
{
    unsigned n = 0, nbits = 0;

    for (unsigned i = threadIdx.x % 32; i < s->run.n; i += 32) {
        const T value = source.values[s->run.at + i];
        word_of<T> remainder;
        bool fits;
        if (is_special(value, source.fills))
            continue;
        const int_of<T> quant =
            lossless_quant_of(value, source.k, &remainder, &fits);
        nbits += (unsigned)nbits_of_remainder<T>(quant, source.k);
        n++;
    }
    n = warp_sum(n);
    nbits = warp_sum(nbits);
    if (threadIdx.x % 32 == 0) {
        s->ncounted = n;
        s->remainder_nbits = nbits;
    }
}

/* Replaces three rows, 0, 1 and 2 steps back, by the differences of order 0, 1
 * and 2. Ends with a barrier. */
template <typename T>
static __device__ __forceinline__ void
take_orders(lossless_sample<T> *s, int step)
{
    for (unsigned i = threadIdx.x; i < SAMPLE_NROWS / 3 * SAMPLE_ROW_NVALUES;
         i += SAMPLE_NTHREADS) {
        const int row = (int)(i / SAMPLE_ROW_NVALUES);
        const int first = row / step * 3 * step + row % step;
        const unsigned x = i % SAMPLE_ROW_NVALUES;
        const word_of<T> a = s->rows[first][x], b = s->rows[first + step][x],
                         c = s->rows[first + 2 * step][x];
        s->rows[first + step][x] = a - b;
        s->rows[first + 2 * step][x] = a - 2 * b + c;
    }
    __syncthreads();
}

/* Takes the differences of a run along the dimensions above 0, under all orders
 * up to run.most. Returns false, in all threads, if a row has only special
 * values. All threads of the block call it; barriers separate its steps. */
template <typename T>
static __device__ __forceinline__ bool
take_sample(const lossless_source<T> &source,
            const struct terp_lossless_run &run, lossless_sample<T> *s)
{
    const unsigned warp = threadIdx.x / 32;
    uint64_t stride[TERP_NDIMS] = {1};

    for (int d = 1; d < TERP_NDIMS; d++)
        stride[d] = stride[d - 1] * source.layout->dims[d - 1];
    for (unsigned i = threadIdx.x; i < SAMPLE_NROWS * SAMPLE_ROW_NVALUES;
         i += SAMPLE_NTHREADS)
        s->rows[0][i] = 0;
    if (threadIdx.x == 0) {
        s->run = run;
        s->fails = false;
    }
    __syncthreads();
    for (unsigned r = warp; r < SAMPLE_NROWS; r += SAMPLE_NWARPS) {
        const int step[3] = {(int)r % 3, (int)r / 3 % 3, (int)r / 9};
        const T *row = source.values + run.at - run.most[0];
        if (step[0] > run.most[1] || step[1] > run.most[2] ||
            step[2] > run.most[3])
            continue;
        for (int d = 1; d < TERP_NDIMS; d++)
            row -= (uint64_t)step[d - 1] * stride[d];
        if (!sample_row(source, row, (unsigned)run.n + (unsigned)run.most[0],
                        s->valid[r], s->rows[r] + SAMPLE_HALO - run.most[0]) &&
            threadIdx.x % 32 == 0)
            s->fails = true;
    }
    if (warp == 0)
        count_values(source, s);
    __syncthreads();
    take_orders(s, 9);
    take_orders(s, 3);
    take_orders(s, 1);
    return !s->fails;
}

/* Returns difference i of a row along dimension 0, of the given order. The row
 * already holds differences along the other dimensions. */
template <typename T>
static __device__ __forceinline__ word_of<T>
last_difference(const word_of<T> *row, unsigned i, int order)
{
    const word_of<T> *at = row + SAMPLE_HALO + i;

    return order == 0   ? at[0]
           : order == 1 ? at[0] - at[-1]
                        : at[0] - 2 * at[-1] + at[-2];
}

/* Whether value i of the run counts. Row 0 of `valid` begins with the values
 * before the run. */
template <typename T>
static __device__ __forceinline__ bool
sample_counts(const lossless_sample<T> &s, unsigned i)
{
    const unsigned at = i + (unsigned)s.run.most[0];

    return s.valid[0][at / 32] >> at % 32 & 1;
}

/* Returns the number of zero bits at the end of a number that is not 0. */
static __device__ __forceinline__ int
ctz_of(uint64_t bits)
{
    return __ffsll((long long)bits) - 1;
}

/* Returns the bits that differences of an order take. A warp calls it. */
template <typename T>
static __device__ __forceinline__ uint64_t
sum_of_widths(const lossless_sample<T> &s, const word_of<T> *row, int order)
{
    unsigned sum = 0, nnonzero = 0;
    word_of<T> all = 0;

    for (unsigned i = threadIdx.x % 32; i < s.run.n; i += 32) {
        const word_of<T> d = last_difference<T>(row, i, order);
        if (!sample_counts(s, i))
            continue;
        all |= d;
        nnonzero += d != 0;
        sum += (unsigned)bit_width(d ^ (0 - (d >> (8 * sizeof(T) - 1)))) +
               (d != 0);
    }
    const struct terp_lossless_widths widths = {warp_or(all), warp_sum(sum),
                                                warp_sum(nnonzero)};
    return terp_lossless_nbits_of(widths,
                                  widths.all == 0 ? 0 : ctz_of(widths.all));
}

/* ---- groups ---- */

/* Does what terp_shift_of_group does, by a warp whose lanes try shifts in
 * turns. */
static __device__ __forceinline__ int
warp_shift_of_group(const uint16_t *s_counts, int value_nbytes,
                    unsigned escape_nbytes, uint64_t *cost_ret)
{
    const int lane = (int)(threadIdx.x % 32);
    int least = TERP_NWIDTHS - 1, most = 0;
    unsigned long long best = ~0ull;

    for (int first = 0; first < TERP_NWIDTHS; first += 32) {
        const bool some =
            first + lane < TERP_NWIDTHS && s_counts[first + lane] > 0;
        const unsigned all = __ballot_sync(FULL_WARP_MASK, some);
        if (all == 0)
            continue;
        least = min(least, first + __ffs((int)all) - 1);
        most = max(most, first + 31 - __clz((int)all));
    }
    *cost_ret = 0;
    if (least > most)
        return 0;
    const struct terp_shift_range range =
        terp_shift_range_of(least, most, terp_max_shift(value_nbytes));
    for (int n = range.first + lane; n <= range.last; n += 32) {
        const unsigned long long cost =
            (unsigned long long)terp_cost_of_shift(s_counts, least, most, n,
                                                   escape_nbytes)
                << 8 |
            (unsigned)n;
        best = cost < best ? cost : best;
    }
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
        const unsigned long long other =
            __shfl_xor_sync(FULL_WARP_MASK, best, distance);
        best = other < best ? other : best;
    }
    *cost_ret = best >> 8;
    return (int)(best & 0xFF);
}
