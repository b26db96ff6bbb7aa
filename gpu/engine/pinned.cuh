/* Host memory that the device reads and writes by itself, while the host works.
 * struct terp_cuda_engine describes the functions. */
#pragma once

#include "gpu/engine/context.cuh"

enum terp_status
cuda_pinned_allocate(struct terp_cuda_device *device, uint64_t *nbytes,
                     void **at_ret);
void
cuda_pinned_release(struct terp_cuda_device *device, void *at, uint64_t nbytes);

/* Frees the blocks that are kept for later calls. */
void
cuda_pinned_trim(struct terp_cuda_device *device);
