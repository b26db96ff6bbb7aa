/* What an encoder makes of the range of a chunk's values: fill values, the
 * absolute bound, whether the chunk is constant, and what predicts the first
 * value. A decoder does not know these rules, but every engine must decide
 * alike, to the byte. */
#pragma once

#include "codec/api/terp.h"
#include "codec/format/base.h"
#include "codec/format/limits.h"
#include "codec/model/bound.h"

/* ---- fill values ---- */

/* A chunk has up to this many fill values, which are special like NaN and
 * infinities. A zero that is one has the bits of 0.0; unused slots have those
 * of -0.0, which no value is compared by. */
#define TERP_NFILLS 3

/* The bits of a slot, for a fill value that there may be. */
static inline TERP_HOST_DEVICE uint64_t
terp_slot_of_fill(bool has_fill, uint64_t fill_bits, int value_nbytes)
{
    const uint64_t negative_zero = UINT64_C(1) << (8 * value_nbytes - 1);
    const uint64_t bits = value_nbytes == 4 ? (uint32_t)fill_bits : fill_bits;

    return !has_fill ? negative_zero : bits == negative_zero ? 0 : bits;
}

/* The bits of the fill value that a caller knows, and of the second one. */
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

/* Whether a value between the extremes shows that one of these is no fill value
 * (TERP_FILL_DISTANCE). */
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

/* Lorenzo's integers alone can stand for any value. */
static inline TERP_HOST_DEVICE enum terp_predictor
terp_predictor_asked(const struct terp_params *params)
{
    return terp_is_lossless(params) ? TERP_PREDICTOR_LORENZO
                                    : params->predictor;
}

/* Exponent field of a double, or of a float widened to one. */
static inline TERP_HOST_DEVICE int
terp_exponent_of(double value)
{
    return (int)(double_bits(value) >> 52 & 0x7FF);
}

/* The steps of a range, which itself may be larger than any double. */
static inline TERP_HOST_DEVICE double
terp_nsteps_of(double min, double max, double step)
{
    return max / step - min / step;
}

/* The field of the value of a range that is largest in magnitude. */
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

/* The step_slack_log2 that leaves room for a rounding error of the largest
 * value, if there is any. */
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

/* The absolute bound that a caller's bound means for a chunk. */
static inline TERP_HOST_DEVICE double
terp_absolute_bound(enum terp_bound_mode mode, double bound, double min,
                    double max)
{
    return mode == TERP_BOUND_ABSOLUTE ? bound
                                       : terp_bound_of_range(bound, min, max);
}

/* ---- one value that stands for many ---- */

/* The middle of a range, a value of the type. */
static inline TERP_HOST_DEVICE double
terp_middle_of(double min, double max, int value_nbytes)
{
    const double middle = min + (max - min) / 2;
    return value_nbytes == 4 ? (double)(float)middle : middle;
}

/* A chunk is constant when a value is this much nearer than the bound to all
 * of its values: predicted ones are, where they are smooth, for few bytes. */
#define TERP_CONSTANT_NEARNESS 4

/* The value that stands for all valid ones of a chunk, if there is one. With
 * `all_special` any would do. No zero stands for both zeros where every bit is
 * to come back. */
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

/* What predicts the first anchor: the chunk's first value, which makes its code
 * 0, or where that is special one in the middle of the valid ones. */
static inline TERP_HOST_DEVICE double
terp_reference_of(double first, bool first_is_special, double min, double max,
                  int value_nbytes)
{
    return first_is_special ? terp_middle_of(min, max, value_nbytes) : first;
}
