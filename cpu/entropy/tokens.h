/* A tile's symbols to the codewords of tokens and back. tokens.h,
 * doc/format.md, "ratio tiles". */
#pragma once

#include "codec/format/tokens.h"
#include "cpu/entropy/codewords.h"

/* ---- encoding ---- */

/* What symbols and runs put into tokens, ready to be looked up, made once a
 * call. An item is a part of a token's number, in bits 0-8, and plain bits,
 * from bit 14 on, of which bits 9-13 hold the number. */
#define CPU_TOKENS_NRUNS 64 /* longer ones are seldom */
struct cpu_tokens {
    uint32_t code[TERP_NSYMBOLS];
    uint32_t run[CPU_TOKENS_NRUNS];
    uint8_t nbits[TERP_NTOKENS]; /* plain ones, by a token's number */
};

void
terp_cpu_tokens_make(struct cpu_tokens *tokens_ret);

/* How often each token of a tile occurs, and the number of their plain bits.
 * False where there is none. */
bool
terp_cpu_tokens_count(const struct cpu_tokens *tokens, const uint16_t *symbols,
                      uint64_t nsymbols, uint32_t counts_ret[TERP_NSYMBOLS],
                      uint32_t *nbits_ret);

/* A codebook as encoders look it up: packed codewords by a token's number, and
 * of tokens of short runs and small codes all bits, from bit 5 on, of which
 * bits 0-4 hold the number. */
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

/* Returns the number of bytes. `dst` has room for TERP_TOKENS_MAX_NBYTES and
 * CPU_OUTPUT_PADDING_NBYTES. */
uint64_t
terp_cpu_tokens_encode(const struct cpu_tokens *tokens,
                       const struct cpu_token_codebook *codebook,
                       const uint16_t *symbols, uint64_t nsymbols,
                       uint8_t *dst);

/* ---- decoding ---- */

/* Whole tokens of up to so many bits are looked up at once. */
#define CPU_TOKEN_LOOKUP_NBITS 11

/* What decodes a codebook of tokens. */
struct cpu_token_decode_table {
    /* By the next bits. Bits 0-3: how many are a token; then bits 4-15 are its
     * run and the others its symbol. Or bits 0-3 are 0, since the token is
     * longer: then bits 4-7 say how long its codeword is and those from 16 on
     * are its number; or these are 0, since the codeword is longer. */
    uint32_t lookup[1 << CPU_TOKEN_LOOKUP_NBITS];
    struct cpu_sorted_codewords codewords;
};

/* False when the lengths overfill the code space. */
bool
terp_cpu_token_decode_table_make(const uint8_t nbits[TERP_NSYMBOLS],
                                 struct cpu_token_decode_table *table_ret);

/* As for terp_cpu_codewords_decode some bytes behind `src` are readable. */
cpu_tiles_decoder terp_cpu_tokens_decode;
