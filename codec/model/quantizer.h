/* The quantizer. A code stands for the difference between a value and its
 * prediction; escaped values are put on a grid. Every engine takes these steps
 * in this order; no compiler may contract or reassociate them. */
#pragma once

#include "codec/format/limits.h"
#include "codec/model/exact.h"
#include "codec/model/lorenzo.h"
#include "codec/model/value.h"

/* The largest T that does not exceed the bound. */
TERP_TYPED(T)
TERP_INLINE T
limit_of(double bound)
{
    T limit = bound < TERP_CONST(MAX) ? (T)bound : TERP_CONST(MAX);

    if ((double)limit > bound) {
        const TERP_WORD below = bits_of(limit) - 1;
        memcpy(&limit, &below, sizeof limit);
    }
    return limit;
}

/* Constants of a level. */
TERP_TYPED(T)
struct constants {
    T step, inverse, limit, max_code;
};

TERP_TYPED(T)
TERP_INLINE
TERP_STRUCT(constants) constants_of(double step, double bound, int max_code)
{
    /* The product of the step and a code of the dictionary must not overflow.
     * That of a wide code may; it becomes an escape. */
    const double largest = TERP_CONST(MAX) / (4 * TERP_RADIUS);
    TERP_STRUCT(constants) k;

    k.step = (T)(step < largest ? step : largest);
    k.inverse = (T)1 / k.step;
    k.limit = TERP_CALL(limit_of)(bound);
    k.max_code = (T)max_code;
    return k;
}

/* Declares four variables: `rounded`, whose low bits are the code; `code`, the
 * code as a T; `rec`, the value that a decoder computes; `fits`, whether the
 * error is below the limit. The comparison is strict: only then does a rounded
 * difference prove the exact one. It is a macro because vector loops and
 * kernels use different ones of the variables. */
#define TERP_QUANTIZE(value, pred, k, rounded, code, rec, fits)         \
    T rounded = ((value) - (pred)) * (k).inverse + TERP_CONST(ROUNDER); \
    T code = rounded - TERP_CONST(ROUNDER);                             \
    T rec = (pred) + code * (k).step;                                   \
    bool fits = ((int)(TERP_ABS(code) <= (k).max_code) &                \
                 (int)(TERP_ABS((value)-rec) < (k).limit)) != 0

/* The magnitude of the code of a sampled value as a T, not rounded. `noise`
 * stands for errors of the values that predict it. Special values are NaN, and
 * so is any result that depends on one. */
TERP_TYPED(T)
TERP_INLINE T
sampled_magnitude(T value, T pred, T noise, T inverse)
{
    return TERP_ABS((value - pred) * inverse + noise);
}

/* ---- escapes ---- */

/* The grid of escaped values: whole steps of a level with the full bound,
 * counted from the reference value. */
TERP_TYPED(T)
struct value_grid {
    T reference, step, inverse, limit;
};

TERP_TYPED(T)
struct grid_point {
    T nsteps, value;
    bool fits; /* within the bound, and nsteps_to(value) is nsteps */
};

TERP_TYPED(T)
TERP_INLINE T
nsteps_to(TERP_STRUCT(value_grid) grid, T value)
{
    return ((value - grid.reference) * grid.inverse + TERP_CONST(ROUNDER)) -
           TERP_CONST(ROUNDER);
}

TERP_TYPED(T)
TERP_INLINE T
value_on_grid(TERP_STRUCT(value_grid) grid, T nsteps)
{
    return grid.reference + nsteps * grid.step;
}

/* The grid point nearest to `value`. */
TERP_TYPED(T)
TERP_INLINE
TERP_STRUCT(grid_point) find_on_grid(TERP_STRUCT(value_grid) grid, T value)
{
    TERP_STRUCT(grid_point) point;

    point.nsteps = nsteps_to(grid, value);
    point.value = value_on_grid(grid, point.nsteps);
    point.fits = TERP_ABS(point.nsteps) <= TERP_CONST(MAX_QUANT) &&
                 TERP_ABS(value - point.value) < grid.limit &&
                 nsteps_to(grid, point.value) == point.nsteps;
    return point;
}

/* ---- lorenzo's quants ---- */

/* The integer that stands for `value`, as a T. *fits_ret: whether it reproduces
 * the value within the bound. */
TERP_TYPED(T)
TERP_INLINE T
nearest_quant(T value, TERP_STRUCT(constants) k, bool *fits_ret)
{
    const T scaled = value * k.inverse;
    bool fits = TERP_ABS(scaled) <= TERP_CONST(MAX_QUANT);
    const T quant =
        ((fits ? scaled : (T)0) + TERP_CONST(ROUNDER)) - TERP_CONST(ROUNDER);

    fits &= TERP_ABS(value - quant * k.step) < k.limit;
    *fits_ret = fits;
    return quant;
}

/* Whether the error is far below the bound: at most a 16th. */
TERP_TYPED(T)
TERP_INLINE bool
is_near(T value, T other, T limit)
{
    return TERP_ABS(value - other) * 16 <= limit;
}

/* ---- lorenzo's exact quants ---- */

/* The constants of exact quants in the type T. */
TERP_TYPED(T)
struct exact_quants {
    T step, inverse, half, limit;
    T count;         /* number of steps below the counted values */
    TERP_WORD first; /* `first`: the bits of the value at `count` */
    int nzeros;
};

TERP_TYPED(T)
TERP_INLINE
TERP_STRUCT(exact_quants) exact_quants_of(struct terp_exact exact, double bound)
{
    const bool all_counted =
        exact.exponent == terp_least_exponent((int)sizeof(T));
    const TERP_WORD count =
        all_counted ? 0 : (TERP_WORD)TERP_CONST(MANTISSA) >> exact.nzeros;
    TERP_STRUCT(exact_quants) k;

    k.step = all_counted ? (T)1 : (T)terp_exact_step(exact);
    k.inverse = (T)1 / k.step;
    k.half = k.step * (T)0.5;
    k.limit = TERP_CALL(limit_of)(bound);
    k.count = (T)count;
    k.first = TERP_CALL(bits_of)(k.count * k.step);
    k.nzeros = exact.nzeros;
    return k;
}

TERP_TYPED(T)
TERP_INLINE T
value_of_exact_quant(TERP_INT quant, TERP_STRUCT(exact_quants) k)
{
    const TERP_WORD sign = (TERP_WORD)(quant < 0);
    const TERP_WORD magnitude = ((TERP_WORD)quant ^ (0 - sign)) + sign;
    const TERP_WORD count = (TERP_WORD)k.count;
    const TERP_WORD bits =
        magnitude < count ? TERP_CALL(bits_of)((T)(TERP_INT)magnitude * k.step)
                          : k.first + ((magnitude - count) << k.nzeros);
    const TERP_WORD with_sign = bits | sign << (8 * sizeof(T) - 1);
    T value;

    memcpy(&value, &with_sign, sizeof value);
    return value;
}

/* The integer that stands for `value`. *fits_ret: whether it reproduces the
 * value within the bound (bit for bit if the bound is 0); false for NaN and
 * infinities. */
TERP_TYPED(T)
TERP_INLINE TERP_INT
nearest_exact_quant(T value, TERP_STRUCT(exact_quants) k, bool *fits_ret)
{
    const T magnitude = TERP_ABS(value);
    const TERP_WORD bits = TERP_CALL(bits_of)(magnitude);
    TERP_INT quant;

    if (bits < k.first) {
        T nsteps = (magnitude * k.inverse + TERP_CONST(MANTISSA)) -
                   TERP_CONST(MANTISSA);
        /* The product was rounded, so the number of steps may be off by one. */
        const T left = magnitude - nsteps * k.step;
        nsteps += (T)((int)(left > k.half) - (int)(left < -k.half));
        quant = (TERP_INT)nsteps;
    } else {
        quant = (TERP_INT)(((bits - k.first) >> k.nzeros) + (TERP_WORD)k.count);
    }
    quant = value < 0 ? -quant : quant;
    /* Both are so close that their difference is exact (Sterbenz), so a tie is
     * within the bound. */
    const T rec = TERP_CALL(value_of_exact_quant)(quant, k);
    *fits_ret =
        TERP_ABS(value - rec) <= k.limit &&
        (k.limit > 0 || TERP_CALL(bits_of)(value) == TERP_CALL(bits_of)(rec));
    return quant;
}

/* The code of a difference above a tail of `tail_nbits`: rounded to nearest,
 * ties up. */
TERP_TYPED(T)
TERP_INLINE TERP_INT
code_above_tail(TERP_WORD difference, int tail_nbits)
{
    const TERP_WORD round_up = (TERP_WORD)1 << tail_nbits >> 1;
    return (TERP_INT)(difference + round_up) >> tail_nbits;
}

/* The mean of `count` quants whose sum is `sum`, rounded to nearest, ties
 * towards minus infinity: negative sums s are computed as -1 - (-1 - s) / n.
 * Most means have eight quants. */
TERP_TYPED(WORD)
TERP_INLINE WORD
mean_of_quants(WORD sum, WORD count)
{
    sum += count / 2;
    const WORD sign = 0 - (sum >> (8 * sizeof(WORD) - 1));
    const WORD magnitude = sum ^ sign;
    return (count == 8 ? magnitude / 8 : magnitude / count) ^ sign;
}

/* The weight of a difference when means are compared with differences, in steps
 * above the low bits. */
TERP_TYPED(WORD)
TERP_INLINE uint32_t
weight_of_difference(WORD difference, int low_nbits)
{
    const WORD opposite = 0 - difference;
    const WORD magnitude =
        (difference < opposite ? difference : opposite) >> low_nbits;

    return (uint32_t)(magnitude < TERP_MEANS_MAX_MAGNITUDE
                          ? magnitude
                          : TERP_MEANS_MAX_MAGNITUDE);
}
