/* The body of cpu/predict/stages_f32.c and cpu/predict/stages_f64.c: the loops
 * over values of type T, which codec/model/value.h derives from
 * TERP_VALUE_NBYTES. The includer also defines STAGES, the name of the table of
 * functions. Example: TERP_VALUE_NBYTES 4 makes T float, WORD uint32_t and INT
 * int32_t, and STAGES terp_cpu_stages_f32 gets the loops over floats. Loops are
 * written to become vectors; their formulas are those of codec/model. */

#include <limits.h>
#include <stdlib.h>

#include "codebooks/codebooks.h"
#include "codec/format/base.h"
#include "codec/model/code_widths.h"
#include "codec/model/cost.h"
#include "codec/model/difference_widths.h"
#include "codec/model/lag_errors.h"
#include "codec/model/lossless_quants.h"
#include "codec/model/psnr.h"
#include "codec/model/quantizer.h"
#include "codec/model/repeat_keys.h"
#include "cpu/predict/stages.h"
#include "cpu/sections/bits.h"
#include "cpu/sections/mask.h"

_Static_assert(FLT_EVAL_METHOD == 0,
               "Expressions are evaluated in the type they are written in: "
               "excess precision would change streams.");

/* The fill values as words. Without fill values, words that equal no value:
 * -0.0, since zeros are compared as 0.0. */
static void
fill_words_of(const struct cpu_fills *fills, WORD fill[TERP_NFILLS])
{
    for (int i = 0; i < TERP_NFILLS; i++)
        fill[i] = fills == NULL ? (WORD)1 << (8 * sizeof(WORD) - 1)
                                : (WORD)fills->bits[i];
}

/* The fill values as numbers, which compilers compare in vectors of either
 * type; NaN, which equals nothing, stands for a missing one. Returns whether
 * there is any. */
static bool
fill_values_of(const struct cpu_fills *fills, T fill[TERP_NFILLS])
{
    bool any = false;

    for (int i = 0; i < TERP_NFILLS; i++) {
        const WORD bits = (WORD)fills->bits[i];
        memcpy(&fill[i], &bits, sizeof bits);
        if (fill[i] == 0 && bits != 0)
            fill[i] = (T)NAN;
        any |= fill[i] == fill[i];
    }
    return any;
}

/* Lanes of a vector loop over values. `nspecials` counts in T: exactly up to
 * SCAN_MAX_NVECTORS. */
struct scan_lanes {
    T min[CPU_VECTOR_NVALUES], max[CPU_VECTOR_NVALUES],
        nspecials[CPU_VECTOR_NVALUES];
};
#define SCAN_MAX_NVECTORS 1000000

/* Updates the lanes by a vector of values. Special values become NaN:
 * infinities by value - value, which is 0 for finite values and makes all zeros
 * 0.0. */
TERP_INLINE void
scan_vector(const T *values, bool any_fill, const T *fill,
            struct scan_lanes *lanes)
{
    for (int j = 0; j < CPU_VECTOR_NVALUES; j++) {
        const T value = values[j];
        T valid = value + (value - value);
        for (int i = 0; any_fill && i < TERP_NFILLS; i++)
            valid = value == fill[i] ? (T)NAN : valid;
        lanes->min[j] = valid < lanes->min[j] ? valid : lanes->min[j];
        lanes->max[j] = valid > lanes->max[j] ? valid : lanes->max[j];
        lanes->nspecials[j] += valid == valid ? (T)0 : (T)1;
    }
}

static void
scan(const void *src, uint64_t nvalues, const struct cpu_fills *fills,
     struct cpu_stats *stats_ret)
{
    const T *values = src;
    const uint64_t nvectors = div_up(nvalues, CPU_VECTOR_NVALUES);
    const uint64_t nlast = nvalues - (nvectors - 1) * CPU_VECTOR_NVALUES;
    T last[CPU_VECTOR_NVALUES], fill[TERP_NFILLS];
    T min = TERP_CONST(MAX), max = -TERP_CONST(MAX);
    uint64_t nspecials = nlast - CPU_VECTOR_NVALUES;
    const bool any_fill = fill_values_of(fills, fill);
    struct scan_lanes lanes;

    for (uint64_t j = 0; j < CPU_VECTOR_NVALUES; j++)
        last[j] = j < nlast ? values[(nvectors - 1) * CPU_VECTOR_NVALUES + j]
                            : (T)NAN;
    for (uint64_t v = 0; v < nvectors;) {
        const uint64_t end = min_u64(nvectors, v + SCAN_MAX_NVECTORS);
        const uint64_t whole = end == nvectors ? end - 1 : end;
        for (int j = 0; j < CPU_VECTOR_NVALUES; j++) {
            lanes.min[j] = TERP_CONST(MAX);
            lanes.max[j] = -TERP_CONST(MAX);
            lanes.nspecials[j] = 0;
        }
        for (; !any_fill && v < whole; v++)
            scan_vector(values + v * CPU_VECTOR_NVALUES, false, fill, &lanes);
        for (; v < whole; v++)
            scan_vector(values + v * CPU_VECTOR_NVALUES, true, fill, &lanes);
        if (whole < end)
            scan_vector(last, true, fill, &lanes);
        v = end;
        for (int j = 0; j < CPU_VECTOR_NVALUES; j++) {
            min = lanes.min[j] < min ? lanes.min[j] : min;
            max = lanes.max[j] > max ? lanes.max[j] : max;
            nspecials += (uint64_t)lanes.nspecials[j];
        }
    }
    *stats_ret = (struct cpu_stats){
        .min = (double)min, .max = (double)max, .nspecials = nspecials};
}

static void
lag_errors(const void *src, uint64_t nvalues, const struct cpu_fills *fills,
           double inverse_step, uint64_t lag, uint64_t set,
           struct terp_lag_errors *errors_ret)
{
    WORD fill[TERP_NFILLS];

    fill_words_of(fills, fill);
    lag_errors_of_samples((const T *)src, nvalues, fill, lag, set, inverse_step,
                          errors_ret);
}

static uint64_t
count_repeats(const void *src, uint64_t nvalues, uint64_t reach, int near_nbits,
              struct cpu_repeats_table *table)
{
    const T *values = src;
    uint64_t key, nfound = 0;

    *table = (struct cpu_repeats_table){0};
    for (uint64_t j = 0; j < TERP_REPEATS_NSAMPLES; j++) {
        const uint64_t i = terp_repeats_sample_at(nvalues, j);
        if (repeat_key_of(values, nvalues, i, reach, near_nbits, &key))
            table->entry[terp_repeats_slot(key)] = terp_repeats_entry(key, i);
    }
    for (uint64_t k = 0; k < nvalues / TERP_REPEATS_STRETCH_NVALUES; k++) {
        const uint64_t first = terp_repeats_span_at(k);
        for (uint64_t i = first; i < first + TERP_REPEATS_SPAN_NVALUES; i++) {
            const bool has_key =
                repeat_key_of(values, nvalues, i, reach, near_nbits, &key);
            const unsigned slot = terp_repeats_slot(key);
            if (terp_repeats_match(table->entry[slot], key, i) && has_key)
                table->is_found[slot] = true;
        }
    }
    for (int slot = 0; slot < TERP_REPEATS_NSLOTS; slot++)
        nfound += table->is_found[slot];
    return nfound;
}

static void
code_widths(const void *src, const struct terp_layout *layout,
            const struct cpu_fills *fills, double inverse_step, int nzeros,
            struct terp_code_widths *widths_ret)
{
    WORD fill[TERP_NFILLS];
    int width[TERP_LOW_BITS_NINTERPOLANTS];

    fill_words_of(fills, fill);
    for (uint64_t i = 0; i < TERP_LOW_BITS_NVALUES; i++) {
        sample_code_widths(
            (const T *)src, fill, layout,
            terp_low_bits_sample_at(layout->nvalues, TERP_LOW_BITS_NRUNS, i),
            inverse_step, nzeros, width);
        for (int k = 0; k < TERP_LOW_BITS_NINTERPOLANTS; k++)
            widths_ret->at[k][i] = (int8_t)width[k];
    }
}

static void
common_bits(const void *src, uint64_t nvalues, const struct cpu_fills *fills,
            int *exponent_ret, int *nzeros_ret)
{
    const T *values = src;
    WORD fill[TERP_NFILLS];

    fill_words_of(fills, fill);
    *exponent_ret = INT_MAX;
    *nzeros_ret = terp_mantissa_nbits(sizeof(T));
    bool found = false;
    for (uint64_t i = 0; i < TERP_COMMON_BITS_NSAMPLES; i++) {
        uint64_t at = terp_common_bits_sample_at(nvalues, i);
        int exponent, nzeros;
        if (values[at] == 0 || is_special(values[at], fill))
            continue;
        exponent = last_bit_of(values[at], &nzeros);
        *exponent_ret = exponent < *exponent_ret ? exponent : *exponent_ret;
        *nzeros_ret = nzeros < *nzeros_ret ? nzeros : *nzeros_ret;
        found = true;
    }
    if (!found)
        *nzeros_ret = *exponent_ret = 0;
}

static double
squares(const void *src, const void *others, uint64_t nvalues,
        const struct cpu_fills *fills, double half_range)
{
    const T *values = src, *other_values = others;
    WORD fill[TERP_NFILLS];
    double lanes[TERP_SQUARES_NLANES] = {0};

    fill_words_of(fills, fill);
    for (uint64_t first = 0; first < nvalues; first += TERP_SQUARES_NLANES) {
        const uint64_t n = min_u64(nvalues - first, TERP_SQUARES_NLANES);
        for (uint64_t i = 0; i < n; i++) {
            const T value = values[first + i];
            const double square = terp_square_of_error(
                (double)value, (double)other_values[first + i], half_range);
            lanes[i] += is_special(value, fill) ? 0 : square;
        }
    }
    return terp_sum_lanes(lanes);
}

static void
mask(const void *src, uint64_t first, uint64_t end,
     const struct cpu_fills *fills, uint64_t *mask_words)
{
    const T *values = src;
    WORD fill[TERP_NFILLS];

    fill_words_of(fills, fill);
    for (uint64_t at = first; at < end; at += 64) {
        uint8_t special[64] = {0};
        uint64_t n = min_u64(64, end - at);
        for (uint64_t j = 0; j < n; j++)
            special[j] = is_special(values[at + j], fill);
        mask_words[at / 64] = cpu_word_of_bytes(special);
    }
}

/* With `fill` NULL no value is special. */
TERP_INLINE void
split(const T *src, uint64_t n, const WORD *fill, T *restrict even,
      T *restrict odd)
{
#define TAKE(value) (fill != NULL && is_special(value, fill) ? (T)NAN : (value))
    for (uint64_t i = 0; i < n / 2; i++) {
        even[i] = TAKE(src[2 * i]);
        odd[i] = TAKE(src[2 * i + 1]);
    }
    if (n % 2)
        even[n / 2] = TAKE(src[n - 1]);
#undef TAKE
}

static void
deinterleave(const void *lattice, uint64_t nlattice,
             const struct cpu_fills *fills, void *even, void *odd)
{
    WORD fill[TERP_NFILLS];

    if (fills == NULL) {
        split(lattice, nlattice, NULL, even, odd);
        return;
    }
    fill_words_of(fills, fill);
    split(lattice, nlattice, fill, even, odd);
}

static void
interleave(const void *even, const void *odd, uint64_t nlattice, void *lattice)
{
    const T *e = even, *o = odd;
    T *restrict dst = lattice;
    uint64_t nodd = nlattice / 2;

    for (uint64_t i = 0; i < nodd; i++) {
        dst[2 * i] = e[i];
        dst[2 * i + 1] = o[i];
    }
    if (nlattice % 2)
        dst[2 * nodd] = e[nodd];
}

/* The prediction of a point along one dimension. `b` is the even point below
 * it, and even points are `stride` apart. */
TERP_INLINE T
predict_point(enum terp_stencil stencil, const T *b, int64_t stride)
{
#define AT(nabove) b[(nabove)*stride]
    switch (stencil) {
    case TERP_STENCIL_COPY:
        return AT(0);
    case TERP_STENCIL_EXTRAPOLATE:
        return TERP_EXTRAPOLATE(AT(-1), AT(0));
    case TERP_STENCIL_LINEAR:
        return TERP_LINEAR(AT(0), AT(1));
    case TERP_STENCIL_QUAD_BELOW:
        return TERP_QUAD_BELOW(AT(-1), AT(0), AT(1));
    case TERP_STENCIL_QUAD_ABOVE:
        return TERP_QUAD_ABOVE(AT(0), AT(1), AT(2));
    case TERP_STENCIL_CUBIC:
        return TERP_CUBIC(AT(-1), AT(0), AT(1), AT(2));
    case TERP_STENCIL_NATURAL:
        return TERP_NATURAL(T, AT(-1), AT(0), AT(1), AT(2));
    case TERP_STENCIL_SIX:
        return TERP_SIX(AT(-2), AT(-1), AT(0), AT(1), AT(2), AT(3));
    case TERP_STENCIL_EIGHT:
        return TERP_EIGHT(AT(-3), AT(-2), AT(-1), AT(0), AT(1), AT(2), AT(3),
                          AT(4));
    case TERP_STENCIL_MEAN:
        break;
    }
    return TERP_MEAN(AT(-3), AT(-2), AT(-1), AT(0), AT(1), AT(2), AT(3), AT(4));
#undef AT
}

/* Predicts every step-th of `n` points; with `sums`, adds the predictions to
 * them. Multiplies the result by `share`. */
TERP_INLINE void
predict_points(enum terp_stencil stencil, const T *b, uint64_t stride,
               uint64_t step, uint64_t n, const T *restrict sums, T share,
               T *restrict pred)
{
    const int64_t on = (int64_t)stride;

    /* A copy of the loop for each stencil, as a constant that the compiler
     * folds: CASE(TERP_STENCIL_LINEAR) is the loop whose predict_point() is
     * TERP_LINEAR alone. */
#define CASE(constant)                                                      \
    case constant:                                                          \
        if (sums == NULL)                                                   \
            for (uint64_t i = 0; i < n * step; i += step)                   \
                pred[i] = predict_point(constant, b + i, on) * share;       \
        else                                                                \
            for (uint64_t i = 0; i < n * step; i += step)                   \
                pred[i] =                                                   \
                    (sums[i] + predict_point(constant, b + i, on)) * share; \
        break
    switch (stencil) {
        CASE(TERP_STENCIL_COPY);
        CASE(TERP_STENCIL_EXTRAPOLATE);
        CASE(TERP_STENCIL_LINEAR);
        CASE(TERP_STENCIL_QUAD_BELOW);
        CASE(TERP_STENCIL_QUAD_ABOVE);
        CASE(TERP_STENCIL_CUBIC);
        CASE(TERP_STENCIL_NATURAL);
        CASE(TERP_STENCIL_SIX);
        CASE(TERP_STENCIL_EIGHT);
        CASE(TERP_STENCIL_MEAN);
    }
#undef CASE
}

static void
predict_along(enum terp_stencil stencil, const T *b, uint64_t stride,
              uint64_t step, uint64_t n, const T *restrict sums, T share,
              T *restrict pred)
{
    if (n == 1) {
        const T along = predict_point(stencil, b, (int64_t)stride);
        *pred = (sums == NULL ? along : *sums + along) * share;
    } else if (step == 1)
        predict_points(stencil, b, stride, 1, n, sums, share, pred);
    else
        predict_points(stencil, b, stride, step, n, sums, share, pred);
}

/* The position of a run: the coordinates of its row, its brick at index
 * TERP_NDIMS, and its number in the row. */
struct run_position {
    uint64_t row, run_in_row;
    uint64_t at[TERP_NDIMS + 1];
};

static struct run_position
find_position(const struct cpu_class *cls, uint64_t index)
{
    struct run_position position = {.row = index / cls->nruns_per_row,
                                    .run_in_row = index % cls->nruns_per_row};
    uint64_t left = position.row;

    for (int d = 1; d < TERP_NDIMS; d++) {
        position.at[d] = left % cls->extent[d];
        left /= cls->extent[d];
    }
    position.at[TERP_NDIMS] = left;
    return position;
}

/* Advances to the next run, without a division. The run at `position` covers
 * `nrows` rows. */
static void
advance(const struct cpu_class *cls, uint64_t nrows,
        struct run_position *position)
{
    if (++position->run_in_row < cls->nruns_per_row)
        return;
    position->run_in_row = 0;
    position->row += nrows;
    position->at[1] += nrows;
    for (int d = 1; d < TERP_NDIMS; d++) {
        if (position->at[d] < cls->extent[d])
            return;
        position->at[d] = 0;
        position->at[d + 1]++;
    }
}

/* Advances by as many runs as lie before `step`, without a division. */
static void
advance_by(const struct cpu_class *cls, const struct run_position *step,
           struct run_position *position)
{
    position->run_in_row += step->run_in_row;
    bool carry = position->run_in_row >= cls->nruns_per_row;
    position->run_in_row -= carry ? cls->nruns_per_row : 0;
    position->row += step->row + carry;
    for (int d = 1; d < TERP_NDIMS; d++) {
        position->at[d] += step->at[d] + carry;
        carry = position->at[d] >= cls->extent[d];
        position->at[d] -= carry ? cls->extent[d] : 0;
    }
    position->at[TERP_NDIMS] += step->at[TERP_NDIMS] + carry;
}

/* A run of a row, or of several rows that are predicted alike, and its
 * neighbours. */
struct run {
    uint64_t at; /* index in the class's arrays */
    uint64_t x, n;
    uint64_t nrows, row_n;    /* number of rows; points of each */
    const T *row[TERP_NDIMS]; /* per dimension: even point below point x = 0 of
                               * the row */
    uint64_t stride[TERP_NDIMS];
    enum terp_stencil stencil[TERP_NDIMS]; /* of dimensions above 0 */
    int order; /* the highest order of the stencils; -1: none */
    /* Blending: the points around x = 0 that differ from it in one, two, and
     * three dimensions; face[0] NULL: no blending. */
    const T *face[6], *edge[12], *corner[8];
    /* Blending by a long spline: the number of dimensions that are interpolated
     * beside it; 0: no such blending. Then the rows around the run in these
     * dimensions: `odd` with the run's own coordinate in the fastest odd
     * dimension, `even` with the even ones. The last four rows differ in two
     * dimensions. */
    int nothers;
    const T *odd[8], *even[8];
};

/* The neighbour of x = 0 that is below it in all dimensions of `lack`. */
static const T *
find_neighbour(const struct cpu_class *cls, const struct run_position *position,
               unsigned lack)
{
    const uint64_t *stride = cls->source[lack].stride;
    uint64_t at = 0;

    for (int d = 1; d <= TERP_NDIMS; d++)
        at += position->at[d] * stride[d];
    return (const T *)cls->source[lack].values + at;
}

/* Finds the neighbours that differ from x = 0 in the dimensions `all`: below
 * and above it in the `n` dimensions `dim`, of which the last alternates
 * fastest. Returns their number. */
static unsigned
find_neighbours_in(const struct cpu_class *cls,
                   const struct run_position *position, unsigned all,
                   const int *dim, int n, const T **neighbours)
{
    const uint64_t *stride = cls->source[all].stride;

    neighbours[0] = find_neighbour(cls, position, all);
    for (int i = 0; i < n; i++)
        for (unsigned c = 0; c < 1u << i; c++)
            neighbours[(1u << i) + c] = neighbours[c] + stride[dim[n - 1 - i]];
    return 1u << n;
}

/* Finds the rows for blending by a long spline, slowest dimensions first. */
static void
find_rows(const struct cpu_class *cls, const struct run_position *position,
          struct run *run)
{
    const unsigned others = cls->predicting & (cls->predicting - 1);
    const unsigned first = cls->predicting & ~others;
    int dim[2], ndims = 0;
    unsigned nrows = 0;

    for (int d = TERP_NDIMS - 1; d > 0; d--) {
        if (!(others >> d & 1))
            continue;
        if (position->at[d] + 1 >= cls->source[1u << d].extent[d])
            return;
        dim[ndims++] = d;
    }
    for (int i = 0; i < ndims; i++) {
        const unsigned bit = 1u << dim[i];
        find_neighbours_in(cls, position, bit, &dim[i], 1, &run->odd[nrows]);
        nrows += find_neighbours_in(cls, position, bit | first, &dim[i], 1,
                                    &run->even[nrows]);
    }
    if (ndims == 2) {
        find_neighbours_in(cls, position, others, dim, 2, &run->odd[nrows]);
        find_neighbours_in(cls, position, cls->predicting, dim, 2,
                           &run->even[nrows]);
    }
    run->nothers = ndims;
}

/* Finds all neighbours for blending, slowest dimensions first. A row at the
 * chunk's border lacks some, and is not blended. */
static void
find_neighbours(const struct cpu_class *cls,
                const struct run_position *position, struct run *run)
{
    unsigned nfaces = 0, nedges = 0;
    int dim[TERP_NDIMS], ndims = 0;

    run->face[0] = NULL;
    run->nothers = 0;
    if (cls->blend_order < 2)
        return;
    if (cls->spline == TERP_SPLINE_LONG) {
        find_rows(cls, position, run);
        return;
    }
    for (int d = TERP_NDIMS - 1; d >= 0; d--) {
        if (!(cls->predicting >> d & 1))
            continue;
        if (d > 0 && position->at[d] + 1 >= cls->source[1u << d].extent[d])
            return;
        dim[ndims++] = d;
    }
    for (int i = 0; i < ndims; i++)
        nfaces += find_neighbours_in(cls, position, 1u << dim[i], &dim[i], 1,
                                     &run->face[nfaces]);
    for (int i = 0; i < ndims; i++)
        for (int j = i + 1; j < ndims; j++)
            nedges += find_neighbours_in(
                cls, position, 1u << dim[i] | 1u << dim[j],
                (const int[]){dim[i], dim[j]}, 2, &run->edge[nedges]);
    if (ndims == 3)
        find_neighbours_in(cls, position, cls->predicting, dim, 3, run->corner);
}

/* The end of the points, from x on, that have the stencil of point x. Away from
 * the row's ends all points share a stencil. */
static uint64_t
end_of_stencil(enum terp_spline spline, uint64_t x, uint64_t end,
               uint64_t neven)
{
    const uint64_t nends = terp_spline_is_far((int)spline) ? 3 : 1;

    return x >= nends && x + nends + 1 < neven ? min_u64(end, neven - nends - 1)
                                               : x + 1;
}

/* Counts the rows, from one on and at most `most`, whose neighbours have the
 * same stencils, and which are contiguous like their neighbours' rows. */
static uint64_t
count_rows(const struct cpu_class *cls, const struct run_position *position,
           uint64_t most)
{
    if (cls->predicting & 1 && cls->source[1].extent[0] != cls->extent[0])
        return 1;
    const uint64_t y = position->at[1];
    const uint64_t end = min_u64(
        cls->extent[1], y + min_u64(most, CPU_RUN_NVALUES / cls->extent[0]));
    if (end <= y + 1)
        return 1;
    return (cls->predicting & 2
                ? end_of_stencil(cls->spline, y, end, cls->source[2].extent[1])
                : end) -
           y;
}

/* Finds the run at a position, of at most `max_nrows` rows. */
static void
find_run(const struct cpu_class *cls, const struct run_position *position,
         uint64_t max_nrows, struct run *run)
{
    run->x = position->run_in_row * CPU_RUN_NVALUES;
    run->row_n = min_u64(CPU_RUN_NVALUES, cls->extent[0] - run->x);
    run->nrows = count_rows(cls, position, max_nrows);
    run->n = run->nrows * run->row_n;
    run->at = position->row * cls->extent[0] + run->x;
    run->order = -1;
    for (int d = 0; d < TERP_NDIMS; d++) {
        if (!(cls->predicting >> d & 1))
            continue;
        run->row[d] = find_neighbour(cls, position, 1u << d);
        if (d == 0)
            continue;
        run->stride[d] = cls->source[1u << d].stride[d];
        run->stencil[d] = terp_stencil_at(cls->spline, position->at[d],
                                          cls->source[1u << d].extent[d]);
        int order = terp_stencil_order(run->stencil[d]);
        if (order > run->order)
            run->order = order;
    }
    find_neighbours(cls, position, run);
}

#define FOUR(points, at, i)                      \
    (((points)[at][i] + (points)[(at) + 1][i]) + \
     ((points)[(at) + 2][i] + (points)[(at) + 3][i]))

/* Scratch memory of a prediction. */
struct run_scratch {
    T lines[8][CPU_LINE_NVALUES], line[CPU_LINE_NVALUES];
    T pred[CPU_LINE_NVALUES]; /* of a run that is quantized */
};
_Static_assert(sizeof(struct run_scratch) ==
                   CPU_RUN_SCRATCH_NVALUES * sizeof(T),
               "There is room for it.");

/* Blends points [x, x + n) of a row. */
static void
blend_segment(const struct cpu_class *cls, const struct run *run, uint64_t x,
              uint64_t n, T *restrict edges, T *restrict pred)
{
    const T *face[6], *edge[12], *corner[8];
    bool three = __builtin_popcount(cls->predicting) == 3;

    for (int i = 0; i < (three ? 6 : 4); i++)
        face[i] = run->face[i] + x;
    for (int i = 0; i < (three ? 12 : 4); i++)
        edge[i] = run->edge[i] + x;
    if (!three) {
        for (uint64_t i = 0; i < n; i++)
            pred[i] = TERP_BLEND_2(FOUR(face, 0, i), FOUR(edge, 0, i));
        return;
    }
    for (uint64_t i = 0; i < n; i++)
        edges[i] = FOUR(edge, 0, i) + FOUR(edge, 4, i);
    for (uint64_t i = 0; i < n; i++)
        edges[i] += FOUR(edge, 8, i);
    for (uint64_t i = 0; i < n; i++)
        pred[i] = FOUR(face, 0, i) + (face[4][i] + face[5][i]);
    if (cls->blend_order == 2) {
        for (uint64_t i = 0; i < n; i++)
            pred[i] = TERP_BLEND_3_PAIRS(T, pred[i], edges[i]);
        return;
    }
    for (int i = 0; i < 8; i++)
        corner[i] = run->corner[i] + x;
    for (uint64_t i = 0; i < n; i++)
        pred[i] = TERP_BLEND_3_FULL(pred[i], edges[i],
                                    FOUR(corner, 0, i) + FOUR(corner, 4, i));
}

/* The number of dimensions above 0 that predict the run: those of the highest
 * order. */
static int
count_others(const struct cpu_class *cls, const struct run *run)
{
    int nothers = 0;

    for (int d = 1; d < TERP_NDIMS; d++)
        nothers += cls->predicting >> d & 1 &&
                   terp_stencil_order(run->stencil[d]) == run->order;
    return nothers;
}

/* Sums the predictions along these dimensions, times `share`, at every step-th
 * of `n` points, the first one `at` points into the run. */
static void
sum_others(const struct cpu_class *cls, const struct run *run, uint64_t at,
           uint64_t step, uint64_t n, T share, T own[][CPU_LINE_NVALUES],
           T *sums)
{
    const T *before = NULL;
    int nleft = count_others(cls, run);

    for (int d = TERP_NDIMS - 1; nleft > 0; d--) {
        if (!(cls->predicting >> d & 1) ||
            terp_stencil_order(run->stencil[d]) != run->order)
            continue;
        T *to = sums;
        if (--nleft > 0)
            to = own[nleft % 2];
        predict_along(run->stencil[d], run->row[d] + run->x + at,
                      run->stride[d], step, n, before, nleft > 0 ? (T)1 : share,
                      to);
        before = to;
    }
}

/* The prediction along dimension 0, which is the last term of a sum: the run's
 * first even point below, and the sum so far. */
struct line {
    const T *b;
    int order, nothers;
    const T *sums;
};

/* Predicts every step-th of `n` points of a run's rows, which have the stencil
 * of point x along dimension 0. */
static void
add_line(const struct cpu_class *cls, const struct run *run,
         const struct line *line, uint64_t x, uint64_t step, uint64_t n,
         T *restrict pred)
{
    const enum terp_stencil stencil =
        terp_stencil_at(cls->spline, x, cls->source[1].extent[0]);
    const int above = terp_stencil_order(stencil) - line->order;
    const T share = TERP_SHARE(T, above > 0 ? 1 : line->nothers + (above == 0));
    const uint64_t at = x - run->x;

    if (above >= 0)
        predict_along(stencil, line->b + at, 1, step, n,
                      above > 0 ? NULL : line->sums + at, share, pred + at);
    else
        for (uint64_t i = at; i < at + n * step; i += step)
            pred[i] = line->sums[i] * share;
}

/* Predicts all points of a run. The stencil of points inside of a row is
 * applied to the whole run; then the points at the rows' ends, which have other
 * stencils, are overwritten. */
static void
add_line_to_rows(const struct cpu_class *cls, const struct run *run,
                 const struct line *line, T *pred)
{
    const uint64_t end = run->x + run->row_n;
    uint64_t begin = run->x, stop = end; /* of the points inside */

    while (begin < end &&
           (stop = end_of_stencil(cls->spline, begin, end,
                                  cls->source[1].extent[0])) == begin + 1)
        begin++;
    if (begin < end)
        add_line(cls, run, line, begin, 1, run->n - run->row_n + (stop - begin),
                 pred);
    for (uint64_t x = run->x; x < begin; x++)
        add_line(cls, run, line, x, run->row_n, run->nrows, pred);
    for (uint64_t x = stop; x < end; x++)
        add_line(cls, run, line, x, run->row_n, run->nrows, pred);
}

static void
average_run(const struct cpu_class *cls, const struct run *run,
            struct run_scratch *scratch, T *pred)
{
    T *sums = scratch->line;
    const int nothers = count_others(cls, run);

    if (cls->predicting & 1) {
        const struct line line = {run->row[0] + run->x, run->order, nothers,
                                  sums};
        sum_others(cls, run, 0, 1, run->n, (T)1, scratch->lines, sums);
        add_line_to_rows(cls, run, &line, pred);
    } else {
        sum_others(cls, run, 0, 1, run->n, TERP_SHARE(T, nothers),
                   scratch->lines, pred);
    }
}

/* Predicts the last point of each of a run's rows. */
static void
average_last(const struct cpu_class *cls, const struct run *run,
             struct run_scratch *scratch, T *pred)
{
    const uint64_t last = run->row_n - 1;
    T *sums = scratch->line;
    const struct line line = {run->row[0] + run->x, run->order,
                              count_others(cls, run), sums};

    sum_others(cls, run, last, run->row_n, run->nrows, (T)1, scratch->lines,
               sums + last);
    add_line(cls, run, &line, run->x + last, run->row_n, run->nrows, pred);
}

/* Linear interpolation of `n` points along one or two dimensions, from the rows
 * around them; the first point is `at` points into the rows. */
static void
blend_rows(const T *const row[8], int ndims, int64_t at, uint64_t n,
           T *restrict pred)
{
    const T *r[8];

    for (int i = 0; i < (ndims == 1 ? 2 : 8); i++)
        r[i] = row[i] + at;
    if (ndims == 1)
        for (uint64_t i = 0; i < n; i++)
            pred[i] = TERP_LINEAR(r[0][i], r[1][i]);
    else
        for (uint64_t i = 0; i < n; i++)
            pred[i] = TERP_BLEND_2(FOUR(r, 0, i), FOUR(r, 4, i));
}

/* Predicts the points of a run that a long spline blends: interpolates linearly
 * along the other odd dimensions, then adds the interpolation's error, which a
 * long spline along the fastest odd dimension estimates from the errors at even
 * points. */
static void
blend_long(const struct cpu_class *cls, const struct run *run,
           struct run_scratch *scratch, T *pred)
{
    const int first = __builtin_ctz(cls->predicting);
    const uint64_t neven = cls->source[1u << first].extent[first];
    T *restrict blended = scratch->line;

    if (first == 0) {
        T *restrict missed = scratch->lines[0]; /* and the begin of the next
                                                 * line */
        const uint64_t before = min_u64(run->x, 3);
        const uint64_t behind = min_u64(4, neven - run->x - run->row_n);
        const uint64_t begin = run->x - before;
        const uint64_t n = before + run->n + behind;
        const struct line line = {missed + before, -1, 0, NULL};
        blend_rows(run->even, run->nothers, (int64_t)begin, n, missed);
        for (uint64_t i = 0; i < n; i++)
            missed[i] = run->row[0][begin + i] - missed[i];
        add_line_to_rows(cls, run, &line, pred);
    } else {
        T(*missed)[CPU_LINE_NVALUES] = scratch->lines;
        const enum terp_stencil stencil = run->stencil[first];
        const int64_t stride = (int64_t)run->stride[first];
        for (int i = 0; i < 8; i++) {
            if (!terp_stencil_has((int)stencil, i - 3))
                continue;
            const int64_t at = (int64_t)run->x + (i - 3) * stride;
            blend_rows(run->even, run->nothers, at, run->n, missed[i]);
            for (uint64_t j = 0; j < run->n; j++)
                missed[i][j] = run->row[first][at + (int64_t)j] - missed[i][j];
        }
        predict_along(stencil, missed[3], CPU_LINE_NVALUES, 1, run->n, NULL, 1,
                      pred);
    }
    blend_rows(run->odd, run->nothers, (int64_t)run->x, run->n, blended);
    for (uint64_t i = 0; i < run->n; i++)
        pred[i] += blended[i];
}
#undef FOUR

static void
predict_run(const struct cpu_class *cls, const struct run *run,
            struct run_scratch *scratch, T *pred)
{
    if (run->nothers > 0) {
        blend_long(cls, run, scratch, pred);
    } else if (run->face[0] == NULL) {
        average_run(cls, run, scratch, pred);
    } else if (cls->predicting & 1 &&
               run->x + run->row_n == cls->source[1].extent[0]) {
        /* The last point of a row has no even point above it. */
        blend_segment(cls, run, run->x, run->n - 1, scratch->line, pred);
        average_last(cls, run, scratch, pred);
    } else {
        blend_segment(cls, run, run->x, run->n, scratch->line, pred);
    }
}

static struct constants
level_constants(const struct cpu_quantizer *quantizer)
{
    return constants_of(quantizer->step, quantizer->bound, quantizer->max_code);
}

static void
difference_widths(const void *src, const struct terp_layout *layout,
                  const struct cpu_fills *fills,
                  const struct cpu_quantizer *quantizer, unsigned dims,
                  int8_t *widths_ret)
{
    const struct constants k = level_constants(quantizer);
    const struct exact_quants of_exact =
        exact_quants_of(quantizer->exact, quantizer->bound);
    WORD fill[TERP_NFILLS];

    fill_words_of(fills, fill);
    for (uint64_t i = 0; i < TERP_DIFFERENCES_NVALUES; i++)
        widths_ret[i] = (int8_t)sample_difference_width(
            (const T *)src, fill, layout,
            terp_low_bits_sample_at(layout->nvalues, TERP_DIFFERENCES_NRUNS, i),
            dims, k, quantizer->exact, of_exact);
}

/* Constants for symbols instead of codes: without the low bits. */
static struct constants
symbol_constants(const struct cpu_quantizer *quantizer)
{
    return constants_of(
        quantizer->step * (1 << terp_unit_nbits(quantizer->wide)),
        quantizer->bound, terp_sampled_max_code(quantizer->wide));
}

/* ---- escapes ---- */

static struct cpu_grid
grid(const struct cpu_quantizer *quantizer)
{
    struct constants k = constants_of(quantizer->grid_step, quantizer->bound,
                                      quantizer->max_code);

    return (struct cpu_grid){.reference = quantizer->reference,
                             .step = (double)k.step,
                             .inverse = (double)k.inverse,
                             .limit = (double)k.limit,
                             .limits = quantizer->limits,
                             .has_exact_escapes = quantizer->has_exact_escapes};
}

static inline struct value_grid
grid_of_type(const struct cpu_grid *grid)
{
    return (struct value_grid){.reference = (T)grid->reference,
                               .step = (T)grid->step,
                               .inverse = (T)grid->inverse,
                               .limit = (T)grid->limit};
}

static inline bool
keeps_limits(T value, T decoded, const struct terp_limits *limits)
{
    return limits == NULL ||
           terp_keeps_limits((double)value, (double)decoded, limits);
}

/* Puts escaped values on the grid, if they fit there. */
static void
put_on_grid(T *values, const uint16_t *symbols, uint64_t n,
            const struct cpu_grid *grid)
{
    const struct value_grid of_type = grid_of_type(grid);

    for (uint64_t i = cpu_find_escape(symbols, 0, n); i < n;
         i = cpu_find_escape(symbols, i + 1, n)) {
        const struct grid_point point = find_on_grid(of_type, values[i]);
        if (point.fits)
            values[i] = point.value;
    }
}

static bool
to_grid(const void *src, const struct cpu_grid *grid, int64_t *nsteps_ret)
{
    T value;

    memcpy(&value, src, sizeof value);
    const struct grid_point point = find_on_grid(grid_of_type(grid), value);
    const bool fits =
        point.fits && (!grid->has_exact_escapes || point.value == value);
    if (fits)
        *nsteps_ret = (int64_t)point.nsteps;
    return fits;
}

static void
from_grid(int64_t nsteps, const struct cpu_grid *grid, void *dst)
{
    T value = value_on_grid(grid_of_type(grid), (T)(INT)nsteps);
    memcpy(dst, &value, sizeof value);
}

/* ---- codes ---- */

/* With `masked`, a constant, NaN is a special value. Its code is 0, and its
 * value becomes the prediction. */
TERP_INLINE void
quantize_values(T *restrict values, const T *restrict pred, uint64_t n,
                struct constants k, INT radius, uint16_t *restrict symbols,
                bool masked)
{
    for (uint64_t i = 0; i < n; i++) {
        bool special = masked && values[i] != values[i];
        T value = special ? pred[i] : values[i];
        TERP_QUANTIZE(value, pred[i], k, rounded, code, rec, fits);
        code = special ? (T)0 : code;
        rec = special ? pred[i] : rec;
        fits |= special;
        values[i] = fits ? rec : value;
        INT symbol = (INT)(fits ? code : (T)-radius) + radius;
        symbols[i] = (uint16_t)symbol;
    }
}

/* The value that is stored for an escape under limits. */
static inline T
escape_within_limits(T value, const struct cpu_grid *grid)
{
    const struct grid_point point = find_on_grid(grid_of_type(grid), value);

    return point.fits && keeps_limits(value, point.value, grid->limits)
               ? point.value
           : grid->limits == NULL
               ? value
               : (T)terp_within_limits((double)value, grid->limits);
}

/* Like quantize_values and put_on_grid, for chunks whose decoded values keep
 * limits or whose unchanged values decode as `before`; `before` may be NULL. If
 * a code passes a limit, the next code on the other side is tried, which keeps
 * the bound if the level's steps are small; otherwise the value escapes. */
static void
quantize_carefully(T *values, const T *before, const T *pred, uint64_t n,
                   struct constants k, INT radius, const struct cpu_grid *grid,
                   uint16_t *symbols)
{
    for (uint64_t i = 0; i < n; i++) {
        const T value = values[i];
        if (value != value) {
            values[i] = pred[i];
            symbols[i] = (uint16_t)radius;
            continue;
        }
        const bool stays =
            before != NULL && bits_of(value) == bits_of(before[i]);
        TERP_QUANTIZE(value, pred[i], k, rounded, code, rec, fits);
        if (fits && !stays && !keeps_limits(value, rec, grid->limits)) {
            code += rec < value ? (T)1 : (T)-1;
            rec = pred[i] + code * k.step;
            fits = TERP_ABS(code) <= k.max_code &&
                   TERP_ABS(value - rec) < k.limit &&
                   keeps_limits(value, rec, grid->limits);
        }
        fits = fits && (!stays || bits_of(rec) == bits_of(value));
        values[i] = fits    ? rec
                    : stays ? value
                            : escape_within_limits(value, grid);
        symbols[i] = fits ? (uint16_t)((INT)code + radius) : TERP_ESCAPE;
    }
}

static void
reconstruct_values(T *restrict values, const T *restrict pred, uint64_t n,
                   T step, INT radius, const uint16_t *restrict symbols)
{
    for (uint64_t i = 0; i < n; i++) {
        INT code = (INT)symbols[i] - radius;
        T rec = pred[i] + (T)code * step;
        values[i] = symbols[i] == TERP_ESCAPE ? values[i] : rec;
    }
}

static void
quantize(const struct cpu_class *cls, const struct cpu_quantizer *quantizer,
         uint64_t first, uint64_t end, void *memory)
{
    struct run_scratch *scratch = memory;
    struct constants k = level_constants(quantizer);
    struct cpu_grid of_escapes = grid(quantizer);
    struct run_position position = find_position(cls, first);
    T *pred = scratch->pred;
    struct run run;

    for (uint64_t i = first; i < end;
         i += run.nrows, advance(cls, run.nrows, &position)) {
        find_run(cls, &position, end - i, &run);
        predict_run(cls, &run, scratch, pred);
        T *values = (T *)cls->values + run.at;
        uint16_t *symbols = cls->symbols + run.at;
        if (quantizer->has_exact_escapes)
            quantize_carefully(
                values,
                cls->before == NULL ? NULL : (const T *)cls->before + run.at,
                pred, run.n, k, quantizer->radius, &of_escapes, symbols);
        else if (quantizer->has_specials)
            quantize_values(values, pred, run.n, k, quantizer->radius, symbols,
                            true);
        else
            quantize_values(values, pred, run.n, k, quantizer->radius, symbols,
                            false);
        if (!quantizer->has_exact_escapes)
            put_on_grid(values, symbols, run.n, &of_escapes);
    }
}

static void
reconstruct(const struct cpu_class *cls, const struct cpu_quantizer *quantizer,
            uint64_t first, uint64_t end, void *memory)
{
    struct run_scratch *scratch = memory;
    T step = level_constants(quantizer).step;
    struct run_position position = find_position(cls, first);
    T *pred = scratch->pred;
    struct run run;

    for (uint64_t i = first; i < end;
         i += run.nrows, advance(cls, run.nrows, &position)) {
        find_run(cls, &position, end - i, &run);
        predict_run(cls, &run, scratch, pred);
        reconstruct_values((T *)cls->values + run.at, pred, run.n, step,
                           quantizer->radius, cls->symbols + run.at);
    }
}

/* Samples: runs one after another, and their predictions along each set of
 * dimensions. */
struct samples {
    struct run_scratch run;
    T values[CPU_LINE_NVALUES], noise[CPU_LINE_NVALUES];
    T noise_of_run[CPU_LINE_NVALUES];
    T pred[TERP_NCLASSES][CPU_LINE_NVALUES];
    uint64_t n;
};
_Static_assert(sizeof(struct samples) <= CPU_SAMPLE_SCRATCH_NVALUES * sizeof(T),
               "There is room for them.");

/* Averages the predictions along the dimensions of `set` at points [at, at +
 * n), slowest dimension first. The result is the prediction along `dims`. */
static void
average_set(struct samples *samples, unsigned set, unsigned dims, uint64_t at,
            uint64_t n)
{
    const T share = TERP_SHARE(T, __builtin_popcount(set));
    T *restrict pred = samples->pred[dims] + at;
    const T *p[TERP_NDIMS];
    int ndims = 0;

    for (int d = TERP_NDIMS - 1; d >= 0; d--)
        if (set >> d & 1)
            p[ndims++] = samples->pred[1u << d] + at;
    if (ndims == 1)
        memcpy(pred, p[0], n * sizeof *pred);
    else if (ndims == 2)
        for (uint64_t i = 0; i < n; i++)
            pred[i] = (p[0][i] + p[1][i]) * share;
    else if (ndims == 3)
        for (uint64_t i = 0; i < n; i++)
            pred[i] = (p[0][i] + p[1][i] + p[2][i]) * share;
    else
        for (uint64_t i = 0; i < n; i++)
            pred[i] = (p[0][i] + p[1][i] + p[2][i] + p[3][i]) * share;
}

/* Predicts a run's row along each set of the class's dimensions. */
static void
predict_sets(const struct cpu_class *cls, const struct run *run,
             struct samples *samples)
{
    const unsigned all = cls->predicting;
    const uint64_t neven = cls->source[all & 1].extent[0];

    for (int d = 1; d < TERP_NDIMS; d++)
        if (all >> d & 1)
            predict_along(run->stencil[d], run->row[d] + run->x, run->stride[d],
                          1, run->n, NULL, 1,
                          samples->pred[1u << d] + samples->n);
    if (all & 1) {
        const struct line line = {run->row[0] + run->x, -1, 0, NULL};
        add_line_to_rows(cls, run, &line, samples->pred[1] + samples->n);
    }
    for (unsigned dims = all; dims > 0; dims = (dims - 1) & all) {
        unsigned set = 0;
        int order = -1;
        if ((dims & (dims - 1)) == 0)
            continue;
        for (int d = 1; d < TERP_NDIMS; d++) {
            if (!(dims >> d & 1) || terp_stencil_order(run->stencil[d]) < order)
                continue;
            set = terp_stencil_order(run->stencil[d]) == order ? set : 0;
            set |= 1u << d;
            order = terp_stencil_order(run->stencil[d]);
        }
        if (!(dims & 1)) {
            average_set(samples, set, dims, samples->n, run->n);
            continue;
        }
        const uint64_t end = run->x + run->n;
        for (uint64_t x = run->x, next; x < end; x = next) {
            const int above =
                terp_stencil_order(terp_stencil_at(cls->spline, x, neven)) -
                order;
            next = end_of_stencil(cls->spline, x, end, neven);
            average_set(samples, above > 0 ? 1 : set | (above == 0), dims,
                        samples->n + (x - run->x), next - x);
        }
    }
}

/* The rows of the dictionary that the samples' codes belong to. */
static void
rows_of_codes(const struct samples *samples, const T *restrict pred,
              T amplitude, struct constants k, uint16_t *restrict rows)
{
    for (uint64_t i = 0; i < samples->n; i++) {
        const T value = samples->values[i];
        T magnitude = sampled_magnitude(
            value, pred[i], samples->noise[i] * amplitude, k.inverse);
        bool fits = magnitude < k.max_code + (T)0.5;
        T row = fits ? magnitude + (T)0.5 : (T)TERP_ROW_ESCAPE;
        /* Only a NaN differs from itself. */
        T unknown = (T)(value == value ? TERP_ROW_UNKNOWN : TERP_ROW_SPECIAL);
        rows[i] = (uint16_t)(INT)(magnitude == magnitude ? row : unknown);
    }
}

/* Writes the samples' rows for each set of dimensions that was predicted. */
static void
put_rows(const struct cpu_class *cls, const struct cpu_quantizer *quantizer,
         uint64_t capacity, struct samples *samples, uint16_t *rows)
{
    const struct constants k = symbol_constants(quantizer);
    const unsigned all = cls->predicting;

    for (unsigned dims = all; dims > 0; dims = (dims - 1) & all) {
        const T amplitude =
            (T)(terp_noise_amplitude(__builtin_popcount(dims), cls->blend_order,
                                     cls->spline == TERP_SPLINE_LONG) /
                (1 << terp_unit_nbits(quantizer->wide)));
        rows_of_codes(samples, samples->pred[dims], amplitude, k,
                      rows + dims * capacity);
        if (cls->blend_order > 1)
            break;
    }
    samples->n = 0;
}

static uint64_t
sample(const struct cpu_class *cls, const struct cpu_quantizer *quantizer,
       uint64_t every, uint64_t capacity, void *scratch, uint16_t *rows)
{
    struct samples *samples = scratch;
    struct run run;
    uint64_t nruns = cls->nrows * cls->nruns_per_row, nsampled = 0;

    samples->n = 0;

    for (uint64_t i = 0; i < CPU_RUN_NVALUES; i++)
        samples->noise_of_run[i] = (T)terp_noise_at(i);

    struct run_position position = find_position(cls, every / 2);
    const struct run_position step = find_position(cls, every);
    for (uint64_t i = every / 2; i < nruns;
         i += every, advance_by(cls, &step, &position)) {
        find_run(cls, &position, 1, &run);
        if (samples->n + run.n > CPU_RUN_NVALUES) {
            rows += samples->n;
            put_rows(cls, quantizer, capacity, samples, rows - samples->n);
        }
        memcpy(samples->values + samples->n, (const T *)cls->values + run.at,
               run.n * sizeof *samples->values);
        memcpy(samples->noise + samples->n, samples->noise_of_run,
               run.n * sizeof *samples->noise);
        if (cls->blend_order > 1)
            predict_run(cls, &run, &samples->run,
                        samples->pred[cls->predicting] + samples->n);
        else
            predict_sets(cls, &run, samples);
        samples->n += run.n;
        nsampled += run.n;
    }
    put_rows(cls, quantizer, capacity, samples, rows);
    return nsampled;
}

static void
quantize_chain(void *inout, const void *before, uint64_t nvalues,
               const struct cpu_quantizer *quantizer, uint16_t *symbols)
{
    struct constants k = level_constants(quantizer);
    struct cpu_grid of_escapes = grid(quantizer);
    T *values = inout, pred = (T)quantizer->reference;

    for (uint64_t i = 0; i < nvalues; i++) {
        if (quantizer->has_exact_escapes)
            quantize_carefully(
                &values[i], before == NULL ? NULL : (const T *)before + i,
                &pred, 1, k, quantizer->radius, &of_escapes, &symbols[i]);
        else
            quantize_values(&values[i], &pred, 1, k, quantizer->radius,
                            &symbols[i], true);
        if (!quantizer->has_exact_escapes)
            put_on_grid(&values[i], &symbols[i], 1, &of_escapes);
        pred = values[i];
    }
}

static void
reconstruct_chain(void *inout, uint64_t nvalues,
                  const struct cpu_quantizer *quantizer,
                  const uint16_t *symbols)
{
    T step = level_constants(quantizer).step;
    T *values = inout, pred = (T)quantizer->reference;

    for (uint64_t i = 0; i < nvalues; i++) {
        reconstruct_values(&values[i], &pred, 1, step, quantizer->radius,
                           &symbols[i]);
        pred = values[i];
    }
}

#include "cpu/predict/lorenzo_impl.h"
#include "cpu/predict/lossless_impl.h"
#include "cpu/predict/lossless_sections_impl.h"
#include "cpu/predict/means_impl.h"

const struct cpu_stages STAGES = {
    .value_nbytes = TERP_VALUE_NBYTES,
    .negative_zero_bits = (WORD)1 << (8 * sizeof(WORD) - 1),
    .scan = scan,
    .lag_errors = lag_errors,
    .count_repeats = count_repeats,
    .code_widths = code_widths,
    .difference_widths = difference_widths,
    .squares = squares,
    .common_value = common_value,
    .common_bits = common_bits,
    .mask = mask,
    .deinterleave = deinterleave,
    .interleave = interleave,
    .quantize = quantize,
    .reconstruct = reconstruct,
    .sample = sample,
    .quantize_chain = quantize_chain,
    .reconstruct_chain = reconstruct_chain,
    .grid = grid,
    .to_grid = to_grid,
    .from_grid = from_grid,
    .prequantize = prequantize,
    .count_near = count_near,
    .dequantize = dequantize,
    .repeat = repeat,
    .clear = clear,
    .difference = difference,
    .accumulate = accumulate,
    .accumulate_twice = accumulate_twice,
    .subtract_from = subtract_from,
    .difference_means = difference_means,
    .accumulate_means = accumulate_means,
    .weigh_means = weigh_means,
    .symbols_of_quants = symbols_of_quants,
    .quants_of_symbols = quants_of_symbols,
    .numbers_of_tails = numbers_of_tails,
    .tails_of_numbers = tails_of_numbers,
    .lossless_quantize = lossless_quantize,
    .lossless_restore = lossless_restore,
    .count_unpredictable = count_unpredictable,
    .nbits_of_remainders = nbits_of_remainders,
    .join_remainders = join_remainders,
    .nbits_of_remainders_of_values = nbits_of_remainders_of_values,
    .put_remainders = put_remainders,
    .gather = gather,
    .scatter = scatter,
    .split_shift = split_shift,
    .put_below_shift = put_below_shift,
    .join_shift = join_shift,
    .weigh_orders = weigh_orders,
    .cost_of_run = cost_of_run,
    .center = center};
