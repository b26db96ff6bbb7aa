/* Words of a mask: 32 bits each. */
#pragma once

#include "codec/format/base.h"
#include "gpu/engine/platform.cuh"

/* Word `i` of a bit map of values; bits behind the last value are 0. */
static __device__ __forceinline__ unsigned
mask_word(const uint32_t *bits, uint64_t i, uint64_t nvalues)
{
    if (i * 32 >= nvalues)
        return 0;
    const uint64_t left = nvalues - i * 32;
    return left >= 32 ? bits[i] : bits[i] & ((1u << left) - 1);
}

/* Word `i` of the bit map's mask delta: its differences from itself `distance`
 * values before. Distance 0: the bit map itself. */
static __device__ __forceinline__ unsigned
mask_delta_word(const uint32_t *bits, uint64_t i, uint64_t nvalues,
                uint64_t distance)
{
    const uint64_t nwords = distance / 32;
    const unsigned word = mask_word(bits, i, nvalues);

    if (distance == 0 || i < nwords || i * 32 >= nvalues)
        return word;
    const unsigned lower = i > nwords ? bits[i - nwords - 1] : 0;
    const uint64_t left = nvalues - i * 32;
    const unsigned other =
        __funnelshift_l(lower, bits[i - nwords], (unsigned)(distance % 32));
    return word ^ (left >= 32 ? other : other & ((1u << left) - 1));
}
