/* One stream in host memory, coded by the CPU engine that `call` names, for the
 * API. */
#pragma once

#include "codec/engine.h"

/* Encodes a chunk. The caller has checked the arguments; `dst` holds
 * terp_encode_bound bytes. */
enum terp_status
terp_stream_encode(const struct terp_cpu_call *call,
                   const struct terp_params *params,
                   const struct terp_chunk *chunk, const void *src,
                   uint8_t *dst, uint64_t *dst_nbytes_ret);

/* Makes a stream in `dst` keep the limits. It was made without limits under
 * otherwise equal parameters; the result has the bytes of terp_stream_encode.
 */
enum terp_status
terp_stream_keep_limits(const struct terp_cpu_call *call,
                        const struct terp_params *params,
                        const struct terp_chunk *chunk, const void *src,
                        uint8_t *dst, uint64_t *dst_nbytes);

/* Reads a stream's frame and verifies the checksum, in order to decode every
 * step-th value. If a prefix of the stream holds these values, only the prefix
 * is verified; the bytes after it may be missing. */
enum terp_status
terp_stream_open(const uint8_t *src, uint64_t src_nbytes, uint64_t step,
                 struct terp_open_stream *stream_ret);

/* Like terp_stream_open, for a frame that the caller has read. */
enum terp_status
terp_stream_open_behind(const struct terp_read_frame *frame, const uint8_t *src,
                        uint64_t src_nbytes, uint64_t step,
                        struct terp_open_stream *stream_ret);

/* Decodes every step-th value of each dimension; a step of 1 decodes all. `dst`
 * holds the chunk of these values. */
enum terp_status
terp_stream_decode(const struct terp_cpu_call *call,
                   const struct terp_open_stream *stream, uint64_t step,
                   void *dst);
