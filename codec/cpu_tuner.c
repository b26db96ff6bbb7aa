#include "cpu_tuner.h"

#include <stdlib.h>

#include "base.h"
#include "cpu_tiles.h"

/* Values that are sampled of a level, or of a chunk for lorenzo. More gain
 * little, see doc/design.md. */
#define NSAMPLES 4096

/* Sums of products in a cost stay below 2^32. */
_Static_assert((uint64_t)4 * NSAMPLES * (24 << TERP_COST_FRACTION_NBITS) <
                   (uint64_t)1 << 32,
               "samples of a class are few enough");

static uint64_t
select_cost(const uint32_t counts[TERP_NROWS], uint64_t *nsampled)
{
    int nrows = 0;

    *nsampled = counts[TERP_ROW_ESCAPE];
    for (int row = 0; row < TERP_RADIUS; row++) {
        if (counts[row] != 0)
            nrows = row + 1;
        *nsampled += counts[row];
    }
    /* An escape also stores its value. */
    return cpu_entry_select(counts, nrows, NULL) +
           ((uint64_t)counts[TERP_ROW_ESCAPE] * 32
            << TERP_COST_FRACTION_NBITS);
}

/* Costs of a level's classes by spline and predicting dimensions, in cost
 * units per 1024 values of the whole level. */
struct level_costs {
    uint64_t cost[TERP_NSPLINES][CPU_NCLASSES][CPU_NCLASSES];
};

static uint64_t
sample_class(const struct cpu_spline *spline, int l, unsigned odd,
             unsigned predicting, enum terp_spline kind)
{
    struct cpu_class cls;
    struct cpu_quantizer quantizer = spline->quantizer;
    uint32_t counts[TERP_NROWS] = {0};
    uint64_t nsampled;

    if (!cpu_spline_class(spline, l, odd, predicting, kind, &cls))
        return 0;
    uint64_t nruns = cls.nrows * cls.nruns_per_row;
    uint64_t nvalues = cls.nrows * cls.extent[0];
    uint64_t every = div_up(nvalues, NSAMPLES);
    /* At least a handful of runs, however long they are. */
    every = min_u64(every, div_up(nruns, 4));
    spline->stages->sample(&cls, &quantizer, every / 2, nruns, every, counts);
    uint64_t cost = select_cost(counts, &nsampled);
    return nsampled == 0 ? 0 : cost * nvalues / nsampled;
}

static void
cost_level(const struct cpu_spline *spline, int l, struct level_costs *costs)
{
    for (int kind = 0; kind < TERP_NSPLINES; kind++)
        for (unsigned odd = 1; odd < CPU_NCLASSES; odd++)
            for (unsigned dims = odd; dims > 0; dims = (dims - 1) & odd)
                costs->cost[kind][odd][dims] = sample_class(
                    spline, l, odd, dims, (enum terp_spline)kind);
}

/* A vector of priorities is canonical when it uses 0 .. k without a gap and
 * leaves idle dimensions at 0. */
static bool
is_canonical(unsigned priorities, unsigned active)
{
    unsigned used = 0;

    for (int d = 0; d < CPU_NDIMS; d++) {
        unsigned priority = priorities >> (2 * d) & 3;
        if (active >> d & 1)
            used |= 1u << priority;
        else if (priority != 0)
            return false;
    }
    return (used & (used + 1)) == 0;
}

static uint64_t
plan_level(const struct cpu_spline *spline, int l,
           const struct level_costs *costs, struct cpu_level_plan *plan)
{
    unsigned active = 0;
    uint64_t best = UINT64_MAX;

    for (int d = 0; d < CPU_NDIMS; d++)
        active |= (unsigned)(spline->layout->level[l].nodd[d] > 0) << d;
    for (unsigned kind = 0; kind < TERP_NSPLINES; kind++) {
        for (unsigned priorities = 0; priorities < 256; priorities++) {
            uint64_t cost = 0;
            if (!is_canonical(priorities, active))
                continue;
            for (unsigned odd = 1; odd < CPU_NCLASSES; odd++)
                cost += costs->cost[kind][odd]
                                   [terp_predicting_dims(odd, priorities)];
            if (cost < best) {
                best = cost;
                plan->spline = (uint8_t)kind;
                plan->priorities = (uint8_t)priorities;
            }
        }
    }
    return best;
}

static void
choose_ratios(struct cpu_spline *spline, uint64_t cost)
{
    static const uint8_t steady[] = {64, 51, 41, 33, 26, 21, 17, 16};
    uint64_t per_value = cost / spline->layout->nvalues;
    double alpha = 0;
    if (getenv("ALPHA")) alpha = atof(getenv("ALPHA"));

    for (int l = 1; l <= spline->layout->nlevels; l++) {
        int i = l - 1 < 7 ? l - 1 : 7;
        spline->plan[l].ratio =
            per_value < (3 << TERP_COST_FRACTION_NBITS) / 2 ? steady[i]
                                                            : CPU_RATIO_ONE;
        if (alpha > 0) {
            double r = 64;
            for (int k = 1; k < l; k++) r /= alpha;
            double cap = getenv("BETA") ? atof(getenv("BETA")) : 4;
            if (r < 64/cap) r = 64/cap;
            spline->plan[l].ratio = (uint8_t)(r + .5);
        }
    }
}

enum terp_status
cpu_tune_spline(struct cpu_spline *spline, uint64_t *cost_ret)
{
    struct level_costs *costs = malloc(sizeof *costs);

    if (costs == NULL)
        return TERP_ERR_MEMORY;
    *cost_ret = 0;
    for (int l = 1; l <= spline->layout->nlevels; l++) {
        cost_level(spline, l, costs);
        *cost_ret += plan_level(spline, l, costs, &spline->plan[l]);
    }
    choose_ratios(spline, *cost_ret);
    free(costs);
    return TERP_OK;
}

enum terp_status
cpu_tune_lorenzo(struct cpu_lorenzo *lorenzo, const void *values,
                 const struct cpu_fills *fills, uint64_t *cost_ret)
{
    (void)values, (void)fills;
    lorenzo->dims = 15;
    *cost_ret = UINT64_MAX;
    return TERP_OK;
}
