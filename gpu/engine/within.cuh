/* Streams that hold others: of copies, and with references. */
#pragma once

#include "gpu/engine/call.cuh"

/* Decodes all chunks, those of such streams too. What is wrong with one is left
 * to the CPU to say. */
enum terp_status
cuda_decode_all(struct terp_cuda_device *device,
                const struct terp_cuda_call *where, struct cuda_call *call);
