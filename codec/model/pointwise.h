/* Bounds relative to each value. The logarithms of a chunk's values are coded
 * under an absolute bound, in float32, or in float64 if the bound needs it. If
 * even float64 does not suffice, values are rounded to as many bits as the
 * bound needs, and coded losslessly.
 *
 * A value x that is neither special nor tiny is sign * 2^k * m, with m from
 * sqrt(1/2) to sqrt(2). Its logarithm, minus the center of the chunk, is y = k
 * - center + log2(m) + offset. A decoder computes sign * 2^(y' + center) from
 * the decoded y'. The offset puts y in the middle of the allowed range of y',
 * which is log2|x| + log2(1 - e) to log2|x| + log2(1 + e).
 *
 * With a floor the bound is max(floor, e |x|). The joint f = floor / e is the
 * magnitude at which both are equal. The coded value is then
 *
 *     y = sign (x) (L |x| / f)               up to the joint, L = log2(e),
 *     y = sign (x) (log2(|x| / f) + L)       above the joint.
 *
 * Both branches join smoothly, so zeros, signs and small numbers need no
 * section of their own. An error of log2(1 + e) in y keeps the bound. Upwards,
 * x' is at most x (1 + e) above the joint, and f (1 + e) exp(x / f - 1) from
 * below it, which exceeds x by floor at most. Downwards, x' is at least x / (1
 * + e), and x - x' is at most f ln(1 + e) below the joint. */
#pragma once

#include "codec/format/pointwise.h"
#include "codec/model/exact.h"
#include "codec/model/range.h"

/* Larger bounds are reduced to this one: then values of at least twice the
 * smallest normal number, which are not tiny, decode to normal numbers. */
#define TERP_POINTWISE_MAX_BOUND 0.5

/* Parameters of a chunk's logarithms. */
struct terp_pointwise {
    enum terp_pointwise_form form;
    enum terp_pointwise_signs signs;
    int center;
    double offset;
    double bound; /* of the coded values, absolute; 0: lossless */
    int nzeros;   /* bits rounded away, without logarithms */
    double joint; /* 0: no floor */
    double shift; /* with a floor, in place of the offset */
};

/* The range of a chunk's magnitudes, without special and tiny values. */
struct terp_magnitudes {
    uint64_t min_bits, max_bits; /* of magnitudes; min > max: no magnitudes */
    bool positive, negative;     /* whether such values exist */
};

/* The largest error of a logarithm and its inverse by rounding, in log2, in
 * units (u) of 2^-24 or 2^-53. To compute y: the conversion to float of a
 * float64's m, 1.45; m + 1, the quotient, the series and its product, 4.2
 * relative to at most 1/2, so 2.1; the sum with the offset, and the offset,
 * 0.75; the sum with k, which is at most as large as y, |y|. To compute 2^y':
 * product and sum, 2.3 relative, so 3.3. The series, 0.2. Together 7.8 +
 * |y|. */
#define TERP_POINTWISE_MARGIN 16
#define TERP_POINTWISE_UNIT_F32 0x1p-24
#define TERP_POINTWISE_UNIT_F64 0x1p-53
/* The last conversion from float64 to float32: 1.443 x 2^-24. */
#define TERP_POINTWISE_NARROWING 0x1.8p-24

/* A form is chosen if its margin takes at most this fraction of the bound.
 * Float64 takes twice the time and memory of float32; rounding takes a bit more
 * for each value. */
#define TERP_POINTWISE_MAX_PART_F32 0x1p-5
#define TERP_POINTWISE_MAX_PART_F64 0x1p-3

/* log2((1 + e) / (1 - e)) / 2, and log2(1 - e^2) / 2, by their series. Each
 * term is at most a quarter of the term before. */
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

/* log2(1 + e) = 2 / ln(2) times the series of atanh(e / (2 + e)), in which each
 * term is at most a ninth of the term before. */
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

/* k of a magnitude, or k - 1. */
static inline TERP_HOST_DEVICE int
terp_exponent_of_bits(uint64_t bits, int value_nbytes)
{
    const int mantissa_nbits = terp_mantissa_nbits(value_nbytes);
    return (int)(bits >> mantissa_nbits) - 1 + terp_min_exponent(value_nbytes);
}

/* Chooses how magnitudes are coded under the bound e, which must be below 1. */
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
    /* At most |y| and |y'|: the 2 allows a step on either side of the
     * exponents. */
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
        /* Half of the bits rounded away is at most e times the smallest
         * mantissa. The remaining bits must not change. */
        const int nzeros = terp_exponent_of(bound) - 1023 + mantissa_nbits + 1;
        how.form = TERP_POINTWISE_ROUNDED;
        how.signs = TERP_SIGNS_POSITIVE;
        how.nzeros = nzeros > 0 ? nzeros : 0;
        how.bound = 0;
    }
    return how;
}

/* Signs are found in this many stretches of a chunk. Each begins where a word
 * of 64 signs begins. A special or tiny value takes the sign of the value
 * before it in its stretch; the first value counts as positive. */
#define TERP_POINTWISE_NPARTS 64

static inline TERP_HOST_DEVICE uint64_t
terp_pointwise_part_nvalues(uint64_t nvalues)
{
    return div_up(div_up(nvalues, TERP_POINTWISE_NPARTS), 64) * 64;
}

/* The additional error with a floor, in the same units: the shift and its sum,
 * 3 in place of 0.75; subtracting the shift from y', at most |y'|. Multiples
 * have less: 5.8 on both ways, and 0.35 if they are subnormal. */
#define TERP_POINTWISE_FLOOR_MARGIN 20

/* How a floor affects a chunk. */
enum terp_floor_use {
    TERP_FLOOR_IS_ALL,  /* it is at least the bound of every value */
    TERP_FLOOR_IS_NONE, /* it is too small to matter */
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

/* Chooses how a chunk with a joined floor is coded. Some of its magnitudes are
 * above the joint. */
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
    /* At most |y| and |y'|: shift and step add less than 3. */
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
