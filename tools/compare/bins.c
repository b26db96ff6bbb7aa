/* Counts the errors of all values of a dataset and its copy in bins. */
#include <math.h>
#include <stdio.h>

#include "codec/format/types.h"
#include "tools/common/range.h"
#include "tools/compare/picture.h"

/* Values that PSNR leaves out as fill values are not drawn: they would take the
 * whole colour scale. */
bool
compare_is_drawn(const struct compare_result *result, double a)
{
    return a >= result->min && a <= result->max;
}

/* A bin is bound / (PICTURE_NBINS_INSIDE + 1/2) wide: 0 is in the middle of a
 * bin, and the bound lies between two bins. */
static int
bin_of(double error, double bound)
{
    double width = bound / (PICTURE_NBINS_INSIDE + 0.5);
    int last = PICTURE_NBINS / 2, bin;

    if (fabs(error) <= bound) { /* the quotient may round up */
        last = PICTURE_NBINS_INSIDE;
        bin = bound > 0 ? (int)fmin(fabs(error) / width + 0.5, last) : 0;
    } else {
        bin = PICTURE_NBINS_INSIDE + 1;
        if (bound > 0 && isfinite(error))
            bin = (int)fmax(bin, fmin(fabs(error) / width + 0.5, last));
        else
            bin = last;
    }
    return PICTURE_NBINS / 2 + (error < 0 ? -bin : bin);
}

/* The range of the valid values of a part of the current step. */
static struct tool_range
range_of_part(const struct compare_walk *walk, const struct compare_part *part)
{
    struct tool_range range =
        tool_range_begin(terp_type_of_part(tool_coded_type(walk->a->type)));
    double a, b;
    bool changed;

    for (uint64_t run = 0; run < part->n; run++) {
        uint64_t i, end;
        for (compare_part_run(walk, part, run, &i, &end); i < end; i++)
            if (compare_walk_value(walk, i, &a, &b, &changed))
                tool_range_add(&range, a, changed);
    }
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

static void
note_bound(struct compare_bins *bins, const struct compare_bound *bound)
{
    if (bound->pointwise > 0 || isnan(bound->absolute))
        return;
    bins->min_bound = fmin(bins->min_bound, bound->absolute);
    bins->max_bound = fmax(bins->max_bound, bound->absolute);
}

/* Counts the errors of a part of the current step. */
static void
count_part(const struct compare_walk *walk, struct compare_part *part,
           const struct compare_result *result, struct compare_bins *bins)
{
    struct compare_bound *bound = &part->bound;

    if (bound->of_range > 0) {
        const struct tool_range range = range_of_part(walk, part);
        compare_bound_resolve(bound, &range);
    }
    note_bound(bins, bound);
    for (uint64_t run = 0; run < part->n; run++) {
        uint64_t i, end;
        for (compare_part_run(walk, part, run, &i, &end); i < end; i++) {
            double from, to;
            bool changed;
            if (compare_walk_value(walk, i, &from, &to, &changed) &&
                compare_is_drawn(result, from))
                bins->counts[bin_of(to - from, unit_of(bound, result, from))] +=
                    walk->nsame;
        }
    }
}

static bool
fill_bins(struct compare_bins *bins, const struct tool_dataset *a,
          const struct tool_dataset *b, const struct compare_bounds *bounds,
          const struct compare_result *result, struct compare_walk *walk)
{
    if (!compare_walk_open(walk, a, b, NULL))
        return false;
    while (compare_walk_next(walk)) {
        struct compare_part part = {.n = 0};
        while (compare_walk_part(walk, bounds, &part))
            count_part(walk, &part, result, bins);
    }
    return walk->trouble == NULL;
}

bool
compare_bins_read(struct compare_bins *bins, const struct tool_dataset *a,
                  const struct tool_dataset *b,
                  const struct compare_bounds *bounds,
                  const struct compare_result *result, char *reason_ret,
                  size_t reason_cap)
{
    struct compare_walk walk = COMPARE_WALK_NONE;

    *bins = (struct compare_bins){.of_bound = !isnan(result->error_of_bound),
                                  .min_bound = NAN,
                                  .max_bound = NAN};
    if (!fill_bins(bins, a, b, bounds, result, &walk))
        snprintf(reason_ret, reason_cap, "%s", walk.trouble);
    compare_walk_close(&walk);
    return walk.trouble == NULL;
}
