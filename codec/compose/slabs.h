/* Chunks under a bound whose lossless streams may be smaller, as slabs of them
 * show. */
#pragma once

#include "codec/compose/coder.h"

/* Encodes a slab of each of n chunks of a batch without loss. Keeps those in
 * `at` whose slab suggests a smaller stream, and returns their number in
 * *n_ret. */
enum terp_status
terp_slabs_choose(const struct terp_coder *coder,
                  const struct terp_batch *batch,
                  const struct terp_params *lossless,
                  terp_batch_encoder *encode, uint64_t *n_ret, uint64_t *at);
