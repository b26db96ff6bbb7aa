/* Chunks whose values repeat others. */
#pragma once

#include "codec/model/reference_search.h"
#include "gpu/engine/call.cuh"

/* Codes the chunks of a call. */
typedef enum terp_status
cuda_coding_function(struct terp_cuda_device *device,
                     const struct terp_cuda_call *where,
                     struct cuda_call *call);

/* Makes the stream of chunk `i` shorter by references, where that is possible;
 * `encode` and `decode` code its parts. The CPU has the chunk if there is not
 * enough memory. */
enum terp_status
cuda_references_encode(struct terp_cuda_device *device,
                       const struct terp_cuda_call *where,
                       const struct cuda_call *call, uint64_t i,
                       struct terp_reference_bound bound,
                       cuda_coding_function *encode,
                       cuda_coding_function *decode);
