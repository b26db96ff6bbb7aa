/* The order of a chunk's points in an engine's working memory.
 *
 * Level l (nlevels .. 1) fills the lattice of stride 2^(l-1) from its even
 * points, the lattice of stride 2^l. The other points of the lattice form
 * classes: a class holds the points that are odd in the same dimensions. A
 * class is a bit mask of dimensions; dimension 0 is the fastest.
 *
 * In level order, codes are sorted by: anchors, one for each brick; then level
 * by level, class by class (terp_nth_class), brick by brick, in C order. An
 * engine's array `work` holds all points in level order; its array `lattice`
 * holds each level's even points in C order. */
#pragma once

#include "codec/api/terp.h"
#include "codec/format/base.h"
#include "codec/format/order.h"

TERP_C_BEGIN

#define TERP_MAX_LEVELS 63

struct terp_level {
    uint64_t neven[TERP_NDIMS];
    uint64_t nodd[TERP_NDIMS];
    uint64_t lattice_at;
    uint64_t class_at[TERP_NCLASSES]; /* in level order; [0] is unused */
};

struct terp_layout {
    int rank; /* of a brick */
    uint64_t nbricks;
    uint64_t dims[TERP_NDIMS]; /* of a brick, fastest first, 1 where unused */
    uint64_t nvalues;
    uint64_t nlattice; /* values of the array `lattice` */
    int nlevels;
    struct terp_level level[TERP_MAX_LEVELS + 1]; /* [0] is unused */
};

void
terp_layout_make(const struct terp_chunk *chunk,
                 struct terp_layout *layout_ret);

static inline TERP_HOST_DEVICE uint64_t
terp_class_extent(const struct terp_level *level, unsigned odd, int d)
{
    return odd >> d & 1 ? level->nodd[d] : level->neven[d];
}

/* Rows (runs along dimension 0) of a class, in all bricks together. */
uint64_t
terp_class_nrows(const struct terp_layout *layout, int l, unsigned odd);

TERP_C_END
