/* Pictures of a dataset and its copy: reads a slice through the middle. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "codec/format/base.h"
#include "codec/format/types.h"
#include "tools/common/range.h"
#include "tools/compare/picture.h"

/* The slice has the last one or two dimensions longer than 1, and the middle
 * index of the others. */
static void
plan_slice(const struct tool_dataset *dataset, struct compare_picture *picture,
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
    picture->rank = nshown;
    picture->nx = picture->ny = 1;
    picture->step_x = picture->step_y = 1;
    for (int k = 0; k < nshown; k++) {
        int axis = shown[k];
        uint64_t dim = dataset->dims[axis];
        uint64_t step = nshown == 2 ? div_up(dim, PICTURE_MAX_SIDE) : 1;
        uint64_t count = min_u64(div_up(dim, step), PICTURE_MAX_CURVE);
        slice->at[axis] = nshown == 2 ? 0 : (dim - count) / 2;
        slice->step[axis] = step;
        slice->count[axis] = count;
        *(k == 0 ? &picture->nx : &picture->ny) = (int)count;
        if (k == 0)
            picture->at_x = slice->at[axis];
        picture->axis_y = axis;
        *(k == 0 ? &picture->step_x : &picture->step_y) = step;
    }
}

static void
name_slice(const struct tool_dataset *dataset, const struct tool_grid *slice,
           struct compare_picture *picture)
{
    size_t at = 0, cap = sizeof picture->slice;

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
        at += (size_t)snprintf(picture->slice + at, cap - at, "%s%s%s",
                               i == 0 ? "[" : ", ", range,
                               i == dataset->rank - 1 ? "]" : "");
    }
}

/* Reverses the order of rows. */
static void
turn_rows(const struct compare_picture *picture, double *values)
{
    const size_t nx = (size_t)picture->nx, ny = (size_t)picture->ny;

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
find_floor(struct compare_picture *picture, uint64_t nvalues)
{
    double *magnitudes = calloc(nvalues, sizeof *magnitudes);
    uint64_t n = 0;

    for (uint64_t i = 0; magnitudes != NULL && i < nvalues; i++)
        if (isfinite(picture->a[i]) && picture->a[i] != 0)
            magnitudes[n++] = fabs(picture->a[i]);
    if (n > 0) {
        qsort(magnitudes, n, sizeof *magnitudes, compare_numbers);
        const double low = magnitudes[n / NEAR_ZERO_EVERY];
        if (log10(magnitudes[n - 1]) - log10(low) >= MIN_NDECADES)
            picture->scale.floor = low;
    }
    free(magnitudes);
}

static void
scale_values(struct compare_picture *picture, uint64_t nvalues)
{
    for (uint64_t i = 0; i < nvalues; i++) {
        picture->a[i] = plot_scale_position(&picture->scale, picture->a[i]);
        picture->b[i] = plot_scale_position(&picture->scale, picture->b[i]);
    }
    picture->min = plot_scale_position(&picture->scale, picture->min);
    picture->max = plot_scale_position(&picture->scale, picture->max);
}

/* Divides errors by the magnitude of their value, or by the magnitude at which
 * the bound reaches its floor. Relative errors above 1 are drawn as 1. */
static void
divide_errors(struct compare_picture *picture,
              const struct compare_result *result, uint64_t nvalues)
{
    const double least = result->pointwise_bound > 0
                             ? result->floor / result->pointwise_bound
                             : 0;
    double largest = result->pointwise_bound;

    for (uint64_t i = 0; i < nvalues; i++) {
        double *error = &picture->errors[i];
        if (!isfinite(*error) || *error == 0)
            continue;
        const double value = fmax(fabs(picture->a[i]), least);
        *error = copysign(fmin(fabs(*error) / value, 1), *error);
        largest = fmax(largest, fabs(*error));
    }
    picture->error_scale = fmin(largest, 1);
}

/* Divides errors before the values become positions on the scale. */
static void
find_scales(struct compare_picture *picture,
            const struct compare_result *result, uint64_t nvalues)
{
    find_floor(picture, nvalues);
    picture->is_relative =
        picture->scale.floor > 0 || result->pointwise_bound > 0;
    if (picture->is_relative)
        divide_errors(picture, result, nvalues);
    scale_values(picture, nvalues);
}

static bool
read_slice(struct compare_picture *picture, const struct tool_dataset *a,
           const struct tool_dataset *b, const struct compare_result *result,
           struct compare_walk *walk)
{
    struct tool_grid slice = {0};

    plan_slice(a, picture, &slice);
    if (picture->rank == 0)
        return true;
    name_slice(a, &slice, picture);
    if (!compare_walk_slice(walk, a, b, &slice))
        return false;
    picture->a = calloc(walk->grid.nvalues, sizeof *picture->a);
    picture->b = calloc(walk->grid.nvalues, sizeof *picture->b);
    picture->errors = calloc(walk->grid.nvalues, sizeof *picture->errors);
    if (picture->a == NULL || picture->b == NULL || picture->errors == NULL) {
        walk->trouble = "not enough memory for a picture";
        return false;
    }
    picture->min = INFINITY;
    picture->max = -INFINITY;
    for (uint64_t i = 0; i < walk->grid.nvalues; i++) {
        double *at_a = &picture->a[i], *at_b = &picture->b[i];
        bool changed;
        const bool drawn = compare_walk_value(walk, i, at_a, at_b, &changed) &&
                           compare_is_drawn(result, *at_a);
        if (drawn) {
            picture->min = fmin(picture->min, *at_a);
            picture->max = fmax(picture->max, *at_a);
        } else {
            *at_a = NAN;
        }
        if (drawn && isfinite(*at_b))
            picture->errors[i] = *at_b - *at_a;
        else
            *at_b = picture->errors[i] =
                changed ? (double)INFINITY : (double)NAN;
    }
    if (picture->rank == 2 && compare_runs_north(a, picture->axis_y)) {
        turn_rows(picture, picture->a);
        turn_rows(picture, picture->b);
        turn_rows(picture, picture->errors);
    }
    find_scales(picture, result, walk->grid.nvalues);
    return true;
}

bool
compare_picture_read(struct compare_picture *picture,
                     const struct tool_dataset *a, const struct tool_dataset *b,
                     const struct compare_result *result, char *reason_ret,
                     size_t reason_cap)
{
    struct compare_walk walk = COMPARE_WALK_NONE;

    *picture = (struct compare_picture){0};
    picture->error_scale = fmax(result->max_error, result->bound);
    if (isnan(picture->error_scale)) /* no valid values */
        picture->error_scale = 0;
    if (!read_slice(picture, a, b, result, &walk))
        snprintf(reason_ret, reason_cap, "%s", walk.trouble);
    compare_walk_close(&walk);
    return walk.trouble == NULL;
}

void
compare_picture_free(struct compare_picture *picture)
{
    free(picture->a);
    free(picture->b);
    free(picture->errors);
}
