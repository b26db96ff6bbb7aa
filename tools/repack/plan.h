/* terp repack: decides what becomes of a dataset. */
#pragma once

#include "tools/repack/objects.h"

/* Why the dataset `id` can never be compressed: static; NULL when it can. */
const char *
repack_obstacle(hid_t id);

/* Notes what the attributes of an object, which is open, say of coordinates:
 * before any dataset is planned. */
bool
repack_note_coordinates(struct repack *repack, hid_t id, const char *path);

/* Fills in the plan of the object, which is a dataset and whose obstacle is the
 * plan's reason, and adds the bytes that will be read for it. */
bool
repack_plan(struct repack *repack, struct repack_object *object,
            uint64_t *total_nbytes);

/* The codec's parameters for a bound, relative ones to the range of a chunk. */
struct terp_params
repack_params(const struct repack_request *request,
              const struct repack_bound *bound);

/* Whether all values are to be looked at for their range before they are coded,
 * with such a plan. */
bool
repack_needs_range(const struct repack_plan *plan);

/* When all is planned: names the coordinates that stay lossless although a
 * lossy bound was asked for. */
void
repack_tell_coordinates(const struct repack *repack);
