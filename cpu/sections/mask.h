/* Masks with a bit per value, and mask deltas. */
#pragma once

#include "codec/format/base.h"

/* A mask or, with a mask delta d > 0, the XOR of the mask and the mask shifted
 * by d values. */
struct cpu_mask {
    const uint64_t *words;
    uint64_t nvalues, mask_delta;
};

/* Packs 64 bytes, each 0 or 1, into the bits of a word. */
static inline uint64_t
cpu_word_of_bytes(const uint8_t bytes[64])
{
    uint64_t word = 0;

    for (int i = 0; i < 64; i += 8)
        word |= load_le64(bytes + i) * UINT64_C(0x0102040810204080) >> 56 << i;
    return word;
}

static inline uint64_t
cpu_mask_word(const struct cpu_mask *bits, uint64_t i)
{
    uint64_t at = bits->mask_delta / 64, word = bits->words[i];
    int shift = (int)(bits->mask_delta % 64);

    if (bits->mask_delta > 0 && i >= at)
        word ^= bits->words[i - at] << shift;
    if (shift > 0 && i > at)
        word ^= bits->words[i - at - 1] >> (64 - shift);
    return word;
}

/* Turns a mask delta back into the mask, in place, and counts the set bits. */
static inline uint64_t
cpu_mask_sum_up(uint64_t *words, uint64_t nvalues, uint64_t mask_delta)
{
    const struct cpu_mask bits = {words, nvalues, mask_delta};
    uint64_t nwords = div_up(nvalues, 64), nset = 0;

    for (uint64_t i = 0; i < nwords; i++) {
        words[i] = cpu_mask_word(&bits, i);
        if (i == nwords - 1)
            words[i] &= UINT64_MAX >> (63 - (nvalues - 1) % 64);
        nset += (uint64_t)__builtin_popcountll(words[i]);
    }
    return nset;
}
