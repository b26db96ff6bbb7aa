/* The index of a stream's tiles, after the hybrid form of Noordsij et al.,
 * "Parallelization of variable rate decompression through metadata", PDP 2020:
 * an absolute offset per partition, and short lengths within it. */
#pragma once

#include "codec/format/reduce.h"
#include "cpu/entropy/tiles.h"

/* The facts about tiles and partitions. A zero tile has no length and no
 * entry. */
struct cpu_tile_index {
    uint64_t nsymbols, ntiles, npartitions;
    uint8_t *nonzero; /* bit map of tiles */
    bool *reduced;    /* per partition; not a bit map, since threads set it */
    uint8_t *entry;   /* per tile: its entry of the dictionary, if it has one */
    uint16_t *nbytes; /* per tile, before its partition is reduced */
    uint64_t *begin;  /* per partition and one more: offset in the payload */
    uint8_t *scratch; /* for the bit map of tiles */
    void *memory;
    uint64_t index_nbytes; /* of lengths and offsets; set by reading */
};

/* The first tile of a partition, and the end of its tiles. */
static inline uint64_t
cpu_first_tile(uint64_t partition)
{
    return partition * TERP_PARTITION_NTILES;
}

static inline uint64_t
cpu_end_tile(const struct cpu_tile_index *index, uint64_t partition)
{
    return min_u64(cpu_first_tile(partition + 1), index->ntiles);
}

enum terp_status
terp_cpu_tile_index_make(uint64_t nsymbols, struct cpu_tile_index *index_ret);

void
terp_cpu_tile_index_free(struct cpu_tile_index *index);

/* The index has two parts. First comes the map of non-zero tiles; then come the
 * codebooks, which the caller writes; then lengths and offsets. */
void
terp_cpu_tile_index_write_nonzero(struct writer *writer,
                                  struct cpu_tile_index *index);
void
terp_cpu_tile_index_write_places(struct writer *writer,
                                 const struct cpu_tile_index *index,
                                 enum terp_coding coding);

/* The end in the payload of the first `ntiles` tiles; if the last one's
 * partition is reduced, the end of that partition. */
uint64_t
terp_cpu_tile_index_end(const struct cpu_tile_index *index, uint64_t ntiles);

enum terp_status
terp_cpu_tile_index_read_nonzero(struct reader *reader,
                                 struct cpu_tile_index *index);

/* Reads lengths and offsets, and leaves the reader at the payload; `begin` then
 * lies within the payload. No tile has more than `max_nbytes`. Unless
 * `is_whole`, the payload may end early, and so may the last partitions. */
enum terp_status
terp_cpu_tile_index_read_places(struct reader *reader,
                                struct cpu_tile_index *index,
                                enum terp_coding coding, unsigned max_nbytes,
                                bool is_whole);
