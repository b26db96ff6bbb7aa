/* terp preview: creates datasets of every step-th value. */
#pragma once

#include "tools/repack/objects.h"

/* Whether a dataset is sampled: it has dims, and neither references nor
 * sequences of varying length other than strings. */
bool
repack_is_sampled(hid_t in);

/* Creates the dataset of every step-th value of `in` in each dimension. Returns
 * it, or a negative number. */
hid_t
repack_sample(struct repack *repack, const struct repack_object *object,
              hid_t in, hid_t parent, const char *name, hid_t lcpl);

/* Adapts attributes that depend on the number or distance of values: openPMD's
 * gridSpacing, and the names of netCDF's dimensions without variables. */
bool
repack_sample_attributes(struct repack *repack, const char *path, hid_t out);
