/* Encoding for a PSNR: the search for a chunk's bound. */
#pragma once

#include "codec/api/stream.h"

/* Finds the largest bound, about, whose stream has the PSNR params->bound.
 * `encode` encodes a chunk under some bound, as terp_stream_encode does. */
enum terp_status
terp_psnr_search(terp_cpu_encoder *encode, const struct terp_cpu_call *call,
                 const struct terp_params *params,
                 const struct terp_chunk *chunk, const void *src, uint8_t *dst,
                 uint64_t *dst_nbytes_ret);
