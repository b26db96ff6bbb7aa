/* Floor 3: a tile's symbols to the words of tokens and back. tokens.h,
 * doc/format.md, "Ratio tiles". */
#ifndef TERP_CPU_TOKENS_H
#define TERP_CPU_TOKENS_H

#include "cpu_words.h"
#include "tokens.h"

/* Longest tile: a token of one symbol has a word, a sign and seven bits. */
#define CPU_TOKENS_MAX_NBYTES \
    (TERP_TILE_NSYMBOLS * (TERP_MAX_CODE_NBITS + 8) / 8)

/* How often each token occurs. */
void
cpu_tokens_count(const uint16_t *symbols, uint64_t nsymbols,
                 uint32_t counts_ret[TERP_NSYMBOLS]);

/* Returns the number of bytes; `dst` has room for CPU_TOKENS_MAX_NBYTES. */
uint64_t
cpu_tokens_encode(const struct cpu_encode_book *book, const uint16_t *symbols,
                  uint64_t nsymbols, uint8_t *dst);

/* What tokens stand for, ready to be looked up. */
struct cpu_tokens {
    struct cpu_token {
        uint16_t run_first, code_first;
        uint8_t run_nbits, code_nbits; /* the code's without the sign */
        bool is_escape;
    } token[TERP_NTOKENS];
};

void
cpu_tokens_make(struct cpu_tokens *tokens_ret);

/* False unless `nbytes` bytes are a tile of `nsymbols` symbols. As for
 * cpu_words_decode some bytes behind `src` are readable. */
bool
cpu_tokens_decode(const struct cpu_tokens *tokens,
                  const struct cpu_decode_book *book, const uint8_t *src,
                  uint64_t nbytes, uint16_t *symbols_ret, uint64_t nsymbols);

#endif
