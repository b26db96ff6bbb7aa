/* terp repack: references to objects of the input become those to their
 * counterparts in the output. */
#pragma once

#include "tools/repack/objects.h"

/* Translates the references among values of a type in memory. One to an object
 * that is gone becomes a null reference; so does one to an object that is not
 * made yet, or left out, which is counted in repack->nlost_references. Regions
 * of datasets of a preview are what is left of them. False where HDF5 fails. */
bool
repack_translate(struct repack *repack, hid_t type, size_t nvalues,
                 void *values);
