/* Shapes of chunks that terp compresses well. */
#pragma once

#include "tools/common/h5file.h"

/* The number of values in a tile of the codec. Smaller datasets are often
 * coordinates or parameters, which should stay exact, and save little. Commands
 * leave them alone unless a rule names them. */
#define TOOL_MIN_NVALUES 4096

/* Chooses chunks of about 64^3 values: 64x64x64 of a cube, 512x512 of a map,
 * one step of a slow fourth dimension. Chunk dims are above 0 and, where `dims`
 * is above 0, at most `dims`; padding at the edge is small. Rank 1 to
 * H5S_MAX_RANK. */
void
tool_chunk_shape(int rank, const hsize_t *dims, hsize_t *chunk_dims_ret);

/* Whether chunks are so small that HDF5's index and the filter's frame take
 * about as much as the values. netCDF makes such chunks for variables that grow
 * by a record at a time. False for a single chunk. False if less than half of
 * the chunks are stored: larger chunks would store values that were never
 * written. */
bool
tool_chunk_is_tiny(const struct tool_dataset *dataset);
