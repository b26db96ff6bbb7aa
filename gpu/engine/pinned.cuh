/* Host memory that the device reads and writes by itself, while the host works.
 * struct terp_cuda_engine describes the functions. */
#pragma once

#include "gpu/engine/context.cuh"

table_function<decltype(terp_cuda_engine::allocate_pinned)>
    cuda_pinned_allocate;
table_function<decltype(terp_cuda_engine::release_pinned)> cuda_pinned_release;

/* Frees the blocks that are kept for later calls. */
void
cuda_pinned_trim(struct terp_cuda_device *device);
