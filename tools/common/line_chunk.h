/* Chooses the length of chunks for datasets of one dimension. */
#pragma once

#include "tools/common/h5file.h"

/* A length of about 64^3 values, or the whole dataset if it is shorter. Trials
 * with `params` find the length that compresses best. The dataset may hold
 * records of several numbers, which the codec arranges in rows if chunks hold
 * whole records: multiples of 5040 do for records of up to ten numbers and many
 * longer ones; other lengths follow the number of fields. Or it may hold boxes
 * with a power of two as side. The dataset's fill values replace those in
 * `params`. */
hsize_t
tool_chunk_of_line(const struct tool_dataset *dataset,
                   struct terp_params params);
