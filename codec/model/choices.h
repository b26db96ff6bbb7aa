/* Numbers and rules that an encoder's choices rest on. A decoder
 * does not know them, but every engine must choose alike, to the byte. */
#ifndef TERP_CODEC_MODEL_CHOICES_H
#define TERP_CODEC_MODEL_CHOICES_H

#include "codebooks/codebooks.h"
#include "codec/format/base.h"
#include "codec/format/bytes.h"
#include "codec/format/limits.h"
#include "codec/model/bound.h"

/* ---- special values ---- */

/* Values that are stored exactly and not predicted: NaN, Inf, -0.0 and up to
 * this many fill values, by their bits. Unused slots repeat -0.0. */
#define TERP_NFILLS 3

/* ---- bound ---- */

/* Exponent field of a double, or of a float widened to one. */
static inline TERP_HOST_DEVICE int
terp_exponent_of(double value)
{
    return (int)(double_bits(value) >> 52 & 0x7FF);
}

/* The step_slack_log2 that leaves room for a rounding error of the largest
 * value, if there is any. The type's mantissa has `mantissa_nbits`. */
static inline TERP_HOST_DEVICE int
terp_step_slack_of(double bound, double min, double max, int mantissa_nbits)
{
    double low = min < 0 ? -min : min, high = max < 0 ? -max : max;
    int step_slack_log2 = terp_exponent_of(bound) + mantissa_nbits - 1 -
                          terp_exponent_of(low > high ? low : high);

    return step_slack_log2 < TERP_MIN_STEP_SLACK_LOG2 ? TERP_MIN_STEP_SLACK_LOG2
           : step_slack_log2 > TERP_MAX_STEP_SLACK_LOG2
               ? TERP_MAX_STEP_SLACK_LOG2
               : step_slack_log2;
}

/* A chunk is constant when `value` is this much nearer than the bound to all
 * of its values: predicted ones are, where they are smooth, for few bytes. */
#define TERP_CONSTANT_NEARNESS 4

static inline TERP_HOST_DEVICE bool
terp_is_constant(double value, double min, double max, double bound)
{
    return TERP_CONSTANT_NEARNESS * (max - value) < bound &&
           TERP_CONSTANT_NEARNESS * (value - min) < bound;
}

/* ---- the tuner ---- */

/* Values of a class are sampled in runs of this many along dimension 0. */
#define TERP_SAMPLE_RUN_NVALUES 512

/* Values that are sampled of a class: one in so many, within limits. More
 * gain little, see doc/design.md. */
#define TERP_SAMPLE_EVERY 64
#define TERP_MIN_NSAMPLES 2048
#define TERP_MAX_NSAMPLES 32768

/* How many samples are wanted of so many values. */
static inline TERP_HOST_DEVICE uint64_t
terp_nsamples_of(uint64_t nvalues)
{
    uint64_t nwanted = nvalues / TERP_SAMPLE_EVERY;
    nwanted = nwanted < TERP_MIN_NSAMPLES ? TERP_MIN_NSAMPLES : nwanted;
    return min_u64(nwanted, TERP_MAX_NSAMPLES);
}

/* One in how many of a class's runs is sampled, at least a handful however
 * long they are. An odd distance meets every coordinate of dims that are
 * powers of two. */
static inline TERP_HOST_DEVICE uint64_t
terp_sample_distance(uint64_t nvalues, uint64_t nruns)
{
    uint64_t every = div_up(nvalues, terp_nsamples_of(nvalues));
    return min_u64(every, div_up(nruns, 4)) | 1;
}

/* Values of a row that lorenzo samples together, and one in how many. */
#define TERP_LORENZO_NVALUES 512

static inline TERP_HOST_DEVICE uint64_t
terp_lorenzo_distance(uint64_t nvalues)
{
    return div_up(nvalues, 2 * terp_nsamples_of(nvalues)) | 1;
}

/* Blending pays in levels with more points than this. */
#define TERP_BLEND_MIN_NVALUES 4096

/* Sampled predictions rest on original values; the decoder's rest on values
 * that are up to half a step off. What that adds to an error, in steps, is
 * acted by a noise of this amplitude, the root of the sum of the weights'
 * squares; of an average the sum of a cubic spline's, 0.64, shared; of blending
 * three quarters of that, since many of the points around are of coarser
 * levels, whose bounds are tighter, and since samples blend at no border. */
static inline TERP_HOST_DEVICE double
terp_noise_amplitude(int npredicting, int blend_order)
{
    if (blend_order > 1)
        return npredicting == 2 ? 0.84 : blend_order == 2 ? 0.65 : 1.16;
    return npredicting == 1   ? 0.8
           : npredicting == 2 ? 0.566
           : npredicting == 3 ? 0.462
                              : 0.4;
}

/* The noise, in sixteenths of a step of amplitude 1, by the point's place
 * along dimension 0: eight evenly spread numbers. */
static inline TERP_HOST_DEVICE int
terp_noise_at(uint64_t x)
{
    /* -7 1 5 -3 7 -1 -5 3, and 8 of each. */
    return (int)(0xB37F5D91u >> (4 * (x % 8)) & 15) - 8;
}

/* A special value costs nothing; what it stands in for as a neighbour is not
 * known yet. A value that such a neighbour predicts is taken for this code. */
#define TERP_UNKNOWN_CODE 4

/* Samples are priced together, by one entry of the dictionary, but tiles have
 * one each: lorenzo's codes, which vary more from place to place than those of
 * splines, gain by that. How much is told by runs of this many values of a row,
 * each as if coded by its own mean; rows that fill half of one or less tell
 * nothing. */
#define TERP_LORENZO_RUN_NVALUES 32

static inline TERP_HOST_DEVICE bool
terp_lorenzo_has_runs(uint64_t row_nvalues)
{
    return row_nvalues > TERP_LORENZO_RUN_NVALUES / 2;
}

/* What a code costs where `mean` is 1 + 2e times the codes' mean magnitude: its
 * logarithm, a straight line between powers of two and a parabola on top. Both
 * in 1/1024. */
static inline TERP_HOST_DEVICE uint32_t
terp_cost_of_mean(uint32_t mean)
{
    uint32_t octave = (uint32_t)bit_width(mean) - 1;
    uint32_t x = (mean << (31 - octave) >> 21) - 1024;
    return ((octave - 10) << 10) + x + (352 * x * (1024 - x) >> 20);
}
#define TERP_2E 5567 /* in 1/1024 */

/* What n codes cost by the sum of their magnitudes, of which an escape's is
 * TERP_ROW_ESCAPE: at most TERP_MAX_RUN_COST a code. */
static inline TERP_HOST_DEVICE uint64_t
terp_cost_of_sum(uint64_t sum, uint64_t n)
{
    return n == 0 ? 0
                  : n * terp_cost_of_mean(
                            (uint32_t)(((n << 10) + TERP_2E * sum) / n));
}
#define TERP_MAX_RUN_COST (12 << 10)
_Static_assert(1024 + (uint64_t)TERP_2E * TERP_ROW_ESCAPE < 1 << 22,
               "as its logarithm to base 2 says");

/* The same of a run, in 32 bits. */
static inline TERP_HOST_DEVICE uint32_t
terp_cost_of_run(uint32_t sum, uint32_t n)
{
    return n == 0 ? 0 : n * terp_cost_of_mean(((n << 10) + TERP_2E * sum) / n);
}
_Static_assert((uint64_t)TERP_LORENZO_RUN_NVALUES *(1024 +
                                                    TERP_2E * TERP_ROW_ESCAPE) <
                   (uint64_t)1 << 32,
               "which suffice");

/* The cost of sampled codes where their runs' costs sum up to `of_runs`, and
 * `of_all` is the cost of all of them as one run. Tiles are longer than runs
 * and gain less, and where values differ much from place to place, splines gain
 * too: so there is a limit. */
static inline TERP_HOST_DEVICE uint64_t
terp_cost_in_runs(uint64_t cost, uint64_t of_runs, uint64_t of_all)
{
    uint64_t least = cost - cost / 18;

    if (of_runs >= of_all)
        return cost;
    cost = cost * ((3 * of_runs + of_all) / 4) / of_all;
    return cost > least ? cost : least;
}

/* The cost of `nvalues` values by that of `nsampled`. */
static inline TERP_HOST_DEVICE uint64_t
terp_scale_cost(uint64_t cost, uint64_t nvalues, uint64_t nsampled)
{
    return cost * (nvalues / nsampled) + cost * (nvalues % nsampled) / nsampled;
}

/* What a class costs under a spline, by what it costs under the cubic one. It
 * is told by what classes of one odd dimension cost under either, of all
 * dimensions that predict this one: only those are sampled under every spline.
 */
static inline TERP_HOST_DEVICE uint64_t
terp_cost_under_spline(uint64_t cost, uint64_t of_spline, uint64_t of_cubic)
{
    /* At most so much that a cost stays a 64-bit number. */
    double most = 16 * (double)of_cubic, wanted = (double)of_spline;

    return of_cubic == 0
               ? cost
               : (uint64_t)((double)cost * ((wanted < most ? wanted : most) /
                                            (double)of_cubic));
}

/* What an escape costs beyond its word of code: its number. What a value costs
 * that lorenzo cannot reproduce. Units of the dictionary's cost table. */
#define TERP_ESCAPE_COST (UINT64_C(16) << TERP_COST_FRACTION_NBITS)
#define TERP_UNPREDICTABLE_COST (UINT64_C(64) << TERP_COST_FRACTION_NBITS)

/* A vector of priorities is canonical when it uses 0 .. k without a gap and
 * leaves idle dimensions at 0. */
static inline TERP_HOST_DEVICE bool
terp_priorities_are_canonical(unsigned priorities, unsigned active)
{
    unsigned used = 0;

    for (int d = 0; d < 4; d++) {
        unsigned priority = priorities >> (2 * d) & 3;
        if (active >> d & 1)
            used |= 1u << priority;
        else if (priority != 0)
            return false;
    }
    return (used & (used + 1)) == 0;
}

/* A tighter bound at coarse levels, each level's so many times the next finer
 * one's up to a limit, where codes are few: there most of the prediction error
 * is the error of what was decoded before (QoZ, Liu et al., SC 2022). Where
 * codes are many it only makes more of them. Of one dimension coarse levels
 * hold a half, a quarter and so on of the points: there it is 1.1 times. */
#define TERP_RATIO_ONE 64

/* Codes are few, or some, below so many bits a value. */
#define TERP_FEW_COST (UINT64_C(3) << TERP_COST_FRACTION_NBITS >> 1)
#define TERP_SOME_COST (UINT64_C(5) << TERP_COST_FRACTION_NBITS >> 1)

/* Below so much, and so much a value, a stream is mostly what it has for any
 * chunk: precision costs little. It does of two dimensions, or where there is
 * next to nothing to code. */
#define TERP_SMALL_COST (UINT64_C(16384) << TERP_COST_FRACTION_NBITS)
#define TERP_SMALL_MIN_COST (UINT64_C(256) << TERP_COST_FRACTION_NBITS)
#define TERP_SMALL_VALUE_COST (UINT64_C(1) << TERP_COST_FRACTION_NBITS >> 3)

/* A level's ratio in 1/TERP_RATIO_ONE by the estimated cost of all levels.
 * Bricks have `ndims` dimensions of more than one value. */
static inline TERP_HOST_DEVICE int
terp_ratio_of_level(int l, int ndims, uint64_t cost, uint64_t nvalues)
{
    /* A byte a level, 64 / x^(l - 1). */
    const uint64_t by_1_1 = UINT64_C(0x2124282C30353A40);
    const uint64_t by_1_15 = UINT64_C(0x2B2B2B2B2B303840);
    const uint64_t by_1_33 = UINT64_C(0x101010141B243040);
    const uint64_t by_1_5 = UINT64_C(0x10101010131C2B40);
    const uint64_t of_value = cost / nvalues;
    uint64_t falling = by_1_33;

    if (ndims < 2) {
        if (of_value >= TERP_FEW_COST)
            return TERP_RATIO_ONE - 4;
        falling = by_1_1;
    } else if (of_value >= TERP_SOME_COST) {
        return TERP_RATIO_ONE;
    } else if (of_value >= TERP_FEW_COST) {
        falling = by_1_15;
    } else if (ndims > 2 && cost >= TERP_SMALL_MIN_COST &&
               cost < TERP_SMALL_COST && of_value < TERP_SMALL_VALUE_COST) {
        falling = by_1_5;
    }
    return (int)(falling >> (8 * (l < 8 ? l - 1 : 7)) & 0xFF);
}

/* Whether lorenzo is taken. Where codes are few the spline's error is below
 * that of lorenzo, which is as large as the bound: there it must be cheaper by
 * an eighth, or where they are fewer still, and the spline's error is far
 * below, by three. Its cost is UINT64_MAX where it could not be sampled. */
static inline TERP_HOST_DEVICE bool
terp_prefers_lorenzo(uint64_t lorenzo_cost, uint64_t spline_cost,
                     uint64_t nvalues)
{
    /* A section of its own weighs more in a small chunk. */
    const uint64_t lead = UINT64_C(64 * 8) << TERP_COST_FRACTION_NBITS;
    const uint64_t fewest = UINT64_C(3) << TERP_COST_FRACTION_NBITS >> 2;
    const uint64_t of_value = spline_cost / nvalues;

    if (lorenzo_cost >= spline_cost || of_value >= TERP_FEW_COST)
        return lorenzo_cost < spline_cost;
    if (of_value >= fewest)
        return lorenzo_cost < spline_cost / 8 * 7;
    return lorenzo_cost + lead < spline_cost / 8 * 5;
}

#endif
