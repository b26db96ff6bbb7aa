/* The head of a stream of a grid, and the values on a grid: integers times a
 * step. doc/format.md, "Grid". Integer operations alone decide a value's bits.
 */
#pragma once

#include "codec/format/bytes.h"

TERP_C_BEGIN

/* Number j at index i of the chunk stands for the integer
 * k = first + gap * j + drift * i, and k for the value k * mantissa *
 * 2^exponent, rounded to nearest even. */
struct terp_grid {
    uint64_t mantissa; /* at least 2^63 */
    int exponent;
    int64_t first;
    uint64_t gap;
    int64_t drift;
    int number_nbytes; /* 2, 4 or 8; 0: the chunk has ranks only */
};

#define TERP_GRID_MAX_EXPONENT 4095

/* An integer is a sum of three terms. None has a larger magnitude, so the sum
 * does not overflow. */
#define TERP_GRID_MAX_TERM (INT64_C(1) << 61)

/* Bytes of the head, which follows the number of values in the table. */
#define TERP_GRID_NBYTES (1 + 8 + 2 + 8 + 8 + 8)

static inline void
terp_grid_write(struct writer *writer, const struct terp_grid *grid)
{
    write_le(writer, (uint64_t)grid->number_nbytes, 1);
    write_le(writer, grid->mantissa, 8);
    write_le(writer, (uint64_t)grid->exponent + TERP_GRID_MAX_EXPONENT, 2);
    write_le(writer, (uint64_t)grid->first, 8);
    write_le(writer, grid->gap, 8);
    write_le(writer, (uint64_t)grid->drift, 8);
}

static inline struct terp_grid
terp_grid_read(struct reader *reader)
{
    struct terp_grid grid;

    grid.number_nbytes = (int)read_le(reader, 1);
    grid.mantissa = read_le(reader, 8);
    grid.exponent = (int)read_le(reader, 2) - TERP_GRID_MAX_EXPONENT;
    grid.first = (int64_t)read_le(reader, 8);
    grid.gap = read_le(reader, 8);
    grid.drift = (int64_t)read_le(reader, 8);
    return grid;
}

/* Whether a chunk of `nvalues` values may have the drift. Only a chunk of one
 * dimension may have a drift other than 0. */
static inline bool
terp_grid_may_drift(int rank, uint64_t nvalues, int64_t drift)
{
    const uint64_t magnitude =
        drift < 0 ? 0 - (uint64_t)drift : (uint64_t)drift;

    return drift == 0 ||
           (rank == 1 && magnitude <= (uint64_t)TERP_GRID_MAX_TERM / nvalues);
}

static inline bool
terp_grid_is_valid(const struct terp_grid *grid)
{
    return (grid->number_nbytes == 2 || grid->number_nbytes == 4 ||
            grid->number_nbytes == 8) &&
           grid->mantissa >> 63 == 1 &&
           grid->exponent <= TERP_GRID_MAX_EXPONENT &&
           grid->first >= -TERP_GRID_MAX_TERM &&
           grid->first <= TERP_GRID_MAX_TERM && grid->gap > 0 &&
           grid->gap <= (uint64_t)TERP_GRID_MAX_TERM;
}

/* The upper half of a product. */
static inline TERP_HOST_DEVICE uint64_t
terp_multiply_high(uint64_t a, uint64_t b)
{
    const uint64_t a0 = a & UINT32_MAX, a1 = a >> 32;
    const uint64_t b0 = b & UINT32_MAX, b1 = b >> 32;
    const uint64_t middle = a1 * b0 + (a0 * b0 >> 32);
    const uint64_t other = a0 * b1 + (middle & UINT32_MAX);

    return a1 * b1 + (middle >> 32) + (other >> 32);
}

/* The bits of the value of integer k, in a float of `nbytes` bytes. False: no
 * normal number is that large or that small. */
static inline TERP_HOST_DEVICE bool
terp_grid_bits(const struct terp_grid *grid, int64_t k, int nbytes,
               uint64_t *bits_ret)
{
    const int nsignificant = nbytes == 8 ? 53 : 24;
    const int bias = nbytes == 8 ? 1023 : 127;
    const uint64_t magnitude = k < 0 ? 0 - (uint64_t)k : (uint64_t)k;
    uint64_t high = terp_multiply_high(magnitude, grid->mantissa);
    uint64_t low = magnitude * grid->mantissa;
    int top = 127 + grid->exponent; /* the exponent of the first bit */

    *bits_ret = 0;
    if (k == 0)
        return true;
    if (high == 0) {
        high = low;
        low = 0;
        top -= 64;
    }
    const int nzeros = 64 - bit_width(high);
    if (nzeros > 0) {
        high = high << nzeros | low >> (64 - nzeros);
        low <<= nzeros;
        top -= nzeros;
    }
    uint64_t significand = high >> (64 - nsignificant);
    const uint64_t rest = high << nsignificant, half = UINT64_C(1) << 63;
    if (rest > half || (rest == half && (low != 0 || (significand & 1) != 0)))
        significand++;
    if (significand >> nsignificant != 0) {
        significand >>= 1;
        top++;
    }
    if (top < 1 - bias || top > bias)
        return false;
    *bits_ret = (uint64_t)(k < 0) << (8 * nbytes - 1) |
                (uint64_t)(top + bias) << (nsignificant - 1) |
                (significand & ((UINT64_C(1) << (nsignificant - 1)) - 1));
    return true;
}

/* The bits of the value of number j at index i. False: the number does not
 * stand for a value. */
static inline TERP_HOST_DEVICE bool
terp_grid_value(const struct terp_grid *grid, uint64_t j, uint64_t i,
                int nbytes, uint64_t *bits_ret)
{
    const uint64_t distance = j * grid->gap;

    *bits_ret = 0;
    return terp_multiply_high(j, grid->gap) == 0 &&
           distance <= (uint64_t)TERP_GRID_MAX_TERM &&
           terp_grid_bits(
               grid, grid->first + (int64_t)distance + grid->drift * (int64_t)i,
               nbytes, bits_ret);
}

TERP_C_END
