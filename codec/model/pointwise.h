/* Bounds relative to each value: a chunk's logarithms are coded under an
 * absolute bound, in float32 or float64, whichever the bound needs. Where not
 * even float64 suffices, values are rounded to as many bits as the bound asks
 * for, and coded without loss.
 *
 * A value x that is neither special nor tiny is sign * 2^k * m, m from the
 * square root of 1/2 to that of 2. Its logarithm, less the center of the chunk,
 * is y = k - center + log2(m) + offset; a decoder makes sign * 2^(y' + center)
 * of y'. The offset puts y in the middle of what y' may be: from
 * log2|x| + log2(1 - e) to log2|x| + log2(1 + e).
 *
 * With a floor the bound is max(floor, e |x|). The joint, f = floor / e, is
 * where both are the same. What is coded is then
 *     y = sign (x) (L |x| / f)               up to it, L = log2(e),
 *     y = sign (x) (log2(|x| / f) + L)       above it,
 * which joins smoothly: so zeros, signs and small numbers need nothing else. An
 * error of log2(1 + e) in y keeps the bound: upwards x' is at most x (1 + e)
 * above the joint, and f (1 + e) exp(x / f - 1) from below it, which exceeds
 * x by floor at most; downwards x' is at least x / (1 + e), and x - x' is at
 * most f ln(1 + e) below the joint. */
#pragma once

#include "codec/format/pointwise.h"
#include "codec/model/exact.h"
#include "codec/model/range.h"

/* A larger bound is kept as this one: values of at least twice the smallest
 * normal number, which are not tiny, then decode to normal ones. */
#define TERP_POINTWISE_MAX_BOUND 0.5

/* What a chunk's logarithms are taken with. */
struct terp_pointwise {
    enum terp_pointwise_form form;
    enum terp_pointwise_signs signs;
    int center;
    double offset;
    double bound; /* of what is coded, absolute; 0: every bit of it */
    int nzeros;   /* bits that are rounded away, where no logarithms are */
    double joint; /* 0: there is no floor */
    double shift; /* with a floor, instead of the offset */
};

/* What a pass over a chunk's values finds, but for those that are special or
 * tiny. */
struct terp_magnitudes {
    uint64_t min_bits, max_bits; /* of magnitudes; min > max: there are none */
    bool positive, negative;     /* whether there are such values */
};

/* Nothing is lost by rounding in these: the most that a logarithm and its
 * inverse are off, in log2, in units of 2^-24 or 2^-53 (u). Making y: (float)
 * of a float64's m 1.45; m + 1, the quotient, the series and its product 4.2
 * relative to at most 1/2, so 2.1; its sum with the offset, and the offset,
 * 0.75; the sum with k, which is at most as large as y: |y|. Making 2^y':
 * product and sum, 2.3 relative, so 3.3. The series 0.2. That is 7.8 + |y|. */
#define TERP_POINTWISE_MARGIN 16
#define TERP_POINTWISE_UNIT_F32 0x1p-24
#define TERP_POINTWISE_UNIT_F64 0x1p-53
/* A float64 becomes a float32 at the end: 1.443 x 2^-24. */
#define TERP_POINTWISE_NARROWING 0x1.8p-24

/* Forms whose margin takes at most this part of the bound. Float64 takes twice
 * the time and memory of float32; rounding to bits takes a bit a value more. */
#define TERP_POINTWISE_MAX_PART_F32 0x1p-5
#define TERP_POINTWISE_MAX_PART_F64 0x1p-3

/* log2((1 + e) / (1 - e)) / 2, and log2(1 - e^2) / 2, by their series. A term
 * is at most a quarter of the one before. */
#define TERP_POINTWISE_NTERMS 30
#define TERP_LOG2_E 0x1.71547652b82fep+0

static inline TERP_HOST_DEVICE double
terp_pointwise_half_width(double e)
{
    double power = e, sum = 0;

    for (int i = 1; i <= 2 * TERP_POINTWISE_NTERMS; i += 2) {
        sum += power / i;
        power *= e * e;
    }
    return sum * TERP_LOG2_E;
}

/* log2(1 + e) = 2 / ln(2) times the series of atanh(e / (2 + e)), whose terms
 * are at most a ninth of the one before. */
static inline TERP_HOST_DEVICE double
terp_pointwise_width_of_floor(double e)
{
    return 2 * terp_pointwise_half_width(e / (2 + e));
}

static inline TERP_HOST_DEVICE double
terp_pointwise_offset(double e)
{
    double power = e * e, sum = 0;

    for (int i = 1; i <= TERP_POINTWISE_NTERMS; i++) {
        sum += power / i;
        power *= e * e;
    }
    return -0.5 * TERP_LOG2_E * sum;
}

/* The k of a magnitude, or one less. */
static inline TERP_HOST_DEVICE int
terp_exponent_of_bits(uint64_t bits, int value_nbytes)
{
    const int mantissa_nbits = terp_mantissa_nbits(value_nbytes);
    return (int)(bits >> mantissa_nbits) - 1 + terp_min_exponent(value_nbytes);
}

/* How the magnitudes are coded under the bound e, which is below 1. */
static inline TERP_HOST_DEVICE struct terp_pointwise
terp_pointwise_of(double e, struct terp_magnitudes magnitudes, int value_nbytes)
{
    const double bound =
        e < TERP_POINTWISE_MAX_BOUND ? e : TERP_POINTWISE_MAX_BOUND;
    const int low = terp_exponent_of_bits(magnitudes.min_bits, value_nbytes);
    const int high =
        terp_exponent_of_bits(magnitudes.max_bits, value_nbytes) + 1;
    const int mantissa_nbits = terp_mantissa_nbits(value_nbytes);
    const double width = terp_pointwise_half_width(bound) * (1 - 0x1p-48);
    struct terp_pointwise how;

    how.center = low + (high - low) / 2;
    /* At most |y|, and |y'|: a step to either side of the exponents. */
    const double units = TERP_POINTWISE_MARGIN + 2 + (high - how.center);
    const double margin_f32 = units * TERP_POINTWISE_UNIT_F32;
    const double margin_f64 =
        units * TERP_POINTWISE_UNIT_F64 +
        (value_nbytes == 4 ? TERP_POINTWISE_NARROWING : 0);

    how.offset = terp_pointwise_offset(bound);
    how.joint = how.shift = 0;
    how.nzeros = 0;
    how.signs = !magnitudes.negative   ? TERP_SIGNS_POSITIVE
                : !magnitudes.positive ? TERP_SIGNS_NEGATIVE
                                       : TERP_SIGNS_MIXED;
    if (margin_f32 <= width * TERP_POINTWISE_MAX_PART_F32) {
        how.form = TERP_POINTWISE_LOG_F32;
        how.bound = width - margin_f32;
    } else if (margin_f64 <= width * TERP_POINTWISE_MAX_PART_F64) {
        how.form = TERP_POINTWISE_LOG_F64;
        how.bound = width - margin_f64;
    } else {
        /* Half of what is rounded away is at most e of the smallest mantissa.
         * What is left may not change at all. */
        const int nzeros = terp_exponent_of(bound) - 1023 + mantissa_nbits + 1;
        how.form = TERP_POINTWISE_ROUNDED;
        how.signs = TERP_SIGNS_POSITIVE;
        how.nzeros = nzeros > 0 ? nzeros : 0;
        how.bound = 0;
    }
    return how;
}

/* Signs are found in so many parts of a chunk, which begin where a word of 64
 * signs does: a value that is special or tiny takes the sign of the one before
 * it in its part, if there is one, and else that of a positive one. */
#define TERP_POINTWISE_NPARTS 64

static inline TERP_HOST_DEVICE uint64_t
terp_pointwise_part_nvalues(uint64_t nvalues)
{
    return div_up(div_up(nvalues, TERP_POINTWISE_NPARTS), 64) * 64;
}

/* What is added with a floor, in the same units: the shift and its sum 3
 * instead of 0.75; what is taken off y' rounds by at most |y'|. Multiples make
 * less: 5.8 on both ways, and 0.35 where they are subnormal. */
#define TERP_POINTWISE_FLOOR_MARGIN 20

/* What a bound relative to each value means for a chunk, with a floor. */
enum terp_floor_use {
    TERP_FLOOR_IS_ALL,  /* it is as large as the bound of any value */
    TERP_FLOOR_IS_NONE, /* it is so small that it says nothing */
    TERP_FLOOR_IS_JOINED
};

static inline TERP_HOST_DEVICE enum terp_floor_use
terp_pointwise_use_of_floor(double e, double floor, double max,
                            int value_nbytes)
{
    const double joint = terp_pointwise_joint(floor, e);

    return !(joint < max) || !terp_pointwise_joint_is_small(joint, value_nbytes)
               ? TERP_FLOOR_IS_ALL
           : terp_pointwise_joint_is_large(joint, value_nbytes)
               ? TERP_FLOOR_IS_JOINED
               : TERP_FLOOR_IS_NONE;
}

/* How a chunk is coded whose floor is joined. `magnitudes` are those of the
 * chunk; some are above the joint. */
static inline TERP_HOST_DEVICE struct terp_pointwise
terp_pointwise_floored_of(double e, double floor,
                          struct terp_magnitudes magnitudes, int value_nbytes)
{
    const double joint = terp_pointwise_joint(floor, e);
    const int exponent = terp_exponent_of(joint) - 1023;
    const double m = joint / terp_power_of_two(exponent);
    const double width = terp_pointwise_width_of_floor(e) * (1 - 0x1p-48);
    const int high =
        terp_exponent_of_bits(magnitudes.max_bits, value_nbytes) + 1;
    /* At most |y| and |y'|: what the shift and a step add is less than 3. */
    const double units = TERP_POINTWISE_MARGIN + TERP_POINTWISE_FLOOR_MARGIN +
                         2 * (3 + high - exponent);
    const double margin_f32 = units * TERP_POINTWISE_UNIT_F32;
    const double margin_f64 =
        units * TERP_POINTWISE_UNIT_F64 +
        (value_nbytes == 4 ? TERP_POINTWISE_NARROWING : 0);
    struct terp_pointwise how = {TERP_POINTWISE_LOG_F32,
                                 TERP_SIGNS_POSITIVE,
                                 exponent,
                                 0,
                                 width - margin_f32,
                                 0,
                                 joint,
                                 0};

    how.shift = TERP_LOG2_E - 2 * terp_pointwise_half_width((m - 1) / (m + 1));
    if (margin_f32 <= width * TERP_POINTWISE_MAX_PART_F32)
        return how;
    how.form = TERP_POINTWISE_LOG_F64;
    how.bound = width - margin_f64;
    return margin_f64 <= width * TERP_POINTWISE_MAX_PART_F64
               ? how
               : terp_pointwise_of(e, magnitudes, value_nbytes);
}
