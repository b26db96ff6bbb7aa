/* Converts the positions of single symbols between tile order, level order and
 * C order, in closed form. doc/format.md, "Tile order". The CPU copies whole
 * rows and walks over the boxes instead (cpu/entropy/order.h). */
#pragma once

#include "codec/format/layout.h"
#include "gpu/engine/platform.cuh"

/* a / b. Most numbers fit into 32 bits, whose division is much faster. */
static __host__ __device__ __forceinline__ uint64_t
divide(uint64_t a, uint64_t b)
{
    return (a | b) >> 32 == 0 ? (uint32_t)a / (uint32_t)b : a / b;
}

/* Divides *left by an extent and returns the remainder. */
static __host__ __device__ __forceinline__ uint64_t
split(uint64_t *left, uint64_t extent)
{
    if (extent == 1)
        return 0;
    uint64_t quotient = divide(*left, extent);
    uint64_t rest = *left - quotient * extent;
    *left = quotient;
    return rest;
}

/* Divides a number below 2^13 by an extent below 2^13, given the extent's
 * reciprocal_of. */
static __device__ __forceinline__ uint32_t
divide_by(uint32_t reciprocal, uint32_t number)
{
    return (uint32_t)((uint64_t)number * reciprocal >> 31);
}

static inline uint32_t
reciprocal_of(uint32_t extent)
{
    return (UINT32_C(1) << 31) / extent + 1;
}

/* A row of an array [nbricks][n3][n2][n1][n0]. The row runs through several
 * boxes, and its symbols stand in one segment per box. The members do not
 * depend on n0, so a class and the class that differs from it in dimension 0
 * alone share them. */
struct tiled_row {
    uint64_t nrows_before; /* rows that stand entirely before these boxes */
    uint32_t box_nrows;    /* rows of each of these boxes */
    uint32_t row_in_box;   /* number of this row in its boxes */
};

/* The row of the point at `at`. Does not read extent[0] and at[0]. */
static __host__ __device__ __forceinline__ struct tiled_row
tiled_row_at(int rank, const uint64_t extent[TERP_NDIMS],
             const uint64_t at[TERP_NDIMS], uint64_t brick)
{
    const uint64_t box = (uint64_t)1 << terp_box_extent_log2(rank);
    struct tiled_row row = {brick, 1, 0};

    for (int d = TERP_NDIMS - 1; d > 0; d--) {
        uint64_t low = at[d] & ~(box - 1);
        uint32_t height = (uint32_t)min_u64(box, extent[d] - low);
        row.nrows_before = row.nrows_before * extent[d] + row.box_nrows * low;
        row.row_in_box = row.row_in_box * height + (uint32_t)(at[d] - low);
        row.box_nrows *= height;
    }
    return row;
}

/* The position in tile order of point x of the row; rows have n0 points. */
static __host__ __device__ __forceinline__ uint64_t
tiled_at(const struct tiled_row &row, int rank, uint64_t n0, uint64_t x)
{
    const uint64_t box = (uint64_t)1 << terp_box_extent_log2(rank);
    uint64_t low = x & ~(box - 1);
    uint64_t width = min_u64(box, n0 - low);
    return row.nrows_before * n0 + low * row.box_nrows +
           row.row_in_box * width + (x - low);
}

/* The position in C order of the symbol at `tiled` in tile order. Calls are
 * rare, so loops are not unrolled, to keep the code short. */
static __host__ __device__ inline uint64_t
untiled_at(int rank, const uint64_t extent[TERP_NDIMS], uint64_t tiled)
{
    const uint64_t box = (uint64_t)1 << terp_box_extent_log2(rank);
    uint64_t nvalues = 1, low[TERP_NDIMS], width[TERP_NDIMS], inner[TERP_NDIMS];

#pragma unroll 1
    for (int d = 0; d < TERP_NDIMS; d++) {
        inner[d] = nvalues;
        nvalues *= extent[d];
    }
    uint64_t brick = divide(tiled, nvalues), slower = 1;
    uint64_t left = tiled - brick * nvalues;
#pragma unroll 1
    for (int d = TERP_NDIMS - 1; d >= 0; d--) {
        uint64_t step = slower * inner[d]; /* symbols per step along d */
        low[d] = divide(left, step * box) * box;
        left -= low[d] * step;
        width[d] = min_u64(box, extent[d] - low[d]);
        slower *= width[d];
    }
    uint64_t at = brick * nvalues;
#pragma unroll 1
    for (int d = 0; d < TERP_NDIMS; d++) {
        uint64_t slow = divide(left, width[d]);
        at += (low[d] + left - slow * width[d]) * inner[d];
        left = slow;
    }
    return at;
}

/* The class of the point at a position (in level order) of the level. */
static __host__ __device__ __forceinline__ unsigned
class_of_position(const struct terp_level *level, uint64_t position)
{
    unsigned odd = 1;
    for (int i = 1; i < TERP_NCLASSES - 1; i++) {
        unsigned next = terp_nth_class(i);
        if (level->class_at[next] <= position)
            odd = next; /* of classes that begin here the last is not empty */
    }
    return odd;
}

/* The position in level order of the symbol at `tiled` in tile order. */
static __host__ __device__ inline uint64_t
level_position_of_tiled(const struct terp_layout *layout, uint64_t tiled)
{
    if (tiled < layout->nbricks)
        return tiled;
    int l = 1;
    for (int coarser = 1; coarser < layout->nlevels; coarser++)
        l += layout->level[coarser].class_at[1] > tiled;
    const struct terp_level *level = &layout->level[l];
    unsigned odd = class_of_position(level, tiled);
    uint64_t extent[TERP_NDIMS];
    for (int d = 0; d < TERP_NDIMS; d++)
        extent[d] = terp_class_extent(level, odd, d);
    uint64_t at = level->class_at[odd];
    return at + untiled_at(layout->rank, extent, tiled - at);
}

/* A point by its position in level order. */
struct level_point {
    uint64_t tiled;  /* its symbol's position */
    uint64_t raster; /* in C order of the chunk */
};

static __host__ __device__ inline struct level_point
level_point_at(const struct terp_layout *layout, uint64_t position)
{
    struct level_point point = {position, 0};
    uint64_t left = position, at[TERP_NDIMS] = {0};
    int l = 1;

    if (position >= layout->nbricks) {
        uint64_t extent[TERP_NDIMS];
        while (layout->level[l].class_at[1] > position)
            l++;
        const struct terp_level *level = &layout->level[l];
        unsigned odd = class_of_position(level, position);
        left -= level->class_at[odd];
        for (int d = 0; d < TERP_NDIMS; d++) {
            extent[d] = terp_class_extent(level, odd, d);
            at[d] = split(&left, extent[d]);
        }
        struct tiled_row row = tiled_row_at(layout->rank, extent, at, left);
        point.tiled = level->class_at[odd] +
                      tiled_at(row, layout->rank, extent[0], at[0]);
        for (int d = 0; d < TERP_NDIMS; d++)
            at[d] = (2 * at[d] + (odd >> d & 1)) << (l - 1);
    }
    point.raster = left; /* the brick */
    for (int d = TERP_NDIMS - 1; d >= 0; d--)
        point.raster = point.raster * layout->dims[d] + at[d];
    return point;
}

/* The position in C order of a symbol in lorenzo's tile order. */
static __host__ __device__ inline uint64_t
raster_position_of_tiled(const struct terp_layout *layout, uint64_t tiled)
{
    return untiled_at(layout->rank, layout->dims, tiled);
}
