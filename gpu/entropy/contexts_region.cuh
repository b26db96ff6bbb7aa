/* Divides the points of levels with contexts among blocks: a block has a region
 * of the level's lattice of even points. */
#pragma once

#include "gpu/entropy/contexts.cuh"
#include "gpu/entropy/order.cuh"

/* Threads of every block in contexts.cu: 16 symbols of a tile each
 * (contexts_move.cuh depends on that). */
#define CONTEXT_NTHREADS 256

/* Words for the weights of a region and of its neighbours on the far sides,
 * four weights a word. The largest region is a box of four dimensions with 8^4
 * points: with neighbours 9^4 points, and a row of 9 takes three words. */
#define CONTEXT_MAX_NWORDS (9 * 9 * 9 * 3)

/* The regions of a level. A region lies in one box, or holds several small
 * bricks. Index d of an array is a dimension, and index TERP_NDIMS the bricks.
 * Reciprocals are for divide_by. */
struct context_level {
    int l;
    uint64_t begin, end;             /* positions of the level's symbols */
    uint32_t nblocks;                /* regions in all */
    uint32_t nregions[TERP_NDIMS];   /* along each dimension */
    uint32_t extent[TERP_NDIMS + 1]; /* even points of a region */
    uint32_t ngroups;                /* groups of four points in a region */
    uint32_t groups_reciprocal[TERP_NDIMS];
    uint32_t nwords;                 /* of a region's weights */
    uint32_t stride[TERP_NDIMS + 1]; /* of weights, in words; [0] not used */
    uint32_t words_extent[TERP_NDIMS], words_reciprocal[TERP_NDIMS];
    uint32_t nhalves; /* weights whose coordinates are all even */
    uint32_t halves_extent[TERP_NDIMS], halves_reciprocal[TERP_NDIMS];
};

/* The levels with contexts, the coarsest first. */
struct context_plan {
    uint64_t ncoarse; /* symbols of coarser levels, which have no contexts */
    int nlevels;
    struct context_level level[TERP_NCONTEXT_LEVELS];
};

/* The symbols of one class in a region: they stand in one box, or in boxes of
 * consecutive bricks. The symbol of a point is at `at` plus the point's
 * coordinates in the region times the strides. */
struct alignas(16) context_part {
    uint64_t at;                     /* of the region's first point */
    uint32_t stride[TERP_NDIMS + 1]; /* [0]: 1 */
    uint32_t left; /* symbols from `at` to the end of its tile; 0: the region
                      has no points of the class */
};

/* The region of a block. */
struct context_region {
    uint32_t low[TERP_NDIMS]; /* first even point */
    uint64_t brick;           /* first brick */
    /* Even and odd points from `low` to the lattice's end; the region's
     * bricks. */
    uint32_t neven[TERP_NDIMS], nodd[TERP_NDIMS], nbricks;
};

static __device__ __forceinline__ struct context_region
context_region_of(const struct terp_level &shape, uint64_t nbricks,
                  const struct context_level &level, uint32_t block)
{
    struct context_region r;

#pragma unroll
    for (int d = 0; d < TERP_NDIMS; d++) {
        const uint32_t next = block / level.nregions[d];
        r.low[d] = (block - next * level.nregions[d]) * level.extent[d];
        block = next;
        r.neven[d] = (uint32_t)shape.neven[d] - r.low[d];
        r.nodd[d] = (uint32_t)shape.nodd[d] > r.low[d]
                        ? (uint32_t)shape.nodd[d] - r.low[d]
                        : 0;
    }
    r.brick = (uint64_t)block * level.extent[TERP_NDIMS];
    r.nbricks = (uint32_t)min_u64(nbricks - r.brick, level.extent[TERP_NDIMS]);
    return r;
}

static __device__ __forceinline__ struct context_part
context_part_of(const struct terp_level &shape, int rank,
                const struct context_region &r, unsigned odd)
{
    const uint64_t box = (uint64_t)1 << terp_box_extent_log2(rank);
    uint64_t extent[TERP_NDIMS], at[TERP_NDIMS];
    struct context_part part = {};
    uint32_t stride = 1;
    bool some = odd != 0;

#pragma unroll
    for (int d = 0; d < TERP_NDIMS; d++) {
        extent[d] = terp_class_extent(&shape, odd, d);
        at[d] = r.low[d];
        some &= at[d] < extent[d];
        part.stride[d] = stride;
        stride *= (uint32_t)min_u64(box, extent[d] - (at[d] & ~(box - 1)));
    }
    part.stride[TERP_NDIMS] = stride;
    if (!some)
        return part;
    part.at =
        shape.class_at[odd] + tiled_at(tiled_row_at(rank, extent, at, r.brick),
                                       rank, extent[0], at[0]);
    part.left = TERP_TILE_NSYMBOLS - part.at % TERP_TILE_NSYMBOLS;
    return part;
}

/* ---- points ---- */

/* A group: four consecutive even points of a row. c has the coordinates of the
 * first in the region; the others differ from it along dimension 0 alone. */
struct context_group {
    uint32_t c[TERP_NDIMS], brick; /* in the region */
    unsigned odd_inside; /* bit d: the lattice has odd points next along d */
    bool inside;         /* false: no such group */
};

static __device__ __forceinline__ struct context_group
context_group_of(const struct context_level &level,
                 const struct context_region &r, uint32_t number)
{
    struct context_group group = {};
    uint32_t left = number < level.ngroups ? number : 0;

    group.inside = number < level.ngroups;
#pragma unroll
    for (int d = 0; d < TERP_NDIMS; d++) {
        const uint32_t next = divide_by(level.groups_reciprocal[d], left);
        const uint32_t extent =
            d == 0 ? (level.extent[0] + 3) / 4 : level.extent[d];
        group.c[d] = (left - next * extent) * (d == 0 ? 4 : 1);
        left = next;
        group.inside &= group.c[d] < r.neven[d];
        group.odd_inside |= (unsigned)(group.c[d] < r.nodd[d]) << d;
    }
    group.brick = left;
    group.inside &= left < r.nbricks;
    return group;
}

/* How many points of a class (even or odd along each dimension) belong to a
 * group: at most four. */
static __device__ __forceinline__ unsigned
context_group_size(const struct context_level &level,
                   const struct context_region &r,
                   const struct context_group &group, unsigned odd)
{
    const uint32_t n = min(odd & 1 ? r.nodd[0] : r.neven[0], level.extent[0]);

    return group.inside && (odd & ~group.odd_inside) == 0
               ? min(n - group.c[0], 4u)
               : 0;
}

/* The offset of a group's symbols of a class from part.at. */
static __device__ __forceinline__ uint32_t
context_group_offset(const struct context_part &part,
                     const struct context_group &group)
{
    return group.c[0] + group.c[1] * part.stride[1] +
           group.c[2] * part.stride[2] + group.c[3] * part.stride[3] +
           group.brick * part.stride[TERP_NDIMS];
}

/* A group's points of a class, by their coordinates in the chunk. */
struct raster_points {
    uint64_t at[TERP_NDIMS]; /* of the first point */
    uint64_t brick;
    uint64_t step; /* to the next point, along dimension 0 */
};

static __device__ __forceinline__ struct raster_points
raster_points_of(const struct context_level &level,
                 const struct context_region &r,
                 const struct context_group &group, unsigned odd)
{
    struct raster_points points;

#pragma unroll
    for (int d = 0; d < TERP_NDIMS; d++)
        points.at[d] = (2 * ((uint64_t)r.low[d] + group.c[d]) + (odd >> d & 1))
                       << (level.l - 1);
    points.brick = r.brick + group.brick;
    points.step = (uint64_t)1 << level.l;
    return points;
}

/* The first point's position in C order. */
static __device__ __forceinline__ uint64_t
raster_begin(const struct terp_layout *layout,
             const struct raster_points &points)
{
    uint64_t begin = points.brick;

#pragma unroll
    for (int d = TERP_NDIMS - 1; d >= 0; d--)
        begin = begin * layout->dims[d] + points.at[d];
    return begin;
}

/* The points' row in lorenzo's tile order. */
static __device__ __forceinline__ struct tiled_row
raster_row(const struct terp_layout *layout, const struct raster_points &points)
{
    return tiled_row_at(layout->rank, layout->dims, points.at, points.brick);
}
