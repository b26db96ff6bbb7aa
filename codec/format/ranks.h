/* The body of a stream of ranks: a sorted table of the chunk's different
 * values, and the place of each value in the table. In the body of a stream of
 * a grid, higher numbers are values on the grid (codec/format/grid.h).
 * doc/format.md, "Ranks", "Grid". */
#pragma once

#include "codec/format/frame.h"
#include "codec/format/grid.h"
#include "codec/format/types.h"

TERP_C_BEGIN

enum terp_ranks_part {
    TERP_RANKS_TABLE, /* of the chunk's type */
    TERP_RANKS_RANKS, /* of the chunk's shape */
    TERP_RANKS_NPARTS
};

/* A chunk with a table of one value would be constant. */
#define TERP_RANKS_MIN_NTABLE 2

/* Tables of more values have ranks of 32 bits. */
#define TERP_RANKS_NARROW_NTABLE 65536

/* Maps a value's bits to an unsigned integer. The map keeps the order of the
 * type's values and maps different bits to different integers: -0.0 is below
 * 0.0, and NaNs are at both ends. */
static inline TERP_HOST_DEVICE uint64_t
terp_rank_key(enum terp_type type, int value_nbytes, uint64_t bits)
{
    const uint64_t top = UINT64_C(1) << (8 * value_nbytes - 1);

    if (terp_type_is_integer(type))
        return terp_type_is_signed(type) ? bits ^ top : bits;
    return bits & top ? bits ^ (top | (top - 1)) : bits | top;
}

/* Whether a chunk may have a table of `ntable` values. */
static inline TERP_HOST_DEVICE bool
terp_ranks_are_valid(int value_nbytes, uint64_t nvalues, uint64_t ntable)
{
    return ntable >= TERP_RANKS_MIN_NTABLE && ntable <= nvalues &&
           ntable <= UINT32_MAX && (value_nbytes > 2 || ntable <= 65536);
}

/* Whether a chunk with a grid may have a table of `ntable` values. */
static inline bool
terp_grid_table_is_valid(uint64_t nvalues, uint64_t ntable)
{
    return ntable >= 1 && ntable <= nvalues && ntable <= UINT32_MAX;
}

static inline TERP_HOST_DEVICE int
terp_rank_nbytes(uint64_t ntable)
{
    return ntable <= TERP_RANKS_NARROW_NTABLE ? 2 : 4;
}

/* The chunk of a part. It is little-endian. `number_nbytes` are the bytes of a
 * rank, or of a number of a grid. */
struct terp_chunk
terp_ranks_chunk(const struct terp_chunk *chunk, enum terp_ranks_part part,
                 uint64_t ntable, int number_nbytes);

TERP_C_END
