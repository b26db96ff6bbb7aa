/* terp repack --salvage: damaged chunks of the input, the values that replace
 * them in the output, and the attributes that list them (doc/record.md). */
#pragma once

#include "tools/common/h5file.h"
#include "tools/repack/objects.h"

/* Finds the damaged chunks of all datasets of the input and prints them like
 * terp verify. False, with the first failure recorded, where some chunks could
 * not be checked. */
bool
repack_salvage_find(struct repack *repack);

/* Reads a box of an object's dataset as `type`; lost values become the fill
 * value. */
bool
repack_salvage_read(const struct repack_object *object,
                    const struct tool_dataset *in, hid_t type,
                    const struct tool_grid *box, void *values);

/* Whether the chunk at the corner `at` is damaged. */
bool
repack_salvage_lacks(const struct repack_object *object, int rank,
                     const hsize_t *at);

/* Writes the fill value to the damaged chunks of `out`, whose other chunks are
 * copied as stored. */
bool
repack_salvage_fill(const struct repack_object *object,
                    const struct tool_dataset *in, hid_t out);

/* Writes attributes that list the losses of this run after those of earlier
 * runs. */
bool
repack_salvage_note(struct repack *repack, const struct repack_object *object,
                    hid_t in, hid_t out);
