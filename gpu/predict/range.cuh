/* Computes the parameters that follow from the range of a chunk's values: fill
 * values, the bound, whether the chunk is constant, and the constants of the
 * quantizer. */
#pragma once

#include "codec/model/low_bits.h"
#include "gpu/predict/extremes.cuh"
#include "gpu/predict/pointwise.cuh"

/* The range of a chunk's values that are not special. */
struct value_range {
    double min, max; /* `min` > `max`: no such values */
    /* The values nearest to the extremes, if `inner`. */
    double inner_min, inner_max;
    bool inner;
    unsigned long long nmin, nmax; /* values equal to min, and to max */
    unsigned long long nspecials;
    uint64_t fills[TERP_NFILLS];
    struct terp_bound_range of_bound;
};

/* Flags of CUDA_PROGRESS_NOT_ISOLATED. An extreme is isolated if no value is
 * close to it; it may then be a fill value. */
#define MIN_IS_NOT_ISOLATED 1u
#define MAX_IS_NOT_ISOLATED 2u
#define NONE_IS_ISOLATED 3u
#define RANGE_IS_FINAL 4u

/* Returns which extremes are not isolated, because `value` is close to them. */
static __device__ __forceinline__ unsigned
not_isolated(double value, double min, double max)
{
    return (terp_is_near_min(value, min, max) ? MIN_IS_NOT_ISOLATED : 0) |
           (terp_is_near_max(value, min, max) ? MAX_IS_NOT_ISOLATED : 0);
}

/* ---- decisions; one thread makes them ---- */

/* Recognises fill values. An isolated extreme that repeats becomes special, and
 * the nearest value takes its place as extreme, but not in the range of the
 * bound, unless it is a usual fill value. */
template <typename T>
static __device__ void
find_fills(const struct cuda_batch &batch, struct value_range *range)
{
    const double min = range->min, max = range->max;
    bool min_isolated = true, max_isolated = true, any = min < max;

    /* The caller has named both fill values. */
    if (terp_has_two_fills(&batch.encoding.params))
        return;
    if (!any) /* All values are equal. */
        range->nmin = range->nmax = batch.nvalues - range->nspecials;
    if (any && range->inner) {
        min_isolated =
            !(not_isolated(range->inner_min, min, max) & MIN_IS_NOT_ISOLATED);
        max_isolated =
            !(not_isolated(range->inner_max, min, max) & MAX_IS_NOT_ISOLATED);
    }
    const double next_min = any && range->inner ? range->inner_min : max;
    const double next_max = any && range->inner ? range->inner_max : min;
    bool min_is_fill = min_isolated && range->nmin >= TERP_FILL_MIN_REPEATS;
    bool max_is_fill = max_isolated && range->nmax >= TERP_FILL_MIN_REPEATS;
    if (min_is_fill) {
        range->fills[1] = bits_of((T)min);
        range->nspecials += range->nmin;
        range->min = next_min;
    }
    if (max_is_fill) {
        range->fills[2] = bits_of((T)max);
        range->nspecials += range->nmax;
        range->max = next_max;
    }
    if (min_is_fill && max_is_fill && !(any && range->inner)) {
        range->min = value_traits<T>::MAX;
        range->max = -value_traits<T>::MAX;
    }
    if (!any) /* Both extremes have counted the same values. */
        range->nspecials = min_u64(range->nspecials, batch.nvalues);
    range->of_bound = {range->min, range->max, 0};
    if (min_is_fill)
        terp_bound_range_add(&range->of_bound, batch.chunk.type, min,
                             range->nmin);
    if (max_is_fill && any)
        terp_bound_range_add(&range->of_bound, batch.chunk.type, max,
                             range->nmax);
}

/* Recognises fill values of integers, unless all remaining integers would then
 * be equal: flags and masks have only two values. */
template <typename T>
static __device__ void
take_fills(const struct cuda_batch &batch, struct value_range *range)
{
    const struct value_range before = *range;

    find_fills<T>(batch, range);
    if (cuda_form_is_of_integers(batch.form) && !(range->min < range->max))
        *range = before;
}

/* Computes the constants of the quantizer from a chunk's bound and range.
 * `first`: the first coded value. */
template <typename T>
static __device__ void
take_range(struct cuda_chunk &chunk, T first)
{
    const double min = chunk.min, max = chunk.max, bound = chunk.bound;
    const int step_slack_log2 = terp_step_slack_of(bound, min, max, sizeof(T));
    chunk.model.step_slack_log2 = step_slack_log2;
    chunk.model.step = terp_step_of(bound, step_slack_log2);
    chunk.escape_nbytes = terp_likely_escape_nbytes(
        terp_nsteps_of(min, max, chunk.model.step), sizeof(T));
    const constants<T> k =
        constants_of<T>(chunk.model.step, bound, TERP_MAX_CODE);
    chunk.grid_step = (double)k.step;
    chunk.grid_inverse = (double)k.inverse;
    chunk.model.reference = terp_reference_of(
        (double)with_one_zero(first), is_special(first, fills_of<T>(chunk)),
        min, max, sizeof(T));
}

/* Sets the chunk's parameters, which follow from the special values and the
 * range. `first`: the first coded value. may_be_constant: whether the chunk may
 * become constant. */
template <typename T>
static __device__ void
finalize_params(const struct cuda_batch &batch, struct cuda_chunk &chunk,
                const struct value_range &range, T first, double bound,
                bool may_be_constant)
{
    const double min = range.min, max = range.max;
    double constant;

    for (int i = 0; i < TERP_NFILLS; i++)
        chunk.fills[i] = range.fills[i];
    chunk.progress[CUDA_PROGRESS_NOT_ISOLATED] = RANGE_IS_FINAL;
    chunk.min = min;
    chunk.max = max;
    chunk.bound_range = range.of_bound;
    chunk.nspecials = chunk.facts.nscanned_specials = range.nspecials;
    chunk.has_specials = range.nspecials > 0;
    chunk.bound = bound;
    chunk.coding = batch.coding;
    const bool lossless = terp_is_lossless(&batch.encoding.params);
    if (may_be_constant &&
        terp_find_constant(min, max, range.nspecials == batch.nvalues, bound,
                           lossless, sizeof(T), &constant)) {
        chunk.coding = TERP_CODING_CONSTANT;
        chunk.prediction = TERP_PREDICTION_NONE;
        chunk.constant_bits = bits_of((T)constant);
        return;
    }
    if (!is_bound(bound) && !lossless) {
        chunk.status =
            /* The range of doubles may be larger than any double. */
            TERP_ERR_CAPACITY;
        return;
    }
    take_range(chunk, first);
}

/* Keeps the range of a real or imaginary part. Its bound also depends on the
 * range of the other part. */
static __device__ inline void
keep_range(struct cuda_chunk &chunk, const struct value_range &range)
{
    chunk.progress[CUDA_PROGRESS_NOT_ISOLATED] = RANGE_IS_FINAL;
    chunk.min = range.min;
    chunk.max = range.max;
    chunk.bound_range = range.of_bound;
    chunk.nspecials = range.nspecials;
    for (int i = 0; i < TERP_NFILLS; i++)
        chunk.fills[i] = range.fills[i];
}

/* Completes the scan of a chunk. Sets the parameters of the chunk or, if other
 * values are coded in place of its own, the inputs of their parameters. If the
 * least magnitude belongs to a fill value that the scan has recognised, it must
 * be found again. halves: the values are 16-bit floats, and the bound follows
 * from their type. */
template <typename T, bool halves>
static __device__ void
finish_range(const struct cuda_batch &batch, struct cuda_chunk &chunk,
             const struct value_range &range, T first)
{
    const word_of<T> sign = (word_of<T>)1 << (8 * sizeof(T) - 1);

    if (cuda_form_is_of_integers(batch.form)) {
        chunk.common.is_done =
            !(terp_is_lossless(&batch.encoding.params) ||
              (chunk.carrier_bound < 1 &&
               range.max - range.min >= TERP_LOW_BITS_MIN_NSTEPS));
        finalize_params<T>(batch, chunk, range, first, chunk.carrier_bound,
                           true);
        return;
    }
    if (batch.encoding.has_bounds) {
        keep_range(chunk, range);
        return;
    }
    if (batch.form == CUDA_VALUES) {
        double bound = terp_absolute_bound(
            batch.encoding.params.bound_mode, batch.encoding.params.bound,
            range.of_bound.min, range.of_bound.max);
        if (halves) {
            chunk.carrier_bound = is_bound(bound) ? bound : 0;
            bound = terp_half_bound_of_range(batch.chunk.type, bound, range.min,
                                             range.max);
        }
        finalize_params<T>(batch, chunk, range, first, bound, true);
        return;
    }
    chunk.progress[CUDA_PROGRESS_NOT_ISOLATED] = RANGE_IS_FINAL;
    chunk.own_min = range.min;
    chunk.own_max = range.max;
    for (int i = 0; i < TERP_NFILLS; i++) {
        chunk.own_fills[i] = range.fills[i];
        if (((word_of<T>)range.fills[i] & ~sign) == ~chunk.least_key)
            chunk.needs_remeasure = true;
    }
    if (chunk.needs_remeasure)
        chunk.least_key = 0;
}
