/* The arithmetic of the spline predictor and the quantizer, in the
 * one order of operations that every engine follows. Both compilers read
 * this file; neither may contract or reassociate it.
 *
 * A point is predicted along one dimension from the four lattice points
 * around it: a, b below and c, d above (b and c are the nearest). The forms
 * are the splines of cuSZ-I and cuSZ-Hi (Liu et al., SC 2024; Wu et al.,
 * 2025), and what is left of them at a border. */
#ifndef TERP_CODEC_MODEL_SPLINE_H
#define TERP_CODEC_MODEL_SPLINE_H

#include "codec/format/base.h"

/* A level's spline. Values are pinned: part of the stream. */
enum terp_spline {
    TERP_SPLINE_CUBIC = 0,   /* not-a-knot */
    TERP_SPLINE_NATURAL = 1, /* natural cubic */
    TERP_SPLINE_LINEAR = 2
};
#define TERP_NSPLINES 3

/* What a point's neighbours allow. Ordered: a form of higher order is
 * preferred, see terp_form_order. */
enum terp_form {
    TERP_FORM_COPY,        /* b */
    TERP_FORM_EXTRAPOLATE, /* a, b */
    TERP_FORM_LINEAR,      /* b, c */
    TERP_FORM_QUAD_BELOW,  /* a, b, c */
    TERP_FORM_QUAD_ABOVE,  /* b, c, d */
    TERP_FORM_CUBIC,       /* a, b, c, d */
    TERP_FORM_NATURAL      /* a, b, c, d */
};

/* Forms of equal order are averaged; of different order the higher counts. */
static inline TERP_HOST_DEVICE int
terp_form_order(enum terp_form form)
{
    return form <= TERP_FORM_QUAD_BELOW   ? (int)form
           : form == TERP_FORM_QUAD_ABOVE ? 3
                                          : 4;
}

/* Which neighbours a form reads: others may not exist. */
static inline TERP_HOST_DEVICE bool
terp_form_has_a(int form)
{
    return form != TERP_FORM_COPY && form != TERP_FORM_LINEAR &&
           form != TERP_FORM_QUAD_ABOVE;
}

static inline TERP_HOST_DEVICE bool
terp_form_has_c(int form)
{
    return form >= TERP_FORM_LINEAR;
}

static inline TERP_HOST_DEVICE bool
terp_form_has_d(int form)
{
    return form >= TERP_FORM_QUAD_ABOVE;
}

/* The form for the odd point between even points i and i + 1 of `neven`. */
static inline TERP_HOST_DEVICE enum terp_form
terp_form_at(enum terp_spline spline, uint64_t i, uint64_t neven)
{
    if (i + 1 >= neven)
        return i >= 1 ? TERP_FORM_EXTRAPOLATE : TERP_FORM_COPY;
    if (spline == TERP_SPLINE_LINEAR)
        return TERP_FORM_LINEAR;
    if (i >= 1 && i + 2 < neven)
        return spline == TERP_SPLINE_CUBIC ? TERP_FORM_CUBIC
                                           : TERP_FORM_NATURAL;
    return i >= 1          ? TERP_FORM_QUAD_BELOW
           : i + 2 < neven ? TERP_FORM_QUAD_ABOVE
                           : TERP_FORM_LINEAR;
}

/* The dimensions that predict a class of points whose coordinates are odd in
 * `odd`: those of the highest priority (two bits a dimension). Equal
 * priorities give the multi-dimensional scheme, distinct ones a sweep along
 * one dimension after another. */
static inline TERP_HOST_DEVICE unsigned
terp_predicting_dims(unsigned odd, unsigned priorities)
{
    unsigned best = 0, dims = 0;
    for (int d = 0; d < 4; d++) {
        unsigned priority = priorities >> (2 * d) & 3;
        if (!(odd >> d & 1) || priority < best)
            continue;
        if (priority > best)
            dims = 0;
        best = priority;
        dims |= 1u << d;
    }
    return dims;
}

/* Priorities that are all equal, and say that points with two or three odd
 * dimensions, inside, are predicted by blending (Gordon, 1971: boolean sums of
 * linear interpolants) instead of averaging: in pairs of dimensions or fully.
 * Pinned: part of the stream. */
#define TERP_BLEND_PAIRS 0xAA
#define TERP_BLEND_FULL 0xFF

/* Dimensions that are blended at a time; 1: none. */
static inline TERP_HOST_DEVICE int
terp_blend_order(unsigned priorities)
{
    return priorities == TERP_BLEND_PAIRS  ? 2
           : priorities == TERP_BLEND_FULL ? 3
                                           : 1;
}

/* Fractions that no binary number is, rounded to the type T of the values. */
#define TERP_THIRD(T) ((T)(1.0 / 3))
#define TERP_TWELFTH(T) ((T)(1.0 / 12))
#define TERP_FORTIETH(T) ((T)0.025)

/* What a sum of n predictions, 1 to 4, is multiplied by. */
#define TERP_SHARE(T, n) \
    ((n) == 2 ? (T)0.5 : (n) == 3 ? TERP_THIRD(T) : (n) == 4 ? (T)0.25 : (T)1)

/* Sums of the points around one that has two, or three, odd dimensions: of
 * those that differ from it in one dimension, in two, in three. */
#define TERP_BLEND_2(faces, edges) ((faces)*0.5f - (edges)*0.25f)
#define TERP_BLEND_3_PAIRS(T, faces, edges) \
    ((faces)*TERP_THIRD(T) - (edges)*TERP_TWELFTH(T))
#define TERP_BLEND_3_FULL(faces, edges, corners) \
    (((faces)*0.5f - (edges)*0.25f) + (corners)*0.125f)

#define TERP_CUBIC(a, b, c, d) ((9 * ((b) + (c)) - ((a) + (d))) * 0.0625f)
#define TERP_QUAD_BELOW(a, b, c) ((6 * (b) + 3 * (c) - (a)) * 0.125f)
#define TERP_QUAD_ABOVE(b, c, d) ((3 * (b) + 6 * (c) - (d)) * 0.125f)
#define TERP_LINEAR(b, c) (((b) + (c)) * 0.5f)
#define TERP_EXTRAPOLATE(a, b) (1.5f * (b)-0.5f * (a))
#define TERP_NATURAL(T, a, b, c, d) \
    ((23 * ((b) + (c)) - 3 * ((a) + (d))) * TERP_FORTIETH(T))

#endif
