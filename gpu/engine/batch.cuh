/* Batches of chunks in the memory of a stream slot. */
#pragma once

#include "gpu/engine/context.cuh"

/* Chunks that are to be a batch, and what they need beside the stages'
 * memory. */
struct cuda_request {
    const struct terp_chunk *chunk;
    /* What they are coded in. NULL: the chunk; an encoder also looks for other
     * ones. */
    const struct terp_chunk *domain;
    const struct terp_params *params; /* NULL: decode */
    uint64_t nchunks;
    bool host; /* the caller's memory */
    /* decode: what there may be among the streams */
    struct cuda_stream_kinds expects;
    enum cuda_form form;
    double caller_bound;      /* encode */
    uint64_t step;            /* decode: as of terp_cuda_call */
    bool decodes_all = false; /* decode: as of cuda_call */
    bool is_part = false;     /* as of cuda_batch */
    enum cuda_bounds bounds = CUDA_BOUNDS_OWN;
};

/* Chunks that a batch has at least, or a multiple of. */
static inline uint64_t
cuda_least_nchunks(enum cuda_bounds bounds)
{
    return bounds == CUDA_BOUNDS_OF_PAIRS ? TERP_NPARTS : 1;
}

/* Memory for such batches, which may have fewer chunks or expect less.
 * Makes request->nchunks, but for the least, what the slot's share of the
 * memory that there is now holds. cudaErrorMemoryAllocation: there is not as
 * much, or it is beyond the limit; the slot has none then. */
cudaError_t
cuda_slot_reserve(struct terp_cuda_device *device, struct cuda_slot *slot,
                  struct cuda_request *request);

/* Describes the batch in slot->batch, in memory that was reserved. */
cudaError_t
cuda_slot_prepare(const struct terp_cuda_device *device, struct cuda_slot *slot,
                  const struct cuda_request *request);

/* Releases the slot's memory, and graphs of kernels that work in it. */
void
cuda_slot_release(struct terp_cuda_device *device, struct cuda_slot *slot);
