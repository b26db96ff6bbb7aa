/* Encodes chunks whose decoded values keep limits (codec/model/valid_range.h).
 */
#pragma once

#include "codec/compose/coder.h"
#include "codec/model/valid_range.h"

/* Finds the extremes of a chunk's finite values that are not fill values (`min`
 * > `max`: there are no such values), and the limits that the parameters set
 * for the chunk. */
enum terp_status
terp_limits_find(const struct terp_coder *coder,
                 const struct terp_params *params,
                 const struct terp_chunk *chunk, const void *src,
                 double *min_ret, double *max_ret,
                 struct terp_limits *limits_ret);

/* Makes the stream of one chunk keep the limits. `chunk_stream` holds a stream
 * that was made without limits: a stream that keeps them stays, another is
 * replaced by the smallest of several that keep them. */
enum terp_status
terp_limits_keep(const struct terp_coder *coder,
                 const struct terp_batch *chunk_stream);
