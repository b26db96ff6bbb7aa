/* terp repack --salvage: which chunks of the input are damaged, what stands for
 * their values in the output, and what is noted there (doc/record.md). */
#pragma once

#include "tools/common/h5file.h"
#include "tools/repack/objects.h"

/* Finds the damaged chunks of all datasets of the input, and prints them as
 * terp verify does. False, with the first failure noted, where not all chunks
 * could be tried. */
bool
repack_salvage_find(struct repack *repack);

/* Reads a box of an object's dataset as `type`, with the fill value for what is
 * lost of it. */
bool
repack_salvage_read(const struct repack_object *object,
                    const struct tool_dataset *in, hid_t type,
                    const struct tool_grid *box, void *values);

/* Whether the chunk at the corner `at` is lost. */
bool
repack_salvage_lacks(const struct repack_object *object, int rank,
                     const hsize_t *at);

/* Writes the fill value to the lost chunks of `out`, whose others are copied as
 * they are stored. */
bool
repack_salvage_fill(const struct repack_object *object,
                    const struct tool_dataset *in, hid_t out);

/* Notes beside the dataset what is lost, after what an earlier run has
 * noted. */
bool
repack_salvage_note(struct repack *repack, const struct repack_object *object,
                    hid_t in, hid_t out);
