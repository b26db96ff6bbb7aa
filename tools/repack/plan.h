/* terp repack: decides what becomes of a dataset. */
#pragma once

#include "tools/repack/objects.h"

/* Why the dataset `id` can never be compressed: static; NULL when it can. */
const char *
repack_obstacle(hid_t id);

/* Fills in the plan of the object, which is a dataset and whose obstacle is the
 * plan's reason, and adds the bytes that will be read for it. */
bool
repack_plan(struct repack *repack, struct repack_object *object,
            uint64_t *total_nbytes);
