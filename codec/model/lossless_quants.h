/* The integers of the lossless predictor, and their remainders. Together they
 * hold every bit of a value. doc/format.md, "Lossless". */
#pragma once

#include "codec/format/lossless.h"
#include "codec/model/exact.h"
#include "codec/model/value.h"

/* A model's integers, in the type T. Integer n < `count` stands for the
 * magnitudes from n to n + 1 steps. From `count` on, integers count values by
 * their bits. */
TERP_TYPED(T)
struct lossless_quants {
    T step, inverse;
    TERP_WORD count, first; /* `first`: the bits of the value at `count` */
    /* Without remainders 0: the bits of the remainder of integer 0; the
     * exponent fields of `count` and of its value, from which on integers have
     * none. */
    TERP_WORD nbits_of_0, count_exponent, first_exponent;
    int nzeros;
    enum terp_lossless_form form;
};

TERP_TYPED(T)
TERP_INLINE
TERP_STRUCT(lossless_quants)
lossless_quants_of(struct terp_exact exact, enum terp_lossless_form form)
{
    const bool all_counted =
        exact.exponent == terp_least_exponent((int)sizeof(T));
    const bool of_magnitudes = form == TERP_LOSSLESS_MAGNITUDES;
    const int mantissa_nbits = terp_mantissa_nbits((int)sizeof(T));
    TERP_STRUCT(lossless_quants) k;

    k.step = all_counted ? (T)1 : (T)terp_power_of_two(exact.exponent);
    k.inverse = (T)1 / k.step;
    k.count = all_counted ? 0 : (TERP_WORD)TERP_CONST(MANTISSA) >> exact.nzeros;
    /* The least step is no value of T; its word is 1. */
    k.first = of_magnitudes && all_counted ? 1
              : of_magnitudes
                  ? TERP_CALL(bits_of)(k.step)
                  : TERP_CALL(bits_of)((T)(TERP_INT)k.count * k.step);
    const bool has_remainders = form == TERP_LOSSLESS_REMAINDERS && k.count > 0;
    k.nbits_of_0 =
        has_remainders
            ? 1 + (TERP_WORD)bit_width((TERP_CALL(bits_of)(k.step) - 1) >>
                                       exact.nzeros)
            : 0;
    k.count_exponent =
        has_remainders
            ? TERP_CALL(bits_of)((T)(TERP_INT)k.count) >> mantissa_nbits
            : 0;
    k.first_exponent = has_remainders ? k.first >> mantissa_nbits : 0;
    k.nzeros = exact.nzeros;
    k.form = form;
    return k;
}

/* The bits of the least magnitude that an integer stands for. Both sides are
 * computed, so that compilers make vectors of loops. */
TERP_TYPED(T)
TERP_INLINE TERP_WORD
word_of_magnitude(TERP_WORD magnitude, TERP_STRUCT(lossless_quants) k)
{
    const TERP_WORD of_steps =
        TERP_CALL(bits_of)((T)(TERP_INT)magnitude * k.step);
    const TERP_WORD counted = k.first + ((magnitude - k.count) << k.nzeros);

    return magnitude < k.count ? of_steps : counted;
}

/* The number of bits of an integer's remainder. The remainder of integer 0
 * includes the sign. Between two other integers are as many values as the
 * mantissa has bits below the step: one bit fewer in each octave, and none from
 * `count` on. */
TERP_TYPED(T)
TERP_INLINE int
nbits_of_remainder(TERP_INT quant, TERP_STRUCT(lossless_quants) k)
{
    const int mantissa_nbits = terp_mantissa_nbits((int)sizeof(T));
    const TERP_WORD exponent =
        TERP_CALL(bits_of)((T)quant) << 1 >> (mantissa_nbits + 1);
    const TERP_INT nbits = (TERP_INT)(k.count_exponent - exponent);

    return (int)(quant == 0 ? (TERP_INT)k.nbits_of_0 : nbits > 0 ? nbits : 0);
}

/* The same from a value, without its integer. */
TERP_TYPED(T)
TERP_INLINE TERP_WORD
nbits_of_values_remainder(T value, TERP_STRUCT(lossless_quants) k)
{
    const int mantissa_nbits = terp_mantissa_nbits((int)sizeof(T));
    const TERP_WORD word = TERP_CALL(bits_of)(TERP_ABS(value));
    const TERP_INT nbits =
        (TERP_INT)(k.first_exponent - (word >> mantissa_nbits));

    return word < TERP_CALL(bits_of)(k.step) ? k.nbits_of_0
           : nbits > 0                       ? (TERP_WORD)nbits
                                             : 0;
}

/* The remainder of a value, which has `nbits`: the last bits of the mantissa,
 * or sign and magnitude where the integer is 0. */
TERP_TYPED(T)
TERP_INLINE TERP_WORD
remainder_of_value(T value, TERP_WORD nbits, TERP_STRUCT(lossless_quants) k)
{
    const TERP_WORD bits = TERP_CALL(bits_of)(value);
    const TERP_WORD sign = bits >> (8 * sizeof(T) - 1);
    const TERP_WORD word = TERP_CALL(bits_of)(TERP_ABS(value));
    const TERP_WORD last = ((TERP_WORD)1 << nbits % (8 * sizeof(T))) - 1;
    const TERP_WORD of_0 = word >> k.nzeros << 1 | sign;

    return word < TERP_CALL(bits_of)(k.step) ? of_0 : word >> k.nzeros & last;
}

/* The magnitude of a finite value's integer, unless integers are of magnitudes.
 * Both sides are computed, so that compilers make vectors of loops. */
TERP_TYPED(T)
TERP_INLINE TERP_WORD
lossless_magnitude_of(T value, TERP_STRUCT(lossless_quants) k)
{
    const TERP_WORD word = TERP_CALL(bits_of)(TERP_ABS(value));
    const T below = word < k.first ? TERP_ABS(value) : (T)0;
    const TERP_WORD of_steps = (TERP_WORD)(TERP_INT)(below * k.inverse);
    const TERP_WORD counted = k.count + ((word - k.first) >> k.nzeros);

    return word < k.first ? of_steps : counted;
}

/* The integer of a finite value. */
TERP_TYPED(T)
TERP_INLINE TERP_INT
lossless_integer_of(T value, TERP_STRUCT(lossless_quants) k)
{
    const TERP_WORD sign = TERP_CALL(bits_of)(value) >> (8 * sizeof(T) - 1);

    if (k.form == TERP_LOSSLESS_MAGNITUDES)
        return (TERP_INT)((TERP_CALL(bits_of)(TERP_ABS(value)) - k.first) << 1 |
                          sign);
    const TERP_WORD magnitude = TERP_CALL(lossless_magnitude_of)(value, k);
    return (TERP_INT)((magnitude ^ (0 - sign)) + sign);
}

/* The integer and the remainder of a finite value. *fits_ret: whether they hold
 * every bit of the value. */
TERP_TYPED(T)
TERP_INLINE TERP_INT
lossless_quant_of(T value, TERP_STRUCT(lossless_quants) k,
                  TERP_WORD *remainder_ret, bool *fits_ret)
{
    const TERP_WORD bits = TERP_CALL(bits_of)(value);
    const TERP_WORD sign = bits >> (8 * sizeof(T) - 1);
    const TERP_WORD word = bits & ~((TERP_WORD)1 << (8 * sizeof(T) - 1));
    const TERP_WORD zeros = ((TERP_WORD)1 << k.nzeros) - 1;

    if (k.form == TERP_LOSSLESS_MAGNITUDES) {
        *remainder_ret = 0;
        *fits_ret = true;
        return TERP_CALL(lossless_integer_of)(value, k);
    }
    const bool counted = word >= k.first;
    const TERP_WORD magnitude = TERP_CALL(lossless_magnitude_of)(value, k);
    const TERP_WORD left = word - TERP_CALL(word_of_magnitude)(magnitude, k);
    const TERP_WORD remainder = left >> k.nzeros;

    *remainder_ret = magnitude == 0 ? remainder << 1 | sign : remainder;
    *fits_ret = (left & zeros) == 0 &&
                (k.form == TERP_LOSSLESS_REMAINDERS && !counted
                     ? true
                     : remainder == 0 && !(magnitude == 0 && sign));
    return (TERP_INT)((magnitude ^ (0 - sign)) + sign);
}

/* Whether integers and remainders hold every bit of all finite values. */
TERP_TYPED(T)
TERP_INLINE bool
lossless_fits_all(TERP_STRUCT(lossless_quants) k)
{
    return k.form == TERP_LOSSLESS_MAGNITUDES ||
           (k.form == TERP_LOSSLESS_REMAINDERS && k.nzeros == 0 && k.count > 0);
}

/* Where no zeros are left out, integers below this magnitude stand for whole
 * steps, from `count` on, too: the least values of their remainders are their
 * products. */
TERP_TYPED(T)
TERP_INLINE TERP_WORD
lossless_products_end(TERP_STRUCT(lossless_quants) k)
{
    return k.nzeros == 0 ? 2 * k.count : 0;
}

/* The value of such an integer, with a remainder. */
TERP_TYPED(T)
TERP_INLINE T
value_of_product(TERP_INT quant, TERP_WORD remainder,
                 TERP_STRUCT(lossless_quants) k)
{
    const TERP_WORD of_0 = remainder >> 1 | remainder << (8 * sizeof(T) - 1);
    const TERP_WORD bits =
        TERP_CALL(bits_of)((T)quant * k.step) + (quant == 0 ? of_0 : remainder);
    T value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

TERP_TYPED(T)
TERP_INLINE T
value_of_lossless(TERP_INT quant, TERP_WORD remainder,
                  TERP_STRUCT(lossless_quants) k)
{
    const TERP_WORD negative = (TERP_WORD)(quant < 0);
    const TERP_WORD magnitude = ((TERP_WORD)quant ^ (0 - negative)) + negative;
    const bool is_zero =
        magnitude == 0 && k.form == TERP_LOSSLESS_REMAINDERS && k.count > 0;
    const bool of_magnitudes = k.form == TERP_LOSSLESS_MAGNITUDES;
    const TERP_WORD left = is_zero ? remainder >> 1 : remainder;
    const TERP_WORD sign = is_zero         ? remainder & 1
                           : of_magnitudes ? (TERP_WORD)quant & 1
                                           : negative;
    const TERP_WORD word =
        of_magnitudes
            ? ((TERP_WORD)quant >> 1) + k.first
            : TERP_CALL(word_of_magnitude)(magnitude, k) + (left << k.nzeros);
    const TERP_WORD top = (TERP_WORD)1 << (8 * sizeof(T) - 1);
    const TERP_WORD bits =
        (of_magnitudes ? word & (top - 1) : word) | sign * top;
    T value;

    memcpy(&value, &bits, sizeof value);
    return value;
}
