/* Complex values: their real and imaginary parts are coded apart, each as a
 * chunk of its own. */
#ifndef TERP_CPU_PARTS_H
#define TERP_CPU_PARTS_H

#include "codec/engine.h"

/* As terp_cpu_encode and terp_cpu_decode, of a complex type. */
enum terp_status
terp_cpu_parts_encode(const struct terp_cpu_call *call,
                      const struct terp_params *params,
                      const struct terp_chunk *chunk, const void *src,
                      uint8_t *dst, uint64_t *dst_nbytes_ret);

enum terp_status
terp_cpu_parts_decode(const struct terp_cpu_call *call,
                      const struct terp_chunk *chunk, const uint8_t *body,
                      uint64_t body_nbytes, uint64_t step, void *dst);

#endif
