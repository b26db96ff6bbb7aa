/* From symbols to sealed streams on the device. Compares every byte with the
 * CPU engine, and the checksum with xxHash. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/entropy/tokens_encode.cuh"
#include "gpu/sections/index.cuh"

extern "C" {
#include "codec/format/huffman.h"
#include "cpu/entropy/codewords.h"
#include "cpu/entropy/tiles.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/fields.h"
}

/* A batch: one chunk to encode, one that was given up, one that another engine
 * encodes. Their streams begin at any byte. */
#define NCHUNKS 3
#define GUARD_NBYTES 32
#define GUARD 0x5C

struct bench {
    struct cuda_batch batch;
    struct cuda_chunk *chunk;
    uint16_t *symbols; /* the CPU's */
    uint8_t *values;
    uint8_t *dst;
    uint64_t dst_stride;
    uint8_t *expected;
    uint64_t expected_nbytes;
};

static void *
device_memory(uint64_t nbytes)
{
    void *memory;
    assert_int_equal(cudaMalloc(&memory, nbytes), cudaSuccess);
    return memory;
}

static struct terp_huffman_work work;

static uint64_t
place_region(uint64_t *end, uint64_t nbytes)
{
    uint64_t at = *end;
    *end += (nbytes + 255) / 256 * 256;
    return at;
}

static struct terp_frame
frame_of(const struct cuda_batch *batch, enum terp_coding coding)
{
    struct terp_frame frame = {};
    frame.chunk = batch->chunk;
    frame.coding = coding;
    return frame;
}

static void
make_bench(struct bench *b, enum terp_type type, enum terp_coding coding,
           uint64_t nvalues)
{
    static struct terp_layout layout;
    struct cuda_batch *batch = &b->batch;
    uint64_t end = 0;

    memset(b, 0, sizeof *b);
    batch->nchunks = NCHUNKS;
    batch->chunk.type = type;
    batch->chunk.rank = 1;
    batch->chunk.dims[0] = nvalues;
    batch->coding = coding;
    batch->value_nbytes = batch->carrier_nbytes = batch->own_nbytes =
        type == TERP_FLOAT32 ? 4 : 8;
    struct terp_frame frame = frame_of(batch, TERP_CODING_RAW);
    batch->raw_nbytes = (uint64_t)terp_frame_nbytes(&frame) +
                        nvalues * (uint64_t)batch->value_nbytes;
    frame.coding = TERP_CODING_HUFFMAN;
    batch->frame_nbytes = (uint64_t)terp_frame_write(&frame, batch->frame);
    batch->model_at = batch->frame_nbytes;
    batch->dims_end = batch->frame_nbytes - sizeof(double);
    terp_layout_make(&batch->chunk, &layout);
    batch->h_layout = batch->d_layout = &layout;
    batch->nvalues = nvalues;
    batch->ntiles = div_up(nvalues, TERP_TILE_NSYMBOLS);
    batch->npartitions = div_up(batch->ntiles, TERP_PARTITION_NTILES);
    batch->at.frequency = place_region(&end, 8 * TERP_NSYMBOLS);
    batch->at.zeroed_nbytes = end;
    batch->at.work =
        place_region(&end, nvalues * (uint64_t)batch->value_nbytes);
    batch->at.symbols = place_region(&end, 2 * nvalues);
    batch->at.coded = place_region(&end, 2 * nvalues);
    batch->at.cost = place_region(&end, 4 * TERP_NENTRIES * batch->ntiles);
    batch->at.entry = place_region(&end, batch->ntiles);
    batch->at.nonzero = place_region(&end, batch->ntiles);
    batch->at.nbytes = place_region(&end, 2 * batch->ntiles);
    batch->at.begin = place_region(&end, 8 * (batch->npartitions + 1));
    batch->at.reduced = place_region(&end, batch->npartitions);
    batch->at.staging =
        place_region(&end, batch->npartitions * TERP_PARTITION_NTILES *
                               terp_tile_max_nbytes(coding));
    batch->at.codebook = place_region(&end, 32 << 10);
    batch->at.stride = end;
    batch->d_scratch = (uint8_t *)device_memory(end * NCHUNKS);
    batch->tables.d_code_nbits = &terp_entry_code_nbits[0][0];
    uint32_t *words =
        (uint32_t *)device_memory(4 * TERP_NENTRIES * TERP_NSYMBOLS);
    cuda_codewords_fill(words);
    batch->tables.d_codewords = words;
    batch->tables.d_token_nbits = &terp_entry_token_nbits[0][0];
    words = (uint32_t *)device_memory(4 * TERP_NENTRIES * TERP_NTOKENS);
    cuda_token_codewords_fill(words);
    batch->tables.d_token_codewords = words;
    words = (uint32_t *)device_memory(4 * TOKEN_NPARTS);
    cuda_token_parts_fill(words);
    batch->tables.d_token_parts = words;

    b->chunk = (struct cuda_chunk *)device_memory(NCHUNKS * sizeof *b->chunk);
    batch->d_chunks = b->chunk;
    b->symbols = (uint16_t *)malloc(2 * nvalues);
    b->values = (uint8_t *)malloc(nvalues * (uint64_t)batch->value_nbytes);
    b->expected = (uint8_t *)malloc(batch->raw_nbytes);
    for (uint64_t i = 0; i < nvalues * (uint64_t)batch->value_nbytes; i++)
        b->values[i] = (uint8_t)terp_field_mix(i);
    b->dst_stride = batch->raw_nbytes + GUARD_NBYTES;
    b->dst = (uint8_t *)device_memory(NCHUNKS * b->dst_stride);
}

static void
free_bench(struct bench *b)
{
    cudaFree(b->batch.d_scratch);
    cudaFree((void *)b->batch.tables.d_codewords);
    cudaFree((void *)b->batch.tables.d_token_codewords);
    cudaFree((void *)b->batch.tables.d_token_parts);
    cudaFree(b->chunk);
    cudaFree(b->dst);
    free(b->symbols);
    free(b->values);
    free(b->expected);
}

/* The state that all earlier stages would leave. */
static void
begin(struct bench *b)
{
    struct cuda_batch *batch = &b->batch;

    memset(b->chunk, 0, NCHUNKS * sizeof *b->chunk);
    memset(b->dst, GUARD, NCHUNKS * b->dst_stride);
    for (int i = 0; i < NCHUNKS; i++) {
        struct cuda_chunk *chunk = &b->chunk[i];
        uint8_t *scratch = batch->d_scratch + (uint64_t)i * batch->at.stride;
        memset(scratch, 0, batch->at.zeroed_nbytes);
        memcpy(scratch + batch->at.symbols, b->symbols, 2 * batch->nvalues);
        memcpy(scratch + batch->at.coded, b->symbols, 2 * batch->nvalues);
        chunk->original = chunk->src = chunk->values = b->values;
        chunk->dst = b->dst + (uint64_t)i * b->dst_stride;
        chunk->coding = batch->coding;
        chunk->prediction = TERP_PREDICTION_SPLINE;
        chunk->bound = 0.125;
        chunk->model.step_slack_log2 = 7;
        chunk->model.reference = -1.5;
        for (int l = 1; l <= batch->h_layout->nlevels; l++) {
            chunk->model.plan[l].spline = (uint8_t)(l % 3);
            chunk->model.plan[l].priorities = (uint8_t)(l % 4);
            chunk->model.plan[l].bound_ratio = (uint8_t)(64 - l);
        }
    }
    b->chunk[1].status = TERP_ERR_CAPACITY;
    b->chunk[2].status = TERP_ERR_DEVICE;
}

/* The CPU engine's stream, without specials, with a section of escapes that is
 * a 0. Returns false if it is not shorter than a raw one. */
static bool
expect_stream(struct bench *b)
{
    const struct cuda_chunk *chunk = &b->chunk[0];
    struct cuda_batch *batch = &b->batch;
    struct terp_frame frame = frame_of(batch, chunk->coding);
    struct writer writer = {b->expected, b->expected + batch->raw_nbytes - 1,
                            false};

    frame.prediction = chunk->prediction;
    frame.bound = chunk->bound;
    uint8_t bytes[TERP_FRAME_MAX_NBYTES] = {};
    int frame_nbytes = terp_frame_write(&frame, bytes);
    uint8_t *at = writer_take(&writer, (uint64_t)frame_nbytes);
    if (at != NULL)
        memcpy(at, bytes, (size_t)frame_nbytes);
    write_le(&writer, (uint64_t)chunk->model.step_slack_log2, 1);
    float reference = (float)chunk->model.reference;
    uint64_t word = 0;
    if (batch->value_nbytes == 4)
        memcpy(&word, &reference, 4);
    else
        word = double_bits(chunk->model.reference);
    write_le(&writer, word, batch->value_nbytes);
    for (int l = batch->h_layout->nlevels; l >= 1; l--) {
        const struct terp_level_plan *plan = &chunk->model.plan[l];
        write_le(
            &writer,
            (uint64_t)(plan->bound_ratio - 1) | (uint64_t)plan->spline << 6, 1);
        write_le(&writer, plan->priorities, 1);
    }
    write_uleb(&writer, 0);
    b->chunk[0].model_end = (uint64_t)frame_nbytes + 1 +
                            (uint64_t)batch->value_nbytes +
                            2 * (uint64_t)batch->h_layout->nlevels;
    b->chunk[0].escapes_end = b->chunk[0].model_end + 1;
    struct cpu_pool *pool = terp_cpu_pool_make(1, NULL);
    enum terp_status st = terp_cpu_tiles_encode(pool, batch->coding, b->symbols,
                                                batch->nvalues, NULL, &writer);
    terp_cpu_pool_free(pool);
    b->expected_nbytes = (uint64_t)(writer.at - b->expected);
    if (st == TERP_OK && !writer.overflow) {
        terp_frame_seal(b->expected, b->expected_nbytes);
        return true;
    }
    assert_true(st == TERP_OK || st == TERP_ERR_CAPACITY);
    return false;
}

/* Nothing is written behind the bytes of a raw stream. */
static void
check_guard(const struct bench *b, int i)
{
    const uint8_t *dst = (const uint8_t *)b->chunk[i].dst;

    for (uint64_t at = b->batch.raw_nbytes; at < b->dst_stride; at++)
        assert_int_equal(dst[at], GUARD);
}

/* A chunk whose stream would be no shorter than a raw one has no stream. */
static void
check_raw(const struct bench *b, int i)
{
    const struct cuda_chunk *chunk = &b->chunk[i];

    assert_int_equal(chunk->status, TERP_OK);
    assert_int_equal(chunk->coding, TERP_CODING_RAW);
    assert_int_equal(chunk->prediction, TERP_PREDICTION_NONE);
    assert_false(chunk->has_specials);
    assert_int_equal(chunk->stream_nbytes, b->batch.raw_nbytes);
    check_guard(b, i);
}

static void
check_stream(const struct bench *b, int i)
{
    const struct cuda_chunk *chunk = &b->chunk[i];
    uint8_t *dst = (uint8_t *)chunk->dst;

    assert_int_equal(chunk->status, TERP_OK);
    assert_int_not_equal(chunk->coding, TERP_CODING_RAW);
    assert_int_equal(chunk->stream_nbytes, b->expected_nbytes);
    if (chunk->stream_nbytes <= CUDA_SHORT_NBYTES)
        terp_frame_seal(dst, chunk->stream_nbytes);
    for (uint64_t at = 0; at < b->expected_nbytes; at++)
        if (dst[at] != b->expected[at])
            fail_msg("byte %llu of %llu differs", (unsigned long long)at,
                     (unsigned long long)b->expected_nbytes);
    check_guard(b, i);
}

/* The checksums of the written streams are right, and a changed bit makes them
 * wrong. */
static void
check_verify(struct bench *b)
{
    for (int flipped = 0; flipped < 2; flipped++) {
        for (int i = 0; i < NCHUNKS; i++) {
            struct cuda_chunk *chunk = &b->chunk[i];
            chunk->src = chunk->dst;
            chunk->src_nbytes = chunk->stream_nbytes;
            chunk->progress[CUDA_PROGRESS_CHECKSUM] = 0;
            chunk->checksum = 0;
            chunk->checksum_status = chunk->status;
            if (flipped && chunk->status == TERP_OK)
                ((uint8_t *)chunk->dst)[chunk->stream_nbytes * 3 / 4] ^= 4;
        }
        assert_int_equal(cuda_verify(&b->batch, NULL), cudaSuccess);
        for (int i = 0; i < NCHUNKS - 1; i++)
            if (b->chunk[i].coding != TERP_CODING_RAW)
                assert_int_equal(b->chunk[i].checksum_status,
                                 flipped && b->chunk[i].src_nbytes >
                                                CUDA_SHORT_NBYTES
                                     ? TERP_ERR_CHECKSUM
                                     : TERP_OK);
    }
}

/* Returns whether the stream was coded. */
static bool
check_symbols(struct bench *b)
{
    begin(b);
    bool coded = expect_stream(b);
    if (coded)
        ((uint8_t *)b->chunk[0].dst)[b->chunk[0].escapes_end - 1] = 0;
    assert_int_equal(cuda_tiles_encode(&b->batch, NULL), cudaSuccess);
    assert_int_equal(cuda_partitions_encode(&b->batch, NULL), cudaSuccess);
    assert_int_equal(cuda_stream_write(&b->batch, NULL), cudaSuccess);
    if (b->batch.npartitions > CUDA_SMALL_CHUNK_NPARTITIONS)
        assert_int_equal(cuda_seal(&b->batch, NULL), cudaSuccess);
    if (coded)
        check_stream(b, 0);
    else
        check_raw(b, 0);
    check_raw(b, 1);
    assert_int_equal(b->chunk[2].status, TERP_ERR_DEVICE);
    for (uint64_t i = 0; i < b->batch.raw_nbytes; i++)
        assert_int_equal(((uint8_t *)b->chunk[2].dst)[i], GUARD);
    check_verify(b);
    return coded;
}

/* ---- symbols ---- */

enum pattern {
    ALL_ZERO,
    SPARSE,  /* one code in 500, and none in two tiles of three */
    NARROW,  /* half as many codes of each larger magnitude */
    WIDE,    /* all symbols are equally frequent */
    ESCAPES, /* escapes only */
    STEPS,   /* one code in each tile, so that words repeat */
    RUNS,    /* runs of zeros of any length, and any symbol */
    LAST,    /* the longest run, and the largest code */
    MIXED,   /* each tile has another of these kinds */
    NPATTERNS
};

static uint16_t
make_symbol(enum pattern pattern, uint64_t i)
{
    uint64_t random = terp_field_mix(i), tile = i / TERP_TILE_NSYMBOLS;
    int code = 0;

    switch (pattern) {
    case ALL_ZERO:
        break;
    case SPARSE:
        code = tile % 3 == 0 && random % 500 == 0 ? (int)(random >> 32) % 3 : 0;
        break;
    case NARROW:
        while (code < TERP_MAX_CODE && (random >> code & 1) != 0)
            code++;
        code = random >> 63 ? -code : code;
        break;
    case WIDE:
        code =
            (int)(random % (2 * (unsigned)TERP_MAX_CODE + 2)) - TERP_MAX_CODE;
        if (code > TERP_MAX_CODE)
            return TERP_ESCAPE;
        break;
    case ESCAPES:
        return TERP_ESCAPE;
    case STEPS:
        code = (int)(terp_field_mix(tile) % 41) * TERP_MAX_CODE / 40;
        code = tile % 2 != 0 ? -code : code;
        break;
    case RUNS:
        if (random % (UINT64_C(1) << terp_field_mix(tile) % 13) == 0)
            return make_symbol(WIDE, random >> 32);
        break;
    case LAST:
        if ((i + 1) % TERP_TILE_NSYMBOLS == 0)
            code = tile % 2 != 0 ? -TERP_MAX_CODE : TERP_MAX_CODE;
        break;
    default:
        return make_symbol((enum pattern)(terp_field_mix(tile + 7) % MIXED), i);
    }
    return (uint16_t)(code + TERP_RADIUS);
}

static void
make_symbols(struct bench *b, enum pattern pattern)
{
    for (uint64_t i = 0; i < b->batch.nvalues; i++)
        b->symbols[i] = make_symbol(pattern, i);
}

static void
check_sizes(enum terp_type type, enum terp_coding coding)
{
    static const uint64_t nvalues[] = {
        1, 2, 8, 9, 64, 300, 4095, 4096, 4097, 33001, 65536, 65537, 270000};
    int ncoded = 0;

    for (size_t n = 0; n < sizeof nvalues / sizeof *nvalues; n++) {
        struct bench b;
        make_bench(&b, type, coding, nvalues[n]);
        for (int pattern = 0; pattern < NPATTERNS; pattern++) {
            make_symbols(&b, (enum pattern)pattern);
            ncoded += check_symbols(&b);
        }
        free_bench(&b);
    }
    assert_true(ncoded > 60);
}

static void
huffman_streams_equal_the_cpu_engines(void **state)
{
    (void)state;
    check_sizes(TERP_FLOAT32, TERP_CODING_HUFFMAN);
}

static void
ratio_streams_equal_the_cpu_engines(void **state)
{
    (void)state;
    check_sizes(TERP_FLOAT64, TERP_CODING_RATIO);
}

/* Enough tiles for three levels of their bit map, and more partitions than the
 * index handles at once. The emulator takes half a minute. */
static void
long_index_equals_the_cpu_engines(void **state)
{
    const uint64_t nvalues =
        UINT64_C(1030) * TERP_PARTITION_NTILES * TERP_TILE_NSYMBOLS;
    struct bench b;

    (void)state;
    if (getenv("TERP_TEST_ALL") == NULL)
        skip();
    make_bench(&b, TERP_FLOAT32, TERP_CODING_HUFFMAN, nvalues);
    make_symbols(&b, ALL_ZERO);
    for (uint64_t i = 0; i < nvalues; i += 3 * 65536 + 4097)
        b.symbols[i] = (uint16_t)(TERP_RADIUS + 1 + i % 300);
    assert_true(check_symbols(&b));
    free_bench(&b);
}

/* Partitions that exceed shared memory are also reduced. */
static void
large_partitions_are_reduced(void **state)
{
    struct bench b;
    int nlarge = 0;

    (void)state;
    make_bench(&b, TERP_FLOAT32, TERP_CODING_HUFFMAN, 6 * 65536);
    make_symbols(&b, STEPS);
    assert_true(check_symbols(&b));
    const uint16_t *nbytes = region<uint16_t>(b.batch, 0, b.batch.at.nbytes);
    for (uint64_t p = 0; p < b.batch.npartitions; p++) {
        unsigned sum = 0;
        for (uint64_t i = 0; i < TERP_PARTITION_NTILES; i++)
            sum += nbytes[p * TERP_PARTITION_NTILES + i];
        nlarge += sum > 72 << 9 &&
                  index_scratch(b.batch, 0).partition[p].reduced != 0;
    }
    assert_true(nlarge > 0);
    free_bench(&b);
}

static void
constant_stream_gets_frame_and_value(void **state)
{
    struct bench b;

    (void)state;
    for (uint64_t n = 1; n <= 2; n++) {
        make_bench(&b, TERP_FLOAT64, TERP_CODING_HUFFMAN, n);
        make_symbols(&b, ALL_ZERO);
        begin(&b);
        b.chunk[0].coding = TERP_CODING_CONSTANT;
        b.chunk[0].prediction = TERP_PREDICTION_NONE;
        b.chunk[0].specials_end = b.batch.frame_nbytes;
        b.chunk[0].constant_bits = UINT64_C(0x0123456789ABCDEF);
        assert_int_equal(cuda_tiles_encode(&b.batch, NULL), cudaSuccess);
        assert_int_equal(cuda_partitions_encode(&b.batch, NULL), cudaSuccess);
        assert_int_equal(cuda_stream_write(&b.batch, NULL), cudaSuccess);
        if (n == 1) { /* the raw stream has the same length */
            check_raw(&b, 0);
        } else {
            struct terp_frame frame = frame_of(&b.batch, TERP_CODING_CONSTANT);
            int nbytes = terp_frame_write(&frame, b.expected);
            store_le(b.expected + nbytes, b.chunk[0].constant_bits, 8);
            b.expected_nbytes = (uint64_t)nbytes + 8;
            terp_frame_seal(b.expected, b.expected_nbytes);
            check_stream(&b, 0);
        }
        free_bench(&b);
    }
}

/* ---- custom codes ---- */

static uint64_t
make_frequency(int kind, unsigned symbol)
{
    uint64_t random = terp_field_mix(symbol + 4096u * (unsigned)kind);
    unsigned distance =
        symbol < TERP_RADIUS ? TERP_RADIUS - symbol : symbol - TERP_RADIUS;

    switch (kind) {
    case 0:
        return symbol == TERP_ESCAPE ? 9 : 0;
    case 1:
        return symbol == 1023 || symbol == 40 ? 1 : 0;
    case 2:
        return 1;
    case 3: /* much longer than 15 bits without a limit */
        return distance < 40 ? UINT64_C(1) << (40 - distance) : random % 2;
    case 4:
        return random % 5;
    case 5:
        return random % 7 == 0 ? random >> 30 : 0;
    case 6:
        return symbol >= 510 && symbol <= 514;
    default:
        return (UINT64_C(1) << 30) / (1 + distance * distance);
    }
}

static void
custom_codes_equal_package_merge(void **state)
{
    struct bench b;

    (void)state;
    make_bench(&b, TERP_FLOAT32, TERP_CODING_CUSTOM, 64);
    make_symbols(&b, ALL_ZERO);
    b.batch.nvalues = UINT64_C(1) << 45; /* the largest sum of frequencies */
    b.batch.nchunks = 1;
    for (int kind = 0; kind < 8; kind++) {
        uint8_t nbits[TERP_NSYMBOLS];
        struct cpu_codebook codebook;
        uint64_t *frequency =
            region<uint64_t>(b.batch, 0, b.batch.at.frequency);
        memset(b.chunk, 0, sizeof *b.chunk);
        b.chunk[0].coding = TERP_CODING_CUSTOM;
        for (unsigned s = 0; s < TERP_NSYMBOLS; s++)
            frequency[s] = make_frequency(kind, s);
        terp_huffman_lengths(frequency, &work, nbits);
        terp_cpu_encode_table_make(nbits, &codebook);
        assert_int_equal(cuda_custom_make(&b.batch, NULL), cudaSuccess);
        assert_memory_equal(
            region<struct cuda_custom_codebook>(b.batch, 0, b.batch.at.codebook)
                ->codeword,
            codebook.codeword, sizeof codebook.codeword);
    }
    free_bench(&b);
}

/* ---- checksums ---- */

/* A stream of n bytes, at some alignment. */
static void
check_seal(struct bench *b, uint8_t *expected, uint64_t n)
{
    uint8_t *stream = b->dst + n % 16;

    begin(b);
    b->batch.nchunks = 1;
    b->batch.raw_nbytes = n;
    for (uint64_t i = 0; i < n; i++)
        expected[i] = stream[i] = (uint8_t)terp_field_mix(n + i);
    /* Streams of `speed` have other checksums, of their own kernel. */
    expected[TERP_FRAME_CODING_AT] = stream[TERP_FRAME_CODING_AT] =
        TERP_CODING_HUFFMAN;
    b->chunk[0].dst = stream;
    b->chunk[0].stream_nbytes = n;
    terp_frame_seal(expected, n);
    assert_int_equal(cuda_seal(&b->batch, NULL), cudaSuccess);
    assert_memory_equal(stream, expected, n);
}

/* Lengths that end stripes, blocks and pieces in all ways. */
static void
checksums_are_those_of_xxhash(void **state)
{
    const uint64_t longest = 3000000;
    struct bench b;

    (void)state;
    make_bench(&b, TERP_FLOAT32, TERP_CODING_HUFFMAN, longest / 4);
    make_symbols(&b, ALL_ZERO);
    uint8_t *expected = (uint8_t *)malloc(longest);
    for (uint64_t n = CUDA_SHORT_NBYTES + 1; n < longest; n += n < 5016 ? 5
                                                               : n < 100000
                                                                   ? 9999
                                                                   : 999999)
        check_seal(&b, expected, n);
    for (uint64_t piece = 1; piece < 5; piece++)
        for (uint64_t k = 0; k < 3; k++)
            check_seal(&b, expected,
                       TERP_FRAME_DIMS_AT + piece * TERP_CHECKSUM_PIECE_NBYTES +
                           k - 1);
    free(expected);
    free_bench(&b);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checksums_are_those_of_xxhash),
        cmocka_unit_test(custom_codes_equal_package_merge),
        cmocka_unit_test(constant_stream_gets_frame_and_value),
        cmocka_unit_test(huffman_streams_equal_the_cpu_engines),
        cmocka_unit_test(ratio_streams_equal_the_cpu_engines),
        cmocka_unit_test(large_partitions_are_reduced),
        cmocka_unit_test(long_index_equals_the_cpu_engines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
