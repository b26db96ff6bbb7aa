/* The body of a stream of copies: along some dimensions all values are what the
 * first ones are, and these alone are coded. doc/format.md, "Copies". */
#pragma once

#include "codec/format/parts.h"

TERP_C_BEGIN

struct terp_copies {
    unsigned dims; /* a bit mask, bit 0 the fastest */
    struct terp_part values;
};

/* The extent of dimension d, 0 being the fastest. */
static inline uint64_t
terp_extent_of(const struct terp_chunk *chunk, int d)
{
    return chunk->dims[chunk->rank - 1 - d];
}

/* What is left of a chunk without some dimensions: one value at least. */
struct terp_chunk
terp_copies_chunk(const struct terp_chunk *chunk, unsigned dims);

/* Whether copies may be along such dimensions: some, none of which has a single
 * point. */
bool
terp_copies_are_valid(const struct terp_chunk *chunk, unsigned dims);

/* Reads all but the body of the values. TERP_ERR_TRUNCATED, or
 * TERP_ERR_CORRUPT. */
enum terp_status
terp_copies_read(const struct terp_chunk *chunk, const uint8_t *body,
                 uint64_t body_nbytes, struct terp_copies *ret);

TERP_C_END
