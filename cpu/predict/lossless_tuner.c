/* What the lossless prediction takes for its step, and along which dimensions
 * it takes differences, and how often, estimated on samples. */
#include "codebooks/codebooks.h"
#include "codec/format/base.h"
#include "codec/format/sections.h"
#include "cpu/predict/predictor.h"

/* Runs of samples for all steps, and for the one that is chosen. */
#define FEW_NRUNS 16
#define MANY_NRUNS 64

/* One value in so many may be special because its integer is not all of it.
 * Beside other special values, whose colors they would use up, a few may. */
#define UNPREDICTABLE_ONE_IN 1024
#define UNPREDICTABLE_MOST (TERP_SPECIALS_MAX_NCOLORS / 2)

/* Bits that a center has to save. */
#define CENTER_MIN_NBITS 4

/* Run i of so many: evenly spread, but for an offset that meets every
 * coordinate, and as far from where lines begin as differences of the second
 * order need, if the chunk is. */
static struct cpu_run
place_run(const struct terp_layout *layout, uint64_t i, uint64_t nruns)
{
    const uint64_t distance = layout->nvalues / nruns + 1;
    uint64_t left = (i * distance + i * 7919 % distance) % layout->nvalues;
    uint64_t stride = 1;
    struct cpu_run run = {0};

    for (int d = 0; d < TERP_NDIMS; d++) {
        const uint64_t extent = layout->dims[d];
        const uint64_t least = min_u64(TERP_LOSSLESS_MAX_ORDER, extent - 1);
        uint64_t c = left % extent;
        if (d == 0 && c + CPU_LOSSLESS_RUN_NVALUES > extent)
            c = extent - min_u64(extent, CPU_LOSSLESS_RUN_NVALUES);
        c = c < least ? least : c;
        run.most[d] = (int)least;
        run.at += c * stride;
        if (d == 0)
            run.n = min_u64(CPU_LOSSLESS_RUN_NVALUES, extent - c);
        stride *= extent;
        left /= extent;
    }
    run.at += left * stride;
    return run;
}

static void
weigh(const struct cpu_prediction *lossless, const struct cpu_lossless *model,
      uint64_t nruns, struct cpu_order_weights *weights)
{
    memset(weights, 0, sizeof *weights);
    for (uint64_t i = 0; i < nruns; i++) {
        const struct cpu_run run = place_run(lossless->layout, i, nruns);
        lossless->stages->weigh_orders(lossless->values, lossless->layout,
                                       lossless->fills, model, &run, weights);
    }
}

static uint64_t
cost_of(const struct cpu_prediction *lossless, const struct cpu_lossless *model,
        uint64_t nruns)
{
    uint64_t cost = 0;

    for (uint64_t i = 0; i < nruns; i++) {
        const struct cpu_run run = place_run(lossless->layout, i, nruns);
        cost += lossless->stages->cost_of_run(
            lossless->values, lossless->layout, lossless->fills, model, &run);
    }
    return cost;
}

/* The byte of dimensions of an order. False where the chunk has none. */
static bool
dims_of_order(const struct terp_layout *layout, int order, unsigned *dims_ret)
{
    int sum = 0;

    *dims_ret = 0;
    for (int d = 0; d < TERP_NDIMS; d++, order /= 3) {
        const int of_dim = order % 3;
        if (of_dim > 0 && (uint64_t)of_dim >= layout->dims[d])
            return false;
        sum += of_dim;
        *dims_ret |= (of_dim > 0 ? 1u << d : 0) |
                     (of_dim > 1 ? 1u << (d + TERP_LOSSLESS_TWICE_SHIFT) : 0);
    }
    return sum <= TERP_LOSSLESS_MAX_SUM;
}

/* Where lines begin differences are of lower orders: a line's first integer is
 * whole, and its second one is the difference from that. Adds this in. */
static void
count_borders(const struct terp_layout *layout,
              struct cpu_order_weights *weights)
{
    for (int d = 0, step = 1; d < TERP_NDIMS; d++, step *= 3) {
        const uint64_t extent = layout->dims[d];
        for (int order = 0; order < CPU_LOSSLESS_NORDERS; order++) {
            uint64_t *nbits = &weights->nbits[order];
            if (order / step % 3 > 0 || extent < 2)
                continue;
            if (extent > 2)
                nbits[2 * step] =
                    (nbits[0] + nbits[step] + (extent - 2) * nbits[2 * step]) /
                    extent;
            nbits[step] = (nbits[0] + (extent - 1) * nbits[step]) / extent;
        }
    }
}

/* The order whose differences are smallest. Ties go to the lower one. Has how
 * many bits more those take than the ones that were sampled. */
static unsigned
choose_dims(const struct terp_layout *layout,
            const struct cpu_order_weights *weights, uint64_t *more_nbits_ret)
{
    struct cpu_order_weights all = *weights;
    uint64_t least = UINT64_MAX;
    unsigned best = 0, dims;

    count_borders(layout, &all);
    for (int order = 0; order < CPU_LOSSLESS_NORDERS; order++)
        if (dims_of_order(layout, order, &dims) && all.nbits[order] < least) {
            least = all.nbits[order];
            best = dims;
            *more_nbits_ret = least > weights->nbits[order]
                                  ? least - weights->nbits[order]
                                  : 0;
        }
    return best;
}

/* Where differences are taken few integers are told from the center: those that
 * lines begin with, which often are smaller than others. It is 0 then, unless
 * that would be far more bits. */
static void
drop_center(const struct cpu_prediction *lossless,
            const struct cpu_order_weights *weights, struct cpu_lossless *model)
{
    struct cpu_order_weights of_zero;
    struct cpu_lossless without = *model;

    without.center = 0;
    if (model->dims == 0 || model->center == 0)
        return;
    weigh(lossless, &without, MANY_NRUNS, &of_zero);
    if (of_zero.nbits[0] <
        weights->nbits[0] + CENTER_MIN_NBITS * weights->nsampled)
        model->center = 0;
}

/* Whether integers are such that not any value has one: samples had a grid, or
 * ended in zeros. */
static bool
asks_for_more(const struct cpu_prediction *lossless,
              const struct terp_lossless_step *step)
{
    return step->exact.nzeros > 0 ||
           (step->form == TERP_LOSSLESS_STEPS &&
            step->exact.exponent !=
                terp_least_exponent(lossless->stages->value_nbytes));
}

/* The step and the dimensions that cost least, of those steps that ask for
 * more or not. */
static void
choose_step(const struct cpu_prediction *lossless, bool may_ask_for_more,
            struct cpu_lossless *best)
{
    struct cpu_order_weights weights;
    uint64_t least = UINT64_MAX, more_nbits = 0;

    for (int i = 0; i < lossless->nsteps; i++) {
        const struct terp_lossless_step *step = &lossless->steps[i];
        struct cpu_lossless model = {step->exact, step->form, 0, 0};
        if (!may_ask_for_more && asks_for_more(lossless, step))
            continue;
        model.center = lossless->stages->center(lossless->values,
                                                lossless->layout->nvalues,
                                                lossless->fills, &model);
        weigh(lossless, &model, FEW_NRUNS, &weights);
        model.dims = choose_dims(lossless->layout, &weights, &more_nbits);
        const uint64_t cost =
            cost_of(lossless, &model, FEW_NRUNS) + 16 * more_nbits;
        if (cost < least) {
            least = cost;
            *best = model;
        }
    }
}

enum terp_status
terp_cpu_lossless_tune(struct cpu_prediction *lossless,
                       struct terp_price *price_ret)
{
    const uint64_t nvalues = lossless->layout->nvalues;
    struct cpu_lossless *best = &lossless->lossless;
    struct cpu_order_weights weights;
    uint64_t more_nbits = 0;

    choose_step(lossless, true, best);
    if (lossless->stages->count_unpredictable(lossless->values, nvalues,
                                              lossless->fills, best) >
        (lossless->nspecials > 0 ? UNPREDICTABLE_MOST
                                 : nvalues / UNPREDICTABLE_ONE_IN))
        choose_step(lossless, false, best);
    weigh(lossless, best, MANY_NRUNS, &weights);
    best->dims = choose_dims(lossless->layout, &weights, &more_nbits);
    const uint64_t cost = cost_of(lossless, best, MANY_NRUNS) + 16 * more_nbits;
    drop_center(lossless, &weights, best);
    *price_ret = (struct terp_price){UINT64_MAX, 0};
    if (weights.nsampled > 0)
        price_ret->cost =
            cost * (nvalues - lossless->nspecials) / weights.nsampled
            << (TERP_COST_FRACTION_NBITS - 4);
    return TERP_OK;
}
