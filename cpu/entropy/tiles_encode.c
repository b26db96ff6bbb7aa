/* Encodes a chunk's symbols as tiles in two passes. The first counts symbols to
 * choose codebooks, the second encodes. A table (encode_steps_of) has the steps
 * of each coding in both passes. */
#include <stdlib.h>

#include "codec/format/reduce.h"
#include "cpu/entropy/codebooks.h"
#include "cpu/entropy/codewords.h"
#include "cpu/entropy/histogram.h"
#include "cpu/entropy/kept.h"
#include "cpu/entropy/tiles.h"
#include "cpu/entropy/tokens.h"

_Static_assert(TERP_PARTITION_NTILES % 8 == 0,
               "Workers share no byte of the bit map of tiles.");

/* The size of a staged partition: its tiles, and the padding after them. */
#define PARTITION_MAX_NBYTES \
    ((uint64_t)TERP_PARTITION_NTILES * TERP_CODEWORDS_MAX_NBYTES)
#define STAGED_PARTITION_NBYTES \
    (PARTITION_MAX_NBYTES + CPU_OUTPUT_PADDING_NBYTES)

/* A worker's memory. */
struct worker_scratch {
    uint64_t frequency[TERP_NSYMBOLS]; /* custom streams */
    uint32_t counts[TERP_NSYMBOLS];
    struct cpu_histogram histogram;
    /* The encoder stores whole words, which would overwrite the next tile. */
    uint8_t tile[TERP_TOKENS_MAX_NBYTES + CPU_OUTPUT_PADDING_NBYTES];
    /* Reduced partitions: PARTITION_MAX_NBYTES, and
     * terp_reduce_scratch_nbytes. */
    uint8_t reduced[];
};

struct encoder {
    const struct encode_steps *steps;
    enum terp_coding coding;
    const uint16_t *symbols;
    uint64_t nsymbols;
    int nworkers;
    struct cpu_tile_index index;
    /* A tile's bits under each entry; those of tokens include plain bits. */
    uint32_t (*cost)[TERP_NENTRIES];
    uint8_t *staging; /* of a partition, if lengths are not known yet */
    uint8_t *scratch; /* scratch_nbytes for each worker */
    size_t scratch_nbytes;
    const void *codebook_of_entry[TERP_NENTRIES]; /* of the coding's own type */
    void *codebooks;                              /* those that the process does
                                                   * not keep */
    const struct cpu_tokens *tokens;              /* ratio streams */
    struct cpu_tokens own_tokens;                 /* unless kept */
    uint8_t *payload;
};

struct encode_steps {
    struct cpu_kept *codebooks; /* NULL: the stream has its own code */
    /* First pass: counts a tile's symbols for the choice of codebooks. False if
     * all its codes are 0: such a tile has no payload. */
    bool (*count)(struct encoder *encoder, int worker, uint64_t tile);
    /* Between the passes: chooses codebooks, writes the choice, and makes the
     * codewords. False if memory runs out. */
    bool (*choose)(struct encoder *encoder, struct writer *writer);
    /* Second pass: encodes a tile, and returns its number of bytes. */
    uint64_t (*encode)(const struct encoder *encoder, uint64_t tile,
                       uint8_t *dst);
};

static const uint16_t *
tile_symbols(const struct encoder *encoder, uint64_t tile, uint64_t *n_ret)
{
    *n_ret = terp_tile_nsymbols(encoder->nsymbols, tile);
    return encoder->symbols + tile * TERP_TILE_NSYMBOLS;
}

static struct worker_scratch *
scratch_of(const struct encoder *encoder, int worker)
{
    return (struct worker_scratch *)(encoder->scratch +
                                     (size_t)worker * encoder->scratch_nbytes);
}

static const void *
codebook_of_tile(const struct encoder *encoder, uint64_t tile)
{
    return encoder->codebook_of_entry[encoder->index.entry[tile]];
}

/* ---- counting ---- */

static bool
count_symbols(const struct encoder *encoder, uint64_t tile,
              struct worker_scratch *scratch)
{
    uint64_t n;
    const uint16_t *symbols = tile_symbols(encoder, tile, &n);

    terp_cpu_histogram(symbols, n, TERP_NSYMBOLS, TERP_ZERO_SYMBOL,
                       &scratch->histogram, scratch->counts);
    return scratch->counts[TERP_ZERO_SYMBOL] < n;
}

static bool
count_for_entry(struct encoder *encoder, int worker, uint64_t tile)
{
    struct worker_scratch *scratch = scratch_of(encoder, worker);

    if (!count_symbols(encoder, tile, scratch))
        return false;
    encoder->index.entry[tile] = terp_cpu_entry_costs(
        encoder->coding, scratch->counts, encoder->cost[tile]);
    return true;
}

static bool
count_for_custom(struct encoder *encoder, int worker, uint64_t tile)
{
    struct worker_scratch *scratch = scratch_of(encoder, worker);

    if (!count_symbols(encoder, tile, scratch))
        return false;
    for (int s = 0; s < TERP_NSYMBOLS; s++)
        scratch->frequency[s] += scratch->counts[s];
    return true;
}

/* Counts a tile's tokens. The second pass cuts the tile into tokens a second
 * time: storing and loading four bytes per token took longer. */
static bool
count_tokens(struct encoder *encoder, int worker, uint64_t tile)
{
    uint32_t *counts = scratch_of(encoder, worker)->counts, nbits;
    uint64_t n;
    const uint16_t *symbols = tile_symbols(encoder, tile, &n);

    if (!terp_cpu_tokens_count(encoder->tokens, symbols, n, counts, &nbits))
        return false;
    encoder->index.entry[tile] =
        terp_cpu_entry_costs(encoder->coding, counts, encoder->cost[tile]);
    for (int e = 0; e < TERP_NENTRIES; e++)
        encoder->cost[tile][e] += nbits;
    return true;
}

static void
count_partitions(void *arg, struct cpu_share share)
{
    struct encoder *encoder = arg;
    struct cpu_tile_index *index = &encoder->index;
    uint64_t stop = cpu_end_tile(index, share.end - 1);

    for (uint64_t tile = cpu_first_tile(share.first); tile < stop; tile++)
        if (encoder->steps->count(encoder, share.worker, tile))
            index->nonzero[tile / 8] |= (uint8_t)(1u << (tile % 8));
}

/* ---- codebooks ---- */

static void
make_codeword_codebook(int entry, void *codebook)
{
    uint8_t nbits[TERP_NSYMBOLS];

    terp_cpu_entry_lengths(TERP_CODING_HUFFMAN, entry, nbits);
    terp_cpu_encode_table_make(nbits, codebook);
}

static void
make_tokens(int entry, void *tokens)
{
    (void)entry;
    terp_cpu_tokens_make(tokens);
}

/* Finds the table that all entries share; it is kept as entry 0's. */
static const struct cpu_tokens *
find_tokens(struct cpu_tokens *own)
{
    static struct cpu_tokens tokens;
    static struct cpu_kept kept = {.tables = &tokens, .make = make_tokens};

    return terp_cpu_kept_table(&kept, 0, own);
}

static void
make_token_codebook(int entry, void *codebook)
{
    uint8_t nbits[TERP_NSYMBOLS];

    terp_cpu_entry_lengths(TERP_CODING_RATIO, entry, nbits);
    terp_cpu_token_encode_table_make(nbits, codebook);
}

static bool
choose_entries(struct encoder *encoder, struct writer *writer)
{
    struct cpu_tile_index *index = &encoder->index;

    terp_cpu_entries_select(index,
                            (const uint32_t(*)[TERP_NENTRIES])encoder->cost);
    terp_cpu_entries_write(writer, index);
    return terp_cpu_tables_find(encoder->steps->codebooks, index, index->ntiles,
                                encoder->codebook_of_entry,
                                &encoder->codebooks);
}

/* Makes codebook 0, which all tiles use as entry 0. */
static bool
choose_custom(struct encoder *encoder, struct writer *writer)
{
    struct custom {
        struct cpu_codebook codebook;
        struct terp_huffman_work work;
    } * own;
    uint64_t *frequency = scratch_of(encoder, 0)->frequency;
    uint8_t nbits[TERP_NSYMBOLS];
    bool any = false;

    encoder->codebooks = malloc(sizeof *own);
    own = encoder->codebooks;
    if (own == NULL)
        return false;
    for (int worker = 1; worker < encoder->nworkers; worker++)
        for (int s = 0; s < TERP_NSYMBOLS; s++)
            frequency[s] += scratch_of(encoder, worker)->frequency[s];
    for (int s = 0; s < TERP_NSYMBOLS; s++)
        any |= frequency[s] != 0;
    if (!any)
        return true;
    terp_huffman_lengths(frequency, &own->work, nbits);
    terp_cpu_encode_table_make(nbits, &own->codebook);
    encoder->codebook_of_entry[0] = &own->codebook;
    terp_cpu_custom_write(writer, nbits);
    return true;
}

/* ---- encoding ---- */

static uint64_t
encode_codewords(const struct encoder *encoder, uint64_t tile, uint8_t *dst)
{
    uint64_t n;
    const uint16_t *symbols = tile_symbols(encoder, tile, &n);

    return terp_cpu_codewords_encode(codebook_of_tile(encoder, tile), symbols,
                                     n, dst);
}

static uint64_t
encode_tokens(const struct encoder *encoder, uint64_t tile, uint8_t *dst)
{
    uint64_t n;
    const uint16_t *symbols = tile_symbols(encoder, tile, &n);

    return terp_cpu_tokens_encode(
        encoder->tokens, codebook_of_tile(encoder, tile), symbols, n, dst);
}

/* ---- the table ---- */

static const struct encode_steps *
encode_steps_of(enum terp_coding coding)
{
    static struct cpu_codebook codewords[TERP_NENTRIES];
    static struct cpu_kept kept_codewords = {.tables = codewords,
                                             .table_nbytes = sizeof *codewords,
                                             .make = make_codeword_codebook};
    static struct cpu_token_codebook tokens[TERP_NENTRIES];
    static struct cpu_kept kept_tokens = {.tables = tokens,
                                          .table_nbytes = sizeof *tokens,
                                          .make = make_token_codebook};
    static const struct encode_steps steps[] = {
        [TERP_CODING_HUFFMAN] = {&kept_codewords, count_for_entry,
                                 choose_entries, encode_codewords},
        [TERP_CODING_CUSTOM] = {NULL, count_for_custom, choose_custom,
                                encode_codewords},
        [TERP_CODING_RATIO] = {&kept_tokens, count_tokens, choose_entries,
                               encode_tokens},
    };

    return &steps[coding];
}

/* ---- the payload ---- */

/* Sums the lengths of partitions, so that begin[p] is where partition p begins.
 * Before, begin[p + 1] holds the length of partition p. */
static void
sum_lengths(struct cpu_tile_index *index)
{
    for (uint64_t p = 0; p < index->npartitions; p++)
        index->begin[p + 1] += index->begin[p];
}

static void
encode_in_place(void *arg, struct cpu_share share)
{
    const struct encoder *encoder = arg;
    const struct cpu_tile_index *index = &encoder->index;
    uint8_t *bytes = scratch_of(encoder, share.worker)->tile;

    for (uint64_t p = share.first; p < share.end; p++) {
        uint64_t stop = cpu_end_tile(index, p);
        uint8_t *at = encoder->payload + index->begin[p];
        for (uint64_t tile = cpu_first_tile(p); tile < stop; tile++) {
            if (!bit_at(index->nonzero, tile))
                continue;
            encoder->steps->encode(encoder, tile, bytes);
            memcpy(at, bytes, index->nbytes[tile]);
            at += index->nbytes[tile];
        }
    }
}

static enum terp_status
write_in_place(struct cpu_pool *pool, struct encoder *encoder,
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
    terp_cpu_pool_run(pool, encode_in_place, encoder, index->npartitions, 4);
    return TERP_OK;
}

/* Reduces a staged partition if that makes it smaller. Returns its length. */
static uint64_t
reduce_partition(struct encoder *encoder, int worker, uint64_t p,
                 uint8_t *bytes, uint64_t nbytes)
{
    struct worker_scratch *scratch = scratch_of(encoder, worker);
    struct writer writer = {scratch->reduced, scratch->reduced + nbytes - 1,
                            false};

    terp_reduce_write(&writer, bytes, nbytes,
                      scratch->reduced + PARTITION_MAX_NBYTES);
    if (writer.overflow)
        return nbytes;
    nbytes = (uint64_t)(writer.at - scratch->reduced);
    memcpy(bytes, scratch->reduced, nbytes);
    encoder->index.reduced[p] = true;
    return nbytes;
}

static void
encode_staged(void *arg, struct cpu_share share)
{
    struct encoder *encoder = arg;
    struct cpu_tile_index *index = &encoder->index;

    for (uint64_t p = share.first; p < share.end; p++) {
        uint8_t *base = encoder->staging + p * STAGED_PARTITION_NBYTES;
        uint64_t nbytes = 0, stop = cpu_end_tile(index, p);
        for (uint64_t tile = cpu_first_tile(p); tile < stop; tile++) {
            if (!bit_at(index->nonzero, tile))
                continue;
            index->nbytes[tile] =
                (uint16_t)encoder->steps->encode(encoder, tile, base + nbytes);
            nbytes += index->nbytes[tile];
        }
        if (nbytes > 0)
            nbytes = reduce_partition(encoder, share.worker, p, base, nbytes);
        index->begin[p + 1] = nbytes;
    }
}

static enum terp_status
write_staged(struct cpu_pool *pool, struct encoder *encoder,
             struct writer *writer)
{
    struct cpu_tile_index *index = &encoder->index;

    terp_cpu_pool_run(pool, encode_staged, encoder, index->npartitions, 4);
    sum_lengths(index);
    terp_cpu_tile_index_write_places(writer, index, encoder->coding);
    encoder->payload = writer->at;
    for (uint64_t p = 0; p < index->npartitions; p++)
        write_raw(writer, encoder->staging + p * STAGED_PARTITION_NBYTES,
                  index->begin[p + 1] - index->begin[p]);
    return writer->overflow ? TERP_ERR_CAPACITY : TERP_OK;
}

/* ---- the encoder ---- */

static bool
make_encoder(struct encoder *encoder, struct cpu_pool *pool)
{
    const struct cpu_tile_index *index = &encoder->index;
    bool good = true;

    if (encoder->coding == TERP_CODING_RATIO)
        encoder->tokens = find_tokens(&encoder->own_tokens);
    if (terp_coding_selects_entries(encoder->coding)) {
        encoder->cost = malloc(index->ntiles * sizeof *encoder->cost);
        good = encoder->cost != NULL;
    }
    const bool reduces = terp_coding_reduces(encoder->coding);
    const size_t nbytes =
        sizeof(struct worker_scratch) +
        (reduces ? PARTITION_MAX_NBYTES +
                       terp_reduce_scratch_nbytes(PARTITION_MAX_NBYTES)
                 : 0);
    encoder->scratch_nbytes = div_up(nbytes, 64) * 64;
    encoder->scratch = terp_cpu_memory_make(pool, (size_t)encoder->nworkers *
                                                      encoder->scratch_nbytes);
    good = good && encoder->scratch != NULL;
    for (int worker = 0; good && worker < encoder->nworkers; worker++)
        memset(scratch_of(encoder, worker)->frequency, 0,
               TERP_NSYMBOLS * sizeof(uint64_t));
    if (good && reduces) {
        encoder->staging = terp_cpu_memory_make(
            pool, index->npartitions * STAGED_PARTITION_NBYTES);
        good = encoder->staging != NULL;
    }
    return good;
}

static void
find_prefixes(const struct encoder *encoder,
              struct cpu_tiles_prefixes *prefixes)
{
    const struct cpu_tile_index *index = &encoder->index;

    for (int i = 0; i < TERP_NPREFIXES; i++)
        prefixes->end[i] = encoder->payload +
                           terp_cpu_tile_index_end(index, prefixes->ntiles[i]);
}

enum terp_status
terp_cpu_tiles_encode(struct cpu_pool *pool, enum terp_coding coding,
                      const uint16_t *symbols, uint64_t nsymbols,
                      struct cpu_tiles_prefixes *prefixes,
                      struct writer *writer)
{
    struct encoder *encoder = calloc(1, sizeof *encoder);

    if (encoder == NULL)
        return TERP_ERR_MEMORY;
    encoder->steps = encode_steps_of(coding);
    encoder->coding = coding;
    encoder->symbols = symbols;
    encoder->nsymbols = nsymbols;
    encoder->nworkers = terp_cpu_pool_nworkers(pool);
    struct cpu_tile_index *index = &encoder->index;
    enum terp_status st = terp_cpu_tile_index_make(nsymbols, index);
    if (st == TERP_OK && !make_encoder(encoder, pool))
        st = TERP_ERR_MEMORY;
    if (st != TERP_OK)
        goto out;
    terp_cpu_pool_run(pool, count_partitions, encoder, index->npartitions, 4);
    terp_cpu_tile_index_write_nonzero(writer, index);
    if (!encoder->steps->choose(encoder, writer))
        st = TERP_ERR_MEMORY;
    else
        /* Tiles that are not reduced have the lengths that their costs tell. */
        st = terp_coding_reduces(coding)
                 ? write_staged(pool, encoder, writer)
                 : write_in_place(pool, encoder, writer);
    if (st == TERP_OK && prefixes != NULL)
        find_prefixes(encoder, prefixes);
out:
    terp_cpu_memory_free(pool, encoder->scratch);
    free(encoder->codebooks);
    free(encoder->cost);
    terp_cpu_memory_free(pool, encoder->staging);
    terp_cpu_tile_index_free(index);
    free(encoder);
    return st;
}
