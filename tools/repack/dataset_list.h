/* terp repack: the creation property lists of datasets. */
#pragma once

#include "tools/repack/objects.h"

/* What of a dataset's list is made. */
enum repack_list_part {
    REPACK_LIST_ALL,
    /* Not how its values are stored: no layout, filters or time of allocation,
     * which another layout has otherwise. */
    REPACK_LIST_WITHOUT_STORAGE
};

/* Makes the list of a dataset anew, to be closed; negative where HDF5 fails. */
hid_t
repack_dataset_list(struct repack *repack, const char *path,
                    const struct tool_dataset *in, enum repack_list_part part);

/* The access list by which a dataset of the output is made or opened to write
 * values with H5Dwrite; repack_flush is to follow. Likewise. */
hid_t
repack_access_list(hid_t dcpl, hid_t space, hid_t type);

/* Writes what HDF5 has kept of a dataset that was made or opened by that list:
 * of what is left when it is closed HDF5 1.10 does not say that writing fails.
 */
bool
repack_flush(hid_t dataset);
