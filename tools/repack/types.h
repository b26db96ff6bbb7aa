/* terp repack: types of the output. */
#pragma once

#include "tools/repack/objects.h"

/* The output's type for a dataset or attribute that has `type` in the input.
 * For a committed type this is the output's committed type. Close it; negative
 * on failure. */
hid_t
repack_type(struct repack *repack, const char *path, hid_t type);
