/* Samples by which an encoder chooses the model of the lossless predictor: runs
 * of values, the orders of differences that are weighed on them, and the rules
 * that decide. */
#pragma once

#include "codec/format/layout.h"
#include "codec/format/sections.h"
#include "codec/model/lossless.h"

/* Number of runs to compare all steps, and to weigh the chosen step. */
#define TERP_LOSSLESS_FEW_NRUNS 16
#define TERP_LOSSLESS_MANY_NRUNS 64

/* A chunk is sparse if at most one value in TERP_LOSSLESS_SPARSE_ONE_IN is not
 * special: clouds, plumes. Most runs then hold nothing that counts, so there
 * are TERP_LOSSLESS_SPARSE_NTIMES as many. Values between markers of references
 * are spread more evenly, and gain nothing. Smaller chunks stay as they were.
 */
#define TERP_LOSSLESS_SPARSE_MIN_NVALUES (1 << 16)
#define TERP_LOSSLESS_SPARSE_ONE_IN 8
#define TERP_LOSSLESS_SPARSE_NTIMES 8
static inline TERP_HOST_DEVICE bool
terp_lossless_is_sparse(uint64_t nvalues, uint64_t nspecials, bool has_markers)
{
    return !has_markers && nvalues >= TERP_LOSSLESS_SPARSE_MIN_NVALUES &&
           nvalues - nspecials <= nvalues / TERP_LOSSLESS_SPARSE_ONE_IN;
}

static inline TERP_HOST_DEVICE uint64_t
terp_lossless_nruns(uint64_t nruns, bool is_sparse)
{
    return is_sparse ? nruns * TERP_LOSSLESS_SPARSE_NTIMES : nruns;
}

/* ---- runs ---- */

/* A run: values of a row. `most` are the orders of differences that are known
 * along each dimension: the run begins far enough inside. */
#define TERP_LOSSLESS_RUN_NVALUES 64
struct terp_lossless_run {
    uint64_t at, n;
    int most[TERP_NDIMS];
};

/* Run i of `nruns`. Runs are evenly spread, with an offset that reaches every
 * coordinate. If the chunk is large enough, a run keeps the distance from the
 * start of lines that differences of the second order need. */
static inline TERP_HOST_DEVICE struct terp_lossless_run
terp_lossless_run_at(const struct terp_layout *layout, uint64_t i,
                     uint64_t nruns)
{
    const uint64_t distance = layout->nvalues / nruns + 1;
    uint64_t left = (i * distance + i * 7919 % distance) % layout->nvalues;
    uint64_t stride = 1;
    struct terp_lossless_run run = {0, 0, {0}};

    for (int d = 0; d < TERP_NDIMS; d++) {
        const uint64_t extent = layout->dims[d];
        const uint64_t least = min_u64(TERP_LOSSLESS_MAX_ORDER, extent - 1);
        uint64_t c = left % extent;
        if (d == 0 && c + TERP_LOSSLESS_RUN_NVALUES > extent)
            c = extent - min_u64(extent, TERP_LOSSLESS_RUN_NVALUES);
        c = c < least ? least : c;
        run.most[d] = (int)least;
        run.at += c * stride;
        if (d == 0)
            run.n = min_u64(TERP_LOSSLESS_RUN_NVALUES, extent - c);
        stride *= extent;
        left /= extent;
    }
    run.at += left * stride;
    return run;
}

/* ---- orders ---- */

/* Number of orders: along each dimension, differences are taken never, once or
 * twice. An order is a number of base 3 whose last digit belongs to dimension
 * 0. */
#define TERP_LOSSLESS_NORDERS 81

/* The size of an order's differences: the sum of their widths, and the number
 * of nonzero ones, from which the zero bits at the end of all of them are
 * subtracted. */
struct terp_lossless_widths {
    uint64_t all; /* bitwise OR of all differences */
    uint64_t sum, nnonzero;
};

static inline TERP_HOST_DEVICE uint64_t
terp_lossless_nbits_of(struct terp_lossless_widths widths, int nzeros_of_all)
{
    return widths.all == 0
               ? 0
               : widths.sum - widths.nnonzero * (uint64_t)nzeros_of_all;
}

/* The order along each dimension, from a byte of dimensions. */
static inline TERP_HOST_DEVICE void
terp_lossless_order_of(unsigned dims, int order_ret[TERP_NDIMS])
{
    for (int d = 0; d < TERP_NDIMS; d++)
        order_ret[d] = (int)(dims >> d & 1) +
                       (int)(dims >> (d + TERP_LOSSLESS_TWICE_SHIFT) & 1);
}

/* The byte of dimensions of an order. Returns false when the chunk is too small
 * for the order, or its sum is too large. */
static inline TERP_HOST_DEVICE bool
terp_lossless_dims_of(const struct terp_layout *layout, int order,
                      unsigned *dims_ret)
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

/* Adds the cost of the start of lines, where differences have lower orders: a
 * line's first integer is stored whole, the second as a difference. `nbits`
 * holds the bits of the three orders along a dimension of this extent; their
 * numbers are `step` apart. */
static inline TERP_HOST_DEVICE void
terp_lossless_add_border(uint64_t extent, int step, uint64_t *nbits)
{
    if (extent < 2)
        return;
    if (extent > 2)
        nbits[2 * step] =
            (nbits[0] + nbits[step] + (extent - 2) * nbits[2 * step]) / extent;
    nbits[step] = (nbits[0] + (extent - 1) * nbits[step]) / extent;
}

/* ---- steps ---- */

/* Scales the cost of samples to all values, in the unit of the splines'
 * costs. */
static inline TERP_HOST_DEVICE uint64_t
terp_lossless_cost_of_samples(uint64_t cost, uint64_t nsampled,
                              uint64_t nvalues)
{
    return nsampled == 0
               ? UINT64_MAX
               : cost * nvalues / nsampled << (TERP_COST_FRACTION_NBITS - 4);
}

/* Whether the step must be checked on all values: it has integers only for
 * values like the samples, which are on the samples' grid or end in the
 * samples' zero bits. */
static inline TERP_HOST_DEVICE bool
terp_lossless_needs_check(const struct terp_lossless_step *step,
                          int value_nbytes)
{
    return step->exact.nzeros > 0 ||
           (step->form == TERP_LOSSLESS_STEPS &&
            step->exact.exponent != terp_least_exponent(value_nbytes));
}

/* How many values may be special because their integer does not hold all their
 * bits: one in 1024. In a chunk with other special values only a few, since
 * they would use up the colors. */
static inline TERP_HOST_DEVICE uint64_t
terp_lossless_max_unpredictable(uint64_t nvalues, uint64_t nspecials)
{
    return nspecials > 0 ? TERP_SPECIALS_MAX_NCOLORS / 2 : nvalues / 1024;
}

/* ---- centers ---- */

/* The center: the middle of the integers, or 0 if it is too small to matter. */
static inline TERP_HOST_DEVICE int64_t
terp_lossless_center_of(int64_t middle)
{
    return middle > -TERP_LOSSLESS_MIN_CENTER &&
                   middle < TERP_LOSSLESS_MIN_CENTER
               ? 0
               : middle;
}

/* Whether the center is dropped. When differences are taken, the center is
 * subtracted only from integers at the start of lines, which are often smaller
 * than others. So it stays only if each sample would take this many bits more
 * without it. In a sparse chunk most lines start beside special values. */
#define TERP_LOSSLESS_CENTER_MIN_NBITS 4
static inline TERP_HOST_DEVICE bool
terp_lossless_drops_center(unsigned dims, uint64_t nbits,
                           uint64_t nbits_of_zero, uint64_t nsampled,
                           bool is_sparse)
{
    return dims != 0 && !is_sparse &&
           nbits_of_zero < nbits + TERP_LOSSLESS_CENTER_MIN_NBITS * nsampled;
}
