/* Extents and offsets of a chunk's levels and classes. */
#include "codec/format/layout.h"

#include <string.h>

uint64_t
terp_class_nrows(const struct terp_layout *layout, int l, unsigned odd)
{
    uint64_t nrows = layout->nbricks;
    for (int d = 1; d < TERP_NDIMS; d++)
        nrows *= terp_class_extent(&layout->level[l], odd, d);
    return nrows;
}

void
terp_layout_make(const struct terp_chunk *chunk, struct terp_layout *layout_ret)
{
    struct terp_layout *layout = layout_ret;
    int first = chunk->stack ? 1 : 0;
    uint64_t largest = 1, fine[TERP_NDIMS];

    memset(layout, 0, sizeof *layout);
    layout->nbricks = chunk->stack ? chunk->dims[0] : 1;
    layout->rank = chunk->rank - first;
    layout->nvalues = layout->nbricks;
    for (int d = 0; d < TERP_NDIMS; d++) {
        int at = chunk->rank - 1 - d;
        layout->dims[d] = at >= first ? chunk->dims[at] : 1;
        layout->nvalues *= layout->dims[d];
        fine[d] = layout->dims[d];
        if (largest < fine[d])
            largest = fine[d];
    }
    while ((uint64_t)1 << layout->nlevels < largest)
        layout->nlevels++;

    uint64_t class_end = layout->nvalues;
    for (int l = 1; l <= layout->nlevels; l++) {
        struct terp_level *level = &layout->level[l];
        uint64_t nlattice = layout->nbricks;
        for (int d = 0; d < TERP_NDIMS; d++) {
            level->neven[d] = fine[d] / 2 + fine[d] % 2;
            level->nodd[d] = fine[d] / 2;
            fine[d] = level->neven[d];
            nlattice *= fine[d];
        }
        level->lattice_at = layout->nlattice;
        layout->nlattice += nlattice;
        for (int i = TERP_NCLASSES - 2; i >= 0; i--) {
            unsigned odd = terp_nth_class(i);
            class_end -= terp_class_nrows(layout, l, odd) *
                         terp_class_extent(level, odd, 0);
            level->class_at[odd] = class_end;
        }
    }
}
