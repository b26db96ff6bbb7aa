/* Which values a variable may have, as its attributes say by netCDF's
 * conventions, so that a lossy copy has no others. */
#pragma once

#include <hdf5.h>

/* Ends of the range that the attributes give. */
enum {
    REPACK_VALID_MIN = 1,
    REPACK_VALID_MAX = 2
};

/* The range of valid values of a dataset of numbers: of valid_range, or, where
 * that is none, of valid_min and valid_max; in the units of the values that the
 * file stores. Where the dataset is packed (scale_factor, add_offset), netCDF
 * takes attributes of the unpacked values' type for unpacked values; these are
 * packed here. Returns which ends there are; others are infinite. An end that
 * is NaN or infinite is none, and neither is any of a range that is empty, or
 * of signed integers that mean unsigned ones (_Unsigned). Values outside the
 * range are no error: netCDF takes them for missing. */
unsigned
repack_valid_range(hid_t dataset, double *min_ret, double *max_ret);
