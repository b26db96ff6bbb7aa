/* terp repack: the creation property lists of datasets. */
#pragma once

#include "tools/repack/objects.h"

/* Which properties of a dataset's list are copied. */
enum repack_list_scope {
    REPACK_LIST_ALL,
    /* Not the storage: layout, filters and time of allocation are left out.
     * They differ in another layout. */
    REPACK_LIST_WITHOUT_STORAGE
};

/* Copies the creation property list of a dataset. Close it; negative where HDF5
 * fails. */
hid_t
repack_dataset_list(struct repack *repack, const char *path,
                    const struct tool_dataset *in,
                    enum repack_list_scope scope);

/* The access list for a dataset of the output that H5Dwrite will write. Call
 * repack_flush after writing. Close the list; negative where HDF5 fails. */
hid_t
repack_access_list(hid_t dcpl, hid_t space, hid_t type);

/* Writes what HDF5 still holds of a dataset that was opened with
 * repack_access_list: HDF5 1.10 does not report a failed write when it closes a
 * dataset. */
bool
repack_flush(hid_t dataset);
