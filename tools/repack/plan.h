/* terp repack: decides how a dataset is copied. */
#pragma once

#include "tools/repack/objects.h"

/* Why terp cannot compress the dataset `id`: static; NULL if it can. */
const char *
repack_obstacle(hid_t id);

/* Records what the attributes of the open object `id` say about coordinates.
 * Call it for all objects before repack_plan. */
bool
repack_note_coordinates(struct repack *repack, hid_t id, const char *path);

/* Fills in the plan of a dataset, whose plan.reason is its obstacle, and adds
 * the bytes that its compression will read. */
bool
repack_plan(struct repack *repack, struct repack_object *object,
            uint64_t *total_nbytes);

/* The codec's parameters for a bound. A relative bound refers to the range of a
 * chunk. */
struct terp_params
repack_params(const struct repack_request *request,
              const struct repack_bound *bound);

/* Whether this plan needs all values before the first one is encoded, for their
 * range, or to find out which masked values must be kept. */
bool
repack_needs_range(const struct repack_request *request,
                   const struct repack_plan *plan);

/* After all plans: names the coordinates and compound values that stay lossless
 * although the user gave a lossy bound. */
void
repack_name_lossless(const struct repack *repack);
