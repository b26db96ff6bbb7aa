/* terp compare --png: reads a slice through the middle of a dataset, and counts
 * the errors of all values. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "codec/format/base.h"
#include "codec/format/types.h"
#include "tools/common/range.h"
#include "tools/compare/plot.h"

/* The slice has the last one or two dimensions longer than 1, and the middle
 * index of the others. */
static void
plan_slice(const struct tool_dataset *dataset, struct plot_data *data,
           struct tool_grid *slice)
{
    int shown[2], nshown = 0;

    slice->rank = dataset->rank;
    for (int i = dataset->rank - 1; i >= 0; i--) {
        slice->at[i] = dataset->dims[i] / 2;
        slice->step[i] = 1;
        slice->count[i] = 1;
        if (dataset->dims[i] > 1 && nshown < 2)
            shown[nshown++] = i;
    }
    data->rank = nshown;
    data->nx = data->ny = 1;
    data->step_x = data->step_y = 1;
    for (int k = 0; k < nshown; k++) {
        int axis = shown[k];
        uint64_t dim = dataset->dims[axis];
        uint64_t step = nshown == 2 ? div_up(dim, PLOT_MAX_SIDE) : 1;
        uint64_t count = min_u64(div_up(dim, step), PLOT_MAX_CURVE);
        slice->at[axis] = nshown == 2 ? 0 : (dim - count) / 2;
        slice->step[axis] = step;
        slice->count[axis] = count;
        *(k == 0 ? &data->nx : &data->ny) = (int)count;
        data->axis_y = axis;
        *(k == 0 ? &data->step_x : &data->step_y) = step;
    }
}

static void
name_slice(const struct tool_dataset *dataset, const struct tool_grid *slice,
           struct plot_data *data)
{
    size_t at = 0, cap = sizeof data->slice;

    for (int i = 0; i < dataset->rank && at < cap; i++) {
        unsigned long long from = slice->at[i];
        char range[64] = "";

        if (slice->count[i] == 1)
            snprintf(range, sizeof range, "%llu", from);
        else if (slice->step[i] > 1)
            snprintf(range, sizeof range, "::%llu",
                     (unsigned long long)slice->step[i]);
        else if (slice->count[i] == dataset->dims[i])
            snprintf(range, sizeof range, ":");
        else
            snprintf(range, sizeof range, "%llu:%llu", from,
                     from + (unsigned long long)slice->count[i]);
        at += (size_t)snprintf(data->slice + at, cap - at, "%s%s%s",
                               i == 0 ? "[" : ", ", range,
                               i == dataset->rank - 1 ? "]" : "");
    }
}

/* Values that PSNR leaves out as fill values are not drawn: they would take the
 * whole colour scale. */
static bool
is_drawn(const struct compare_result *result, double a)
{
    return a >= result->min && a <= result->max;
}

/* Reverses the order of rows. */
static void
turn_rows(const struct plot_data *data, double *values)
{
    const size_t nx = (size_t)data->nx, ny = (size_t)data->ny;

    for (size_t y = 0; y < ny / 2; y++)
        for (size_t x = 0; x < nx; x++) {
            double *above = &values[y * nx + x];
            double *below = &values[(ny - 1 - y) * nx + x];
            const double value = *above;
            *above = *below;
            *below = value;
        }
}

static int
compare_numbers(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Values over MIN_NDECADES decades or more get a logarithmic scale: on a linear
 * one most would look like zero. The scale starts where one value in
 * NEAR_ZERO_EVERY is smaller, so that few tiny values do not stretch it. */
#define MIN_NDECADES 4
#define NEAR_ZERO_EVERY 64

/* Chooses a logarithmic scale if most values would be invisible beside the
 * largest one. */
static void
find_floor(struct plot_data *data, uint64_t nvalues)
{
    double *magnitudes = calloc(nvalues, sizeof *magnitudes);
    uint64_t n = 0;

    for (uint64_t i = 0; magnitudes != NULL && i < nvalues; i++)
        if (isfinite(data->a[i]) && data->a[i] != 0)
            magnitudes[n++] = fabs(data->a[i]);
    if (n > 0) {
        qsort(magnitudes, n, sizeof *magnitudes, compare_numbers);
        const double low = magnitudes[n / NEAR_ZERO_EVERY];
        if (log10(magnitudes[n - 1]) - log10(low) >= MIN_NDECADES)
            data->scale.floor = low;
    }
    free(magnitudes);
}

static void
scale_values(struct plot_data *data, uint64_t nvalues)
{
    for (uint64_t i = 0; i < nvalues; i++) {
        data->a[i] = plot_scale_position(&data->scale, data->a[i]);
        data->b[i] = plot_scale_position(&data->scale, data->b[i]);
    }
    data->min = plot_scale_position(&data->scale, data->min);
    data->max = plot_scale_position(&data->scale, data->max);
}

/* Divides errors by the magnitude of their value, or by the magnitude at which
 * the bound reaches its floor. Relative errors above 1 are drawn as 1. */
static void
divide_errors(struct plot_data *data, const struct compare_result *result,
              uint64_t nvalues)
{
    const double least = result->pointwise_bound > 0
                             ? result->floor / result->pointwise_bound
                             : 0;
    double largest = result->pointwise_bound;

    for (uint64_t i = 0; i < nvalues; i++) {
        double *error = &data->errors[i];
        if (!isfinite(*error) || *error == 0)
            continue;
        const double value = fmax(fabs(data->a[i]), least);
        *error = copysign(fmin(fabs(*error) / value, 1), *error);
        largest = fmax(largest, fabs(*error));
    }
    data->error_scale = fmin(largest, 1);
}

/* Divides errors before the values become positions on the scale. */
static void
find_scales(struct plot_data *data, const struct compare_result *result,
            uint64_t nvalues)
{
    find_floor(data, nvalues);
    data->is_relative = data->scale.floor > 0 || result->pointwise_bound > 0;
    if (data->is_relative)
        divide_errors(data, result, nvalues);
    scale_values(data, nvalues);
}

static bool
read_slice(struct plot_data *data, const struct tool_dataset *a,
           const struct tool_dataset *b, const struct compare_result *result,
           struct compare_walk *walk)
{
    struct tool_grid slice = {0};

    plan_slice(a, data, &slice);
    if (data->rank == 0)
        return true;
    name_slice(a, &slice, data);
    if (!compare_walk_slice(walk, a, b, &slice))
        return false;
    data->a = calloc(walk->grid.nvalues, sizeof *data->a);
    data->b = calloc(walk->grid.nvalues, sizeof *data->b);
    data->errors = calloc(walk->grid.nvalues, sizeof *data->errors);
    if (data->a == NULL || data->b == NULL || data->errors == NULL) {
        walk->trouble = "not enough memory for a picture";
        return false;
    }
    data->min = INFINITY;
    data->max = -INFINITY;
    for (uint64_t i = 0; i < walk->grid.nvalues; i++) {
        double *at_a = &data->a[i], *at_b = &data->b[i];
        bool changed;
        if (compare_walk_value(walk, i, at_a, at_b, &changed) &&
            is_drawn(result, *at_a)) {
            data->errors[i] = *at_b - *at_a;
            data->min = fmin(data->min, *at_a);
            data->max = fmax(data->max, *at_a);
        } else {
            *at_a = NAN;
            *at_b = data->errors[i] = changed ? (double)INFINITY : (double)NAN;
        }
    }
    if (data->rank == 2 && plot_runs_north(a, data->axis_y)) {
        turn_rows(data, data->a);
        turn_rows(data, data->b);
        turn_rows(data, data->errors);
    }
    find_scales(data, result, walk->grid.nvalues);
    return true;
}

/* A bin is bound / (PLOT_NBINS_INSIDE + 1/2) wide: 0 is in the middle of a bin,
 * and the bound lies between two bins. */
static int
bin_of(double error, double bound)
{
    double width = bound / (PLOT_NBINS_INSIDE + 0.5);
    int last = PLOT_NBINS / 2, bin;

    if (fabs(error) <= bound) { /* the quotient may round up */
        last = PLOT_NBINS_INSIDE;
        bin = bound > 0 ? (int)fmin(fabs(error) / width + 0.5, last) : 0;
    } else {
        bin = PLOT_NBINS_INSIDE + 1;
        if (bound > 0 && isfinite(error))
            bin = (int)fmax(bin, fmin(fabs(error) / width + 0.5, last));
        else
            bin = last;
    }
    return PLOT_NBINS / 2 + (error < 0 ? -bin : bin);
}

/* The range of the valid values of the current step. */
static struct tool_range
range_of_step(const struct compare_walk *walk)
{
    struct tool_range range =
        tool_range_begin(terp_type_of_part(tool_coded_type(walk->a->type)));
    double a, b;
    bool changed;

    for (uint64_t i = 0; i < walk->grid.nvalues; i++)
        if (compare_walk_value(walk, i, &a, &b, &changed))
            tool_range_add(&range, a, changed);
    return range;
}

/* The unit for the error of a value: its bound, or the largest error where no
 * bound is known. */
static double
unit_of(const struct compare_bound *bound, const struct compare_result *result,
        double value)
{
    return bound->pointwise > 0
               ? fmax(bound->pointwise * fabs(value), bound->floor)
           : !isnan(bound->absolute) ? bound->absolute
           : !isnan(result->bound)   ? result->bound
                                     : result->max_error;
}

static bool
fill_bins(struct plot_data *data, const struct tool_dataset *a,
          const struct tool_dataset *b, const struct compare_bounds *bounds,
          const struct compare_result *result, struct compare_walk *walk)
{
    struct compare_bound bound;

    if (!compare_walk_open(walk, a, b, NULL))
        return false;
    while (compare_walk_next(walk)) {
        if (!compare_walk_bound(walk, bounds, &bound))
            return false;
        if (bound.of_range > 0) {
            const struct tool_range range = range_of_step(walk);
            compare_bound_resolve(&bound, &range);
        }
        for (uint64_t i = 0; i < walk->grid.nvalues; i++) {
            double from, to;
            bool changed;
            if (compare_walk_value(walk, i, &from, &to, &changed) &&
                is_drawn(result, from))
                data->bins[bin_of(to - from, unit_of(&bound, result, from))] +=
                    walk->nsame;
        }
    }
    return walk->trouble == NULL;
}

bool
plot_data_read(struct plot_data *data, const struct tool_dataset *a,
               const struct tool_dataset *b,
               const struct compare_bounds *bounds,
               const struct compare_result *result, char *reason_ret,
               size_t reason_cap)
{
    struct compare_walk slice = COMPARE_WALK_NONE, walk = COMPARE_WALK_NONE;

    *data = (struct plot_data){0};
    data->of_bound = !isnan(result->error_of_bound);
    data->error_scale = fmax(result->max_error, result->bound);
    if (isnan(data->error_scale)) /* no valid values */
        data->error_scale = 0;
    if (!read_slice(data, a, b, result, &slice))
        snprintf(reason_ret, reason_cap, "%s", slice.trouble);
    else if (data->rank > 0 && !fill_bins(data, a, b, bounds, result, &walk))
        snprintf(reason_ret, reason_cap, "%s", walk.trouble);
    compare_walk_close(&slice);
    compare_walk_close(&walk);
    return slice.trouble == NULL && walk.trouble == NULL;
}

void
plot_data_free(struct plot_data *data)
{
    free(data->a);
    free(data->b);
    free(data->errors);
}
