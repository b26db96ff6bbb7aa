/* Undoes a mask delta. A mask delta replaces each bit of a mask by the bit's
 * difference from the bit `distance` values before; sums of differences modulo
 * 2 restore the mask. The chunk is divided into rows of `distance` values and
 * columns of 32 values, and a thread goes down a column from row to row. Long
 * columns are divided into parts: first the sum of each part is found, then all
 * parts are summed side by side. */
#pragma once

#include "codec/format/base.h"
#include "gpu/engine/platform.cuh"

/* The most values of a chunk that one block sums up by itself, which saves two
 * launches. Tests use 0. */
#ifndef CUDA_SINGLE_BLOCK_MAX_NSUMMED
#define CUDA_SINGLE_BLOCK_MAX_NSUMMED (1 << 20)
#endif

/* The most parts of a column: each part reads the sums of all parts before it,
 * so the reads grow with the square. BUSY_NITEMS: parts of all columns that
 * keep a device busy; more would only add reads. */
#define MAX_NPARTS 512
#define BUSY_NITEMS (UINT64_C(1) << 17)

/* Rows that a thread loads at once, to hide the latency of loads. */
#define NROWS_AHEAD 8

/* A mask divided into columns and parts. Threads take parts in turn. */
struct mask_cut {
    uint32_t *mask, *sums; /* sums[nparts][ncolumns] */
    uint64_t distance, nvalues;
    uint64_t ncolumns, nrows, nparts, part_nrows;
};

/* Bytes for the sums, which number at most a quarter of the mask's words. */
static inline uint64_t
mask_sums_nbytes(uint64_t nvalues)
{
    return div_up(nvalues, 32);
}

/* Divides a mask of `nvalues` bits. */
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

/* Toggles bits of a column in a row, by atomics: columns share words. */
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

/* The sum of `before`, the sum of the parts before, and the bits of a part of a
 * column. SUM_UP: also replaces the part's bits by the sums up to each row. */
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

/* Finds the sums of all parts except the last of each column. The caller is
 * thread `first` of `nthreads`. */
static __device__ void
sum_parts(const struct mask_cut &cut, uint64_t first, uint64_t nthreads)
{
    for (uint64_t i = first; i < cut.ncolumns * (cut.nparts - 1); i += nthreads)
        cut.sums[i] =
            sum_part<false>(cut, i / cut.ncolumns, i % cut.ncolumns, 0);
}

/* Sums up all parts, after sum_parts has ended in all threads. */
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
