/* Chunks that terp compresses well, for arrays that have none yet. */
#pragma once

#include "tools/common/h5file.h"

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

/* Whether chunks are so small that what HDF5 and a filter keep of each takes
 * about as much as its values: netCDF makes such for variables that grow by a
 * record at a time. False where one chunk holds the whole array, and where less
 * than half of them are stored: larger ones would hold what was never written.
 */
bool
tool_chunk_is_tiny(const struct tool_dataset *dataset);
