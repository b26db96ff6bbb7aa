/* The lossless prediction as kernels see it: what the chunk's state tells of
 * integers, and the shares of its work. */
#pragma once

#include "codec/model/lossless_quants.h"
#include "gpu/predict/lorenzo.cuh"
#include "gpu/predict/values.cuh"

static __device__ __forceinline__ bool
chunk_is_lossless(const struct cuda_chunk &chunk)
{
    return chunk.status == TERP_OK &&
           chunk.prediction == TERP_PREDICTION_LOSSLESS;
}

/* The mask of special points, or NULL where there are none. An encoder's stage
 * of integers may find some that the scan has not. */
static __device__ __forceinline__ const uint32_t *
lossless_mask(const struct cuda_batch &batch, const struct cuda_chunk &chunk)
{
    const bool any = batch.decode ? chunk.has_specials : chunk.nspecials > 0;

    return any ? region<uint32_t>(batch, batch.at.mask) : nullptr;
}

template <typename T>
static __device__ __forceinline__ struct lossless_quants<T>
quants_of_model(const struct cuda_chunk &chunk) {
    return lossless_quants_of<T>(chunk.model.exact, chunk.model.lossless.form);
}

/* How often differences are taken along a dimension. */
static __device__ __forceinline__ int
lossless_order(const struct cuda_chunk &chunk, int d)
{
    const unsigned dims = chunk.model.lossless.dims;

    return (int)(dims >> d & 1) +
           (int)(dims >> (d + TERP_LOSSLESS_TWICE_SHIFT) & 1);
}
