/* terp repack: translation of references. */
#pragma once

#include "tools/repack/objects.h"

/* Translates the references among values of a type in memory. A reference
 * becomes null if its object no longer exists. It also becomes null, and counts
 * in repack->nlost_references, if the output does not have the object yet or
 * leaves it out. In a preview, a region shrinks to the values that the preview
 * keeps. False where HDF5 fails. */
bool
repack_translate(struct repack *repack, hid_t type, size_t nvalues,
                 void *values);
