/* Batches of chunks in the memory of a stream slot. */
#pragma once

#include "gpu/engine/context.cuh"

/* The chunks of a batch to be made, and their memory. */
struct cuda_request {
    const struct terp_chunk *chunk;
    /* The shape in which chunks are coded. NULL: the chunk's own; an encoder
     * then also searches for a better one. */
    const struct terp_chunk *domain;
    const struct terp_params *params; /* NULL: decode */
    uint64_t nchunks;
    bool host;                        /* the caller's memory is host memory */
    struct cuda_stream_kinds expects; /* decode: kinds that may occur */
    enum cuda_form form;
    double caller_bound;      /* encode */
    uint64_t step;            /* decode: see terp_cuda_call */
    bool decodes_all = false; /* decode: see cuda_call */
    bool is_part = false;     /* see cuda_batch */
    bool has_bounds = false;  /* encode: of chunks, see cuda_chunk.bound */
    bool measures = false;    /* see cuda_call */
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
