/* Chunks that terp compresses well, for arrays that have none yet. */
#pragma once

#include <hdf5.h>

/* Datasets with fewer values than a tile of the codec are often coordinates or
 * parameters, which should stay exact, and gain little. Commands leave them
 * alone unless they are named. */
#define TOOL_MIN_NVALUES 4096

/* Chunks of about 64^3 values: of 64x64x64 for a cube, 512x512 for a map, and
 * of one step of a slow dimension when there are more than three. No dim is
 * 0 or, where `dims` is not 0, above it; a dataset's edge is padded little.
 * Rank 1 to H5S_MAX_RANK. */
void
tool_chunk_shape(int rank, const hsize_t *dims, hsize_t *chunk_dims_ret);
