/* Decodes streams to values. */
#pragma once

#include "codec/compose/coder.h"

/* Decodes every step-th value of each dimension of verified streams, or of
 * parts of streams, all of one shape. dst[k] holds the chunk of every step-th
 * value. status_ret[k] is the status of stream k; TERP_ERR_DEVICE: stream k is
 * left to the CPU. */
enum terp_status
terp_chunks_decode(const struct terp_coder *coder, uint64_t n,
                   const struct terp_open_stream *streams, uint64_t step,
                   void *const *dst, enum terp_status *status_ret);

/* Decodes every step-th value of one stream, as terp_chunks_decode does. */
enum terp_status
terp_chunk_decode(const struct terp_coder *coder,
                  const struct terp_open_stream *stream, uint64_t step,
                  void *dst);

/* Reads the frames of streams that this engine has written. */
enum terp_status
terp_frames_read(const struct terp_coder *coder, uint64_t n,
                 const void *const *streams, const uint64_t *nbytes,
                 struct terp_open_stream *streams_ret);
