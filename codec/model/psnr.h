/* The search for the bound of a PSNR: a chunk is encoded, decoded and measured
 * until its mean square error is at most what was asked for, and not much less.
 * All numbers are logarithms to base 2, of which errors are parts of the range;
 * there is no libm in it, as the bytes must not depend on one. Both engines
 * search in the default floating-point environment. */
#pragma once

#include <float.h>

#include "codec/api/terp.h"
#include "codec/format/base.h"

TERP_C_BEGIN

/* A bound, and the mean square error under it. */
struct terp_psnr_point {
    bool exists;
    bool nothing_lost; /* no error: `square` says nothing */
    double bound, square;
};

struct terp_psnr_search {
    double wanted; /* square */
    /* What suffices, twice, and what does not. */
    struct terp_psnr_point low, lower, high;
    double bound; /* to be tried */
    int ntrials;  /* so far */
    bool found;   /* some bound that suffices */
    bool is_done;
};

void
terp_psnr_begin(double psnr, struct terp_psnr_search *search_ret);

/* The bound that is to be tried, as a part of half the range. */
double
terp_psnr_factor(const struct terp_psnr_search *search);

/* Notes what that has given. True: this suffices. */
bool
terp_psnr_note(struct terp_psnr_search *search, double square);

/* Half of a range, which may be larger than any number; 0 where no two values
 * differ. */
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

/* What is asked for where no bound suffices, and of other ranges: to be
 * lossless; of values that are all the same, or none, that they are kept. */
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

/* Squares are added up in this order: of a block of values each lane has every
 * so many-th, then the lanes are added up, the upper half to the lower one,
 * until one is left; and so are the sums of blocks. */
#define TERP_SQUARES_NLANES 256
#define TERP_SQUARES_BLOCK_NVALUES 4096

/* That of a value's error. Halved, as ranges are. */
static inline TERP_HOST_DEVICE double
terp_square_of_error(double value, double other, double half_range)
{
    const double error = (value * 0.5 - other * 0.5) / half_range;

    return error * error;
}

/* The sum of all lanes, which are lost. */
static inline double
terp_sum_lanes(double lanes[TERP_SQUARES_NLANES])
{
    for (int n = TERP_SQUARES_NLANES / 2; n > 0; n /= 2)
        for (int i = 0; i < n; i++)
            lanes[i] += lanes[i + n];
    return lanes[0];
}

TERP_C_END
