/* Batches of chunks in the memory of a stream slot. */
#pragma once

#include "gpu/engine/call.cuh"

/* A batch of chunks of a call. */
struct cuda_request {
    const struct cuda_call *call;
    uint64_t nchunks;
    struct cuda_stream_kinds expects; /* decode: kinds that may occur */
};

/* Gives the slot memory for the batch and for batches of fewer chunks or fewer
 * expected kinds. Lowers request->nchunks to the number that fits into the
 * slot's share of the device's free memory, but not below 1.
 * cudaErrorMemoryAllocation: too little memory, or the limit is exceeded; the
 * slot then has no memory. */
cudaError_t
cuda_slot_reserve(struct terp_cuda_device *device, struct cuda_slot *slot,
                  struct cuda_request *request);

/* Sets slot->batch, with arrays in the memory that cuda_slot_reserve gave. */
cudaError_t
cuda_slot_prepare(const struct terp_cuda_device *device, struct cuda_slot *slot,
                  const struct cuda_request *request);
