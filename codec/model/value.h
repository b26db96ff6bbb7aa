/* Values of either type, float32 or float64, for the arithmetic that every
 * engine shares, and the test for special values.
 *
 * Code that depends on the type is written once. C++ reads it as templates. A C
 * file that includes this header is compiled once for each type and defines
 * TERP_VALUE_NBYTES, 4 or 8. In both, T is the type of the values, and WORD and
 * INT are unsigned and signed integers of its width.
 *
 * For example, this function doubles a value and returns its bits:
 *
 *     TERP_TYPED(T)
 *     TERP_INLINE TERP_WORD
 *     bits_of_twice(T value)
 *     {
 *         return TERP_CALL(bits_of)(value + value);
 *     }
 *
 * In C, with TERP_VALUE_NBYTES 4, it takes a float and returns a uint32_t. In
 * C++ it is a template that returns value_traits<T>::WORD and calls
 * bits_of<T>. */
#pragma once

#include <float.h>
#include <math.h>

#include "codec/model/range.h"

/* ROUNDER is 1.5 * 2^(mantissa bits): to add and subtract it rounds a value to
 * the nearest integer. MAX_QUANT is the largest integer for which that
 * holds. */
#define TERP_F32_ROUNDER 12582912.0f
#define TERP_F32_MAX_QUANT 4194303
#define TERP_F32_MANTISSA 8388608 /* 2^(mantissa bits) */
#define TERP_F64_ROUNDER 6755399441055744.0
#define TERP_F64_MAX_QUANT 2251799813685247
#define TERP_F64_MANTISSA 4503599627370496

#define TERP_INLINE \
    static inline TERP_HOST_DEVICE __attribute__((always_inline))

#ifdef __cplusplus
template <typename T> struct value_traits;

template <> struct value_traits<float> {
    typedef uint32_t WORD;
    typedef int32_t INT;
    static constexpr float MAX = FLT_MAX;
    static constexpr float ROUNDER = TERP_F32_ROUNDER;
    static constexpr float MAX_QUANT = TERP_F32_MAX_QUANT;
    static constexpr float MANTISSA = TERP_F32_MANTISSA;
};

template <> struct value_traits<double> {
    typedef uint64_t WORD;
    typedef int64_t INT;
    static constexpr double MAX = DBL_MAX;
    static constexpr double ROUNDER = TERP_F64_ROUNDER;
    static constexpr double MAX_QUANT = TERP_F64_MAX_QUANT;
    static constexpr double MANTISSA = TERP_F64_MANTISSA;
};

/* TERP_TYPED precedes a struct or function that depends on a type, T or WORD.
 * TERP_STRUCT and TERP_CALL name such a struct or function of T. */
#define TERP_TYPED(type) template <typename type>
#define TERP_STRUCT(name) struct name<T>
#define TERP_CALL(name) name<T>
#define TERP_WORD typename value_traits<T>::WORD
#define TERP_INT typename value_traits<T>::INT
#define TERP_CONST(name) (value_traits<T>::name)
#define TERP_ABS(x) fabs(x) /* overloaded for either type */
#else
#define TERP_TYPED(type)
#define TERP_STRUCT(name) struct name
#define TERP_CALL(name) name
#define TERP_WORD WORD
#define TERP_INT INT
#if TERP_VALUE_NBYTES == 4
#define T float
#define WORD uint32_t
#define INT int32_t
#define TERP_CONST(name) ((T)TERP_F32_##name)
#define TERP_F32_MAX FLT_MAX
#define TERP_ABS(x) fabsf(x)
#elif TERP_VALUE_NBYTES == 8
#define T double
#define WORD uint64_t
#define INT int64_t
#define TERP_CONST(name) ((T)TERP_F64_##name)
#define TERP_F64_MAX DBL_MAX
#define TERP_ABS(x) fabs(x)
#else
#error "TERP_VALUE_NBYTES is 4 or 8."
#endif
#endif

TERP_TYPED(T)
TERP_INLINE TERP_WORD
bits_of(T value)
{
    TERP_WORD bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* The value, with -0.0 replaced by 0.0. */
TERP_TYPED(T)
TERP_INLINE T
with_one_zero(T value)
{
    return value + (T)0;
}

/* Whether a value is stored exactly and not predicted: NaN, an infinity, or a
 * fill value. Fill values are compared by their bits, without the sign of a
 * zero. A slot of -0.0 matches no value. */
TERP_TYPED(T)
TERP_INLINE bool
is_special(T value, const TERP_WORD *fills)
{
    const TERP_WORD bits = TERP_CALL(bits_of)(with_one_zero(value));
    bool special = !(TERP_ABS(value) <= TERP_CONST(MAX));

    for (int i = 0; i < TERP_NFILLS; i++)
        special |= bits == fills[i];
    return special;
}

/* A value as a double; NaN if it does not exist or is special. */
TERP_TYPED(T)
TERP_INLINE double
value_or_nan(const T *values, const TERP_WORD *fills, bool exists, uint64_t at)
{
    return exists && !is_special(values[at], fills) ? (double)values[at]
                                                    : (double)NAN;
}
