/* The lossless predictor: an encoder's choices. Values become integers that are
 * nearly always proportional to them, so differences are small wherever values
 * are smooth, also around zero. The bits of a value below its integer are its
 * remainder. Differences of integers are taken once or twice along each
 * dimension; each group of differences has its own shift. doc/format.md,
 * "Lossless". */
#pragma once

#include "codec/format/lossless.h"
#include "codec/model/cost.h"
#include "codec/model/exact.h"

/* A center of smaller magnitude than this is not subtracted. */
#define TERP_LOSSLESS_MIN_CENTER 256

/* The search for a common value. The first values of TERP_COMMON_VALUE_NRUNS
 * sampled runs are candidates; each run has TERP_COMMON_VALUE_RUN_NVALUES
 * values. A candidate is a common value if it is at least one sampled value in
 * TERP_COMMON_VALUE_ONE_IN, and if it repeats in runs of at least
 * TERP_COMMON_VALUE_MIN_RUN values on average. */
#define TERP_COMMON_VALUE_NRUNS 512
#define TERP_COMMON_VALUE_ONE_IN 64
#define TERP_COMMON_VALUE_RUN_NVALUES 32
#define TERP_COMMON_VALUE_MIN_RUN 8

/* Whether a value is common. `nfound` of the sampled values equal it, in
 * `nruns` runs that follow another value. */
static inline TERP_HOST_DEVICE bool
terp_value_is_common(uint64_t nfound, uint64_t nruns, uint64_t nsampled)
{
    return nfound * TERP_COMMON_VALUE_ONE_IN >= nsampled &&
           nfound >= TERP_COMMON_VALUE_MIN_RUN * nruns;
}

static inline TERP_HOST_DEVICE uint64_t
terp_common_value_run_at(uint64_t nvalues, uint64_t i)
{
    const uint64_t distance = nvalues / TERP_COMMON_VALUE_NRUNS + 1;

    return (i * distance + i * 7919 % distance) % nvalues;
}

/* Differences are taken at most this many times along a dimension, and in
 * all. */
#define TERP_LOSSLESS_MAX_ORDER 2
#define TERP_LOSSLESS_MAX_SUM 4

/* The most steps that terp_lossless_steps lists. */
#define TERP_LOSSLESS_MAX_NSTEPS 10

struct terp_lossless_step {
    struct terp_exact exact; /* its significand is 1 */
    enum terp_lossless_form form;
};

/* Lists the steps to try, from the range of values and from the bits that
 * samples have in common (terp_exact_of). The first steps have an integer for
 * every value; the steps at the end only for values with the samples' zeros or
 * grid. Returns their number. */
static inline TERP_HOST_DEVICE int
terp_lossless_steps(
    double min, double max, int value_nbytes, int exponent, int nzeros,
    struct terp_lossless_step step_ret[TERP_LOSSLESS_MAX_NSTEPS])
{
    const int below[] = {0, 3, 6, 10};
    const int of_range = terp_exponent_of_range(min, max) - 1023;
    const int of_last = of_range - terp_mantissa_nbits(value_nbytes);
    const struct terp_lossless_step all = {{1, 0, 0}, TERP_LOSSLESS_STEPS};
    struct terp_lossless_step step = all;
    int n = 0;

    step.exact.exponent = (int16_t)terp_least_exponent(value_nbytes);
    step_ret[n++] = step;
    step.form = TERP_LOSSLESS_REMAINDERS;
    for (int i = 0; i < 4; i++) {
        step.exact.exponent = (int16_t)(of_last - below[i]);
        if (of_last - below[i] > exponent &&
            terp_exponent_is_normal(of_last - below[i], value_nbytes))
            step_ret[n++] = step;
    }
    step.form = TERP_LOSSLESS_MAGNITUDES;
    for (int i = 1; i < 3; i++) {
        step.exact.exponent = (int16_t)(of_range - 3 * i);
        if (terp_exponent_is_normal(of_range - 3 * i, value_nbytes))
            step_ret[n++] = step;
    }
    if (nzeros > 0) {
        step = step_ret[0];
        step.exact.nzeros = (uint8_t)nzeros;
        step_ret[n++] = step;
        step.form = TERP_LOSSLESS_REMAINDERS;
        step.exact.exponent = (int16_t)(of_last + nzeros);
        if (of_last + nzeros > exponent &&
            terp_exponent_is_normal(of_last + nzeros, value_nbytes))
            step_ret[n++] = step;
    }
    step = all;
    step.exact.nzeros = (uint8_t)nzeros;
    step.exact.exponent = (int16_t)exponent;
    if (terp_exponent_is_normal(exponent, value_nbytes))
        step_ret[n++] = step;
    return n;
}

/* Codes of at most this many bits do not escape. */
#define TERP_ABOVE_SHIFT_MAX_NBITS 9

/* The cost, in 1/16 bit, of the code of a difference of `width` bits above a
 * shift. A difference of at most `shift` bits has almost nothing above it. */
static inline TERP_HOST_DEVICE uint32_t
terp_cost_above_shift(int width, int shift, unsigned escape_nbytes)
{
    const int high = width - shift;

    return high > TERP_ABOVE_SHIFT_MAX_NBITS ? 16 * (8 * escape_nbytes + 6)
           : high <= 0                       ? 14
                                             : 24 + 22 * (uint32_t)high;
}

/* The code above a shift: the difference / 2^shift, rounded to nearest, ties
 * up. */
static inline TERP_HOST_DEVICE int64_t
terp_code_above_shift(int64_t difference, int shift)
{
    return shift == 0 ? difference
                      : (difference >> shift) + (difference >> (shift - 1) & 1);
}

/* The part of the difference below the shift, as a number of `shift` bits. */
static inline TERP_HOST_DEVICE uint64_t
terp_number_below_shift(int64_t difference, int shift)
{
    const uint64_t middle = UINT64_C(1) << shift >> 1;

    return ((uint64_t)difference + middle) & ((UINT64_C(1) << shift) - 1);
}

/* The inverse of the two functions above, modulo 2^64. */
static inline TERP_HOST_DEVICE uint64_t
terp_join_shift(int64_t code, uint64_t number, int shift)
{
    return ((uint64_t)code << shift) + number - (UINT64_C(1) << shift >> 1);
}

static inline TERP_HOST_DEVICE int
terp_width_of_difference(int64_t difference)
{
    const uint64_t bits = (uint64_t)difference;

    return bit_width(difference < 0 ? 0 - bits : bits);
}

/* Widths of differences are 0 to 64. */
#define TERP_NWIDTHS 65

/* The range of shifts that may be cheapest, from the least and the largest
 * width of a group's differences. */
struct terp_shift_range {
    int first, last;
};

static inline TERP_HOST_DEVICE struct terp_shift_range
terp_shift_range_of(int least, int most, int max_shift)
{
    const struct terp_shift_range range = {least > 10 ? least - 10 : 0,
                                           most < max_shift ? most : max_shift};

    return range;
}

/* The cost of a group under a shift. `counts` holds the number of differences
 * of each width; widths are `least` to `most`. */
static inline TERP_HOST_DEVICE uint64_t
terp_cost_of_shift(const uint16_t counts[TERP_NWIDTHS], int least, int most,
                   int shift, unsigned escape_nbytes)
{
    uint64_t cost = 0;

    for (int width = least; width <= most; width++)
        cost += counts[width] *
                (16 * (uint64_t)shift +
                 terp_cost_above_shift(width, shift, escape_nbytes));
    return cost;
}

/* Returns the cheapest shift of a group, at most `max_shift`, and its cost. The
 * costs equal those of terp_cost_of_shift. The cost of a shift follows from the
 * cost of the shift before. */
static inline TERP_HOST_DEVICE int
terp_shift_of_group(const uint16_t counts[TERP_NWIDTHS], int max_shift,
                    unsigned escape_nbytes, uint64_t *cost_ret)
{
    const int far = TERP_ABOVE_SHIFT_MAX_NBITS;
    const uint64_t of_low = terp_cost_above_shift(0, 0, escape_nbytes);
    const uint64_t of_1 = terp_cost_above_shift(1, 0, escape_nbytes);
    const uint64_t of_bit = terp_cost_above_shift(2, 0, escape_nbytes) - of_1;
    const uint64_t of_escape = terp_cost_above_shift(far + 1, 0, escape_nbytes);
    int shift = 0, least = 0, most = TERP_NWIDTHS - 1;

    while (least < most && counts[least] == 0)
        least++;
    while (most > 0 && counts[most] == 0)
        most--;
    const struct terp_shift_range range =
        terp_shift_range_of(least, most, max_shift);
    *cost_ret = least > most ? 0 : UINT64_MAX; /* an empty group */
    /* Differences of at most n bits, those whose codes have some bits, with the
     * sum of their widths, and those whose codes escape. */
    uint64_t nlow = 0, ncoded = 0, widths = 0, nescapes = 0;
    for (int width = least; width <= most; width++) {
        const uint64_t count = counts[width];
        const int high = width - range.first;
        nlow += high <= 0 ? count : 0;
        ncoded += high > 0 && high <= far ? count : 0;
        widths += high > 0 && high <= far ? count * (uint64_t)width : 0;
        nescapes += high > far ? count : 0;
    }
    for (int n = range.first; n <= range.last; n++) {
        const uint64_t cost = 16 * (uint64_t)n * (nlow + ncoded + nescapes) +
                              of_low * nlow + of_1 * ncoded +
                              of_bit * (widths - (uint64_t)(n + 1) * ncoded) +
                              of_escape * nescapes;
        if (cost < *cost_ret) {
            *cost_ret = cost;
            shift = n;
        }
        const uint64_t next = n + 1 < TERP_NWIDTHS ? counts[n + 1] : 0;
        const int end = n + 1 + far;
        const uint64_t nearer = end < TERP_NWIDTHS ? counts[end] : 0;
        nlow += next;
        ncoded += nearer - next;
        widths += nearer * (uint64_t)end - next * (uint64_t)(n + 1);
        nescapes -= nearer;
    }
    return shift;
}

/* The cost of a group under a shift, at most `cost`. If nonzero codes are rare,
 * the price from their mean is lower: less than a bit for each code. */
static inline TERP_HOST_DEVICE uint64_t
terp_cost_of_group(const uint16_t counts[TERP_NWIDTHS], int shift,
                   uint64_t cost)
{
    uint64_t n = 0, sum = 0;

    for (int width = 0; width < TERP_NWIDTHS; width++) {
        const int high = width - shift;
        n += counts[width];
        sum += counts[width] * (high < 0 || width == 0 ? 0
                                : high > 9             ? 512
                                : high == 0            ? 1
                                            : UINT64_C(3) << high >> 2);
    }
    const uint64_t by_mean =
        16 * n * (uint64_t)shift + (terp_cost_of_sum(sum, n) >> 6);
    return by_mean < cost ? by_mean : cost;
}
