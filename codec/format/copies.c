/* The chunk that remains when copies are removed. */
#include "codec/format/copies.h"

struct terp_chunk
terp_copies_chunk(const struct terp_chunk *chunk, unsigned dims)
{
    struct terp_chunk left = {.type = chunk->type,
                              .big_endian = chunk->big_endian};

    for (int d = chunk->rank - 1; d >= 0; d--)
        if ((dims >> d & 1) == 0)
            left.dims[left.rank++] = terp_extent_of(chunk, d);
    if (left.rank == 0)
        left.dims[left.rank++] = 1;
    return left;
}

bool
terp_copies_are_valid(const struct terp_chunk *chunk, unsigned dims)
{
    bool valid = dims > 0 && dims >> chunk->rank == 0 && !chunk->stack;

    for (int d = 0; d < chunk->rank; d++)
        valid = valid && ((dims >> d & 1) == 0 || terp_extent_of(chunk, d) > 1);
    return valid;
}
