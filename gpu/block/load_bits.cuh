/* Loads numbers of some bits from a stream in device memory, by whole words. */
#pragma once

#include "codec/format/bits.h"
#include "gpu/engine/platform.cuh"

/* Returns the same number as load_bits. It loads aligned words, so it may read
 * up to three bytes before `bytes`. It does not read `end` or beyond. */
static __device__ __forceinline__ uint64_t
load_bits_by_words(const uint8_t *bytes, uint64_t first_bit, int nbits,
                   const uint8_t *end)
{
    const uint8_t *at = bytes + first_bit / 8;
    const unsigned skew = (unsigned)((uintptr_t)at % sizeof(uint32_t));
    const uint32_t *words = (const uint32_t *)(at - skew);
    const int shift = (int)(8 * skew + first_bit % 8);

    if ((const uint8_t *)(words + 3) > end)
        return load_bits(bytes, first_bit, nbits);
    const uint32_t second = shift + nbits > 32 ? words[1] : 0;
    const uint32_t third = shift + nbits > 64 ? words[2] : 0;
    uint64_t number = ((uint64_t)second << 32 | words[0]) >> shift;
    if (shift > 0)
        number |= (uint64_t)third << (64 - shift);
    return nbits == 64 ? number : number & ((UINT64_C(1) << nbits) - 1);
}
