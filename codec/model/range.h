/* An encoder's decisions from the range of a chunk's values: fill values, the
 * absolute bound, whether the chunk is constant, and the prediction of the
 * first value. A decoder does not need these rules, but both engines must
 * decide alike, to the byte. */
#pragma once

#include "codec/api/terp.h"
#include "codec/format/base.h"
#include "codec/format/limits.h"
#include "codec/model/bound.h"
#include "codec/model/fills.h"

/* ---- fill values ---- */

/* A chunk has up to this many fill values, which are special like NaN and
 * infinities. Slots hold bits of values: a zero fill value has the bits of 0.0;
 * an unused slot those of -0.0, which equal no value, because values are
 * compared after -0.0 became 0.0. */
#define TERP_NFILLS 3

/* The bits of the slot of a fill value, which may be absent. */
static inline TERP_HOST_DEVICE uint64_t
terp_slot_of_fill(bool has_fill, uint64_t fill_bits, int value_nbytes)
{
    const uint64_t negative_zero = UINT64_C(1) << (8 * value_nbytes - 1);
    const uint64_t bits = value_nbytes == 4 ? (uint32_t)fill_bits : fill_bits;

    return !has_fill ? negative_zero : bits == negative_zero ? 0 : bits;
}

/* The slot of the first fill value that the caller names, and of the second
 * one. */
static inline TERP_HOST_DEVICE uint64_t
terp_fill_of(const struct terp_params *params, int value_nbytes)
{
    return terp_slot_of_fill(params->has_fill || params->has_missing,
                             params->has_fill ? params->fill_bits
                                              : params->missing_bits,
                             value_nbytes);
}

static inline TERP_HOST_DEVICE uint64_t
terp_missing_of(const struct terp_params *params, int value_nbytes)
{
    return terp_slot_of_fill(terp_has_two_fills(params), params->missing_bits,
                             value_nbytes);
}

/* Whether a value between the extremes disproves that the other extreme is a
 * fill value (TERP_FILL_DISTANCE). */
static inline TERP_HOST_DEVICE bool
terp_is_near_min(double value, double min, double max)
{
    return !(value - min > TERP_FILL_DISTANCE * (max - value));
}

static inline TERP_HOST_DEVICE bool
terp_is_near_max(double value, double min, double max)
{
    return !(max - value > TERP_FILL_DISTANCE * (value - min));
}

/* ---- bound ---- */

/* The predictor that the caller wants. Lossless coding needs Lorenzo's
 * integers, which can stand for any value. */
static inline TERP_HOST_DEVICE enum terp_predictor
terp_predictor_of(const struct terp_params *params)
{
    return terp_is_lossless(params) ? TERP_PREDICTOR_LORENZO
                                    : params->predictor;
}

/* The exponent field of a double. A float is converted first. */
static inline TERP_HOST_DEVICE int
terp_exponent_of(double value)
{
    return (int)(double_bits(value) >> 52 & 0x7FF);
}

/* The number of steps in a range, which itself may exceed the largest
 * double. */
static inline TERP_HOST_DEVICE double
terp_nsteps_of(double min, double max, double step)
{
    return max / step - min / step;
}

/* The exponent field of the value of largest magnitude in a range. */
static inline TERP_HOST_DEVICE int
terp_exponent_of_range(double min, double max)
{
    const double low = min < 0 ? -min : min, high = max < 0 ? -max : max;
    return terp_exponent_of(low > high ? low : high);
}

static inline TERP_HOST_DEVICE int
terp_mantissa_nbits(int value_nbytes)
{
    return value_nbytes == 4 ? 23 : 52;
}

/* The step_slack_log2 that covers the rounding error of the largest value,
 * within its limits. */
static inline TERP_HOST_DEVICE int
terp_step_slack_of(double bound, double min, double max, int value_nbytes)
{
    const int step_slack_log2 = terp_exponent_of(bound) +
                                terp_mantissa_nbits(value_nbytes) - 1 -
                                terp_exponent_of_range(min, max);

    return step_slack_log2 < TERP_MIN_STEP_SLACK_LOG2 ? TERP_MIN_STEP_SLACK_LOG2
           : step_slack_log2 > TERP_MAX_STEP_SLACK_LOG2
               ? TERP_MAX_STEP_SLACK_LOG2
               : step_slack_log2;
}

/* The absolute bound of a chunk, from the caller's bound. */
static inline TERP_HOST_DEVICE double
terp_absolute_bound(enum terp_bound_mode mode, double bound, double min,
                    double max)
{
    return mode == TERP_BOUND_ABSOLUTE ? bound
                                       : terp_bound_of_range(bound, min, max);
}

/* ---- one value that stands for many ---- */

/* The middle of a range, rounded to the type. */
static inline TERP_HOST_DEVICE double
terp_middle_of(double min, double max, int value_nbytes)
{
    const double middle = min + (max - min) / 2;
    return value_nbytes == 4 ? (double)(float)middle : middle;
}

/* A chunk is constant if one value is within a fourth of the bound of all its
 * values. With a larger distance, prediction codes smooth values in few bytes
 * and with smaller errors. */
#define TERP_CONSTANT_NEARNESS 4

/* Finds the value that stands for all valid values of a chunk. If all values
 * are special, any value will do. Under lossless coding 0.0 cannot stand for
 * -0.0. */
static inline TERP_HOST_DEVICE bool
terp_find_constant(double min, double max, bool all_special, double bound,
                   bool lossless, int value_nbytes, double *value_ret)
{
    const double value = all_special  ? 0
                         : min == max ? min
                                      : terp_middle_of(min, max, value_nbytes);

    *value_ret = value;
    return all_special || (min == max && !(lossless && min == 0)) ||
           (TERP_CONSTANT_NEARNESS * (max - value) < bound &&
            TERP_CONSTANT_NEARNESS * (value - min) < bound);
}

/* The prediction of the first anchor: the chunk's first value, which makes its
 * code 0; if that is special, the middle of the valid values. */
static inline TERP_HOST_DEVICE double
terp_reference_of(double first, bool first_is_special, double min, double max,
                  int value_nbytes)
{
    return first_is_special ? terp_middle_of(min, max, value_nbytes) : first;
}
