/* Limits that decoded values keep besides the bound: a valid range, and signs.
 *
 * A stream does not store its limits. An encoder checks each value, and lets it
 * escape if its code would decode beyond a limit. */
#pragma once

#include <math.h>
#include <stdbool.h>

#include "codec/format/base.h"

/* A limit: a value on the inner side of `from` must not decode to the outer
 * side of `at`. Both are equal for values. They differ for numbers that stand
 * for values, such as logarithms: there `at` is the first number that decodes
 * to a value within the limit, and a number between both is coded as `at`. */
struct terp_limit {
    double from, at;
};

/* The limits of a chunk: a valid range, and 0 if signs are kept. An infinite
 * limit has no effect. Limits of a float32 are float32. */
#define TERP_NLIMITS 2
struct terp_limits {
    struct terp_limit low[TERP_NLIMITS], high[TERP_NLIMITS];
    /* A value that lies on the spline predictor's grid of escapes. Escapes cost
     * least if it is the limit that values would pass. NaN: the grid begins
     * with the chunk's first value, as without limits. */
    double anchor;
};

static inline struct terp_limit
terp_limit_at(double at)
{
    const struct terp_limit limit = {at, at};

    return limit;
}

static inline struct terp_limits
terp_no_limits(void)
{
    struct terp_limits limits;

    for (int i = 0; i < TERP_NLIMITS; i++) {
        limits.low[i] = terp_limit_at(-HUGE_VAL);
        limits.high[i] = terp_limit_at(HUGE_VAL);
    }
    limits.anchor = NAN;
    return limits;
}

static inline bool
terp_keeps_limits(double value, double decoded,
                  const struct terp_limits *limits)
{
    bool keeps = true;

    for (int i = 0; i < TERP_NLIMITS; i++) {
        keeps &= !(value >= limits->low[i].from && decoded < limits->low[i].at);
        keeps &=
            !(value <= limits->high[i].from && decoded > limits->high[i].at);
    }
    return keeps;
}

/* The value that an escape stores. */
static inline double
terp_within_limits(double value, const struct terp_limits *limits)
{
    for (int i = 0; i < TERP_NLIMITS; i++) {
        if (value >= limits->low[i].from && value < limits->low[i].at)
            value = limits->low[i].at;
        if (value <= limits->high[i].from && value > limits->high[i].at)
            value = limits->high[i].at;
    }
    return value;
}

/* The distance between two limits exceeds a whole number of steps by this
 * fraction, so that rounding does not pass a limit. */
#define TERP_LIMITS_MARGIN 0x1p-20

/* With more steps between two limits, values are rarely near a limit, and the
 * bound is not adjusted. */
#define TERP_LIMITS_MAX_NSTEPS 1048576

/* The factor that makes a whole number of steps fit between two limits that are
 * `distance` apart; 1 if none is needed. */
static inline double
terp_limits_factor(double distance, double step)
{
    const double nsteps = distance / step;

    if (!(nsteps > 0 && nsteps < TERP_LIMITS_MAX_NSTEPS))
        return 1;
    return nsteps / ceil(nsteps) * (1 - TERP_LIMITS_MARGIN);
}
