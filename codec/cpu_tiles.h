/* Floor 3: symbols to bytes and back, tile by tile. doc/format.md, "Tiles". */
#ifndef TERP_CPU_TILES_H
#define TERP_CPU_TILES_H

#include "bytes.h"
#include "codebooks.h"
#include "cpu_team.h"
#include "frame.h"

/* Symbols in a tile, tiles in a partition: part of the format. */
#define TERP_TILE_NSYMBOLS 4096
#define TERP_PARTITION_NTILES 16

/* Bits that a chunk's codes would take under the best entry, in units of the
 * cost table: the lowest cross entropy, ties to the lower id. Rows from
 * `nrows` on are not counted, but for the escape. `entry_ret` may be NULL. */
uint32_t
cpu_entry_select(const uint32_t counts[TERP_NROWS], int nrows, int *entry_ret);

/* Writes all tiles of `symbols` with a coding other than raw and constant. */
enum terp_status
cpu_tiles_encode(struct cpu_team *team, enum terp_coding coding,
                 const uint16_t *symbols, uint64_t nsymbols,
                 struct writer *writer);

/* Reads what cpu_tiles_encode wrote, up to the reader's end. */
enum terp_status
cpu_tiles_decode(struct cpu_team *team, enum terp_coding coding,
                 struct reader *reader, uint16_t *symbols_ret,
                 uint64_t nsymbols);

/* Fills in the tile and index counts. */
enum terp_status
cpu_tiles_inspect(enum terp_coding coding, struct reader *reader,
                  uint64_t nsymbols, struct terp_info *info);

#endif
