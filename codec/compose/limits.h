/* Encodes chunks whose decoded values keep limits (codec/model/valid_range.h).
 */
#pragma once

#include "codec/compose/coder.h"
#include "codec/model/valid_range.h"

/* The extremes of a chunk's values that are finite and no fill values, `min` >
 * `max` where there are none; and the limits that the parameters set for it. */
enum terp_status
terp_limits_find(const struct terp_coder *coder,
                 const struct terp_params *params,
                 const struct terp_chunk *chunk, const void *src,
                 double *min_ret, double *max_ret,
                 struct terp_limits *limits_ret);

/* Has the limits kept by the stream of one chunk, which was made without them:
 * leaves it where it keeps them, else replaces it by the smallest of several
 * that do. */
enum terp_status
terp_limits_keep(const struct terp_coder *coder,
                 const struct terp_batch *chunk_stream);
