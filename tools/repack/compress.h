/* terp repack: writes a compressed dataset. */
#pragma once

#include "tools/repack/objects.h"

/* Creates a dataset, according to its plan, as `name` in `parent`, and writes
 * its compressed values. Close the result. A negative result without an error:
 * the copy would not be smaller than the input; the plan now copies the
 * dataset, and `name` is free. */
hid_t
repack_compress(struct repack *repack, struct repack_object *object,
                hid_t parent, const char *name, hid_t lcpl);
