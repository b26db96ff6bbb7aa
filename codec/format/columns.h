/* The body of a stream of columns: the points along the fastest dimension are
 * columns of a table, and each group of neighbouring columns is a stream of its
 * own. doc/format.md, "Columns". */
#pragma once

#include "codec/format/frame.h"
#include "codec/format/types.h"

TERP_C_BEGIN

#define TERP_COLUMNS_MAX_N 16

/* Bytes of the mask of a body: bit i is set if column i begins a group. */
#define TERP_COLUMNS_MASK_NBYTES 2

static inline TERP_HOST_DEVICE int
terp_columns_n(const struct terp_chunk *chunk)
{
    return (int)chunk->dims[chunk->rank - 1];
}

/* Whether a chunk may be a table. */
static inline bool
terp_columns_are_possible(const struct terp_chunk *chunk)
{
    return terp_type_nparts(chunk->type) == 1 && chunk->type != TERP_BYTES &&
           !chunk->stack && chunk->rank >= 2 &&
           chunk->dims[chunk->rank - 1] >= 2 &&
           chunk->dims[chunk->rank - 1] <= TERP_COLUMNS_MAX_N;
}

/* Whether a table of `n` columns may have these groups. */
static inline bool
terp_columns_are_valid(int n, unsigned mask)
{
    return (mask & 1) != 0 && mask >> n == 0;
}

static inline int
terp_columns_ngroups(unsigned mask)
{
    return __builtin_popcount(mask);
}

/* The chunk of a group. It is little-endian. In a group of several columns, the
 * columns are the slowest dimension. */
struct terp_chunk
terp_columns_chunk(const struct terp_chunk *chunk, unsigned mask, int group);

TERP_C_END
