/* Enumerates the rows of a level's points. */
#pragma once

#include "codec/format/layout.h"

/* The coordinates of row `row`; returns its brick. */
static inline uint64_t
cpu_find_row(const uint64_t extent[TERP_NDIMS], uint64_t row,
             uint64_t at[TERP_NDIMS])
{
    for (int d = 1; d < TERP_NDIMS; d++) {
        at[d] = row % extent[d];
        row /= extent[d];
    }
    return row;
}

/* Advances to the next row. Returns true if that is in another brick. */
static inline bool
cpu_next_row(const uint64_t extent[TERP_NDIMS], uint64_t at[TERP_NDIMS])
{
    for (int d = 1; d < TERP_NDIMS; d++) {
        if (++at[d] < extent[d])
            return false;
        at[d] = 0;
    }
    return true;
}

/* The begin of a class's row in C order; its points are 2^l apart. */
static inline uint64_t
cpu_row_begin(const struct terp_layout *layout, int l, unsigned odd,
              uint64_t brick, const uint64_t at[TERP_NDIMS])
{
    uint64_t begin = brick;

    for (int d = TERP_NDIMS - 1; d > 0; d--)
        begin =
            begin * layout->dims[d] + ((2 * at[d] + (odd >> d & 1)) << (l - 1));
    return begin * layout->dims[0] + ((uint64_t)(odd & 1) << (l - 1));
}
