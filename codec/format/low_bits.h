/* How a wide code is split into a symbol and low bits, and the groups that low
 * bits are packed in. doc/format.md, "Low bits". */
#ifndef TERP_CODEC_FORMAT_LOW_BITS_H
#define TERP_CODEC_FORMAT_LOW_BITS_H

#include "codec/format/bytes.h"
#include "codec/format/limits.h"

/* The most low bits of a code. The model's first byte holds their number above
 * the step slack. */
#define TERP_LOW_MAX_NBITS 12
#define TERP_LOW_NBITS_SHIFT 4
#define TERP_STEP_SLACK 0x0F

/* A predictor's symbols are codes and a radius; those of wide codes fill 16
 * bits. */
#define TERP_WIDE_RADIUS 32768

static inline TERP_HOST_DEVICE int
terp_radius_of(int low_nbits)
{
    return low_nbits == 0 ? TERP_RADIUS : TERP_WIDE_RADIUS;
}

/* The largest code, of which some bits are low, by the largest symbol's. */
static inline TERP_HOST_DEVICE int
terp_wide_max_code(int max_code, int low_nbits)
{
    const int wide = max_code << low_nbits;
    return wide < TERP_WIDE_RADIUS ? wide : TERP_WIDE_RADIUS - 1;
}

/* What is above a code's low bits: the nearest multiple, rounded up. */
static inline TERP_HOST_DEVICE int
terp_high_of(int code, int low_nbits)
{
    return (code + (1 << low_nbits >> 1)) >> low_nbits;
}

/* A predictor's symbol to the tiles' symbol and the number of the low bits,
 * and back. An escape has no low bits. */
static inline TERP_HOST_DEVICE unsigned
terp_low_split(unsigned wide, int low_nbits, unsigned *low_ret)
{
    const int code = (int)wide - TERP_WIDE_RADIUS;
    const int high = terp_high_of(code, low_nbits);
    const int low = code - high * (1 << low_nbits);

    *low_ret = wide == TERP_ESCAPE ? 0 : (unsigned)zigzag(low);
    return wide == TERP_ESCAPE ? TERP_ESCAPE : (unsigned)(high + TERP_RADIUS);
}

static inline TERP_HOST_DEVICE unsigned
terp_low_join(unsigned symbol, unsigned low, int low_nbits)
{
    const int high = (int)symbol - TERP_RADIUS;
    const int code = high * (1 << low_nbits) + (int)unzigzag(low);
    const int most = TERP_WIDE_RADIUS - 1; /* an encoder makes no larger ones */
    const int kept = code < -most ? -most : code > most ? most : code;

    return symbol == TERP_ESCAPE ? TERP_ESCAPE
                                 : (unsigned)(kept + TERP_WIDE_RADIUS);
}

/* ---- tails ---- */

/* Differences of lorenzo may have a tail below the code, in addition to as many
 * low bits as there may be. */
static inline TERP_HOST_DEVICE int
terp_tail_max_nbits(int value_nbytes)
{
    return 8 * value_nbytes - 16;
}

static inline TERP_HOST_DEVICE bool
terp_tail_nbits_are_valid(int tail_nbits, int low_nbits, int value_nbytes)
{
    return tail_nbits > 0 && tail_nbits <= terp_tail_max_nbits(value_nbytes) &&
           low_nbits == TERP_LOW_MAX_NBITS;
}

/* ---- groups ---- */

/* Numbers come in groups of so many, each with its own width, which are told
 * first. */
#define TERP_LOW_GROUP_NNUMBERS 256
#define TERP_LOW_WIDTH_NBITS 4

static inline TERP_HOST_DEVICE uint64_t
terp_low_ngroups(uint64_t nsymbols)
{
    return div_up(nsymbols, TERP_LOW_GROUP_NNUMBERS);
}

/* Fewer only of the last. */
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

#endif
