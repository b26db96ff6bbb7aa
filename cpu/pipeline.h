/* What struct terp_cpu_engine holds; codec/engine.h tells of each. */
#ifndef TERP_CPU_PIPELINE_H
#define TERP_CPU_PIPELINE_H

#include "codec/engine.h"

enum terp_status
terp_cpu_encode(const struct terp_cpu_call *call,
                const struct terp_params *params,
                const struct terp_chunk *chunk, const void *src, uint8_t *dst,
                uint64_t *dst_nbytes_ret);

/* Without references to values before. */
enum terp_status
terp_cpu_encode_plainly(const struct terp_cpu_call *call,
                        const struct terp_params *params,
                        const struct terp_chunk *chunk, const void *src,
                        uint8_t *dst, uint64_t *dst_nbytes_ret);

enum terp_status
terp_cpu_decode(const struct terp_cpu_call *call,
                const struct terp_frame *frame, const uint8_t *body,
                uint64_t body_nbytes, uint64_t step, void *dst);

enum terp_status
terp_cpu_inspect(const struct terp_frame *frame, const uint8_t *body,
                 uint64_t body_nbytes, struct terp_info *info);

enum terp_status
terp_cpu_measure(const struct terp_cpu_call *call,
                 const struct terp_params *params,
                 const struct terp_chunk *chunk, const void *src, void *other,
                 struct terp_measure *measure_ret);

#endif
