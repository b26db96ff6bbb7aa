/* Exact quants of every kind, independent of the values. */
#pragma once

#include "codec/model/exact.h"

enum exact_kind {
    EXACT_NONE,
    EXACT_POWER,       /* the step, rounded down to a power of two */
    EXACT_SIGNIFICAND, /* the step, rounded down to several bits */
    EXACT_DENSE,       /* quants count values from 0.25 on */
    EXACT_ZEROS,       /* as EXACT_DENSE, of values that end in zeros */
    EXACT_NKINDS
};

/* Returns none if the step is too near the ends of the type. */
static inline struct terp_exact
exact_quants_of_kind(enum exact_kind kind, double step, int value_nbytes)
{
    const struct terp_exact none = {0, 0, 0};
    const int mantissa_nbits = terp_mantissa_nbits(value_nbytes);
    const int exponent = terp_exponent_of(step) - 1023;
    struct terp_exact exact = {1, 0, (int16_t)exponent};
    uint8_t bytes[TERP_EXACT_NBYTES];

    if (kind == EXACT_SIGNIFICAND) {
        exact.significand = 5;
        exact.exponent = (int16_t)(exponent - 3);
    } else if (kind == EXACT_DENSE || kind == EXACT_ZEROS) {
        exact.nzeros = kind == EXACT_ZEROS ? 3 : 0;
        exact.exponent = (int16_t)(exact.nzeros - 2 - mantissa_nbits);
    }
    if (kind == EXACT_NONE ||
        exact.exponent + mantissa_nbits > -terp_min_exponent(value_nbytes))
        return none;
    terp_exact_store(exact, bytes);
    return terp_exact_load(bytes, value_nbytes, &exact) ? exact : none;
}
