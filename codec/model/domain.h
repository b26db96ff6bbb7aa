/* In which shape a chunk is predicted: its domain. Where neighbours along a
 * slow dimension do not predict, the chunk is a stack of bricks; a chunk of one
 * dimension may be rows, planes or boxes, one after another. An encoder finds
 * that by the errors of interpolation at sampled values, over the distances
 * (lags) at which splines of a shape would interpolate. A decoder reads the
 * domain in the stream. doc/design/03-tuner.md, "The domain".
 *
 * Errors and prices are integers, so that every engine finds the same. */
#pragma once

#include "codec/format/frame.h"
#include "codec/format/layout.h"
#include "codec/format/tokens.h"
#include "codec/model/range.h"

TERP_C_BEGIN

/* Chunks of fewer values have no room for gains. Those of more would make
 * prices overflow. */
#define TERP_DOMAIN_MIN_NVALUES 4096
#define TERP_DOMAIN_MAX_NVALUES (UINT64_C(1) << 48)

#define TERP_DOMAIN_NSAMPLES 64

/* By so many other sets it is checked whether a flat chunk is to be tried in
 * another shape. Of smaller chunks the trial takes little. */
#define TERP_DOMAIN_NCHECKS 8
#define TERP_DOMAIN_CHECK_MIN_NVALUES (1 << 16)

/* Where sample i of a set of them is: evenly spread, but for an offset that
 * meets every coordinate of dims that divide the distance. */
static inline TERP_HOST_DEVICE uint64_t
terp_domain_sample_at(uint64_t nvalues, uint64_t set, uint64_t i)
{
    const uint64_t distance = nvalues / TERP_DOMAIN_NSAMPLES;
    return i * distance + (i * 7919 + set * 104729) % distance;
}

/* What the interpolation of one value, from those at a lag before and behind
 * it, leaves to be coded, in eighths of a bit. */
struct terp_lag_errors {
    uint8_t linear; /* from the values 1 lag away */
    uint8_t cubic;  /* from those 1 and 3 lags away */
    uint8_t copy;   /* from the value before */
};
#define TERP_LAG_ERROR_UNKNOWN 255 /* A value is special, or beyond an end. */
#define TERP_LAG_ERROR_MAX 254

/* Of an error in steps. A code of 0 is an eighth of a bit, about what runs of
 * zeros take; any other 1.1 bits and 1.15 times the logarithm of its magnitude
 * plus one. */
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

/* The errors of some samples, along one dimension at one distance. */
struct terp_price_sum {
    uint32_t linear, cubic, n;
};

/* Adds a sample whose coordinate is `at` along a dimension of `extent`; the lag
 * is `distance` steps of that dimension. Those at a lattice's first points say
 * nothing. */
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

/* What a point costs that is predicted along a dimension, in 1/64 bit; by the
 * price at half the distance where too few samples tell. */
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

/* What a value costs that nothing near predicts. */
static inline TERP_HOST_DEVICE uint32_t
terp_price_of_anchor(double min, double max, double step)
{
    return 8u * terp_lag_error_of((max - min) / 4 / step);
}

/* A domain of `chunk`: its `nslow` slowest dims count bricks. */
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

/* What a chunk of such dims, slowest first, costs if its `nslow` slowest dims
 * count bricks: each point by the cheapest of the dimensions in which its
 * coordinate is odd. */
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

/* How sure an encoder is of a domain that is not the chunk. */
enum terp_domain_verdict {
    TERP_DOMAIN_IS_CHUNK, /* there is no other */
    TERP_DOMAIN_TRY,      /* code both, and keep what is smaller */
    TERP_DOMAIN_TAKE      /* code in this one */
};

/* By the estimates; `quiet`: along some dimension hardly anything changes, so
 * that lorenzo may code the whole in less than any estimate. */
static inline TERP_HOST_DEVICE enum terp_domain_verdict
terp_domain_judge(uint64_t cost, uint64_t cost_of_chunk, bool quiet)
{
    return !quiet && cost < cost_of_chunk / 10 * 7 ? TERP_DOMAIN_TAKE
           : cost < cost_of_chunk / 100 * 97       ? TERP_DOMAIN_TRY
                                                   : TERP_DOMAIN_IS_CHUNK;
}

/* Whether the prices along a dimension of so many values never exceed a bit. */
static inline TERP_HOST_DEVICE bool
terp_domain_is_quiet(const uint32_t *along, uint64_t extent)
{
    bool quiet = extent > 1;

    for (int j = 0; UINT64_C(1) << j < extent; j++)
        quiet &= along[j] < 64;
    return quiet;
}

/* The best split of a chunk of rank 2 or more. */
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

/* ---- flat chunks ---- */

/* Lengths of rows that are tried, where they divide a dim. */
#define TERP_MIN_PERIOD 4
#define TERP_MAX_PERIOD 65536
static inline TERP_HOST_DEVICE bool
terp_may_be_period(uint64_t extent, uint64_t period)
{
    return period >= TERP_MIN_PERIOD && period <= TERP_MAX_PERIOD &&
           period <= extent / 2 && extent % period == 0;
}

/* The logarithm of about half a period. */
static inline TERP_HOST_DEVICE int
terp_half_period_log2(uint64_t period)
{
    return bit_width(period) - 2;
}

/* Whether a chunk of one dimension seems to be rows: half a period away values
 * differ more than a whole one. */
static inline TERP_HOST_DEVICE bool
terp_seems_periodic(const struct terp_price_sum *at_half,
                    const struct terp_price_sum *at_period)
{
    return 16 * terp_price_of(at_period, TERP_PRICE_UNKNOWN) <
           15 * terp_price_of(at_half, TERP_PRICE_UNKNOWN);
}

/* ---- the search of an encoder, on the host ---- */

/* Tells the errors of a set of samples of a chunk at a lag. */
typedef void
terp_lag_errors_at(void *arg, uint64_t lag, uint64_t set,
                   struct terp_lag_errors errors_ret[TERP_DOMAIN_NSAMPLES]);

/* Whether a chunk may have a domain of its own. */
static inline TERP_HOST_DEVICE bool
terp_domain_is_open(const struct terp_chunk *chunk, uint64_t nvalues,
                    const struct terp_params *params)
{
    return !chunk->stack && nvalues >= TERP_DOMAIN_MIN_NVALUES &&
           nvalues <= TERP_DOMAIN_MAX_NVALUES &&
           terp_predictor_asked(params) != TERP_PREDICTOR_LORENZO &&
           params->effort != TERP_EFFORT_FAST;
}

/* Finds the domain of a chunk for which that is open. `domain_ret` is the chunk
 * where the verdict says so. TERP_ERR_MEMORY, or TERP_OK. */
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

/* Domains: the chunk, the one that was found, and all splits; of each, two
 * predictors and so many pipelines. */
#define TERP_NTRIED_PIPELINES 2
#define TERP_MAX_NTRIALS (1 + 2 * TERP_NTRIED_PIPELINES * (TERP_MAX_RANK + 1))

/* The streams of which an encoder keeps the smallest, the first one among equal
 * ones, by what was found of the domain of a chunk that is not constant;
 * `open`: terp_domain_is_open. Returns how many. */
int
terp_trials_make(const struct terp_params *params,
                 const struct terp_chunk *chunk, bool open,
                 const struct terp_chunk *found,
                 enum terp_domain_verdict verdict,
                 struct terp_trial trials_ret[TERP_MAX_NTRIALS]);

/* Whether the first of them, a stream of so many bytes, asks for one more.
 * Where lorenzo's codes are few they often are near each other, and in context
 * order few in each of many tiles: then `huffman` may be smaller. */
static inline bool
terp_asks_for_huffman(const struct terp_params *params,
                      enum terp_prediction prediction, uint64_t nbytes,
                      uint64_t nvalues)
{
    return params->effort == TERP_EFFORT_DEFAULT &&
           params->pipeline == TERP_PIPELINE_AUTO &&
           prediction == TERP_PREDICTION_LORENZO &&
           16 * nbytes < 3 * nvalues; /* 1.5 bits a value */
}

/* Adds that one to the n that there are, unless the first is of another domain.
 * Returns how many there are now. */
static inline int
terp_trials_add_huffman(const struct terp_chunk *chunk,
                        enum terp_domain_verdict verdict,
                        struct terp_trial *trials, int n)
{
    const struct terp_trial trial = {*chunk, TERP_PREDICTOR_LORENZO,
                                     TERP_PIPELINE_HUFFMAN};

    if (verdict == TERP_DOMAIN_TAKE)
        return n;
    trials[n] = trial;
    return n + 1;
}

TERP_C_END
