/* The domain: the shape in which a chunk is predicted. If neighbours along a
 * slow dimension do not predict, the chunk is a stack of bricks. A chunk of one
 * dimension may be a sequence of rows, planes or boxes. An encoder finds the
 * domain by the errors of interpolation at sampled values, over the distances
 * (lags) at which the splines of a shape would interpolate. A decoder reads the
 * domain from the stream. doc/design/03-tuner.md, "The domain".
 *
 * Errors and prices are integers, so that both engines find the same. */
#pragma once

#include "codec/format/frame.h"
#include "codec/format/layout.h"
#include "codec/format/tokens.h"
#include "codec/model/range.h"

TERP_C_BEGIN

/* The search is limited to chunks of this size: smaller ones cannot gain, and
 * prices of larger ones would overflow. */
#define TERP_DOMAIN_MIN_NVALUES 4096
#define TERP_DOMAIN_MAX_NVALUES (UINT64_C(1) << 48)

#define TERP_DOMAIN_NSAMPLES 64

/* A chunk of one dimension and at least TERP_DOMAIN_CHECK_MIN_NVALUES is tried
 * in another shape only if this many other sets of samples confirm that shape.
 * In smaller chunks the trial itself is cheap. */
#define TERP_DOMAIN_NCHECKS 8
#define TERP_DOMAIN_CHECK_MIN_NVALUES (1 << 16)

/* The index of sample i of a set. Samples are evenly spread, with an offset
 * that reaches every coordinate of dims that divide the distance. */
static inline TERP_HOST_DEVICE uint64_t
terp_domain_sample_at(uint64_t nvalues, uint64_t set, uint64_t i)
{
    const uint64_t distance = nvalues / TERP_DOMAIN_NSAMPLES;
    return i * distance + (i * 7919 + set * 104729) % distance;
}

/* The size of the code, in eighths of a bit, that interpolation of one value
 * leaves. The value is interpolated from those one lag (and three lags) before
 * and behind it. */
struct terp_lag_errors {
    uint8_t linear; /* from the values 1 lag away */
    uint8_t cubic;  /* from those 1 and 3 lags away */
    uint8_t copy;   /* from the value before */
};
#define TERP_LAG_ERROR_UNKNOWN 255 /* a value is special or does not exist */
#define TERP_LAG_ERROR_MAX 254

/* The size of the code of an error of `nsteps` steps. A code of 0 costs an
 * eighth of a bit, about its price in a run of zeros. Any other code costs 1.1
 * bits and 1.15 times log2(magnitude + 1). */
static inline TERP_HOST_DEVICE uint8_t
terp_lag_error_of(double nsteps)
{
    const double rounded = nsteps + 0.5;

    if (!(rounded < 1073741824.0))
        return TERP_LAG_ERROR_MAX;
    const uint32_t magnitude = (uint32_t)rounded + 1;
    if (magnitude == 1)
        return 1;
    const uint32_t octave = (uint32_t)bit_width(magnitude) - 1;
    const uint32_t eighths =
        8 * octave + (octave >= 3 ? magnitude >> (octave - 3) & 7
                                  : magnitude << (3 - octave) & 7);
    const uint32_t nbits = 9 + eighths * 37 / 32;
    return (uint8_t)(nbits < TERP_LAG_ERROR_MAX ? nbits : TERP_LAG_ERROR_MAX);
}

/* The summed errors of samples along one dimension at one distance. */
struct terp_price_sum {
    uint32_t linear, cubic, n;
};

/* Adds a sample with the coordinate `at` along a dimension of `extent`. The lag
 * is `distance` steps of that dimension. Samples at the first points of a
 * lattice are skipped: nothing precedes them. */
static inline TERP_HOST_DEVICE void
terp_price_add(const struct terp_lag_errors *errors, uint64_t at,
               uint64_t extent, uint64_t distance, struct terp_price_sum *sum)
{
    if (at < distance)
        return;
    const bool is_inner = at + distance < extent;
    const bool is_far_inner = at >= 3 * distance && at + 3 * distance < extent;
    const unsigned linear = is_inner && errors->linear != TERP_LAG_ERROR_UNKNOWN
                                ? errors->linear
                                : errors->copy;
    if (linear == TERP_LAG_ERROR_UNKNOWN)
        return;
    sum->n++;
    sum->linear += linear;
    sum->cubic += is_far_inner && errors->cubic != TERP_LAG_ERROR_UNKNOWN
                      ? errors->cubic
                      : linear;
}

/* The price of a point that a dimension predicts, in 1/64 bit. With too few
 * samples, the price at half the distance counts. */
#define TERP_PRICE_UNKNOWN (9 * 64)
#define TERP_PRICE_MIN_NSAMPLES 4
static inline TERP_HOST_DEVICE uint32_t
terp_price_of(const struct terp_price_sum *sum, uint32_t before)
{
    const uint32_t least = sum->linear < sum->cubic ? sum->linear : sum->cubic;

    return sum->n < TERP_PRICE_MIN_NSAMPLES ? before : 8 * least / sum->n;
}

/* Prices along each dimension, fastest first, at distances 2^j. */
struct terp_domain_prices {
    uint32_t along[TERP_NDIMS][TERP_MAX_LEVELS];
    uint32_t anchor;
};

/* The price of a value that no near value predicts. */
static inline TERP_HOST_DEVICE uint32_t
terp_price_of_anchor(double min, double max, double step)
{
    return 8u * terp_lag_error_of((max - min) / 4 / step);
}

/* The domain in which the `nslow` slowest dims of `chunk` count bricks. */
static inline TERP_HOST_DEVICE struct terp_chunk
terp_domain_split(const struct terp_chunk *chunk, int nslow)
{
    struct terp_chunk domain = *chunk;

    if (nslow == 0)
        return domain;
    domain.stack = true;
    domain.rank = chunk->rank - nslow + 1;
    for (int i = 1; i < nslow; i++)
        domain.dims[0] *= chunk->dims[i];
    for (int i = 1; i < TERP_MAX_RANK; i++)
        domain.dims[i] = i < domain.rank ? chunk->dims[i + nslow - 1] : 0;
    return domain;
}

/* The price of a chunk whose `nslow` slowest dims count bricks. Each point
 * costs as much as the cheapest dimension in which its coordinate is odd. */
static inline TERP_HOST_DEVICE uint64_t
terp_domain_cost(const struct terp_chunk *chunk, int nslow,
                 const struct terp_domain_prices *prices)
{
    const int rank = chunk->rank - nslow;
    uint64_t nbricks = 1, cost = 0, fine[TERP_NDIMS] = {0};
    bool any = true;

    for (int i = 0; i < nslow; i++)
        nbricks *= chunk->dims[i];
    for (int d = 0; d < rank; d++)
        fine[d] = chunk->dims[chunk->rank - 1 - d];
    for (int j = 0; any; j++) {
        any = false;
        for (unsigned odd = 1; odd < 1u << rank; odd++) {
            uint64_t n = nbricks;
            uint32_t least = UINT32_MAX;
            for (int d = 0; d < rank; d++) {
                const bool is_odd = odd >> d & 1;
                n *= is_odd ? fine[d] / 2 : fine[d] - fine[d] / 2;
                if (is_odd && fine[d] > 1 && prices->along[d][j] < least)
                    least = prices->along[d][j];
            }
            cost += n == 0 ? 0 : n * least;
        }
        for (int d = 0; d < rank; d++) {
            fine[d] -= fine[d] / 2;
            any |= fine[d] > 1;
        }
    }
    return cost + nbricks * prices->anchor;
}

/* How sure the encoder is that another domain than the chunk's shape is
 * better. */
enum terp_domain_verdict {
    TERP_DOMAIN_IS_CHUNK, /* keep the chunk's shape */
    TERP_DOMAIN_TRY,      /* code in both, keep the smaller stream */
    TERP_DOMAIN_TAKE      /* code in the other domain only */
};

/* Compares estimated prices. `quiet`: hardly anything changes along some
 * dimension, so Lorenzo may code the chunk in less than any estimate, and the
 * other domain is at most tried. */
static inline TERP_HOST_DEVICE enum terp_domain_verdict
terp_domain_judge(uint64_t cost, uint64_t cost_of_chunk, bool quiet)
{
    return !quiet && cost < cost_of_chunk / 10 * 7 ? TERP_DOMAIN_TAKE
           : cost < cost_of_chunk / 100 * 97       ? TERP_DOMAIN_TRY
                                                   : TERP_DOMAIN_IS_CHUNK;
}

/* Whether all prices along a dimension are below one bit. */
static inline TERP_HOST_DEVICE bool
terp_domain_is_quiet(const uint32_t *along, uint64_t extent)
{
    bool quiet = extent > 1;

    for (int j = 0; UINT64_C(1) << j < extent; j++)
        quiet &= along[j] < 64;
    return quiet;
}

/* Chooses the cheapest split of a chunk of rank 2 or more. */
static inline TERP_HOST_DEVICE enum terp_domain_verdict
terp_domain_choose_split(const struct terp_chunk *chunk,
                         const struct terp_domain_prices *prices,
                         int *nslow_ret)
{
    const uint64_t cost_of_chunk = terp_domain_cost(chunk, 0, prices);
    uint64_t least = UINT64_MAX;
    bool quiet = false;

    for (int nslow = 1; nslow < chunk->rank; nslow++) {
        const uint64_t cost = terp_domain_cost(chunk, nslow, prices);
        if (cost < least) {
            least = cost;
            *nslow_ret = nslow;
        }
    }
    for (int d = 0; d < chunk->rank; d++)
        quiet |= terp_domain_is_quiet(prices->along[d],
                                      chunk->dims[chunk->rank - 1 - d]);
    return terp_domain_judge(least, cost_of_chunk, quiet);
}

/* ---- chunks of one dimension ---- */

/* Lengths of rows that are tried if they divide a dim. */
#define TERP_MIN_PERIOD 4
#define TERP_MAX_PERIOD 65536
static inline TERP_HOST_DEVICE bool
terp_may_be_period(uint64_t extent, uint64_t period)
{
    return period >= TERP_MIN_PERIOD && period <= TERP_MAX_PERIOD &&
           period <= extent / 2 && extent % period == 0;
}

/* log2 of about half a period. */
static inline TERP_HOST_DEVICE int
terp_half_period_log2(uint64_t period)
{
    return bit_width(period) - 2;
}

/* Whether a chunk of one dimension seems to consist of rows: values half a
 * period apart must differ more than values a period apart. */
static inline TERP_HOST_DEVICE bool
terp_seems_periodic(const struct terp_price_sum *at_half,
                    const struct terp_price_sum *at_period)
{
    return 16 * terp_price_of(at_period, TERP_PRICE_UNKNOWN) <
           15 * terp_price_of(at_half, TERP_PRICE_UNKNOWN);
}

/* ---- the search of an encoder, on the host ---- */

/* Computes the errors of a set of samples at a lag. */
typedef void
terp_lag_errors_at(void *arg, uint64_t lag, uint64_t set,
                   struct terp_lag_errors errors_ret[TERP_DOMAIN_NSAMPLES]);

/* Whether an encoder searches for a domain of a chunk. */
static inline TERP_HOST_DEVICE bool
terp_domain_is_open(const struct terp_chunk *chunk, uint64_t nvalues,
                    const struct terp_params *params)
{
    return !chunk->stack && nvalues >= TERP_DOMAIN_MIN_NVALUES &&
           nvalues <= TERP_DOMAIN_MAX_NVALUES &&
           terp_predictor_of(params) != TERP_PREDICTOR_LORENZO &&
           params->effort != TERP_EFFORT_FAST;
}

/* Finds the domain of a chunk for which terp_domain_is_open. *domain_ret is the
 * chunk itself if the verdict is TERP_DOMAIN_IS_CHUNK. Returns TERP_OK or
 * TERP_ERR_MEMORY. */
enum terp_status
terp_domain_find(const struct terp_chunk *chunk, uint32_t anchor_price,
                 terp_lag_errors_at *errors_at, void *arg,
                 struct terp_chunk *domain_ret,
                 enum terp_domain_verdict *verdict_ret);

/* ---- trials ---- */

/* A way to code a chunk. */
struct terp_trial {
    struct terp_chunk domain;
    enum terp_predictor predictor;
    enum terp_pipeline pipeline;
};

/* Largest number of trials: one as the caller wants it; then, for the chunk's
 * shape, the found domain and all splits, two predictors and two pipelines
 * each. */
#define TERP_NTRIED_PIPELINES 2
#define TERP_MAX_NTRIALS (1 + 2 * TERP_NTRIED_PIPELINES * (TERP_MAX_RANK + 1))

/* Lists the trials of a chunk that is not constant. The encoder keeps the
 * smallest stream, among equal ones the first. `open`: terp_domain_is_open.
 * Returns the number of trials. */
int
terp_trials_make(const struct terp_params *params,
                 const struct terp_chunk *chunk, bool open,
                 const struct terp_chunk *found,
                 enum terp_domain_verdict verdict,
                 struct terp_trial trials_ret[TERP_MAX_NTRIALS]);

/* Whether the first trial's stream calls for a trial of `huffman`. When
 * Lorenzo's codes are few, they are often close together; context order
 * scatters them over many tiles, and `huffman` may be smaller. */
static inline bool
terp_huffman_may_be_smaller(const struct terp_params *params,
                            enum terp_prediction prediction, uint64_t nbytes,
                            uint64_t nvalues)
{
    return params->effort == TERP_EFFORT_DEFAULT &&
           params->pipeline == TERP_PIPELINE_AUTO &&
           prediction == TERP_PREDICTION_LORENZO &&
           16 * nbytes < 3 * nvalues; /* 1.5 bits for each value */
}

/* Whether to try Lorenzo after the first trial, which chose `prediction`.
 * `is_close`: terp_costs_are_close. */
static inline bool
terp_lorenzo_may_be_smaller(const struct terp_params *params,
                            enum terp_prediction prediction, bool is_close)
{
    return params->effort == TERP_EFFORT_DEFAULT &&
           params->predictor == TERP_PREDICTOR_AUTO &&
           prediction == TERP_PREDICTION_SPLINE && is_close;
}

/* Whether to try splines after the first trial, which chose `prediction`.
 * `may_be`: terp_may_be_splines, for lossless integers. `is_close`:
 * terp_splines_are_close. */
static inline bool
terp_splines_may_be_smaller(const struct terp_params *params,
                            enum terp_prediction prediction, bool may_be,
                            bool is_close)
{
    return params->effort == TERP_EFFORT_DEFAULT &&
           params->predictor == TERP_PREDICTOR_AUTO &&
           ((prediction == TERP_PREDICTION_LOSSLESS && may_be) ||
            (prediction == TERP_PREDICTION_LORENZO && is_close));
}

/* Adds a trial in the chunk's own shape to the `n` trials, unless the first
 * trial has another domain. Returns the new number of trials. */
static inline int
terp_trials_add(const struct terp_chunk *chunk,
                enum terp_domain_verdict verdict, enum terp_predictor predictor,
                enum terp_pipeline pipeline, struct terp_trial *trials, int n)
{
    const struct terp_trial trial = {*chunk, predictor, pipeline};

    if (verdict == TERP_DOMAIN_TAKE)
        return n;
    trials[n] = trial;
    return n + 1;
}

TERP_C_END
