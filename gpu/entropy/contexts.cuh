/* The regions of symbols in context order, and the counts that sort them.
 * doc/format.md, "Context order". */
#pragma once

#include "codec/model/contexts.h"
#include "gpu/engine/state.cuh"

/* Whether the chunk's tiles hold symbols in context order. */
static __device__ __forceinline__ bool
is_in_context_order(const struct cuda_chunk &chunk)
{
    return terp_coding_has_contexts(chunk.coding);
}

/* The symbols of the chunk's tiles, as they are encoded or decoded. */
static __device__ __forceinline__ uint16_t *
coded_symbols(const struct cuda_batch &batch, const struct cuda_chunk &chunk)
{
    return region<uint16_t>(
        batch, is_in_context_order(chunk) ? batch.at.coded : batch.at.symbols);
}

/* The chunk's symbols in the tile order of splines. Lorenzo has another tile
 * order; its symbols are copied to the region `staging`, which does not hold
 * tiles yet (encode) or any more (decode). */
static __device__ __forceinline__ uint16_t *
class_symbols(const struct cuda_batch &batch, const struct cuda_chunk &chunk)
{
    return region<uint16_t>(batch, terp_prediction_is_raster(chunk.prediction)
                                       ? batch.at.staging
                                       : batch.at.symbols);
}

/* How many of a level's symbols belong to each group (a context, or special
 * points; codec/model/contexts.h): for each tile in tile order, for each span
 * of tiles, and in all. A tile finds the place of its symbols of a group by
 * summing totals of smaller groups, whole spans, and tiles of its own span. The
 * region `context_counts` holds the counts of all levels. */

/* Tiles of a span. A tile sums up to this many tile counts and ntiles / this
 * many span counts for each group, by a warp; 256 keeps both sums short up to
 * 65536 tiles. Tests use a smaller value. */
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
