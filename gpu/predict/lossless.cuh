/* Shared by the kernels of the lossless prediction: the quants that follow from
 * a chunk's model, the mask, and the orders of differences. */
#pragma once

#include "codec/model/lossless_quants.h"
#include "gpu/predict/lorenzo.cuh"
#include "gpu/predict/values.cuh"

static __device__ __forceinline__ bool
chunk_is_lossless(const struct cuda_chunk &chunk)
{
    return is_predicted_by(chunk, TERP_PREDICTION_LOSSLESS);
}

/* Returns the mask of special points, or NULL if there are none. When encoding,
 * nspecials counts, because lossless_integers may find special points that the
 * scan has not. */
static __device__ __forceinline__ const uint32_t *
lossless_mask(const struct cuda_batch &batch, const struct cuda_chunk &chunk)
{
    const bool any = batch.decodes ? chunk.has_specials : chunk.nspecials > 0;

    return any ? region<uint32_t>(batch, batch.at.mask) : nullptr;
}

template <typename T>
static __device__ __forceinline__ lossless_quants<T>
quants_of_model(const struct cuda_chunk &chunk)
{
    return lossless_quants_of<T>(chunk.model.exact, chunk.model.lossless.form);
}

/* Returns how often differences are taken along dimension d: 0, 1 or 2 times.
 */
static __device__ __forceinline__ int
lossless_order(const struct cuda_chunk &chunk, int d)
{
    const unsigned dims = chunk.model.lossless.dims;

    return (int)(dims >> d & 1) +
           (int)(dims >> (d + TERP_LOSSLESS_TWICE_SHIFT) & 1);
}
