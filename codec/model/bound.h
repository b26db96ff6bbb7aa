/* What bounds mean, and what is taken for a fill value: for the engines, and
 * for the tool, which knows no other header of this folder. */
#ifndef TERP_CODEC_MODEL_BOUND_H
#define TERP_CODEC_MODEL_BOUND_H

#include "codec/api/terp.h"
#include "codec/format/base.h"

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

/* Whether the CPU alone does what is asked for. */
static inline TERP_HOST_DEVICE bool
terp_is_the_cpus(const struct terp_params *params)
{
    return params->bound_mode == TERP_BOUND_PSNR;
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

#endif
