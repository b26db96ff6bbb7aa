/* What the forms of splines say, by one point's neighbours. */
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

/* The even points around an odd one that some form reaches for, three below b
 * the first. */
#define FORM_NBELOW 3
#define FORM_NPOINTS 8
template <typename T> struct reached {
    T at[FORM_NPOINTS];
};

/* By what tells the even point so many above b. Whatever the form is, all
 * points are asked for, before it decides: lanes of a warp have different ones,
 * and the points of one would come after those of the other. Where a form does
 * not reach, b stands in, which nothing is made of. */
template <typename T, typename F>
static __device__ __forceinline__ struct reached<T>
reach(enum terp_form form, const F &at) {
    struct reached<T> points;

#pragma unroll
    for (int i = 0; i < FORM_NPOINTS; i++) {
        const int nabove = i - FORM_NBELOW;
        points.at[i] = at(terp_form_has(form, nabove) ? nabove : 0);
    }
    return points;
}

/* Of splines that reach far too. */
template <typename T>
static __device__ __forceinline__ T
combine_reached(enum terp_form form, const struct reached<T> &points)
{
    const T *b = points.at + FORM_NBELOW;

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

template <typename T, typename F>
static __device__ __forceinline__ T
combine_at(enum terp_form form, const F &at)
{
    return combine_reached(form, reach<T>(form, at));
}
