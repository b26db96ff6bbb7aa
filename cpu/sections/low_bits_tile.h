/* The low bits of one tile. doc/format.md, "Low bits". */
#pragma once

#include "codec/format/low_bits.h"
#include "cpu/entropy/histogram.h"

struct cpu_low_tile {
    int low_nbits;
    unsigned escaping; /* a bit per group that may have escapes */
    uint8_t width[TERP_LOW_TILE_NGROUPS];
    unsigned numbers_nbytes, list_nbytes;
    uint64_t record_at; /* offset in the records */
    uint64_t at;        /* offset in the bytes after all records */
    bool is_valid;      /* joining */
};

/* The codes of a tile's list. */
struct cpu_low_list {
    unsigned nescapes, nlisted;
    uint16_t number[TERP_TILE_NSYMBOLS];
    uint8_t is_listed[TERP_TILE_NSYMBOLS / 8]; /* a bit per escape */
};

/* A worker's scratch memory. */
struct cpu_low_scratch {
    struct cpu_low_list list;
    struct cpu_histogram histogram;
};

static inline unsigned
terp_cpu_low_tile_ngroups(unsigned nsymbols)
{
    return (unsigned)terp_low_ngroups(nsymbols);
}

static inline unsigned
terp_cpu_low_tile_kind(const struct cpu_low_tile *tile)
{
    return (tile->low_nbits > 0 ? TERP_LOW_HAS_BITS : 0u) |
           (tile->list_nbytes > 0 ? TERP_LOW_HAS_LIST : 0u);
}

/* Chooses how many bits of a predictor's symbols are low, such that symbols
 * of at most `max_high` remain, and finds the size of the tile's record and
 * bytes. */
void
terp_cpu_low_tile_measure(const uint16_t *symbols, unsigned nsymbols,
                          struct cpu_low_scratch *scratch,
                          struct cpu_low_tile *tile_ret);

/* Writes the tile's record and its bytes to their places in `records` and `to`,
 * and leaves the symbols of tiles. */
void
terp_cpu_low_tile_split(const struct cpu_low_tile *tile, unsigned nsymbols,
                        struct cpu_low_scratch *scratch, uint8_t *records,
                        uint8_t *to, uint16_t *symbols);

/* Reads a record. False if it is not valid. */
bool
terp_cpu_low_tile_read(const uint8_t *record, unsigned kind, unsigned nsymbols,
                       struct cpu_low_tile *tile_ret);

/* Makes a predictor's symbols of the first `nwanted` of a tile's symbols, from
 * the bytes at `from`. False if these are not valid. */
bool
terp_cpu_low_tile_join(const struct cpu_low_tile *tile, unsigned nsymbols,
                       unsigned nwanted, const uint8_t *from,
                       struct cpu_low_scratch *scratch, uint16_t *symbols);
