/* In which order a stream has the classes of a level and the symbols of an
 * array. doc/format.md, "Spline", "Tile order". */
#pragma once

#include "codec/format/limits.h"

#define TERP_NDIMS 4
#define TERP_NCLASSES 16

/* Class number `i` of a level's, from 0 on: first those of one odd dimension,
 * then those of two, of three, of four, each ascending. So a class stands
 * behind all classes that it is predicted from. A digit of the number is a
 * class, the lowest the first; a table would be slower on a device. */
static inline TERP_HOST_DEVICE unsigned
terp_nth_class(int i)
{
    return (unsigned)(UINT64_C(0xFEDB7CA96538421) >> (4 * i)) & 15;
}

/* A tile holds a box of the array, which has the same extent in each dimension
 * of a brick. In the dimensions beyond its rank arrays have the extent 1, and
 * any box will do. */
static inline TERP_HOST_DEVICE int
terp_box_extent_log2(int rank)
{
    _Static_assert(TERP_TILE_NSYMBOLS == 1 << 12, "A box is a tile.");
    return rank == 1 ? 12 : rank == 2 ? 6 : rank == 3 ? 4 : 3;
}
