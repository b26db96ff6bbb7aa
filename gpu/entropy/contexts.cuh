/* Where the symbols of chunks in context order stand, and the counts that sort
 * them. doc/format.md, "Context order". */
#pragma once

#include "codec/model/contexts.h"
#include "gpu/engine/state.cuh"

/* Whether the chunk's tiles are of symbols in context order. */
static __device__ __forceinline__ bool
is_in_context_order(const struct cuda_chunk &chunk)
{
    return terp_coding_has_contexts(chunk.coding);
}

/* The symbols of the chunk's tiles: what is encoded, or decoded. */
static __device__ __forceinline__ uint16_t *
coded_symbols(const struct cuda_batch &batch, const struct cuda_chunk &chunk)
{
    return region<uint16_t>(
        batch, is_in_context_order(chunk) ? batch.at.coded : batch.at.symbols);
}

/* The chunk's symbols in the tile order of splines. Those of lorenzo, which has
 * another tile order, are copied to the region `staging`, where no tiles stand
 * yet, or none any more. */
static __device__ __forceinline__ uint16_t *
class_symbols(const struct cuda_batch &batch, const struct cuda_chunk &chunk)
{
    return region<uint16_t>(batch, terp_prediction_is_raster(chunk.prediction)
                                       ? batch.at.staging
                                       : batch.at.symbols);
}

/* How many symbols of a level each group has (codec/model/contexts.h): in tiles
 * in tile order, which may hold symbols of other levels too, in spans of these
 * tiles, and in all. So a tile knows after few sums where its symbols of a
 * group begin. The region `context_counts` has them. */
#ifndef CUDA_CONTEXT_SPAN_NTILES
#define CUDA_CONTEXT_SPAN_NTILES 256
#endif
struct cuda_context_counts {
    uint32_t *tile;            /* [TERP_NGROUPS][ntiles] */
    uint32_t *span;            /* [TERP_NGROUPS][nspans] */
    unsigned long long *total; /* [TERP_NGROUPS] */
};

static inline TERP_HOST_DEVICE uint64_t
cuda_context_nspans(uint64_t ntiles)
{
    return div_up(ntiles, CUDA_CONTEXT_SPAN_NTILES);
}

/* Bytes of the counts of all levels. */
static inline TERP_HOST_DEVICE uint64_t
cuda_context_counts_nbytes(uint64_t ntiles)
{
    return (uint64_t)TERP_NCONTEXT_LEVELS * TERP_NGROUPS *
           (8 + 4 * (ntiles + cuda_context_nspans(ntiles)));
}
