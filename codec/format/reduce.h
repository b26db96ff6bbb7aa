/* Lossless stages that drop repeated and zero words. They are components of the
 * LC framework in the combination of cuSZ-Hi (Wu et al., 2025, 5.2):
 *
 * RREk  one bit for each k-byte word; 0: the word equals the word before it
 *       (the first word: zero) and is dropped. The bit map is reduced, too.
 * RZEk  the same for words that are zero
 * TCMSk two's complement to magnitude and sign: (w << 1) ^ (w >> sign)
 *
 * A bit map of up to 8 bytes is stored. A longer one is stored as the reduced
 * bit map of its RRE1, followed by the kept bytes. */
#pragma once

#include "codec/format/bytes.h"

/* A bit map of at most this many bytes is stored: another level above it would
 * cost more than it saves. */
#define TERP_BITMAP_STORED_NBYTES 8

/* The most bytes of a reduced bit map of `nbytes`. */
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

/* `scratch`: TERP_BITMAP_MAX_NBYTES(nbytes) bytes. */
void
terp_bitmap_write(struct writer *writer, const uint8_t *bitmap, uint64_t nbytes,
                  uint8_t *scratch);

/* Reads a bit map of `nbytes`. Bits behind the last one in use are not
 * checked. */
void
terp_bitmap_read(struct reader *reader, uint8_t *bitmap_ret, uint64_t nbytes,
                 uint8_t *scratch);

/* RRE4-TCMS8-RZE1 of at most TERP_REDUCE_MAX_NBYTES. The scratch memory must
 * have terp_reduce_scratch_nbytes. The result may be larger than the input; the
 * caller compares sizes. */
#define TERP_REDUCE_MAX_NBYTES ((uint64_t)1 << 20)

uint64_t
terp_reduce_scratch_nbytes(uint64_t nbytes);

void
terp_reduce_write(struct writer *writer, const uint8_t *src, uint64_t nbytes,
                  uint8_t *scratch);

void
terp_reduce_read(struct reader *reader, uint8_t *dst, uint64_t nbytes,
                 uint8_t *scratch);
