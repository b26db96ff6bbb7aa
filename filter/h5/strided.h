/* Values of a dataset that are some steps apart, without the values between
 * them where chunks can be decoded so (terp_decode_coarse). */
#pragma once

#include "filter/h5/block.h"

/* As H5Sselect_hyperslab has them, with blocks of one value. No count is 0, and
 * all values are in the dataset. */
struct terp_h5_strided {
    hsize_t start[H5S_MAX_RANK], stride[H5S_MAX_RANK], count[H5S_MAX_RANK];
};

/* The step at which the chunks of a block with no reason can be decoded: the
 * coordinates in a chunk of all these values are multiples of it. */
uint64_t
terp_h5_strided_step(const struct terp_h5_block *block,
                     const struct terp_h5_strided *strided);

/* Reads them into the host's memory, by the CPU. Nothing of HDF5 is called but
 * what the block's storage calls. */
enum terp_status
terp_h5_strided_read(const struct terp_run *run,
                     const struct terp_h5_block *block,
                     const struct terp_h5_strided *strided, void *dst);
