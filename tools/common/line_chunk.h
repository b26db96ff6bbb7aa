/* Chooses the length of chunks for datasets of one dimension. */
#pragma once

#include "tools/common/h5file.h"

/* About 64^3 values, or the whole dataset where it is short. Which length
 * compresses best under `params` is found by trial: a dataset may be records of
 * several numbers, of which the codec makes rows where these fill chunks
 * (multiples of 5040 hold whole records of up to ten, and of many more, or the
 * chunks follow the number of fields that is found), or boxes whose side is a
 * power of two. The fill values in `params` are taken from the dataset. */
hsize_t
tool_chunk_of_line(const struct tool_dataset *dataset,
                   struct terp_params params);
