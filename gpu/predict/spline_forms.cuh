/* Computes predictions of splines from the even points around one odd point. A
 * *form* (enum terp_form) is the formula that the existing neighbours allow. */
#pragma once

#include "codec/model/spline.h"

template <typename T>
static __device__ __forceinline__ T
combine(enum terp_form form, T a, T b, T c, T d)
{
    switch (form) {
    case TERP_FORM_COPY:
        return b;
    case TERP_FORM_EXTRAPOLATE:
        return TERP_EXTRAPOLATE(a, b);
    case TERP_FORM_LINEAR:
        return TERP_LINEAR(b, c);
    case TERP_FORM_QUAD_BELOW:
        return TERP_QUAD_BELOW(a, b, c);
    case TERP_FORM_QUAD_ABOVE:
        return TERP_QUAD_ABOVE(b, c, d);
    case TERP_FORM_CUBIC:
        return TERP_CUBIC(a, b, c, d);
    default:
        return TERP_NATURAL(T, a, b, c, d);
    }
}

/* The even points around an odd point that some form reads: FORM_NBELOW below
 * b, b itself, and the points above b. b is the nearest even point below the
 * odd point. */
#define FORM_NBELOW 3
#define FORM_NPOINTS 8
template <typename T> struct reached {
    T at[FORM_NPOINTS];
};

/* Loads the points that a form reads. at(n) returns the even point n steps
 * above b. All points are loaded before the form decides, because the lanes of
 * a warp have different forms and would otherwise load one form after another.
 * Where the form does not read a point, b is loaded in its place and not used.
 */
template <typename T, typename F>
static __device__ __forceinline__ reached<T>
reach(enum terp_form form, const F &at)
{
    reached<T> points;

#pragma unroll
    for (int i = 0; i < FORM_NPOINTS; i++) {
        const int nabove = i - FORM_NBELOW;
        points.at[i] = at(terp_form_has(form, nabove) ? nabove : 0);
    }
    return points;
}

/* Returns the prediction of any form, including forms that read six or eight
 * points. */
template <typename T>
static __device__ __forceinline__ T
combine_reached(enum terp_form form, const T (&points)[FORM_NPOINTS])
{
    const T *b = points + FORM_NBELOW;

    switch (form) {
    case TERP_FORM_EIGHT:
        return TERP_EIGHT(b[-3], b[-2], b[-1], b[0], b[1], b[2], b[3], b[4]);
    case TERP_FORM_MEAN:
        return TERP_MEAN(b[-3], b[-2], b[-1], b[0], b[1], b[2], b[3], b[4]);
    case TERP_FORM_SIX:
        return TERP_SIX(b[-2], b[-1], b[0], b[1], b[2], b[3]);
    default:
        return combine(form, b[-1], b[0], b[1], b[2]);
    }
}

/* Most points have the form that reads all eight neighbours. Then all are
 * loaded without a test of each. */
template <typename T, typename F>
static __device__ __forceinline__ T
combine_at(enum terp_form form, const F &at)
{
    if (form == TERP_FORM_EIGHT)
        return TERP_EIGHT(at(-3), at(-2), at(-1), at(0), at(1), at(2), at(3),
                          at(4));
    return combine_reached(form, reach<T>(form, at).at);
}
