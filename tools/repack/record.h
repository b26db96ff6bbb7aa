/* terp repack --record: measures what was written, and notes it. */
#pragma once

#include "tools/repack/objects.h"

/* Of a dataset that was compressed and whose attributes were copied: removes a
 * record of what it was before, and writes one where that was asked for. Fails
 * if a value is not within its bound. */
bool
repack_record(struct repack *repack, const struct repack_object *object,
              hid_t in, hid_t out);
