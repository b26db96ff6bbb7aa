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

/* The run's part of a token's number. Most runs are empty. */
static inline unsigned
run_class_of(uint64_t run)
{
    return run == 0 ? 0
                    : terp_class_of((unsigned)run, TERP_RUN_SINGLES_LOG2) *
                          TERP_NCODE_CLASSES;
}

void
cpu_tokens_count(const struct cpu_tokens *tokens, const uint16_t *symbols,
                 uint64_t nsymbols, uint32_t counts_ret[TERP_NSYMBOLS])
{
    uint64_t begin = 0, at;

    memset(counts_ret, 0, TERP_NSYMBOLS * sizeof counts_ret[0]);
    while ((at = pass_zeros(symbols, begin, nsymbols)) < nsymbols) {
        counts_ret[run_class_of(at - begin) + tokens->code[symbols[at]].cls]++;
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
cpu_tokens_encode(const struct cpu_tokens *tokens,
                  const struct cpu_encode_book *book, const uint16_t *symbols,
                  uint64_t nsymbols, uint8_t *dst)
{
    struct bit_writer writer = {.at = dst};
    uint64_t begin = 0, at;

    while ((at = pass_zeros(symbols, begin, nsymbols)) < nsymbols) {
        struct cpu_token_code code = tokens->code[symbols[at]];
        unsigned run = run_class_of(at - begin), number = run + code.cls;
        uint32_t word = book->word[number];
        put_bits(&writer, word >> 4, (int)(word & 15));
        if (run > 0) {
            int nbits = tokens->token[number].run_nbits;
            put_bits(&writer, (uint32_t)(at - begin) & ((1u << nbits) - 1),
                     nbits);
        }
        put_bits(&writer, code.bits, code.nbits);
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

static struct cpu_token_code
code_of(unsigned symbol)
{
    unsigned is_negative = symbol < ZERO_SYMBOL;
    struct cpu_token_code code = {.cls = TERP_CODE_CLASS_ESCAPE};

    if (symbol == TERP_ESCAPE || symbol == ZERO_SYMBOL)
        return code;
    unsigned above =
        (is_negative ? ZERO_SYMBOL - symbol : symbol - ZERO_SYMBOL) - 1;
    code.cls = (uint8_t)terp_class_of(above, TERP_CODE_SINGLES_LOG2);
    int nbits = terp_class_nbits(code.cls, TERP_CODE_SINGLES_LOG2);
    code.nbits = (uint8_t)(1 + nbits);
    code.bits =
        (uint16_t)(is_negative << nbits | (above & ((1u << nbits) - 1)));
    return code;
}

void
cpu_tokens_make(struct cpu_tokens *tokens_ret)
{
    struct cpu_token *token = tokens_ret->token;

    for (unsigned symbol = 0; symbol < TERP_NSYMBOLS; symbol++)
        tokens_ret->code[symbol] = code_of(symbol);
    for (unsigned run = 0; run < TERP_NRUN_CLASSES; run++) {
        for (unsigned code = 0; code < TERP_NCODE_CLASSES; code++, token++) {
            *token = (struct cpu_token){.run_first = (uint16_t)terp_class_first(
                                            run, TERP_RUN_SINGLES_LOG2),
                                        .run_nbits = (uint8_t)terp_class_nbits(
                                            run, TERP_RUN_SINGLES_LOG2)};
            token->nbits = token->run_nbits;
            if (code == TERP_CODE_CLASS_ESCAPE)
                continue;
            token->code_first =
                (uint16_t)(1 + terp_class_first(code, TERP_CODE_SINGLES_LOG2));
            token->code_nbits =
                (uint8_t)terp_class_nbits(code, TERP_CODE_SINGLES_LOG2);
            token->nbits = (uint8_t)(token->nbits + 1 + token->code_nbits);
        }
    }
}

/* The token that `next` begins with. */
static bool
find_token(const struct cpu_tokens *tokens, const struct cpu_decode_book *book,
           uint64_t next, struct cpu_token *token_ret)
{
    unsigned found = cpu_find_word(book, next), nbits = found & 15;

    if (found == 0 || found >> 4 >= TERP_NTOKENS)
        return false;
    *token_ret = tokens->token[found >> 4];
    token_ret->word_nbits = (uint8_t)nbits;
    token_ret->nbits = (uint8_t)(token_ret->nbits + nbits);
    return true;
}

bool
cpu_token_book_make(const struct cpu_tokens *tokens,
                    const uint8_t nbits[TERP_NSYMBOLS],
                    struct cpu_decode_book *book)
{
    if (!cpu_decode_book_make(nbits, book))
        return false;
    for (uint64_t bits = 0; bits < 1 << CPU_BURST_NBITS; bits++) {
        struct cpu_token token = {0};
        if (!find_token(tokens, book, bits << (64 - CPU_BURST_NBITS), &token) ||
            token.word_nbits > CPU_BURST_NBITS)
            token.word_nbits = 0;
        book->token[bits] = token;
    }
    return true;
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
        struct cpu_token token = book->token[next >> (64 - CPU_BURST_NBITS)];
        if (token.word_nbits == 0 && !find_token(tokens, book, next, &token))
            return false;
        next <<= token.word_nbits;
        at += token.nbits;
        i += token.run_first + take_bits(&next, token.run_nbits);
        if (i >= nsymbols || at > nbits)
            return false;
        unsigned negative = 0 - take_bits(&next, token.code_first != 0);
        unsigned magnitude =
            token.code_first + take_bits(&next, token.code_nbits);
        if (magnitude > TERP_MAX_CODE)
            return false;
        symbols_ret[i] =
            (uint16_t)(magnitude == 0
                           ? TERP_ESCAPE
                           : ZERO_SYMBOL + ((magnitude ^ negative) - negative));
    }
}
