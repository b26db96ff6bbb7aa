/* Searches the domain of a chunk by prices of samples, and lists the trials of
 * a chunk. */
#include "codec/model/domain.h"

#include <stdlib.h>

/* The number of lags whose errors are kept. Only a chunk with many divisors
 * needs more; the errors of its further lags are computed each time. */
#define MAX_LAGS 128

/* A dimension: `extent` values, `stride` apart, and the coordinate along it of
 * each sample of each set. */
struct axis {
    uint64_t stride, extent;
    uint64_t at[TERP_DOMAIN_NCHECKS][TERP_DOMAIN_NSAMPLES];
};

struct survey {
    uint64_t nvalues;
    terp_lag_errors_at *errors_at;
    void *arg;
    uint64_t first_set, nsets; /* sets of samples; errors of set 0 are kept */
    int nlags;
    uint64_t lag[MAX_LAGS];
    struct terp_lag_errors errors[MAX_LAGS][TERP_DOMAIN_NSAMPLES];
    struct terp_lag_errors other[TERP_DOMAIN_NSAMPLES]; /* errors of another
                                                           set */
    struct axis along, across;
};

static const struct terp_lag_errors *
errors_of_lag(struct survey *survey, uint64_t lag)
{
    for (int i = 0; i < survey->nlags; i++)
        if (survey->lag[i] == lag)
            return survey->errors[i];
    if (survey->nlags < MAX_LAGS)
        survey->nlags++;
    survey->lag[survey->nlags - 1] = lag;
    survey->errors_at(survey->arg, lag, 0, survey->errors[survey->nlags - 1]);
    return survey->errors[survey->nlags - 1];
}

/* Makes an axis for the survey's sets. */
static void
make_axis(const struct survey *survey, uint64_t stride, uint64_t extent,
          struct axis *axis_ret)
{
    axis_ret->stride = stride;
    axis_ret->extent = extent;
    for (uint64_t k = 0; k < survey->nsets; k++)
        for (uint64_t i = 0; i < TERP_DOMAIN_NSAMPLES; i++)
            axis_ret->at[k][i] =
                terp_domain_sample_at(survey->nvalues, survey->first_set + k,
                                      i) /
                stride % extent;
}

static struct terp_price_sum
sum_errors(struct survey *survey, const struct axis *axis, uint64_t distance)
{
    const uint64_t lag = axis->stride * distance;
    struct terp_price_sum sum = {0, 0, 0};

    for (uint64_t k = 0; k < survey->nsets; k++) {
        const struct terp_lag_errors *errors = survey->other;
        if (survey->first_set == 0)
            errors = errors_of_lag(survey, lag);
        else
            survey->errors_at(survey->arg, lag, survey->first_set + k,
                              survey->other);
        for (uint64_t i = 0; i < TERP_DOMAIN_NSAMPLES; i++)
            terp_price_add(&errors[i], axis->at[k][i], axis->extent, distance,
                           &sum);
    }
    return sum;
}

static void
price_along(struct survey *survey, uint64_t stride, uint64_t extent,
            uint32_t along[TERP_MAX_LEVELS])
{
    uint32_t before = TERP_PRICE_UNKNOWN;

    make_axis(survey, stride, extent, &survey->along);
    for (int j = 0; UINT64_C(1) << j < extent; j++) {
        struct terp_price_sum sum =
            sum_errors(survey, &survey->along, UINT64_C(1) << j);
        before = along[j] = terp_price_of(&sum, before);
    }
}

/* A shape of the chunk, with its prices. */
struct shape {
    struct terp_chunk chunk; /* not a stack */
    struct terp_domain_prices prices;
    uint64_t cost; /* of the best split */
    int nslow;
};

static void
price_shape(struct shape *shape)
{
    shape->cost = UINT64_MAX;
    for (int nslow = 0; nslow < shape->chunk.rank; nslow++) {
        uint64_t cost = terp_domain_cost(&shape->chunk, nslow, &shape->prices);
        if (cost < shape->cost) {
            shape->cost = cost;
            shape->nslow = nslow;
        }
    }
}

static bool
seems_periodic(struct survey *survey, uint64_t period)
{
    make_axis(survey, 1, survey->nvalues, &survey->along);
    make_axis(survey, period, survey->nvalues / period, &survey->across);
    struct terp_price_sum at_half = sum_errors(
        survey, &survey->along, UINT64_C(1) << terp_half_period_log2(period));
    struct terp_price_sum at_period = sum_errors(survey, &survey->across, 1);
    return terp_seems_periodic(&at_half, &at_period);
}

/* Cuts the i-th dim of `shape` into rows of `period` values. Replaces *best if
 * the result is cheaper. */
static void
try_period(struct survey *survey, const struct shape *shape, int i,
           uint64_t period, struct shape *best)
{
    struct shape cut = *shape;
    int d = shape->chunk.rank - 1 - i;
    uint64_t stride = 1, extent = shape->chunk.dims[i];

    if (!terp_may_be_period(extent, period))
        return;
    for (int k = i + 1; k < shape->chunk.rank; k++)
        stride *= shape->chunk.dims[k];
    if (shape->chunk.rank == 1 && !seems_periodic(survey, period))
        return;
    cut.chunk.rank++;
    for (int k = cut.chunk.rank - 1; k > i + 1; k--)
        cut.chunk.dims[k] = shape->chunk.dims[k - 1];
    cut.chunk.dims[i] = extent / period;
    cut.chunk.dims[i + 1] = period;
    for (int k = cut.chunk.rank - 1; k > d + 1; k--)
        memcpy(cut.prices.along[k], shape->prices.along[k - 1],
               sizeof cut.prices.along[k]);
    price_along(survey, stride, period, cut.prices.along[d]);
    price_along(survey, stride * period, extent / period,
                cut.prices.along[d + 1]);
    price_shape(&cut);
    if (cut.cost < best->cost)
        *best = cut;
}

/* Adds one dim, the best cut, if it saves at least a fiftieth. */
static bool
cut_best(struct survey *survey, struct shape *shape)
{
    struct shape best = *shape;

    for (int i = 0; i < shape->chunk.rank; i++) {
        uint64_t extent = shape->chunk.dims[i];
        for (uint64_t n = 1; n <= extent / n; n++) {
            if (extent % n != 0)
                continue;
            try_period(survey, shape, i, n, &best);
            if (extent / n != n)
                try_period(survey, shape, i, extent / n, &best);
        }
    }
    if (best.cost >= shape->cost / 50 * 49)
        return false;
    *shape = best;
    return true;
}

static void
price_dims(struct survey *survey, struct shape *shape)
{
    uint64_t stride = 1;

    for (int d = 0; d < shape->chunk.rank; d++) {
        uint64_t extent = shape->chunk.dims[shape->chunk.rank - 1 - d];
        price_along(survey, stride, extent, shape->prices.along[d]);
        stride *= extent;
    }
}

/* Whether other samples also find the shape cheaper. Among the many shapes of
 * noise, some look cheap in the samples that selected them. */
static bool
is_confirmed(struct survey *survey, const struct terp_chunk *chunk,
             const struct shape *found)
{
    struct shape own = {.chunk = *chunk, .prices = found->prices};
    struct shape other = *found;

    survey->first_set = 1;
    survey->nsets = TERP_DOMAIN_NCHECKS;
    price_dims(survey, &own);
    price_dims(survey, &other);
    return terp_domain_cost(&other.chunk, other.nslow, &other.prices) <
           terp_domain_cost(chunk, 0, &own.prices) / 100 * 98;
}

static enum terp_domain_verdict
find_shape(struct survey *survey, struct shape *shape)
{
    const struct terp_chunk chunk = shape->chunk;

    price_dims(survey, shape);
    if (shape->chunk.rank > 1)
        return terp_domain_choose_split(&shape->chunk, &shape->prices,
                                        &shape->nslow);
    price_shape(shape);
    uint64_t cost_of_chunk = shape->cost;
    while (shape->chunk.rank < TERP_MAX_RANK && cut_best(survey, shape))
        continue;
    if (shape->chunk.rank == 1)
        return TERP_DOMAIN_IS_CHUNK;
    const enum terp_domain_verdict verdict =
        terp_domain_judge(shape->cost, cost_of_chunk, false);
    return verdict == TERP_DOMAIN_TRY &&
                   survey->nvalues >= TERP_DOMAIN_CHECK_MIN_NVALUES &&
                   !is_confirmed(survey, &chunk, shape)
               ? TERP_DOMAIN_IS_CHUNK
               : verdict;
}

enum terp_status
terp_domain_find(const struct terp_chunk *chunk, uint32_t anchor_price,
                 terp_lag_errors_at *errors_at, void *arg,
                 struct terp_chunk *domain_ret,
                 enum terp_domain_verdict *verdict_ret)
{
    struct shape shape = {.chunk = *chunk, .prices = {.anchor = anchor_price}};
    struct survey *survey = malloc(sizeof *survey);

    if (survey == NULL)
        return TERP_ERR_MEMORY;
    survey->nvalues = 1;
    for (int i = 0; i < chunk->rank; i++)
        survey->nvalues *= chunk->dims[i];
    survey->errors_at = errors_at;
    survey->arg = arg;
    survey->first_set = 0;
    survey->nsets = 1;
    survey->nlags = 0;
    *verdict_ret = find_shape(survey, &shape);
    *domain_ret = *verdict_ret == TERP_DOMAIN_IS_CHUNK
                      ? *chunk
                      : terp_domain_split(&shape.chunk, shape.nslow);
    free(survey);
    return TERP_OK;
}

/* ---- trials ---- */

/* Lists, for one domain, the trials of all predictors and pipelines that the
 * caller leaves open. */
static int
try_all(const struct terp_params *params, const struct terp_chunk *domain,
        struct terp_trial *trials)
{
    static const enum terp_predictor predictors[] = {TERP_PREDICTOR_SPLINE,
                                                     TERP_PREDICTOR_LORENZO};
    static const enum terp_pipeline pipelines[] = {TERP_PIPELINE_RATIO,
                                                   TERP_PIPELINE_HUFFMAN};
    const enum terp_predictor wanted = terp_predictor_of(params);
    int n = 0;

    for (int i = 0; i < 2 * TERP_NTRIED_PIPELINES; i++) {
        struct terp_trial trial = {*domain,
                                   predictors[i / TERP_NTRIED_PIPELINES],
                                   pipelines[i % TERP_NTRIED_PIPELINES]};
        if (wanted != TERP_PREDICTOR_AUTO) {
            trial.predictor = wanted;
            if (i >= TERP_NTRIED_PIPELINES)
                continue;
        }
        if (params->pipeline != TERP_PIPELINE_AUTO) {
            trial.pipeline = params->pipeline;
            if (i % TERP_NTRIED_PIPELINES > 0)
                continue;
        }
        trials[n++] = trial;
    }
    return n;
}

int
terp_trials_make(const struct terp_params *params,
                 const struct terp_chunk *chunk, bool open,
                 const struct terp_chunk *found,
                 enum terp_domain_verdict verdict,
                 struct terp_trial trials_ret[TERP_MAX_NTRIALS])
{
    const struct terp_trial own = {*chunk, terp_predictor_of(params),
                                   params->pipeline};
    struct terp_trial other = own;
    int n = 0;

    other.domain = *found;
    if (params->effort != TERP_EFFORT_BEST) {
        if (verdict != TERP_DOMAIN_TAKE)
            trials_ret[n++] = own;
        if (verdict != TERP_DOMAIN_IS_CHUNK)
            trials_ret[n++] = other;
        return n;
    }
    trials_ret[n++] = own;
    n += try_all(params, chunk, trials_ret + n);
    if (!open)
        return n;
    bool is_split = verdict == TERP_DOMAIN_IS_CHUNK;
    for (int nslow = 1; nslow < chunk->rank; nslow++) {
        struct terp_chunk split = terp_domain_split(chunk, nslow);
        n += try_all(params, &split, trials_ret + n);
        is_split |= terp_shapes_are_equal(&split, found);
    }
    return is_split ? n : n + try_all(params, found, trials_ret + n);
}
