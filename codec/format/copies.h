/* The body of a stream of copies. Along some dimensions, all values equal the
 * first ones; the stream leaves the copies out. doc/format.md, "Copies". */
#pragma once

#include "codec/format/parts.h"

TERP_C_BEGIN

/* The extent of dimension d; 0 is the fastest. */
static inline uint64_t
terp_extent_of(const struct terp_chunk *chunk, int d)
{
    return chunk->dims[chunk->rank - 1 - d];
}

/* The chunk without the dimensions `dims`. It has at least one value. */
struct terp_chunk
terp_copies_chunk(const struct terp_chunk *chunk, unsigned dims);

/* Whether a stream may leave out copies along `dims`: at least one dimension,
 * each with more than one point, and the chunk is not a stack. */
bool
terp_copies_are_valid(const struct terp_chunk *chunk, unsigned dims);

TERP_C_END
