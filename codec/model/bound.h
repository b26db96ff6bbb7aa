/* The meaning of bounds. The engines and the tool include this header; of this
 * folder the tool includes fills.h besides, and no other header. */
#pragma once

#include "codec/api/terp.h"
#include "codec/format/base.h"
#include "codec/format/types.h"

/* Whether the caller wants lossless coding. */
static inline TERP_HOST_DEVICE bool
terp_is_lossless(const struct terp_params *params)
{
    return params->bound_mode == TERP_BOUND_ABSOLUTE &&
           is_zero_bound(params->bound);
}

/* Whether the caller names two different fill values. */
static inline TERP_HOST_DEVICE bool
terp_has_two_fills(const struct terp_params *params)
{
    return params->has_fill && params->has_missing &&
           params->fill_bits != params->missing_bits;
}

/* Whether decoded values must keep limits besides the bound: a valid range, or
 * signs. */
static inline bool
terp_params_have_limits(enum terp_type type, const struct terp_params *params)
{
    return type != TERP_BYTES && terp_type_nparts(type) == 1 &&
           !terp_is_lossless(params) &&
           (params->has_valid_range ||
            params->keep_sign != TERP_KEEP_SIGN_NONE);
}

/* Whether the pipeline SPEED has a coding of its own under these parameters:
 * bounds relative to each value, PSNR and limits have not, and it takes a
 * stream of version 2. */
static inline bool
terp_params_have_speed(enum terp_type type, const struct terp_params *params)
{
    return params->pipeline == TERP_PIPELINE_SPEED && params->format != 1 &&
           type != TERP_BYTES &&
           (params->bound_mode == TERP_BOUND_ABSOLUTE ||
            params->bound_mode == TERP_BOUND_RELATIVE) &&
           !terp_params_have_limits(type, params);
}

/* The parameters as they apply to a type. Floors and the search for a PSNR
 * exist for float32 and float64 only. Other types have pointwise bounds without
 * a floor, and are lossless instead of having a PSNR. SPEED is HUFFMAN where it
 * has no coding of its own. */
static inline struct terp_params
terp_params_of_type(enum terp_type type, const struct terp_params *params)
{
    struct terp_params known = *params;

    if (!terp_type_is_plain(type)) {
        known.floor = 0;
        if (params->bound_mode == TERP_BOUND_PSNR) {
            known.bound_mode = TERP_BOUND_ABSOLUTE;
            known.bound = 0;
        }
    }
    if (known.pipeline == TERP_PIPELINE_SPEED &&
        !terp_params_have_speed(type, &known))
        known.pipeline = TERP_PIPELINE_HUFFMAN;
    return known;
}

/* Whether decoded values may differ from the original ones. */
static inline bool
terp_params_may_lose(enum terp_type type, const struct terp_params *params)
{
    return type != TERP_BYTES && !terp_is_lossless(params) &&
           (!terp_type_is_integer(type) ||
            params->bound_mode == TERP_BOUND_ABSOLUTE);
}

/* The same parameters with an absolute bound in place of the bound. */
static inline struct terp_params
terp_params_under(const struct terp_params *params, double bound)
{
    struct terp_params own = *params;

    own.bound_mode = TERP_BOUND_ABSOLUTE;
    own.bound = bound;
    return own;
}

/* The same parameters without loss. */
static inline struct terp_params
terp_params_lossless(const struct terp_params *params)
{
    struct terp_params own = terp_params_under(params, 0);

    own.floor = 0;
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

/* Above this PSNR, in dB, no double of the range's magnitude may change. */
#define TERP_MAX_PSNR 640

/* Whether only the CPU engine can encode with these parameters. */
static inline bool
terp_is_the_cpus(enum terp_type type, const struct terp_params *params)
{
    return type == TERP_BYTES || terp_params_have_limits(type, params) ||
           (terp_params_of_type(type, params).bound_mode == TERP_BOUND_PSNR &&
            params->bound > TERP_MAX_PSNR);
}

/* The absolute bound that a relative bound means for a range of values. The
 * range may exceed the largest double. */
static inline TERP_HOST_DEVICE double
terp_bound_of_range(double bound, double min, double max)
{
    double range = max - min;
    return range <= 1.7976931348623157e308 ? bound * range
                                           : bound * max - bound * min;
}
