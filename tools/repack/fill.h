/* terp repack: the value that replaces lost and masked values. */
#pragma once

#include "tools/common/h5file.h"

/* The fill value as the dataset stores it: the one that its creator has set;
 * else the first finite value of _FillValue or missing_value; else NaN for
 * floats and complex values, and zeros for other types. Free it. NULL without
 * memory, or where HDF5 fails. */
void *
repack_fill_value(const struct tool_dataset *in);
