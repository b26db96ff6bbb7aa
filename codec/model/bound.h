/* What bounds mean, and what is taken for a fill value: for the engines, and
 * for the tool, which knows no other header of this folder. */
#pragma once

#include "codec/api/terp.h"
#include "codec/format/base.h"
#include "codec/format/types.h"

/* Whether every bit is to come back. */
static inline TERP_HOST_DEVICE bool
terp_is_lossless(const struct terp_params *params)
{
    return params->bound_mode == TERP_BOUND_ABSOLUTE &&
           is_zero_bound(params->bound);
}

/* Whether a caller knows two fill values. */
static inline TERP_HOST_DEVICE bool
terp_has_two_fills(const struct terp_params *params)
{
    return params->has_fill && params->has_missing &&
           params->fill_bits != params->missing_bits;
}

/* What is asked of values of a type: floors, and the search for a PSNR, are for
 * float32 and float64. Other types have the bound of each value without a
 * floor, or are lossless. */
static inline struct terp_params
terp_params_of_type(enum terp_type type, const struct terp_params *params)
{
    struct terp_params known = *params;

    if (terp_type_is_plain(type))
        return known;
    known.floor = 0;
    if (params->bound_mode == TERP_BOUND_PSNR) {
        known.bound_mode = TERP_BOUND_ABSOLUTE;
        known.bound = 0;
    }
    return known;
}

/* Whether decoded values keep limits beside the bound: a valid range, signs. */
static inline bool
terp_params_have_limits(enum terp_type type, const struct terp_params *params)
{
    return type != TERP_BYTES && terp_type_nparts(type) == 1 &&
           !terp_is_lossless(params) &&
           (params->has_valid_range ||
            params->keep_sign != TERP_KEEP_SIGN_NONE);
}

/* The same parameters but for an absolute bound. */
static inline struct terp_params
terp_params_under(const struct terp_params *params, double bound)
{
    struct terp_params own = *params;

    own.bound_mode = TERP_BOUND_ABSOLUTE;
    own.bound = bound;
    return own;
}

static inline struct terp_params
terp_params_without_limits(const struct terp_params *params)
{
    struct terp_params free = *params;

    free.keep_sign = TERP_KEEP_SIGN_NONE;
    free.has_valid_range = false;
    return free;
}

/* Beyond this PSNR, in dB, no double of the range's magnitude may change. */
#define TERP_MAX_PSNR 640

/* Whether the CPU alone does what is asked for. */
static inline bool
terp_is_the_cpus(enum terp_type type, const struct terp_params *params)
{
    return type == TERP_BYTES || terp_params_have_limits(type, params) ||
           (terp_params_of_type(type, params).bound_mode == TERP_BOUND_PSNR &&
            params->bound > TERP_MAX_PSNR);
}

/* What a relative bound means for a range of values, which may exceed the
 * largest double. */
static inline TERP_HOST_DEVICE double
terp_bound_of_range(double bound, double min, double max)
{
    double range = max - min;
    return range <= 1.7976931348623157e308 ? bound * range
                                           : bound * max - bound * min;
}

/* An extreme that repeats exactly, this many times further from every other
 * value than these are from each other, is taken for a fill value. In a stream
 * fill values are kept exactly: a wrong guess only costs bytes. */
#define TERP_FILL_DISTANCE 8
#define TERP_FILL_MIN_REPEATS 2
