/* The keys of repeated values: the part of codec/model/repeats.h that depends
 * on the type of values. */
#pragma once

#include "codec/model/repeats.h"
#include "codec/model/value.h"

TERP_TYPED(T)
TERP_INLINE TERP_WORD
magnitude_bits_of(T value)
{
    return TERP_CALL(bits_of)(value) & (TERP_WORD)((TERP_WORD)-1 >> 1);
}

/* The key of a point. Values of 64 bits are compared alone, others with `reach`
 * neighbours on each side in either order (terp_repeats_reach). Returns false
 * for a point without a key, and for a value that is cheap without references:
 * a zero, or a value that differs from a neighbour by no more than about the
 * bound. Returns false for NaN and infinities, too. */
TERP_TYPED(T)
TERP_INLINE bool
repeat_key_of(const T *values, uint64_t nvalues, uint64_t at, uint64_t reach,
              int near_nbits, uint64_t *key_ret)
{
    if (at < reach || nvalues - at <= reach)
        return false;
    const TERP_WORD before = TERP_CALL(magnitude_bits_of)(values[at - 1]);
    const TERP_WORD own = TERP_CALL(magnitude_bits_of)(values[at]);
    const TERP_WORD after = TERP_CALL(magnitude_bits_of)(values[at + 1]);
    uint64_t key = (uint64_t)(own >> near_nbits);

    for (uint64_t d = 1; sizeof(T) == 4 && d <= reach; d++) {
        const uint64_t a =
            TERP_CALL(magnitude_bits_of)(values[at - d]) >> near_nbits;
        const uint64_t b =
            TERP_CALL(magnitude_bits_of)(values[at + d]) >> near_nbits;
        key += (2 * d - 1) * (a + b) * UINT64_C(0xD6E8FEB86659FD93) +
               ((a ^ b) << 32);
    }
    *key_ret = key * UINT64_C(0x9E3779B97F4A7C15);
    const TERP_WORD to_before = own > before ? own - before : before - own;
    const TERP_WORD to_after = own > after ? own - after : after - own;
    const int bound_nbits = near_nbits + TERP_REPEATS_NEAR_PART_NBITS;
    return own != 0 && own <= TERP_CALL(bits_of)(TERP_CONST(MAX)) &&
           to_before >> bound_nbits != 0 && to_after >> bound_nbits != 0;
}
