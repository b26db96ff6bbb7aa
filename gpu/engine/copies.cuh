/* Chunks that do not change along some dimensions. */
#pragma once

#include "gpu/engine/call.cuh"

/* Codes the chunks of a call, in whatever way suits them. */
typedef enum terp_status
cuda_encode_function(struct terp_cuda_device *device,
                     const struct terp_cuda_call *where,
                     struct cuda_call *call);

/* Makes the stream of chunk `i` shorter by leaving copies out, where that is
 * possible; `encode` codes what is left. The CPU has the chunk if it has no
 * copies, though samples said so, or if what is left is the CPU's. */
enum terp_status
cuda_copies_encode(struct terp_cuda_device *device,
                   const struct terp_cuda_call *where,
                   const struct cuda_call *call, uint64_t i,
                   cuda_encode_function *encode);
