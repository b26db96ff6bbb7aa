/* Chooses the step of the lossless prediction, the dimensions of its
 * differences and their orders, by estimates on samples. */
#include "codec/format/base.h"
#include "codec/format/sections.h"
#include "cpu/predict/predictor.h"

/* The chunk, and memory for its samples. */
struct tuning {
    const struct cpu_prediction *lossless;
    bool is_sparse;
    void *scratch;
};

static void
weigh(const struct tuning *tuning, const struct cpu_lossless *model,
      uint64_t nwanted, struct cpu_order_weights *weights)
{
    const struct cpu_prediction *lossless = tuning->lossless;
    const uint64_t nruns = terp_lossless_nruns(nwanted, tuning->is_sparse);

    memset(weights, 0, sizeof *weights);
    for (uint64_t i = 0; i < nruns; i++) {
        const struct terp_lossless_run run =
            terp_lossless_run_at(lossless->layout, i, nruns);
        lossless->stages->weigh_orders(lossless->values, lossless->layout,
                                       lossless->fills, model, &run,
                                       tuning->scratch, weights);
    }
}

static uint64_t
cost_of(const struct tuning *tuning, const struct cpu_lossless *model,
        uint64_t nwanted)
{
    const struct cpu_prediction *lossless = tuning->lossless;
    const uint64_t nruns = terp_lossless_nruns(nwanted, tuning->is_sparse);
    uint64_t cost = 0;

    for (uint64_t i = 0; i < nruns; i++) {
        const struct terp_lossless_run run =
            terp_lossless_run_at(lossless->layout, i, nruns);
        cost += lossless->stages->cost_of_run(lossless->values,
                                              lossless->layout, lossless->fills,
                                              model, &run, tuning->scratch);
    }
    return cost;
}

/* terp_lossless_add_border along all dimensions. */
static void
count_borders(const struct terp_layout *layout,
              struct cpu_order_weights *weights)
{
    for (int d = 0, step = 1; d < TERP_NDIMS; d++, step *= 3)
        for (int order = 0; order < TERP_LOSSLESS_NORDERS; order++)
            if (order / step % 3 == 0)
                terp_lossless_add_border(layout->dims[d], step,
                                         &weights->nbits[order]);
}

/* Chooses the order whose differences take the fewest bits; ties go to the
 * lower order. Also returns by how much the bits exceed those of the samples,
 * since borders are counted too. */
static unsigned
choose_dims(const struct terp_layout *layout,
            const struct cpu_order_weights *weights, uint64_t *more_nbits_ret)
{
    struct cpu_order_weights all = *weights;
    uint64_t least = UINT64_MAX;
    unsigned best = 0, dims;

    count_borders(layout, &all);
    for (int order = 0; order < TERP_LOSSLESS_NORDERS; order++)
        if (terp_lossless_dims_of(layout, order, &dims) &&
            all.nbits[order] < least) {
            least = all.nbits[order];
            best = dims;
            *more_nbits_ret = least > weights->nbits[order]
                                  ? least - weights->nbits[order]
                                  : 0;
        }
    return best;
}

/* Applies terp_lossless_drops_center. */
static void
drop_center(const struct tuning *tuning,
            const struct cpu_order_weights *weights, struct cpu_lossless *model)
{
    struct cpu_order_weights of_zero;
    struct cpu_lossless without = *model;

    without.center = 0;
    if (model->dims == 0 || model->center == 0)
        return;
    weigh(tuning, &without, TERP_LOSSLESS_MANY_NRUNS, &of_zero);
    if (terp_lossless_drops_center(model->dims, weights->nbits[0],
                                   of_zero.nbits[0], weights->nsampled,
                                   tuning->is_sparse))
        model->center = 0;
}

/* Finds the cheapest model: its step, center and dimensions. Some steps have an
 * integer only for values on a grid, or for values that end in zeros. They are
 * tried only if `may_need_check`. */
static void
choose_step(const struct tuning *tuning, bool may_need_check,
            struct cpu_lossless *best)
{
    const struct cpu_prediction *lossless = tuning->lossless;
    struct cpu_order_weights weights;
    uint64_t least = UINT64_MAX, more_nbits = 0;

    for (int i = 0; i < lossless->nsteps; i++) {
        const struct terp_lossless_step *step = &lossless->steps[i];
        struct cpu_lossless model = {step->exact, step->form, 0, 0};
        if (!may_need_check &&
            terp_lossless_needs_check(step, lossless->stages->value_nbytes))
            continue;
        model.center = lossless->stages->center(
            lossless->values, lossless->layout->nvalues, lossless->fills,
            &model, tuning->scratch);
        weigh(tuning, &model, TERP_LOSSLESS_FEW_NRUNS, &weights);
        model.dims = choose_dims(lossless->layout, &weights, &more_nbits);
        const uint64_t cost =
            cost_of(tuning, &model, TERP_LOSSLESS_FEW_NRUNS) + 16 * more_nbits;
        if (cost < least) {
            least = cost;
            *best = model;
        }
    }
}

static void
tune(const struct tuning *tuning, struct cpu_lossless *best,
     struct terp_price *price_ret)
{
    const struct cpu_prediction *lossless = tuning->lossless;
    const uint64_t nvalues = lossless->layout->nvalues;
    struct cpu_order_weights weights;
    uint64_t more_nbits = 0;

    choose_step(tuning, true, best);
    if (lossless->stages->count_unpredictable(lossless->values, nvalues,
                                              lossless->fills, best) >
        terp_lossless_max_unpredictable(nvalues, lossless->nspecials))
        choose_step(tuning, false, best);
    weigh(tuning, best, TERP_LOSSLESS_MANY_NRUNS, &weights);
    best->dims = choose_dims(lossless->layout, &weights, &more_nbits);
    const uint64_t cost =
        cost_of(tuning, best, TERP_LOSSLESS_MANY_NRUNS) + 16 * more_nbits;
    drop_center(tuning, &weights, best);
    *price_ret = (struct terp_price){
        terp_lossless_cost_of_samples(cost, weights.nsampled,
                                      nvalues - lossless->nspecials),
        0};
}

enum terp_status
terp_cpu_lossless_tune(struct cpu_prediction *lossless,
                       struct terp_price *price_ret)
{
    const struct tuning tuning = {
        lossless,
        terp_lossless_is_sparse(lossless->layout->nvalues, lossless->nspecials,
                                lossless->has_markers),
        terp_cpu_memory_make(lossless->pool, CPU_LOSSLESS_SCRATCH_NBYTES)};

    if (tuning.scratch == NULL)
        return TERP_ERR_MEMORY;
    tune(&tuning, &lossless->lossless, price_ret);
    terp_cpu_memory_free(lossless->pool, tuning.scratch);
    return TERP_OK;
}
