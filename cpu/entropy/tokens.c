/* Cuts a tile's symbols into tokens, encodes these by a codebook, and decodes
 * them by look-ups of several bits at a time. */
#include "cpu/entropy/tokens.h"

#include "codec/format/base.h"

/* ---- items ---- */

enum {
    NUMBER_NBITS = 9,
    COUNT_NBITS = 5,
    BITS_SHIFT = NUMBER_NBITS + COUNT_NBITS
};
_Static_assert(TERP_NTOKENS <= 1 << NUMBER_NBITS,
               "An item has room for a token's number.");

static inline unsigned
number_of(uint32_t item)
{
    return item & ((1u << NUMBER_NBITS) - 1);
}

static inline int
nbits_of(uint32_t item)
{
    return (int)(item >> NUMBER_NBITS & ((1u << COUNT_NBITS) - 1));
}

static inline uint32_t
make_item(unsigned number, int nbits, unsigned bits)
{
    return number | (uint32_t)nbits << NUMBER_NBITS | bits << BITS_SHIFT;
}

/* A run's part of a token: what one with an escape has, less the escape. */
static uint32_t
item_of_run(unsigned run)
{
    const struct terp_token token = terp_token_of(run, TERP_ESCAPE);

    return make_item(token.number - TERP_CODE_CLASS_ESCAPE, (int)token.nbits,
                     token.bits);
}

/* A code's part of a token: a run of no zeros adds nothing. The code 0 is
 * never looked up. */
static uint32_t
item_of_code(unsigned symbol)
{
    const struct terp_token token =
        terp_token_of(0, symbol == TERP_ZERO_SYMBOL ? TERP_ESCAPE : symbol);

    return make_item(token.number, (int)token.nbits, token.bits);
}

void
terp_cpu_tokens_make(struct cpu_tokens *tokens_ret)
{
    for (unsigned symbol = 0; symbol < TERP_NSYMBOLS; symbol++)
        tokens_ret->code[symbol] = item_of_code(symbol);
    for (unsigned run = 0; run < CPU_TOKENS_NRUNS; run++)
        tokens_ret->run[run] = item_of_run(run);
}

/* A run's item and that of the code behind it. */
static inline uint32_t
join_items(uint32_t run, uint32_t code)
{
    const uint32_t fields = (1u << BITS_SHIFT) - 1;
    uint32_t bits = run >> BITS_SHIFT << nbits_of(code) | code >> BITS_SHIFT;

    return ((run + code) & fields) | bits << BITS_SHIFT;
}

/* Bit i tells if symbol i of the next 64 is not zero. */
static inline uint64_t
find_codes(const uint16_t *symbols)
{
    uint8_t is_code[64];
    uint64_t codes = 0;

    for (int i = 0; i < 64; i++)
        is_code[i] = symbols[i] != TERP_ZERO_SYMBOL;
    for (int i = 0; i < 64; i += 8)
        codes |=
            load_le64(is_code + i) * UINT64_C(0x0102040810204080) >> 56 << i;
    return codes;
}

uint64_t
terp_cpu_tokens_cut(const struct cpu_tokens *tokens, const uint16_t *symbols,
                    uint64_t nsymbols, uint32_t items[TERP_TILE_NSYMBOLS])
{
    uint64_t nitems = 0, begin = 0; /* of the run */

    for (uint64_t i = 0; i < nsymbols; i += 64) {
        uint64_t codes = 0;
        if (i + 64 <= nsymbols)
            codes = find_codes(symbols + i);
        else
            for (uint64_t k = 0; i + k < nsymbols; k++)
                codes |= (uint64_t)(symbols[i + k] != TERP_ZERO_SYMBOL) << k;
        for (; codes != 0; codes &= codes - 1) {
            uint64_t at = i + (uint64_t)__builtin_ctzll(codes);
            uint64_t run = at - begin;
            items[nitems++] =
                join_items(run < CPU_TOKENS_NRUNS ? tokens->run[run]
                                                  : item_of_run((unsigned)run),
                           tokens->code[symbols[at]]);
            begin = at + 1;
        }
    }
    return nitems;
}

uint32_t
terp_cpu_tokens_count(const uint32_t *items, uint64_t nitems,
                      uint32_t counts_ret[TERP_NSYMBOLS])
{
    /* Equal neighbours go to different counters. */
    uint16_t lane[2][TERP_NTOKENS] = {{0}};
    uint32_t nbits = 0;
    uint64_t i = 0;

    for (; i + 2 <= nitems; i += 2) {
        for (uint64_t k = 0; k < 2; k++) {
            lane[k][number_of(items[i + k])]++;
            nbits += (uint32_t)nbits_of(items[i + k]);
        }
    }
    if (i < nitems) {
        lane[0][number_of(items[i])]++;
        nbits += (uint32_t)nbits_of(items[i]);
    }
    for (int n = 0; n < TERP_NTOKENS; n++)
        counts_ret[n] = (uint32_t)lane[0][n] + lane[1][n];
    memset(counts_ret + TERP_NTOKENS, 0,
           (TERP_NSYMBOLS - TERP_NTOKENS) * sizeof *counts_ret);
    return nbits;
}

uint64_t
terp_cpu_tokens_encode(const struct cpu_codebook *codebook,
                       const uint32_t *items, uint64_t nitems, uint8_t *dst)
{
    uint8_t *at = dst;
    uint64_t pending = 0; /* fewer than eight bits, the highest */
    int npending = 0;

    for (uint64_t i = 0; i < nitems; i++) {
        const uint32_t packed = codebook->codeword[number_of(items[i])];
        const uint64_t codeword = terp_codeword_bits(packed);
        uint64_t bits = codeword << nbits_of(items[i]) | items[i] >> BITS_SHIFT;
        npending += (int)terp_codeword_nbits(packed) + nbits_of(items[i]);
        pending |= bits << (64 - npending);
        uint64_t bytes =
            TERP_HOST_IS_BIG_ENDIAN ? pending : __builtin_bswap64(pending);
        memcpy(at, &bytes, sizeof bytes);
        at += npending / 8;
        pending <<= npending & ~7;
        npending &= 7;
    }
    /* Ones fill the last byte up. A decoder does not take them for a token:
     * they are fewer than eight, while the only codeword of ones alone is the
     * last of the longest ones, which have nine bits or more. */
    if (npending > 0)
        *at++ = (uint8_t)(pending >> 56 | 0xFFu >> npending);
    return (uint64_t)(at - dst);
}
_Static_assert(TERP_NTOKENS > 1 << 8,
               "Not all codewords have eight bits or fewer.");
_Static_assert(7 + TERP_MAX_CODE_NBITS + (1 << COUNT_NBITS) <= 64,
               "A token's bits fit behind those that are pending.");

/* ---- decoding ---- */

/* A token by its number: the classes of its run and its code. */
struct token {
    unsigned run_first, code_first; /* of escapes the latter is 0 */
    int run_nbits, code_nbits;      /* the code's without the sign */
    int nbits;                      /* with it, of both */
};

static inline struct token
token_of(unsigned number)
{
    unsigned run = number / TERP_NCODE_CLASSES;
    unsigned code = number % TERP_NCODE_CLASSES;
    struct token token = {
        .run_first = terp_class_first(run, TERP_RUN_SINGLES_LOG2),
        .run_nbits = terp_class_nbits(run, TERP_RUN_SINGLES_LOG2)};

    token.nbits = token.run_nbits;
    if (code == TERP_CODE_CLASS_ESCAPE)
        return token;
    token.code_first = 1 + terp_class_first(code, TERP_CODE_SINGLES_LOG2);
    token.code_nbits = terp_class_nbits(code, TERP_CODE_SINGLES_LOG2);
    token.nbits += 1 + token.code_nbits;
    return token;
}

/* Its run and its symbol, by its plain bits. False when no code has so large a
 * magnitude. */
static inline bool
read_token(const struct token *token, unsigned bits, unsigned *run_ret,
           unsigned *symbol_ret)
{
    int code_nbits = token->nbits - token->run_nbits;
    unsigned code = bits & ((1u << code_nbits) - 1);
    unsigned magnitude =
        token->code_first + (code & ((1u << token->code_nbits) - 1));
    bool is_negative = code >> token->code_nbits != 0;

    *run_ret = token->run_first + (bits >> code_nbits);
    *symbol_ret = magnitude == 0 ? TERP_ESCAPE
                  : is_negative  ? TERP_ZERO_SYMBOL - magnitude
                                 : TERP_ZERO_SYMBOL + magnitude;
    return magnitude <= TERP_MAX_CODE;
}

/* Fills what is looked up by codewords that begin like this one. */
static void
fill_lookup(struct cpu_token_decode_table *table, unsigned number, int length,
            unsigned codeword)
{
    struct token token = token_of(number);
    int spare = CPU_TOKEN_LOOKUP_NBITS - length;

    if (spare < 0)
        return;
    uint32_t *to = table->lookup + ((uint64_t)codeword << spare);
    uint32_t longer = number << 16 | (uint32_t)length << 4;
    if (token.nbits > spare) {
        for (unsigned i = 0; i < 1u << spare; i++)
            to[i] = longer;
        return;
    }
    spare -= token.nbits;
    for (unsigned bits = 0; bits < 1u << token.nbits; bits++) {
        unsigned run, symbol;
        uint32_t found = longer;
        if (read_token(&token, bits, &run, &symbol))
            found = symbol << 16 | run << 4 | (uint32_t)(length + token.nbits);
        for (unsigned i = 0; i < 1u << spare; i++)
            *to++ = found;
    }
}

bool
terp_cpu_token_decode_table_make(const uint8_t nbits[TERP_NSYMBOLS],
                                 struct cpu_token_decode_table *table)
{
    uint16_t codewords[TERP_NSYMBOLS];

    if (!terp_cpu_sorted_codewords_make(nbits, codewords, &table->codewords))
        return false;
    memset(table->lookup, 0, sizeof table->lookup);
    for (unsigned number = 0; number < TERP_NTOKENS; number++)
        if (nbits[number] > 0)
            fill_lookup(table, number, nbits[number], codewords[number]);
    return true;
}

/* A tile on its way. */
struct tile_reader {
    const struct cpu_token_decode_table *table;
    const uint8_t *src;
    uint64_t at, nbits; /* next bit, and all */
    uint16_t *symbols;
    uint64_t i, nsymbols; /* next symbol, and all */
};

static inline uint64_t
next_bits(const struct tile_reader *tile)
{
    return load_be64(tile->src + tile->at / 8) << (tile->at % 8);
}

/* One token of any length. False when there is none; then `*good_ret` tells if
 * that is the tile's end. */
static bool
decode_token(struct tile_reader *tile, bool *good_ret)
{
    uint64_t next = next_bits(tile), nleft = tile->nbits - tile->at;
    uint32_t found = tile->table->lookup[next >> (64 - CPU_TOKEN_LOOKUP_NBITS)];
    unsigned number = found >> 16, length = found >> 4 & 15, run, symbol;

    *good_ret = nleft < 8 && ~next >> 1 >> (63 - nleft) == 0;
    if (*good_ret)
        return false;
    if ((found & 15) != 0) {
        tile->at += found & 15;
        run = found >> 4 & 0xFFF;
        symbol = found >> 16;
    } else {
        if (length == 0) {
            unsigned codeword = cpu_find_longer_codeword(
                &tile->table->codewords, next, CPU_TOKEN_LOOKUP_NBITS);
            number = codeword >> 4;
            length = codeword & 15;
            if (length == 0 || number >= TERP_NTOKENS)
                return false;
        }
        struct token token = token_of(number);
        unsigned bits = (unsigned)(next << length >> 1 >> (63 - token.nbits));
        tile->at += length + (unsigned)token.nbits;
        if (!read_token(&token, bits, &run, &symbol))
            return false;
    }
    tile->i += run;
    if (tile->i >= tile->nsymbols || tile->at > tile->nbits)
        return false;
    tile->symbols[tile->i++] = (uint16_t)symbol;
    return true;
}

/* Short tokens that surely fit what is left of a load after shifting out up to
 * seven bits. */
enum {
    TOKENS_PER_LOAD = (64 - 7) / CPU_TOKEN_LOOKUP_NBITS
};

/* Short tokens, until one is not, or the end is near. */
static void
decode_short_tokens(struct tile_reader *tile)
{
    const uint32_t *lookup = tile->table->lookup;
    uint64_t at = tile->at, i = tile->i;

    while (at + 64 <= tile->nbits) {
        uint64_t next = load_be64(tile->src + at / 8) << (at % 8);
        for (int k = 0; k < TOKENS_PER_LOAD; k++) {
            uint32_t found = lookup[next >> (64 - CPU_TOKEN_LOOKUP_NBITS)];
            uint64_t place = i + (found >> 4 & 0xFFF);
            if ((found & 15) == 0 || place >= tile->nsymbols)
                goto out;
            tile->symbols[place] = (uint16_t)(found >> 16);
            i = place + 1;
            next <<= found & 15;
            at += found & 15;
        }
    }
out:
    tile->at = at;
    tile->i = i;
}

bool
terp_cpu_tokens_decode(const struct cpu_token_decode_table *table,
                       const uint8_t *src, uint64_t nbytes,
                       uint16_t *symbols_ret, uint64_t nsymbols)
{
    struct tile_reader tile = {.table = table,
                               .src = src,
                               .nbits = 8 * nbytes,
                               .symbols = symbols_ret,
                               .nsymbols = nsymbols};
    bool good;

    for (uint64_t i = 0; i < nsymbols; i++)
        symbols_ret[i] = TERP_ZERO_SYMBOL;
    do
        decode_short_tokens(&tile);
    while (decode_token(&tile, &good));
    return good;
}
