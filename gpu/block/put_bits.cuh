/* Packs numbers of some bits in shared memory, by all threads of a block. */
#pragma once

#include "gpu/engine/platform.cuh"

/* Writes the bits of `value` from bit `at` on. The bits there must be 0 before.
 * Other threads may write neighbouring bits at the same time. */
static __device__ __forceinline__ void
put_bits(uint32_t *s_words, unsigned at, uint32_t value)
{
    const uint64_t bits = (uint64_t)value << (at % 32);

    if ((uint32_t)bits != 0)
        atomicOr(&s_words[at / 32], (uint32_t)bits);
    if (bits >> 32 != 0)
        atomicOr(&s_words[at / 32 + 1], (uint32_t)(bits >> 32));
}
