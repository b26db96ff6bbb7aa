/* Numbers of some bits that a block's threads put together in shared memory. */
#pragma once

#include "gpu/engine/platform.cuh"

/* Puts up to 32 bits from bit `at` on, where all bits are 0. Other threads may
 * put theirs beside these at the same time. */
static __device__ __forceinline__ void
put_bits(uint32_t *s_words, unsigned at, uint32_t value)
{
    const uint64_t bits = (uint64_t)value << (at % 32);

    if ((uint32_t)bits != 0)
        atomicOr(&s_words[at / 32], (uint32_t)bits);
    if (bits >> 32 != 0)
        atomicOr(&s_words[at / 32 + 1], (uint32_t)(bits >> 32));
}
