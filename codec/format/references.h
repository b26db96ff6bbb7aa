/* The body of a stream with references. A value that nearly or exactly repeats
 * an earlier value, its source, is stored as a reference. doc/format.md,
 * "References". */
#pragma once

#include "codec/format/parts.h"

TERP_C_BEGIN

/* The inner streams. Each reference has a distance to its source and a
 * difference from it. */
enum terp_references_part {
    TERP_REFERENCES_DISTANCES,
    TERP_REFERENCES_DIFFERENCES,
    TERP_REFERENCES_VALUES, /* the chunk, with markers in place of references */
    TERP_REFERENCES_NPARTS
};

/* ---- values ---- */

static inline TERP_HOST_DEVICE uint64_t
terp_reference_sign_bit(int value_nbytes)
{
    return UINT64_C(1) << (8 * value_nbytes - 1);
}

/* The bits by which values are compared: of floats the magnitude only. */
static inline TERP_HOST_DEVICE uint64_t
terp_reference_word(bool is_float, int value_nbytes, uint64_t bits)
{
    return is_float ? bits & ~terp_reference_sign_bit(value_nbytes) : bits;
}

/* A value from its source and the difference. The lowest bit of a float's
 * difference says whether the signs differ. */
static inline TERP_HOST_DEVICE uint64_t
terp_reference_value(bool is_float, int value_nbytes, uint64_t source,
                     uint64_t difference)
{
    const uint64_t sign_bit = terp_reference_sign_bit(value_nbytes);

    if (!is_float)
        return source + difference;
    const uint64_t word = terp_reference_word(true, value_nbytes, source) +
                          (uint64_t)((int64_t)difference >> 1);
    return terp_reference_word(true, value_nbytes, word) |
           ((source ^ difference << (8 * value_nbytes - 1)) & sign_bit);
}

static inline TERP_HOST_DEVICE uint64_t
terp_reference_difference(bool is_float, int value_nbytes, uint64_t value,
                          uint64_t source)
{
    if (!is_float)
        return value - source;
    return (terp_reference_word(true, value_nbytes, value) -
            terp_reference_word(true, value_nbytes, source))
               << 1 |
           ((value ^ source) & terp_reference_sign_bit(value_nbytes)) >>
               (8 * value_nbytes - 1);
}

/* The chunk of an inner stream. It is little-endian. */
struct terp_chunk
terp_references_chunk(const struct terp_chunk *chunk,
                      enum terp_references_part part, uint64_t nreferences);

TERP_C_END
