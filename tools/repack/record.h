/* terp repack --record and --in-place: compares the compressed dataset with its
 * original. --record writes the result as attributes. */
#pragma once

#include "tools/repack/objects.h"

/* Removes an earlier record from the compressed dataset `out`, whose attributes
 * are copies, and writes a new one if the user requested it. With --record, and
 * in place, fails if a value exceeds its bound. */
bool
repack_record(struct repack *repack, const struct repack_object *object,
              hid_t in, hid_t out);
