/* terp preview: regions of datasets that keep every step-th value. */
#pragma once

#include <hdf5.h>
#include <stdint.h>

/* Translates the region `in` of a dataset to `target`, which has every step-th
 * value in each dimension, or all values. Close the result; negative where the
 * translation fails, as for regions of thousands of blocks. */
hid_t
repack_region(hid_t in, hid_t target, uint64_t step);
