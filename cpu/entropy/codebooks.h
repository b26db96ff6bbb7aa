/* Which codebooks a stream uses. doc/format.md, "Tiles". */
#pragma once

#include "codec/model/cost.h"
#include "cpu/sections/index.h"

/* What sampled codes cost whose magnitudes, or escapes, were counted: their
 * bits under the best entry, in units of the cost table (the lowest cross
 * entropy), and what is beyond that. */
uint64_t
terp_cpu_cost_of_counts(const uint32_t counts[TERP_NROWS],
                        struct terp_beyond beyond);

/* Bits of a tile's codewords by entry, of symbols or, in ratio streams, tokens.
 * This is cross entropy too, with lengths of codewords for logarithms: a
 * codeword takes a bit at least. Returns the best entry, ties to the lower id.
 */
uint8_t
terp_cpu_entry_costs(enum terp_coding coding,
                     const uint32_t counts[TERP_NSYMBOLS],
                     uint32_t costs_ret[TERP_NENTRIES]);

/* Selects an entry for each tile among the 2^w that are best for most tiles,
 * for the w whose codewords and numbers of entries take the fewest bits. The
 * index has each tile's best. */
void
terp_cpu_entries_select(struct cpu_tile_index *index,
                        const uint32_t (*costs)[TERP_NENTRIES]);

/* Lengths of an entry's codewords, of symbols or, in ratio streams, tokens. */
void
terp_cpu_entry_lengths(enum terp_coding coding, int entry,
                       uint8_t nbits_ret[TERP_NSYMBOLS]);

/* The entries in use, ascending, then for each non-zero tile which of these
 * it uses, in as few bits as number them. */
void
terp_cpu_entries_write(struct writer *writer,
                       const struct cpu_tile_index *index);
bool
terp_cpu_entries_read(struct reader *reader, struct cpu_tile_index *index,
                      uint64_t nnonzero);

struct cpu_kept;

/* The tables of entries that the first `ntiles` tiles have; those that another
 * thread is making are made in *own_ret, which is to be freed. False when
 * memory runs out. */
bool
terp_cpu_tables_find(struct cpu_kept *kept, const struct cpu_tile_index *index,
                     uint64_t ntiles, const void *tables_ret[TERP_NENTRIES],
                     void **own_ret);

/* Lengths of the chunk's own code, four bits each: the escape's, then those
 * of symbols low .. high. */
void
terp_cpu_custom_write(struct writer *writer,
                      const uint8_t nbits[TERP_NSYMBOLS]);
bool
terp_cpu_custom_read(struct reader *reader, uint8_t nbits_ret[TERP_NSYMBOLS]);
