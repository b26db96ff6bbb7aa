/* The widths of the codes of sampled values: the part of the search for low
 * bits (codec/model/low_bits.h) that depends on the type of values. */
#pragma once

#include "codec/model/exact.h"
#include "codec/model/low_bits.h"
#include "codec/model/value.h"

/* The bits of an error's code. `error` is a fourth of the error. */
TERP_INLINE int
code_width_of(double error, double inverse_step)
{
    const double magnitude = fabs(error) * inverse_step * 4 + 0.5;

    return magnitude < (double)(UINT64_C(1) << TERP_MAX_WIDTH)
               ? bit_width((uint64_t)magnitude)
               : TERP_MAX_WIDTH + 1;
}

/* A fourth of a value, so that sums do not overflow a double; NaN for a value
 * that does not exist or is special. */
TERP_TYPED(T)
TERP_INLINE double
fourth_or_nan(const T *values, const TERP_WORD *fills, bool exists, uint64_t at)
{
    return value_or_nan(values, fills, exists, at) * 0.25;
}

/* The bits of the code of the value at `at` under each interpolation; -1 if the
 * interpolation does not exist. */
TERP_TYPED(T)
TERP_INLINE void
sample_code_widths(const T *values, const TERP_WORD *fills,
                   const struct terp_layout *layout, uint64_t at,
                   double inverse_step, int nzeros,
                   int width_ret[TERP_LOW_BITS_NINTERPOLANTS])
{
    const bool exists = at < layout->nvalues;
    const double v = fourth_or_nan(values, fills, exists, at);
    /* Exact quants are not denser than values. */
    const double ulps =
        (double)TERP_CONST(MANTISSA) / terp_power_of_two(nzeros + 2) / fabs(v);
    const double inverse = ulps < inverse_step ? ulps : inverse_step;
    uint64_t stride = 1;

    for (int i = 0; i < TERP_LOW_BITS_NINTERPOLANTS; i++)
        width_ret[i] = -1;
    for (int d = 0; exists && d < TERP_NDIMS; d++) {
        const uint64_t extent = layout->dims[d], x = at / stride % extent;
        int *width = width_ret + 2 * d;
        if (x >= 1 && x + 1 < extent) {
            const double b = fourth_or_nan(values, fills, true, at - stride);
            const double c = fourth_or_nan(values, fills, true, at + stride);
            const double linear = v - (b + c) * 0.5;
            if (linear == linear)
                width[0] = width[1] = code_width_of(linear, inverse);
            if (x >= 3 && x + 3 < extent) {
                const double a =
                    fourth_or_nan(values, fills, true, at - 3 * stride);
                const double e =
                    fourth_or_nan(values, fills, true, at + 3 * stride);
                const double cubic = v - (b + c) * 0.5625 + (a + e) * 0.0625;
                if (cubic == cubic)
                    width[1] = code_width_of(cubic, inverse);
            }
        } else if (extent == 2) {
            const uint64_t other = x == 0 ? at + stride : at - stride;
            const double copy = v - fourth_or_nan(values, fills, true, other);
            if (copy == copy)
                width[0] = width[1] = code_width_of(copy, inverse);
        }
        stride *= extent;
    }
}

/* The exponent of the lowest set bit of a nonzero value, which is not special,
 * and the number of zero bits below it. */
TERP_TYPED(T)
TERP_INLINE int
last_bit_of(T value, int *nzeros_ret)
{
    const int mantissa_nbits = terp_mantissa_nbits(sizeof(T));
    const TERP_WORD bits = TERP_CALL(bits_of)(TERP_ABS(value));
    const TERP_WORD first = (TERP_WORD)1 << mantissa_nbits;
    const TERP_WORD field = bits >> mantissa_nbits;
    const TERP_WORD digits = (bits & (first - 1)) | (field > 0 ? first : 0);

    /* The position of the lowest set bit is the number of zeros. */
    *nzeros_ret = bit_width(digits & (0 - digits)) - 1;
    return (field > 0 ? (int)field : 1) + terp_min_exponent(sizeof(T)) - 1 -
           mantissa_nbits + *nzeros_ret;
}
