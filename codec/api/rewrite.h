/* Encodes chunks again after some of their values have changed. When a program
 * writes to a region of a chunk, HDF5 decodes the chunk, changes the values,
 * and passes the whole chunk to the filter. */
#pragma once

#include "codec/api/run.h"

/* Encodes `src`. If `stream` is an earlier stream of the same chunk by the same
 * parameters, unchanged values keep every bit, so their error does not grow,
 * and changed values are within the bound of `src`. If only few scattered
 * values of `src` and `stream` are equal, `stream` probably belongs to another
 * chunk, and the result is that of terp_run_encode. *is_rewrite_ret tells
 * whether the result may differ from that of terp_run_encode.
 *
 * All memory is the host's; `dst` holds terp_encode_bound bytes. Fails as
 * terp_run_encode does. */
enum terp_status
terp_rewrite_encode(struct terp_run *run, const struct terp_params *params,
                    const struct terp_chunk *chunk, const void *stream,
                    uint64_t stream_nbytes, const void *src, void *dst,
                    uint64_t *dst_nbytes_ret, bool *is_rewrite_ret);
