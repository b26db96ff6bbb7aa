/* terp repack: copies values as HDF5 reads them, of attributes and of datasets
 * that are not compressed. */
#pragma once

#include "tools/repack/objects.h"

/* Copies the values of a dataset to one of the same type and layout,
 * references translated. */
bool
repack_copy_values(struct repack *repack, const struct repack_object *object,
                   hid_t in, hid_t out, bool as_stored);

/* Copies all attributes, in the order of their creation if that is known. */
bool
repack_copy_attributes(struct repack *repack, const char *path, hid_t in,
                       hid_t out);
