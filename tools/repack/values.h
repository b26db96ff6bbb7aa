/* terp repack: copies attributes, and datasets that terp does not compress. */
#pragma once

#include "tools/repack/objects.h"

/* Copies the values of a dataset to a dataset of the same type and layout, and
 * translates references. */
bool
repack_copy_values(struct repack *repack, const struct repack_object *object,
                   hid_t in, hid_t out, bool as_stored);

/* Copies all attributes, in the order of their creation if the file tracks it.
 */
bool
repack_copy_attributes(struct repack *repack, const char *path, hid_t in,
                       hid_t out);
