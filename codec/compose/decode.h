/* Streams back to values. */
#pragma once

#include "codec/compose/coder.h"

/* Decodes every step-th value of each dimension of a verified stream, or of a
 * part of one; `dst` holds the chunk of these. */
enum terp_status
terp_chunk_decode(const struct terp_coder *coder,
                  const struct terp_open_stream *stream, uint64_t step,
                  void *dst);

/* The same of streams of one shape, with a status for each; TERP_ERR_DEVICE: it
 * is left to the CPU. */
enum terp_status
terp_chunks_decode(const struct terp_coder *coder, uint64_t n,
                   const struct terp_open_stream *streams, uint64_t step,
                   void *const *dst, enum terp_status *status_ret);
