/* Lossless stages that drop repeated and zero words, after the LC
 * framework's components as cuSZ-Hi combines them (Wu et al., 2025, 5.2):
 *
 * RREk  a bit a k-byte word, 0: it repeats the word before it (the first:
 *       zero) and is dropped; the bit map is itself reduced, see below
 * RZEk  the same for words that are zero
 * TCMSk two's complement to magnitude and sign: (w << 1) ^ (w >> sign)
 *
 * A bit map of up to 8 bytes is stored; a longer one as the reduced bit map
 * of its RRE1, then the bytes that are kept. */
#pragma once

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
