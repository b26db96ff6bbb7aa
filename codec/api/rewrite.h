/* Chunks that are encoded again after a part of their values has changed, as
 * HDF5 does when a program writes a part of a chunk: it decodes the chunk,
 * changes it, and hands all of it to the filter. */
#pragma once

#include "codec/api/run.h"

/* Encodes `src`, which may be the values of an earlier `stream` of the same
 * chunk and parameters with some of them changed. Then values that have not
 * changed keep every bit, so that their error does not grow, and the others are
 * within the bound of `src`; *is_rewrite_ret tells whether the stream is
 * another than that of terp_run_encode. Where few values are as they were, and
 * they are not next to each other, `stream` was that of another chunk, and this
 * is terp_run_encode.
 *
 * All memory is the host's; `dst` holds terp_encode_bound bytes. Fails as
 * terp_run_encode does. */
enum terp_status
terp_rewrite_encode(struct terp_run *run, const struct terp_params *params,
                    const struct terp_chunk *chunk, const void *stream,
                    uint64_t stream_nbytes, const void *src, void *dst,
                    uint64_t *dst_nbytes_ret, bool *is_rewrite_ret);
