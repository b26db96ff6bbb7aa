/* Cuts a tile's symbols into tokens, encodes these by a codebook, and decodes
 * them by table look-ups of several bits at a time. */
#include "cpu/entropy/tokens.h"

#include "codec/format/base.h"
#include "cpu/entropy/histogram.h"

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

/* The share of a run in a token: the item of a run with an escape, less that of
 * the escape. */
static uint32_t
item_of_run(unsigned run)
{
    const struct terp_token token = terp_token_of(run, TERP_ESCAPE);

    return make_item(token.number - TERP_CODE_CLASS_ESCAPE, (int)token.nbits,
                     token.bits);
}

/* The share of a code in a token: the item of a run of no zeros. Code 0 is
 * never looked up. */
static uint32_t
item_of_code(unsigned symbol)
{
    const struct terp_token token =
        terp_token_of(0, symbol == TERP_ZERO_SYMBOL ? TERP_ESCAPE : symbol);

    return make_item(token.number, (int)token.nbits, token.bits);
}

/* A token by its number: the classes of its run and of its code. */
struct token {
    unsigned run_first, code_first; /* code_first is 0 for escapes */
    int run_nbits, code_nbits;      /* of the code, without its sign */
    int nbits;                      /* of run and code, with the sign */
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

void
terp_cpu_tokens_make(struct cpu_tokens *tokens_ret)
{
    for (unsigned symbol = 0; symbol < TERP_NSYMBOLS; symbol++)
        tokens_ret->code[symbol] = item_of_code(symbol);
    for (unsigned run = 0; run < CPU_TOKENS_NRUNS; run++)
        tokens_ret->run[run] = item_of_run(run);
    for (unsigned number = 0; number < TERP_NTOKENS; number++)
        tokens_ret->nbits[number] = (uint8_t)token_of(number).nbits;
}

static inline uint32_t
find_run(const struct cpu_tokens *tokens, uint64_t run)
{
    return run < CPU_TOKENS_NRUNS ? tokens->run[run]
                                  : item_of_run((unsigned)run);
}

/* The item of a token: a run's item joined with that of the code after the
 * run. */
static inline uint32_t
join_items(uint32_t run, uint32_t code)
{
    const uint32_t fields = (1u << BITS_SHIFT) - 1;
    uint32_t bits = run >> BITS_SHIFT << nbits_of(code) | code >> BITS_SHIFT;

    return ((run + code) & fields) | bits << BITS_SHIFT;
}

/* Visits a token: a run of zeros and the symbol after it. */
typedef void
visit_token(void *arg, uint64_t run, unsigned symbol);

/* Visits a tile's tokens. Inlined together with the visitor. */
static inline void
cut_tile(const uint16_t *symbols, uint64_t nsymbols, visit_token *visit,
         void *arg)
{
    uint64_t begin = 0; /* of the run */

    for (uint64_t i = 0; i < nsymbols; i += 64) {
        uint64_t codes = 0;
        if (i + 64 <= nsymbols)
            codes = cpu_find_others(symbols + i, TERP_ZERO_SYMBOL);
        else
            for (uint64_t k = 0; i + k < nsymbols; k++)
                codes |= (uint64_t)(symbols[i + k] != TERP_ZERO_SYMBOL) << k;
        for (; codes != 0; codes &= codes - 1) {
            uint64_t at = i + (uint64_t)__builtin_ctzll(codes);
            visit(arg, at - begin, symbols[at]);
            begin = at + 1;
        }
    }
}

/* Consecutive tokens go to different lanes of counters, so that the processor
 * need not wait for the same counter twice. */
enum {
    LANE_NCOUNTERS = 1 << NUMBER_NBITS,
    NLANES = 4
};
struct count {
    const struct cpu_tokens *tokens;
    uint16_t lanes[NLANES * LANE_NCOUNTERS];
    unsigned lane; /* offset of the next token's lane */
};

static inline void
count_token(void *arg, uint64_t run, unsigned symbol)
{
    struct count *count = arg;
    const uint32_t number =
        number_of(find_run(count->tokens, run) + count->tokens->code[symbol]);

    count->lanes[number | count->lane]++;
    count->lane = (count->lane + LANE_NCOUNTERS) % (NLANES * LANE_NCOUNTERS);
}

bool
terp_cpu_tokens_count(const struct cpu_tokens *tokens, const uint16_t *symbols,
                      uint64_t nsymbols, uint32_t counts_ret[TERP_NSYMBOLS],
                      uint32_t *nbits_ret)
{
    struct count count = {.tokens = tokens};
    uint32_t ntokens = 0, nbits = 0;

    cut_tile(symbols, nsymbols, count_token, &count);
    for (int n = 0; n < TERP_NTOKENS; n++) {
        counts_ret[n] = 0;
        for (int lane = 0; lane < NLANES; lane++)
            counts_ret[n] += count.lanes[lane * LANE_NCOUNTERS + n];
        ntokens += counts_ret[n];
        nbits += counts_ret[n] * tokens->nbits[n];
    }
    memset(counts_ret + TERP_NTOKENS, 0,
           (TERP_NSYMBOLS - TERP_NTOKENS) * sizeof *counts_ret);
    *nbits_ret = nbits;
    return ntokens > 0;
}

/* A token's codeword, and the plain bits after it. */
static inline uint64_t
bits_of_item(const struct cpu_codebook *codebook, uint32_t item, int *nbits_ret)
{
    const uint32_t packed = codebook->codeword[number_of(item)];
    const uint64_t codeword = terp_codeword_bits(packed);

    *nbits_ret = (int)terp_codeword_nbits(packed) + nbits_of(item);
    return codeword << nbits_of(item) | item >> BITS_SHIFT;
}

void
terp_cpu_token_encode_table_make(const uint8_t nbits[TERP_NSYMBOLS],
                                 struct cpu_token_codebook *codebook)
{
    int n;

    terp_cpu_encode_table_make(nbits, &codebook->all);
    for (unsigned run = 0; run < CPU_SHORT_NRUNS; run++)
        for (unsigned code = 0; code < CPU_SHORT_NCODES; code++) {
            const uint32_t item = join_items(
                item_of_run(run), item_of_code(CPU_SHORT_FIRST + code));
            const uint64_t bits = bits_of_item(&codebook->all, item, &n);
            codebook->token[run][code] =
                (uint32_t)(bits << COUNT_NBITS) | (uint32_t)n;
        }
}

struct encoding {
    const struct cpu_tokens *tokens;
    const struct cpu_token_codebook *codebook;
    struct cpu_output output;
};

static inline void
put_token(void *arg, uint64_t run, unsigned symbol)
{
    struct encoding *e = arg;
    const unsigned code = symbol - CPU_SHORT_FIRST;
    uint64_t bits;
    int nbits;

    if (run < CPU_SHORT_NRUNS && code < CPU_SHORT_NCODES) {
        const uint32_t token = e->codebook->token[run][code];
        bits = token >> COUNT_NBITS;
        nbits = (int)(token & ((1u << COUNT_NBITS) - 1));
    } else {
        bits = bits_of_item(
            &e->codebook->all,
            join_items(find_run(e->tokens, run), e->tokens->code[symbol]),
            &nbits);
    }
    cpu_put_bits(&e->output, bits, (unsigned)nbits);
}

uint64_t
terp_cpu_tokens_encode(const struct cpu_tokens *tokens,
                       const struct cpu_token_codebook *codebook,
                       const uint16_t *symbols, uint64_t nsymbols, uint8_t *dst)
{
    struct encoding e = {
        .tokens = tokens, .codebook = codebook, .output.at = dst};
    struct cpu_output *output = &e.output;

    cut_tile(symbols, nsymbols, put_token, &e);
    /* Fills up the last byte with ones. A decoder cannot take them for a token:
     * there are at most seven, and the only codeword of ones alone is the last
     * of the longest ones, which have at least nine bits. */
    if (output->npending > 0)
        *output->at++ =
            (uint8_t)(output->pending >> 56 | 0xFFu >> output->npending);
    return (uint64_t)(output->at - dst);
}
_Static_assert(TERP_NTOKENS > 1 << 8,
               "Not all codewords have eight bits or fewer.");
_Static_assert(TERP_MAX_CODE_NBITS + (1 << COUNT_NBITS) <= 56,
               "A token's bits are put at once.");

/* ---- decoding ---- */

/* Reads a token's run and symbol from its plain bits. False if no code has a
 * magnitude this large. */
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

/* Fills the look-up items of all bits that begin with this codeword. */
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

/* Decodes a token of any length. False if none is left or none matches;
 * *good_ret then tells whether the tile ends here. */
static bool
decode_token(struct cpu_tile_reader *reader, bool *good_ret)
{
    const struct cpu_coded_tile *tile = &reader->tile;
    const struct cpu_token_decode_table *table = tile->table;
    uint64_t next = cpu_next_bits(reader), nleft = reader->nbits - reader->at;
    uint32_t found = table->lookup[next >> (64 - CPU_TOKEN_LOOKUP_NBITS)];
    unsigned number = found >> 16, length = found >> 4 & 15, run, symbol;

    *good_ret = nleft < 8 && ~next >> 1 >> (63 - nleft) == 0;
    if (*good_ret)
        return false;
    if ((found & 15) != 0) {
        reader->at += found & 15;
        run = found >> 4 & 0xFFF;
        symbol = found >> 16;
    } else {
        if (length == 0) {
            unsigned codeword = cpu_find_longer_codeword(
                &table->codewords, next, CPU_TOKEN_LOOKUP_NBITS);
            number = codeword >> 4;
            length = codeword & 15;
            if (length == 0 || number >= TERP_NTOKENS)
                return false;
        }
        struct token token = token_of(number);
        unsigned bits = (unsigned)(next << length >> 1 >> (63 - token.nbits));
        reader->at += length + (unsigned)token.nbits;
        if (!read_token(&token, bits, &run, &symbol))
            return false;
    }
    reader->i += run;
    if (reader->i >= tile->nsymbols || reader->at > reader->nbits)
        return false;
    tile->symbols[reader->i++] = (uint16_t)symbol;
    return true;
}

/* The short tokens that fit in a 64-bit load after up to seven bits of it are
 * shifted out. */
enum {
    TOKENS_PER_LOAD = (64 - 7) / CPU_TOKEN_LOOKUP_NBITS
};

/* Decodes the next short token, from `next`. False if the token is longer, or
 * its run is too long; nothing is changed then. */
static inline bool
decode_short_token(struct cpu_tile_reader *reader, uint64_t *next)
{
    const struct cpu_token_decode_table *table = reader->tile.table;
    uint32_t found = table->lookup[*next >> (64 - CPU_TOKEN_LOOKUP_NBITS)];
    uint64_t place = reader->i + (found >> 4 & 0xFFF);

    if ((found & 15) == 0 || place >= reader->tile.nsymbols)
        return false;
    reader->tile.symbols[place] = (uint16_t)(found >> 16);
    reader->i = place + 1;
    *next <<= found & 15;
    reader->at += found & 15;
    return true;
}

static inline bool
has_load(const struct cpu_tile_reader *reader)
{
    return reader->at + 64 <= reader->nbits;
}

/* Decodes short tokens until a longer one, or until the end is near. */
static void
decode_short_tokens(struct cpu_tile_reader *reader)
{
    struct cpu_tile_reader own = *reader; /* in registers */
    bool goes_on = true;

    while (goes_on && has_load(&own)) {
        uint64_t next = cpu_next_bits(&own);
        for (int k = 0; goes_on && k < TOKENS_PER_LOAD; k++)
            goes_on = decode_short_token(&own, &next);
    }
    *reader = own;
}

/* Decodes short tokens of two tiles in turn, until one stops. A token's place
 * depends on the token before it in the same tile, but not on the other tile's:
 * the processor overlaps both. */
static void
decode_short_tokens_of_two(struct cpu_tile_reader *one,
                           struct cpu_tile_reader *other)
{
    struct cpu_tile_reader a = *one, b = *other;
    bool goes_on = true;

    while (goes_on && has_load(&a) && has_load(&b)) {
        uint64_t next_a = cpu_next_bits(&a), next_b = cpu_next_bits(&b);
        for (int k = 0; goes_on && k < TOKENS_PER_LOAD; k++) {
            goes_on = decode_short_token(&a, &next_a);
            goes_on = decode_short_token(&b, &next_b) && goes_on;
        }
    }
    *one = a;
    *other = b;
}

static struct cpu_tile_reader
start_tile(const struct cpu_coded_tile *tile)
{
    for (uint64_t i = 0; i < tile->nsymbols; i++)
        tile->symbols[i] = TERP_ZERO_SYMBOL;
    return (struct cpu_tile_reader){.tile = *tile, .nbits = 8 * tile->nbytes};
}

static bool
finish_tile(struct cpu_tile_reader *reader)
{
    bool good;

    do
        decode_short_tokens(reader);
    while (decode_token(reader, &good));
    return good;
}

bool
terp_cpu_tokens_decode(const struct cpu_coded_tile *tiles, int ntiles)
{
    struct cpu_tile_reader one = start_tile(&tiles[0]), other;
    bool good, other_good;

    if (ntiles == 1)
        return finish_tile(&one);
    other = start_tile(&tiles[1]);
    for (;;) {
        decode_short_tokens_of_two(&one, &other);
        if (!decode_token(&one, &good))
            return good && finish_tile(&other);
        if (!decode_token(&other, &other_good))
            return other_good && finish_tile(&one);
    }
}
