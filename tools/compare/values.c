/* terp compare: compares the values of two datasets. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/format/base.h"
#include "codec/format/types.h"
#include "codec/model/bound.h"
#include "tools/common/limit.h"
#include "tools/compare/compare.h"

/* The exact |a - b| as high + low: high is the rounded difference, low the
 * rounding error. Without low, an error above the bound by half an ulp would
 * pass. */
struct error {
    double high, low;
};

static struct error
error_of(double a, double b)
{
    double difference = a - b;
    if (!isfinite(difference))
        return (struct error){INFINITY, 0};
    double back = difference - a;
    double left = (a - (difference - back)) - (b + back);
    if (difference < 0)
        return (struct error){-difference, -left};
    return (struct error){difference, left};
}

static bool
error_is_larger(struct error error, struct error other)
{
    return error.high > other.high ||
           (error.high == other.high && error.low > other.low);
}

/* The result of comparing errors with bounds. */
struct judgement {
    bool exceeded;
    double worst_of_bound; /* largest error / bound of any step */
    uint64_t nexceeded;    /* boxes with an error above the bound */
};

/* Sums over the steps. */
struct sum {
    struct error worst;
    struct tool_range range;
    double squares; /* of the errors of valid values */
    bool judged, zeros_differ;
    /* by_parameters judges by B's parameters and streams. by_range also limits
     * the bound of a constant chunk to the range of its values in A; it counts
     * where streams have smaller bounds than the parameters, which a constant
     * chunk does not show. */
    struct judgement by_parameters, by_range;
    bool has_own_bounds;
    uint64_t nboxes;
    uint64_t nspecials, nspecials_changed;
    bool bytes_differ;
    uint8_t *exempt; /* flags of the values of a step; NULL: none is exempt */
};

/* Results of one step. */
struct step {
    struct error worst;
    struct tool_range range;
    bool exceeded; /* a bound relative to each value */
    double worst_of_bound;
};

static void
add_judgement(struct judgement *judgement, bool exceeded, double of_bound,
              uint64_t nboxes)
{
    judgement->exceeded |= exceeded;
    judgement->nexceeded += exceeded ? nboxes : 0;
    if (of_bound > judgement->worst_of_bound)
        judgement->worst_of_bound = of_bound;
}

/* Compares an error with a bound; a bound of 0 allows no error. */
static void
judge(struct judgement *judgement, struct error error, double bound,
      uint64_t nboxes)
{
    add_judgement(judgement, error_is_larger(error, (struct error){bound, 0}),
                  error.high == 0 ? 0 : error.high / bound, nboxes);
}

/* Compares an error with a bound relative to the value. Without a floor, zeros
 * must stay. */
static void
judge_value(struct step *step, struct error error,
            const struct compare_bound *limit, double value, bool changed)
{
    const double bound = limit->pointwise * fabs(value);
    /* The exact product, unless it is subnormal. */
    const struct error exact = {bound,
                                fma(limit->pointwise, fabs(value), -bound)};
    const struct error floor = {limit->floor, 0};
    const double of_bound =
        error.high > 0 ? error.high / fmax(bound, limit->floor) : 0;

    if ((error_is_larger(error, exact) && error_is_larger(error, floor)) ||
        (limit->floor == 0 && value == 0 && changed))
        step->exceeded = true;
    if (of_bound > step->worst_of_bound)
        step->worst_of_bound = of_bound;
}

/* Adds a value that occurs `n` times. */
static void
add_value(struct tool_range *range, double value, bool changed, uint64_t n)
{
    struct tool_range one = tool_range_begin(range->type);

    if (n == 1) {
        tool_range_add(range, value, changed);
        return;
    }
    tool_range_add(&one, value, changed);
    one.nvalues = one.low.nvalues = one.high.nvalues = n;
    tool_range_merge(range, &one);
}

/* Adds a value of the current step, and judges it by a pointwise bound, if
 * there is one. */
static void
add_value_of_step(const struct compare_walk *walk, struct sum *sum,
                  const struct compare_bound *bound, uint64_t i,
                  struct step *step)
{
    double a, b;
    bool changed;

    if (sum->exempt != NULL && sum->exempt[i])
        return;
    if (!compare_walk_value(walk, i, &a, &b, &changed)) {
        sum->nspecials += walk->nsame;
        sum->nspecials_changed += changed ? walk->nsame : 0;
        return;
    }
    struct error error = error_of(a, b);
    if (error_is_larger(error, step->worst))
        step->worst = error;
    if (bound->pointwise > 0)
        judge_value(step, error, bound, a, changed);
    sum->squares += (double)walk->nsame * error.high * error.high;
    sum->zeros_differ |= changed && error.high == 0;
    add_value(&step->range, a, changed, walk->nsame);
}

/* Adds the values of a part of the current step. */
static struct step
add_values(const struct compare_walk *walk, struct sum *sum,
           const struct compare_part *part)
{
    struct step step = {.range = tool_range_begin(sum->range.type)};

    for (uint64_t run = 0; run < part->n; run++) {
        uint64_t i, end;
        for (compare_part_run(walk, part, run, &i, &end); i < end; i++)
            add_value_of_step(walk, sum, &part->bound, i, &step);
    }
    if (error_is_larger(step.worst, sum->worst))
        sum->worst = step.worst;
    tool_range_merge(&sum->range, &step.range);
    return step;
}

/* Judges a step by an absolute bound. */
static void
judge_step(struct sum *sum, const struct step *step,
           const struct compare_bound *bound, uint64_t nboxes)
{
    double by_range = bound->absolute;

    if (bound->is_constant && step->range.nvalues > 0)
        by_range =
            fmin(by_range, step->range.high.value - step->range.low.value);
    judge(&sum->by_parameters, step->worst, bound->absolute, nboxes);
    judge(&sum->by_range, step->worst, by_range, nboxes);
}

static void
add_part(const struct compare_walk *walk, struct sum *sum,
         struct compare_part *part)
{
    const struct step step = add_values(walk, sum, part);
    struct compare_bound *bound = &part->bound;

    sum->has_own_bounds |= bound->is_own;
    compare_bound_resolve(bound, &step.range);
    if (bound->pointwise > 0) {
        add_judgement(&sum->by_parameters, step.exceeded, step.worst_of_bound,
                      walk->nboxes);
        add_judgement(&sum->by_range, step.exceeded, step.worst_of_bound,
                      walk->nboxes);
    } else if (!isnan(bound->absolute)) {
        judge_step(sum, &step, bound, walk->nboxes);
    } else {
        return;
    }
    sum->judged = true;
}

/* A chunk counts once, even if several of its parts exceed their bounds. */
static void
add_step(struct compare_walk *walk, struct sum *sum,
         const struct compare_bounds *bounds)
{
    const uint64_t by_parameters = sum->by_parameters.nexceeded;
    const uint64_t by_range = sum->by_range.nexceeded;
    struct compare_part part = {.n = 0};

    if (sum->exempt != NULL)
        bounds->exempt(bounds->context, &walk->grid, sum->exempt);
    while (compare_walk_part(walk, bounds, &part))
        add_part(walk, sum, &part);
    sum->nboxes += walk->nboxes;
    sum->by_parameters.nexceeded =
        min_u64(sum->by_parameters.nexceeded, by_parameters + walk->nboxes);
    sum->by_range.nexceeded =
        min_u64(sum->by_range.nexceeded, by_range + walk->nboxes);
}

static void
add_steps(struct compare_walk *walk, struct sum *sum,
          const struct compare_bounds *bounds)
{
    while (compare_walk_next(walk)) {
        if (walk->type == TERP_BYTES) {
            sum->bytes_differ =
                sum->bytes_differ || !compare_walk_is_same(walk);
            continue;
        }
        add_step(walk, sum, bounds);
    }
}

/* Judges by criteria that apply to all values at once. */
static void
judge_all(const struct tool_dataset *b, const struct compare_bounds *bounds,
          struct sum *sum)
{
    struct judgement *judgement = &sum->by_parameters;

    if (bounds->relative > 0) {
        judge(judgement, sum->worst,
              compare_relative_bound(bounds->relative, &sum->range), 0);
        sum->judged = true;
    }
    if (!compare_bounds_are_given(bounds) && tool_is_lossless(b))
        judgement->exceeded |= sum->zeros_differ;
}

/* The bound of all of B's values; NAN where chunks have their own bounds, or no
 * bound is known. */
static double
common_bound(const struct tool_dataset *b, const struct compare_bounds *bounds,
             const struct sum *sum)
{
    const struct terp_params *params = &b->cd.params;

    if (bounds->absolute > 0)
        return bounds->absolute;
    if (bounds->relative > 0)
        return compare_relative_bound(bounds->relative, &sum->range);
    return b->has_terp && !sum->has_own_bounds && bounds->pointwise == 0 &&
                   b->cd.pass == TERP_PASS_NONE &&
                   params->bound_mode == TERP_BOUND_ABSOLUTE
               ? params->bound
               : (double)NAN;
}

/* Sets the pointwise bound, if there is one. */
static void
set_pointwise(const struct tool_dataset *b, const struct compare_bounds *bounds,
              struct compare_result *result)
{
    const struct terp_params *params = &b->cd.params;

    result->pointwise_bound = bounds->pointwise;
    result->floor = bounds->floor;
    if (!compare_bounds_are_given(bounds) && b->has_terp &&
        b->cd.pass == TERP_PASS_NONE &&
        params->bound_mode == TERP_BOUND_POINTWISE) {
        result->pointwise_bound = params->bound;
        result->floor = params->floor;
    }
}

static void
set_numbers(const struct sum *sum, struct compare_result *result)
{
    double nvalues;

    tool_range_trim(&sum->range, &result->min, &result->max,
                    &result->nleft_out);
    nvalues = (double)(sum->range.nvalues - result->nleft_out);
    result->max_error = sum->worst.high;
    if (sum->judged)
        result->error_of_bound = sum->by_parameters.worst_of_bound;
    if (result->max > result->min)
        result->psnr = 20 * log10((result->max - result->min) /
                                  sqrt(sum->squares / nvalues));
}

static void
set_verdict(const struct sum *sum, struct compare_result *result)
{
    const uint64_t nchunks = result->nchunks_exceeded;

    if (sum->bytes_differ)
        result->verdict = COMPARE_DIFFERENT;
    else if (sum->by_parameters.exceeded)
        result->verdict = COMPARE_EXCEEDED;
    else if (sum->nspecials_changed > 0)
        result->verdict = COMPARE_SPECIALS;
    else if (result->is_bytes || sum->judged || sum->worst.high == 0)
        result->verdict = COMPARE_OK;
    else
        result->verdict = COMPARE_UNJUDGED;
    if (sum->nspecials_changed > 0)
        snprintf(result->reason, sizeof result->reason,
                 "%" PRIu64 " special values changed", sum->nspecials_changed);
    else if (nchunks > 0)
        snprintf(result->reason, sizeof result->reason,
                 "%" PRIu64 " of %" PRIu64 " chunks exceed their bound",
                 nchunks, result->nchunks);
    else if (result->verdict == COMPARE_UNJUDGED)
        snprintf(result->reason, sizeof result->reason, "no known bound");
}

struct compare_result
compare_new_result(const char *path)
{
    return (struct compare_result){.path = path,
                                   .max_error = NAN,
                                   .error_of_bound = NAN,
                                   .bound = NAN,
                                   .min = NAN,
                                   .max = NAN,
                                   .psnr = NAN};
}

static void
set_result(const struct tool_dataset *a, const struct tool_dataset *b,
           const struct compare_bounds *bounds, const struct sum *sum,
           struct compare_result *result)
{
    result->compared = true;
    result->rank = a->rank;
    result->dims = a->dims;
    /* Complex values get no numbers beyond the verdict; the bound applies to
     * each of their components. */
    result->type = terp_type_nparts(tool_coded_type(a->type)) > 1
                       ? TERP_BYTES
                       : compare_type_of_values(a, b);
    result->is_bytes = compare_type_of_values(a, b) == TERP_BYTES;
    result->is_lossless = tool_is_lossless(b);
    result->bound = common_bound(b, bounds, sum);
    set_pointwise(b, bounds, result);
    if (b->has_terp && !result->is_bytes && !compare_bounds_are_given(bounds)) {
        result->nchunks = sum->nboxes;
        result->nchunks_exceeded = sum->by_parameters.nexceeded;
    }
    result->nbytes = b->nvalues * b->value_nbytes;
    /* The bytes of one member are not counted. */
    result->stored_nbytes = b->is_member ? 0 : H5Dget_storage_size(b->id);
    result->nvalid = sum->range.nvalues;
    result->nspecials = sum->nspecials;
    result->nspecials_changed = sum->nspecials_changed;
    if (result->nvalid > 0)
        set_numbers(sum, result);
    set_verdict(sum, result);
}

void
compare_values(const struct tool_dataset *a, const struct tool_dataset *b,
               const struct compare_bounds *bounds, struct nested_files *files,
               struct compare_result *result)
{
    struct sum sum = {
        .range = tool_range_begin(terp_type_of_part(tool_coded_type(a->type)))};
    struct compare_walk walk = COMPARE_WALK_NONE;

    if (a->nvalues > 0 && compare_walk_open(&walk, a, b, files)) {
        if (bounds->exempt != NULL)
            sum.exempt = malloc(tool_grid_cap(&walk.grid));
        if (bounds->exempt != NULL && sum.exempt == NULL)
            walk.trouble = terp_status_text(TERP_ERR_MEMORY);
        else
            add_steps(&walk, &sum, bounds);
        free(sum.exempt);
    }
    if (walk.trouble != NULL) {
        result->verdict =
            walk.cannot_compare ? COMPARE_SKIPPED : COMPARE_UNREADABLE;
        snprintf(result->reason, sizeof result->reason, "%s%s", walk.trouble,
                 tool_limit_hint(walk.trouble));
    } else {
        if (sum.has_own_bounds)
            sum.by_parameters = sum.by_range;
        judge_all(b, bounds, &sum);
        set_result(a, b, bounds, &sum, result);
    }
    compare_walk_close(&walk);
}
