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

/* What a run adds to the item of a token. It is found from the token of the run
 * and an escape, less the number of the escape. */
static uint32_t
item_of_run(unsigned run)
{
    const struct terp_token token = terp_token_of(run, TERP_ESCAPE);

    return make_item(token.number - TERP_CODE_CLASS_ESCAPE, (int)token.nbits,
                     token.bits);
}

/* What a code adds to the item of a token: the item of the code after an empty
 * run. Nothing looks up code 0, because zeros are in runs. */
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
    /* Fills up the last byte with ones. A decoder cannot read them as a token:
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

/* The fields of a look-up item; bits 0-5 are the length, which a shift takes
 * without an instruction more. */
enum {
    LENGTH_NBITS = 6,
    DISTANCE_NBITS = 10,
    FIRST_SHIFT = LENGTH_NBITS + DISTANCE_NBITS,
    SECOND_SHIFT = FIRST_SHIFT + 16,
    RUN_SHIFT = SECOND_SHIFT + 16
};
_Static_assert(RUN_SHIFT + 16 == 64 && TERP_TILE_NSYMBOLS < CPU_TOKEN_LONGER,
               "Fields fill an item, and no run is CPU_TOKEN_LONGER.");

static inline unsigned
length_of(uint64_t found)
{
    return found & ((1u << LENGTH_NBITS) - 1);
}

/* The item of a longer token, whose codeword has more bits than `length`. */
static inline uint64_t
make_longer(int length)
{
    return (uint64_t)CPU_TOKEN_LONGER << RUN_SHIFT | (unsigned)length;
}

static inline bool
is_longer_token(uint64_t found)
{
    return found >> RUN_SHIFT == CPU_TOKEN_LONGER;
}

/* Fills the look-up items of all bits that begin with this codeword by single
 * tokens, and lists the lengths of the tokens; 0: the token is longer. */
static void
fill_lookup(uint64_t *lookup, uint8_t *lengths, unsigned number, int length,
            unsigned codeword)
{
    const struct token token = token_of(number);
    int spare = CPU_TOKEN_LOOKUP_NBITS - length;

    if (spare < 0)
        return;
    uint64_t at = (uint64_t)codeword << spare;
    const bool is_longer = token.nbits > spare;
    const int nplain = is_longer ? 0 : token.nbits;
    spare -= nplain;
    for (unsigned bits = 0; bits < 1u << nplain; bits++) {
        uint64_t found = make_longer(length - 1);
        unsigned run, symbol, all = 0;
        if (!is_longer && read_token(&token, bits, &run, &symbol)) {
            found = (uint64_t)run << RUN_SHIFT |
                    (uint64_t)symbol << SECOND_SHIFT |
                    (uint64_t)symbol << FIRST_SHIFT;
            all = (unsigned)(length + token.nbits);
        }
        for (unsigned i = 0; i < 1u << spare; i++, at++) {
            lookup[at] = found | all;
            lengths[at] = (uint8_t)all;
        }
    }
}

/* Joins each single token with the one after it where both fit. What is taken
 * of the second item does not change when that is joined. */
static void
join_tokens(uint64_t *lookup, const uint8_t *lengths)
{
    const unsigned all = (1u << CPU_TOKEN_LOOKUP_NBITS) - 1;

    for (unsigned bits = 0; bits <= all; bits++) {
        const unsigned length = lengths[bits];
        const unsigned after = bits << length & all;
        const uint64_t second = lookup[after];
        const uint64_t distance = (second >> RUN_SHIFT) + 1;
        if (length == 0 || lengths[after] == 0 ||
            length + lengths[after] > CPU_TOKEN_LOOKUP_NBITS ||
            distance >= 1u << DISTANCE_NBITS)
            continue;
        const uint64_t symbol = (uint16_t)(second >> FIRST_SHIFT);
        lookup[bits] =
            lookup[bits] >> RUN_SHIFT << RUN_SHIFT | symbol << SECOND_SHIFT |
            (uint64_t)(uint16_t)(lookup[bits] >> FIRST_SHIFT) << FIRST_SHIFT |
            distance << LENGTH_NBITS | (length + lengths[after]);
    }
}

bool
terp_cpu_token_decode_table_make(const uint8_t nbits[TERP_NSYMBOLS],
                                 struct cpu_token_decode_table *table)
{
    uint8_t lengths[1 << CPU_TOKEN_LOOKUP_NBITS];
    uint16_t codewords[TERP_NSYMBOLS];

    if (!terp_cpu_sorted_codewords_make(nbits, codewords, &table->codewords))
        return false;
    memset(lengths, 0, sizeof lengths);
    for (unsigned i = 0; i < 1u << CPU_TOKEN_LOOKUP_NBITS; i++)
        table->lookup[i] = make_longer(CPU_TOKEN_LOOKUP_NBITS);
    for (unsigned number = 0; number < TERP_NTOKENS; number++)
        if (nbits[number] > 0)
            fill_lookup(table->lookup, lengths, number, nbits[number],
                        codewords[number]);
    join_tokens(table->lookup, lengths);
    return true;
}

static inline uint64_t
look_up(const struct cpu_tile_reader *reader, uint64_t next)
{
    const struct cpu_token_decode_table *table = reader->tile.table;

    return table->lookup[next >> (64 - CPU_TOKEN_LOOKUP_NBITS)];
}

/* Decodes a token of any length. False if none is left or none matches;
 * *good_ret then tells whether the tile ends here. */
static bool
decode_token(struct cpu_tile_reader *reader, bool *good_ret)
{
    const struct cpu_coded_tile *tile = &reader->tile;
    const struct cpu_token_decode_table *table = tile->table;
    const uint64_t next = cpu_next_bits(reader);
    const uint64_t nleft = reader->nbits - reader->at;
    const uint64_t found = look_up(reader, next);
    unsigned run, symbol;

    *good_ret = nleft < 8 && ~next >> 1 >> (63 - nleft) == 0;
    if (*good_ret)
        return false;
    const unsigned codeword = cpu_find_longer_codeword(
        &table->codewords, next,
        is_longer_token(found) ? (int)length_of(found) : 0);
    const unsigned number = codeword >> 4, length = codeword & 15;
    if (length == 0 || number >= TERP_NTOKENS)
        return false;
    const struct token token = token_of(number);
    const unsigned bits = (unsigned)(next << length >> 1 >> (63 - token.nbits));
    if (!read_token(&token, bits, &run, &symbol))
        return false;
    reader->at += length + (unsigned)token.nbits;
    reader->i += run;
    if (reader->i >= tile->nsymbols || reader->at > reader->nbits)
        return false;
    tile->symbols[reader->i++] = (uint16_t)symbol;
    return true;
}

/* The look-ups for which a 64-bit load has bits after up to seven of them are
 * shifted out. */
enum {
    LOOKUPS_PER_LOAD = (64 - 7) / CPU_TOKEN_LOOKUP_NBITS
};

/* Decodes the next one or two short tokens, from `next`. False if the first is
 * longer, or a run is too long; nothing is changed then. */
static inline bool
decode_short_tokens(struct cpu_tile_reader *reader, uint64_t *next)
{
    const uint64_t found = look_up(reader, *next);
    const uint64_t first = reader->i + (found >> RUN_SHIFT);
    const uint64_t second =
        first + (found >> LENGTH_NBITS & ((1u << DISTANCE_NBITS) - 1));

    if (second >= reader->tile.nsymbols)
        return false;
    reader->tile.symbols[first] = (uint16_t)(found >> FIRST_SHIFT);
    reader->tile.symbols[second] = (uint16_t)(found >> SECOND_SHIFT);
    reader->i = second + 1;
    *next <<= length_of(found);
    return true;
}

/* Whether the tile has all bits that the look-ups of a load may take. */
static inline bool
has_bits(const struct cpu_tile_reader *reader)
{
    return reader->at + LOOKUPS_PER_LOAD * CPU_TOKEN_LOOKUP_NBITS <=
           reader->nbits;
}

/* The next bits. The last one, which no token of a load reaches, becomes a mark
 * that moves up with them: pass_bits() finds by it how many bits were taken. */
static inline uint64_t
mark_bits(const struct cpu_tile_reader *reader)
{
    return cpu_next_bits(reader) | 1;
}
_Static_assert(LOOKUPS_PER_LOAD *CPU_TOKEN_LOOKUP_NBITS < 64 - 7,
               "No token reaches the mark.");

static inline void
pass_bits(struct cpu_tile_reader *reader, uint64_t next)
{
    reader->at += (unsigned)__builtin_ctzll(next);
}

/* Decodes short tokens until the end is near. False if a longer one comes
 * first. */
static bool
decode_one(struct cpu_tile_reader *reader)
{
    struct cpu_tile_reader own = *reader; /* in registers */
    bool goes_on = true;

    while (goes_on && has_bits(&own)) {
        uint64_t next = mark_bits(&own);
        for (int k = 0; goes_on && k < LOOKUPS_PER_LOAD; k++)
            goes_on = decode_short_tokens(&own, &next);
        pass_bits(&own, next);
    }
    *reader = own;
    return goes_on;
}

/* Decodes short tokens near the end, until a longer one or the end. */
static void
decode_last(struct cpu_tile_reader *reader)
{
    struct cpu_tile_reader own = *reader;
    bool goes_on = true;

    while (goes_on) {
        uint64_t next = mark_bits(&own);
        const uint64_t found = look_up(&own, next);
        goes_on = own.at + length_of(found) <= own.nbits &&
                  decode_short_tokens(&own, &next);
        pass_bits(&own, next);
    }
    *reader = own;
}

/* Decodes short tokens of two tiles in turn, until one stops. A token's place
 * depends on the token before it in the same tile, but not on the other tile's:
 * the processor overlaps both. */
static void
decode_two(struct cpu_tile_reader *one, struct cpu_tile_reader *other)
{
    struct cpu_tile_reader a = *one, b = *other;
    bool goes_on = true;

    while (goes_on && has_bits(&a) && has_bits(&b)) {
        uint64_t next_a = mark_bits(&a), next_b = mark_bits(&b);
        for (int k = 0; goes_on && k < LOOKUPS_PER_LOAD; k++) {
            goes_on = decode_short_tokens(&a, &next_a);
            goes_on = decode_short_tokens(&b, &next_b) && goes_on;
        }
        pass_bits(&a, next_a);
        pass_bits(&b, next_b);
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

    do {
        if (decode_one(reader))
            decode_last(reader);
    } while (decode_token(reader, &good));
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
        decode_two(&one, &other);
        if (!decode_token(&one, &good))
            return good && finish_tile(&other);
        if (!decode_token(&other, &other_good))
            return other_good && finish_tile(&one);
    }
}
