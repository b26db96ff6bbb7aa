/* The arithmetic of the spline predictor, in the one order of operations that
 * every engine follows. Both compilers read this file; neither may contract or
 * reassociate it.
 *
 * A point is predicted along one dimension from the four lattice points around
 * it: a, b below and c, d above; b and c are the nearest. The stencils are the
 * splines of cuSZ-I and cuSZ-Hi (Liu et al., SC 2024; Wu et al., 2025), reduced
 * at borders. Long splines use two or four more points: z and y below a, y the
 * nearer, and u and v above d. */
#pragma once

#include "codec/format/base.h"

/* A level's spline. Values are pinned: they are part of the stream. */
enum terp_spline {
    TERP_SPLINE_CUBIC = 0,   /* not-a-knot */
    TERP_SPLINE_NATURAL = 1, /* natural cubic */
    TERP_SPLINE_LINEAR = 2,
    TERP_SPLINE_LONG = 3, /* eight points; at borders six, or cubic */
    TERP_SPLINE_MEAN = 4  /* the mean of eight points; at borders linear */
};
#define TERP_NSPLINES 5

/* The stencils that a point's neighbours allow, in ascending order: a stencil
 * of higher order is preferred (terp_stencil_order). */
enum terp_stencil {
    TERP_STENCIL_COPY,        /* b */
    TERP_STENCIL_EXTRAPOLATE, /* a, b */
    TERP_STENCIL_LINEAR,      /* b, c */
    TERP_STENCIL_QUAD_BELOW,  /* a, b, c */
    TERP_STENCIL_QUAD_ABOVE,  /* b, c, d */
    TERP_STENCIL_CUBIC,       /* a, b, c, d */
    TERP_STENCIL_NATURAL,     /* a, b, c, d */
    TERP_STENCIL_SIX,         /* y, a, b, c, d, u */
    TERP_STENCIL_EIGHT,       /* z, y, a, b, c, d, u, v */
    TERP_STENCIL_MEAN         /* as EIGHT */
};

/* When several dimensions predict a point, only the stencils of the highest
 * order count; they are averaged. */
static inline TERP_HOST_DEVICE int
terp_stencil_order(enum terp_stencil stencil)
{
    return stencil <= TERP_STENCIL_QUAD_BELOW   ? (int)stencil
           : stencil == TERP_STENCIL_QUAD_ABOVE ? 3
                                                : 4;
}

/* Whether a stencil reads a neighbour. A neighbour that it does not read may
 * not exist. */
static inline TERP_HOST_DEVICE bool
terp_stencil_has_a(int stencil)
{
    return stencil != TERP_STENCIL_COPY && stencil != TERP_STENCIL_LINEAR &&
           stencil != TERP_STENCIL_QUAD_ABOVE;
}

static inline TERP_HOST_DEVICE bool
terp_stencil_has_c(int stencil)
{
    return stencil >= TERP_STENCIL_LINEAR;
}

static inline TERP_HOST_DEVICE bool
terp_stencil_has_d(int stencil)
{
    return stencil >= TERP_STENCIL_QUAD_ABOVE;
}

/* Whether a stencil reads the even point `nabove` above b. */
static inline TERP_HOST_DEVICE bool
terp_stencil_has(int stencil, int nabove)
{
    return nabove == -1                  ? terp_stencil_has_a(stencil)
           : nabove == 0                 ? true
           : nabove == 1                 ? terp_stencil_has_c(stencil)
           : nabove == 2                 ? terp_stencil_has_d(stencil)
           : nabove == -2 || nabove == 3 ? stencil >= TERP_STENCIL_SIX
                                         : stencil >= TERP_STENCIL_EIGHT;
}

/* Whether a spline reads more than four points. Such splines are for large
 * levels, and have kernels of their own. */
static inline TERP_HOST_DEVICE bool
terp_spline_is_far(int spline)
{
    return spline >= TERP_SPLINE_LONG;
}

/* The mean's stencil where a long spline has this stencil. */
static inline TERP_HOST_DEVICE enum terp_stencil
terp_mean_stencil(enum terp_stencil stencil)
{
    return stencil == TERP_STENCIL_EIGHT   ? TERP_STENCIL_MEAN
           : stencil > TERP_STENCIL_LINEAR ? TERP_STENCIL_LINEAR
                                           : stencil;
}

/* terp_stencil_at for all splines except the mean. */
static inline TERP_HOST_DEVICE enum terp_stencil
terp_stencil_of_other(enum terp_spline spline, uint64_t i, uint64_t neven)
{
    if (i + 1 >= neven)
        return i >= 1 ? TERP_STENCIL_EXTRAPOLATE : TERP_STENCIL_COPY;
    if (spline == TERP_SPLINE_LINEAR)
        return TERP_STENCIL_LINEAR;
    if (i >= 1 && i + 2 < neven) {
        if (spline == TERP_SPLINE_NATURAL)
            return TERP_STENCIL_NATURAL;
        return spline == TERP_SPLINE_CUBIC || i < 2 || i + 3 >= neven
                   ? TERP_STENCIL_CUBIC
               : i < 3 || i + 4 >= neven ? TERP_STENCIL_SIX
                                         : TERP_STENCIL_EIGHT;
    }
    return i >= 1          ? TERP_STENCIL_QUAD_BELOW
           : i + 2 < neven ? TERP_STENCIL_QUAD_ABOVE
                           : TERP_STENCIL_LINEAR;
}

/* The stencil of the odd point between the even points i and i + 1 of `neven`.
 */
static inline TERP_HOST_DEVICE enum terp_stencil
terp_stencil_at(enum terp_spline spline, uint64_t i, uint64_t neven)
{
    return spline == TERP_SPLINE_MEAN ? terp_mean_stencil(terp_stencil_of_other(
                                            TERP_SPLINE_LONG, i, neven))
                                      : terp_stencil_of_other(spline, i, neven);
}

/* The dimensions that predict a class whose coordinates are odd in `odd`: those
 * of the highest priority (two bits for each dimension). Equal priorities give
 * the multi-dimensional scheme, distinct ones a sweep along one dimension after
 * another. */
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

/* Two values of priorities, all equal, that say: inner points of two or three
 * odd dimensions are predicted by blending (Gordon, 1971: boolean sums of
 * linear interpolants) in place of averaging, in pairs of dimensions or fully.
 * Long splines only blend fully: the linear interpolants along the other odd
 * dimensions have known errors at the even points of a line along the fastest
 * odd dimension, and the long spline interpolates these errors. Values are
 * pinned: they are part of the stream. */
#define TERP_BLEND_PAIRS 0xAA
#define TERP_BLEND_FULL 0xFF

/* The number of dimensions that are blended together; 1: no blending. */
static inline TERP_HOST_DEVICE int
terp_blend_order(unsigned priorities)
{
    return priorities == TERP_BLEND_PAIRS  ? 2
           : priorities == TERP_BLEND_FULL ? 3
                                           : 1;
}

/* Fractions that are not binary numbers, rounded to the type T of the
 * values. */
#define TERP_THIRD(T) ((T)(1.0 / 3))
#define TERP_TWELFTH(T) ((T)(1.0 / 12))
#define TERP_FORTIETH(T) ((T)0.025)

/* Whether a long spline blends a level's points of two or three odd
 * dimensions. */
static inline TERP_HOST_DEVICE bool
terp_blends_long(enum terp_spline spline, int blend_order)
{
    return spline == TERP_SPLINE_LONG && blend_order > 1;
}

/* The factor that turns a sum of n predictions, 1 to 4, into their average. */
#define TERP_SHARE(T, n) \
    ((n) == 2 ? (T)0.5 : (n) == 3 ? TERP_THIRD(T) : (n) == 4 ? (T)0.25 : (T)1)

/* Blending of a point of two or three odd dimensions, from the sums of the
 * points that differ from it in one dimension (faces), in two (edges), in three
 * (corners). */
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
/* Lagrange polynomials of degree 5 and 7. */
#define TERP_SIX(y, a, b, c, d, u) \
    (((150 * ((b) + (c)) - 25 * ((a) + (d))) + 3 * ((y) + (u))) * 0.00390625f)
#define TERP_EIGHT(z, y, a, b, c, d, u, v)       \
    (((1225 * ((b) + (c)) - 245 * ((a) + (d))) + \
      (49 * ((y) + (u)) - 5 * ((z) + (v)))) *    \
     0.00048828125f)
#define TERP_MEAN(z, y, a, b, c, d, u, v) \
    (((((b) + (c)) + ((a) + (d))) + (((y) + (u)) + ((z) + (v)))) * 0.125f)
