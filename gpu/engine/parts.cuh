/* Chunks of complex values, whose parts are coded apart, each as a chunk of its
 * own (codec/format/parts.h). */
#pragma once

#include "codec/engine.h"

/* As struct terp_cuda_engine says of them. What is left to the CPU has 0 bytes,
 * or TERP_ERR_DEVICE, before. */
enum terp_status
cuda_parts_encode(struct terp_cuda_device *device,
                  const struct terp_cuda_call *where,
                  const struct terp_params *params,
                  const struct terp_chunk *chunk, uint64_t nchunks,
                  const void *const *src, void *const *dst,
                  uint64_t *dst_nbytes_ret);

enum terp_status
cuda_parts_decode(struct terp_cuda_device *device,
                  const struct terp_cuda_call *where,
                  const struct terp_chunk *chunk, uint64_t nchunks,
                  const void *const *src, const uint64_t *src_nbytes,
                  void *const *dst, enum terp_status *status_ret);
