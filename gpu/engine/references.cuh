/* Chunks whose values repeat others. */
#pragma once

#include "codec/model/reference_search.h"
#include "gpu/engine/call.cuh"

/* Makes the stream of chunk `i` shorter by references, where that is possible.
 * The CPU has the chunk if there is not enough memory. */
enum terp_status
cuda_references_encode(struct terp_cuda_device *device,
                       const struct terp_cuda_call *where,
                       const struct cuda_call *call, uint64_t i,
                       struct terp_reference_bound bound);
