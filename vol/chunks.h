/* Chunks for datasets that programs create. */
#pragma once

#include "vol/library.h"
#include "vol/rules.h"

struct vol_extent {
    int rank;
    hsize_t dims[H5S_MAX_RANK], max[H5S_MAX_RANK];
    uint64_t nvalues; /* of dims */
    bool grows;       /* some dims may become longer */
};

/* False where the dataspace is no array. */
bool
vol_extent_read(const struct vol_library *library, hid_t space,
                struct vol_extent *extent_ret);

/* Chunks of up to VOL_CHUNK_NVALUES values. A dimension that may grow has a
 * multiple of the length that it has in the program's chunks, which are at
 * `wanted`; NULL: the program wants none, and nothing grows. */
void
vol_chunks_choose(const struct vol_extent *extent, const hsize_t *wanted,
                  hsize_t chunk_ret[H5S_MAX_RANK]);

/* Gives `dapl` a cache for all chunks with the same place in the slowest
 * dimension, unless its own is larger. */
bool
vol_chunks_set_cache(const struct vol_library *library, hid_t dapl,
                     const struct vol_extent *extent, const hsize_t *chunk,
                     unsigned value_nbytes);
