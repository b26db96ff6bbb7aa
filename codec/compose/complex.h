/* Complex values: their real and imaginary parts are coded apart, each as a
 * chunk of its own. */
#pragma once

#include "codec/compose/coder.h"

/* As terp_values_encode, of a complex type. */
enum terp_status
terp_complex_encode(const struct terp_coder *coder,
                    const struct terp_batch *batch);

/* Splits the body of a stream of complex values into the streams of its parts,
 * and decodes them with `decode` as a decoder of streams does. */
typedef enum terp_status
terp_stream_decoder(const struct terp_coder *coder,
                    const struct terp_open_stream *stream, uint64_t step,
                    void *dst);
enum terp_status
terp_complex_decode(const struct terp_coder *coder,
                    const struct terp_open_stream *stream, uint64_t step,
                    void *dst, terp_stream_decoder *decode);
