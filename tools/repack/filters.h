/* terp repack: filters that HDF5 does not find. Chunks are copied as they are
 * stored without them, but no dataset can be created without. */
#pragma once

#include "tools/common/h5file.h"

/* The name and number of the first filter of a dataset that is missing: "'lzf'
 * (32000)"; "" where none is. */
void
repack_missing_filter(const struct tool_dataset *dataset, char *text_ret,
                      size_t text_cap);

/* Puts a filter in the place of each that is missing, which reads nothing,
 * until repack_stand_in_end(). All chunks are to be written as they are stored.
 * False where HDF5 fails. */
bool
repack_stand_in(const struct tool_dataset *dataset);

/* To be called when no dataset with such a filter is open. */
void
repack_stand_in_end(void);
