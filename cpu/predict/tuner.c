#include "cpu/predict/tuner.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "codec/format/base.h"
#include "cpu/entropy/codebooks.h"
#include "cpu/entropy/histogram.h"

/* Rows are sampled whole: with odd distances a few runs more than wanted. */
#define ROWS_CAPACITY (2 * TERP_MAX_NSAMPLES)
_Static_assert(TERP_MAX_NSAMPLES + TERP_MIN_NSAMPLES + 2 * CPU_RUN_NVALUES <
                   ROWS_CAPACITY,
               "sampled runs fit");
_Static_assert(ROWS_CAPACITY <= CPU_COUNT_MAX_NNUMBERS, "and can be counted");
_Static_assert((uint64_t)ROWS_CAPACITY *(24 << TERP_COST_FRACTION_NBITS) <
                   (uint64_t)1 << 32,
               "and their cost is a 32-bit number");

/* What sampled codes cost whose magnitudes, or escapes, were counted. */
static uint64_t
cost_of_counts(const uint32_t counts[TERP_NROWS])
{
    int nrows = TERP_RADIUS;

    while (nrows > 0 && counts[nrows - 1] == 0)
        nrows--;
    /* An escape also stores its value. */
    return terp_cpu_entry_least_cost(counts, nrows) +
           counts[TERP_ROW_ESCAPE] * TERP_ESCAPE_COST;
}

static uint64_t
sample_class(const struct cpu_spline *spline, const struct cpu_class *cls,
             uint16_t *rows)
{
    uint32_t counts[TERP_NSYMBOLS];
    uint64_t nruns = cls->nrows * cls->nruns_per_row;
    uint64_t nvalues = cls->nrows * cls->extent[0];
    uint64_t every = terp_sample_distance(nvalues, nruns);
    uint64_t nsampled =
        spline->stages->sample(cls, &spline->quantizer, every, rows);

    terp_cpu_histogram(rows, nsampled, counts);
    return nsampled == 0
               ? 0
               : terp_scale_cost(cost_of_counts(counts), nvalues, nsampled);
}

/* Of a class that is predicted along `dims`. */
static uint64_t
sample_dims(const struct cpu_spline *spline, int l, unsigned odd, unsigned dims,
            enum terp_spline kind, uint16_t *rows)
{
    struct cpu_class cls;

    return terp_cpu_spline_class(spline, l, odd, dims, kind, &cls)
               ? sample_class(spline, &cls, rows)
               : 0;
}

/* Estimated costs of a level. */
struct level_costs {
    /* Under the cubic spline: [odd][dims]. */
    uint64_t cubic[TERP_NCLASSES][TERP_NCLASSES];
    /* Of the class of one odd dimension. */
    uint64_t single[TERP_NSPLINES][TERP_NDIMS];
};

static void
sample_level(const struct cpu_spline *spline, int l, uint16_t *rows,
             struct level_costs *costs)
{
    memset(costs, 0, sizeof *costs);
    for (unsigned odd = 1; odd < TERP_NCLASSES; odd++)
        for (unsigned dims = odd; dims > 0; dims = (dims - 1) & odd)
            costs->cubic[odd][dims] =
                sample_dims(spline, l, odd, dims, TERP_SPLINE_CUBIC, rows);
    for (int d = 0; d < TERP_NDIMS; d++) {
        costs->single[TERP_SPLINE_CUBIC][d] = costs->cubic[1u << d][1u << d];
        for (unsigned kind = 1; kind < TERP_NSPLINES; kind++)
            costs->single[kind][d] = sample_dims(spline, l, 1u << d, 1u << d,
                                                 (enum terp_spline)kind, rows);
    }
}

/* Of classes of one odd dimension that is among `dims`. */
static uint64_t
cost_of_singles(const struct level_costs *costs, unsigned kind, unsigned dims)
{
    uint64_t cost = 0;

    for (int d = 0; d < TERP_NDIMS; d++)
        cost += dims >> d & 1 ? costs->single[kind][d] : 0;
    return cost;
}

/* Chooses who predicts under the cubic spline, then the spline. */
static uint64_t
plan_averages(const struct terp_level *level, const struct level_costs *costs,
              struct cpu_level_plan *plan)
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
    for (unsigned kind = 1; kind < TERP_NSPLINES; kind++) {
        uint64_t cost = 0;
        for (unsigned odd = 1; odd < TERP_NCLASSES; odd++) {
            unsigned dims = terp_predicting_dims(odd, plan->priorities);
            cost += terp_cost_under_spline(
                costs->cubic[odd][dims], cost_of_singles(costs, kind, dims),
                cost_of_singles(costs, TERP_SPLINE_CUBIC, dims));
        }
        if (cost < best) {
            best = cost;
            plan->spline = (uint8_t)kind;
        }
    }
    return best;
}

/* The same, or blending, with the spline that is best for what is left. Few
 * points of blended classes are: these are sampled under the linear one. */
static uint64_t
plan_level(const struct cpu_spline *spline, int l, uint16_t *rows,
           struct cpu_level_plan *plan)
{
    const struct terp_level *level = &spline->layout->level[l];
    struct level_costs costs;
    struct cpu_level_plan blended = {.spline = TERP_SPLINE_LINEAR};
    uint64_t best, least = UINT64_MAX, nvalues = spline->layout->nbricks;
    unsigned left = TERP_SPLINE_CUBIC;

    sample_level(spline, l, rows, &costs);
    best = plan_averages(level, &costs, plan);
    for (int d = 0; d < TERP_NDIMS; d++)
        nvalues *= level->neven[d] + level->nodd[d];
    if (nvalues <= TERP_BLEND_MIN_NVALUES)
        return best;
    for (unsigned kind = 0; kind < TERP_NSPLINES; kind++) {
        uint64_t cost = cost_of_singles(&costs, kind, TERP_NCLASSES - 1);
        if (cost < least) {
            least = cost;
            left = kind;
        }
    }
    for (int order = 2; order <= 3; order++) {
        uint64_t cost = least + costs.cubic[15][15];
        struct cpu_class cls;
        bool any = false;
        blended.priorities = order == 2 ? TERP_BLEND_PAIRS : TERP_BLEND_FULL;
        for (unsigned odd = 1; odd < TERP_NCLASSES; odd++) {
            if (!terp_cpu_spline_planned_class(spline, l, odd, &blended,
                                               &cls) ||
                cls.blend_order == 1)
                continue;
            cost += sample_class(spline, &cls, rows);
            any = true;
        }
        if (any && cost < best) {
            best = cost;
            *plan = blended;
            plan->spline = (uint8_t)left;
        }
    }
    return best;
}

/* Levels, each of which is planned on its own. */
struct planning {
    struct cpu_spline *spline;
    uint16_t *rows; /* ROWS_CAPACITY a member of the team */
    atomic_int next;
    uint64_t cost[TERP_MAX_LEVELS + 1];
};

/* A member takes the next level that nobody has taken. */
static void
plan_levels(void *arg, int id, uint64_t first, uint64_t end)
{
    struct planning *planning = arg;
    struct cpu_spline *spline = planning->spline;
    uint16_t *rows = planning->rows + (uint64_t)id * ROWS_CAPACITY;
    int l;

    (void)first;
    (void)end;
    while ((l = atomic_fetch_add(&planning->next, 1)) <=
           spline->layout->nlevels)
        planning->cost[l] = plan_level(spline, l, rows, &spline->plan[l]);
}

enum terp_status
terp_cpu_tune_spline(struct cpu_spline *spline, uint64_t *cost_ret)
{
    uint64_t nmembers = (uint64_t)terp_cpu_pool_nworkers(spline->team);
    struct planning planning = {.spline = spline, .next = 1};
    int ndims = 0;

    planning.rows = malloc(nmembers * ROWS_CAPACITY * sizeof *planning.rows);
    if (planning.rows == NULL)
        return TERP_ERR_MEMORY;
    terp_cpu_pool_run(spline->team, plan_levels, &planning, nmembers, 1);
    *cost_ret = 0;
    for (int d = 0; d < TERP_NDIMS; d++)
        ndims += spline->layout->dims[d] > 1;
    for (int l = 1; l <= spline->layout->nlevels; l++)
        *cost_ret += planning.cost[l];
    for (int l = 1; l <= spline->layout->nlevels; l++)
        spline->plan[l].ratio = (uint8_t)terp_ratio_of_level(
            l, ndims, *cost_ret, spline->layout->nvalues);
    free(planning.rows);
    return TERP_OK;
}

/* ---- lorenzo ---- */

/* Integers of a stretch of a row and of the rows before it in every
 * combination of the slower dimensions: [2][2][2][n], the row itself last. */
struct stencil {
    uint64_t n;
    uint64_t levels[8 * TERP_LORENZO_NVALUES]; /* room for either type */
    uint64_t differences[8 * TERP_LORENZO_NVALUES];
    uint64_t special[TERP_LORENZO_NVALUES / 64]; /* of the row itself */
    uint16_t symbols[TERP_LORENZO_NVALUES];
    /* Of all stretches, by the dimensions of the differences. */
    uint32_t counts[TERP_NCLASSES][TERP_NROWS];
    uint64_t sums[TERP_NCLASSES];      /* of the codes' magnitudes */
    uint64_t run_costs[TERP_NCLASSES]; /* of runs, on their own */
    uint64_t nsampled;
    uint64_t njoined;
};

static void
fill_stencil(const struct cpu_lorenzo *lorenzo, const void *values,
             const struct cpu_fills *fills, uint64_t row, uint64_t x,
             struct stencil *stencil)
{
    const struct cpu_stages *stages = lorenzo->stages;
    const uint64_t *dims = lorenzo->layout->dims;
    uint64_t value_nbytes = (uint64_t)stages->value_nbytes;
    uint64_t mask[TERP_LORENZO_NVALUES / 64] = {0};

    for (unsigned corner = 0; corner < 8; corner++) {
        uint64_t before = 0, stride = 1, left = row;
        uint8_t *levels =
            (uint8_t *)stencil->levels + corner * stencil->n * value_nbytes;
        bool exists = true;
        for (int d = 1; d < TERP_NDIMS; d++) {
            if (!(corner >> (d - 1) & 1)) {
                before += stride;
                exists &= left % dims[d] > 0;
            }
            left /= dims[d];
            stride *= dims[d];
        }
        if (!exists) {
            memset(levels, 0, stencil->n * value_nbytes);
            continue;
        }
        const uint8_t *from = (const uint8_t *)values +
                              ((row - before) * dims[0] + x) * value_nbytes;
        memset(mask, 0, sizeof mask);
        if (lorenzo->quantizer.has_specials)
            stages->mask(from, 0, stencil->n, fills, mask);
        uint64_t njoined = stages->prequantize(
            from, stencil->n, &lorenzo->quantizer, mask, levels);
        /* In truth the last one before along each dimension in turn. */
        stages->repeat(levels, mask, 1, stencil->n, 1);
        if (corner == 7) {
            stencil->njoined += njoined;
            memcpy(stencil->special, mask, sizeof mask);
        }
    }
}

/* Values [first, end) of the stretch. */
static void
count_run(uint64_t first, uint64_t end, unsigned dims, struct stencil *stencil)
{
    uint32_t sum = 0, n = 0;

    /* The first has nothing before it here, but has in the chunk. */
    for (uint64_t i = first == 0 ? 1 : first; i < end; i++) {
        if (stencil->special[i / 64] >> i % 64 & 1)
            continue; /* which costs nothing */
        int code = stencil->symbols[i] - TERP_RADIUS;
        uint32_t row = (uint32_t)(code < 0 ? -code : code);
        stencil->counts[dims][row]++;
        sum += row;
        n++;
    }
    stencil->sums[dims] += sum;
    stencil->run_costs[dims] += terp_cost_of_run(sum, n);
}

static void
count_differences(const struct cpu_lorenzo *lorenzo, unsigned dims,
                  struct stencil *stencil)
{
    const struct cpu_stages *stages = lorenzo->stages;
    uint64_t n = stencil->n;
    uint64_t row_nbytes = n * (uint64_t)stages->value_nbytes;
    uint8_t *last = (uint8_t *)stencil->differences + 7 * row_nbytes;

    memcpy(stencil->differences, stencil->levels, 8 * row_nbytes);
    for (int d = 1; d < TERP_NDIMS; d++)
        if (dims >> d & 1)
            stages->difference(stencil->differences, 4u >> (d - 1), 2,
                               n << (d - 1));
    if (dims & 1)
        stages->difference(last, 1, n, 1);
    stages->symbols_of(last, n, lorenzo->quantizer.max_code, stencil->symbols);
    for (uint64_t first = 0; first < n; first += TERP_LORENZO_RUN_NVALUES)
        count_run(first, min_u64(n, first + TERP_LORENZO_RUN_NVALUES), dims,
                  stencil);
}

/* Stretches of rows that are sampled. */
struct sampling {
    const struct cpu_lorenzo *lorenzo;
    const void *values;
    const struct cpu_fills *fills;
    unsigned active; /* dimensions */
    uint64_t every;
    struct stencil *stencils; /* a member of the team each */
};

static void
sample_stretches(void *arg, int id, uint64_t first, uint64_t end)
{
    const struct sampling *sampling = arg;
    const uint64_t *all = sampling->lorenzo->layout->dims;
    struct stencil *stencil = &sampling->stencils[id];
    uint64_t per_row = div_up(all[0], TERP_LORENZO_NVALUES);

    for (uint64_t k = first; k < end; k++) {
        uint64_t i = sampling->every / 2 + k * sampling->every;
        uint64_t x = i % per_row * TERP_LORENZO_NVALUES;
        stencil->n = min_u64(TERP_LORENZO_NVALUES, all[0] - x);
        fill_stencil(sampling->lorenzo, sampling->values, sampling->fills,
                     i / per_row, x, stencil);
        for (unsigned dims = 0; dims <= sampling->active; dims++)
            if ((dims & ~sampling->active) == 0)
                count_differences(sampling->lorenzo, dims, stencil);
        stencil->nsampled += stencil->n - 1;
    }
}

/* What all members counted, in the first one's stencil. */
static void
add_stencils(struct stencil *stencils, int nmembers)
{
    for (int id = 1; id < nmembers; id++) {
        for (int dims = 0; dims < TERP_NCLASSES; dims++) {
            for (int row = 0; row < TERP_NROWS; row++)
                stencils[0].counts[dims][row] += stencils[id].counts[dims][row];
            stencils[0].sums[dims] += stencils[id].sums[dims];
            stencils[0].run_costs[dims] += stencils[id].run_costs[dims];
        }
        stencils[0].nsampled += stencils[id].nsampled;
        stencils[0].njoined += stencils[id].njoined;
    }
}

/* What the samples cost of differences along `dims`, told apart in runs or
 * all alike. */
static uint64_t
cost_of_differences(const struct terp_layout *layout,
                    const struct stencil *stencil, unsigned dims, bool in_runs)
{
    uint64_t cost = cost_of_counts(stencil->counts[dims]), n = 0;

    for (int row = 0; row < TERP_NROWS; row++)
        n += stencil->counts[dims][row];
    if (in_runs)
        cost = terp_cost_in_runs(cost, stencil->run_costs[dims],
                                 terp_cost_of_sum(stencil->sums[dims], n));
    cost += stencil->njoined * TERP_UNPREDICTABLE_COST;
    return terp_scale_cost(cost, layout->nvalues, stencil->nsampled);
}

enum terp_status
terp_cpu_tune_lorenzo(struct cpu_lorenzo *lorenzo, const void *values,
                      const struct cpu_fills *fills, uint64_t *cost_ret)
{
    const struct terp_layout *layout = lorenzo->layout;
    int nmembers = terp_cpu_pool_nworkers(lorenzo->team);
    struct stencil *stencil = calloc((size_t)nmembers, sizeof *stencil);
    struct sampling sampling = {.lorenzo = lorenzo,
                                .values = values,
                                .fills = fills,
                                .stencils = stencil};
    unsigned active = 0;

    if (stencil == NULL)
        return TERP_ERR_MEMORY;
    for (int d = 0; d < TERP_NDIMS; d++)
        active |= (unsigned)(layout->dims[d] > 1) << d;
    uint64_t nstretches = layout->nvalues / layout->dims[0] *
                          div_up(layout->dims[0], TERP_LORENZO_NVALUES);
    sampling.active = active;
    sampling.every = terp_lorenzo_distance(layout->nvalues);
    uint64_t skipped = sampling.every / 2;
    if (nstretches > skipped)
        terp_cpu_pool_run(lorenzo->team, sample_stretches, &sampling,
                          div_up(nstretches - skipped, sampling.every), 8);
    add_stencils(stencil, nmembers);
    *cost_ret = UINT64_MAX;
    lorenzo->dims = active;
    /* Ties go to the larger set. */
    for (unsigned dims = active + 1; stencil->nsampled > 0 && dims-- > 0;) {
        if ((dims & ~active) != 0)
            continue;
        uint64_t cost = cost_of_differences(layout, stencil, dims, false);
        if (cost < *cost_ret) {
            *cost_ret = cost;
            lorenzo->dims = dims;
        }
    }
    if (stencil->nsampled > 0 && terp_lorenzo_has_runs(layout->dims[0]))
        *cost_ret = cost_of_differences(layout, stencil, lorenzo->dims, true);
    free(stencil);
    return TERP_OK;
}
