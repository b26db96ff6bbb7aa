/* What the section of low bits has of one tile. doc/format.md, "Low bits". */
#pragma once

#include "codec/format/low_bits.h"
#include "cpu/entropy/histogram.h"

struct cpu_low_tile {
    int low_nbits;
    unsigned escaping; /* groups that may have escapes, a bit each */
    uint8_t width[TERP_LOW_TILE_NGROUPS];
    unsigned numbers_nbytes, list_nbytes;
    uint64_t record_at; /* among all records */
    uint64_t at;        /* behind them */
    bool is_valid;      /* join */
};

/* The codes of a tile's list. */
struct cpu_low_list {
    unsigned nescapes, nlisted;
    uint16_t number[TERP_TILE_NSYMBOLS];
    uint8_t is_listed[TERP_TILE_NSYMBOLS / 8]; /* a bit an escape */
};

/* A worker's own memory. */
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

/* Chooses how many bits of a predictor's symbols are low, which leaves symbols
 * of `max_high` at most, and finds what the tile takes. */
void
terp_cpu_low_tile_measure(const uint16_t *symbols, unsigned nsymbols,
                          struct cpu_low_scratch *scratch,
                          struct cpu_low_tile *tile_ret);

/* Writes the tile's record and what stands behind all records, at its places
 * from `records` and `to` on, and leaves symbols as tiles have them. */
void
terp_cpu_low_tile_split(const struct cpu_low_tile *tile, unsigned nsymbols,
                        struct cpu_low_scratch *scratch, uint8_t *records,
                        uint8_t *to, uint16_t *symbols);

/* Reads a record. False where it is not valid. */
bool
terp_cpu_low_tile_read(const uint8_t *record, unsigned kind, unsigned nsymbols,
                       struct cpu_low_tile *tile_ret);

/* Makes a predictor's symbols of the first `nwanted` of a tile's, by what
 * stands at `from`. False where that is not valid. */
bool
terp_cpu_low_tile_join(const struct cpu_low_tile *tile, unsigned nsymbols,
                       unsigned nwanted, const uint8_t *from,
                       struct cpu_low_scratch *scratch, uint16_t *symbols);
