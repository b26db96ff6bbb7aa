/* Limits that decoded values keep beside the bound: a valid range, and signs.
 *
 * A stream does not tell its limits: an encoder tries each value, and lets it
 * escape where its code would pass a limit. */
#pragma once

#include <math.h>
#include <stdbool.h>

#include "codec/format/base.h"

/* A value at `from` or beyond, as seen from the other side, does not decode to
 * one that is on the other side of `at`. Both are the same but for numbers that
 * stand for values, such as logarithms: there `at` is the first that decodes to
 * a value within the limit, and a number between both is coded as `at`. */
struct terp_limit {
    double from, at;
};

/* The limits of one chunk: a valid range, and 0 where signs are kept. Infinite
 * ones limit nothing. Limits of a float32 are float32. */
#define TERP_NLIMITS 2
struct terp_limits {
    struct terp_limit low[TERP_NLIMITS], high[TERP_NLIMITS];
    /* A value of the type that the spline predictor's grid of escapes has on
     * it: escapes cost least where it is the limit that values pass. NaN: the
     * grid begins with the chunk's first value, as without limits. */
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

/* What is stored of a value that escapes. */
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

/* A bound is made smaller until a whole number of steps is this little below
 * the distance between limits, so that no rounding passes them. */
#define TERP_LIMITS_MARGIN 0x1p-20

/* Beyond so many steps between limits values are rarely near one: their bound
 * stays as it is. */
#define TERP_LIMITS_MAX_NSTEPS 1048576

/* What a step is multiplied by so that a whole number of steps fits between two
 * limits that are `distance` apart; 1 where there is no need. */
static inline double
terp_limits_factor(double distance, double step)
{
    const double nsteps = distance / step;

    if (!(nsteps > 0 && nsteps < TERP_LIMITS_MAX_NSTEPS))
        return 1;
    return nsteps / ceil(nsteps) * (1 - TERP_LIMITS_MARGIN);
}
