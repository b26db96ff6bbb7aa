/* What the lossless prediction is chosen by: runs of samples, the orders of
 * differences that are weighed on them, and what decides. */
#pragma once

#include "codec/format/layout.h"
#include "codec/format/sections.h"
#include "codec/model/lossless.h"

/* Runs of samples for all steps, and for the one that is chosen. */
#define TERP_LOSSLESS_FEW_NRUNS 16
#define TERP_LOSSLESS_MANY_NRUNS 64

/* ---- runs ---- */

/* Values of a row, that are so far into each dimension that differences of
 * those orders are known of all. */
#define TERP_LOSSLESS_RUN_NVALUES 64
struct terp_lossless_run {
    uint64_t at, n;
    int most[TERP_NDIMS];
};

/* Run i of so many: evenly spread, but for an offset that meets every
 * coordinate, and as far from where lines begin as differences of the second
 * order need, if the chunk is. */
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

/* Differences are taken never, once or twice along each dimension: numbers of
 * base 3 whose last digit is dimension 0. */
#define TERP_LOSSLESS_NORDERS 81

/* What an order of a run's differences takes: the sum of the bits of all, but
 * for zeros that all of them end in. */
struct terp_lossless_widths {
    uint64_t all; /* bits of all differences together */
    uint64_t sum, nnonzero;
};

static inline TERP_HOST_DEVICE uint64_t
terp_lossless_nbits_of(struct terp_lossless_widths widths, int nzeros_of_all)
{
    return widths.all == 0
               ? 0
               : widths.sum - widths.nnonzero * (uint64_t)nzeros_of_all;
}

/* By a byte of dimensions. */
static inline TERP_HOST_DEVICE void
terp_lossless_order_of(unsigned dims, int order_ret[TERP_NDIMS])
{
    for (int d = 0; d < TERP_NDIMS; d++)
        order_ret[d] = (int)(dims >> d & 1) +
                       (int)(dims >> (d + TERP_LOSSLESS_TWICE_SHIFT) & 1);
}

/* The byte of dimensions of an order. False where the chunk has none. */
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

/* Where lines begin differences are of lower orders: a line's first integer is
 * whole, and its second one is the difference from that. Adds this in, of the
 * three orders along a dimension of this extent, whose numbers are `step`
 * apart. */
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

/* By the cost of samples that of all values, as splines' costs are. */
static inline TERP_HOST_DEVICE uint64_t
terp_lossless_cost_of_samples(uint64_t cost, uint64_t nsampled,
                              uint64_t nvalues)
{
    return nsampled == 0
               ? UINT64_MAX
               : cost * nvalues / nsampled << (TERP_COST_FRACTION_NBITS - 4);
}

/* Whether integers are such that not any value has one: samples had a grid, or
 * ended in zeros. */
static inline TERP_HOST_DEVICE bool
terp_lossless_asks_for_more(const struct terp_lossless_step *step,
                            int value_nbytes)
{
    return step->exact.nzeros > 0 ||
           (step->form == TERP_LOSSLESS_STEPS &&
            step->exact.exponent != terp_least_exponent(value_nbytes));
}

/* One value in so many may be special because its integer is not all of it.
 * Beside other special values, whose colors they would use up, a few may. */
static inline TERP_HOST_DEVICE uint64_t
terp_lossless_max_unpredictable(uint64_t nvalues, uint64_t nspecials)
{
    return nspecials > 0 ? TERP_SPECIALS_MAX_NCOLORS / 2 : nvalues / 1024;
}

/* ---- centers ---- */

/* By the middle of some integers. */
static inline TERP_HOST_DEVICE int64_t
terp_lossless_center_of(int64_t middle)
{
    return middle > -TERP_LOSSLESS_MIN_CENTER &&
                   middle < TERP_LOSSLESS_MIN_CENTER
               ? 0
               : middle;
}

/* Where differences are taken few integers are told from the center: those that
 * lines begin with, which often are smaller than others. It is 0 then, unless
 * that would be far more bits: of so many samples, told from the center and
 * from 0. */
#define TERP_LOSSLESS_CENTER_MIN_NBITS 4
static inline TERP_HOST_DEVICE bool
terp_lossless_drops_center(unsigned dims, uint64_t nbits,
                           uint64_t nbits_of_zero, uint64_t nsampled)
{
    return dims != 0 &&
           nbits_of_zero < nbits + TERP_LOSSLESS_CENTER_MIN_NBITS * nsampled;
}
