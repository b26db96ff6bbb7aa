/* What terp repack --salvage notes beside a dataset of which chunks were lost,
 * as attributes of it, and terp info shows. doc/record.md defines them. */
#pragma once

#include <hdf5.h>
#include <stdbool.h>
#include <stdint.h>

/* One for each chunk, in both lists. */
struct tool_lost {
    uint64_t n, cap;
    char **values; /* "0:20, 40:60" */
    char **reasons;
};

/* Both texts are copied. False for want of memory. */
bool
tool_lost_add(struct tool_lost *lost, const char *values, const char *reason);

/* Bytes of the larger attribute. */
uint64_t
tool_lost_nbytes(const struct tool_lost *lost);

/* False, and an empty list, where nothing is noted, or nothing of that form. To
 * be freed in any case. */
bool
tool_lost_read(hid_t dataset, struct tool_lost *lost_ret);

/* Replaces what is noted. `fill` is what now stands in all places, of `type`;
 * NULL: that is not told. False when HDF5 fails. */
bool
tool_lost_write(hid_t dataset, const struct tool_lost *lost, hid_t type,
                const void *fill);

void
tool_lost_free(struct tool_lost *lost);
