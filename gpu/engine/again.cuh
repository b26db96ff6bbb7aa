/* Calls in which chunks are coded more than once. */
#pragma once

#include "gpu/engine/call.cuh"

/* Codes all chunks, each in the form, domain and way that suits it. Of pairs
 * the bounds are found, and given then. */
enum terp_status
cuda_encode(struct terp_cuda_device *device, const struct terp_cuda_call *where,
            struct cuda_call *call);

/* Decodes all chunks, each in the form and domain that its stream tells. */
enum terp_status
cuda_decode(struct terp_cuda_device *device, const struct terp_cuda_call *where,
            struct cuda_call *call);
