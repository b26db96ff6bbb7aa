/* The index of tiles while an encoder makes it. Kernels pass facts about
 * partitions to each other in the region `cost`, which is free after tiles are
 * coded. */
#pragma once

#include "gpu/block/warp.cuh"
#include "gpu/entropy/codebooks.cuh"

/* A partition whose payload is known. It is full if it has a tile that is not
 * zero. */
struct alignas(8) cuda_partition {
    uint32_t nbytes; /* of the payload */
    uint16_t tiles;  /* bit i: tile i is not zero */
    uint8_t width;   /* bits of a tile's length */
    uint8_t reduced;
};

/* Sums over all partitions before one. */
struct cuda_partition_prefix {
    uint64_t payload_nbytes;
    uint32_t lengths_nbytes;
    uint32_t nfull;    /* full partitions */
    uint32_t nnonzero; /* tiles that are not zero */
};

/* Offsets of the index's arrays in the stream. */
struct alignas(16) cuda_index_layout {
    uint64_t controls_at; /* then the offsets' width, then offsets */
    uint64_t lengths_at;
    uint32_t nfull;
    uint32_t offset_nbytes;
};

/* The arrays in the region `cost`. */
struct cuda_index_scratch {
    struct cuda_index_layout *layout;
    struct cuda_partition_prefix *prefix; /* of each partition */
    struct cuda_partition *partition;
    uint8_t *rest; /* unused memory behind them, aligned to 8 bytes */
};

static __device__ __forceinline__ struct cuda_index_scratch
index_scratch(const struct cuda_batch &batch, unsigned chunk)
{
    struct cuda_index_scratch scratch;

    scratch.layout =
        region<struct cuda_index_layout>(batch, chunk, batch.at.cost);
    scratch.prefix = (struct cuda_partition_prefix *)(scratch.layout + 1);
    scratch.partition =
        (struct cuda_partition *)(scratch.prefix + batch.npartitions);
    scratch.rest = (uint8_t *)(scratch.partition + batch.npartitions);
    return scratch;
}

/* The offset of the index in the stream. */
static __device__ __forceinline__ uint64_t
index_begin(const struct cuda_chunk &chunk)
{
    return chunk.escapes_end + chunk.low_bits_nbytes;
}

/* ---- lengths of a partition's tiles ----
 *
 * A warp calls these functions; its lane i has tile i. */

/* The tile's bytes; 0 if there is no tile or it is a zero tile. */
static __device__ __forceinline__ unsigned
tile_length(const struct cuda_batch &batch, unsigned partition)
{
    const unsigned lane = threadIdx.x % 32;
    const unsigned tile = partition * TERP_PARTITION_NTILES + lane;

    if (lane >= TERP_PARTITION_NTILES || tile >= batch.ntiles)
        return 0;
    unsigned nonzero = region<uint8_t>(batch, batch.at.nonzero)[tile];
    unsigned nbytes = region<uint16_t>(batch, batch.at.nbytes)[tile];
    return nonzero != 0 ? nbytes : 0;
}

/* The length as the index stores it: less the least length of such a tile. */
static __device__ __forceinline__ unsigned
length_excess(const struct cuda_batch &batch, unsigned partition,
              unsigned length)
{
    const unsigned tile = partition * TERP_PARTITION_NTILES + threadIdx.x % 32;

    if (length == 0)
        return 0;
    return length - terp_tile_min_nbytes(
                        batch.coding, terp_tile_nsymbols(batch.nvalues, tile));
}

/* The sum of the lengths up to this lane's. */
static __device__ __forceinline__ unsigned
length_sum(unsigned length)
{
    return warp_inclusive_sum<TERP_PARTITION_NTILES>(length);
}

/* Describes a partition that is not reduced, a concatenation of its tiles.
 * `end` is length_sum(length). */
static __device__ __forceinline__ struct cuda_partition
partition_of(const struct cuda_batch &batch, unsigned partition,
             unsigned length, unsigned end)
{
    const unsigned tiles = __ballot_sync(FULL_WARP_MASK, length != 0);
    unsigned excess = length_excess(batch, partition, length);

    excess = warp_or(excess);
    return {__shfl_sync(FULL_WARP_MASK, end, TERP_PARTITION_NTILES - 1),
            (uint16_t)tiles, (uint8_t)bit_width(excess), 0};
}
