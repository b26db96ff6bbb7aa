/* The body of a stream with references: values that repeat earlier ones are
 * told by where these are. doc/format.md, "References". */
#pragma once

#include "codec/format/parts.h"

TERP_C_BEGIN

/* A reference says where its source is, and how it differs. */
enum terp_references_part {
    TERP_REFERENCES_DISTANCES,
    TERP_REFERENCES_DIFFERENCES,
    TERP_REFERENCES_VALUES, /* of the chunk, markers for those that refer */
    TERP_REFERENCES_NPARTS
};

struct terp_references {
    uint64_t marker; /* the bits of a value that no other value has */
    uint64_t nreferences;
    struct terp_part part[TERP_REFERENCES_NPARTS];
};

/* ---- values ---- */

static inline TERP_HOST_DEVICE uint64_t
terp_reference_sign_bit(int value_nbytes)
{
    return UINT64_C(1) << (8 * value_nbytes - 1);
}

/* What is compared of a value: floats by magnitude. */
static inline TERP_HOST_DEVICE uint64_t
terp_reference_word(bool is_float, int value_nbytes, uint64_t bits)
{
    return is_float ? bits & ~terp_reference_sign_bit(value_nbytes) : bits;
}

/* A source's value and the difference make a value, and the other way round.
 * The lowest bit of a float's difference is that of the sign. */
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

/* ---- streams ---- */

/* A part's chunk, which is little-endian. */
struct terp_chunk
terp_references_chunk(const struct terp_chunk *chunk,
                      enum terp_references_part part, uint64_t nreferences);

/* Reads all but the parts' bodies. TERP_ERR_TRUNCATED, or TERP_ERR_CORRUPT. */
enum terp_status
terp_references_read(const struct terp_chunk *chunk, const uint8_t *body,
                     uint64_t body_nbytes, struct terp_references *ret);

TERP_C_END
