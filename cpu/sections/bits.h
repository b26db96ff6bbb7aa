/* Numbers that are packed without gaps, low bit first, as in
 * codec/format/bits.h. Whole words are read and written: memory must go on for
 * CPU_BITS_PADDING_NBYTES after the last number. */
#pragma once

#include "codec/format/base.h"

#define CPU_BITS_PADDING_NBYTES 16

/* Loads a number of at most 56 bits. */
static inline uint64_t
cpu_load_few_bits(const uint8_t *bytes, uint64_t first_bit, int nbits)
{
    return load_le64(bytes + first_bit / 8) >> first_bit % 8 &
           ((UINT64_C(1) << nbits) - 1);
}

/* Loads a number of at most 64 bits. */
static inline uint64_t
cpu_load_bits(const uint8_t *bytes, uint64_t first_bit, int nbits)
{
    if (nbits <= 32)
        return cpu_load_few_bits(bytes, first_bit, nbits);
    return cpu_load_few_bits(bytes, first_bit, 32) |
           cpu_load_few_bits(bytes, first_bit + 32, nbits - 32) << 32;
}

struct cpu_bit_writer {
    uint8_t *to;
    uint64_t bits; /* not yet passed, fewer than eight */
    unsigned nbits;
};

/* Appends a number of at most 56 bits. */
static inline void
cpu_put_few_bits(struct cpu_bit_writer *writer, uint64_t number, unsigned nbits)
{
    writer->bits |= number << writer->nbits;
    writer->nbits += nbits;
    const uint64_t bits = TERP_HOST_IS_BIG_ENDIAN
                              ? __builtin_bswap64(writer->bits)
                              : writer->bits;
    memcpy(writer->to, &bits, sizeof bits);
    writer->to += writer->nbits / 8;
    writer->bits >>= writer->nbits & ~7u;
    writer->nbits %= 8;
}

/* Appends a number of at most `most` bits, which is 32 or 64. */
static inline void
cpu_put_bits_of(struct cpu_bit_writer *writer, uint64_t number, unsigned nbits,
                unsigned most)
{
    if (most > 32 && nbits > 32) {
        cpu_put_few_bits(writer, (uint32_t)number, 32);
        number >>= 32;
        nbits -= 32;
    }
    cpu_put_few_bits(writer, number, nbits);
}
