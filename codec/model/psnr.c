/* Chooses the bounds that the search tries: by secants of the logarithms of
 * bound and mean square error. The first bound is right if errors are spread
 * evenly. */
#include "codec/model/psnr.h"

#define TERP_VALUE_NBYTES 8
#include "codec/model/logarithm.h"

#define LOG2_10 0x1.a934f0979a371p+1
#define LOG2_3 0x1.95c01a39fbd68p+0

/* Tolerance and aim, as log2 of a mean square: 0.5 dB and 0.15 dB below the
 * wanted error. */
#define TOLERANCE (0.05 * LOG2_10)
#define AIM (0.015 * LOG2_10)

/* The most encodings of a chunk. Most chunks need two. */
#define MAX_NTRIALS 8

/* Bounds closer than this (in log2) make no difference. */
#define MIN_STEP (1.0 / 64)
/* The largest change of a bound when no bound on its other side was tried, and
 * the change when nothing was lost. */
#define MAX_STEP 4
#define STEP_OF_NOTHING_LOST 2

static double
log2_of(double value)
{
    return terp_log_of_f64(value, 0, 0);
}

static double
clamped(double value, double low, double high)
{
    return terp_clamp_f64(value, low, high);
}

/* The slope of log2(square) over log2(bound). It is 2 for errors that are
 * spread evenly. */
static double
slope_between(struct terp_psnr_point a, struct terp_psnr_point b)
{
    if (!a.exists || !b.exists || a.nothing_lost || b.nothing_lost ||
        a.bound == b.bound)
        return 2;
    return clamped((b.square - a.square) / (b.bound - a.bound), 0.5, 3);
}

/* Computes the next bound to try. Returns false when there is none. */
static bool
next_bound(const struct terp_psnr_search *search, double *bound_ret)
{
    const struct terp_psnr_point *low = &search->low, *high = &search->high;
    const double aim = search->wanted - AIM;

    if (low->exists && high->exists) {
        const double width = high->bound - low->bound;
        const double part =
            low->nothing_lost
                ? 0.5
                : (aim - low->square) / (high->square - low->square);
        *bound_ret = low->bound + clamped(part, 0.125, 0.875) * width;
        return width > MIN_STEP;
    }
    const struct terp_psnr_point *only = low->exists ? low : high;
    const double slope = slope_between(search->lower, *low);
    const double step = only->nothing_lost ? STEP_OF_NOTHING_LOST
                                           : (aim - only->square) / slope;

    *bound_ret =
        only->bound + (low->exists ? clamped(step, 2 * MIN_STEP, MAX_STEP)
                                   : clamped(step, -MAX_STEP, -2 * MIN_STEP));
    /* A bound beyond the range gains nothing. */
    return high->exists || only->bound < 0;
}

/* Records the error under the current bound. Returns true if it is small
 * enough. */
static bool
record(struct terp_psnr_search *search, double square)
{
    const bool nothing_lost = !(square >= 0x1p-1000);
    const struct terp_psnr_point point = {true, nothing_lost, search->bound,
                                          nothing_lost ? 0 : log2_of(square)};

    if (!nothing_lost && point.square > search->wanted) {
        search->high = point;
        return false;
    }
    if (!search->low.exists || search->bound > search->low.bound) {
        search->lower = search->low;
        search->low = point;
    }
    return true;
}

void
terp_psnr_begin(double psnr, struct terp_psnr_search *search_ret)
{
    const double wanted = -psnr / 10 * LOG2_10;

    *search_ret = (struct terp_psnr_search){
        .wanted = wanted, .bound = (wanted - AIM + LOG2_3) / 2};
}

double
terp_psnr_factor(const struct terp_psnr_search *search)
{
    return terp_f64_of_log(search->bound, 0);
}

bool
terp_psnr_note(struct terp_psnr_search *search, double square)
{
    const bool suffices = record(search, square);
    const bool is_near = suffices && !search->low.nothing_lost &&
                         search->low.square >= search->wanted - TOLERANCE;

    search->found |= suffices;
    search->is_done = ++search->ntrials == MAX_NTRIALS || is_near ||
                      !next_bound(search, &search->bound);
    return suffices;
}
