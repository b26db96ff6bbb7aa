/* terp repack: writes a compressed dataset. */
#pragma once

#include "tools/repack/objects.h"

/* Creates a dataset that is planned to be compressed, as `name` in `parent`,
 * and writes its values. Returns its id, to be closed, or a negative one: where
 * it would be no smaller than it is in the input, without an error and with a
 * plan that keeps it; the name is free then. */
hid_t
repack_compress(struct repack *repack, struct repack_object *object,
                hid_t parent, const char *name, hid_t lcpl);
