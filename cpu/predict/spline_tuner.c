/* Chooses the plans of the spline predictor's levels, by costs that are
 * estimated on samples of the original values. All costs are integers, in the
 * units of the dictionary's cost table; ties go to the candidate that is tried
 * first. */
#include <stdatomic.h>

#include "codec/format/base.h"
#include "codec/model/cost.h"
#include "cpu/entropy/codebooks.h"
#include "cpu/entropy/histogram.h"
#include "cpu/predict/spline.h"

/* Runs are sampled whole, so a class may have more samples than its target. At
 * worst a row has three runs, of which the longest alone is sampled: half as
 * many more values, plus one run; or five runs. */
#define MAX_NROWS (2 * TERP_MAX_NSAMPLES)
_Static_assert(TERP_MIN_NSAMPLES / 2 >= CPU_RUN_NVALUES &&
                   2 * TERP_MIN_NSAMPLES >= 5 * CPU_RUN_NVALUES,
               "The rows of a class's sampled runs fit in twice those wanted.");
_Static_assert(MAX_NROWS <= CPU_COUNT_MAX_NNUMBERS,
               "Rows can be counted in one histogram.");
_Static_assert((uint64_t)MAX_NROWS *(24 << TERP_COST_FRACTION_NBITS) <
                   (uint64_t)1 << 32,
               "The cost of all rows fits 32 bits.");

_Static_assert(TERP_ROW_SPECIAL < TERP_NSYMBOLS,
               "A histogram counts samples without a code, too.");

/* Estimated costs of a level. */
struct level_costs {
    /* Under the cubic spline: [odd][dims]. */
    uint64_t cubic[TERP_NCLASSES][TERP_NCLASSES];
    /* Of classes with one odd dimension. */
    uint64_t single[TERP_NSPLINES][TERP_NDIMS];
};

#define NCOUNTS (TERP_ROW_SPECIAL + 1)

/* A worker's memory; its rows follow. */
struct planner {
    struct level_costs costs;
    uint32_t counts[NCOUNTS];
    struct cpu_histogram histogram;
};
#define PLANNER_NBYTES ((sizeof(struct planner) + 63) / 64 * 64)

/* The samples of a level, as rows of the dictionary: [dims][capacity]. */
struct sampler {
    const struct cpu_prediction *spline;
    int l;
    uint64_t capacity;
    struct planner *planner;
    void *scratch;
    uint16_t *rows;
};

static uint64_t
sample_rows(const struct sampler *sampler, const struct cpu_class *cls)
{
    const uint64_t nruns = cls->nrows * cls->nruns_per_row;
    const uint64_t nvalues = cls->nrows * cls->extent[0];

    return sampler->spline->stages->sample(
        cls, &sampler->spline->quantizer, terp_sample_distance(nvalues, nruns),
        sampler->capacity, sampler->scratch, sampler->rows);
}

/* Estimates the cost of a class under prediction along `dims`. */
static uint64_t
cost_of_rows(const struct sampler *sampler, const struct cpu_class *cls,
             unsigned dims, uint64_t nsampled)
{
    uint32_t *counts = sampler->planner->counts;

    terp_cpu_histogram(sampler->rows + dims * sampler->capacity, nsampled,
                       NCOUNTS, 0, &sampler->planner->histogram, counts);
    const struct terp_class_samples samples = {
        .npredicting = (unsigned)__builtin_popcount(dims),
        .blends = cls->blend_order > 1,
        .blends_long = terp_blends_long(cls->spline, cls->blend_order),
        .nsampled = nsampled,
        .nunknown = counts[TERP_ROW_UNKNOWN],
        .nspecial = counts[TERP_ROW_SPECIAL],
        .cost = terp_cpu_cost_of_counts(
            counts, cpu_beyond_of(&sampler->spline->quantizer))};
    return terp_cost_of_class(&samples, cls->nrows * cls->extent[0]);
}

static void
sample_level(const struct sampler *sampler, struct level_costs *costs)
{
    const struct cpu_prediction *spline = sampler->spline;
    struct cpu_class cls;

    memset(costs, 0, sizeof *costs);
    for (unsigned odd = 1; odd < TERP_NCLASSES; odd++) {
        if (!terp_cpu_spline_class(spline, sampler->l, odd, odd,
                                   TERP_SPLINE_CUBIC, &cls))
            continue;
        const uint64_t nsampled = sample_rows(sampler, &cls);
        for (unsigned dims = odd; dims > 0; dims = (dims - 1) & odd)
            costs->cubic[odd][dims] =
                cost_of_rows(sampler, &cls, dims, nsampled);
    }
    for (int d = 0; d < TERP_NDIMS; d++) {
        const unsigned odd = 1u << d;
        costs->single[TERP_SPLINE_CUBIC][d] = costs->cubic[odd][odd];
        for (unsigned kind = 1; kind < TERP_NSPLINES; kind++)
            if (terp_cpu_spline_class(spline, sampler->l, odd, odd,
                                      (enum terp_spline)kind, &cls))
                costs->single[kind][d] = cost_of_rows(
                    sampler, &cls, odd, sample_rows(sampler, &cls));
    }
}

/* Sums the costs of classes with one odd dimension that is in `dims`. */
static uint64_t
cost_of_singles(const struct level_costs *costs, unsigned kind, unsigned dims)
{
    uint64_t cost = 0;

    for (int d = 0; d < TERP_NDIMS; d++)
        cost += dims >> d & 1 ? costs->single[kind][d] : 0;
    return cost;
}

/* Chooses the predicting dimensions under the cubic spline, then the best of
 * `nsplines` splines. */
static uint64_t
plan_averages(const struct terp_level *level, const struct level_costs *costs,
              unsigned nsplines, struct terp_level_plan *plan)
{
    unsigned active = 0;
    uint64_t best = UINT64_MAX;

    for (int d = 0; d < TERP_NDIMS; d++)
        active |= (unsigned)(level->nodd[d] > 0) << d;
    for (unsigned priorities = 0; priorities < 256; priorities++) {
        uint64_t cost = 0;
        if (!terp_priorities_are_canonical(priorities, active))
            continue;
        for (unsigned odd = 1; odd < TERP_NCLASSES; odd++)
            cost += costs->cubic[odd][terp_predicting_dims(odd, priorities)];
        if (cost < best) {
            best = cost;
            plan->priorities = (uint8_t)priorities;
        }
    }
    plan->spline = TERP_SPLINE_CUBIC;
    const unsigned priorities = plan->priorities;
    for (unsigned kind = 1; kind < nsplines; kind++) {
        const unsigned own =
            terp_priorities_under_spline(priorities, (int)kind);
        uint64_t cost = 0;
        for (unsigned odd = 1; odd < TERP_NCLASSES; odd++) {
            unsigned dims = terp_predicting_dims(odd, own);
            cost += terp_cost_under_spline(
                costs->cubic[odd][dims], cost_of_singles(costs, kind, dims),
                cost_of_singles(costs, TERP_SPLINE_CUBIC, dims));
        }
        cost = terp_price_under_spline(cost, (int)kind);
        if (cost < best) {
            best = cost;
            plan->spline = (uint8_t)kind;
            plan->priorities = (uint8_t)own;
        }
    }
    return best;
}

/* Estimates the costs of classes with this many odd dimensions under a plan
 * that blends. */
static uint64_t
sample_blended(const struct sampler *sampler, int nodd_dims,
               enum terp_spline kind, unsigned priorities)
{
    const struct terp_level_plan plan = {.spline = (uint8_t)kind,
                                         .priorities = (uint8_t)priorities};
    uint64_t cost = 0;
    struct cpu_class cls;

    for (unsigned odd = 1; odd < TERP_NCLASSES; odd++)
        if (__builtin_popcount(odd) == nodd_dims &&
            terp_cpu_spline_planned_class(sampler->spline, sampler->l, odd,
                                          &plan, &cls))
            cost += cost_of_rows(sampler, &cls, cls.predicting,
                                 sample_rows(sampler, &cls));
    return cost;
}

/* Plans a level: averages, or blending with the spline that is best for the
 * other classes. Blending leaves few points to the spline, so blended classes
 * are sampled under the linear one. */
static uint64_t
plan_level(const struct sampler *sampler, struct terp_level_plan *plan)
{
    const struct terp_layout *layout = sampler->spline->layout;
    const struct terp_level *level = &layout->level[sampler->l];
    struct level_costs *costs = &sampler->planner->costs;
    struct terp_blend_costs blends = {0};
    uint64_t nvalues = layout->nbricks;
    int nactive = 0;

    for (int d = 0; d < TERP_NDIMS; d++) {
        nvalues *= level->neven[d] + level->nodd[d];
        nactive += level->nodd[d] > 0;
    }
    const bool is_large = nvalues > TERP_BLEND_MIN_NVALUES;
    sample_level(sampler, costs);
    uint64_t best = plan_averages(
        level, costs, is_large ? TERP_NSPLINES : TERP_SPLINE_LONG, plan);
    if (!is_large || nactive < 2)
        return best;
    for (unsigned kind = 0; kind < TERP_NSPLINES; kind++)
        blends.single[kind] = cost_of_singles(costs, kind, TERP_NCLASSES - 1);
    blends.average = costs->cubic[15][15];
    blends.ndims = nactive;
    blends.two =
        sample_blended(sampler, 2, TERP_SPLINE_LINEAR, TERP_BLEND_FULL);
    blends.two_long =
        sample_blended(sampler, 2, TERP_SPLINE_LONG, TERP_BLEND_FULL);
    blends.three_pairs =
        sample_blended(sampler, 3, TERP_SPLINE_LINEAR, TERP_BLEND_PAIRS);
    blends.three_full =
        sample_blended(sampler, 3, TERP_SPLINE_LINEAR, TERP_BLEND_FULL);
    return terp_choose_blending(&blends, best, plan);
}

/* Levels are planned independently. */
struct planning {
    struct cpu_prediction *spline;
    uint64_t capacity;      /* rows per class, times TERP_NCLASSES */
    uint8_t *memory;        /* of all workers */
    uint64_t memory_nbytes; /* of each worker */
    atomic_int next;
    uint64_t cost[TERP_MAX_LEVELS + 1];
};

/* Each worker takes the next unplanned level. */
static void
plan_levels(void *arg, struct cpu_share share)
{
    struct planning *planning = arg;
    struct cpu_prediction *spline = planning->spline;
    uint8_t *memory =
        planning->memory + (uint64_t)share.worker * planning->memory_nbytes;
    struct sampler sampler = {.spline = spline,
                              .capacity = planning->capacity,
                              .planner = (struct planner *)memory,
                              .scratch =
                                  cpu_prediction_scratch(spline, share.worker),
                              .rows = (uint16_t *)(memory + PLANNER_NBYTES)};

    while ((sampler.l = atomic_fetch_add(&planning->next, 1)) <=
           spline->layout->nlevels)
        planning->cost[sampler.l] =
            plan_level(&sampler, &spline->plan[sampler.l]);
}

/* Allocates a block for each worker. */
static bool
make_memory(struct planning *planning, uint64_t nworkers)
{
    const struct cpu_prediction *spline = planning->spline;

    /* A class has at most half of all values. */
    planning->capacity = 2 * terp_nsamples_of(spline->layout->nvalues / 2 + 1);
    planning->memory_nbytes =
        PLANNER_NBYTES + TERP_NCLASSES * planning->capacity * sizeof(uint16_t);
    planning->memory_nbytes = div_up(planning->memory_nbytes, 64) * 64;
    planning->memory =
        terp_cpu_memory_make(spline->pool, nworkers * planning->memory_nbytes);
    return planning->memory != NULL;
}

enum terp_status
terp_cpu_spline_tune(struct cpu_prediction *spline,
                     struct terp_price *price_ret)
{
    uint64_t nworkers = (uint64_t)terp_cpu_pool_nworkers(spline->pool);
    struct planning planning = {.spline = spline, .next = 1};
    uint64_t cost = 0;
    int ndims = 0;

    terp_cpu_spline_deinterleave(spline);
    if (!make_memory(&planning, nworkers))
        return TERP_ERR_MEMORY;
    terp_cpu_pool_run(spline->pool, plan_levels, &planning, nworkers, 1);
    for (int d = 0; d < TERP_NDIMS; d++)
        ndims += spline->layout->dims[d] > 1;
    for (int l = 1; l <= spline->layout->nlevels; l++)
        cost += planning.cost[l];
    cost = terp_cost_with_low_bits(cost, spline->layout->nvalues,
                                   terp_unit_nbits(spline->quantizer.wide));
    for (int l = 1; l <= spline->layout->nlevels; l++)
        spline->plan[l].bound_ratio = (uint8_t)terp_bound_ratio_of(
            l, ndims, cost, spline->layout->nvalues);
    *price_ret = (struct terp_price){cost, 0};
    terp_cpu_memory_free(spline->pool, planning.memory);
    return TERP_OK;
}
