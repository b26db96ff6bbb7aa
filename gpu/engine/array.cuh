/* Memory functions for callers that keep a whole array on the device and move
 * its chunks to and from the host. struct terp_cuda_engine describes them. */
#pragma once

#include "codec/format/array.h"
#include "gpu/engine/context.cuh"

bool
cuda_array_has(struct terp_cuda_device *device, const void *at);

enum terp_status
cuda_array_allocate(struct terp_cuda_device *device, uint64_t nbytes,
                    void **at_ret);
void
cuda_array_release(struct terp_cuda_device *device, void *at);

enum terp_status
cuda_array_copy(struct terp_cuda_device *device,
                const struct terp_cuda_call *call, uint64_t n, void *const *dst,
                const void *const *src, const uint64_t *nbytes);

enum terp_status
cuda_array_move(struct terp_cuda_device *device,
                const struct terp_cuda_call *call,
                const struct terp_array *array, uint64_t first, uint64_t n,
                const void *src, void *dst, bool gather);
