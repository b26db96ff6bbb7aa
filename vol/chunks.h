/* Chooses chunk dims for datasets that programs create. */
#pragma once

#include "vol/library.h"
#include "vol/rules.h"

struct vol_extent {
    int rank;
    hsize_t dims[H5S_MAX_RANK], max[H5S_MAX_RANK];
    uint64_t nvalues; /* current number */
    bool grows;       /* some dimension may become longer */
};

/* Returns false if the dataspace is scalar or null. */
bool
vol_extent_read(const struct vol_library *library, hid_t space,
                struct vol_extent *extent_ret);

/* Chooses chunks of up to VOL_CHUNK_NVALUES values. Along a dimension that may
 * grow, the choice starts from the dims of the program's own chunk, `wanted`;
 * NULL: the program has no chunks, so no dimension grows. */
void
vol_chunks_choose(const struct vol_extent *extent, const hsize_t *wanted,
                  hsize_t chunk_ret[H5S_MAX_RANK]);

/* Enlarges the chunk cache of `dapl` to hold all chunks with the same
 * coordinate in the slowest dimension. */
bool
vol_chunks_set_cache(const struct vol_library *library, hid_t dapl,
                     const struct vol_extent *extent, const hsize_t *chunk,
                     unsigned value_nbytes);
