/* Computes predictions of splines from the even points around one odd point. A
 * *stencil* (enum terp_stencil) is the formula that the existing neighbours
 * allow. */
#pragma once

#include "codec/model/spline.h"

template <typename T>
static __device__ __forceinline__ T
combine(enum terp_stencil stencil, T a, T b, T c, T d)
{
    switch (stencil) {
    case TERP_STENCIL_COPY:
        return b;
    case TERP_STENCIL_EXTRAPOLATE:
        return TERP_EXTRAPOLATE(a, b);
    case TERP_STENCIL_LINEAR:
        return TERP_LINEAR(b, c);
    case TERP_STENCIL_QUAD_BELOW:
        return TERP_QUAD_BELOW(a, b, c);
    case TERP_STENCIL_QUAD_ABOVE:
        return TERP_QUAD_ABOVE(b, c, d);
    case TERP_STENCIL_CUBIC:
        return TERP_CUBIC(a, b, c, d);
    default:
        return TERP_NATURAL(T, a, b, c, d);
    }
}

/* The even points around an odd point that some stencil reads: STENCIL_NBELOW
 * below b, b itself, and the points above b. b is the nearest even point below
 * the odd point. */
#define STENCIL_NBELOW 3
#define STENCIL_NPOINTS 8
template <typename T> struct reached {
    T at[STENCIL_NPOINTS];
};

/* Loads the points that a stencil reads. at(n) returns the even point n steps
 * above b. All points are loaded before the stencil decides, because the lanes
 * of a warp have different stencils and would otherwise load one stencil after
 * another. Where the stencil does not read a point, b is loaded in its place
 * and not used.
 */
template <typename T, typename F>
static __device__ __forceinline__ reached<T>
reach(enum terp_stencil stencil, const F &at)
{
    reached<T> points;

#pragma unroll
    for (int i = 0; i < STENCIL_NPOINTS; i++) {
        const int nabove = i - STENCIL_NBELOW;
        points.at[i] = at(terp_stencil_has(stencil, nabove) ? nabove : 0);
    }
    return points;
}

/* Returns the prediction of any stencil, including stencils that read six or
 * eight points. */
template <typename T>
static __device__ __forceinline__ T
combine_reached(enum terp_stencil stencil, const T (&points)[STENCIL_NPOINTS])
{
    const T *b = points + STENCIL_NBELOW;

    switch (stencil) {
    case TERP_STENCIL_EIGHT:
        return TERP_EIGHT(b[-3], b[-2], b[-1], b[0], b[1], b[2], b[3], b[4]);
    case TERP_STENCIL_MEAN:
        return TERP_MEAN(b[-3], b[-2], b[-1], b[0], b[1], b[2], b[3], b[4]);
    case TERP_STENCIL_SIX:
        return TERP_SIX(b[-2], b[-1], b[0], b[1], b[2], b[3]);
    default:
        return combine(stencil, b[-1], b[0], b[1], b[2]);
    }
}

/* Most points have the stencil that reads all eight neighbours. Then all are
 * loaded without a test of each. */
template <typename T, typename F>
static __device__ __forceinline__ T
combine_at(enum terp_stencil stencil, const F &at)
{
    if (stencil == TERP_STENCIL_EIGHT)
        return TERP_EIGHT(at(-3), at(-2), at(-1), at(0), at(1), at(2), at(3),
                          at(4));
    return combine_reached(stencil, reach<T>(stencil, at).at);
}
