/* terp repack: filters that HDF5 does not find. Stored chunks can be copied
 * without the filter, but HDF5 creates no dataset without it. */
#pragma once

#include "tools/common/h5file.h"

/* Name and number of the first missing filter of a dataset: "'lzf' (32000)"; ""
 * if HDF5 has all filters. */
void
repack_missing_filter(const struct tool_dataset *dataset, char *text_ret,
                      size_t text_cap);

/* Registers a substitute for each missing filter until repack_stand_in_end().
 * Substitutes cannot read; write all chunks as stored. False where HDF5 fails.
 */
bool
repack_stand_in(const struct tool_dataset *dataset);

/* Unregisters the substitutes. Close all their datasets before. */
void
repack_stand_in_end(void);
