/* Reads every n-th value of a dataset. Where all of them lie on coarse levels
 * of their chunks, only these levels are decoded (terp_decode_coarse). */
#pragma once

#include "filter/h5/block.h"

/* A regular selection, as of H5Sselect_hyperslab, with blocks of one value.
 * Every count is at least 1, and all values are in the dataset. */
struct terp_h5_strided {
    hsize_t start[H5S_MAX_RANK], stride[H5S_MAX_RANK], count[H5S_MAX_RANK];
};

/* The step for terp_decode_coarse, a power of two: in every chunk, the
 * coordinates of all selected values are multiples of it. The block's reason
 * must be NULL. */
uint64_t
terp_h5_strided_step(const struct terp_h5_block *block,
                     const struct terp_h5_strided *strided);

/* Reads the selected values into host memory, on the CPU. HDF5 is called only
 * through the block's storage. */
enum terp_status
terp_h5_strided_read(const struct terp_run *run,
                     const struct terp_h5_block *block,
                     const struct terp_h5_strided *strided, void *dst);
