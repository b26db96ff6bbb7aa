/* Encodes a tile's symbols as codewords of tokens, and decodes them.
 * codec/format/tokens.h; doc/format.md, "ratio tiles". */
#pragma once

#include "codec/format/tokens.h"
#include "cpu/entropy/codewords.h"

/* ---- encoding ---- */

/* What each symbol and each run adds to a token, made once per call. An item's
 * bits 0-8 are its share of the token's number, bits 9-13 the number of its
 * plain bits, and bits 14 and up the plain bits. */
#define CPU_TOKENS_NRUNS 64 /* longer runs are rare */
struct cpu_tokens {
    uint32_t code[TERP_NSYMBOLS];
    uint32_t run[CPU_TOKENS_NRUNS];
    uint8_t nbits[TERP_NTOKENS]; /* number of plain bits, by a token's number */
};

void
terp_cpu_tokens_make(struct cpu_tokens *tokens_ret);

/* Counts the tokens of a tile, and their plain bits. False if the tile has no
 * token. */
bool
terp_cpu_tokens_count(const struct cpu_tokens *tokens, const uint16_t *symbols,
                      uint64_t nsymbols, uint32_t counts_ret[TERP_NSYMBOLS],
                      uint32_t *nbits_ret);

/* A codebook for encoding: packed codewords by a token's number. For tokens of
 * short runs and small codes, also all bits of the token (from bit 5 on) and
 * their number (bits 0-4). */
#define CPU_SHORT_NRUNS 16
#define CPU_SHORT_NCODES 64
#define CPU_SHORT_FIRST (TERP_ZERO_SYMBOL - CPU_SHORT_NCODES / 2)
struct cpu_token_codebook {
    struct cpu_codebook all;
    uint32_t token[CPU_SHORT_NRUNS][CPU_SHORT_NCODES];
};

void
terp_cpu_token_encode_table_make(const uint8_t nbits[TERP_NSYMBOLS],
                                 struct cpu_token_codebook *codebook_ret);

/* Returns the number of bytes. `dst` holds TERP_TOKENS_MAX_NBYTES, plus
 * CPU_OUTPUT_PADDING_NBYTES. */
uint64_t
terp_cpu_tokens_encode(const struct cpu_tokens *tokens,
                       const struct cpu_token_codebook *codebook,
                       const uint16_t *symbols, uint64_t nsymbols,
                       uint8_t *dst);

/* ---- decoding ---- */

/* Whole tokens of up to this many bits are looked up at once, two where they
 * fit. */
#define CPU_TOKEN_LOOKUP_NBITS 11
#define CPU_TOKEN_LONGER 0xFFFFu

/* A codebook of tokens for decoding. */
struct cpu_token_decode_table {
    /* By the next CPU_TOKEN_LOOKUP_NBITS bits: one token, or two if both fit.
     * Bits 0-5 hold the length of all, bits 16-31 the first symbol, bits 32-47
     * the second symbol, bits 48-63 the first run, bits 6-15 the distance from
     * the first symbol to the second. A single token is its own second at
     * distance 0. If the first token is longer, its run is CPU_TOKEN_LONGER,
     * which no tile has room for, and bits 0-5 hold a length that its codeword
     * exceeds. */
    uint64_t lookup[1 << CPU_TOKEN_LOOKUP_NBITS];
    struct cpu_sorted_codewords codewords;
};

/* False if the lengths overfill the code space. */
bool
terp_cpu_token_decode_table_make(const uint8_t nbits[TERP_NSYMBOLS],
                                 struct cpu_token_decode_table *table_ret);

/* Decodes tiles of tokens; see cpu_tiles_decoder. CPU_CODEWORDS_PADDING_NBYTES
 * after `src` must be readable. */
cpu_tiles_decoder terp_cpu_tokens_decode;
