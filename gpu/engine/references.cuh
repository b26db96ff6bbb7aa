/* Chunks whose values repeat others. */
#pragma once

#include "gpu/engine/call.cuh"

/* Makes the stream of chunk `i` shorter by references, where that is possible.
 * `bound`: the absolute one of its values, or 0. The CPU has the chunk if there
 * is not enough memory. */
enum terp_status
cuda_references_encode(struct terp_cuda_device *device,
                       const struct terp_cuda_call *where,
                       const struct cuda_call *call, uint64_t i, double bound);
