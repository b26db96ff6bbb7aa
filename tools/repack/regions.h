/* terp preview: what is left of a region of a dataset of which every step-th
 * value is kept. */
#pragma once

#include <hdf5.h>
#include <stdint.h>

/* The region `in` of a dataset as one of `target`, which has every step-th
 * value of it in each dimension, or all. To be closed; negative where that
 * cannot be told, as of regions in thousands of blocks. */
hid_t
repack_region(hid_t in, hid_t target, uint64_t step);
