/* Numbers of up to 64 bits one after another, low bit first. */
#ifndef TERP_CPU_SECTIONS_BITS_H
#define TERP_CPU_SECTIONS_BITS_H

#include "codec/format/base.h"

/* Where numbers are put. */
struct cpu_bits {
    uint8_t *to;
    uint64_t bits; /* that are not there yet, fewer than eight */
    int nbits;
};

/* A number of at most 56 bits. */
static inline void
cpu_bits_put_some(struct cpu_bits *bits, uint64_t number, int nbits)
{
    bits->bits |= number << bits->nbits;
    for (bits->nbits += nbits; bits->nbits >= 8;
         bits->nbits -= 8, bits->bits >>= 8)
        *bits->to++ = (uint8_t)bits->bits;
}

static inline void
cpu_bits_put(struct cpu_bits *bits, uint64_t number, int nbits)
{
    if (nbits > 32) {
        cpu_bits_put_some(bits, (uint32_t)number, 32);
        number >>= 32;
        nbits -= 32;
    }
    cpu_bits_put_some(bits, number, nbits);
}

/* Fills up the last byte. */
static inline void
cpu_bits_end(struct cpu_bits *bits)
{
    if (bits->nbits > 0)
        *bits->to = (uint8_t)bits->bits;
}

/* The number of `nbits` from bit `first_bit` on. */
static inline uint64_t
cpu_bits_at(const uint8_t *bytes, uint64_t first_bit, int nbits)
{
    const uint8_t *at = bytes + first_bit / 8;
    const int shift = (int)(first_bit % 8);
    const int nbytes = (shift + nbits + 7) / 8;

    if (nbits == 0)
        return 0;
    uint64_t number = load_le(at, nbytes < 8 ? nbytes : 8) >> shift;
    if (nbytes > 8)
        number |= (uint64_t)at[8] << (64 - shift);
    return nbits == 64 ? number : number & ((UINT64_C(1) << nbits) - 1);
}

#endif
