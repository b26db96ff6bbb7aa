/* Lorenzo's exact quants, for bounds near the precision of the values. The step
 * has so few bits that each multiple is a value of the type: nothing is
 * rounded. Where the values of the type, or those that the chunk uses, are as
 * sparse as the multiples or sparser, quants count values by their bits
 * instead. So any bound, however small, needs no more quants than there are
 * values. */
#pragma once

#include "codec/format/bytes.h"
#include "codec/format/sections.h"
#include "codec/model/range.h"

/* The step is significand * 2^exponent. Where quants count values, only values
 * that end in `nzeros` zero bits are counted. If `exponent` is that of the
 * type's smallest value, quants count all values. */
struct terp_exact {
    uint8_t significand; /* 0: no exact quants */
    uint8_t nzeros;
    int16_t exponent;
};

/* The exponent of the smallest normal number. */
static inline TERP_HOST_DEVICE int
terp_min_exponent(int value_nbytes)
{
    return value_nbytes == 4 ? -126 : -1022;
}

/* The exponent of the smallest positive value. */
static inline TERP_HOST_DEVICE int
terp_least_exponent(int value_nbytes)
{
    return terp_min_exponent(value_nbytes) - terp_mantissa_nbits(value_nbytes);
}

/* Stores the TERP_EXACT_NBYTES of a model. */
static inline TERP_HOST_DEVICE void
terp_exact_store(struct terp_exact exact, uint8_t *dst)
{
    dst[0] = exact.significand;
    dst[1] = exact.nzeros;
    store_le(dst + 2, (uint64_t)exact.exponent, 2);
}

/* Whether the step and all its multiples below the counted values are normal
 * numbers. */
static inline TERP_HOST_DEVICE bool
terp_exponent_is_normal(int exponent, int value_nbytes)
{
    const int min_exponent = terp_min_exponent(value_nbytes);

    return exponent >= min_exponent &&
           exponent + terp_mantissa_nbits(value_nbytes) <= -min_exponent;
}

static inline TERP_HOST_DEVICE bool
terp_exact_is_valid(struct terp_exact exact, int value_nbytes)
{
    return exact.significand > 0 &&
           exact.nzeros <= terp_mantissa_nbits(value_nbytes) &&
           (terp_exponent_is_normal(exact.exponent, value_nbytes) ||
            exact.exponent == terp_least_exponent(value_nbytes));
}

/* Returns false when the bytes are invalid. */
static inline TERP_HOST_DEVICE bool
terp_exact_load(const uint8_t *src, int value_nbytes,
                struct terp_exact *exact_ret)
{
    exact_ret->significand = src[0];
    exact_ret->nzeros = src[1];
    exact_ret->exponent = (int16_t)load_le(src + 2, 2);
    return terp_exact_is_valid(*exact_ret, value_nbytes);
}

/* 2^exponent, which is a normal double. */
static inline TERP_HOST_DEVICE double
terp_power_of_two(int exponent)
{
    return double_of_bits((uint64_t)(exponent + 1023) << 52);
}

static inline TERP_HOST_DEVICE double
terp_exact_step(struct terp_exact exact)
{
    return exact.significand * terp_power_of_two(exact.exponent);
}

/* The step by which an encoder estimates codes: `step`, or the step of exact
 * quants if that is larger. It is at least the smallest normal double. */
static inline TERP_HOST_DEVICE double
terp_coding_step(double step, struct terp_exact exact)
{
    const double of_exact = exact.significand == 0   ? 0
                            : exact.exponent < -1022 ? terp_power_of_two(-1022)
                                                     : terp_exact_step(exact);

    return of_exact > step ? of_exact : step;
}

/* ---- an encoder's choice ---- */

/* The most bits of a step. With more bits, the usual step with its slack is as
 * good. */
#define TERP_MAX_EXACT_NBITS 8

/* Chooses exact quants. All sampled values are multiples of 2^exponent and end
 * in `nzeros` zero bits. If 2^exponent exceeds the bound, it is the step.
 * Otherwise the step is twice the bound, with as many bits as keep its
 * multiples, up to the largest value, in the type. Counting values that end in
 * zeros is chosen when it needs fewer quants than steps would. Under the bound
 * 0 quants are always exact. */
static inline TERP_HOST_DEVICE struct terp_exact
terp_exact_of(double bound, double min, double max, int value_nbytes,
              int exponent, int nzeros)
{
    const struct terp_exact none = {0, 0, 0};
    const int mantissa_nbits = terp_mantissa_nbits(value_nbytes);
    const int of_step = terp_exponent_of(2 * bound) - 1023;
    /* The exponent of the largest value's last bit: of the type, and with the
     * zeros. */
    const int of_last =
        terp_exponent_of_range(min, max) - 1023 - mantissa_nbits;
    const int of_last_set = of_last + nzeros;
    struct terp_exact exact = {1, 0, (int16_t)exponent};

    if (is_zero_bound(bound)) {
        exact.nzeros = (uint8_t)nzeros;
        if (!terp_exponent_is_normal(exponent, value_nbytes))
            exact.exponent = (int16_t)terp_least_exponent(value_nbytes);
        return exact;
    }
    if (exponent > of_step) {
        exact.nzeros = (uint8_t)nzeros;
    } else if (of_last_set > of_step + 1) {
        exact.exponent = (int16_t)of_step;
        exact.nzeros = (uint8_t)nzeros;
    } else {
        const int nbits = of_step < of_last ? 1 : of_step - of_last + 1;
        if (nbits > TERP_MAX_EXACT_NBITS)
            return none;
        const unsigned first = 1u << (nbits - 1);
        exact.exponent = (int16_t)(of_step - nbits + 1);
        exact.significand =
            (uint8_t)(first |
                      ((double_bits(2 * bound) >> (53 - nbits)) & (first - 1)));
    }
    return terp_exponent_is_normal(exact.exponent, value_nbytes) ? exact : none;
}
