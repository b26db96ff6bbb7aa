/* How a small level is cut into tiles. A *region* is a tile and the points
 * around it that the tile's points read. */
#pragma once

#include "gpu/predict/spline.cuh"

/* Chunks of more dimensions have tiles that consist mostly of surroundings. */
#define TILE_NDIMS 3
#define TILE_NUPPER (TILE_NDIMS - 1)
#define TILE_NTYPES (1 << TILE_NUPPER) /* types of rows, by odd >> 1 */
/* values between two rows of a region: two per thread of a warp */
#define TILE_PITCH 64

/* A dimension of a level. */
struct tile_axis {
    uint32_t neven, nodd; /* points of the level */
    uint32_t ntiles;
    uint32_t core; /* even points of a tile */
    /* even points of a region below its tile: 1, or 0 if one tile has all */
    uint32_t halo;
    uint32_t neven_around, nodd_around; /* points of a region */
    uint32_t coarse_stride, fine_stride;
    uint64_t src_stride;
};

struct tile_work {
    int l, rank;
    struct tile_axis axis[TILE_NDIMS];
    /* strides of a region, the slowest dimension first */
    uint32_t pitch[TILE_NUPPER];
    /* Rows of a region are ordered by type, and types by their number of odd
     * dimensions, so each step has consecutive rows. */
    uint32_t row_end[TILE_NTYPES], step_end[TILE_NDIMS];
    uint32_t class_at[2 * TILE_NTYPES];
    uint32_t coarse_nvalues, fine_nvalues; /* of a brick */
    uint64_t src_nvalues;
    uint64_t coarse_at, fine_at; /* in `lattice` */
};

/* Returns how many even points a tile has along dimension d above 0. There are
 * then about as many tiles as a large device has multiprocessors. Levels of
 * more than TILE_SMALL_NVALUES values have larger tiles along dimension 1. */
#define TILE_SMALL_NVALUES (1u << 15)
static inline uint32_t
core_of(int rank, int d, uint64_t fine_nvalues)
{
    if (rank == 2)
        return 16;
    return d == 1 && fine_nvalues > TILE_SMALL_NVALUES ? 4 : 2;
}

/* Fills an axis whose tiles have up to `core` even points. If one tile has all
 * of them, its region has no surroundings. */
static inline void
make_tile_axis(uint32_t neven, uint32_t nodd, uint32_t core,
               struct tile_axis *axis)
{
    const bool whole = neven <= core;

    axis->neven = neven;
    axis->nodd = nodd;
    axis->core = whole ? neven : core;
    axis->halo = whole ? 0 : 1;
    axis->ntiles = (neven - 1) / axis->core + 1;
    axis->neven_around = whole ? neven : core + 3;
    axis->nodd_around = whole ? nodd : core;
}

/* Describes level l of chunks with at most TILE_NDIMS dimensions per brick.
 * Returns the number of tiles. */
static inline unsigned
make_tile_work(const struct terp_layout *layout, int l, struct tile_work *work)
{
    const struct terp_level *level = &layout->level[l];
    uint64_t coarse = 1, fine = 1, src = 1, ntiles = layout->nbricks;

    *work = {};
    work->l = l;
    work->rank = layout->rank;
    work->coarse_at = level->lattice_at;
    work->fine_at = l > 1 ? layout->level[l - 1].lattice_at : 0;
    for (int d = 0; d < TILE_NDIMS; d++) {
        struct tile_axis *axis = &work->axis[d];
        axis->coarse_stride = (uint32_t)coarse;
        axis->fine_stride = (uint32_t)fine;
        axis->src_stride = src << (l - 1);
        coarse *= level->neven[d];
        fine *= level->neven[d] + level->nodd[d];
        src *= layout->dims[d];
    }
    work->coarse_nvalues = (uint32_t)coarse;
    work->fine_nvalues = (uint32_t)fine;
    work->src_nvalues = src;
    for (int d = 0; d < TILE_NDIMS; d++) {
        const uint32_t neven = (uint32_t)level->neven[d];
        uint32_t core = core_of(layout->rank, d, fine * layout->nbricks);
        /* The lanes of a warp hold a row's even points: all of them if there
         * are at most 32, otherwise up to 29 and the 3 around them. Tiles are
         * about equally long. */
        if (d == 0)
            core =
                neven <= 32 ? neven : (neven - 1) / ((neven - 1) / 29 + 1) + 1;
        make_tile_axis(neven, (uint32_t)level->nodd[d], core, &work->axis[d]);
        ntiles *= work->axis[d].ntiles;
    }

    const struct tile_axis *y = &work->axis[1], *z = &work->axis[2];
    work->pitch[1] = TILE_PITCH;
    work->pitch[0] =
        TILE_PITCH * (y->halo ? 2 * y->neven_around - 1 : y->neven + y->nodd);
    uint32_t end = 0;
    for (unsigned type = 0; type < TILE_NTYPES; type++) {
        end += (type & 1 ? y->nodd_around : y->neven_around) *
               (type & 2 ? z->nodd_around : z->neven_around);
        work->row_end[type] = end;
        work->step_end[(type + 1) / 2] = end;
        work->class_at[2 * type] = (uint32_t)level->class_at[2 * type];
        work->class_at[2 * type + 1] = (uint32_t)level->class_at[2 * type + 1];
    }
    return (unsigned)ntiles;
}

/* The tile of a block. */
struct tile_place {
    uint32_t brick;
    uint32_t first[TILE_NDIMS]; /* its first even point */
};

static __device__ __forceinline__ struct tile_place
tile_place_of(const struct tile_work &work)
{
    struct tile_place tile = {blockIdx.x, {0}};

#pragma unroll
    for (int d = 0; d < TILE_NDIMS; d++) {
        const struct tile_axis &axis = work.axis[d];
        if (axis.ntiles == 1)
            continue;
        uint32_t left = tile.brick / axis.ntiles;
        tile.first[d] = (tile.brick - left * axis.ntiles) * axis.core;
        tile.brick = left;
    }
    return tile;
}
