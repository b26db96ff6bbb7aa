/* What an encoder's kernels tell each other about partitions of
 * tiles, in the region of costs once tiles are coded. */
#ifndef TERP_GPU_SECTIONS_INDEX_CUH
#define TERP_GPU_SECTIONS_INDEX_CUH

#include "gpu/entropy/codebooks.cuh"

/* A partition once it is put together. */
struct alignas(8) cuda_partition {
    uint32_t nbytes; /* of its payload */
    uint16_t tiles;  /* a bit a tile: it has words */
    uint8_t width;   /* of the lengths of these */
    uint8_t reduced;
};

/* What all partitions before one take. */
struct cuda_partition_place {
    uint64_t payload_nbytes;
    uint32_t lengths_nbytes;
    uint32_t nfull;    /* partitions that have tiles with words */
    uint32_t nnonzero; /* such tiles */
};

/* Where the index has its parts, in bytes of the stream. */
struct alignas(16) cuda_index_places {
    uint64_t controls_at; /* then a byte, then offsets */
    uint64_t lengths_at;
    uint32_t nfull;
    uint32_t offset_nbytes;
};

struct cuda_index_room {
    struct cuda_index_places *places;
    struct cuda_partition_place *place; /* a partition */
    struct cuda_partition *partition;
    uint8_t *rest; /* aligned to 8 */
};

static __device__ __forceinline__ struct cuda_index_room
index_room(const struct cuda_batch &batch, unsigned chunk)
{
    struct cuda_index_room room;

    room.places = region<struct cuda_index_places>(batch, chunk, batch.at.cost);
    room.place = (struct cuda_partition_place *)(room.places + 1);
    room.partition = (struct cuda_partition *)(room.place + batch.npartitions);
    room.rest = (uint8_t *)(room.partition + batch.npartitions);
    return room;
}

/* ---- lengths of a partition's tiles, by a warp: lane i has tile i ---- */

/* 0 where the tile has no words. */
static __device__ __forceinline__ unsigned
tile_length(const struct cuda_batch &batch, unsigned chunk, unsigned partition)
{
    const unsigned lane = threadIdx.x % 32;
    const unsigned tile = partition * TERP_PARTITION_NTILES + lane;

    if (lane >= TERP_PARTITION_NTILES || tile >= batch.ntiles)
        return 0;
    unsigned nonzero = region<uint8_t>(batch, chunk, batch.at.nonzero)[tile];
    unsigned nbytes = region<uint16_t>(batch, chunk, batch.at.nbytes)[tile];
    return nonzero != 0 ? nbytes : 0;
}

/* What the index says of a length: how much it exceeds the least one. */
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

/* Lengths up to this lane's. */
static __device__ __forceinline__ unsigned
length_sum(unsigned length)
{
    const unsigned lane = threadIdx.x % 32;

    for (unsigned step = 1; step < TERP_PARTITION_NTILES; step *= 2) {
        unsigned below = __shfl_up_sync(0xFFFFFFFF, length, step);
        length += lane >= step ? below : 0;
    }
    return length;
}

/* A partition that is its tiles one after another; `end` is length_sum. */
static __device__ __forceinline__ struct cuda_partition
partition_of(const struct cuda_batch &batch, unsigned partition,
             unsigned length, unsigned end)
{
    const unsigned tiles = __ballot_sync(0xFFFFFFFF, length != 0);
    unsigned excess = length_excess(batch, partition, length);

    for (int step = 16; step > 0; step /= 2)
        excess |= __shfl_xor_sync(0xFFFFFFFF, excess, step);
    return {__shfl_sync(0xFFFFFFFF, end, TERP_PARTITION_NTILES - 1),
            (uint16_t)tiles, (uint8_t)bit_width(excess), 0};
}

#endif
