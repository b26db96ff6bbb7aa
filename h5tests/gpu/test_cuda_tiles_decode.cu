/* Compares the stages that read a stream up to its symbols, on the emulator,
 * with the CPU engine: symbols, counts and refusals. */
#include <stdlib.h>

extern "C" {
#include "codec/compose/values.h"
#include "codec/engine.h"
#include "codec/format/reduce.h"
#include "codec/format/sections.h"
#include "codec/model/lorenzo.h"
#include "cpu/engine.h"
#include "cpu/entropy/codebooks.h"
#include "cpu/entropy/order.h"
#include "cpu/entropy/tiles.h"
#include "cpu/entropy/tokens.h"
#include "cpu/sections/escapes.h"
#include "cpu/sections/index.h"
#include "cpu/sections/low_bits.h"
#include "cpu/sections/specials.h"
#include "cpu/sections/tails.h"
#include "h5tests/support/cases.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/fields.h"
}
#include "gpu/entropy/contexts.cuh"
#include "gpu/entropy/decode_table.cuh"
#include "gpu/entropy/token_decode_table.cuh"
#include "gpu/sections/escapes.cuh"
#include "gpu/sections/low_bits.cuh"
#include "gpu/sections/specials.cuh"

static struct cuda_decode_table tables[TERP_NENTRIES];
static struct cuda_token_decode_table token_tables[TERP_NENTRIES];
static struct cpu_tokens tokens;
static uint64_t nrandom;

static uint64_t
random_below(uint64_t n)
{
    return terp_field_mix(nrandom++) % n;
}

/* ---- a chunk on the emulated device ---- */

struct device {
    struct cuda_batch batch;
    struct cuda_chunk chunk;
    struct terp_layout layout;
};

static uint64_t
take(uint64_t *at, uint64_t nbytes)
{
    *at += div_up(nbytes, 256) * 256;
    return *at - div_up(nbytes, 256) * 256;
}

/* With `ratio`, streams of that coding are possible. */
static void
device_make(const struct terp_chunk *chunk, bool ratio, struct device *device)
{
    struct cuda_batch *batch = &device->batch;
    struct cuda_regions *at = &batch->at;
    struct terp_frame frame = {};

    memset(device, 0, sizeof *device);
    terp_layout_make(chunk, &device->layout);
    frame.chunk = *chunk;
    frame.coding = TERP_CODING_HUFFMAN;
    batch->nchunks = 1;
    batch->chunk = *chunk;
    batch->coding = ratio ? TERP_CODING_RATIO : TERP_CODING_RAW;
    batch->may_have_low_bits = true;
    batch->value_nbytes = batch->carrier_nbytes = batch->own_nbytes =
        chunk->type == TERP_FLOAT64 ? 8 : 4;
    batch->frame_nbytes = (uint64_t)terp_frame_nbytes(&frame);
    batch->model_at = batch->frame_nbytes;
    batch->dims_end = batch->frame_nbytes - sizeof(double);
    batch->nvalues = device->layout.nvalues;
    batch->ntiles = div_up(batch->nvalues, TERP_TILE_NSYMBOLS);
    batch->npartitions = div_up(batch->ntiles, TERP_PARTITION_NTILES);
    batch->nranges = div_up(batch->nvalues, CUDA_RANGE_NVALUES);
    batch->h_layout = batch->d_layout = &device->layout;
    batch->d_chunks = batch->h_chunks = &device->chunk;
    batch->tables.d_decode_tables = tables;
    batch->tables.d_token_decode_tables = token_tables;
    uint64_t nbytes = 0;
    at->ranges = take(&nbytes, 8 * (batch->nranges + 1));
    at->symbols = take(&nbytes, 2 * batch->nvalues);
    at->coded = take(&nbytes, ratio ? 2 * batch->nvalues : 0);
    at->mask = take(&nbytes, 8 * div_up(batch->nvalues, 64));
    at->runs = take(&nbytes, 8 * div_up(batch->nvalues, 64));
    at->entry = take(&nbytes, batch->ntiles);
    at->nonzero = take(&nbytes, batch->ntiles);
    at->nbytes = take(&nbytes, 2 * batch->ntiles);
    at->begin = take(&nbytes, 8 * (batch->npartitions + 1));
    at->tune = take(&nbytes, 8 * CUDA_MAX_NLISTED);
    at->reduced = take(&nbytes, batch->npartitions);
    at->staging = take(&nbytes, batch->npartitions * CUDA_PARTITION_MAX_NBYTES);
    at->codebook = take(&nbytes, 32 << 10);
    at->low_tiles = take(&nbytes, sizeof(struct cuda_low_tile) * batch->ntiles);
    at->tail_widths = take(&nbytes, TERP_LOW_TILE_NGROUPS * batch->ntiles);
    at->tail_begins = take(&nbytes, 8 * batch->ntiles);
    at->stride = nbytes;
    batch->d_scratch = (uint8_t *)aligned_alloc(256, nbytes);
    assert_non_null(batch->d_scratch);
}

static void
device_free(struct device *device)
{
    free(device->batch.d_scratch);
}

template <typename T>
static T *
of_region(struct device *device, uint64_t at)
{
    return (T *)(device->batch.d_scratch + at);
}

static void
chunk_start(struct cuda_chunk *chunk, const struct terp_frame *frame,
            const uint8_t *stream, uint64_t nbytes)
{
    memset(chunk, 0, sizeof *chunk);
    chunk->src = stream;
    chunk->src_nbytes = nbytes;
    chunk->coding = frame->coding;
    chunk->prediction = frame->prediction;
    chunk->has_specials = frame->has_specials;
    chunk->bound = frame->bound;
}

/* Reads a stream from a copy of its own, for memory checkers. */
static enum terp_status
device_read(struct device *device, const struct terp_frame *frame,
            const uint8_t *stream, uint64_t nbytes, bool decode)
{
    struct cuda_batch *batch = &device->batch;
    uint8_t *copy = (uint8_t *)malloc(nbytes);

    memcpy(copy, stream, nbytes);
    if (nbytes >= (uint64_t)terp_frame_nbytes(frame))
        terp_frame_write(frame, copy);
    chunk_start(&device->chunk, frame, copy, nbytes);
    memset(of_region<uint8_t>(device, batch->at.ranges), 0,
           8 * (batch->nranges + 1));
    memset(of_region<uint8_t>(device, batch->at.symbols), 0xA5,
           decode ? batch->at.mask - batch->at.symbols : 0);
    assert_int_equal(cuda_model_read(batch, NULL), cudaSuccess);
    if (decode) {
        assert_int_equal(cuda_tiles_decode(batch, NULL), cudaSuccess);
        assert_int_equal(cuda_low_bits_join(batch, NULL), cudaSuccess);
    }
    free(copy);
    return device->chunk.status;
}

/* ---- the CPU engine's results ---- */

static enum terp_status
cpu_read(const struct terp_frame *frame, const uint8_t *stream, uint64_t nbytes,
         uint64_t frame_nbytes, uint16_t *symbols)
{
    struct terp_layout layout;
    struct terp_info info = {};
    int value_nbytes = frame->chunk.type == TERP_FLOAT64 ? 8 : 4;
    struct cpu_tails_section tails_section;
    struct cpu_escape_section section;
    struct cpu_low_bits_section low_bits;
    uint64_t nspecials;

    struct terp_usual_fills fills = {};
    enum terp_status st = terp_cpu_inspect(
        frame, stream + frame_nbytes, nbytes - frame_nbytes, &info, &fills);
    if (st != TERP_OK)
        return st;
    terp_layout_make(&frame->chunk, &layout);
    struct reader reader = {stream + frame_nbytes, stream + nbytes, false};
    const uint8_t *model = reader.at;
    const bool lorenzo = frame->prediction == TERP_PREDICTION_LORENZO;
    const bool tails = lorenzo && (model[1] & TERP_LORENZO_TAILS);
    reader_take(
        &reader,
        terp_model_nbytes(frame->prediction, value_nbytes, layout.nlevels,
                          lorenzo && (model[1] & TERP_LORENZO_EXACT), tails));
    const int tail_nbits = tails ? reader.at[-1] : 0;
    if (frame->has_specials)
        terp_cpu_specials_read(&reader, &layout, value_nbytes, NULL,
                               &nspecials);
    if (tail_nbits > 0)
        terp_cpu_tails_read(&reader, tail_nbits, layout.nvalues,
                            &tails_section);
    terp_cpu_escapes_read(&reader, layout.nvalues, value_nbytes, &section);
    const int wide = stream[frame_nbytes] >> TERP_WIDE_SHIFT;
    if (wide > 0)
        terp_cpu_low_bits_read(&reader, layout.nvalues, &low_bits);
    st = terp_cpu_tiles_decode(NULL, frame->coding, &reader, symbols,
                               layout.nvalues);
    return st == TERP_OK && wide > 0
               ? terp_cpu_low_bits_join(NULL, layout.nvalues, layout.nvalues,
                                        &low_bits, symbols)
               : st;
}

/* Escapes are counted in ranges of `ordered`, unless they are listed. */
static void
check_ranges(struct device *device, const uint16_t *ordered)
{
    uint64_t *counts = (uint64_t *)calloc(device->batch.nranges + 1, 8);
    bool listed = escapes_are_listed(device->batch, device->chunk);

    for (uint64_t i = 0; i < device->batch.nvalues && !listed; i++)
        counts[i / CUDA_RANGE_NVALUES] += ordered[i] == TERP_ESCAPE;
    assert_memory_equal(counts,
                        of_region<uint64_t>(device, device->batch.at.ranges),
                        8 * (device->batch.nranges + 1));
    free(counts);
}

/* The list contains all escapes that fit, each once. */
static void
check_list(struct device *device, const uint16_t *symbols)
{
    const uint64_t *list = of_region<uint64_t>(device, device->batch.at.tune);
    uint64_t nvalues = device->batch.nvalues;
    uint8_t *seen = (uint8_t *)calloc(nvalues + 1, 1);
    unsigned n = 0, nlisted = device->chunk.progress[CUDA_PROGRESS_LISTED];

    for (uint64_t i = 0; i < nvalues; i++)
        n += symbols[i] == TERP_ESCAPE;
    bool listed = escapes_are_listed(device->batch, device->chunk);
    assert_int_equal(nlisted, listed ? n : 0);
    for (unsigned i = 0; i < nlisted && i < CUDA_MAX_NLISTED; i++) {
        assert_true(list[i] < nvalues && !seen[list[i]]);
        assert_int_equal(symbols[list[i]], TERP_ESCAPE);
        seen[list[i]] = 1;
    }
    free(seen);
}

/* `symbols` is NULL in context order, where nothing is recorded. */
static void
check_noted(struct device *device, enum terp_prediction prediction,
            const uint16_t *symbols)
{
    uint16_t *ordered = (uint16_t *)malloc(2 * device->batch.nvalues);

    if (symbols == NULL) {
        memset(ordered, 0xFF, 2 * device->batch.nvalues);
        check_ranges(device, ordered);
        assert_int_equal(device->chunk.progress[CUDA_PROGRESS_LISTED], 0);
        free(ordered);
        return;
    }
    terp_cpu_order_tiles(NULL, &device->layout, prediction, symbols, ordered,
                         false);
    check_ranges(device, ordered);
    check_list(device, symbols);
    free(ordered);
}

/* The symbols of a chunk of the device's batch. */
static const uint16_t *
decoded_symbols(const struct cuda_batch *batch, int chunk)
{
    return (const uint16_t *)(batch->d_scratch +
                              (uint64_t)chunk * batch->at.stride +
                              (is_in_context_order(batch->d_chunks[chunk])
                                   ? batch->at.coded
                                   : batch->at.symbols));
}

static bool
any_is_reduced(struct device *device)
{
    const uint8_t *reduced =
        of_region<uint8_t>(device, device->batch.at.reduced);
    bool any = false;

    for (uint64_t p = 0; p < device->batch.npartitions; p++)
        any |= reduced[p] != 0;
    return any;
}

/* Both engines read the stream. Returns their status. Reduced partitions of
 * ratio, which no encoder makes, are left to the CPU. */
static enum terp_status
check_stream(struct device *device, const struct terp_frame *frame,
             const uint8_t *stream, uint64_t nbytes)
{
    uint64_t nvalues = device->batch.nvalues;
    uint16_t *symbols = (uint16_t *)malloc(2 * nvalues);
    enum terp_status expected =
        cpu_read(frame, stream, nbytes, device->batch.frame_nbytes, symbols);

    enum terp_status st = device_read(device, frame, stream, nbytes, true);
    const bool in_context_order = is_in_context_order(device->chunk);

    if (st == TERP_ERR_DEVICE) {
        assert_int_equal(frame->coding, TERP_CODING_RATIO);
        assert_true(any_is_reduced(device));
    } else {
        assert_int_equal(st, expected);
    }
    if (st == TERP_OK) {
        assert_memory_equal(symbols, decoded_symbols(&device->batch, 0),
                            2 * nvalues);
        check_noted(device, frame->prediction,
                    in_context_order ? NULL : symbols);
    }
    free(symbols);
    return st;
}

/* ---- streams of given symbols ---- */

struct stream {
    struct terp_frame frame;
    uint8_t *bytes;
    uint64_t nbytes, frame_nbytes, tiles_at;
};

/* A frame, a model of lorenzo, no specials, no escapes. Readers ignore words of
 * escapes. */
static struct stream
begin_stream(enum terp_coding coding, uint64_t nsymbols, uint64_t cap_nbytes,
             struct writer *writer_ret)
{
    struct stream stream = {};
    struct writer writer;

    stream.frame.chunk.type = TERP_FLOAT32;
    stream.frame.chunk.rank = 1;
    stream.frame.chunk.dims[0] = nsymbols;
    stream.frame.domain = stream.frame.chunk;
    stream.frame.coding = coding;
    stream.frame.prediction = TERP_PREDICTION_LORENZO;
    stream.frame.bound = 1;
    stream.frame_nbytes = (uint64_t)terp_frame_nbytes(&stream.frame);
    stream.bytes = (uint8_t *)calloc(1, cap_nbytes);
    terp_frame_write(&stream.frame, stream.bytes);
    writer = {stream.bytes + stream.frame_nbytes, stream.bytes + cap_nbytes,
              false};
    write_le(&writer, 12, 1);
    write_le(&writer, 1, 1);
    write_uleb(&writer, 0);
    stream.tiles_at = (uint64_t)(writer.at - stream.bytes);
    *writer_ret = writer;
    return stream;
}

static struct stream
stream_of_symbols(enum terp_coding coding, const uint16_t *symbols,
                  uint64_t nsymbols)
{
    struct writer writer;
    struct stream stream =
        begin_stream(coding, nsymbols, 4 * nsymbols + 4096, &writer);

    assert_int_equal(
        terp_cpu_tiles_encode(NULL, coding, symbols, nsymbols, NULL, &writer),
        TERP_OK);
    stream.nbytes = (uint64_t)(writer.at - stream.bytes);
    return stream;
}

/* Codes of about so many bits, with one escape in `every` (0: none). One tile
 * in `sparse` has codes other than 0. */
static uint16_t *
make_symbols(uint64_t nsymbols, int nbits, uint64_t every, uint64_t sparse)
{
    uint16_t *symbols = (uint16_t *)malloc(2 * nsymbols);

    for (uint64_t i = 0; i < nsymbols; i++) {
        uint64_t random = random_below(UINT64_C(1) << 40);
        int zeros = random >> 20 == 0 ? 40 : __builtin_ctzll(random >> 20);
        int code = (int)(random % (1u << nbits)) * (zeros + 1) >> nbits / 2;
        code = zeros < 3 && nbits < 3 ? 0 : code;
        code = code > TERP_MAX_CODE ? TERP_MAX_CODE : code;
        symbols[i] =
            (uint16_t)(TERP_RADIUS + (random >> 19 & 1 ? -code : code));
        if (every > 0 && random_below(every) == 0)
            symbols[i] = TERP_ESCAPE;
        if (i / TERP_TILE_NSYMBOLS % sparse != 0)
            symbols[i] = TERP_RADIUS;
    }
    return symbols;
}

static const enum terp_coding codings[] = {TERP_CODING_HUFFMAN,
                                           TERP_CODING_RATIO};

static void
check_symbols(enum terp_coding coding, const uint16_t *symbols, uint64_t n)
{
    struct stream stream = stream_of_symbols(coding, symbols, n);
    struct device device;

    device_make(&stream.frame.chunk, coding == TERP_CODING_RATIO, &device);
    assert_int_equal(
        check_stream(&device, &stream.frame, stream.bytes, stream.nbytes),
        TERP_OK);
    assert_memory_equal(symbols, decoded_symbols(&device.batch, 0), 2 * n);
    device_free(&device);
    free(stream.bytes);
}

static void
symbols_come_back(void **state)
{
    static const uint64_t sizes[] = {1,    2,    63,    64,    100,  4095,
                                     4096, 4097, 12000, 65536, 70001};
    (void)state;
    for (enum terp_coding coding : codings)
        for (uint64_t n : sizes)
            for (int nbits = 0; nbits <= 10; nbits++) {
                if (!terp_case_taken(2))
                    continue;
                uint16_t *symbols = make_symbols(n, nbits, n % 2 ? 50 : 0, 1);
                check_symbols(coding, symbols, n);
                free(symbols);
            }
}

static void
many_tiles_come_back(void **state)
{
    static const uint64_t ntiles[] = {600, 511, 130};

    (void)state;
    for (enum terp_coding coding : codings)
        for (uint64_t sparse = 3; sparse < 200; sparse += 61)
            for (uint64_t tiles : ntiles) {
                if (!terp_case_taken(2))
                    continue;
                const uint64_t n = tiles * TERP_TILE_NSYMBOLS - 5;
                uint16_t *symbols = make_symbols(n, 2, 5000, sparse);
                check_symbols(coding, symbols, n);
                free(symbols);
            }
}

/* A single symbol has a word of one bit; if there are all symbols, each has a
 * long word. */
static void
extreme_codebooks_come_back(void **state)
{
    const uint64_t n = 9000;
    uint16_t *symbols = (uint16_t *)malloc(2 * n);

    (void)state;
    for (unsigned symbol = 0; symbol < TERP_NSYMBOLS; symbol += 341) {
        for (uint64_t i = 0; i < n; i++)
            symbols[i] = (uint16_t)symbol;
        check_symbols(TERP_CODING_HUFFMAN, symbols, n);
        check_symbols(TERP_CODING_RATIO, symbols, n);
    }
    for (uint64_t i = 0; i < n; i++)
        symbols[i] = (uint16_t)(i % TERP_NSYMBOLS);
    check_symbols(TERP_CODING_HUFFMAN, symbols, n);
    check_symbols(TERP_CODING_RATIO, symbols, n);
    free(symbols);
}

/* ---- tiles of tokens ---- */

/* A stream of ratio with a single tile. */
struct token_tile {
    int entry;
    bool reduced; /* the tile's partition */
    unsigned nsymbols;
    uint64_t nbytes;
    uint8_t bytes[TERP_TOKENS_MAX_NBYTES + CPU_OUTPUT_PADDING_NBYTES];
};

static struct stream
stream_of_tile(const struct token_tile *tile)
{
    const uint64_t cap_nbytes = 2 * TERP_TOKENS_MAX_NBYTES;
    uint8_t *payload = (uint8_t *)malloc(cap_nbytes);
    uint8_t *scratch =
        (uint8_t *)malloc(terp_reduce_scratch_nbytes(cap_nbytes));
    struct writer packed = {payload, payload + cap_nbytes, false}, writer;
    struct cpu_tile_index index;
    struct stream stream = begin_stream(TERP_CODING_RATIO, tile->nsymbols,
                                        cap_nbytes + 4096, &writer);

    assert_int_equal(terp_cpu_tile_index_make(tile->nsymbols, &index), TERP_OK);
    index.nonzero[0] = 1;
    index.entry[0] = (uint8_t)tile->entry;
    index.nbytes[0] = (uint16_t)tile->nbytes;
    index.reduced[0] = tile->reduced;
    if (tile->reduced)
        terp_reduce_write(&packed, tile->bytes, tile->nbytes, scratch);
    else
        memcpy(writer_take(&packed, tile->nbytes), tile->bytes, tile->nbytes);
    index.begin[1] = (uint64_t)(packed.at - payload);
    terp_cpu_tile_index_write_nonzero(&writer, &index);
    terp_cpu_entries_write(&writer, &index);
    terp_cpu_tile_index_write_places(&writer, &index, TERP_CODING_RATIO);
    memcpy(writer_take(&writer, index.begin[1]), payload, index.begin[1]);
    stream.nbytes = (uint64_t)(writer.at - stream.bytes);
    terp_cpu_tile_index_free(&index);
    free(payload);
    free(scratch);
    return stream;
}

static enum terp_status
check_tile(const struct token_tile *tile)
{
    struct stream stream = stream_of_tile(tile);
    struct device device;

    device_make(&stream.frame.chunk, true, &device);
    enum terp_status st =
        check_stream(&device, &stream.frame, stream.bytes, stream.nbytes);
    device_free(&device);
    free(stream.bytes);
    return st;
}

/* Tokens of all classes of codes, and of runs up to a class. */
static void
make_token_tile(int entry, unsigned max_run_class, struct token_tile *tile)
{
    uint16_t symbols[TERP_TILE_NSYMBOLS];
    struct cpu_token_codebook codebook;
    uint8_t lengths[TERP_NSYMBOLS];
    unsigned at = 0;

    tile->entry = entry;
    tile->nsymbols = TERP_TILE_NSYMBOLS - (unsigned)random_below(3);
    for (unsigned i = 0; i < TERP_TILE_NSYMBOLS; i++)
        symbols[i] = TERP_RADIUS;
    for (;;) {
        unsigned run = (unsigned)random_below(max_run_class + 1);
        unsigned code = (unsigned)random_below(TERP_NCODE_CLASSES);
        int run_nbits = terp_class_nbits(run, TERP_RUN_SINGLES_LOG2);
        int nbits = terp_class_nbits(code, TERP_CODE_SINGLES_LOG2);
        int magnitude =
            1 + (int)(terp_class_first(code, TERP_CODE_SINGLES_LOG2) +
                      random_below(UINT64_C(1) << nbits));
        magnitude = magnitude > TERP_MAX_CODE ? TERP_MAX_CODE : magnitude;
        at += terp_class_first(run, TERP_RUN_SINGLES_LOG2) +
              (unsigned)random_below(UINT64_C(1) << run_nbits);
        if (at >= tile->nsymbols)
            break;
        symbols[at++] =
            code == TERP_CODE_CLASS_ESCAPE
                ? TERP_ESCAPE
                : (uint16_t)(TERP_RADIUS +
                             (random_below(2) == 0 ? magnitude : -magnitude));
    }
    symbols[random_below(tile->nsymbols)] = TERP_RADIUS - 1;
    terp_cpu_entry_lengths(TERP_CODING_RATIO, entry, lengths);
    terp_cpu_token_encode_table_make(lengths, &codebook);
    tile->nbytes = terp_cpu_tokens_encode(&tokens, &codebook, symbols,
                                          tile->nsymbols, tile->bytes);
}

static void
tokens_of_any_entry_come_back(void **state)
{
    struct token_tile tile = {};
    uint64_t longest = 0;

    (void)state;
    for (int entry = 0; entry < TERP_NENTRIES; entry++)
        for (unsigned run = 0; run < TERP_NRUN_CLASSES; run += 3) {
            make_token_tile(entry, run, &tile);
            assert_int_equal(check_tile(&tile), TERP_OK);
            longest = tile.nbytes > longest ? tile.nbytes : longest;
        }
    /* Longer than in other codings. */
    assert_true(longest > TERP_CODEWORDS_MAX_NBYTES);
}

/* The tile's last byte is filled up with ones. Eight ones would be the
 * beginning of a word. */
static void
padding_of_tokens_is_checked(void **state)
{
    struct token_tile tile = {};
    uint64_t naccepted = 0;

    (void)state;
    for (int entry = 0; entry < TERP_NENTRIES; entry++) {
        make_token_tile(entry, 5, &tile);
        tile.bytes[tile.nbytes++] = 0xFF;
        assert_int_equal(check_tile(&tile), TERP_ERR_CORRUPT);
        tile.nbytes--;
        for (unsigned bit = 0; bit < 8; bit++) {
            tile.bytes[tile.nbytes - 1] ^= (uint8_t)(1 << bit);
            naccepted += check_tile(&tile) == TERP_OK;
            tile.bytes[tile.nbytes - 1] ^= (uint8_t)(1 << bit);
        }
    }
    assert_in_range(naccepted, TERP_NENTRIES / 2, 5 * TERP_NENTRIES);
}

static void
reduced_tokens_are_left_to_the_cpu(void **state)
{
    struct token_tile tile = {};

    (void)state;
    tile.reduced = true;
    make_token_tile(7, 5, &tile);
    assert_int_equal(check_tile(&tile), TERP_ERR_DEVICE);
}

/* Random bytes, also with tokens for the right number of symbols. */
static void
tiles_of_any_bytes_are_read_as_by_the_cpu(void **state)
{
    struct token_tile tile = {};
    uint64_t naccepted = 0, ntried = 0;

    (void)state;
    for (int i = 0; i < 3000; i++) {
        if (!terp_case_taken(2))
            continue;
        ntried++;
        tile.entry = (int)random_below(TERP_NENTRIES);
        tile.nbytes = 1 + random_below(i % 2 == 0 ? 8 : 300);
        tile.nsymbols =
            1 + (unsigned)random_below(i % 3 == 0 ? 40 : TERP_TILE_NSYMBOLS);
        for (uint64_t k = 0; k < tile.nbytes; k++)
            tile.bytes[k] = (uint8_t)random_below(256);
        if (i % 4 != 0)
            tile.bytes[tile.nbytes - 1] |= (1 << random_below(8)) - 1;
        naccepted += check_tile(&tile) == TERP_OK;
    }
    assert_in_range(naccepted, ntried / 10, ntried - ntried / 10);
}

/* ---- batches ---- */

/* Enough tiles that a block decodes several, in chunks of different codings,
 * one of them cut, one that failed before. */
static void
chunks_of_a_batch_are_read_apart(void **state)
{
    enum {
        NCODINGS = sizeof codings / sizeof codings[0],
        NCHUNKS = 15,
        CUT = 4,
        FAILED = 7
    };
    const uint64_t n = 600 * TERP_TILE_NSYMBOLS - 5000;
    struct cuda_chunk chunks[NCHUNKS];
    struct stream streams[NCODINGS];
    uint16_t *symbols[NCODINGS];
    struct device device;

    (void)state;
    for (int i = 0; i < NCODINGS; i++) {
        symbols[i] = make_symbols(n, 3, 3000, 7);
        streams[i] = stream_of_symbols(codings[i], symbols[i], n);
    }
    device_make(&streams[0].frame.chunk, true, &device);
    device_free(&device);
    struct cuda_batch *batch = &device.batch;
    batch->d_scratch =
        (uint8_t *)aligned_alloc(256, NCHUNKS * batch->at.stride);
    assert_non_null(batch->d_scratch);
    batch->d_chunks = batch->h_chunks = chunks;
    batch->nchunks = NCHUNKS;
    for (int i = 0; i < NCHUNKS; i++) {
        const struct stream *stream = &streams[i % NCODINGS];
        chunk_start(&chunks[i], &stream->frame, stream->bytes,
                    stream->nbytes - (i == CUT));
        memset(batch->d_scratch + (uint64_t)i * batch->at.stride, 0,
               batch->at.stride);
    }
    chunks[FAILED].status = TERP_ERR_CHECKSUM;
    assert_int_equal(cuda_model_read(batch, NULL), cudaSuccess);
    assert_int_equal(cuda_tiles_decode(batch, NULL), cudaSuccess);
    for (int i = 0; i < NCHUNKS; i++) {
        assert_int_equal(chunks[i].status, i == CUT      ? TERP_ERR_CORRUPT
                                           : i == FAILED ? TERP_ERR_CHECKSUM
                                                         : TERP_OK);
        if (i != CUT && i != FAILED)
            assert_memory_equal(decoded_symbols(batch, i),
                                symbols[i % NCODINGS], 2 * n);
    }
    for (int i = 0; i < NCODINGS; i++) {
        free(symbols[i]);
        free(streams[i].bytes);
    }
    device_free(&device);
}

/* ---- hostile streams ---- */

/* Changes every byte before the payload, and as many behind. */
static uint64_t
check_mutations(struct device *device, const struct terp_frame *frame,
                const uint8_t *stream, uint64_t nbytes, uint64_t nmutations)
{
    uint64_t first = device->batch.frame_nbytes, nrefused = 0;
    uint8_t *mutant = (uint8_t *)malloc(nbytes);

    for (uint64_t i = 0; i < nmutations; i++) {
        uint64_t body = nbytes - first, n = nbytes;
        memcpy(mutant, stream, nbytes);
        uint64_t at =
            first + random_below(i % 2 == 0 ? body : min_u64(body, 160));
        switch (i % 5) {
        case 0:
            n = at; /* truncated */
            break;
        case 1:
            mutant[at] = (uint8_t)random_below(256);
            break;
        default:
            mutant[at] ^= (uint8_t)(1 << random_below(8));
        }
        nrefused += check_stream(device, frame, mutant, n) != TERP_OK;
    }
    free(mutant);
    return nrefused;
}

static void
damaged_tiles_are_refused_as_by_the_cpu(void **state)
{
    (void)state;
    for (enum terp_coding coding : codings)
        for (int nbits = 1; nbits <= 9; nbits += 4) {
            if (!terp_case_taken(2))
                continue;
            uint16_t *symbols = make_symbols(70000, nbits, 900, 2);
            struct stream stream = stream_of_symbols(coding, symbols, 70000);
            struct device device;
            device_make(&stream.frame.chunk, coding == TERP_CODING_RATIO,
                        &device);
            uint64_t nrefused = check_mutations(
                &device, &stream.frame, stream.bytes, stream.nbytes, 75);
            assert_in_range(nrefused, 20, 74);
            device_free(&device);
            free(stream.bytes);
            free(symbols);
        }
}

/* ---- streams of the codec ---- */

struct variant {
    enum terp_type type;
    bool stack;
    int rank;
    uint64_t dims[TERP_MAX_RANK];
    enum terp_field field;
    enum terp_pipeline pipeline;
    enum terp_predictor predictor;
    double bound; /* relative */
};

static const struct variant variants[] = {
    {TERP_FLOAT32,
     false,
     1,
     {5000},
     TERP_FIELD_ROUGH,
     TERP_PIPELINE_HUFFMAN,
     TERP_PREDICTOR_SPLINE,
     1e-3},
    {TERP_FLOAT64,
     false,
     2,
     {70, 90},
     TERP_FIELD_GAPS,
     TERP_PIPELINE_HUFFMAN,
     TERP_PREDICTOR_SPLINE,
     1e-4},
    {TERP_FLOAT32,
     false,
     3,
     {33, 20, 40},
     TERP_FIELD_OUTLIERS,
     TERP_PIPELINE_HUFFMAN,
     TERP_PREDICTOR_SPLINE,
     3e-3},
    {TERP_FLOAT32,
     true,
     4,
     {3, 20, 1, 31},
     TERP_FIELD_NOISE,
     TERP_PIPELINE_HUFFMAN,
     TERP_PREDICTOR_SPLINE,
     1e-3},
    {TERP_FLOAT64,
     false,
     4,
     {9, 10, 11, 12},
     TERP_FIELD_COAST,
     TERP_PIPELINE_HUFFMAN,
     TERP_PREDICTOR_LORENZO,
     1e-7},
    {TERP_FLOAT32,
     false,
     3,
     {40, 40, 40},
     TERP_FIELD_SMOOTH,
     TERP_PIPELINE_HUFFMAN,
     TERP_PREDICTOR_SPLINE,
     1e-2},
    {TERP_FLOAT32,
     false,
     2,
     {100, 64},
     TERP_FIELD_SPIKES,
     TERP_PIPELINE_HUFFMAN,
     TERP_PREDICTOR_LORENZO,
     1e-3},
    {TERP_FLOAT32,
     false,
     3,
     {40, 50, 30},
     TERP_FIELD_ROUGH,
     TERP_PIPELINE_RATIO,
     TERP_PREDICTOR_SPLINE,
     1e-3},
    {TERP_FLOAT64,
     true,
     3,
     {5, 70, 60},
     TERP_FIELD_OUTLIERS,
     TERP_PIPELINE_RATIO,
     TERP_PREDICTOR_SPLINE,
     1e-4},
    {TERP_FLOAT32,
     false,
     2,
     {100, 90},
     TERP_FIELD_SPIKES,
     TERP_PIPELINE_RATIO,
     TERP_PREDICTOR_LORENZO,
     1e-3},
    {TERP_FLOAT32,
     false,
     3,
     {40, 50, 31},
     TERP_FIELD_ROUGH,
     TERP_PIPELINE_RATIO,
     TERP_PREDICTOR_SPLINE,
     1e-6},
    {TERP_FLOAT32,
     false,
     3,
     {40, 50, 91},
     TERP_FIELD_NOISE,
     TERP_PIPELINE_HUFFMAN,
     TERP_PREDICTOR_LORENZO,
     1e-5},
};

static struct stream
stream_of_variant(const struct variant *variant)
{
    struct stream stream = {};
    struct terp_params params = {};
    struct terp_chunk chunk = {};
    int frame_nbytes;

    chunk.type = variant->type;
    chunk.stack = variant->stack;
    chunk.rank = variant->rank;
    memcpy(chunk.dims, variant->dims, sizeof chunk.dims);
    params.bound_mode = TERP_BOUND_RELATIVE;
    params.bound = variant->bound;
    params.pipeline = variant->pipeline;
    params.predictor = variant->predictor;
    params.effort = TERP_EFFORT_FAST; /* the domain is the chunk's shape */
    uint64_t nbytes = terp_chunk_nbytes(&chunk);
    uint8_t *values = (uint8_t *)malloc(nbytes);
    terp_field_make(variant->field, &chunk, values);
    stream.bytes = (uint8_t *)malloc(nbytes + TERP_MAX_FRAME_NBYTES);
    const struct terp_cpu_call call = {&terp_cpu_baseline, 1, NULL};
    const struct terp_coder coder = terp_coder_open(&call, 1);
    const void *src = values;
    void *dst = stream.bytes;
    struct terp_batch batch = {};
    batch.source.chunk = &chunk;
    batch.source.params = &params;
    batch.source.is_part = true; /* no prefixes */
    batch.source.n = 1;
    batch.source.src = &src;
    batch.dst = &dst;
    batch.nbytes = &stream.nbytes;
    assert_int_equal(terp_values_encode(&coder, &batch), TERP_OK);
    assert_true(stream.nbytes > 0);
    terp_coder_close(&coder);
    assert_int_equal(terp_frame_read(stream.bytes, stream.nbytes, &stream.frame,
                                     &frame_nbytes),
                     TERP_OK);
    stream.frame_nbytes = (uint64_t)frame_nbytes;
    free(values);
    return stream;
}

static void
streams_are_read_as_by_the_cpu(void **state)
{
    int nwide = 0;

    (void)state;
    for (const struct variant &variant : variants) {
        struct stream stream = stream_of_variant(&variant);
        struct device device;
        device_make(&stream.frame.chunk, true, &device);
        assert_int_equal(
            check_stream(&device, &stream.frame, stream.bytes, stream.nbytes),
            TERP_OK);
        /* The other facts about the chunk. */
        struct terp_info info = {};
        struct terp_usual_fills fills = {};
        terp_cpu_inspect(&stream.frame, stream.bytes + stream.frame_nbytes,
                         stream.nbytes - stream.frame_nbytes, &info, &fills);
        const struct cuda_chunk *chunk = &device.chunk;
        const uint8_t *model = stream.bytes + stream.frame_nbytes;
        assert_true(chunk->nescapes == info.nescapes);
        struct specials_head head = {};
        if (stream.frame.has_specials)
            specials_read_head(stream.bytes, chunk->model_end,
                               chunk->specials_end, &device.layout, &head);
        assert_true(head.mask_delta_distance > 0 ||
                    chunk->nspecials == info.nspecials);
        const int step_slack_log2 = model[0] & TERP_STEP_SLACK;
        const int wide = model[0] >> TERP_WIDE_SHIFT;
        assert_int_equal(chunk->model.step_slack_log2, step_slack_log2);
        assert_int_equal(chunk->model.wide, wide);
        nwide += wide > 0;
        assert_true(chunk->model.step ==
                    terp_step_of(stream.frame.bound, step_slack_log2));
        if (stream.frame.prediction == TERP_PREDICTION_LORENZO) {
            assert_int_equal(chunk->model.lorenzo_dims, model[1]);
        } else {
            double reference = double_of_bits(load_le(model + 1, 8));
            float narrow;
            memcpy(&narrow, model + 1, sizeof narrow);
            if (variant.type == TERP_FLOAT32)
                reference = (double)narrow;
            assert_true(chunk->model.reference == reference);
            const uint8_t *plan = model + 1 + device.batch.value_nbytes;
            for (int l = device.layout.nlevels; l >= 1; l--, plan += 2) {
                struct terp_level_plan expected;
                terp_plan_load(plan, &expected);
                assert_memory_equal(&chunk->model.plan[l], &expected,
                                    sizeof expected);
            }
        }
        device_free(&device);
        free(stream.bytes);
    }
    assert_true(nwide >= 3);
}

static void
damaged_streams_are_refused_as_by_the_cpu(void **state)
{
    (void)state;
    for (const struct variant &variant : variants) {
        if (!terp_case_taken(2))
            continue;
        struct stream stream = stream_of_variant(&variant);
        struct device device;
        device_make(&stream.frame.chunk, true, &device);
        uint64_t nrefused = check_mutations(&device, &stream.frame,
                                            stream.bytes, stream.nbytes, 100);
        assert_in_range(nrefused, 20, 99);
        device_free(&device);
        free(stream.bytes);
    }
}

/* Constant streams, with specials and without, and with one byte too many or
 * too few. */
static void
constant_streams_are_read_and_end(void **state)
{
    static const uint8_t value[4] = {0, 0, 0xC0, 0x3F};
    struct terp_frame frame = {};
    struct terp_layout layout;
    struct device device;
    uint8_t stream[256] = {0};
    uint64_t specials[16] = {0};
    float values[1000] = {0};

    (void)state;
    frame.chunk.type = TERP_FLOAT32;
    frame.chunk.rank = 1;
    frame.chunk.dims[0] = 1000;
    frame.domain = frame.chunk;
    frame.coding = TERP_CODING_CONSTANT;
    terp_layout_make(&frame.chunk, &layout);
    device_make(&frame.chunk, false, &device);
    for (int has_specials = 0; has_specials < 2; has_specials++) {
        struct writer writer = {stream + terp_frame_nbytes(&frame),
                                stream + sizeof stream, false};
        memcpy(writer_take(&writer, 4), value, 4);
        frame.has_specials = has_specials;
        specials[3] = 0xFF0;
        if (has_specials)
            terp_cpu_specials_write(&writer, specials, values, &layout, 4);
        uint64_t nbytes = (uint64_t)(writer.at - stream);
        assert_int_equal(device_read(&device, &frame, stream, nbytes, true),
                         TERP_OK);
        assert_true(device.chunk.constant_bits == 0x3FC00000);
        assert_true(device.chunk.nspecials == (has_specials ? 8 : 0));
        assert_true(device.chunk.specials_end == nbytes);
        assert_int_equal(device_read(&device, &frame, stream, nbytes - 1, true),
                         TERP_ERR_CORRUPT);
        assert_int_equal(device_read(&device, &frame, stream, nbytes + 1, true),
                         TERP_ERR_CORRUPT);
    }
    device_free(&device);
}

/* ---- long indexes ---- */

/* More tiles than a bit map in shared memory holds. Payloads are not
 * decoded. */
static void
long_index_is_read_as_by_the_cpu(void **state)
{
    const uint64_t ntiles = 70001;
    struct terp_frame frame = {};
    struct cpu_tile_index index;
    struct device device;
    uint64_t cap_nbytes = 4 << 20, npayload_nbytes = 0;

    (void)state;
    frame.chunk.type = TERP_FLOAT32;
    frame.chunk.rank = 1;
    frame.chunk.dims[0] = ntiles * TERP_TILE_NSYMBOLS - 77;
    frame.domain = frame.chunk;
    frame.coding = TERP_CODING_HUFFMAN;
    frame.prediction = TERP_PREDICTION_LORENZO;
    frame.bound = 1;
    assert_int_equal(terp_cpu_tile_index_make(frame.chunk.dims[0], &index),
                     TERP_OK);
    for (uint64_t i = 0; i < ntiles; i++) {
        if (random_below(3) == 0 || i / 1000 % 2 == 0)
            continue;
        index.nonzero[i / 8] |= (uint8_t)(1u << (i % 8));
        index.nbytes[i] = (uint16_t)(512 + random_below(i % 100 + 1));
        index.begin[i / TERP_PARTITION_NTILES + 1] += index.nbytes[i];
    }
    for (uint64_t p = 0; p < index.npartitions; p++)
        index.begin[p + 1] += index.begin[p];
    npayload_nbytes = index.begin[index.npartitions];
    uint8_t *stream = (uint8_t *)calloc(1, cap_nbytes + npayload_nbytes);
    struct writer writer = {stream + terp_frame_nbytes(&frame),
                            stream + cap_nbytes, false};
    write_le(&writer, 12, 1);
    write_le(&writer, 1, 1);
    write_uleb(&writer, 0);
    terp_cpu_tile_index_write_nonzero(&writer, &index);
    write_le(&writer, 1, 1); /* all tiles use this entry */
    write_le(&writer, 9, 1);
    terp_cpu_tile_index_write_places(&writer, &index, TERP_CODING_HUFFMAN);
    assert_false(writer.overflow);
    uint64_t payload_at = (uint64_t)(writer.at - stream);

    device_make(&frame.chunk, false, &device);
    assert_int_equal(device_read(&device, &frame, stream,
                                 payload_at + npayload_nbytes, false),
                     TERP_OK);
    assert_true(device.chunk.payload_at == payload_at);
    const struct cuda_regions *at = &device.batch.at;
    assert_memory_equal(of_region<uint8_t>(&device, at->nbytes), index.nbytes,
                        2 * ntiles);
    assert_memory_equal(of_region<uint8_t>(&device, at->begin), index.begin,
                        8 * (index.npartitions + 1));
    assert_memory_equal(of_region<uint8_t>(&device, at->reduced), index.reduced,
                        index.npartitions);
    for (uint64_t i = 0; i < ntiles; i++)
        assert_int_equal(of_region<uint8_t>(&device, at->nonzero)[i],
                         bit_at(index.nonzero, i));
    assert_int_equal(device_read(&device, &frame, stream,
                                 payload_at + npayload_nbytes - 1, false),
                     TERP_ERR_CORRUPT);
    device_free(&device);
    terp_cpu_tile_index_free(&index);
    free(stream);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(symbols_come_back),
        cmocka_unit_test(many_tiles_come_back),
        cmocka_unit_test(extreme_codebooks_come_back),
        cmocka_unit_test(tokens_of_any_entry_come_back),
        cmocka_unit_test(padding_of_tokens_is_checked),
        cmocka_unit_test(reduced_tokens_are_left_to_the_cpu),
        cmocka_unit_test(tiles_of_any_bytes_are_read_as_by_the_cpu),
        cmocka_unit_test(chunks_of_a_batch_are_read_apart),
        cmocka_unit_test(streams_are_read_as_by_the_cpu),
        cmocka_unit_test(constant_streams_are_read_and_end),
        cmocka_unit_test(long_index_is_read_as_by_the_cpu),
        cmocka_unit_test(damaged_tiles_are_refused_as_by_the_cpu),
        cmocka_unit_test(damaged_streams_are_refused_as_by_the_cpu),
    };
    cuda_decode_tables_fill(tables);
    cuda_token_decode_tables_fill(token_tables);
    terp_cpu_tokens_make(&tokens);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
