/* Sums of what a mask delta leaves: bits that differ from those some values
 * before become the bits again. Such differences are summed up (modulo 2): the
 * chunk is cut into rows as long as the mask delta's distance and into columns
 * of 32 values, and a thread goes down a column from row to row. Long columns
 * are cut into parts: first each part's sum is found, then all parts are done
 * side by side. */
#pragma once

#include "codec/format/base.h"
#include "gpu/engine/platform.cuh"

/* A block sums up a chunk of no more values than this by itself. */
#ifndef CUDA_SINGLE_BLOCK_MAX_NSUMMED
#define CUDA_SINGLE_BLOCK_MAX_NSUMMED (1 << 20)
#endif

/* The most parts of a column: each part reads the sums of all before it. A
 * device is busy with so many parts of all columns together. */
#define MAX_NPARTS 512
#define BUSY_NITEMS (UINT64_C(1) << 17)

/* Rows whose loads a thread has on their way at once. */
#define NROWS_AHEAD 8

/* How the mask is cut for threads: each takes every so many of the parts of all
 * columns. */
struct mask_cut {
    uint32_t *mask, *sums; /* sums[nparts][ncolumns] */
    uint64_t distance, nvalues;
    uint64_t ncolumns, nrows, nparts, part_nrows;
};

/* Room for sums, which are fewer than a quarter of the mask's words. */
static inline uint64_t
mask_sums_nbytes(uint64_t nvalues)
{
    return div_up(nvalues, 32);
}

static __device__ struct mask_cut
cut_mask(uint32_t *mask, uint32_t *sums, uint64_t nvalues, uint64_t distance)
{
    struct mask_cut cut;
    uint64_t nwords = div_up(nvalues, 32);

    cut.mask = mask;
    cut.sums = sums;
    cut.distance = distance;
    cut.nvalues = nvalues;
    cut.ncolumns = div_up(distance, 32);
    cut.nrows = div_up(nvalues, distance);
    cut.nparts = min_u64(nwords / 4, BUSY_NITEMS) / cut.ncolumns;
    cut.nparts = cut.nparts > 0 ? min_u64(cut.nparts, MAX_NPARTS) : 1;
    cut.part_nrows = div_up(cut.nrows, cut.nparts);
    return cut;
}

/* The bits of a column in a row. */
static __device__ __forceinline__ unsigned
bits_at(const struct mask_cut &cut, uint64_t row, uint64_t column)
{
    const uint64_t at = row * cut.distance + 32 * column;
    const uint64_t end = min_u64((row + 1) * cut.distance, cut.nvalues);
    const unsigned shift = (unsigned)(at % 32);

    if (at >= end)
        return 0;
    const unsigned nbits = (unsigned)min_u64(32, end - at);
    const uint32_t *word = cut.mask + at / 32;
    const unsigned bits =
        __funnelshift_r(word[0], shift + nbits > 32 ? word[1] : 0, shift);
    return nbits == 32 ? bits : bits & ((1u << nbits) - 1);
}

/* Toggles bits of a column in a row, and atomically: columns share words. */
static __device__ __forceinline__ void
toggle_bits(const struct mask_cut &cut, uint64_t row, uint64_t column,
            unsigned bits)
{
    const uint64_t at = row * cut.distance + 32 * column;
    const uint64_t end = min_u64((row + 1) * cut.distance, cut.nvalues);
    const unsigned shift = (unsigned)(at % 32);

    if (at >= end)
        return;
    if (end - at < 32)
        bits &= (1u << (end - at)) - 1;
    if (bits << shift != 0)
        atomicXor(&cut.mask[at / 32], bits << shift);
    if (shift > 0 && bits >> (32 - shift) != 0)
        atomicXor(&cut.mask[at / 32 + 1], bits >> (32 - shift));
}

/* The sum of a part of a column and of `before`, the sum of the parts before
 * it. SUM_UP: the part's bits become the sums up to each. */
template <bool SUM_UP>
static __device__ unsigned
sum_part(const struct mask_cut &cut, uint64_t part, uint64_t column,
         unsigned before)
{
    const uint64_t end = min_u64((part + 1) * cut.part_nrows, cut.nrows);
    unsigned bits[NROWS_AHEAD], sum = before;

    for (uint64_t row = part * cut.part_nrows; row < end; row += NROWS_AHEAD) {
        for (unsigned k = 0; k < NROWS_AHEAD; k++)
            bits[k] = row + k < end ? bits_at(cut, row + k, column) : 0;
        for (unsigned k = 0; k < NROWS_AHEAD; k++) {
            if (SUM_UP && row + k < end)
                toggle_bits(cut, row + k, column, sum);
            sum ^= bits[k];
        }
    }
    return sum;
}

/* The sums of all parts but the last. The caller is thread `first` of
 * `nthreads`. */
static __device__ void
sum_parts(const struct mask_cut &cut, uint64_t first, uint64_t nthreads)
{
    for (uint64_t i = first; i < cut.ncolumns * (cut.nparts - 1); i += nthreads)
        cut.sums[i] =
            sum_part<false>(cut, i / cut.ncolumns, i % cut.ncolumns, 0);
}

/* Sums up all parts, once the sum of each is known. */
static __device__ void
sum_up(const struct mask_cut &cut, uint64_t first, uint64_t nthreads)
{
    for (uint64_t i = first; i < cut.ncolumns * cut.nparts; i += nthreads) {
        const uint64_t part = i / cut.ncolumns, column = i % cut.ncolumns;
        unsigned before = 0;
#pragma unroll 8
        for (uint64_t k = 0; k < part; k++)
            before ^= cut.sums[k * cut.ncolumns + column];
        sum_part<true>(cut, part, column, before);
    }
}
