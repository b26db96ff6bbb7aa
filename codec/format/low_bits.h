/* How the wide codes of a tile are split into symbols and low bits, how codes
 * without a symbol are listed, and how the numbers are packed in groups.
 * doc/format.md, "Low bits". */
#pragma once

#include "codec/format/bytes.h"
#include "codec/format/limits.h"

/* The most low bits of a code. */
#define TERP_LOW_MAX_NBITS 12

/* The upper four bits of the model's first byte: 0 if codes are not wide; else
 * the *unit* plus 1. Contexts look at the bits of codes above the unit only. */
#define TERP_WIDE_SHIFT 4
#define TERP_WIDE_MAX (TERP_LOW_MAX_NBITS + 1)
#define TERP_STEP_SLACK 0x0F

static inline TERP_HOST_DEVICE int
terp_unit_nbits(int wide)
{
    return wide > 0 ? wide - 1 : 0;
}

/* A predictor's symbol is its code plus a radius. Symbols of wide codes fill 16
 * bits. */
#define TERP_WIDE_RADIUS 32768
#define TERP_WIDE_MAX_CODE (TERP_WIDE_RADIUS - 1)

static inline TERP_HOST_DEVICE int
terp_radius_of(int wide)
{
    return wide > 0 ? TERP_WIDE_RADIUS : TERP_RADIUS;
}

static inline TERP_HOST_DEVICE int
terp_max_code_of(int wide)
{
    return wide > 0 ? TERP_WIDE_MAX_CODE : TERP_MAX_CODE;
}

/* The high part of a code: code / 2^low_nbits, rounded to nearest, ties up. */
static inline TERP_HOST_DEVICE int
terp_high_of(int code, int low_nbits)
{
    return (code + (1 << low_nbits >> 1)) >> low_nbits;
}

/* Splits a predictor's symbol into the tile's symbol and the low number. A code
 * whose high part exceeds TERP_MAX_CODE escapes from the tile; an escape has no
 * low bits. */
static inline TERP_HOST_DEVICE unsigned
terp_low_split(unsigned wide, int low_nbits, unsigned *low_ret)
{
    const int code = (int)wide - TERP_WIDE_RADIUS;
    const int high = terp_high_of(code, low_nbits);
    const int low = code - high * (1 << low_nbits);
    const bool fits = (wide != TERP_ESCAPE) & (high >= -TERP_MAX_CODE) &
                      (high <= TERP_MAX_CODE);

    /* As zigzag, but in 32 bits: so the compiler vectorizes loops over
     * symbols. */
    *low_ret = fits ? (unsigned)low << 1 ^ (low < 0 ? ~0u : 0) : 0;
    return fits ? (unsigned)(high + TERP_RADIUS) : TERP_ESCAPE;
}

/* The predictor's symbol of a code, limited to the largest code. */
static inline TERP_HOST_DEVICE unsigned
terp_symbol_of_wide(int code)
{
    const int most = TERP_WIDE_MAX_CODE;
    const int kept = code < -most ? -most : code > most ? most : code;

    return (unsigned)(kept + TERP_WIDE_RADIUS);
}

/* The inverse of terp_low_split. An escape stays an escape. */
static inline TERP_HOST_DEVICE unsigned
terp_low_join(unsigned symbol, unsigned low, int low_nbits)
{
    const int high = (int)symbol - TERP_RADIUS;
    const int rest = (int)(low >> 1) ^ -(int)(low & 1);
    const unsigned joined = terp_symbol_of_wide(high * (1 << low_nbits) + rest);

    return symbol == TERP_ESCAPE ? TERP_ESCAPE : joined;
}

/* ---- tails ---- */

/* A difference of the Lorenzo predictor may have a tail below its code. A chunk
 * with tails has wide codes with the largest unit. */
static inline TERP_HOST_DEVICE int
terp_tail_max_nbits(int value_nbytes)
{
    return 8 * value_nbytes - 16;
}

static inline TERP_HOST_DEVICE bool
terp_tail_nbits_are_valid(int tail_nbits, int wide, int value_nbytes)
{
    return tail_nbits > 0 && tail_nbits <= terp_tail_max_nbits(value_nbytes) &&
           wide == TERP_WIDE_MAX;
}

/* ---- groups ---- */

/* Low numbers are packed in groups of this many. Each group has its own width;
 * the widths precede the groups. */
#define TERP_LOW_GROUP_NNUMBERS 256
#define TERP_LOW_WIDTH_NBITS 4

static inline TERP_HOST_DEVICE uint64_t
terp_low_ngroups(uint64_t nsymbols)
{
    return div_up(nsymbols, TERP_LOW_GROUP_NNUMBERS);
}

/* Only the last group may have fewer numbers. */
static inline TERP_HOST_DEVICE uint64_t
terp_low_group_nnumbers(uint64_t nsymbols, uint64_t group)
{
    return min_u64(TERP_LOW_GROUP_NNUMBERS,
                   nsymbols - group * TERP_LOW_GROUP_NNUMBERS);
}

static inline TERP_HOST_DEVICE uint64_t
terp_low_group_nbytes(uint64_t nsymbols, uint64_t group, int width)
{
    return packed_nbytes(terp_low_group_nnumbers(nsymbols, group), width);
}

/* ---- tiles ---- */

/* The section holds for each tile two bits (which fields the record has), then
 * the tile's record, and behind all records the tile's data. */
#define TERP_LOW_TILE_NGROUPS (TERP_TILE_NSYMBOLS / TERP_LOW_GROUP_NNUMBERS)
#define TERP_LOW_KIND_NBITS 2
#define TERP_LOW_HAS_BITS 1u /* number of low bits, widths of groups */
#define TERP_LOW_HAS_LIST 2u /* bytes of the list */
#define TERP_LOW_LIST_LENGTH_NBYTES 2

static inline TERP_HOST_DEVICE unsigned
terp_low_widths_nbytes(unsigned ngroups)
{
    return (ngroups * TERP_LOW_WIDTH_NBITS + 7) / 8;
}

/* Bytes of the record of a tile of `ngroups` groups. */
static inline TERP_HOST_DEVICE unsigned
terp_low_record_nbytes(unsigned kind, unsigned ngroups)
{
    return (kind & TERP_LOW_HAS_BITS ? 1 + terp_low_widths_nbytes(ngroups)
                                     : 0) +
           (kind & TERP_LOW_HAS_LIST ? TERP_LOW_LIST_LENGTH_NBYTES : 0);
}

/* ---- lists ---- */

/* Wide codes that escape from a tile are listed, in groups of this many
 * numbers, each with its own width. Escapes of the predictor, which have no
 * code, are not listed. If a tile has both, a bit for each escape tells which
 * are listed. */
#define TERP_LIST_GROUP_NNUMBERS 32
#define TERP_LIST_MAX_WIDTH 16

/* A list begins with its number of codes and a flag: whether it ends with a bit
 * for each escape. */
#define TERP_LIST_HEAD_NBYTES 2
#define TERP_LIST_HAS_BITS 0x8000u

static inline TERP_HOST_DEVICE unsigned
terp_list_ngroups(unsigned nlisted)
{
    return (nlisted + TERP_LIST_GROUP_NNUMBERS - 1) / TERP_LIST_GROUP_NNUMBERS;
}

/* Only the last group may have fewer numbers. */
static inline TERP_HOST_DEVICE unsigned
terp_list_group_nnumbers(unsigned nlisted, unsigned group)
{
    const unsigned left = nlisted - group * TERP_LIST_GROUP_NNUMBERS;

    return left < TERP_LIST_GROUP_NNUMBERS ? left : TERP_LIST_GROUP_NNUMBERS;
}

static inline TERP_HOST_DEVICE unsigned
terp_list_group_nbytes(unsigned nlisted, unsigned group, int width)
{
    return (terp_list_group_nnumbers(nlisted, group) * (unsigned)width + 7) / 8;
}

#define TERP_LIST_MAX_NBYTES                                                 \
    (TERP_LIST_HEAD_NBYTES + TERP_TILE_NSYMBOLS / TERP_LIST_GROUP_NNUMBERS + \
     TERP_TILE_NSYMBOLS * TERP_LIST_MAX_WIDTH / 8 + TERP_TILE_NSYMBOLS / 8)
_Static_assert(TERP_LIST_MAX_NBYTES < 1 << (8 * TERP_LOW_LIST_LENGTH_NBYTES),
               "A record can hold the length of any list.");
_Static_assert(TERP_TILE_NSYMBOLS < TERP_LIST_HAS_BITS,
               "A list's number of codes leaves the highest bit free.");
