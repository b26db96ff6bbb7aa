/* Floor 3: where the points of a chunk stand while an engine works on them.
 *
 * Level l (nlevels .. 1) fills the lattice of stride 2^(l-1) from its even
 * points, the lattice of stride 2^l. Its other points fall into classes by
 * the set of dimensions in which their coordinate is odd. Dimension 0 is the
 * fastest; a class is a bit mask of dimensions.
 *
 * `work` holds all points in the order of the stream: one anchor a brick,
 * then level by level, class by class, brick by brick, C order. `lattice`
 * holds each level's even points in C order. */
#ifndef TERP_CPU_LAYOUT_H
#define TERP_CPU_LAYOUT_H

#include "terp.h"

#define CPU_NDIMS 4
#define CPU_NCLASSES 16
#define CPU_MAX_LEVELS 63

struct cpu_level {
    uint64_t neven[CPU_NDIMS];
    uint64_t nodd[CPU_NDIMS];
    uint64_t lattice_at;
    uint64_t class_at[CPU_NCLASSES]; /* in work; [0] is not used */
};

struct cpu_layout {
    int rank; /* of a brick */
    uint64_t nbricks;
    uint64_t dims[CPU_NDIMS]; /* of a brick, fastest first, 1 where unused */
    uint64_t nvalues;
    uint64_t nlattice; /* values in `lattice` */
    int nlevels;
    struct cpu_level level[CPU_MAX_LEVELS + 1]; /* [0] is not used */
};

/* Classes in stream order: after all classes that they are predicted from. */
extern const uint8_t cpu_class_order[CPU_NCLASSES - 1];

void
cpu_layout_make(const struct terp_chunk *chunk, struct cpu_layout *layout_ret);

/* Extent of a class along a dimension. */
static inline uint64_t
cpu_class_extent(const struct cpu_level *level, unsigned odd, int d)
{
    return odd >> d & 1 ? level->nodd[d] : level->neven[d];
}

/* Rows (runs along dimension 0) of a class in all bricks. */
uint64_t
cpu_class_nrows(const struct cpu_layout *layout, int l, unsigned odd);

#endif
