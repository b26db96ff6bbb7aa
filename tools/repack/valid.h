/* The valid range of a variable, which attributes give by netCDF's conventions.
 * A lossy copy keeps valid values inside. */
#pragma once

#include <hdf5.h>

/* Ends of the range that attributes give. */
enum {
    REPACK_VALID_MIN = 1,
    REPACK_VALID_MAX = 2
};

/* The range of valid values of a numeric dataset, as stored values: of
 * valid_range, else of valid_min and valid_max. If the dataset is packed
 * (scale_factor, add_offset) and an attribute has the type of unpacked values,
 * netCDF takes the attribute for unpacked values; this function packs it.
 * Returns which ends exist; a missing end is infinite. An end that is NaN or
 * infinite counts as missing; so do both ends if the range is empty or if the
 * dataset stores unsigned integers as signed ones (_Unsigned). Values outside
 * the range are not errors: netCDF treats them as missing. */
unsigned
repack_valid_range(hid_t dataset, double *min_ret, double *max_ret);
