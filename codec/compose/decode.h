/* Streams back to values. */
#pragma once

#include "codec/compose/coder.h"

/* Decodes every step-th value of each dimension of a verified stream, or of a
 * part of one; `dst` holds the chunk of these. */
enum terp_status
terp_chunk_decode(const struct terp_coder *coder,
                  const struct terp_open_stream *stream, uint64_t step,
                  void *dst);
