/* Encodes symbols as bytes, tile by tile, and decodes them. doc/format.md,
 * "Tiles". */
#pragma once

#include "codec/format/bytes.h"
#include "codec/format/frame.h"
#include "cpu/pool/pool.h"

/* The ends of a stream's first tiles. In a reduced partition, the end of the
 * partition. */
struct cpu_tiles_prefixes {
    uint64_t ntiles[TERP_NPREFIXES];
    const uint8_t *end[TERP_NPREFIXES];
};

/* Writes all tiles of `symbols` with any coding but raw and constant.
 * `prefixes`, if not NULL, has numbers of tiles, and gets where these end. */
enum terp_status
terp_cpu_tiles_encode(struct cpu_pool *pool, enum terp_coding coding,
                      const uint16_t *symbols, uint64_t nsymbols,
                      struct cpu_tiles_prefixes *prefixes,
                      struct writer *writer);

/* Reads tiles that terp_cpu_tiles_encode wrote, up to the reader's end, and
 * decodes the first `nwanted` symbols. If `nwanted` is less than all, the bytes
 * after these symbols may be missing. */
enum terp_status
terp_cpu_tiles_decode_first(struct cpu_pool *pool, enum terp_coding coding,
                            struct reader *reader, uint16_t *symbols_ret,
                            uint64_t nsymbols, uint64_t nwanted);

/* Decodes all symbols. */
static inline enum terp_status
terp_cpu_tiles_decode(struct cpu_pool *pool, enum terp_coding coding,
                      struct reader *reader, uint16_t *symbols_ret,
                      uint64_t nsymbols)
{
    return terp_cpu_tiles_decode_first(pool, coding, reader, symbols_ret,
                                       nsymbols, nsymbols);
}

/* Fills in the counts of tiles and of the index. */
enum terp_status
terp_cpu_tiles_inspect(enum terp_coding coding, struct reader *reader,
                       uint64_t nsymbols, struct terp_info *info);
