/* Writes and reads numbers of up to 64 bits, packed without gaps, low bit
 * first. */
#pragma once

#include "codec/format/base.h"

struct bit_writer {
    uint8_t *to;
    uint64_t bits; /* not yet written, fewer than eight */
    int nbits;
};

/* Appends a number of at most 56 bits. */
static inline TERP_HOST_DEVICE void
bit_writer_put_some(struct bit_writer *bits, uint64_t number, int nbits)
{
    bits->bits |= number << bits->nbits;
    for (bits->nbits += nbits; bits->nbits >= 8;
         bits->nbits -= 8, bits->bits >>= 8)
        *bits->to++ = (uint8_t)bits->bits;
}

static inline TERP_HOST_DEVICE void
bit_writer_put(struct bit_writer *bits, uint64_t number, int nbits)
{
    if (nbits > 32) {
        bit_writer_put_some(bits, (uint32_t)number, 32);
        number >>= 32;
        nbits -= 32;
    }
    bit_writer_put_some(bits, number, nbits);
}

/* Writes the last, incomplete byte. */
static inline TERP_HOST_DEVICE void
bit_writer_end(struct bit_writer *bits)
{
    if (bits->nbits > 0)
        *bits->to = (uint8_t)bits->bits;
}

/* Loads the number of `nbits` that begins at bit `first_bit`. */
static inline TERP_HOST_DEVICE uint64_t
load_bits(const uint8_t *bytes, uint64_t first_bit, int nbits)
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
