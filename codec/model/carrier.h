/* The carrier: float32 or float64 values that are coded in place of integers,
 * 16-bit floats and complex values. This header chooses the carrier and its
 * bound, and converts parts to the carrier and back. A part is a value, or the
 * real or the imaginary part of a complex value.
 *
 * An integer x is coded as n = (x - offset) / scale. The scale divides all
 * differences of the chunk's integers; the offset is one of the integers that
 * may occur, in the middle of their range. A decoder rounds to the nearest
 * integer. So a whole bound m on integers allows a bound of a little less than
 * m + 1/2 on the carrier: the rounded value is at most m from n. */
#pragma once

#include "codec/format/carrier.h"
#include "codec/model/bound.h"

/* The carrier represents all integers up to this magnitude. */
#define TERP_CARRIER_F32_MAX (INT64_C(1) << 24)
#define TERP_CARRIER_F64_MAX (INT64_C(1) << 53)
/* Words up to here are bits of finite float64 values. */
#define TERP_CARRIER_BITS_MAX INT64_C(0x7FEFFFFFFFFFFFFF)

/* Bounds of carriers of integers and of 16-bit floats are smaller than their
 * exact limit by this fraction, so that a value on the limit cannot round the
 * wrong way. */
#define TERP_CARRIER_MARGIN 0x1p-30

/* The range and the scale of a chunk's integers without fill values. All
 * numbers are of 64 bits, modulo 2^64. */
struct terp_integers {
    uint64_t min, max; /* as distances from the lowest integer of the type */
    uint64_t scale;    /* divides all differences; 0: all integers are equal */
    bool any;
};

/* How integers are coded. */
struct terp_integer_carrier {
    struct terp_carrier_head head;
    double bound;  /* of n; 0: the carrier's bits must not change */
    bool is_coded; /* some carrier represents all integers */
};

/* The bound of integers as a whole number. */
static inline TERP_HOST_DEVICE uint64_t
terp_integer_bound(const struct terp_params *params)
{
    return params->bound_mode != TERP_BOUND_ABSOLUTE || !(params->bound >= 1)
               ? 0
           : params->bound < 0x1p63 ? (uint64_t)params->bound
                                    : UINT64_C(1) << 63;
}

static inline TERP_HOST_DEVICE struct terp_integer_carrier
terp_integer_carrier_of(enum terp_type type, uint64_t bound,
                        const struct terp_integers *found)
{
    const uint64_t scale = found->scale == 0 ? 1 : found->scale;
    const uint64_t range = found->any ? found->max - found->min : 0;
    const uint64_t middle = range / scale / 2;
    const uint64_t most = range / scale - middle;
    struct terp_integer_carrier carrier;

    carrier.head.form =
        most <= (uint64_t)TERP_CARRIER_F32_MAX   ? TERP_CARRIER_INTS_F32
        : most <= (uint64_t)TERP_CARRIER_F64_MAX ? TERP_CARRIER_INTS_F64
                                                 : TERP_CARRIER_INTS_BITS;
    carrier.head.scale = scale;
    carrier.head.offset = terp_lowest_integer(type) +
                          (found->any ? found->min : 0) + middle * scale;
    carrier.head.bound = 0;
    carrier.is_coded = most <= (uint64_t)TERP_CARRIER_BITS_MAX;
    carrier.bound =
        carrier.head.form == TERP_CARRIER_INTS_BITS
            ? 0
            : ((double)(bound / scale) + 0.5) * (1 - TERP_CARRIER_MARGIN);
    return carrier;
}

/* The range of n for which x stays in its type. */
struct terp_integer_limits {
    int64_t low, high;
};

/* Returns false when the offset is not an integer of the type. */
static inline TERP_HOST_DEVICE bool
terp_integer_limits_of(enum terp_type type,
                       const struct terp_carrier_head *head,
                       struct terp_integer_limits *limits_ret)
{
    const uint64_t below = head->offset - terp_lowest_integer(type);
    const uint64_t above = terp_integer_range(type) - below;
    const uint64_t max =
        (uint64_t)(head->form == TERP_CARRIER_INTS_F32   ? TERP_CARRIER_F32_MAX
                   : head->form == TERP_CARRIER_INTS_F64 ? TERP_CARRIER_F64_MAX
                                                         : INT64_MAX);

    limits_ret->low = -(int64_t)min_u64(below / head->scale, max);
    limits_ret->high = (int64_t)min_u64(above / head->scale, max);
    return below <= terp_integer_range(type);
}

/* ---- one part ---- */

/* The greatest common divisor. 0 is a multiple of any number. */
static inline TERP_HOST_DEVICE uint64_t
terp_common_divisor(uint64_t a, uint64_t b)
{
    while (b != 0) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The distance of an integer of `nbytes` from the lowest integer of its
 * type. */
static inline TERP_HOST_DEVICE uint64_t
terp_integer_distance(uint64_t word, int nbytes, uint64_t lowest)
{
    return (word - lowest) & UINT64_MAX >> (64 - 8 * nbytes);
}

/* n of an integer. `distance` and `offset` are distances from the lowest
 * integer of the type. The result fits because is_coded was checked. */
static inline TERP_HOST_DEVICE int64_t
terp_integer_number(uint64_t distance, uint64_t offset, uint64_t scale)
{
    if (scale == 1)
        return (int64_t)(distance - offset);
    return distance < offset ? -(int64_t)((offset - distance) / scale)
                             : (int64_t)((distance - offset) / scale);
}

/* Rounds to the nearest integer within the limits, ties towards zero. NaN gives
 * `low`. */
static inline TERP_HOST_DEVICE int32_t
terp_integer_of_f32(float y, float low, float high)
{
    const float limited = y > low ? (y < high ? y : high) : low;
    const int32_t n = (int32_t)limited;
    const float rest = limited - (float)n;

    return n + (rest > 0.5f) - (rest < -0.5f);
}

static inline TERP_HOST_DEVICE int64_t
terp_integer_of_f64(double y, double low, double high)
{
    const double limited = y > low ? (y < high ? y : high) : low;
    const int64_t n = (int64_t)limited;
    const double rest = limited - (double)n;

    return n + (rest > 0.5) - (rest < -0.5);
}

/* An integer as sign and magnitude in the bits of a float64, and back. */
static inline TERP_HOST_DEVICE uint64_t
terp_bits_of_integer(int64_t n)
{
    return n < 0 ? (UINT64_C(1) << 63 | (0 - (uint64_t)n)) : (uint64_t)n;
}

static inline TERP_HOST_DEVICE int64_t
terp_integer_of_bits(uint64_t bits, int64_t low, int64_t high)
{
    const int64_t magnitude = (int64_t)(bits & INT64_MAX);
    const int64_t n = bits >> 63 ? -magnitude : magnitude;

    return n < low ? low : n > high ? high : n;
}

/* ---- 16-bit floats ---- */

#define TERP_FLOAT16_INFINITY 0x7C00u
#define TERP_BFLOAT16_INFINITY 0x7F80u
#define TERP_FLOAT16_MANTISSA_NBITS 10
#define TERP_BFLOAT16_MANTISSA_NBITS 7

static inline TERP_HOST_DEVICE int
terp_half_mantissa_nbits(enum terp_type type)
{
    return type == TERP_FLOAT16 ? TERP_FLOAT16_MANTISSA_NBITS
                                : TERP_BFLOAT16_MANTISSA_NBITS;
}

/* The smallest positive number, and half of the last bit of 1. */
static inline TERP_HOST_DEVICE double
terp_half_least(enum terp_type type)
{
    return type == TERP_FLOAT16 ? 0x1p-24 : 0x1p-133;
}

static inline TERP_HOST_DEVICE double
terp_half_unit(enum terp_type type)
{
    return type == TERP_FLOAT16 ? 0x1p-11 : 0x1p-8;
}

static inline TERP_HOST_DEVICE unsigned
terp_half_infinity(enum terp_type type)
{
    return type == TERP_FLOAT16 ? TERP_FLOAT16_INFINITY
                                : TERP_BFLOAT16_INFINITY;
}

static inline TERP_HOST_DEVICE bool
terp_half_is_finite(enum terp_type type, unsigned bits)
{
    return (bits & 0x7FFF) < terp_half_infinity(type);
}

/* Maps the bits of a value to an int16 in the order of values, and back. -0.0
 * comes directly below 0.0. */
static inline TERP_HOST_DEVICE uint16_t
terp_half_in_order(uint16_t bits)
{
    return bits & 0x8000 ? bits ^ 0x7FFF : bits;
}

/* The bits of a finite value as a float32. The conversion is exact. */
static inline TERP_HOST_DEVICE uint32_t
terp_f32_bits_of_half(enum terp_type type, uint16_t bits)
{
    const uint32_t sign = (uint32_t)(bits & 0x8000) << 16;
    const uint32_t magnitude = bits & 0x7FFFu;

    if (type == TERP_BFLOAT16)
        return (uint32_t)bits << 16;
    if (magnitude >= 1u << TERP_FLOAT16_MANTISSA_NBITS)
        return sign | ((magnitude << 13) + (112u << 23));
    if (magnitude == 0)
        return sign;
    /* A subnormal number: its highest set bit becomes the implicit one. */
    const int shift = 24 - bit_width(magnitude);
    return sign |
           (((magnitude << shift) & 0x7FFFFF) | (uint32_t)(126 - shift) << 23);
}

/* Drops the last `nbits` bits and rounds to nearest, ties to even. */
static inline TERP_HOST_DEVICE uint32_t
terp_round_bits(uint32_t bits, int nbits)
{
    return (bits + (1u << (nbits - 1)) - 1 + (bits >> nbits & 1)) >> nbits;
}

/* The value nearest to a float32. What exceeds the largest finite value becomes
 * that value. A NaN becomes positive, because its sign depends on the
 * machine. */
static inline TERP_HOST_DEVICE uint16_t
terp_half_of_f32_bits(enum terp_type type, uint32_t bits)
{
    const uint32_t magnitude = bits & 0x7FFFFFFF;
    const uint32_t sign = magnitude > 0x7F800000 ? 0 : bits >> 16 & 0x8000;
    const int exponent = (int)(magnitude >> 23);
    const uint32_t largest = terp_half_infinity(type) - 1;
    uint32_t rounded;

    if (type == TERP_BFLOAT16)
        rounded = terp_round_bits(magnitude, 16);
    else if (exponent >= 113)
        rounded = terp_round_bits(magnitude, 13) - (112u << 10);
    else if (exponent >= 102)
        rounded =
            terp_round_bits((magnitude & 0x7FFFFF) | 0x800000, 126 - exponent);
    else
        rounded = 0;
    return (uint16_t)(sign | (rounded < largest ? rounded : largest));
}

/* The bound under which the carrier must be coded: after rounding to the type,
 * no value may be further than `bound` from its original. `min` and `max` are
 * the smallest and the largest magnitude.
 *
 * Why: let x be an original, x' its coded value, u the distance between
 * neighbours of the type at x', and r the neighbour nearest to x'. If x is a
 * multiple of u, so is r - x; then |r - x| is at most the bound if |x' - x| is
 * below the largest multiple of u within the bound, plus u / 2. Otherwise x is
 * nearer to zero than all numbers whose neighbours are u apart. One case:
 * neighbours of x are u / 2 apart; then r is at least u beyond the power of two
 * between x and r, and |r - x| is a multiple of u / 2 above u. The other case:
 * x is more than 2^(mantissa bits - 1) u away, and |r - x| is at most |x' - x|
 * + u / 2. */
static inline TERP_HOST_DEVICE double
terp_half_bound_of(enum terp_type type, double bound, double min, double max)
{
    const int mantissa_nbits = terp_half_mantissa_nbits(type);
    const double far = (double)(1 << (mantissa_nbits - 1));
    const double largest =
        type == TERP_FLOAT16 ? 0x1p16 : 0x1p128; /* exceeds all values */
    const double top = max + bound < largest ? max + bound : largest;
    const double least_u = terp_half_least(type);
    double least = bound;

    /* When u is less than the margin's fraction of the bound, u / 2 is within
     * the margin and needs no check. */
    double u = least_u / 2;
    do {
        u *= 2;
        const double begin = u * (double)(1 << mantissa_nbits);
        if (u < bound * TERP_CARRIER_MARGIN || 2 * begin <= min - bound)
            continue;
        const double halves = (double)(uint64_t)(2 * bound / u);
        const double wholes = (double)(uint64_t)(bound / u);
        const double alike = (wholes + 0.5) * u;
        const double beside = (halves > 2 ? halves / 2 : 1) * u;
        least = alike < least ? alike : least;
        if (min >= begin)
            continue;
        if (u > least_u)
            least = beside < least ? beside : least;
        if (bound >= (far / 2) * u && bound - u / 2 < least)
            least = bound - u / 2;
    } while (2 * u * (double)(1 << mantissa_nbits) <= top);
    return least * (1 - TERP_CARRIER_MARGIN);
}

/* Whether the bound is so small that no value may change. */
static inline TERP_HOST_DEVICE bool
terp_half_is_exact(enum terp_type type, const struct terp_params *params)
{
    return params->bound_mode == TERP_BOUND_POINTWISE
               ? params->bound < 2 * terp_half_unit(type)
               : params->bound_mode == TERP_BOUND_ABSOLUTE &&
                     params->bound < terp_half_least(type);
}

/* The carrier's bound relative to each value. It leaves half of the last bit of
 * a normal number for rounding. */
static inline TERP_HOST_DEVICE double
terp_half_pointwise_bound_of(enum terp_type type, double bound)
{
    const double unit = terp_half_unit(type);
    return (bound - unit) / (1 + unit) * (1 - TERP_CARRIER_MARGIN);
}

/* The caller's parameters for the float32 carrier of 16-bit floats. NaN and
 * infinities are NaN in the carrier, so fill values among them are dropped.
 * Floors do not exist for 16-bit floats. */
static inline TERP_HOST_DEVICE struct terp_params
terp_params_of_halves(enum terp_type type, const struct terp_params *params)
{
    const uint16_t fill = (uint16_t)params->fill_bits;
    const uint16_t missing = (uint16_t)params->missing_bits;
    struct terp_params coded = *params;

    coded.floor = 0;
    coded.has_fill &= terp_half_is_finite(type, fill);
    coded.fill_bits = terp_f32_bits_of_half(type, fill);
    coded.has_missing &= terp_half_is_finite(type, missing);
    coded.missing_bits = terp_f32_bits_of_half(type, missing);
    if (terp_half_is_exact(type, params)) {
        coded.bound_mode = TERP_BOUND_ABSOLUTE;
        coded.bound = 0;
    } else if (params->bound_mode == TERP_BOUND_POINTWISE) {
        coded.bound = terp_half_pointwise_bound_of(type, params->bound);
    }
    return coded;
}

/* The inverse of the conversion of fill values in terp_params_of_halves. */
static inline TERP_HOST_DEVICE uint64_t
terp_own_fill(enum terp_type type, uint64_t fill_bits)
{
    return terp_type_is_half(type)
               ? terp_half_of_f32_bits(type, (uint32_t)fill_bits)
               : fill_bits;
}

/* The bits of the carrier of a value: NaN for NaN and infinities, with
 * `normal_only` also for zeros and subnormal numbers. */
static inline TERP_HOST_DEVICE uint32_t
terp_carried_half(enum terp_type type, uint16_t bits, bool normal_only)
{
    const bool special =
        !terp_half_is_finite(type, bits) ||
        (normal_only &&
         (bits & 0x7FFFu) < 1u << terp_half_mantissa_nbits(type));

    return special ? 0x7FC00000 : terp_f32_bits_of_half(type, bits);
}

/* The carrier's bound for an absolute bound and values from `min` to `max`. */
static inline TERP_HOST_DEVICE double
terp_half_bound_of_range(enum terp_type type, double bound, double min,
                         double max)
{
    /* No values, or all are equal. */
    if (!is_bound(bound))
        return bound;
    return terp_half_bound_of(type, bound,
                              min > 0   ? min
                              : max < 0 ? -max
                                        : 0,
                              max > -min ? max : -min);
}

/* ---- complex values ---- */

/* The bound on the modulus of the error that a relative bound means: it follows
 * from the part with the larger range. 0: neither part has a range. */
static inline TERP_HOST_DEVICE double
terp_bound_of_parts(double bound, const double min[TERP_NPARTS],
                    const double max[TERP_NPARTS])
{
    double largest = 0;

    for (int i = 0; i < TERP_NPARTS; i++) {
        const double own =
            min[i] < max[i] ? terp_bound_of_range(bound, min[i], max[i]) : 0;
        largest = own > largest ? own : largest;
    }
    return is_bound(largest) ? largest : 0;
}

/* The bound of each part that keeps the modulus of the error within `bound`: a
 * little less than bound / sqrt(2). */
static inline TERP_HOST_DEVICE double
terp_part_bound_of(double bound)
{
    return bound * 0.7071067811865474;
}
