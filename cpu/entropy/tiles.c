#include "cpu/entropy/tiles.h"

#include <stdlib.h>

#include "codec/format/reduce.h"
#include "cpu/entropy/codebooks.h"
#include "cpu/entropy/codewords.h"
#include "cpu/entropy/histogram.h"
#include "cpu/entropy/tokens.h"
#include "cpu/pool/memory.h"

/* Longest coded tile: of symbols' words or planes, and whatever the coding. */
#define WORDS_MAX_NBYTES (TERP_TILE_NSYMBOLS * TERP_MAX_CODE_NBITS / 8)
#define TILE_MAX_NBYTES CPU_TOKENS_MAX_NBYTES
_Static_assert(TERP_PARTITION_NTILES % 8 == 0,
               "threads share no byte of the bit map of tiles");
_Static_assert(TERP_PLANES_MAX_NBYTES *TERP_TILE_NSYMBOLS /
                           TERP_PLANES_MAX_NCODES +
                       64 <=
                   WORDS_MAX_NBYTES,
               "planes fit where code words do");
_Static_assert(TERP_TILE_NSYMBOLS <= TERP_PLANES_MAX_NCODES,
               "planes take a tile");
#define PARTITION_MAX_NBYTES (TERP_PARTITION_NTILES * TILE_MAX_NBYTES)
_Static_assert(PARTITION_MAX_NBYTES <= TERP_REDUCE_MAX_NBYTES,
               "a partition can be reduced");
/* A few bytes can claim any number of zero tiles, and a stream that is only
 * inspected has no destination to measure them by: its tiles are counted where
 * there are at most so many, of which the index takes 4 MB, or as many as the
 * stream has bytes. */
#define INSPECT_MAX_NTILES ((uint64_t)1 << 20)

#define ZERO_SYMBOL TERP_RADIUS

static uint16_t
encode_planes(const uint16_t *symbols, uint64_t nsymbols, uint8_t *dst)
{
    int8_t codes[TERP_TILE_NSYMBOLS];
    struct writer writer = {dst, dst + WORDS_MAX_NBYTES, false};

    for (uint64_t i = 0; i < nsymbols; i++)
        codes[i] =
            (int8_t)(symbols[i] == TERP_ESCAPE ? TERP_SPEED_ESCAPE
                                               : symbols[i] - TERP_RADIUS);
    terp_planes_write(&writer, codes, nsymbols);
    return (uint16_t)(writer.at - dst);
}

/* Each tile's codebook is one of the dictionary. */
static bool
selects_entries(enum terp_coding coding)
{
    return coding == TERP_CODING_HUFFMAN || coding == TERP_CODING_RATIO;
}

/* Partitions of words are reduced where that pays. */
static bool
reduces(enum terp_coding coding)
{
    return coding == TERP_CODING_HUFFMAN || coding == TERP_CODING_CUSTOM;
}

static uint64_t
tile_max_nbytes(enum terp_coding coding)
{
    return coding == TERP_CODING_RATIO ? TILE_MAX_NBYTES : WORDS_MAX_NBYTES;
}

/* ---- encoding ---- */

struct encoder {
    enum terp_coding coding;
    const uint16_t *symbols;
    uint64_t nsymbols;
    struct cpu_tile_index index;
    /* Bits of a tile's words; of its tokens, plain bits included. */
    uint32_t (*cost)[TERP_NENTRIES];
    uint8_t *staging; /* but ratio: WORDS_MAX_NBYTES a tile */
    struct member_scratch {
        uint64_t frequency[TERP_NSYMBOLS]; /* custom: of non-zero tiles */
        uint8_t reduced[TERP_PARTITION_NTILES * WORDS_MAX_NBYTES];
        uint8_t reduce[];          /* terp_reduce_scratch_nbytes */
    } * *scratch;                  /* custom, huffman */
    struct cpu_encode_book *books; /* those in use */
    uint8_t book_of_entry[TERP_NENTRIES];
    struct cpu_tokens tokens; /* ratio */
    uint8_t *payload;
};

static uint8_t *
staged_partition(const struct encoder *encoder, uint64_t p)
{
    return encoder->staging + p * TERP_PARTITION_NTILES * WORDS_MAX_NBYTES;
}

static uint64_t
tile_nsymbols(uint64_t nsymbols, uint64_t tile)
{
    return min_u64(TERP_TILE_NSYMBOLS, nsymbols - tile * TERP_TILE_NSYMBOLS);
}

static bool
is_zero_tile(const uint16_t *symbols, uint64_t nsymbols)
{
    unsigned differs = 0;
    for (uint64_t i = 0; i < nsymbols; i++)
        differs |= symbols[i] ^ ZERO_SYMBOL;
    return differs == 0;
}

static uint64_t
cut_tile(const struct encoder *encoder, uint64_t tile,
         uint32_t items[TERP_TILE_NSYMBOLS])
{
    return terp_cpu_tokens_cut(&encoder->tokens,
                               encoder->symbols + tile * TERP_TILE_NSYMBOLS,
                               tile_nsymbols(encoder->nsymbols, tile), items);
}

/* A tile's tokens, of which there are none when it is zero. They are cut again
 * when they are written: that takes less time than memory for all of them. */
static void
survey_tokens(struct encoder *encoder, uint64_t tile)
{
    uint32_t items[TERP_TILE_NSYMBOLS], counts[TERP_NSYMBOLS];

    uint64_t nitems = cut_tile(encoder, tile, items);
    if (nitems == 0)
        return;
    encoder->index.nonzero[tile / 8] |= (uint8_t)(1u << (tile % 8));
    uint32_t nbits = terp_cpu_tokens_count(items, nitems, counts);
    encoder->index.entry[tile] =
        terp_cpu_entry_costs(TERP_CODING_RATIO, counts, encoder->cost[tile]);
    for (int e = 0; e < TERP_NENTRIES; e++)
        encoder->cost[tile][e] += nbits;
}

/* Marks non-zero tiles and counts their symbols. */
static void
survey_partitions(void *arg, int id, uint64_t first, uint64_t end)
{
    struct encoder *encoder = arg;
    struct cpu_tile_index *index = &encoder->index;
    uint64_t tile = first * TERP_PARTITION_NTILES;
    uint64_t tile_end = min_u64(end * TERP_PARTITION_NTILES, index->ntiles);
    uint32_t counts[TERP_NSYMBOLS];

    for (; tile < tile_end; tile++) {
        const uint16_t *symbols = encoder->symbols + tile * TERP_TILE_NSYMBOLS;
        uint64_t n = tile_nsymbols(encoder->nsymbols, tile);
        if (encoder->coding == TERP_CODING_RATIO) {
            survey_tokens(encoder, tile);
            continue;
        }
        if (is_zero_tile(symbols, n))
            continue;
        index->nonzero[tile / 8] |= (uint8_t)(1u << (tile % 8));
        if (encoder->coding == TERP_CODING_SPEED)
            continue;
        terp_cpu_histogram(symbols, n, counts);
        if (encoder->coding == TERP_CODING_HUFFMAN) {
            index->entry[tile] = terp_cpu_entry_costs(encoder->coding, counts,
                                                      encoder->cost[tile]);
            continue;
        }
        for (int s = 0; s < TERP_NSYMBOLS; s++)
            encoder->scratch[id]->frequency[s] += counts[s];
    }
}

static const struct cpu_encode_book *
book_of_tile(const struct encoder *encoder, uint64_t tile)
{
    return &encoder->books[encoder->book_of_entry[encoder->index.entry[tile]]];
}

static uint16_t
encode_tile(const struct encoder *encoder, uint64_t tile, uint8_t *dst)
{
    const uint16_t *symbols = encoder->symbols + tile * TERP_TILE_NSYMBOLS;
    uint64_t n = tile_nsymbols(encoder->nsymbols, tile);

    return encoder->coding == TERP_CODING_SPEED
               ? encode_planes(symbols, n, dst)
               : (uint16_t)terp_cpu_codewords_encode(
                     book_of_tile(encoder, tile), symbols, n, dst);
}

static void
encode_partitions(void *arg, int id, uint64_t first, uint64_t end)
{
    struct encoder *encoder = arg;
    struct cpu_tile_index *index = &encoder->index;

    for (uint64_t p = first; p < end; p++) {
        uint8_t *base = staged_partition(encoder, p);
        uint64_t nbytes = 0, tile = p * TERP_PARTITION_NTILES;
        uint64_t tile_end =
            min_u64(tile + TERP_PARTITION_NTILES, index->ntiles);
        for (; tile < tile_end; tile++) {
            if (!bit_at(index->nonzero, tile))
                continue;
            index->nbytes[tile] = encode_tile(encoder, tile, base + nbytes);
            nbytes += index->nbytes[tile];
        }
        if (reduces(encoder->coding) && nbytes > 0) {
            struct member_scratch *scratch = encoder->scratch[id];
            struct writer writer = {scratch->reduced,
                                    scratch->reduced + nbytes - 1, false};
            terp_reduce_write(&writer, base, nbytes, scratch->reduce);
            if (!writer.overflow) {
                nbytes = (uint64_t)(writer.at - scratch->reduced);
                memcpy(base, scratch->reduced, nbytes);
                index->reduced[p] = true;
            }
        }
        index->begin[p + 1] = nbytes; /* a length until all are known */
    }
}

/* The books of the entries in use. */
static bool
make_books(struct encoder *encoder)
{
    const struct cpu_tile_index *index = &encoder->index;
    bool used[TERP_NENTRIES] = {false};
    uint8_t nbits[TERP_NSYMBOLS];
    size_t nbooks = 0;

    for (uint64_t i = 0; i < index->ntiles; i++)
        if (bit_at(index->nonzero, i))
            used[index->entry[i]] = true;
    for (int e = 0; e < TERP_NENTRIES; e++)
        if (used[e])
            encoder->book_of_entry[e] = (uint8_t)nbooks++;
    encoder->books = malloc((nbooks + 1) * sizeof *encoder->books);
    if (encoder->books == NULL)
        return false;
    for (int e = 0; e < TERP_NENTRIES; e++) {
        if (!used[e])
            continue;
        terp_cpu_entry_lengths(encoder->coding, e, nbits);
        terp_cpu_encode_table_make(nbits,
                                   &encoder->books[encoder->book_of_entry[e]]);
    }
    return true;
}

/* All tiles use book 0, as entry 0. */
static bool
make_custom_book(struct encoder *encoder, int nmembers, struct writer *writer)
{
    uint64_t *frequency = encoder->scratch[0]->frequency;
    uint8_t nbits[TERP_NSYMBOLS];
    bool any = false;

    encoder->books = malloc(sizeof *encoder->books);
    if (encoder->books == NULL)
        return false;
    for (int id = 1; id < nmembers; id++)
        for (int s = 0; s < TERP_NSYMBOLS; s++)
            frequency[s] += encoder->scratch[id]->frequency[s];
    for (int s = 0; s < TERP_NSYMBOLS; s++)
        any |= frequency[s] != 0;
    if (!any)
        return true;
    terp_huffman_lengths(frequency, nbits);
    terp_cpu_encode_table_make(nbits, encoder->books);
    terp_cpu_custom_write(writer, nbits);
    return true;
}

/* False when memory runs out. */
static bool
write_codebooks(struct encoder *encoder, int nmembers, struct writer *writer)
{
    if (encoder->coding == TERP_CODING_SPEED)
        return true;
    if (encoder->coding == TERP_CODING_CUSTOM)
        return make_custom_book(encoder, nmembers, writer);
    terp_cpu_entries_select(&encoder->index,
                            (const uint32_t(*)[TERP_NENTRIES])encoder->cost);
    terp_cpu_entries_write(writer, &encoder->index);
    return make_books(encoder);
}

/* Where each partition's tiles begin, whose lengths stand there yet. */
static void
sum_lengths(struct cpu_tile_index *index)
{
    for (uint64_t p = 0; p < index->npartitions; p++)
        index->begin[p + 1] += index->begin[p];
}

static enum terp_status
write_staged(struct encoder *encoder, struct writer *writer)
{
    struct cpu_tile_index *index = &encoder->index;

    sum_lengths(index);
    terp_cpu_tile_index_write_places(writer, index, encoder->coding);
    for (uint64_t p = 0; p < index->npartitions; p++) {
        uint64_t nbytes = index->begin[p + 1] - index->begin[p];
        uint8_t *at = writer_take(writer, nbytes);
        if (at == NULL)
            return TERP_ERR_CAPACITY;
        memcpy(at, staged_partition(encoder, p), nbytes);
    }
    return writer->overflow ? TERP_ERR_CAPACITY : TERP_OK;
}

/* Tokens go where they belong: their costs told how long tiles are. */
static void
encode_tokens(void *arg, int id, uint64_t first, uint64_t end)
{
    const struct encoder *encoder = arg;
    const struct cpu_tile_index *index = &encoder->index;
    uint8_t words[TILE_MAX_NBYTES + CPU_TOKENS_PADDING_NBYTES];
    uint32_t items[TERP_TILE_NSYMBOLS];

    (void)id;
    for (uint64_t p = first; p < end; p++) {
        uint64_t tile = p * TERP_PARTITION_NTILES;
        uint64_t tile_end =
            min_u64(tile + TERP_PARTITION_NTILES, index->ntiles);
        uint8_t *at = encoder->payload + index->begin[p];
        for (; tile < tile_end; tile++) {
            if (!bit_at(index->nonzero, tile))
                continue;
            uint64_t nitems = cut_tile(encoder, tile, items);
            terp_cpu_tokens_encode(book_of_tile(encoder, tile), items, nitems,
                                   words);
            memcpy(at, words, index->nbytes[tile]);
            at += index->nbytes[tile];
        }
    }
}

static enum terp_status
write_tokens(struct cpu_pool *team, struct encoder *encoder,
             struct writer *writer)
{
    struct cpu_tile_index *index = &encoder->index;

    for (uint64_t tile = 0; tile < index->ntiles; tile++) {
        if (!bit_at(index->nonzero, tile))
            continue;
        uint32_t nbits = encoder->cost[tile][index->entry[tile]];
        index->nbytes[tile] = (uint16_t)div_up(nbits, 8);
        index->begin[tile / TERP_PARTITION_NTILES + 1] += index->nbytes[tile];
    }
    sum_lengths(index);
    terp_cpu_tile_index_write_places(writer, index, encoder->coding);
    encoder->payload = writer_take(writer, index->begin[index->npartitions]);
    if (encoder->payload == NULL)
        return TERP_ERR_CAPACITY;
    terp_cpu_pool_run(team, encode_tokens, encoder, index->npartitions, 4);
    return TERP_OK;
}

static void
free_scratch(void **scratch, int nmembers)
{
    for (int id = 0; scratch != NULL && id < nmembers; id++)
        free(scratch[id]);
    free(scratch);
}

/* An array of `nmembers` zeroed blocks, or NULL. */
static void *
make_scratch(int nmembers, size_t nbytes)
{
    void **scratch = calloc((size_t)nmembers, sizeof *scratch);

    for (int id = 0; scratch != NULL && id < nmembers; id++) {
        scratch[id] = calloc(1, nbytes);
        if (scratch[id] == NULL) {
            free_scratch(scratch, nmembers);
            return NULL;
        }
    }
    return scratch;
}

static bool
make_encoder(struct encoder *encoder, struct cpu_pool *team)
{
    int nmembers = terp_cpu_pool_nworkers(team);
    const struct cpu_tile_index *index = &encoder->index;
    enum terp_coding coding = encoder->coding;
    bool good = true;

    if (coding == TERP_CODING_RATIO) {
        terp_cpu_tokens_make(&encoder->tokens);
    } else {
        encoder->staging = terp_cpu_memory_make(
            team,
            index->npartitions * TERP_PARTITION_NTILES * WORDS_MAX_NBYTES);
        good = encoder->staging != NULL;
    }
    if (good && selects_entries(coding)) {
        encoder->cost = malloc(index->ntiles * sizeof *encoder->cost);
        good = encoder->cost != NULL;
    }
    if (good && reduces(coding)) {
        encoder->scratch = make_scratch(
            nmembers, sizeof **encoder->scratch +
                          terp_reduce_scratch_nbytes(PARTITION_MAX_NBYTES));
        good = encoder->scratch != NULL;
    }
    return good;
}

enum terp_status
terp_cpu_tiles_encode(struct cpu_pool *team, enum terp_coding coding,
                      const uint16_t *symbols, uint64_t nsymbols,
                      struct writer *writer)
{
    int nmembers = terp_cpu_pool_nworkers(team);
    struct encoder *encoder = calloc(1, sizeof *encoder);

    if (encoder == NULL)
        return TERP_ERR_MEMORY;
    encoder->coding = coding;
    encoder->symbols = symbols;
    encoder->nsymbols = nsymbols;
    struct cpu_tile_index *index = &encoder->index;
    enum terp_status st = terp_cpu_tile_index_make(nsymbols, index);
    if (st == TERP_OK && !make_encoder(encoder, team))
        st = TERP_ERR_MEMORY;
    if (st != TERP_OK)
        goto out;
    terp_cpu_pool_run(team, survey_partitions, encoder, index->npartitions, 4);
    terp_cpu_tile_index_write_nonzero(writer, index);
    if (!write_codebooks(encoder, nmembers, writer)) {
        st = TERP_ERR_MEMORY;
    } else if (coding == TERP_CODING_RATIO) {
        st = write_tokens(team, encoder, writer);
    } else {
        terp_cpu_pool_run(team, encode_partitions, encoder, index->npartitions,
                          4);
        st = write_staged(encoder, writer);
    }
out:
    free_scratch((void **)encoder->scratch, nmembers);
    free(encoder->books);
    free(encoder->cost);
    terp_cpu_memory_free(team, encoder->staging);
    terp_cpu_tile_index_free(index);
    free(encoder);
    return st;
}

/* ---- decoding ---- */

static bool
decode_planes(const uint8_t *src, uint64_t nbytes, uint16_t *symbols,
              uint64_t nsymbols)
{
    int8_t codes[TERP_TILE_NSYMBOLS];
    struct reader reader = {src, src + nbytes, false};

    terp_planes_read(&reader, codes, nsymbols);
    if (reader.underflow || reader.at != reader.end)
        return false;
    for (uint64_t i = 0; i < nsymbols; i++)
        symbols[i] =
            (uint16_t)(codes[i] == TERP_SPEED_ESCAPE ? TERP_ESCAPE
                                                     : codes[i] + TERP_RADIUS);
    return true;
}

struct decoder {
    enum terp_coding coding;
    struct cpu_tile_index index;
    const uint8_t *payload;
    const uint8_t *payload_end;
    uint16_t *symbols;
    uint64_t nsymbols;
    struct cpu_decode_book *books;
    struct cpu_token_book *token_books; /* ratio */
    int16_t book_of_entry[TERP_NENTRIES];
    struct decode_scratch {
        bool failed;
        uint8_t partition[PARTITION_MAX_NBYTES + CPU_WORDS_PADDING_NBYTES];
        uint8_t reduce[];
    } * *scratch;
};

/* The partition's tiles as they were before reduction, padded; or NULL. */
static const uint8_t *
expand_partition(const struct decoder *decoder, struct decode_scratch *scratch,
                 uint64_t p, uint64_t tiles_nbytes)
{
    const struct cpu_tile_index *index = &decoder->index;
    const uint8_t *src = decoder->payload + index->begin[p];
    const uint8_t *end = decoder->payload + index->begin[p + 1];

    if (index->reduced[p]) {
        struct reader reader = {src, end, false};
        terp_reduce_read(&reader, scratch->partition, tiles_nbytes,
                         scratch->reduce);
        if (reader.underflow || reader.at != reader.end)
            return NULL;
        return scratch->partition;
    }
    if (decoder->payload_end - end >= CPU_WORDS_PADDING_NBYTES)
        return src;
    memcpy(scratch->partition, src, tiles_nbytes);
    return scratch->partition;
}

static bool
decode_partition(const struct decoder *decoder, struct decode_scratch *scratch,
                 uint64_t p)
{
    const struct cpu_tile_index *index = &decoder->index;
    uint64_t first = p * TERP_PARTITION_NTILES, nbytes = 0;
    uint64_t end = min_u64(first + TERP_PARTITION_NTILES, index->ntiles);

    for (uint64_t tile = first; tile < end; tile++)
        nbytes += index->nbytes[tile];
    const uint8_t *src = expand_partition(decoder, scratch, p, nbytes);
    if (src == NULL)
        return false;
    for (uint64_t tile = first; tile < end; tile++) {
        uint16_t *symbols = decoder->symbols + tile * TERP_TILE_NSYMBOLS;
        uint64_t n = tile_nsymbols(decoder->nsymbols, tile);
        uint64_t tile_nbytes = index->nbytes[tile];
        bool good = true;
        if (!bit_at(index->nonzero, tile)) {
            for (uint64_t i = 0; i < n; i++)
                symbols[i] = ZERO_SYMBOL;
        } else if (decoder->coding == TERP_CODING_SPEED) {
            good = decode_planes(src, tile_nbytes, symbols, n);
        } else {
            int book = decoder->book_of_entry[index->entry[tile]];
            good = decoder->coding == TERP_CODING_RATIO
                       ? terp_cpu_tokens_decode(&decoder->token_books[book],
                                                src, tile_nbytes, symbols, n)
                       : terp_cpu_codewords_decode(&decoder->books[book], src,
                                                   tile_nbytes, symbols, n);
        }
        if (!good)
            return false;
        src += tile_nbytes;
    }
    return true;
}

static void
decode_partitions(void *arg, int id, uint64_t first, uint64_t end)
{
    struct decoder *decoder = arg;
    struct decode_scratch *scratch = decoder->scratch[id];

    for (uint64_t p = first; p < end && !scratch->failed; p++)
        scratch->failed = !decode_partition(decoder, scratch, p);
}

/* Reads the codebooks and makes those that occur ready to decode. */
static enum terp_status
read_codebooks(struct decoder *decoder, struct reader *reader)
{
    struct cpu_tile_index *index = &decoder->index;
    uint8_t nbits[TERP_NSYMBOLS];
    int nbooks = 0;
    uint64_t nnonzero = 0;

    for (int e = 0; e < TERP_NENTRIES; e++)
        decoder->book_of_entry[e] = -1;
    for (uint64_t i = 0; i < index->ntiles; i++)
        nnonzero += bit_at(index->nonzero, i);
    if (nnonzero == 0 || decoder->coding == TERP_CODING_SPEED)
        return TERP_OK;
    /* All tiles of a custom stream use book 0, as entry 0. */
    if (decoder->coding == TERP_CODING_CUSTOM
            ? !terp_cpu_custom_read(reader, nbits)
            : !terp_cpu_entries_read(reader, index, nnonzero))
        return TERP_ERR_CORRUPT;
    for (uint64_t i = 0; i < index->ntiles; i++) {
        int16_t *book = &decoder->book_of_entry[index->entry[i]];
        if (bit_at(index->nonzero, i) && *book < 0)
            *book = (int16_t)nbooks++;
    }
    if (decoder->coding == TERP_CODING_RATIO)
        decoder->token_books =
            malloc((size_t)nbooks * sizeof *decoder->token_books);
    else
        decoder->books = malloc((size_t)nbooks * sizeof *decoder->books);
    if (decoder->books == NULL && decoder->token_books == NULL)
        return TERP_ERR_MEMORY;
    for (int e = 0; e < TERP_NENTRIES; e++) {
        int book = decoder->book_of_entry[e];
        if (book < 0)
            continue;
        if (selects_entries(decoder->coding))
            terp_cpu_entry_lengths(decoder->coding, e, nbits);
        if (!(decoder->coding == TERP_CODING_RATIO
                  ? terp_cpu_token_decode_table_make(
                        nbits, &decoder->token_books[book])
                  : terp_cpu_decode_table_make(nbits, &decoder->books[book])))
            return TERP_ERR_CORRUPT;
    }
    return TERP_OK;
}

/* All before the payload, at which the reader is left. */
static enum terp_status
read_index(struct decoder *decoder, struct reader *reader)
{
    struct cpu_tile_index *index = &decoder->index;

    enum terp_status st = terp_cpu_tile_index_make(decoder->nsymbols, index);
    if (st == TERP_OK)
        st = terp_cpu_tile_index_read_nonzero(reader, index);
    if (st == TERP_OK)
        st = read_codebooks(decoder, reader);
    if (st == TERP_OK)
        st = terp_cpu_tile_index_read_places(
            reader, index, decoder->coding,
            (unsigned)tile_max_nbytes(decoder->coding));
    return st;
}

enum terp_status
terp_cpu_tiles_decode(struct cpu_pool *team, enum terp_coding coding,
                      struct reader *reader, uint16_t *symbols_ret,
                      uint64_t nsymbols)
{
    int nmembers = terp_cpu_pool_nworkers(team);
    struct decoder decoder = {
        .coding = coding, .symbols = symbols_ret, .nsymbols = nsymbols};
    struct cpu_tile_index *index = &decoder.index;

    enum terp_status st = read_index(&decoder, reader);
    if (st != TERP_OK)
        goto out;
    decoder.payload = reader->at;
    decoder.payload_end = reader->end;
    decoder.scratch = make_scratch(
        nmembers, sizeof **decoder.scratch +
                      terp_reduce_scratch_nbytes(PARTITION_MAX_NBYTES));
    if (decoder.scratch == NULL) {
        st = TERP_ERR_MEMORY;
        goto out;
    }
    terp_cpu_pool_run(team, decode_partitions, &decoder, index->npartitions, 4);
    for (int id = 0; id < nmembers; id++)
        if (decoder.scratch[id]->failed)
            st = TERP_ERR_CORRUPT;
out:
    free_scratch((void **)decoder.scratch, nmembers);
    free(decoder.books);
    free(decoder.token_books);
    terp_cpu_tile_index_free(index);
    return st;
}

enum terp_status
terp_cpu_tiles_inspect(enum terp_coding coding, struct reader *reader,
                       uint64_t nsymbols, struct terp_info *info)
{
    struct decoder decoder = {.coding = coding, .nsymbols = nsymbols};
    struct cpu_tile_index *index = &decoder.index;

    info->ntiles = div_up(nsymbols, TERP_TILE_NSYMBOLS);
    if (info->ntiles > INSPECT_MAX_NTILES &&
        info->ntiles > (uint64_t)(reader->end - reader->at)) {
        info->ntiles_zero = TERP_COUNT_UNKNOWN;
        info->index_nbytes = TERP_COUNT_UNKNOWN;
        return TERP_OK;
    }
    enum terp_status st = read_index(&decoder, reader);
    info->index_nbytes = index->index_nbytes;
    for (uint64_t i = 0; st == TERP_OK && i < index->ntiles; i++) {
        if (!bit_at(index->nonzero, i))
            info->ntiles_zero++;
        else if (selects_entries(coding))
            info->ntiles_with_entry[index->entry[i]]++;
    }
    free(decoder.books);
    free(decoder.token_books);
    terp_cpu_tile_index_free(index);
    return st;
}
