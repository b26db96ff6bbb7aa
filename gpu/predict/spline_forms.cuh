/* What the forms of splines say, by one point's neighbours. */
#ifndef TERP_GPU_PREDICT_SPLINE_FORMS_CUH
#define TERP_GPU_PREDICT_SPLINE_FORMS_CUH

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

/* Of splines that reach far too, by what tells the even point so many above b.
 */
template <typename T, typename F>
static __device__ __forceinline__ T
combine_at(enum terp_form form, const F &at)
{
    switch (form) {
    case TERP_FORM_EIGHT:
        return TERP_EIGHT(at(-3), at(-2), at(-1), at(0), at(1), at(2), at(3),
                          at(4));
    case TERP_FORM_MEAN:
        return TERP_MEAN(at(-3), at(-2), at(-1), at(0), at(1), at(2), at(3),
                         at(4));
    case TERP_FORM_SIX:
        return TERP_SIX(at(-2), at(-1), at(0), at(1), at(2), at(3));
    default:
        return combine(form, terp_form_has_a(form) ? at(-1) : (T)0, at(0),
                       terp_form_has_c(form) ? at(1) : (T)0,
                       terp_form_has_d(form) ? at(2) : (T)0);
    }
}

#endif
