/* Encodes symbols as codewords of one codebook, and decodes them. */
#pragma once

#include "codec/format/base.h"
#include "codec/format/huffman.h"

/* A codebook for encoding: packed codewords by symbol. */
struct cpu_codebook {
    uint32_t codeword[TERP_NSYMBOLS];
};

void
terp_cpu_encode_table_make(const uint8_t nbits[TERP_NSYMBOLS],
                           struct cpu_codebook *codebook);

/* The place where codewords are written. The highest bits of `pending`, fewer
 * than eight, are not stored yet. */
struct cpu_output {
    uint8_t *at;
    uint64_t pending;
    unsigned npending;
};

/* Codewords are stored by whole words: this many bytes after the last codeword
 * are overwritten. */
#define CPU_OUTPUT_PADDING_NBYTES 8

/* Appends 1 to 56 bits. */
static inline void
cpu_put_bits(struct cpu_output *output, uint64_t bits, unsigned nbits)
{
    output->npending += nbits;
    output->pending |= bits << (64 - output->npending);
    uint64_t bytes = TERP_HOST_IS_BIG_ENDIAN
                         ? output->pending
                         : __builtin_bswap64(output->pending);
    memcpy(output->at, &bytes, sizeof bytes);
    output->at += output->npending / 8;
    output->pending <<= output->npending & ~7u;
    output->npending %= 8;
}

/* Returns the number of bytes. `dst` holds TERP_MAX_CODE_NBITS per symbol, plus
 * CPU_OUTPUT_PADDING_NBYTES. */
uint64_t
terp_cpu_codewords_encode(const struct cpu_codebook *codebook,
                          const uint16_t *symbols, uint64_t nsymbols,
                          uint8_t *dst);

/* The bits that a look-up sees: of one codeword, and of a burst of short
 * ones. */
#define CPU_LOOKUP_NBITS 12
#define CPU_BURST_NBITS 10
#define CPU_BURST_MAX_NSYMBOLS 8

/* Canonical codewords by length. A left-aligned codeword w has l bits if end[l
 * - 1] <= w < end[l]; its symbol is sorted[base[l] + w], where w is
 * right-aligned. */
struct cpu_sorted_codewords {
    uint32_t end[TERP_MAX_CODE_NBITS + 1];
    int32_t base[TERP_MAX_CODE_NBITS + 1];
    uint16_t sorted[TERP_NSYMBOLS]; /* by length, then by symbol */
};

/* Also returns the codewords by symbol. False if the lengths overfill the code
 * space. */
bool
terp_cpu_sorted_codewords_make(const uint8_t nbits[TERP_NSYMBOLS],
                               uint16_t codewords_ret[TERP_NSYMBOLS],
                               struct cpu_sorted_codewords *sorted_ret);

/* A codebook for decoding. */
struct cpu_decode_table {
    /* By the next CPU_LOOKUP_NBITS bits: symbol << 4 | length; 0: the codeword
     * is longer. */
    uint16_t lookup[1 << CPU_LOOKUP_NBITS];
    /* By the next CPU_BURST_NBITS bits: all symbols whose codewords these bits
     * hold. Bits 10-15 of the first item hold the number of symbols, those of
     * the second the number of bits that the symbols take; 0 symbols: the
     * codeword is longer. */
    uint16_t burst[1 << CPU_BURST_NBITS][CPU_BURST_MAX_NSYMBOLS];
    bool has_bursts; /* bursts pay if zero has a short codeword */
    struct cpu_sorted_codewords codewords;
};

/* False if the lengths overfill the code space. */
bool
terp_cpu_decode_table_make(const uint8_t nbits[TERP_NSYMBOLS],
                           struct cpu_decode_table *table_ret);

/* Finds the codeword that `next` begins with, highest bit first, if it has more
 * than `length` bits. Returns symbol << 4 | length, or 0 if no codeword
 * matches. */
static inline unsigned
cpu_find_longer_codeword(const struct cpu_sorted_codewords *codewords,
                         uint64_t next, int length)
{
    uint32_t bits = (uint32_t)(next >> (64 - TERP_MAX_CODE_NBITS));

    for (length++; length <= TERP_MAX_CODE_NBITS; length++) {
        if (bits < codewords->end[length]) {
            int32_t at = codewords->base[length] +
                         (int32_t)(bits >> (TERP_MAX_CODE_NBITS - length));
            if (at < 0 || at >= TERP_NSYMBOLS)
                return 0;
            return (unsigned)codewords->sorted[at] << 4 | (unsigned)length;
        }
    }
    return 0;
}

/* Finds the codeword of any length that `next` begins with, like
 * cpu_find_longer_codeword. */
static inline unsigned
cpu_find_codeword(const struct cpu_decode_table *table, uint64_t next)
{
    unsigned found = table->lookup[next >> (64 - CPU_LOOKUP_NBITS)];

    return found != 0 ? found
                      : cpu_find_longer_codeword(&table->codewords, next,
                                                 CPU_LOOKUP_NBITS);
}

/* The decoder loads whole words: this many bytes after `src` must be
 * readable. */
#define CPU_CODEWORDS_PADDING_NBYTES 8

/* A tile of codewords or of tokens. */
struct cpu_coded_tile {
    const void *table; /* a table of the coding's own type */
    const uint8_t *src;
    uint64_t nbytes;
    uint16_t *symbols;
    uint64_t nsymbols;
};

/* The state of a tile's decoding. */
struct cpu_tile_reader {
    struct cpu_coded_tile tile;
    uint64_t at, nbits; /* the next bit; number of bits */
    uint64_t i;         /* the next symbol */
};

/* Loads the next bits, at least 57 of them. */
static inline uint64_t
cpu_next_bits(const struct cpu_tile_reader *reader)
{
    return __builtin_bswap64(load_le64(reader->tile.src + reader->at / 8))
           << (reader->at % 8);
}

/* Decodes one tile, or two together, which takes less time. False unless the
 * codewords fill exactly the tile's bytes and symbols. */
typedef bool
cpu_tiles_decoder(const struct cpu_coded_tile *tiles, int ntiles);

cpu_tiles_decoder terp_cpu_codewords_decode;
