/* Symbols to bytes and back, tile by tile. doc/format.md, "Tiles". */
#pragma once

#include "codec/format/bytes.h"
#include "codec/format/frame.h"
#include "cpu/pool/pool.h"

/* Where the first tiles of a stream end, or the partition that they are in
 * where that is reduced. */
struct cpu_tiles_prefixes {
    uint64_t ntiles[TERP_NPREFIXES];
    const uint8_t *end[TERP_NPREFIXES];
};

/* Writes all tiles of `symbols` with a coding other than raw and constant.
 * `prefixes`: NULL, or their numbers of tiles, of which the ends are found. */
enum terp_status
terp_cpu_tiles_encode(struct cpu_pool *pool, enum terp_coding coding,
                      const uint16_t *symbols, uint64_t nsymbols,
                      struct cpu_tiles_prefixes *prefixes,
                      struct writer *writer);

/* Reads what terp_cpu_tiles_encode wrote, up to the reader's end: the first
 * `nwanted` symbols. Where these are not all, what is behind them may be
 * missing. */
enum terp_status
terp_cpu_tiles_decode_first(struct cpu_pool *pool, enum terp_coding coding,
                            struct reader *reader, uint16_t *symbols_ret,
                            uint64_t nsymbols, uint64_t nwanted);

/* All of them. */
static inline enum terp_status
terp_cpu_tiles_decode(struct cpu_pool *pool, enum terp_coding coding,
                      struct reader *reader, uint16_t *symbols_ret,
                      uint64_t nsymbols)
{
    return terp_cpu_tiles_decode_first(pool, coding, reader, symbols_ret,
                                       nsymbols, nsymbols);
}

/* Fills in the tile and index counts. */
enum terp_status
terp_cpu_tiles_inspect(enum terp_coding coding, struct reader *reader,
                       uint64_t nsymbols, struct terp_info *info);
