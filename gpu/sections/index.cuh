/* The index of tiles as an encoder's kernels make it: what they tell each other
 * about partitions, in the region `cost`, which is free once tiles are coded;
 * and the lengths of a partition's tiles. */
#pragma once

#include "gpu/block/warp.cuh"
#include "gpu/entropy/codebooks.cuh"

/* A partition once its payload is known. */
struct alignas(8) cuda_partition {
    uint32_t nbytes; /* of its payload */
    uint16_t tiles;  /* a bit a tile that is not zero */
    uint8_t width;   /* of these tiles' lengths */
    uint8_t reduced;
};

/* What all partitions before one take together. */
struct cuda_partition_prefix {
    uint64_t payload_nbytes;
    uint32_t lengths_nbytes;
    uint32_t nfull;    /* partitions that have tiles which are not zero */
    uint32_t nnonzero; /* these tiles */
};

/* Where the parts of the index stand, in bytes of the stream. */
struct alignas(16) cuda_index_layout {
    uint64_t controls_at; /* then the offsets' width, then offsets */
    uint64_t lengths_at;
    uint32_t nfull;
    uint32_t offset_nbytes;
};

/* Where this stands in scratch memory. */
struct cuda_index_scratch {
    struct cuda_index_layout *layout;
    struct cuda_partition_prefix *prefix; /* of each partition */
    struct cuda_partition *partition;
    uint8_t *rest; /* aligned to 8 */
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

/* Where the index begins in the stream. */
static __device__ __forceinline__ uint64_t
index_begin(const struct cuda_chunk &chunk)
{
    return chunk.escapes_end + chunk.low_bits_nbytes;
}

/* ---- lengths of a partition's tiles ----
 *
 * A warp calls these functions; its lane i has tile i. */

/* The tile's bytes; 0 where there is no tile or it is a zero tile. */
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

/* What the index says of a length: by how much it exceeds the least. */
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

/* A partition that is not reduced: its tiles one after another. `end` is
 * length_sum(length). */
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
