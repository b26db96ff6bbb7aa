/* Streams of chunks of floats and integers: plain, with copies, with
 * references, or lossless. */
#pragma once

#include "codec/compose/coder.h"

TERP_C_BEGIN

/* Encodes chunks, and keeps the smallest of the streams that are worth a trial.
 */
enum terp_status
terp_values_encode(const struct terp_coder *coder,
                   const struct terp_batch *batch);

/* Encodes chunks at[0] to at[n - 1] of a batch a second time, under other
 * parameters, with `encode`, and keeps the smaller streams. */
enum terp_status
terp_encode_if_smaller(const struct terp_coder *coder,
                       const struct terp_batch *batch, uint64_t n,
                       const uint64_t *at, const struct terp_params *params,
                       terp_batch_encoder *encode);

TERP_C_END
