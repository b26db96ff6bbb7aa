/* Values of a chunk: their bits and numbers in any byte order, and an exact
 * comparison with the bound. */
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "codec/api/terp.h"
#include "codec/model/carrier.h"

/* For complex types, functions treat each part as a value. */
static inline int
value_nbytes(enum terp_type type)
{
    return terp_part_nbytes(type);
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

static inline TERP_HOST_DEVICE double
value_of_bits(enum terp_type type, uint64_t bits)
{
    if (type == TERP_FLOAT64)
        return double_of_bits(bits);
    uint32_t low = terp_type_is_half(type)
                       ? terp_f32_bits_of_half(type, (uint16_t)bits)
                       : (uint32_t)bits;
    float value;
    memcpy(&value, &low, sizeof value);
    return value;
}

/* The integer of `type` that is 1000 times `value`, or the least integer if
 * that does not fit. */
static inline uint64_t
integer_to_bits(enum terp_type type, double value)
{
    const int nbits = 8 * value_nbytes(type);
    const double low = terp_type_is_signed(type) ? -ldexp(1, nbits - 1) : 0;
    const double high = low + ldexp(1, nbits);
    const double scaled = 1000 * value;
    const uint64_t least = low < 0 ? UINT64_C(1) << (nbits - 1) : 0;

    if (!(scaled >= low && scaled < high))
        return least;
    return (scaled < 0 ? 0 - (uint64_t)-scaled : (uint64_t)scaled) &
           UINT64_MAX >> (64 - nbits);
}

/* The bits of `value` rounded to `type`. */
static inline uint64_t
value_to_bits(enum terp_type type, double value)
{
    if (terp_type_is_integer(type))
        return integer_to_bits(type, value);
    if (type == TERP_COMPLEX128)
        return double_bits(value);
    if (type == TERP_FLOAT64)
        return double_bits(value);
    float rounded = (float)value;
    uint32_t bits;
    memcpy(&bits, &rounded, sizeof bits);
    return terp_type_is_half(type) ? terp_half_of_f32_bits(type, bits) : bits;
}

static inline TERP_HOST_DEVICE bool
bits_are_finite(enum terp_type type, uint64_t bits)
{
    uint64_t exponent = type == TERP_FLOAT64    ? UINT64_C(0x7FF) << 52
                        : type == TERP_FLOAT16  ? 0x1F << 10
                        : type == TERP_BFLOAT16 ? 0xFF << 7
                                                : UINT64_C(0xFF) << 23;
    return (bits & exponent) != exponent;
}

/* |x - y| <= bound in exact arithmetic, for finite x, y and bound. The
 * difference is sum + rest (Dekker's Fast2Sum), where sum is the difference
 * rounded to nearest. Rounding is monotonic, so the rest matters only if sum
 * equals the bound. */
static inline TERP_HOST_DEVICE bool
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
 * x and y and a bound below 1. Both sides are a sum and a rest, as in
 * is_within. */
static inline TERP_HOST_DEVICE bool
is_within_pointwise(double x, double y, double bound)
{
    /* Scales up, so that a double can hold every rest. */
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
