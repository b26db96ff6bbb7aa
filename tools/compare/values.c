/* terp compare: reads two datasets side by side and sums up how they differ. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/format/types.h"
#include "codec/model/bound.h"
#include "tools/common/range.h"
#include "tools/compare/compare.h"

/* A step has at most so many values where neither dataset has chunks. */
#define STEP_NVALUES ((uint64_t)1 << 22)

/* Steps are the chunks of B, or of A, or else whole rows. */
static struct tool_grid
plan_steps(const struct tool_dataset *a, const struct tool_dataset *b)
{
    struct tool_grid grid =
        tool_grid_of(b, b->chunked ? b->chunk_dims : a->chunk_dims);
    uint64_t nvalues = STEP_NVALUES;

    if (b->chunked || a->chunked)
        return grid;
    for (int i = grid.rank - 1; i >= 0; i--) {
        grid.step[i] = min_u64(grid.dims[i], nvalues);
        nvalues /= grid.step[i];
        if (nvalues == 0)
            nvalues = 1;
    }
    return grid;
}

/* As what values are compared: integers that B has within a bound as doubles,
 * 16-bit floats as floats, and what is neither float by its bytes. */
static enum terp_type
type_of_values(const struct tool_dataset *a, const struct tool_dataset *b)
{
    const enum terp_type type = tool_coded_type(a->type);
    const struct terp_params *params = &b->cd.params;

    if (terp_type_is_half(type))
        return TERP_FLOAT32;
    if (terp_type_nparts(type) > 1)
        return TERP_FLOAT64;
    if (terp_type_is_integer(type) && b->has_terp &&
        b->cd.pass == TERP_PASS_NONE &&
        params->bound_mode == TERP_BOUND_ABSOLUTE && params->bound >= 1)
        return TERP_FLOAT64;
    return tool_type(a->type);
}

/* Complex values as pairs of doubles. */
static hid_t
make_pair_type(void)
{
    hid_t type = H5Tcreate(H5T_COMPOUND, 2 * sizeof(double));

    H5Tinsert(type, "r", 0, H5T_NATIVE_DOUBLE);
    H5Tinsert(type, "i", sizeof(double), H5T_NATIVE_DOUBLE);
    return type;
}

/* Allocates the values of one step. */
static bool
prepare(struct compare_walk *walk, uint64_t nvalues)
{
    const enum terp_type type = tool_coded_type(walk->a->type);
    const size_t nbytes = walk->a->value_nbytes < 2 * sizeof(double)
                              ? 2 * sizeof(double)
                              : walk->a->value_nbytes;

    walk->nparts = (uint64_t)terp_type_nparts(type);
    walk->pair_type = walk->nparts > 1 ? make_pair_type() : -1;
    walk->type = type_of_values(walk->a, walk->b);
    if (walk->type != TERP_BYTES && walk->nparts == 1)
        walk->has_fill = tool_fill_bits(walk->a, walk->type == TERP_FLOAT64,
                                        &walk->fill_bits);
    walk->has_missing = walk->b->has_terp && walk->b->cd.has_missing;
    walk->missing = walk->type == TERP_FLOAT32
                        ? (double)(float)walk->b->cd.missing
                        : walk->b->cd.missing;
    walk->values_a = calloc(nvalues, nbytes);
    walk->values_b = calloc(nvalues, nbytes);
    if (walk->values_a == NULL || walk->values_b == NULL)
        walk->trouble = "not enough memory for a chunk";
    return walk->trouble == NULL;
}

bool
compare_walk_open(struct compare_walk *walk, const struct tool_dataset *a,
                  const struct tool_dataset *b)
{
    *walk = (struct compare_walk){.a = a, .b = b, .grid = plan_steps(a, b)};
    return prepare(walk, tool_grid_cap(&walk->grid));
}

void
compare_walk_close(struct compare_walk *walk)
{
    tool_chunk_free(&walk->chunk);
    tool_close(walk->pair_type);
    free(walk->values_a);
    free(walk->values_b);
}

static bool
read_both(struct compare_walk *walk, const hsize_t *stride)
{
    hid_t type = walk->nparts > 1             ? walk->pair_type
                 : walk->type == TERP_FLOAT32 ? H5T_NATIVE_FLOAT
                 : walk->type == TERP_FLOAT64 ? H5T_NATIVE_DOUBLE
                                              : walk->a->type;

    if (tool_box_read(walk->a->id, type, &walk->grid, stride, walk->values_a) &&
        tool_box_read(walk->b->id, type, &walk->grid, stride, walk->values_b))
        return true;
    tool_hdf5_reason(walk->reason, sizeof walk->reason);
    walk->trouble = walk->reason;
    return false;
}

bool
compare_walk_next(struct compare_walk *walk)
{
    return walk->trouble == NULL && tool_grid_next(&walk->grid) &&
           read_both(walk, NULL);
}

static void
set_box(struct compare_walk *walk, const struct tool_grid *box)
{
    walk->grid = *box;
    walk->grid.nvalues = 1;
    for (int i = 0; i < box->rank; i++)
        walk->grid.nvalues *= box->count[i];
}

bool
compare_walk_slice(struct compare_walk *walk, const struct tool_dataset *a,
                   const struct tool_dataset *b, const struct tool_grid *slice)
{
    *walk = (struct compare_walk){.a = a, .b = b};
    set_box(walk, slice);
    return prepare(walk, walk->grid.nvalues) && read_both(walk, slice->step);
}

bool
compare_walk_open_boxes(struct compare_walk *walk, const struct tool_dataset *a,
                        const struct tool_dataset *b, uint64_t nvalues)
{
    *walk = (struct compare_walk){.a = a, .b = b};
    return prepare(walk, nvalues);
}

bool
compare_walk_box(struct compare_walk *walk, const struct tool_grid *box)
{
    set_box(walk, box);
    return read_both(walk, NULL);
}

bool
compare_walk_value(const struct compare_walk *walk, uint64_t i, double *a_ret,
                   double *b_ret, bool *changed_ret)
{
    const bool wide = walk->type == TERP_FLOAT64;
    uint64_t bits = tool_value_bits(wide, walk->values_a, i);

    *a_ret = tool_value_at(wide, walk->values_a, i);
    *b_ret = tool_value_at(wide, walk->values_b, i);
    *changed_ret = bits != tool_value_bits(wide, walk->values_b, i);
    return isfinite(*a_ret) && !(walk->has_fill && bits == walk->fill_bits) &&
           !(walk->has_missing && *a_ret == walk->missing);
}

/* Values that are all the same have no range; their bound is 0, which asks for
 * the same values in B. */
static double
relative_bound(double relative, double min, double max)
{
    return min < max ? terp_bound_of_range(relative, min, max) : 0;
}

bool
compare_walk_bound(struct compare_walk *walk, double min, double max,
                   double *bound_ret)
{
    const struct tool_dataset *b = walk->b;
    struct terp_info info = {.size = sizeof info};

    *bound_ret = 0;
    if (b->cd.pass != TERP_PASS_NONE)
        return true;
    if (b->cd.params.bound_mode == TERP_BOUND_ABSOLUTE) {
        *bound_ret = b->cd.params.bound;
        return true;
    }
    tool_chunk_read(b, &walk->grid, &walk->chunk);
    if (walk->chunk.kind == TOOL_CHUNK_ABSENT ||
        walk->chunk.kind == TOOL_CHUNK_PLAIN)
        return true;
    if (walk->chunk.kind != TOOL_CHUNK_STREAM ||
        terp_inspect(walk->chunk.bytes, walk->chunk.nbytes, &info) != TERP_OK) {
        walk->trouble = "the bound of a chunk of B cannot be read";
        return false;
    }
    *bound_ret = info.bound;
    /* The stream of a constant chunk does not hold the bound, which follows
     * from the values of A. */
    if (strcmp(info.pipeline, "constant") == 0)
        *bound_ret = b->cd.params.bound_mode == TERP_BOUND_PSNR
                         ? max - min /* the value is one of the range */
                         : relative_bound(b->cd.params.bound, min, max);
    return true;
}

/* The exact |a - b| as high + low: high is the rounded difference and low
 * what rounding left out, so that no error hides within half an ulp. */
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

/* Sums over the steps. */
struct sum {
    struct error worst;
    struct tool_range range;
    double squares; /* of the errors of valid values */
    bool judged, exceeded, zeros_differ;
    double worst_of_bound; /* largest error / bound of any step */
    uint64_t nspecials, nspecials_changed;
    bool bytes_differ;
};

/* Compares an error with a bound; a bound of 0 allows none. */
static void
judge(struct sum *sum, struct error error, double bound)
{
    double of_bound = error.high == 0 ? 0 : error.high / bound;

    sum->judged = true;
    if (error_is_larger(error, (struct error){bound, 0}))
        sum->exceeded = true;
    if (of_bound > sum->worst_of_bound)
        sum->worst_of_bound = of_bound;
}

/* A bound relative to each value, not below a floor; 0: there is none. */
struct pointwise {
    double bound, floor;
};

/* Compares an error with a bound relative to the value; without a floor a zero
 * is kept. */
static void
judge_value(struct sum *sum, struct error error, struct pointwise pointwise,
            double value, bool changed)
{
    const double bound = pointwise.bound * fabs(value);
    /* The product to the last bit, unless it is subnormal. */
    const struct error exact = {bound,
                                fma(pointwise.bound, fabs(value), -bound)};
    const struct error floor = {pointwise.floor, 0};
    const double of_bound =
        error.high > 0 ? error.high / fmax(bound, pointwise.floor) : 0;

    sum->judged = true;
    if ((error_is_larger(error, exact) && error_is_larger(error, floor)) ||
        (pointwise.floor == 0 && value == 0 && changed))
        sum->exceeded = true;
    if (of_bound > sum->worst_of_bound)
        sum->worst_of_bound = of_bound;
}

/* Adds the current step; returns its worst error. Errors are judged by a bound
 * relative to each value if that is not 0. */
static struct error
add_step(const struct compare_walk *walk, struct sum *sum,
         struct pointwise pointwise, struct tool_range *range_ret)
{
    struct tool_range range = TOOL_RANGE_EMPTY;
    struct error worst = {0};

    for (uint64_t i = 0; i < walk->grid.nvalues * walk->nparts; i++) {
        double a, b;
        bool changed;
        if (!compare_walk_value(walk, i, &a, &b, &changed)) {
            sum->nspecials++;
            sum->nspecials_changed += changed;
            continue;
        }
        struct error error = error_of(a, b);
        if (error_is_larger(error, worst))
            worst = error;
        if (pointwise.bound > 0)
            judge_value(sum, error, pointwise, a, changed);
        sum->squares += error.high * error.high;
        sum->zeros_differ |= changed && error.high == 0;
        tool_range_add(&range, a, changed);
    }
    if (error_is_larger(worst, sum->worst))
        sum->worst = worst;
    tool_range_merge(&sum->range, &range);
    *range_ret = range;
    return worst;
}

static void
add_steps(struct compare_walk *walk, struct sum *sum,
          struct pointwise pointwise)
{
    struct tool_range range;
    double bound;

    while (compare_walk_next(walk)) {
        if (walk->type == TERP_BYTES) {
            if (memcmp(walk->values_a, walk->values_b,
                       walk->grid.nvalues * walk->a->value_nbytes) != 0)
                sum->bytes_differ = true;
            continue;
        }
        struct error worst = add_step(walk, sum, pointwise, &range);
        if (!walk->b->has_terp || pointwise.bound > 0)
            continue;
        if (!compare_walk_bound(walk, range.low.value, range.high.value,
                                &bound))
            return;
        judge(sum, worst, bound);
    }
    if (walk->b->has_terp && terp_is_lossless(&walk->b->cd.params))
        sum->exceeded |= sum->zeros_differ;
}

/* The bound that holds for all of B's values, NAN where each chunk has its own
 * or none is known. */
static double
common_bound(const struct tool_dataset *b, const struct compare_bounds *bounds,
             const struct tool_range *range)
{
    const struct terp_params *params = &b->cd.params;

    if (b->has_terp)
        return b->cd.pass == TERP_PASS_NONE &&
                       params->bound_mode == TERP_BOUND_ABSOLUTE
                   ? params->bound
                   : (double)NAN;
    if (bounds->absolute > 0)
        return bounds->absolute;
    if (bounds->relative > 0)
        return relative_bound(bounds->relative, range->low.value,
                              range->high.value);
    return NAN;
}

/* The bound relative to each value of B, 0 where it has another or none. */
static struct pointwise
pointwise_bound(const struct tool_dataset *b,
                const struct compare_bounds *bounds)
{
    const struct terp_params *params = &b->cd.params;

    if (!b->has_terp)
        return (struct pointwise){bounds->pointwise, bounds->floor};
    if (b->cd.pass != TERP_PASS_NONE ||
        params->bound_mode != TERP_BOUND_POINTWISE)
        return (struct pointwise){0, 0};
    return (struct pointwise){params->bound, params->floor};
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
        result->error_of_bound = sum->worst_of_bound;
    if (result->max > result->min)
        result->psnr = 20 * log10((result->max - result->min) /
                                  sqrt(sum->squares / nvalues));
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

void
compare_values(const struct tool_dataset *a, const struct tool_dataset *b,
               const struct compare_bounds *bounds,
               struct compare_result *result)
{
    struct sum sum = {.range = TOOL_RANGE_EMPTY};
    struct compare_walk walk = {.pair_type = -1};
    const struct pointwise pointwise = pointwise_bound(b, bounds);

    if (a->nvalues > 0 && compare_walk_open(&walk, a, b))
        add_steps(&walk, &sum, pointwise);
    if (walk.trouble != NULL) {
        result->verdict = COMPARE_UNREADABLE;
        snprintf(result->reason, sizeof result->reason, "%s", walk.trouble);
    }
    compare_walk_close(&walk);
    if (walk.trouble != NULL)
        return;

    result->compared = true;
    result->rank = a->rank;
    result->dims = a->dims;
    /* Nothing more is told of complex values than whether they keep the bound,
     * which each of their parts is held against. */
    result->type = terp_type_nparts(tool_coded_type(a->type)) > 1
                       ? TERP_BYTES
                       : type_of_values(a, b);
    result->bound = common_bound(b, bounds, &sum.range);
    result->pointwise_bound = pointwise.bound;
    result->floor = pointwise.floor;
    if (!b->has_terp && !isnan(result->bound))
        judge(&sum, sum.worst, result->bound);
    result->nbytes = b->nvalues * b->value_nbytes;
    result->stored_nbytes = H5Dget_storage_size(b->id);
    result->nvalid = sum.range.nvalues;
    result->nspecials = sum.nspecials;
    result->nspecials_changed = sum.nspecials_changed;
    if (result->nvalid > 0)
        set_numbers(&sum, result);
    result->verdict = sum.bytes_differ            ? COMPARE_DIFFERENT
                      : sum.exceeded              ? COMPARE_EXCEEDED
                      : sum.nspecials_changed > 0 ? COMPARE_SPECIALS
                      : type_of_values(a, b) == TERP_BYTES || sum.judged ||
                              sum.worst.high == 0
                          ? COMPARE_OK
                          : COMPARE_UNJUDGED;
    if (sum.nspecials_changed > 0)
        snprintf(result->reason, sizeof result->reason,
                 "%" PRIu64 " special values changed", sum.nspecials_changed);
}
