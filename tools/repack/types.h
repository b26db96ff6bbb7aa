/* terp repack: types of the output. */
#pragma once

#include "tools/repack/objects.h"

/* The type for a dataset or attribute of the output that has `type` in the
 * input: where that is committed, the output's committed type. Negative on a
 * failure; to be closed. */
hid_t
repack_type(struct repack *repack, const char *path, hid_t type);
