/* Symbols to the codewords of one codebook and back. */
#pragma once

#include "codec/format/base.h"
#include "codec/format/huffman.h"

/* A codebook as encoders look it up: packed codewords by symbol. */
struct cpu_codebook {
    uint32_t codeword[TERP_NSYMBOLS];
};

void
terp_cpu_encode_table_make(const uint8_t nbits[TERP_NSYMBOLS],
                           struct cpu_codebook *codebook);

/* Where codewords are put: the highest of `pending` are fewer than eight bits
 * that are not stored yet. */
struct cpu_output {
    uint8_t *at;
    uint64_t pending;
    unsigned npending;
};

/* Whole words are stored: so many bytes behind an encoder's last one are
 * overwritten. */
#define CPU_OUTPUT_PADDING_NBYTES 8

/* At most 56 bits, one at least. */
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

/* Returns the number of bytes; `dst` has room for TERP_MAX_CODE_NBITS a symbol
 * and CPU_OUTPUT_PADDING_NBYTES. */
uint64_t
terp_cpu_codewords_encode(const struct cpu_codebook *codebook,
                          const uint16_t *symbols, uint64_t nsymbols,
                          uint8_t *dst);

/* Bits that a look-up sees: one codeword, or a burst of short ones. */
#define CPU_LOOKUP_NBITS 12
#define CPU_BURST_NBITS 10
#define CPU_BURST_MAX_NSYMBOLS 8

/* Codewords by length: those below end[l] (left-aligned) and not below end[l -
 * 1] have l bits, and codeword w of these stands for sorted[base[l] + w]. */
struct cpu_sorted_codewords {
    uint32_t end[TERP_MAX_CODE_NBITS + 1];
    int32_t base[TERP_MAX_CODE_NBITS + 1];
    uint16_t sorted[TERP_NSYMBOLS]; /* by (length, symbol) */
};

/* Also tells the codewords by symbol. False when the lengths overfill the code
 * space. */
bool
terp_cpu_sorted_codewords_make(const uint8_t nbits[TERP_NSYMBOLS],
                               uint16_t codewords_ret[TERP_NSYMBOLS],
                               struct cpu_sorted_codewords *sorted_ret);

/* What decodes a codebook. */
struct cpu_decode_table {
    /* By the next CPU_LOOKUP_NBITS bits: symbol << 4 | bits; 0: longer. */
    uint16_t lookup[1 << CPU_LOOKUP_NBITS];
    /* By the next CPU_BURST_NBITS bits: up to so many symbols. Bits 10-15 of
     * the first say how many there are, of the second how many bits they take;
     * 0: not even one. */
    uint16_t burst[1 << CPU_BURST_NBITS][CPU_BURST_MAX_NSYMBOLS];
    bool has_bursts; /* they pay where zero takes few bits */
    struct cpu_sorted_codewords codewords;
};

/* False when the lengths overfill the code space. */
bool
terp_cpu_decode_table_make(const uint8_t nbits[TERP_NSYMBOLS],
                           struct cpu_decode_table *table_ret);

/* Symbol << 4 | bits of the codeword that `next` begins with, highest bit
 * first, which has more bits than `length`; 0 when these bits are no codeword.
 */
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

/* The same of any length. */
static inline unsigned
cpu_find_codeword(const struct cpu_decode_table *table, uint64_t next)
{
    unsigned found = table->lookup[next >> (64 - CPU_LOOKUP_NBITS)];

    return found != 0 ? found
                      : cpu_find_longer_codeword(&table->codewords, next,
                                                 CPU_LOOKUP_NBITS);
}

static inline uint64_t
load_be64(const uint8_t *src)
{
    uint64_t word = 0;
    for (int i = 0; i < 8; i++)
        word = word << 8 | src[i];
    return word;
}

/* The decoder loads whole words: so many bytes behind `src` are readable. */
#define CPU_CODEWORDS_PADDING_NBYTES 8

/* A tile to decode, of codewords or of tokens. */
struct cpu_coded_tile {
    const void *table; /* of the decoder's own kind */
    const uint8_t *src;
    uint64_t nbytes;
    uint16_t *symbols;
    uint64_t nsymbols;
};

/* One on its way. */
struct cpu_tile_reader {
    struct cpu_coded_tile tile;
    uint64_t at, nbits; /* next bit, and all */
    uint64_t i;         /* next symbol */
};

/* The next bits, 57 of them at least. */
static inline uint64_t
cpu_next_bits(const struct cpu_tile_reader *reader)
{
    return load_be64(reader->tile.src + reader->at / 8) << (reader->at % 8);
}

/* One tile, or two, which take less time together. False unless exactly their
 * bytes make their symbols. */
typedef bool
cpu_tiles_decoder(const struct cpu_coded_tile *tiles, int ntiles);

cpu_tiles_decoder terp_cpu_codewords_decode;
