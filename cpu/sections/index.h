/* The index of a stream's tiles. After the hybrid form of Noordsij
 * et al., "Parallelization of variable rate decompression through metadata",
 * PDP 2020: an absolute offset a partition, short lengths within it. */
#ifndef TERP_CPU_SECTIONS_INDEX_H
#define TERP_CPU_SECTIONS_INDEX_H

#include "codec/format/reduce.h"
#include "cpu/entropy/tiles.h"

/* Zero tiles have no length and no entry. */
struct cpu_tile_index {
    uint64_t nsymbols, ntiles, npartitions;
    uint8_t *nonzero; /* bit map of tiles */
    bool *reduced;    /* per partition; no bit map: threads set them */
    uint8_t *entry;   /* per tile; huffman only */
    uint16_t *nbytes; /* per tile, before reduction */
    uint64_t *begin;  /* per partition and one more, in the payload */
    uint8_t *scratch; /* for the bit map of tiles */
    void *memory;
    uint64_t index_nbytes; /* of lengths and offsets, when read */
};

enum terp_status
terp_cpu_tile_index_make(uint64_t nsymbols, struct cpu_tile_index *index_ret);

void
terp_cpu_tile_index_free(struct cpu_tile_index *index);

/* The index is written around the codebooks: which tiles are not zero, then
 * (by the caller) codebooks, then lengths and offsets. */
void
terp_cpu_tile_index_write_nonzero(struct writer *writer,
                                  struct cpu_tile_index *index);
void
terp_cpu_tile_index_write_places(struct writer *writer,
                                 const struct cpu_tile_index *index,
                                 enum terp_coding coding);

enum terp_status
terp_cpu_tile_index_read_nonzero(struct reader *reader,
                                 struct cpu_tile_index *index);

/* What is left of the reader is the payload then; `begin` lies within. */
enum terp_status
terp_cpu_tile_index_read_places(struct reader *reader,
                                struct cpu_tile_index *index,
                                enum terp_coding coding, unsigned max_nbytes);

#endif
