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
 * values before. Distance 0: the bit map itself. Without branches, so that
 * several words are loaded at once. */
static __device__ __forceinline__ unsigned
mask_delta_word(const uint32_t *bits, uint64_t i, uint64_t nvalues,
                uint64_t distance)
{
    const uint64_t nwords = distance / 32;
    const bool exists = i * 32 < nvalues, differs = exists && distance > 0;
    const unsigned word = exists ? bits[i] : 0;
    const unsigned upper = differs && i >= nwords ? bits[i - nwords] : 0;
    const unsigned lower = differs && i > nwords ? bits[i - nwords - 1] : 0;
    const uint64_t left = exists ? nvalues - i * 32 : 32;
    const unsigned delta =
        word ^ __funnelshift_l(lower, upper, (unsigned)(distance % 32));

    return left >= 32 ? delta : delta & ((1u << left) - 1);
}
