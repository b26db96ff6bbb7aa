/* One stream in host memory: what the API asks for of the CPU engine, which
 * `call` names. */
#pragma once

#include "codec/engine.h"

/* Arguments were checked, and `dst` holds terp_encode_bound bytes. */
enum terp_status
terp_stream_encode(const struct terp_cpu_call *call,
                   const struct terp_params *params,
                   const struct terp_chunk *chunk, const void *src,
                   uint8_t *dst, uint64_t *dst_nbytes_ret);

/* Sees to the limits of a stream in `dst` that was made without them, of
 * otherwise equal parameters: the bytes are then those of terp_stream_encode.
 */
enum terp_status
terp_stream_keep_limits(const struct terp_cpu_call *call,
                        const struct terp_params *params,
                        const struct terp_chunk *chunk, const void *src,
                        uint8_t *dst, uint64_t *dst_nbytes);

/* Opens an intact stream, or a prefix, to decode every step-th value: the rest
 * of the stream is not looked at where a prefix tells them, and may be missing.
 */
enum terp_status
terp_stream_open(const uint8_t *src, uint64_t src_nbytes, uint64_t step,
                 struct terp_open_stream *stream_ret);

/* The same once the frame was read. */
enum terp_status
terp_stream_open_behind(const struct terp_read_frame *frame, const uint8_t *src,
                        uint64_t src_nbytes, uint64_t step,
                        struct terp_open_stream *stream_ret);

/* Decodes every step-th value of each dimension, all with a step of 1; `dst`
 * holds the chunk of these. */
enum terp_status
terp_stream_decode(const struct terp_cpu_call *call,
                   const struct terp_open_stream *stream, uint64_t step,
                   void *dst);
