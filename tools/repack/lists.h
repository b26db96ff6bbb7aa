/* terp repack: creation property lists of the output, each copied from its
 * counterpart property by property. A list that HDF5 gives for an object of a
 * file also holds counts and messages with addresses in that file. */
#pragma once

#include <hdf5.h>
#include <stdbool.h>

/* These functions return a list, which the caller closes, or a negative number.
 */

/* Of the file, including its root group. */
hid_t
repack_file_list(hid_t in);

hid_t
repack_group_list(hid_t in);

hid_t
repack_type_list(hid_t in);

hid_t
repack_attribute_list(hid_t in);

/* Helpers for the lists of datasets (dataset_list.h). */

/* Copies the properties of any object from its list `in`, which HDF5 gave for
 * `object`. */
bool
repack_list_object(hid_t object, hid_t in, hid_t out);

bool
repack_list_filters(hid_t in, hid_t out);

/* Returns `list`; closes it and returns -1 where `ok` is false. */
hid_t
repack_list_end(hid_t list, bool ok);
