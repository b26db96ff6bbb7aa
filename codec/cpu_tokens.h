/* Floor 3: a tile's symbols to the words of tokens and back. tokens.h,
 * doc/format.md, "ratio tiles". */
#ifndef TERP_CPU_TOKENS_H
#define TERP_CPU_TOKENS_H

#include "cpu_words.h"
#include "tokens.h"

/* Longest tile: a token of one symbol has a word, a sign and seven bits. */
#define CPU_TOKENS_MAX_NBYTES \
    (TERP_TILE_NSYMBOLS * (TERP_MAX_CODE_NBITS + 8) / 8)

/* What tokens stand for, ready to be looked up, made once a call. */
struct cpu_tokens {
    /* By symbol, to encode: class, and plain bits, of which there are nbits. */
    struct cpu_token_code {
        uint8_t cls, nbits;
        uint16_t bits;
    } code[TERP_NSYMBOLS];
    struct cpu_token token[TERP_NTOKENS]; /* word_nbits left open */
};

void
cpu_tokens_make(struct cpu_tokens *tokens_ret);

/* How often each token occurs. */
void
cpu_tokens_count(const struct cpu_tokens *tokens, const uint16_t *symbols,
                 uint64_t nsymbols, uint32_t counts_ret[TERP_NSYMBOLS]);

/* Returns the number of bytes; `dst` has room for CPU_TOKENS_MAX_NBYTES. */
uint64_t
cpu_tokens_encode(const struct cpu_tokens *tokens,
                  const struct cpu_encode_book *book, const uint16_t *symbols,
                  uint64_t nsymbols, uint8_t *dst);

/* A codebook of tokens in a form that decodes. False when the lengths overfill
 * the code space. */
bool
cpu_token_book_make(const struct cpu_tokens *tokens,
                    const uint8_t nbits[TERP_NSYMBOLS],
                    struct cpu_decode_book *book_ret);

/* False unless `nbytes` bytes are a tile of `nsymbols` symbols. As for
 * cpu_words_decode some bytes behind `src` are readable. */
bool
cpu_tokens_decode(const struct cpu_tokens *tokens,
                  const struct cpu_decode_book *book, const uint8_t *src,
                  uint64_t nbytes, uint16_t *symbols_ret, uint64_t nsymbols);

#endif
