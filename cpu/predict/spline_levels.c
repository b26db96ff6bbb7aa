/* The levels of the spline predictor: their classes, and moving values between
 * C order and level order. */
#include "cpu/predict/spline.h"

#include <string.h>

#include "codec/format/base.h"
#include "cpu/entropy/rows.h"

/* Fewer values than this are not worth waking the pool for. */
#define MIN_NVALUES_SHARED 16384

uint64_t
terp_cpu_spline_min_nitems(uint64_t nvalues_per_item)
{
    return MIN_NVALUES_SHARED / (nvalues_per_item + 1) + 2;
}

static void *
value_at(const struct cpu_prediction *spline, void *base, uint64_t at)
{
    return (uint8_t *)base + at * (uint64_t)spline->stages->value_nbytes;
}

void *
terp_cpu_spline_class_values(const struct cpu_prediction *spline, int l,
                             unsigned odd)
{
    const struct terp_level *level = &spline->layout->level[l];
    return odd == 0 ? value_at(spline, spline->lattice, level->lattice_at)
                    : value_at(spline, spline->work, level->class_at[odd]);
}

bool
terp_cpu_spline_class(const struct cpu_prediction *spline, int l, unsigned odd,
                      unsigned predicting, enum terp_spline kind,
                      struct cpu_class *cls_ret)
{
    const struct terp_level *level = &spline->layout->level[l];

    memset(cls_ret, 0, sizeof *cls_ret);
    cls_ret->predicting = predicting;
    cls_ret->spline = kind;
    for (int d = 0; d < TERP_NDIMS; d++)
        cls_ret->extent[d] = terp_class_extent(level, odd, d);
    cls_ret->nrows = terp_class_nrows(spline->layout, l, odd);
    cls_ret->nruns_per_row = div_up(cls_ret->extent[0], CPU_RUN_NVALUES);
    if (cls_ret->nrows == 0 || cls_ret->extent[0] == 0)
        return false;
    cls_ret->values = terp_cpu_spline_class_values(spline, l, odd);
    if (spline->before != NULL)
        cls_ret->before =
            (const uint8_t *)spline->before +
            level->class_at[odd] * (uint64_t)spline->stages->value_nbytes;
    cls_ret->symbols =
        spline->symbols == NULL ? NULL : spline->symbols + level->class_at[odd];
    cls_ret->blend_order = 1;
    for (unsigned lack = predicting; lack > 0; lack = (lack - 1) & predicting) {
        const unsigned source = odd & ~lack;
        uint64_t extent[TERP_NDIMS];
        for (int d = 0; d < TERP_NDIMS; d++)
            extent[d] = terp_class_extent(level, source, d);
        cpu_set_source(cls_ret, lack,
                       terp_cpu_spline_class_values(spline, l, source), extent);
    }
    return true;
}

bool
terp_cpu_spline_planned_class(const struct cpu_prediction *spline, int l,
                              unsigned odd, const struct terp_level_plan *plan,
                              struct cpu_class *cls_ret)
{
    int nodd_dims = __builtin_popcount(odd);

    if (!terp_cpu_spline_class(spline, l, odd,
                               terp_predicting_dims(odd, plan->priorities),
                               (enum terp_spline)plan->spline, cls_ret))
        return false;
    if (nodd_dims == 2 || nodd_dims == 3)
        cls_ret->blend_order = terp_blend_order(plan->priorities);
    return true;
}

struct cpu_quantizer
terp_cpu_spline_quantizer(const struct cpu_prediction *spline, int l)
{
    struct cpu_quantizer quantizer = spline->quantizer;
    quantizer.step *= terp_bound_factor(&spline->plan[l]);
    return quantizer;
}

/* ---- between C order and level order ---- */

struct transfer {
    const struct cpu_prediction *spline;
    int l;
    const struct cpu_fills *fills;
    void *fine;      /* all points of this level's lattice, in C order */
    bool interleave; /* else deinterleave */
    uint64_t fine_extent[TERP_NDIMS];
    uint64_t nruns_per_row;
    /* The rows of each combination of slower odd dimensions: the arrays of
     * their even and odd points, and the strides from row to row. */
    struct {
        void *even, *odd;
        uint64_t stride[TERP_NDIMS + 1]; /* the last stride is that of bricks */
    } rows[TERP_NCLASSES / 2];
};

static void
find_rows(struct transfer *t)
{
    const struct terp_level *level = &t->spline->layout->level[t->l];

    for (unsigned odd = 0; odd < TERP_NCLASSES; odd += 2) {
        uint64_t *stride = t->rows[odd / 2].stride;
        t->rows[odd / 2].even =
            terp_cpu_spline_class_values(t->spline, t->l, odd);
        t->rows[odd / 2].odd =
            terp_cpu_spline_class_values(t->spline, t->l, odd | 1);
        stride[1] = 1;
        for (int d = 1; d < TERP_NDIMS; d++)
            stride[d + 1] = stride[d] * terp_class_extent(level, odd, d);
    }
}

/* Moves runs of 2 * CPU_RUN_NVALUES lattice points. */
static void
transfer_runs(void *arg, struct cpu_share share)
{
    const struct transfer *t = arg;
    const struct cpu_prediction *spline = t->spline;
    const struct terp_level *level = &spline->layout->level[t->l];

    uint64_t row = share.first / t->nruns_per_row;
    uint64_t run = share.first % t->nruns_per_row;
    uint64_t at[TERP_NDIMS], brick = cpu_find_row(t->fine_extent, row, at);

    for (uint64_t i = share.first; i < share.end; i++) {
        uint64_t x = run * CPU_RUN_NVALUES;
        unsigned odd = 0;
        for (int d = 1; d < TERP_NDIMS; d++)
            odd |= (unsigned)(at[d] & 1) << (d - 1);
        const uint64_t *stride = t->rows[odd].stride;
        uint64_t class_row = brick * stride[TERP_NDIMS];
        for (int d = 1; d < TERP_NDIMS; d++)
            class_row += at[d] / 2 * stride[d];
        uint64_t n = min_u64(2 * CPU_RUN_NVALUES, t->fine_extent[0] - 2 * x);
        void *fine = value_at(spline, t->fine, row * t->fine_extent[0] + 2 * x);
        void *even = value_at(spline, t->rows[odd].even,
                              class_row * level->neven[0] + x);
        void *odds =
            value_at(spline, t->rows[odd].odd, class_row * level->nodd[0] + x);
        if (t->interleave)
            spline->stages->interleave(even, odds, n, fine);
        else
            spline->stages->deinterleave(fine, n, t->fills, even, odds);
        if (++run < t->nruns_per_row)
            continue;
        run = 0;
        row++;
        brick += cpu_next_row(t->fine_extent, at);
    }
}

static void
transfer_level(const struct cpu_prediction *spline, int l, void *fine,
               const struct cpu_fills *fills, bool interleave)
{
    const struct terp_level *level = &spline->layout->level[l];
    struct transfer t = {.spline = spline,
                         .l = l,
                         .fills = fills,
                         .fine = fine,
                         .interleave = interleave};
    uint64_t nrows = spline->layout->nbricks;

    for (int d = 0; d < TERP_NDIMS; d++) {
        t.fine_extent[d] = level->neven[d] + level->nodd[d];
        if (d > 0)
            nrows *= t.fine_extent[d];
    }
    t.nruns_per_row = div_up(t.fine_extent[0], 2 * CPU_RUN_NVALUES);
    find_rows(&t);
    terp_cpu_pool_run(spline->pool, transfer_runs, &t, nrows * t.nruns_per_row,
                      terp_cpu_spline_min_nitems(
                          min_u64(t.fine_extent[0], 2 * CPU_RUN_NVALUES)));
}

void
terp_cpu_spline_interleave(const struct cpu_prediction *spline, int l,
                           void *fine)
{
    transfer_level(spline, l, fine, NULL, true);
}

void
terp_cpu_spline_deinterleave(struct cpu_prediction *spline)
{
    int nlevels = spline->layout->nlevels;
    void *fine = (void *)spline->values; /* only read */

    for (int l = 1; l <= nlevels; l++) {
        transfer_level(spline, l, fine, l == 1 ? spline->fills : NULL, false);
        fine = terp_cpu_spline_class_values(spline, l, 0);
    }
    /* Without a level, too, special anchors must become NaN: moves values one
     * by one. */
    for (uint64_t i = 0; i < spline->layout->nbricks; i++) {
        void *anchor = value_at(spline, spline->work, i);
        void *value = value_at(spline, fine, i);
        spline->stages->deinterleave(
            value, 1, nlevels == 0 ? spline->fills : NULL, anchor, anchor);
    }
}
