/* Lossless stages that drop repeated and zero words, after the LC
 * framework's components as cuSZ-Hi combines them (Wu et al., 2025, 5.2):
 *
 * RREk  a bit a k-byte word, 0: it repeats the word before it (the first:
 *       zero) and is dropped; the bit map is itself reduced, see below
 * RZEk  the same for words that are zero
 * TCMSk two's complement to magnitude and sign: (w << 1) ^ (w >> sign)
 * BIT1  bit planes of bytes, the highest plane first
 *
 * A bit map of up to 8 bytes is stored; a longer one as the reduced bit map
 * of its RRE1, then the bytes that are kept. */
#ifndef TERP_CODEC_FORMAT_REDUCE_H
#define TERP_CODEC_FORMAT_REDUCE_H

#include "codec/format/bytes.h"

/* A bit map of no more bytes than this is stored: another level above it would
 * not be worth its bytes. */
#define TERP_BITMAP_STORED_NBYTES 8

/* The most bytes that a reduced bit map of `nbytes` takes. */
#define TERP_BITMAP_MAX_NBYTES(nbytes) ((nbytes) + (nbytes) / 7 + 32)

/* TCMS8, and back. */
static inline TERP_HOST_DEVICE uint64_t
terp_tcms8(uint64_t word)
{
    return word << 1 ^ (0 - (word >> 63));
}

static inline TERP_HOST_DEVICE uint64_t
terp_tcms8_inverse(uint64_t word)
{
    return word >> 1 ^ (0 - (word & 1));
}

/* Transposes the 8x8 bit matrix whose rows are the bytes of a word (Warren,
 * Hacker's Delight, 7-3, describes the three swaps). It is its own inverse. */
static inline TERP_HOST_DEVICE uint64_t
terp_transpose_8x8(uint64_t m)
{
    uint64_t swap = (m ^ m >> 7) & UINT64_C(0x00AA00AA00AA00AA);
    m ^= swap ^ swap << 7;
    swap = (m ^ m >> 14) & UINT64_C(0x0000CCCC0000CCCC);
    m ^= swap ^ swap << 14;
    swap = (m ^ m >> 28) & UINT64_C(0x00000000F0F0F0F0);
    return m ^ swap ^ swap << 28;
}

/* `scratch`: TERP_BITMAP_MAX_NBYTES(nbytes) bytes. */
void
terp_bitmap_write(struct writer *writer, const uint8_t *bitmap, uint64_t nbytes,
                  uint8_t *scratch);

/* A bit map of `nbytes`; bits behind the last one in use are not checked. */
void
terp_bitmap_read(struct reader *reader, uint8_t *bitmap_ret, uint64_t nbytes,
                 uint8_t *scratch);

/* RRE4-TCMS8-RZE1. `nbytes` up to TERP_REDUCE_MAX_NBYTES; the scratch holds
 * terp_reduce_scratch_nbytes. Whether it pays shows in what was written. */
#define TERP_REDUCE_MAX_NBYTES ((uint64_t)1 << 20)

uint64_t
terp_reduce_scratch_nbytes(uint64_t nbytes);

void
terp_reduce_write(struct writer *writer, const uint8_t *src, uint64_t nbytes,
                  uint8_t *scratch);

void
terp_reduce_read(struct reader *reader, uint8_t *dst, uint64_t nbytes,
                 uint8_t *scratch);

/* TCMS1-BIT1-RRE1 of `ncodes` bytes, at most TERP_PLANES_MAX_NCODES. */
#define TERP_PLANES_MAX_NCODES 4096
#define TERP_PLANES_MAX_NBYTES \
    (TERP_PLANES_MAX_NCODES +  \
     TERP_BITMAP_MAX_NBYTES(TERP_PLANES_MAX_NCODES / 8))

void
terp_planes_write(struct writer *writer, const int8_t *codes, uint64_t ncodes);

void
terp_planes_read(struct reader *reader, int8_t *codes_ret, uint64_t ncodes);

#endif
