/* terp repack: the creation property lists of the output, each made anew from
 * the properties of its counterpart. A list that HDF5 gives for an object of a
 * file also holds messages with addresses in that file, and counts. */
#pragma once

#include <hdf5.h>
#include <stdbool.h>

/* These return a list that is to be closed, or a negative number. */

/* Of the file, whose properties are also those of its root group. */
hid_t
repack_file_list(hid_t in);

hid_t
repack_group_list(hid_t in);

hid_t
repack_type_list(hid_t in);

hid_t
repack_attribute_list(hid_t in);

/* For the lists of datasets (dataset_list.h), which are made likewise. */

/* Copies what the list `in` of any object has, which HDF5 gives of `object`. */
bool
repack_list_object(hid_t object, hid_t in, hid_t out);

bool
repack_list_filters(hid_t in, hid_t out);

/* Closes a list that could not be made whole. */
hid_t
repack_list_end(hid_t list, bool ok);
