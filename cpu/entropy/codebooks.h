/* The choice of codebooks. doc/format.md, "Tiles". */
#pragma once

#include "codec/model/cost.h"
#include "cpu/sections/index.h"

/* Estimates the cost of sampled codes from counts of their magnitudes and
 * escapes: their bits under the best entry (the lowest cross entropy) in units
 * of the cost table, plus the bits that codewords do not hold. */
uint64_t
terp_cpu_cost_of_counts(const uint32_t counts[TERP_NROWS],
                        struct terp_beyond beyond);

/* Computes the bits of a tile's codewords under each entry, of symbols or, in
 * ratio streams, of tokens. This is a cross entropy with codeword lengths in
 * place of logarithms: a codeword takes at least a bit. Returns the best entry;
 * ties go to the lower id. */
uint8_t
terp_cpu_entry_costs(enum terp_coding coding,
                     const uint32_t counts[TERP_NSYMBOLS],
                     uint32_t costs_ret[TERP_NENTRIES]);

/* Selects an entry for each tile. Only the 2^w entries that are best for most
 * tiles are used; w minimizes the bits of codewords and entry numbers together.
 * The index already holds each tile's best entry. */
void
terp_cpu_entries_select(struct cpu_tile_index *index,
                        const uint32_t (*costs)[TERP_NENTRIES]);

/* The codeword lengths of an entry, of symbols or, in ratio streams, of
 * tokens. */
void
terp_cpu_entry_lengths(enum terp_coding coding, int entry,
                       uint8_t nbits_ret[TERP_NSYMBOLS]);

/* Writes the entries in use, ascending, then the entry of each non-zero tile,
 * in as few bits as number the entries in use. */
void
terp_cpu_entries_write(struct writer *writer,
                       const struct cpu_tile_index *index);
bool
terp_cpu_entries_read(struct reader *reader, struct cpu_tile_index *index,
                      uint64_t nnonzero);

struct cpu_kept;

/* Finds the tables of the entries of the first `ntiles` tiles. A table that
 * another thread is just making is made a second time in *own_ret, which the
 * caller frees. Returns false if memory runs out. */
bool
terp_cpu_tables_find(struct cpu_kept *kept, const struct cpu_tile_index *index,
                     uint64_t ntiles, const void *tables_ret[TERP_NENTRIES],
                     void **own_ret);

/* Writes the codeword lengths of the chunk's own code, four bits each: the
 * escape's, then those of symbols low .. high. */
void
terp_cpu_custom_write(struct writer *writer,
                      const uint8_t nbits[TERP_NSYMBOLS]);
bool
terp_cpu_custom_read(struct reader *reader, uint8_t nbits_ret[TERP_NSYMBOLS]);
