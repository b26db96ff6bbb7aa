/* Logarithms of values to base 2, and back; codec/model/pointwise.h says what
 * for. Both engines take these steps in this order; no compiler may contract or
 * reassociate them. Nothing here calls libm, because a stream must not depend
 * on it. */
#pragma once

#include "codec/model/pointwise.h"
#include "codec/model/value.h"

/* ---- the arithmetic of a logarithm, in either type ---- */

/* log2((1 + s) / (1 - s)) / s as a polynomial in z = s^2, for z up to (3 -
 * 2^1.5)^2 = 0.0295, by interpolation at Chebyshev's nodes. Errors of the
 * product with s are below 2^-31 (float32) and 2^-60 (float64). */
TERP_INLINE float
terp_log_series_f32(float z)
{
    return 0x1.715476p+1f +
           z * (0x1.ec70e6p-1f + z * (0x1.274734p-1f + z * 0x1.ba14bcp-2f));
}

TERP_INLINE double
terp_log_series_f64(double z)
{
    return 0x1.71547652b82fep+1 +
           z * (0x1.ec709dc3a047dp-1 +
                z * (0x1.2776c50ee39a4p-1 +
                     z * (0x1.a61762d699b46p-2 +
                          z * (0x1.484afb77d8797p-2 +
                               z * (0x1.0ca160eda205bp-2 +
                                    z * (0x1.c46df723fd2ebp-3 +
                                         z * 0x1.b594042f590e9p-3))))));
}

/* The logarithm y. The center is already subtracted from `k`. */
TERP_INLINE float
terp_log_f32(float k, float m, float offset)
{
    const float s = (m - 1.0f) / (m + 1.0f);
    return k + (s * terp_log_series_f32(s * s) + offset);
}

TERP_INLINE double
terp_log_f64(double k, double m, double offset)
{
    const double s = (m - 1.0) / (m + 1.0);
    return k + (s * terp_log_series_f64(s * s) + offset);
}

/* 2^r for r from -1/2 to 1/2. Relative errors of the series are below 2^-27 and
 * 2^-57. */
TERP_INLINE float
terp_exp_f32(float r)
{
    const float q =
        0x1.62e430p-1f +
        r * (0x1.ebfbe0p-3f +
             r * (0x1.c6af6cp-5f +
                  r * (0x1.3b2a54p-7f +
                       r * (0x1.5f0890p-10f + r * 0x1.44138ap-13f))));
    return 1.0f + r * q;
}

TERP_INLINE double
terp_exp_f64(double r)
{
    const double high = 0x1.430913096fd9fp-13 +
                        r * (0x1.ffcbfc670dcd4p-17 +
                             r * (0x1.62bfd47773353p-20 +
                                  r * (0x1.b524fae627834p-24 +
                                       r * (0x1.e6063f7217bc6p-28 +
                                            r * 0x1.e9d3fe3952179p-32))));
    const double q = 0x1.62e42fefa39efp-1 +
                     r * (0x1.ebfbdff82c598p-3 +
                          r * (0x1.c6b08d704a0c2p-5 +
                               r * (0x1.3b2ab6fba1ddap-7 +
                                    r * (0x1.5d87fe78a5276p-10 + r * high))));
    return 1.0 + r * q;
}

/* ---- values to logarithms ---- */

/* Values below twice the smallest normal number are tiny. */
#define TERP_F32_TINY 0x1p-125f
#define TERP_F64_TINY 0x1p-1021

/* The bits of sqrt(1/2). Subtracting them from a value's bits makes mantissas
 * from sqrt(2) on count for the next exponent. */
#define TERP_F32_SQRT_HALF UINT32_C(0x3F3504F3)
#define TERP_F64_SQRT_HALF UINT64_C(0x3FE6A09E667F3BCD)

/* k and m of the magnitude of a normal value, from its bits. */
TERP_INLINE void
terp_split_f32(uint32_t bits, int32_t *k_ret, float *m_ret)
{
    const uint32_t above = bits - TERP_F32_SQRT_HALF + (UINT32_C(127) << 23);
    const uint32_t biased = above >> 23;
    const uint32_t m = bits - (biased << 23) + (UINT32_C(127) << 23);

    *k_ret = (int32_t)biased - 127;
    memcpy(m_ret, &m, sizeof m);
}

/* Returns k as a double. Processors do not convert 64-bit integers in vectors,
 * so the exponent's field becomes the lowest bits of the double 2^52 + field.
 */
TERP_INLINE void
terp_split_f64(uint64_t bits, double *k_ret, double *m_ret)
{
    const uint64_t above = bits - TERP_F64_SQRT_HALF + (UINT64_C(1023) << 52);
    const uint64_t biased = above >> 52;
    const uint64_t m = bits - (biased << 52) + (UINT64_C(1023) << 52);

    *k_ret = double_of_bits(biased | UINT64_C(0x4330000000000000)) -
             (4503599627370496.0 + 1023.0);
    *m_ret = double_of_bits(m);
}

/* k minus the center, and m, in the type of the logarithm: of a float32 in
 * float32; of a float64 in float32; and, in terp_log_of_f64, of either type in
 * float64. */
TERP_INLINE void
terp_split_f32_in_f32(float magnitude, int center, float *k_ret, float *m_ret)
{
    uint32_t bits;
    int32_t k;

    memcpy(&bits, &magnitude, sizeof bits);
    terp_split_f32(bits, &k, m_ret);
    *k_ret = (float)(k - center);
}

TERP_INLINE void
terp_split_f64_in_f32(double magnitude, int center, float *k_ret, float *m_ret)
{
    double k, m;

    terp_split_f64(double_bits(magnitude), &k, &m);
    *k_ret = (float)(k - center);
    *m_ret = (float)m;
}

TERP_INLINE double
terp_log_of_f64(double magnitude, int center, double offset)
{
    double k, m;

    terp_split_f64(double_bits(magnitude), &k, &m);
    return terp_log_f64(k - center, m, offset);
}

/* ---- with a floor ---- */

/* The factor for magnitudes up to the joint, and its inverse. */
static inline TERP_HOST_DEVICE double
terp_floor_scale(double joint)
{
    return TERP_LOG2_E / joint;
}

static inline TERP_HOST_DEVICE double
terp_floor_slope(double joint)
{
    return joint / TERP_LOG2_E;
}

/* ---- logarithms to values ---- */

/* Limits y to `low` .. `high`; NaN gives `low`. */
TERP_INLINE float
terp_clamp_f32(float y, float low, float high)
{
    const float above = y > low ? y : low;
    return above < high ? above : high;
}

TERP_INLINE double
terp_clamp_f64(double y, double low, double high)
{
    const double above = y > low ? y : low;
    return above < high ? above : high;
}

/* 2^(y + center), at most the largest finite value. */
TERP_INLINE float
terp_f32_of_log(float y, int center)
{
    const float clamped =
        terp_clamp_f32(y, (float)(-125 - center), (float)(128 - center));
    const float n = (clamped + TERP_F32_ROUNDER) - TERP_F32_ROUNDER;
    const float p = terp_exp_f32(clamped - n);
    uint32_t bits;
    float value;

    memcpy(&bits, &p, sizeof bits);
    bits += (uint32_t)((int32_t)n + center) << 23;
    memcpy(&value, &bits, sizeof value);
    return value < FLT_MAX ? value : FLT_MAX;
}

/* p * 2^n for a whole n: the low bits of the sum are n. */
TERP_INLINE double
terp_scale_f64(double p, double n)
{
    return double_of_bits(double_bits(p) +
                          (double_bits(n + TERP_F64_ROUNDER) << 52));
}

TERP_INLINE double
terp_f64_of_log(double y, int center)
{
    const double clamped = terp_clamp_f64(y, -1021.0 - center, 1024.0 - center);
    const double n = (clamped + TERP_F64_ROUNDER) - TERP_F64_ROUNDER;
    const double value = terp_scale_f64(terp_exp_f64(clamped - n), n + center);

    return value < DBL_MAX ? value : DBL_MAX;
}

TERP_INLINE double
terp_f64_of_log_in_f32(float y, int center)
{
    const float clamped =
        terp_clamp_f32(y, (float)(-1021 - center), (float)(1024 - center));
    const float n = (clamped + TERP_F32_ROUNDER) - TERP_F32_ROUNDER;
    const double value =
        terp_scale_f64((double)terp_exp_f32(clamped - n), (double)n + center);

    return value < DBL_MAX ? value : DBL_MAX;
}

TERP_INLINE float
terp_f32_of_log_in_f64(double y, int center)
{
    const double clamped = terp_clamp_f64(y, -125.0 - center, 128.0 - center);
    const double n = (clamped + TERP_F64_ROUNDER) - TERP_F64_ROUNDER;
    const double value = terp_scale_f64(terp_exp_f64(clamped - n), n + center);

    return (float)(value < (double)FLT_MAX ? value : (double)FLT_MAX);
}
