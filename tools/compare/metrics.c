/* terp compare --metrics: reads a pair of datasets twice in blocks, first for
 * means, extremes and ranges, then for metrics that depend on them. */
#include "tools/compare/metrics.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "codec/format/base.h"
#include "tools/compare/metrics_sums.h"

/* Side of a block in one, two or three dimensions. A block of 65536 to 2
 * million values bounds memory; longer sides resolve longer waves in the
 * spectrum. */
static const uint64_t max_side[METRICS_NDIMS] = {65536, 1024, 128};

struct measure {
    const struct compare_result *result;
    struct compare_metrics *metrics;
    struct compare_walk walk;
    struct tool_grid grid;   /* grid of blocks */
    int axes[METRICS_NDIMS]; /* -1: a leading dimension of length 1 */
    uint64_t shape[METRICS_NDIMS], cap[METRICS_NDIMS]; /* of blocks, and of
                                                          blocks with
                                                          neighbours */
    struct metrics_block block;

    double errors, squares, scatter; /* sums over valid values */
    double shifted_a, scatter_a, scatter_b, scatter_both;
    struct metrics_near_sum near[METRICS_NDIMS];
    struct metrics_ssim ssim;
    struct metrics_fourier *fourier;
};

static uint64_t
length_of(const struct measure *measure, int dim)
{
    return measure->axes[dim] < 0 ? 1 : measure->grid.dims[measure->axes[dim]];
}

/* Chooses the last dimensions longer than 1 and cuts them into blocks of equal
 * length; the last block of a dimension may be shorter. */
static void
plan(struct measure *measure, const struct tool_dataset *a)
{
    struct compare_metrics *metrics = measure->metrics;
    hsize_t step[H5S_MAX_RANK];

    measure->axes[0] = measure->axes[1] = measure->axes[2] = -1;
    for (int i = a->rank - 1; i >= 0; i--) {
        step[i] = 1;
        if (a->dims[i] > 1 && metrics->ndims < METRICS_NDIMS)
            measure->axes[METRICS_NDIMS - ++metrics->ndims] = i;
    }
    measure->grid = tool_grid_of(a, step);
    for (int i = 0; i < METRICS_NDIMS; i++) {
        const uint64_t n = length_of(measure, i);
        const uint64_t side =
            max_side[metrics->ndims > 0 ? metrics->ndims - 1 : 0];
        measure->shape[i] = n / div_up(n, side);
        measure->cap[i] = min_u64(n, measure->shape[i] + METRICS_HALO);
        if (measure->axes[i] >= 0)
            measure->grid.step[measure->axes[i]] = measure->shape[i];
    }
    for (int i = 0; i < metrics->ndims; i++) {
        const int dim = METRICS_NDIMS - metrics->ndims + i;
        metrics->dims[i].axis = measure->axes[dim];
        metrics->dims[i].block = measure->shape[dim];
        metrics->dims[i].nlags =
            (int)min_u64(METRICS_NLAGS, length_of(measure, dim) - 1);
    }
}

static bool
open_sums(struct measure *measure, const struct tool_dataset *a,
          const struct tool_dataset *b)
{
    struct metrics_block *block = &measure->block;
    const uint64_t nvalues =
        measure->cap[0] * measure->cap[1] * measure->cap[2];
    const uint64_t slice = length_of(measure, 1) * length_of(measure, 2);

    block->a = malloc(nvalues * sizeof *block->a);
    block->b = malloc(nvalues * sizeof *block->b);
    block->errors = malloc(nvalues * sizeof *block->errors);
    measure->fourier = metrics_fourier_open(measure->shape);
    return compare_walk_open_boxes(&measure->walk, a, b, nvalues) &&
           metrics_ssim_open(&measure->ssim, a->nvalues / slice,
                             length_of(measure, 1), length_of(measure, 2),
                             measure->cap[2]) &&
           block->a != NULL && block->b != NULL && block->errors != NULL &&
           measure->fourier != NULL;
}

static void
close_sums(struct measure *measure)
{
    compare_walk_close(&measure->walk);
    metrics_ssim_free(&measure->ssim);
    metrics_fourier_free(measure->fourier);
    free(measure->block.a);
    free(measure->block.b);
    free(measure->block.errors);
}

/* Number of the 2-D slice where the grid's box starts. */
static uint64_t
first_slice(const struct measure *measure)
{
    uint64_t slice = 0;

    for (int i = 0; i < measure->grid.rank; i++)
        if (i != measure->axes[1] && i != measure->axes[2])
            slice = slice * measure->grid.dims[i] + measure->grid.at[i];
    return slice;
}

static void
take_values(struct measure *measure)
{
    const struct compare_result *result = measure->result;
    struct metrics_block *block = &measure->block;

    block->whole = true;
    for (uint64_t i = 0; i < measure->walk.grid.nvalues; i++) {
        double a, b;
        bool changed;
        const bool valid =
            compare_walk_value(&measure->walk, i, &a, &b, &changed) &&
            a >= result->min && a <= result->max && isfinite(b);
        block->a[i] = valid ? a : (double)NAN;
        block->b[i] = valid ? b : (double)NAN;
        block->errors[i] = valid ? b - a : 0;
        block->whole &= valid;
    }
}

/* Reads the next block with its neighbours. False after the last one, or where
 * the walk has trouble. */
static bool
read_next(struct measure *measure)
{
    struct metrics_block *block = &measure->block;
    struct tool_grid box;

    if (!tool_grid_next(&measure->grid))
        return false;
    box = measure->grid;
    for (int i = 0; i < METRICS_NDIMS; i++) {
        const int axis = measure->axes[i];
        block->core[i] = axis < 0 ? 1 : box.count[axis];
        if (axis >= 0)
            box.count[axis] = min_u64(box.count[axis] + METRICS_HALO,
                                      box.dims[axis] - box.at[axis]);
        block->count[i] = axis < 0 ? 1 : box.count[axis];
    }
    block->stride[2] = 1;
    block->stride[1] = block->count[2];
    block->stride[0] = block->count[1] * block->count[2];
    block->first_slice = first_slice(measure);
    if (!compare_walk_box(&measure->walk, &box))
        return false;
    take_values(measure);
    return true;
}

/* Number in the dataset of value `i` of the block's arrays. */
static uint64_t
index_of(const struct measure *measure, uint64_t i)
{
    const struct tool_grid *box = &measure->walk.grid;
    uint64_t index = 0, nvalues = box->nvalues;

    for (int k = 0; k < box->rank; k++) {
        nvalues /= box->count[k];
        index = index * box->dims[k] + box->at[k] + i / nvalues;
        i %= nvalues;
    }
    return index;
}

/* `sign` is 1 for a maximum, -1 for a minimum. */
static void
meet(const struct measure *measure, struct metrics_extreme *extreme,
     double value, uint64_t i, double sign)
{
    if (sign * value < sign * extreme->value)
        return;
    const uint64_t index = index_of(measure, i);
    if (value != extreme->value || index < extreme->index)
        *extreme = (struct metrics_extreme){value, index};
}

/* Adds up rows first: the numbers in a sum then have similar size, and rounding
 * loses less. */
static void
add_row_first(struct measure *measure, uint64_t row)
{
    const struct metrics_block *block = &measure->block;
    struct compare_metrics *metrics = measure->metrics;
    double errors = 0, squares = 0, shifted = 0;

    for (uint64_t i = row; i < row + block->core[2]; i++) {
        const double a = block->a[i], b = block->b[i];
        if (isnan(a))
            continue;
        errors += block->errors[i];
        squares += block->errors[i] * block->errors[i];
        shifted += a - measure->result->min;
        metrics->nvalues++;
        meet(measure, &metrics->min_a, a, i, -1);
        meet(measure, &metrics->max_a, a, i, 1);
        meet(measure, &metrics->min_b, b, i, -1);
        meet(measure, &metrics->max_b, b, i, 1);
    }
    measure->errors += errors;
    measure->squares += squares;
    measure->shifted_a += shifted;
}

static void
add_row_second(struct measure *measure, uint64_t row)
{
    const struct metrics_block *block = &measure->block;
    const struct compare_metrics *metrics = measure->metrics;
    double scatter = 0, of_a = 0, of_b = 0, of_both = 0;

    for (uint64_t i = row; i < row + block->core[2]; i++) {
        const double a = block->a[i] - metrics->mean_a;
        const double b = block->b[i] - metrics->mean_b;
        if (isnan(a))
            continue;
        scatter += block->errors[i] * block->errors[i];
        of_a += a * a;
        of_b += b * b;
        of_both += a * b;
    }
    measure->scatter += scatter;
    measure->scatter_a += of_a;
    measure->scatter_b += of_b;
    measure->scatter_both += of_both;
}

static void
add_rows(struct measure *measure,
         void (*add_row)(struct measure *measure, uint64_t row))
{
    for (uint64_t z = 0; z < measure->block.core[0]; z++)
        for (uint64_t y = 0; y < measure->block.core[1]; y++)
            add_row(measure, metrics_row(&measure->block, z, y));
}

static void
go_first(struct measure *measure)
{
    while (read_next(measure)) {
        add_rows(measure, add_row_first);
        metrics_ssim_range(&measure->ssim, &measure->block);
    }
}

static void
set_means(const struct measure *measure)
{
    struct compare_metrics *metrics = measure->metrics;
    const double nvalues = (double)metrics->nvalues;

    metrics->rmse = sqrt(measure->squares / nvalues);
    metrics->drift = measure->errors / nvalues;
    metrics->mean_a = measure->result->min + measure->shifted_a / nvalues;
    metrics->mean_b = metrics->mean_a + metrics->drift;
}

static void
take_mean(struct measure *measure)
{
    const struct metrics_block *block = &measure->block;

    for (uint64_t i = 0; i < measure->walk.grid.nvalues; i++)
        if (!isnan(block->a[i]))
            block->errors[i] -= measure->metrics->drift;
}

static void
go_second(struct measure *measure)
{
    const struct compare_metrics *metrics = measure->metrics;

    measure->grid.next = 0;
    while (read_next(measure)) {
        metrics_fourier_add(measure->fourier, &measure->block);
        take_mean(measure);
        add_rows(measure, add_row_second);
        metrics_ssim_add(&measure->ssim, &measure->block);
        for (int i = 0; i < metrics->ndims; i++) {
            const int dim = METRICS_NDIMS - metrics->ndims + i;
            metrics_near_gradients(&measure->near[i], &measure->block, dim);
            metrics_near_products(&measure->near[i], &measure->block, dim,
                                  metrics->dims[i].nlags);
        }
    }
}

/* NAN if the divisor is 0. */
static double
quotient(double value, double divisor)
{
    return divisor > 0 ? value / divisor : (double)NAN;
}

static void
set_dim(const struct measure *measure, const struct metrics_near_sum *sum,
        struct metrics_dim *dim)
{
    const double variance =
        measure->scatter / (double)measure->metrics->nvalues;

    dim->gradient_rmse = dim->gradient_max = dim->gradient_of_rms = NAN;
    if (sum->ngradients > 0) {
        dim->gradient_rmse =
            sqrt(sum->gradient_errors / (double)sum->ngradients);
        dim->gradient_max = sum->gradient_max;
        dim->gradient_of_rms =
            sqrt(quotient(sum->gradient_errors, sum->gradients));
    }
    for (int i = 0; i < dim->nlags; i++)
        dim->autocorrelation[i] = quotient(
            quotient(sum->products[i], (double)sum->npairs[i]), variance);
}

static void
set_moments(const struct measure *measure)
{
    struct compare_metrics *metrics = measure->metrics;
    const double deviation =
        sqrt(measure->scatter_a / (double)metrics->nvalues);

    metrics->correlation =
        quotient(measure->scatter_both,
                 sqrt(measure->scatter_a) * sqrt(measure->scatter_b));
    metrics->drift_of_range =
        quotient(metrics->drift, metrics->max_a.value - metrics->min_a.value);
    metrics->drift_of_deviation = quotient(metrics->drift, deviation);
    for (int i = 0; i < metrics->ndims; i++)
        set_dim(measure, &measure->near[i], &metrics->dims[i]);
}

static const char no_memory[] = "not enough memory for its metrics";

/* Returns NULL, or why there are no metrics. */
static const char *
run(struct measure *measure, const struct tool_dataset *a,
    const struct tool_dataset *b)
{
    plan(measure, a);
    if (!open_sums(measure, a, b))
        return no_memory;
    go_first(measure);
    if (measure->walk.trouble == NULL && measure->metrics->nvalues == 0)
        return "B has no finite values where A has some";
    if (measure->walk.trouble == NULL) {
        set_means(measure);
        metrics_fourier_begin(measure->fourier, measure->metrics->mean_a,
                              measure->result->max - measure->result->min,
                              measure->metrics->rmse);
        go_second(measure);
    }
    if (measure->walk.trouble != NULL)
        return measure->walk.trouble;
    set_moments(measure);
    metrics_ssim_end(&measure->ssim, measure->metrics);
    return metrics_fourier_end(measure->fourier, measure->metrics) ? NULL
                                                                   : no_memory;
}

struct compare_metrics *
compare_metrics_measure(const struct tool_dataset *a,
                        const struct tool_dataset *b,
                        const struct compare_result *result, char *reason_ret,
                        size_t reason_cap)
{
    static const struct metrics_extreme low = {INFINITY, UINT64_MAX},
                                        high = {-INFINITY, UINT64_MAX};
    struct compare_metrics *metrics = calloc(1, sizeof *metrics);
    struct measure measure = {
        .result = result, .metrics = metrics, .walk = COMPARE_WALK_NONE};
    const char *trouble = no_memory;

    if (metrics != NULL) {
        metrics->min_a = metrics->min_b = low;
        metrics->max_a = metrics->max_b = high;
        metrics->ssim = metrics->ssim_min = NAN;
        trouble = run(&measure, a, b);
        close_sums(&measure);
    }
    if (trouble == NULL)
        return metrics;
    snprintf(reason_ret, reason_cap, "%s", trouble);
    compare_metrics_free(metrics);
    return NULL;
}

void
compare_metrics_free(struct compare_metrics *metrics)
{
    if (metrics != NULL)
        free(metrics->power);
    free(metrics);
}

void
compare_metrics_coordinates(const struct compare_result *result, uint64_t index,
                            hsize_t *at_ret)
{
    for (int i = result->rank - 1; i >= 0; i--) {
        at_ret[i] = index % result->dims[i];
        index /= result->dims[i];
    }
}
