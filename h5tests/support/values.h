/* Values of a chunk as tests see them: bits and numbers in any byte order,
 * and the bound compared without rounding. */
#ifndef TERP_VALUES_H
#define TERP_VALUES_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "codec/api/terp.h"
#include "codec/format/base.h"

static inline int
value_nbytes(enum terp_type type)
{
    return type == TERP_FLOAT32 ? 4 : type == TERP_FLOAT64 ? 8 : 1;
}

static inline uint64_t
chunk_nvalues(const struct terp_chunk *chunk)
{
    return terp_chunk_nbytes(chunk) / (uint64_t)value_nbytes(chunk->type);
}

static inline uint64_t
value_bits(const struct terp_chunk *chunk, const uint8_t *values, uint64_t i)
{
    int nbytes = value_nbytes(chunk->type);
    const uint8_t *at = values + i * (uint64_t)nbytes;
    uint64_t bits = 0;

    for (int b = 0; b < nbytes; b++)
        bits |= (uint64_t)at[chunk->big_endian ? nbytes - 1 - b : b] << 8 * b;
    return bits;
}

static inline void
value_put(const struct terp_chunk *chunk, uint8_t *values, uint64_t i,
          uint64_t bits)
{
    int nbytes = value_nbytes(chunk->type);
    uint8_t *at = values + i * (uint64_t)nbytes;

    for (int b = 0; b < nbytes; b++)
        at[chunk->big_endian ? nbytes - 1 - b : b] = (uint8_t)(bits >> 8 * b);
}

static inline double
value_of_bits(enum terp_type type, uint64_t bits)
{
    if (type == TERP_FLOAT64)
        return double_of_bits(bits);
    uint32_t low = (uint32_t)bits;
    float value;
    memcpy(&value, &low, sizeof value);
    return value;
}

/* The bits of `value` rounded to `type`. */
static inline uint64_t
value_to_bits(enum terp_type type, double value)
{
    if (type == TERP_FLOAT64)
        return double_bits(value);
    float rounded = (float)value;
    uint32_t bits;
    memcpy(&bits, &rounded, sizeof bits);
    return bits;
}

static inline bool
bits_are_finite(enum terp_type type, uint64_t bits)
{
    uint64_t exponent =
        type == TERP_FLOAT64 ? UINT64_C(0x7FF) << 52 : UINT64_C(0xFF) << 23;
    return (bits & exponent) != exponent;
}

/* |x - y| <= bound in exact arithmetic, for finite x, y and bound: the
 * difference is sum + rest (Dekker's Fast2Sum), where sum is the difference
 * rounded to nearest. Rounding is monotonic, so only a sum equal to the bound
 * leaves the decision to the rest. */
static inline bool
is_within(double x, double y, double bound)
{
    bool x_is_larger = (x < 0 ? -x : x) >= (y < 0 ? -y : y);
    double large = x_is_larger ? x : -y, small = x_is_larger ? -y : x;
    double sum = large + small;
    double rest = small - (sum - large);

    if (sum < 0) {
        sum = -sum;
        rest = -rest;
    }
    return sum < bound || (sum == bound && rest <= 0);
}

/* |x - y| <= bound |x| in exact arithmetic, and y has the sign of x, for finite
 * x and y and a bound below 1. Both sides are a sum and a rest, as above. */
static inline bool
is_within_pointwise(double x, double y, double bound)
{
    /* Scaled, so that no rest is too small for a double. */
    const double scale = fabs(x) < 0x1p-400 ? 0x1p600 : 1;
    const double value = fabs(x) * scale, other = fabs(y) * scale;
    const double large = value > other ? value : other;
    const double small = value > other ? other : value;
    const double sum = large - small, rest = (large - sum) - small;
    const double product = bound * value;

    return signbit(x) == signbit(y) &&
           (sum < product ||
            (sum == product && rest <= fma(bound, value, -product)));
}

#endif
