/* The search for the bound that gives a PSNR. A chunk is encoded, decoded and
 * measured until its mean square error is at most the wanted one, and not much
 * less. Numbers are logarithms to base 2 of errors relative to the range.
 * Nothing here calls libm, because the bytes must not depend on it. Both
 * engines search in the default floating-point environment. */
#pragma once

#include <float.h>

#include "codec/api/terp.h"
#include "codec/format/base.h"

TERP_C_BEGIN

/* A bound, and the mean square error under it. */
struct terp_psnr_point {
    bool exists;
    bool nothing_lost; /* no error; `square` is meaningless */
    double bound, square;
};

struct terp_psnr_search {
    double wanted; /* mean square error */
    /* The largest two bounds that suffice, and the smallest that does not. */
    struct terp_psnr_point low, lower, high;
    double bound; /* to try next */
    int ntrials;
    bool found; /* some bound suffices */
    bool is_done;
};

void
terp_psnr_begin(double psnr, struct terp_psnr_search *search_ret);

/* The bound to try, as a fraction of half the range. */
double
terp_psnr_factor(const struct terp_psnr_search *search);

/* Records the mean square error under the bound of terp_psnr_factor. Returns
 * true if the error is small enough. */
bool
terp_psnr_note(struct terp_psnr_search *search, double square);

/* Half of a range, which itself may exceed the largest number; 0 if all values
 * are equal. */
static inline TERP_HOST_DEVICE double
terp_half_range(double min, double max)
{
    return min < max ? max / 2 - min / 2 : 0;
}

static inline bool
terp_range_has_psnr(double half_range)
{
    return half_range >= DBL_MIN;
}

/* The parameters of a chunk for which no bound gives the PSNR, or whose range
 * has no PSNR: lossless. If all values are equal, or there are none: a relative
 * bound, which keeps them. */
static inline struct terp_params
terp_params_without_psnr(const struct terp_params *params, double half_range)
{
    struct terp_params without = *params;

    without.bound_mode =
        half_range == 0 ? TERP_BOUND_RELATIVE : TERP_BOUND_ABSOLUTE;
    without.bound = half_range == 0 ? 0.5 : 0;
    return without;
}

static inline TERP_HOST_DEVICE double
terp_psnr_bound(double half_range, double factor)
{
    return 2 * (half_range * factor);
}

/* ---- the mean square error ---- */

/* The order in which squares are summed. A block has
 * TERP_SQUARES_BLOCK_NVALUES; lane i sums the values i, i + TERP_SQUARES_NLANES
 * and so on. The upper half of the lanes is added to the lower half until one
 * lane is left. Sums of blocks are added in the same way. */
#define TERP_SQUARES_NLANES 256
#define TERP_SQUARES_BLOCK_NVALUES 4096

/* The square of a value's error, relative to the range. Half the error is
 * divided by half the range. */
static inline TERP_HOST_DEVICE double
terp_square_of_error(double value, double other, double half_range)
{
    const double error = (value * 0.5 - other * 0.5) / half_range;

    return error * error;
}

/* The sum of all lanes. Overwrites the lanes. */
static inline double
terp_sum_lanes(double lanes[TERP_SQUARES_NLANES])
{
    for (int n = TERP_SQUARES_NLANES / 2; n > 0; n /= 2)
        for (int i = 0; i < n; i++)
            lanes[i] += lanes[i + n];
    return lanes[0];
}

TERP_C_END
