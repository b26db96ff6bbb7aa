/* Decodes tiles to a chunk's symbols, and counts them for terp_inspect. A table
 * (decode_steps_of) has the steps of each coding. */
#include <stdlib.h>

#include "codec/format/reduce.h"
#include "cpu/entropy/codebooks.h"
#include "cpu/entropy/codewords.h"
#include "cpu/entropy/kept.h"
#include "cpu/entropy/tiles.h"
#include "cpu/entropy/tokens.h"

/* The longest partition of any coding; every coding may have reduced
 * partitions. */
#define PARTITION_MAX_NBYTES (TERP_PARTITION_NTILES * TERP_TOKENS_MAX_NBYTES)
_Static_assert(TERP_CODEWORDS_MAX_NBYTES <= TERP_TOKENS_MAX_NBYTES,
               "No tile is longer than one of tokens.");
_Static_assert(PARTITION_MAX_NBYTES <= TERP_REDUCE_MAX_NBYTES,
               "Any partition can be reduced.");
/* Bounds the memory of terp_inspect: a few bytes can claim any number of zero
 * tiles, and no destination limits it. A stream's tiles are counted if they are
 * at most this many, whose index takes 4 MB, or at most as many as the stream
 * has bytes. */
#define INSPECT_MAX_NTILES ((uint64_t)1 << 20)

/* A worker's memory. */
struct worker_scratch {
    bool failed;
    uint16_t tile[TERP_TILE_NSYMBOLS]; /* not wanted whole */
    uint8_t partition[PARTITION_MAX_NBYTES + CPU_CODEWORDS_PADDING_NBYTES];
    uint8_t reduce[]; /* terp_reduce_scratch_nbytes */
};

struct decoder {
    const struct decode_steps *steps;
    enum terp_coding coding;
    struct cpu_tile_index index;
    const uint8_t *payload;
    const uint8_t *payload_end;
    uint16_t *symbols;
    uint64_t nsymbols;
    uint64_t nwanted;                          /* the first symbols */
    const void *table_of_entry[TERP_NENTRIES]; /* NULL: unused */
    void *tables;     /* memory of tables that the process does not keep */
    uint8_t *scratch; /* scratch_nbytes for each worker */
    size_t scratch_nbytes;
};

struct decode_steps {
    struct cpu_kept *tables; /* NULL: the stream has its own code */
    cpu_tiles_decoder *decode;
};

/* ---- the steps of codings ---- */

static void
make_codeword_table(int entry, void *table)
{
    uint8_t nbits[TERP_NSYMBOLS];

    terp_cpu_entry_lengths(TERP_CODING_HUFFMAN, entry, nbits);
    (void)terp_cpu_decode_table_make(nbits, table);
}

static void
make_token_table(int entry, void *table)
{
    uint8_t nbits[TERP_NSYMBOLS];

    terp_cpu_entry_lengths(TERP_CODING_RATIO, entry, nbits);
    (void)terp_cpu_token_decode_table_make(nbits, table);
}

static const struct decode_steps *
decode_steps_of(enum terp_coding coding)
{
    static struct cpu_decode_table codewords[TERP_NENTRIES];
    static struct cpu_kept kept_codewords = {.tables = codewords,
                                             .table_nbytes = sizeof *codewords,
                                             .make = make_codeword_table};
    static struct cpu_token_decode_table tokens[TERP_NENTRIES];
    static struct cpu_kept kept_tokens = {.tables = tokens,
                                          .table_nbytes = sizeof *tokens,
                                          .make = make_token_table};
    static const struct decode_steps steps[] = {
        [TERP_CODING_HUFFMAN] = {&kept_codewords, terp_cpu_codewords_decode},
        [TERP_CODING_CUSTOM] = {NULL, terp_cpu_codewords_decode},
        [TERP_CODING_RATIO] = {&kept_tokens, terp_cpu_tokens_decode},
    };

    return &steps[coding];
}

/* ---- before the payload ---- */

static uint64_t
ntiles_wanted(const struct decoder *decoder)
{
    return div_up(decoder->nwanted, TERP_TILE_NSYMBOLS);
}

/* Reads the code of a custom stream; all its tiles use it, as entry 0. */
static enum terp_status
read_table(struct decoder *decoder, struct reader *reader)
{
    uint8_t nbits[TERP_NSYMBOLS];

    if (!terp_cpu_custom_read(reader, nbits))
        return TERP_ERR_CORRUPT;
    decoder->tables = malloc(sizeof(struct cpu_decode_table));
    if (decoder->tables == NULL)
        return TERP_ERR_MEMORY;
    decoder->table_of_entry[0] = decoder->tables;
    return terp_cpu_decode_table_make(nbits, decoder->tables)
               ? TERP_OK
               : TERP_ERR_CORRUPT;
}

static enum terp_status
read_codebooks(struct decoder *decoder, struct reader *reader)
{
    struct cpu_tile_index *index = &decoder->index;
    uint64_t nnonzero = 0;

    for (uint64_t i = 0; i < index->ntiles; i++)
        nnonzero += bit_at(index->nonzero, i);
    if (nnonzero == 0)
        return TERP_OK;
    if (!terp_coding_selects_entries(decoder->coding))
        return read_table(decoder, reader);
    if (!terp_cpu_entries_read(reader, index, nnonzero))
        return TERP_ERR_CORRUPT;
    return terp_cpu_tables_find(decoder->steps->tables, index,
                                ntiles_wanted(decoder), decoder->table_of_entry,
                                &decoder->tables)
               ? TERP_OK
               : TERP_ERR_MEMORY;
}

/* Reads everything before the payload; leaves the reader there. */
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
            terp_tile_max_nbytes(decoder->coding),
            decoder->nwanted == decoder->nsymbols);
    return st;
}

/* ---- the payload ---- */

static uint64_t
tiles_nbytes(const struct cpu_tile_index *index, uint64_t first, uint64_t end)
{
    uint64_t nbytes = 0;

    for (uint64_t tile = first; tile < end; tile++)
        nbytes += index->nbytes[tile];
    return nbytes;
}

/* Expands the partition's tiles up to `end`, with padding. Returns NULL on
 * failure. */
static const uint8_t *
expand_partition(const struct decoder *decoder, struct worker_scratch *scratch,
                 uint64_t p, uint64_t end)
{
    const struct cpu_tile_index *index = &decoder->index;
    const uint64_t first = cpu_first_tile(p);
    const uint8_t *src = decoder->payload + index->begin[p];
    const uint64_t src_nbytes = index->begin[p + 1] - index->begin[p];

    if (index->reduced[p]) {
        struct reader reader = {src, src + src_nbytes, false};
        terp_reduce_read(&reader, scratch->partition,
                         tiles_nbytes(index, first, cpu_end_tile(index, p)),
                         scratch->reduce);
        if (reader.underflow || reader.at != reader.end)
            return NULL;
        return scratch->partition;
    }
    const uint64_t nbytes = tiles_nbytes(index, first, end);
    if (nbytes > src_nbytes)
        return NULL;
    if (decoder->payload_end - src >=
        (ptrdiff_t)(nbytes + CPU_CODEWORDS_PADDING_NBYTES))
        return src;
    memcpy(scratch->partition, src, nbytes);
    return scratch->partition;
}

static bool
decode_partition(const struct decoder *decoder, struct worker_scratch *scratch,
                 uint64_t p)
{
    const struct cpu_tile_index *index = &decoder->index;
    const uint64_t first = cpu_first_tile(p);
    const uint64_t end =
        min_u64(cpu_end_tile(index, p), ntiles_wanted(decoder));
    const uint8_t *src = expand_partition(decoder, scratch, p, end);
    struct cpu_coded_tile tiles[TERP_PARTITION_NTILES];
    uint16_t *last = NULL; /* the symbols of a partly wanted tile go here */
    uint64_t n_last = 0;
    int ntiles = 0;

    if (src == NULL)
        return false;
    for (uint64_t i = first; i < end; src += index->nbytes[i++]) {
        uint16_t *symbols = decoder->symbols + i * TERP_TILE_NSYMBOLS;
        const uint64_t n = terp_tile_nsymbols(decoder->nsymbols, i);
        const uint64_t n_wanted = terp_tile_nsymbols(decoder->nwanted, i);
        if (!bit_at(index->nonzero, i)) {
            for (uint64_t k = 0; k < n_wanted; k++)
                symbols[k] = TERP_ZERO_SYMBOL;
            continue;
        }
        if (n_wanted < n) {
            last = symbols;
            n_last = n_wanted;
        }
        tiles[ntiles++] = (struct cpu_coded_tile){
            decoder->table_of_entry[index->entry[i]], src, index->nbytes[i],
            n_wanted < n ? scratch->tile : symbols, n};
    }
    for (int i = 0; i < ntiles; i += 2)
        if (!decoder->steps->decode(&tiles[i], ntiles - i < 2 ? 1 : 2))
            return false;
    if (last != NULL)
        memcpy(last, scratch->tile, n_last * sizeof *last);
    return true;
}

static struct worker_scratch *
scratch_of(const struct decoder *decoder, int worker)
{
    return (struct worker_scratch *)(decoder->scratch +
                                     (size_t)worker * decoder->scratch_nbytes);
}

static void
decode_partitions(void *arg, struct cpu_share share)
{
    const struct decoder *decoder = arg;
    struct worker_scratch *scratch = scratch_of(decoder, share.worker);

    for (uint64_t p = share.first; p < share.end && !scratch->failed; p++)
        scratch->failed = !decode_partition(decoder, scratch, p);
}

enum terp_status
terp_cpu_tiles_decode_first(struct cpu_pool *pool, enum terp_coding coding,
                            struct reader *reader, uint16_t *symbols_ret,
                            uint64_t nsymbols, uint64_t nwanted)
{
    const int nworkers = terp_cpu_pool_nworkers(pool);
    const size_t nbytes = sizeof(struct worker_scratch) +
                          terp_reduce_scratch_nbytes(PARTITION_MAX_NBYTES);
    struct decoder decoder = {.steps = decode_steps_of(coding),
                              .coding = coding,
                              .symbols = symbols_ret,
                              .nsymbols = nsymbols,
                              .nwanted = nwanted,
                              .scratch_nbytes = div_up(nbytes, 64) * 64};
    struct cpu_tile_index *index = &decoder.index;

    enum terp_status st = read_index(&decoder, reader);
    if (st != TERP_OK)
        goto out;
    decoder.payload = reader->at;
    decoder.payload_end = reader->end;
    decoder.scratch = malloc((size_t)nworkers * decoder.scratch_nbytes);
    if (decoder.scratch == NULL) {
        st = TERP_ERR_MEMORY;
        goto out;
    }
    for (int worker = 0; worker < nworkers; worker++)
        scratch_of(&decoder, worker)->failed = false;
    terp_cpu_pool_run(pool, decode_partitions, &decoder,
                      div_up(ntiles_wanted(&decoder), TERP_PARTITION_NTILES),
                      4);
    for (int worker = 0; worker < nworkers; worker++)
        if (scratch_of(&decoder, worker)->failed)
            st = TERP_ERR_CORRUPT;
out:
    free(decoder.scratch);
    free(decoder.tables);
    terp_cpu_tile_index_free(index);
    return st;
}

static bool
are_too_many(const struct decoder *decoder, const struct reader *reader)
{
    const uint64_t ntiles = div_up(decoder->nsymbols, TERP_TILE_NSYMBOLS);

    return ntiles > INSPECT_MAX_NTILES &&
           ntiles > (uint64_t)(reader->end - reader->at);
}

enum terp_status
terp_cpu_tiles_inspect(enum terp_coding coding, struct reader *reader,
                       uint64_t nsymbols, struct terp_info *info)
{
    struct decoder decoder = {.steps = decode_steps_of(coding),
                              .coding = coding,
                              .nsymbols = nsymbols,
                              .nwanted = nsymbols};
    struct cpu_tile_index *index = &decoder.index;

    info->ntiles = div_up(nsymbols, TERP_TILE_NSYMBOLS);
    if (are_too_many(&decoder, reader)) {
        info->ntiles_zero = TERP_COUNT_UNKNOWN;
        info->index_nbytes = TERP_COUNT_UNKNOWN;
        return TERP_OK;
    }
    enum terp_status st = read_index(&decoder, reader);
    info->index_nbytes = index->index_nbytes;
    for (uint64_t i = 0; st == TERP_OK && i < index->ntiles; i++) {
        if (!bit_at(index->nonzero, i))
            info->ntiles_zero++;
        else
            info->ntiles_with_entry[index->entry[i]]++;
    }
    free(decoder.tables);
    terp_cpu_tile_index_free(index);
    return st;
}
