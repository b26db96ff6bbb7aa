#include "cpu_tokens.h"

#include "base.h"

#define ZERO_SYMBOL TERP_RADIUS
#define FOUR_ZERO_SYMBOLS (UINT64_C(0x0001000100010001) * ZERO_SYMBOL)

/* The first symbol from number i on that is not zero, or nsymbols. */
static inline uint64_t
pass_zeros(const uint16_t *symbols, uint64_t i, uint64_t nsymbols)
{
    uint64_t four;

    for (; i + 4 <= nsymbols; i += 4) {
        memcpy(&four, symbols + i, sizeof four);
        if (four != FOUR_ZERO_SYMBOLS)
            break;
    }
    while (i < nsymbols && symbols[i] == ZERO_SYMBOL)
        i++;
    return i;
}

/* A token, and the plain bits behind its word. */
struct token {
    unsigned number;
    uint32_t bits;
    int nbits;
};

static inline struct token
token_of(uint64_t run, unsigned symbol)
{
    unsigned run_class = terp_class_of((unsigned)run, TERP_RUN_SINGLES_LOG2);
    struct token token = {
        .nbits = terp_class_nbits(run_class, TERP_RUN_SINGLES_LOG2)};

    token.bits = (uint32_t)run & ((1u << token.nbits) - 1);
    token.number = run_class * TERP_NCODE_CLASSES;
    if (symbol == TERP_ESCAPE) {
        token.number += TERP_CODE_CLASS_ESCAPE;
        return token;
    }
    unsigned is_negative = symbol < ZERO_SYMBOL;
    unsigned above =
        (is_negative ? ZERO_SYMBOL - symbol : symbol - ZERO_SYMBOL) - 1;
    unsigned code_class = terp_class_of(above, TERP_CODE_SINGLES_LOG2);
    int nbits = terp_class_nbits(code_class, TERP_CODE_SINGLES_LOG2);
    token.number += code_class;
    token.bits = (token.bits << 1 | is_negative) << nbits |
                 (above & ((1u << nbits) - 1));
    token.nbits += 1 + nbits;
    return token;
}

void
cpu_tokens_count(const uint16_t *symbols, uint64_t nsymbols,
                 uint32_t counts_ret[TERP_NSYMBOLS])
{
    uint64_t begin = 0, at;

    memset(counts_ret, 0, TERP_NSYMBOLS * sizeof counts_ret[0]);
    while ((at = pass_zeros(symbols, begin, nsymbols)) < nsymbols) {
        counts_ret[token_of(at - begin, symbols[at]).number]++;
        begin = at + 1;
    }
}

/* Bits on their way to bytes: the low `npending` of `pending`, fewer than
 * 32. */
struct bit_writer {
    uint8_t *at;
    uint64_t pending;
    int npending;
};

static inline void
put_bits(struct bit_writer *writer, uint32_t bits, int nbits)
{
    writer->pending = writer->pending << nbits | bits;
    writer->npending += nbits;
    if (writer->npending < 32)
        return;
    writer->npending -= 32;
    uint32_t full =
        __builtin_bswap32((uint32_t)(writer->pending >> writer->npending));
    memcpy(writer->at, &full, sizeof full);
    writer->at += sizeof full;
}

uint64_t
cpu_tokens_encode(const struct cpu_encode_book *book, const uint16_t *symbols,
                  uint64_t nsymbols, uint8_t *dst)
{
    struct bit_writer writer = {.at = dst};
    uint64_t begin = 0, at;

    while ((at = pass_zeros(symbols, begin, nsymbols)) < nsymbols) {
        struct token token = token_of(at - begin, symbols[at]);
        uint32_t word = book->word[token.number];
        put_bits(&writer, word >> 4, (int)(word & 15));
        put_bits(&writer, token.bits, token.nbits);
        begin = at + 1;
    }
    /* Ones, of which fewer than eight are no word: a book of so many tokens
     * has a longer word, and the last of these is all ones. */
    int nones = -writer.npending & 7;
    put_bits(&writer, (1u << nones) - 1, nones);
    for (; writer.npending > 0; writer.npending -= 8)
        *writer.at++ = (uint8_t)(writer.pending >> (writer.npending - 8));
    return (uint64_t)(writer.at - dst);
}
_Static_assert(TERP_NTOKENS > 1 << 8, "the longest word has nine bits or more");

void
cpu_tokens_make(struct cpu_tokens *tokens_ret)
{
    struct cpu_token *token = tokens_ret->token;

    for (unsigned run = 0; run < TERP_NRUN_CLASSES; run++) {
        for (unsigned code = 0; code < TERP_NCODE_CLASSES; code++, token++) {
            *token = (struct cpu_token){
                .run_first =
                    (uint16_t)terp_class_first(run, TERP_RUN_SINGLES_LOG2),
                .run_nbits =
                    (uint8_t)terp_class_nbits(run, TERP_RUN_SINGLES_LOG2),
                .is_escape = code == TERP_CODE_CLASS_ESCAPE};
            if (token->is_escape)
                continue;
            token->code_first =
                (uint16_t)(1 + terp_class_first(code, TERP_CODE_SINGLES_LOG2));
            token->code_nbits =
                (uint8_t)terp_class_nbits(code, TERP_CODE_SINGLES_LOG2);
        }
    }
}

/* The first bits of `*next`, which moves behind them. */
static inline unsigned
take_bits(uint64_t *next, int nbits)
{
    unsigned bits = (unsigned)(*next >> 1 >> (63 - nbits));
    *next <<= nbits;
    return bits;
}

bool
cpu_tokens_decode(const struct cpu_tokens *tokens,
                  const struct cpu_decode_book *book, const uint8_t *src,
                  uint64_t nbytes, uint16_t *symbols_ret, uint64_t nsymbols)
{
    uint64_t at = 0, nbits = 8 * nbytes, i = 0;

    for (uint64_t zero = 0; zero < nsymbols; zero++)
        symbols_ret[zero] = ZERO_SYMBOL;
    for (;; i++) {
        uint64_t next = load_be64(src + at / 8) << (at % 8);
        if (nbits - at < 8 && ~next >> 1 >> (63 - (nbits - at)) == 0)
            return true;
        unsigned found = cpu_find_word(book, next);
        if (found == 0 || found >> 4 >= TERP_NTOKENS)
            return false;
        const struct cpu_token *token = &tokens->token[found >> 4];
        next <<= found & 15;
        i += token->run_first + take_bits(&next, token->run_nbits);
        at += (found & 15) + token->run_nbits;
        if (i >= nsymbols)
            return false;
        if (token->is_escape) {
            symbols_ret[i] = TERP_ESCAPE;
        } else {
            bool is_negative = take_bits(&next, 1) != 0;
            int code =
                (int)(token->code_first + take_bits(&next, token->code_nbits));
            at += 1u + token->code_nbits;
            if (code > TERP_MAX_CODE)
                return false;
            symbols_ret[i] =
                (uint16_t)(ZERO_SYMBOL + (is_negative ? -code : code));
        }
        if (at > nbits)
            return false;
    }
}
