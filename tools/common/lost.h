/* Attributes in which terp repack --salvage lists the lost chunks of a dataset.
 * terp info shows them; doc/record.md defines them. */
#pragma once

#include <hdf5.h>
#include <stdbool.h>
#include <stdint.h>

/* Two lists with an entry for each lost chunk. */
struct tool_lost {
    uint64_t n, cap;
    char **values; /* "0:20, 40:60" */
    char **reasons;
};

/* Copies both texts. False without memory. */
bool
tool_lost_add(struct tool_lost *lost, const char *values, const char *reason);

/* The size of the larger attribute. */
uint64_t
tool_lost_nbytes(const struct tool_lost *lost);

/* False, with an empty list, if the attributes are missing or have other types.
 * Free the list in any case. */
bool
tool_lost_read(hid_t dataset, struct tool_lost *lost_ret);

/* Replaces the attributes. `fill` is the value, of `type`, that replaces lost
 * values; NULL: no such attribute. False where HDF5 fails. */
bool
tool_lost_write(hid_t dataset, const struct tool_lost *lost, hid_t type,
                const void *fill);

void
tool_lost_free(struct tool_lost *lost);
