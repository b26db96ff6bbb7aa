/* Complex values: their real and imaginary parts are coded apart, each as a
 * chunk of its own. */
#pragma once

#include "codec/engine.h"

/* As terp_cpu_encode and terp_cpu_decode, of a complex type. */
terp_cpu_encoder terp_cpu_parts_encode;

enum terp_status
terp_cpu_parts_decode(const struct terp_cpu_call *call,
                      const struct terp_chunk *chunk, const uint8_t *body,
                      uint64_t body_nbytes, uint64_t step, void *dst);
