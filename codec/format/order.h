/* The order of a level's classes, and of an array's symbols, in a stream.
 * doc/format.md, "Spline", "Tile order". */
#pragma once

#include "codec/format/limits.h"

#define TERP_NDIMS 4
#define TERP_NCLASSES 16

/* Class number `i` of a level, counted from 0: first the classes of one odd
 * dimension, then of two, three, four; each group ascending. So a class comes
 * after all classes that predict it. Each hexadecimal digit is a class, the
 * lowest digit the first; a table would be slower on a device. */
static inline TERP_HOST_DEVICE unsigned
terp_nth_class(int i)
{
    return (unsigned)(UINT64_C(0xFEDB7CA96538421) >> (4 * i)) & 15;
}

/* A tile holds a box of the array with the same extent in each dimension of a
 * brick. Dimensions beyond the array's rank have the extent 1, so the box's
 * extent there does not matter. */
static inline TERP_HOST_DEVICE int
terp_box_extent_log2(int rank)
{
    _Static_assert(TERP_TILE_NSYMBOLS == 1 << 12, "A box is a tile.");
    return rank == 1 ? 12 : rank == 2 ? 6 : rank == 3 ? 4 : 3;
}
