/* The lossless prediction on the emulated device, through the engine's own
 * functions, so that the test can count chunks that are left to the CPU.
 * Streams and values equal the CPU's. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codec/engine.h"
#include "codec/format/copies.h"
#include "codec/format/references.h"
#include "codec/model/coarse.h"

extern "C" {
#include "h5tests/support/cases.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/few.h"
#include "h5tests/support/fields.h"
#include "h5tests/support/tables.h"
#include "h5tests/support/values.h"

terp_cuda_open_function terp_cuda_open;
}

static const struct terp_cuda_call on_host = {TERP_MEMORY_HOST, false, NULL, 0,
                                              NULL};

static const struct terp_cuda_engine *engine;
static struct terp_cuda_device *device;

/* Rows of one segment and of several, lines of one point and of many, chunks of
 * one tile and of several, of both types and byte orders. */
static const struct terp_chunk chunks[] = {
    {TERP_FLOAT32, false, false, 3, {13, 17, 11}},
    {TERP_FLOAT64, true, false, 3, {9, 16, 15}},
    {TERP_FLOAT32, true, false, 2, {6, 2100}},
    {TERP_FLOAT64, false, false, 1, {9001}},
    {TERP_FLOAT32, false, false, 1, {20000}},
    {TERP_FLOAT32, false, true, 4, {3, 8, 9, 40}},
    {TERP_FLOAT64, false, false, 4, {5, 4, 7, 6}},
    {TERP_FLOAT32, false, false, 3, {2, 2, 2}},
    {TERP_FLOAT64, false, false, 2, {300, 3}},
    {TERP_FLOAT32, false, false, 3, {40, 1, 300}},
    {TERP_FLOAT32, false, false, 1, {1}},
    {TERP_FLOAT64, false, true, 3, {4, 30, 33}},
};
#define NCHUNKS ((int)(sizeof chunks / sizeof chunks[0]))

static const enum terp_pipeline pipelines[] = {TERP_PIPELINE_RATIO,
                                               TERP_PIPELINE_HUFFMAN};

/* Fields that lead to other steps, orders and lists of special values. */
enum other_field {
    OTHER_GRID,        /* each row has whole steps from another value */
    OTHER_EXPONENTS,   /* noise of all exponents and signs */
    OTHER_OFFSET,      /* small noise far from 0 */
    OTHER_LAND,        /* long runs of one value, and of zeros */
    OTHER_PAYLOADS,    /* NaN of many payloads, and -0.0 among zeros */
    OTHER_PLANES,      /* squares of coordinates, for second differences */
    OTHER_MIRRORED,    /* the second half mirrors the first */
    OTHER_LATE_COLORS, /* smooth, some values not multiples of a step */
    NOTHERS
};
#define NFIELDS (TERP_NFIELDS + NOTHERS)

static double
other_value(int field, const struct terp_chunk *chunk, uint64_t i, uint64_t n)
{
    const uint64_t random = terp_field_mix(i ^ (uint64_t)field << 56);
    const uint64_t nx = chunk->dims[chunk->rank - 1];
    const double unit = (double)(random >> 44) / (1 << 20);

    switch (field) {
    case OTHER_GRID:
        return 253.4375 + (double)(i / nx % 7) / 1024 +
               (double)(terp_field_mix(i / 5) % 64) / 512;
    case OTHER_EXPONENTS:
        return (random & 1 ? -1 - unit : 1 + unit) *
               (random >> 1 & 1 ? 1.0 / (double)(1ull << (random >> 8 & 63))
                                : (double)(1ull << (random >> 8 & 63)));
    case OTHER_OFFSET:
        return 98304 + (double)(random % 997) / 256;
    case OTHER_LAND:
        return i / 37 % 3 == 0   ? 20
               : i / 41 % 4 == 0 ? 0
                                 : (double)(i % 501) + unit;
    case OTHER_PLANES:
        return (double)(i % nx * (i % nx)) / 3 +
               (double)(i / nx * (i / nx)) / 7;
    case OTHER_MIRRORED:
        return 2 * i < n ? 1 + unit : other_value(field, chunk, n - 1 - i, n);
    case OTHER_LATE_COLORS:
        return random % 4099 == 0 ? unit : (double)(i % nx);
    default:
        return i % 5 == 0 ? -0.0 : 0.0;
    }
}

static void
make_other(int field, const struct terp_chunk *chunk, uint8_t *values)
{
    const int nbytes = chunk->type == TERP_FLOAT32 ? 4 : 8;
    const uint64_t n = terp_chunk_nbytes(chunk) / (uint64_t)nbytes;

    for (uint64_t i = 0; i < n; i++) {
        const double value = other_value(field, chunk, i, n);
        const float narrow = (float)value;
        uint64_t bits;
        memcpy(&bits, &value, 8);
        if (nbytes == 4)
            memcpy(&bits, &narrow, 4);
        if (field == OTHER_PAYLOADS && i % 7 == 0)
            bits |= (nbytes == 4 ? UINT64_C(0x7F800001)
                                 : UINT64_C(0x7FF0000000000001)) |
                    terp_field_mix(i) % 32 << 8;
        for (int b = 0; b < nbytes; b++)
            values[i * (uint64_t)nbytes +
                   (uint64_t)(chunk->big_endian ? nbytes - 1 - b : b)] =
                (uint8_t)(bits >> (8 * b));
    }
}

/* Chunks of all fields, with the CPU's results. */
static struct {
    struct terp_chunk chunk;
    struct terp_params params;
    uint64_t chunk_nbytes;
    uint8_t *values[NFIELDS], *out[NFIELDS];
    struct terp_stream stream[NFIELDS];
} sample;

static void
make_sample(const struct terp_chunk *chunk, enum terp_pipeline pipeline,
            enum terp_effort effort)
{
    sample.chunk = *chunk;
    sample.params = {};
    sample.params.size = sizeof sample.params;
    sample.params.format = 1; /* the device makes no ranks */
    sample.params.bound_mode = TERP_BOUND_ABSOLUTE;
    sample.params.pipeline = pipeline;
    sample.params.effort = effort;
    sample.chunk_nbytes = terp_chunk_nbytes(chunk);
    for (int i = 0; i < NFIELDS; i++) {
        sample.values[i] = (uint8_t *)terp_case_alloc(sample.chunk_nbytes);
        sample.out[i] = (uint8_t *)terp_case_alloc(terp_encode_bound(chunk));
        if (i < TERP_NFIELDS)
            terp_field_make((enum terp_field)i, chunk, sample.values[i]);
        else
            make_other(i - TERP_NFIELDS, chunk, sample.values[i]);
        sample.stream[i] =
            terp_case_encode(&sample.params, chunk, sample.values[i], 1);
    }
}

static void
free_sample(void)
{
    for (int i = 0; i < NFIELDS; i++) {
        free(sample.values[i]);
        free(sample.out[i]);
        free(sample.stream[i].bytes);
    }
}

static void
check_bytes(const char *what, int chunk, int field, const uint8_t *bytes,
            const uint8_t *expected, uint64_t nbytes)
{
    uint64_t at = 0;

    while (at < nbytes && bytes[at] == expected[at])
        at++;
    if (at < nbytes)
        fail_msg("%s: chunk %d, field %d, differs from byte %" PRIu64
                 " of %" PRIu64,
                 what, chunk, field, at, nbytes);
}

static void
check_decoder(int chunk)
{
    const void *src[NFIELDS];
    void *dst[NFIELDS];
    uint64_t nbytes[NFIELDS];
    enum terp_status status[NFIELDS];

    for (int i = 0; i < NFIELDS; i++) {
        src[i] = sample.stream[i].bytes;
        nbytes[i] = sample.stream[i].nbytes;
        dst[i] = sample.out[i];
    }
    assert_int_equal(engine->decode(device, &on_host, &sample.chunk, NFIELDS,
                                    src, nbytes, dst, status),
                     TERP_OK);
    for (int i = 0; i < NFIELDS; i++) {
        const uint8_t *stream = sample.stream[i].bytes;
        if (stream[TERP_FRAME_CODING_AT] == TERP_CODING_RAW)
            continue; /* the CPU copies raw streams */
        if (status[i] != TERP_OK)
            fail_msg("chunk %d, field %d: \"%s\"", chunk, i,
                     terp_status_text(status[i]));
        check_bytes("values", chunk, i, sample.out[i], sample.values[i],
                    sample.chunk_nbytes);
    }
}

static void
check_encoder(int chunk)
{
    const void *src[NFIELDS];
    void *dst[NFIELDS];
    uint64_t nbytes[NFIELDS];

    for (int i = 0; i < NFIELDS; i++) {
        src[i] = sample.values[i];
        dst[i] = sample.out[i];
    }
    assert_int_equal(engine->encode(device, &on_host, &sample.params,
                                    &sample.chunk, NFIELDS, src, dst, nbytes),
                     TERP_OK);
    for (int i = 0; i < NFIELDS; i++) {
        const struct terp_stream *stream = &sample.stream[i];
        check_bytes("stream", chunk, i, sample.out[i], stream->bytes,
                    nbytes[i] < stream->nbytes ? nbytes[i] : stream->nbytes);
        assert_int_equal(nbytes[i], stream->nbytes);
    }
}

static void
both_engines_make_the_same_of_lossless_chunks(void **state)
{
    (void)state;
    for (int c = 0; c < NCHUNKS; c++)
        for (enum terp_pipeline pipeline : pipelines) {
            if (!terp_case_taken(16))
                continue;
            make_sample(&chunks[c], pipeline, TERP_EFFORT_FAST);
            check_encoder(c);
            check_decoder(c);
            free_sample();
        }
}

/* Values that repeat others: in full and in partial tiles of the search, and in
 * runs across tiles. */
static void
device_finds_references(void **state)
{
    int nfound = 0;

    (void)state;
    for (int c = 0; c < NCHUNKS; c++) {
        if (c != 0 && c != 3 && !terp_case_taken(24))
            continue;
        make_sample(&chunks[c], pipelines[0], TERP_EFFORT_DEFAULT);
        check_encoder(c);
        for (int i = 0; i < NFIELDS; i++)
            nfound += sample.stream[i].bytes[TERP_FRAME_CODING_AT] ==
                      TERP_CODING_REFERENCES;
        free_sample();
    }
    assert_in_range(nfound, 4, NCHUNKS * NFIELDS);
}

/* One chunk, which the device must not leave to the CPU. */
static enum terp_coding
check_one(const struct terp_params *params, const struct terp_chunk *chunk,
          enum terp_field field)
{
    struct terp_params first = *params;
    uint8_t *values = (uint8_t *)terp_case_alloc(terp_chunk_nbytes(chunk));
    const void *src = values;
    void *dst = terp_case_alloc(terp_encode_bound(chunk));
    uint64_t nbytes;

    terp_field_make(field, chunk, values);
    first.size = sizeof first;
    first.format = 1; /* the device makes no ranks */
    struct terp_stream stream = terp_case_encode(&first, chunk, values, 1);
    assert_int_equal(
        engine->encode(device, &on_host, &first, chunk, 1, &src, &dst, &nbytes),
        TERP_OK);
    check_bytes("stream", (int)chunk->type, field, (uint8_t *)dst, stream.bytes,
                nbytes < stream.nbytes ? nbytes : stream.nbytes);
    assert_int_equal(nbytes, stream.nbytes);
    const enum terp_coding coding =
        (enum terp_coding)stream.bytes[TERP_FRAME_CODING_AT];
    free(stream.bytes);
    free(values);
    free(dst);
    return coding;
}

/* Repeated values that differ in the sign, some of which then exceed the bound.
 * Also tiny bounds, under which a lossless stream is tried. */
static void
device_finds_more_within_bounds(void **state)
{
    static const struct terp_chunk of_types[] = {
        {TERP_FLOAT32, false, false, 3, {5, 200, 70}},
        {TERP_FLOAT64, true, false, 1, {70001}},
        {TERP_FLOAT64, false, false, 2, {300, 251}},
        {TERP_FLOAT16, true, false, 3, {5, 200, 70}},
        {TERP_BFLOAT16, false, false, 2, {300, 251}},
    };
    static const double bounds[] = {1e-3, 1e-6, 1e-9, 1e-12};

    (void)state;
    for (const struct terp_chunk &chunk : of_types)
        for (double bound : bounds) {
            struct terp_params params = {};
            params.bound_mode = TERP_BOUND_RELATIVE;
            params.bound = bound;
            if (!terp_case_taken(6))
                continue;
            check_one(&params, &chunk, TERP_FIELD_MIRRORS);
            check_one(&params, &chunk, TERP_FIELD_SMOOTH);
        }
    /* A bound relative to the range, so tight that no value of the parts may
     * change. */
    const struct terp_chunk halves = {TERP_FLOAT16, false, false, 1, {72080}};
    struct terp_params params = {};
    params.bound_mode = TERP_BOUND_RELATIVE;
    params.bound = 0x1p-30;
    params.pipeline = TERP_PIPELINE_HUFFMAN;
    assert_int_equal(check_one(&params, &halves, TERP_FIELD_SINES),
                     TERP_CODING_REFERENCES);
}

static uint64_t
value_of(const struct terp_chunk *chunk, enum terp_field field, uint64_t i)
{
    uint8_t *values = (uint8_t *)terp_case_alloc(terp_chunk_nbytes(chunk));

    terp_field_make(field, chunk, values);
    const uint64_t bits = value_bits(chunk, values, i);
    free(values);
    return bits;
}

/* Integers and 16-bit floats, whose values are words of their own type. Also a
 * repeated value that is the fill value, and a domain in which values need so
 * few bits that references are not worth a search. */
static void
device_finds_references_of_types(void **state)
{
    static const enum terp_type types[] = {TERP_INT16, TERP_UINT32, TERP_INT64,
                                           TERP_FLOAT16, TERP_BFLOAT16};
    int nreferring = 0;

    (void)state;
    for (enum terp_type type : types) {
        const struct terp_chunk chunk = {
            type, type == TERP_UINT32, false, 2, {70, 91}};
        struct terp_params params = {};
        params.bound_mode = TERP_BOUND_ABSOLUTE;
        nreferring += check_one(&params, &chunk, TERP_FIELD_MIRRORS) ==
                      TERP_CODING_REFERENCES;
        params.has_fill = true;
        check_one(&params, &chunk, TERP_FIELD_GAPS);
        params.fill_bits = value_of(&chunk, TERP_FIELD_MIRRORS, 70 * 91 / 3);
        check_one(&params, &chunk, TERP_FIELD_MIRRORS);
    }
    assert_in_range(nreferring, 2, 5);
    const struct terp_chunk folded = {
        TERP_INT16, false, false, 4, {2, 6, 1113, 5}};
    struct terp_params params = {};
    params.bound_mode = TERP_BOUND_ABSOLUTE;
    assert_int_equal(check_one(&params, &folded, TERP_FIELD_MIRRORS),
                     TERP_CODING_RATIO);
}

/* In smooth integers few bits change, so some adjacent ones repeat others by
 * chance. */
static void
device_keeps_what_repeats_by_chance(void **state)
{
    const struct terp_chunk chunk = {TERP_INT16, false, false, 3, {40, 50, 60}};
    struct terp_params params = {};
    static int16_t values[40 * 50 * 60];
    const void *src = values;
    void *dst = terp_case_alloc(terp_encode_bound(&chunk));
    uint64_t nbytes;

    (void)state;
    for (int i = 0; i < 40 * 50 * 60; i++) {
        const double x = i % 60 / 60.0, y = i / 60 % 50 / 50.0,
                     z = i / 3000 / 40.0;
        values[i] = (int16_t)lrint(500 * sin(5 * x + y) * cos(4 * y - z) +
                                   300 * sin(3 * z + 2 * x * y));
    }
    params.bound_mode = TERP_BOUND_ABSOLUTE;
    struct terp_stream stream =
        terp_case_encode(&params, &chunk, (const uint8_t *)values, 1);
    assert_int_equal(engine->encode(device, &on_host, &params, &chunk, 1, &src,
                                    &dst, &nbytes),
                     TERP_OK);
    assert_int_equal(nbytes, stream.nbytes);
    assert_memory_equal(dst, stream.bytes, nbytes);
    free(stream.bytes);
    free(dst);
}

/* ---- streams that contain streams ---- */

#define MAX_NSTREAMS 400

struct streams {
    struct terp_chunk chunk;
    int n;
    struct terp_stream stream[MAX_NSTREAMS];
};

static void
add_stream(struct streams *all, struct terp_stream stream)
{
    assert_in_range(all->n, 0, MAX_NSTREAMS - 1);
    all->stream[all->n++] = stream;
}

static struct terp_stream
copy_of(const struct terp_stream *stream)
{
    struct terp_stream copy = {(uint8_t *)terp_case_alloc(stream->nbytes),
                               stream->nbytes};

    memcpy(copy.bytes, stream->bytes, stream->nbytes);
    return copy;
}

/* A copy with one changed byte, with or without a corrected checksum. */
static void
add_damaged(struct streams *all, const struct terp_stream *stream, uint64_t at,
            unsigned flip, bool sealed)
{
    struct terp_stream damaged = copy_of(stream);

    damaged.bytes[at] ^= (uint8_t)flip;
    if (sealed)
        terp_frame_seal(damaged.bytes, damaged.nbytes);
    add_stream(all, damaged);
}

static void
free_streams(struct streams *all)
{
    for (int i = 0; i < all->n; i++)
        free(all->stream[i].bytes);
    free(all);
}

static struct streams *
no_streams(const struct terp_chunk *chunk)
{
    struct streams *all = (struct streams *)terp_case_alloc(sizeof *all);

    all->chunk = *chunk;
    all->n = 0;
    return all;
}

/* Memory of one kind, as a call takes it. */
static void *
make_memory(const struct terp_cuda_call *where, const void *bytes,
            uint64_t nbytes)
{
    void *at;

    if (where->memory == TERP_MEMORY_HOST)
        at = terp_case_alloc(nbytes);
    else
        assert_int_equal(engine->allocate(device, nbytes, &at), TERP_OK);
    if (bytes != NULL)
        assert_int_equal(engine->copy(device, where, 1, &at, &bytes, &nbytes),
                         TERP_OK);
    return at;
}

static void
free_memory(const struct terp_cuda_call *where, void *at)
{
    if (where->memory == TERP_MEMORY_HOST)
        free(at);
    else
        engine->release(device, at);
}

/* The device decodes what the CPU decodes, to the same values. A stream that
 * the CPU refuses is left to the CPU, or refused with the same error. Returns
 * how many streams were valid. */
static int
check_streams(const struct streams *all, enum terp_memory memory, uint64_t step)
{
    const struct terp_cuda_call where = {memory, false, NULL, step, NULL};
    const struct terp_chunk wanted = terp_coarse_chunk_of(&all->chunk, step);
    const uint64_t nbytes = terp_chunk_nbytes(&wanted);
    const void *src[MAX_NSTREAMS];
    void *dst[MAX_NSTREAMS];
    uint64_t src_nbytes[MAX_NSTREAMS];
    enum terp_status status[MAX_NSTREAMS], expected;
    void *values = terp_case_alloc(nbytes), *decoded = terp_case_alloc(nbytes);
    int ngood = 0;

    for (int i = 0; i < all->n; i++) {
        src[i] =
            make_memory(&where, all->stream[i].bytes, all->stream[i].nbytes);
        src_nbytes[i] = all->stream[i].nbytes;
        dst[i] = make_memory(&where, NULL, nbytes);
    }
    assert_int_equal(engine->decode(device, &where, &all->chunk,
                                    (uint64_t)all->n, src, src_nbytes, dst,
                                    status),
                     TERP_OK);
    for (int i = 0; i < all->n; i++) {
        const void *stream = all->stream[i].bytes, *from = dst[i];
        (void)terp_decode_coarse_batch(NULL, &all->chunk, step, 1, &stream,
                                       &src_nbytes[i], &values, &expected,
                                       NULL);
        if ((expected == TERP_OK) != (status[i] == TERP_OK) ||
            (status[i] != TERP_ERR_DEVICE && status[i] != expected))
            fail_msg("stream %d: \"%s\", on the CPU \"%s\"", i,
                     terp_status_text(status[i]), terp_status_text(expected));
        if (expected == TERP_OK) {
            engine->copy(device, &where, 1, &decoded, &from, &nbytes);
            check_bytes("values", i, (int)step, (uint8_t *)decoded,
                        (uint8_t *)values, nbytes);
            ngood++;
        }
        free_memory(&where, (void *)src[i]);
        free_memory(&where, dst[i]);
    }
    free(values);
    free(decoded);
    return ngood;
}

static struct terp_stream
stream_of_field(const struct terp_chunk *chunk, enum terp_field field,
                double bound, enum terp_coding expected)
{
    struct terp_params params = {};
    uint8_t *values = (uint8_t *)terp_case_alloc(terp_chunk_nbytes(chunk));

    params.bound_mode = TERP_BOUND_RELATIVE;
    params.bound = bound;
    if (bound == 0)
        params.bound_mode = TERP_BOUND_ABSOLUTE;
    terp_field_make(field, chunk, values);
    struct terp_stream stream = terp_case_encode(&params, chunk, values, 1);
    if (expected != TERP_CODING_RAW)
        assert_int_equal(stream.bytes[TERP_FRAME_CODING_AT], expected);
    free(values);
    return stream;
}

/* A copies stream, made from the stream of the remaining chunk. */
static struct terp_stream
copies_of(const struct terp_chunk *chunk, unsigned dims,
          struct terp_stream left)
{
    const struct terp_chunk part = terp_copies_chunk(chunk, dims);
    struct terp_frame frame = {};
    struct terp_stream stream = {
        (uint8_t *)terp_case_alloc(TERP_FRAME_MAX_NBYTES + left.nbytes), 0};

    frame.chunk = *chunk;
    frame.coding = TERP_CODING_COPIES;
    struct writer writer = {
        stream.bytes + terp_frame_write(&frame, stream.bytes),
        stream.bytes + TERP_FRAME_MAX_NBYTES + left.nbytes, false};
    write_le(&writer, dims, 1);
    terp_parts_write(&writer, &part, left.bytes, left.nbytes, true);
    stream.nbytes = (uint64_t)(writer.at - stream.bytes);
    terp_frame_seal(stream.bytes, stream.nbytes);
    free(left.bytes);
    return stream;
}

static const enum terp_memory memories[] = {TERP_MEMORY_HOST,
                                            TERP_MEMORY_DEVICE};

/* References, copies, copies with references, and other streams in one call. */
static void
device_decodes_streams_that_hold_others(void **state)
{
    static const struct terp_chunk wholes[] = {
        {TERP_FLOAT32, false, false, 3, {5, 20, 60}},
        {TERP_FLOAT64, true, false, 3, {5, 20, 60}},
        {TERP_FLOAT16, true, false, 3, {5, 20, 60}},
    };

    (void)state;
    for (const struct terp_chunk &chunk : wholes) {
        if (!terp_case_taken(2))
            continue;
        struct streams *all = no_streams(&chunk);
        static const unsigned some_dims[] = {4, 1, 7};
        for (unsigned dims : some_dims) {
            const struct terp_chunk left = terp_copies_chunk(&chunk, dims);
            add_stream(all, copies_of(&chunk, dims,
                                      stream_of_field(&left, TERP_FIELD_SMOOTH,
                                                      1e-4, TERP_CODING_RAW)));
        }
        const struct terp_chunk left = terp_copies_chunk(&chunk, 4);
        add_stream(all, stream_of_field(&chunk, TERP_FIELD_MIRRORS, 0,
                                        TERP_CODING_REFERENCES));
        add_stream(all, stream_of_field(&chunk, TERP_FIELD_SMOOTH, 1e-3,
                                        TERP_CODING_RAW));
        add_stream(all, copies_of(&chunk, 4,
                                  stream_of_field(&left, TERP_FIELD_MIRRORS, 0,
                                                  TERP_CODING_RAW)));
        add_stream(all, copy_of(&all->stream[3]));
        for (enum terp_memory memory : memories)
            for (uint64_t step = 1; step <= 4; step *= 4)
                assert_int_equal(check_streams(all, memory, step), all->n);
        for (uint64_t at = 16; at < 120; at += 3)
            for (int sealed = 0; sealed < 2; sealed++)
                add_damaged(all, &all->stream[3], at * 7 % 400 + 6,
                            1u << at % 8, sealed > 0);
        assert_in_range(check_streams(all, memories[chunk.big_endian], 1), 7,
                        all->n / 2);
        free_streams(all);
    }
}

/* Chunks that do not change along a dimension. */
static void
device_leaves_copies_out(void **state)
{
    static const struct terp_chunk wholes[] = {
        {TERP_FLOAT32, false, false, 3, {24, 20, 21}},
        {TERP_FLOAT64, true, false, 3, {24, 20, 21}},
        {TERP_FLOAT32, true, false, 2, {300, 40}},
    };
    static const double bounds[] = {1e-3, 1e-5, 1e-2};

    (void)state;
    for (int c = 0; c < 3; c++) {
        const struct terp_chunk &chunk = wholes[c];
        const struct terp_cuda_call where = {memories[c % 2], false, NULL, 0,
                                             NULL};
        const uint64_t nbytes = terp_chunk_nbytes(&chunk);
        struct terp_params params = {};
        uint8_t *values = (uint8_t *)terp_case_alloc(nbytes);
        uint8_t *made = (uint8_t *)terp_case_alloc(terp_encode_bound(&chunk));
        uint64_t made_nbytes;

        params.bound_mode = TERP_BOUND_RELATIVE;
        params.bound = bounds[c];
        terp_field_make(TERP_FIELD_PROFILE, &chunk, values);
        struct terp_stream stream =
            terp_case_encode(&params, &chunk, values, 1);
        const void *src = make_memory(&where, values, nbytes);
        void *dst = make_memory(&where, NULL, terp_encode_bound(&chunk));
        const void *from = dst;
        void *to = made;
        assert_int_equal(engine->encode(device, &where, &params, &chunk, 1,
                                        &src, &dst, &made_nbytes),
                         TERP_OK);
        assert_int_equal(stream.bytes[TERP_FRAME_CODING_AT],
                         TERP_CODING_COPIES);
        assert_int_equal(made_nbytes, stream.nbytes);
        engine->copy(device, &where, 1, &to, &from, &made_nbytes);
        check_bytes("stream", c, 0, made, stream.bytes, made_nbytes);
        free_memory(&where, (void *)src);
        free_memory(&where, dst);
        free(stream.bytes);
        free(values);
        free(made);
    }
}

/* The stream of the example "References" in doc/format.md, with other
 * integers. */
static struct terp_stream
short_references(unsigned n, const uint32_t distances[2],
                 const uint32_t values[4])
{
    static const struct terp_chunk chunk = {TERP_FLOAT32, false, false, 1, {4}};
    struct terp_frame frame = {};
    struct terp_stream stream = {(uint8_t *)terp_case_alloc(200), 0};

    frame.chunk = chunk;
    frame.coding = TERP_CODING_REFERENCES;
    struct writer writer = {stream.bytes +
                                terp_frame_write(&frame, stream.bytes),
                            stream.bytes + 200, false};
    write_le(&writer, 0x7FFFFFFE, 4);
    write_uleb(&writer, n);
    write_uleb(&writer, 2 + 4 * n);
    write_le(&writer, TERP_CODING_RAW, 2);
    for (unsigned i = 0; i < n; i++)
        write_le(&writer, distances[i], 4);
    write_uleb(&writer, 2 + 8 * n);
    write_le(&writer, TERP_CODING_RAW, 2);
    for (unsigned i = 0; i < n; i++)
        write_le(&writer, 1 + i, 8);
    write_le(&writer, TERP_CODING_RAW, 2);
    for (unsigned i = 0; i < 4; i++)
        write_le(&writer, values[i], 4);
    stream.nbytes = (uint64_t)(writer.at - stream.bytes);
    terp_frame_seal(stream.bytes, stream.nbytes);
    return stream;
}

static void
device_leaves_references_that_lead_nowhere(void **state)
{
    static const uint32_t marker = 0x7FFFFFFE, one = 0x3F800000;
    static const uint32_t usual[4] = {one, one + 1, marker, marker};
    static const uint32_t few[4] = {one, one + 1, one + 2, marker};
    static const uint32_t many[4] = {one, marker, marker, marker};
    static const uint32_t distances[][2] = {{1, 3}, {2, 2}, {0, 3}, {1, 4},
                                            {3, 1}, {1, 1}, {1, 0}, {2, ~0u}};
    const struct terp_chunk chunk = {TERP_FLOAT32, false, false, 1, {4}};
    struct streams *all = no_streams(&chunk);

    (void)state;
    for (const uint32_t *distance : distances) {
        add_stream(all, short_references(2, distance, usual));
        add_stream(all, short_references(2, distance, few));
        add_stream(all, short_references(2, distance, many));
        add_stream(all, short_references(1, distance, usual));
        add_stream(all, short_references(1, distance, few));
    }
    const int nmade = all->n;
    for (enum terp_memory memory : memories)
        assert_int_equal(check_streams(all, memory, 1), 2 + 7);
    for (uint64_t at = 0; at < all->stream[0].nbytes; at++)
        for (int sealed = 0; sealed < 2; sealed++)
            add_damaged(all, &all->stream[0], at, 1u << at % 8, sealed > 0);
    for (enum terp_memory memory : memories)
        assert_in_range(check_streams(all, memory, 1), 7,
                        nmade + (int)all->stream[0].nbytes / 2);
    free_streams(all);
}

static struct terp_stream
stream_of_few(const struct terp_chunk *chunk, uint64_t nlevels)
{
    struct terp_params params = {};
    uint8_t *values = (uint8_t *)terp_case_alloc(terp_chunk_nbytes(chunk));

    params.bound_mode = TERP_BOUND_ABSOLUTE;
    few_make(chunk, nlevels, values);
    struct terp_stream stream = terp_case_encode(&params, chunk, values, 1);
    assert_int_equal(stream.bytes[TERP_FRAME_VERSION_AT], 2);
    free(values);
    return stream;
}

/* Ranks of both widths, of which some have references; as parts; and other
 * streams in the same call. */
static void
device_decodes_ranks(void **state)
{
    static const struct terp_chunk wholes[] = {
        {TERP_FLOAT32, true, false, 3, {5, 20, 60}},
        {TERP_FLOAT64, false, false, 3, {5, 20, 60}},
        {TERP_INT16, true, false, 2, {100, 60}},
        {TERP_BFLOAT16, false, false, 2, {100, 60}},
        {TERP_UINT64, true, true, 3, {5, 20, 60}},
        {TERP_COMPLEX64, true, false, 3, {5, 20, 30}},
        {TERP_FLOAT32, false, false, 2, {400, 350}},
    };

    (void)state;
    for (const struct terp_chunk &chunk : wholes) {
        const bool is_large = terp_chunk_nbytes(&chunk) > 1u << 18;
        if (!terp_case_taken(2))
            continue;
        struct streams *all = no_streams(&chunk);
        add_stream(all, stream_of_few(&chunk, is_large ? 65540 : 300));
        add_stream(all, stream_of_few(&chunk, is_large ? 65536 : 7));
        add_stream(all, copy_of(&all->stream[0]));
        if (!is_large)
            add_stream(all, stream_of_field(&chunk, TERP_FIELD_ROUGH, 1e-3,
                                            TERP_CODING_RAW));
        const int nmade = all->n;
        for (enum terp_memory memory : memories)
            for (uint64_t step = 1; step <= 4; step *= 4)
                assert_int_equal(check_streams(all, memory, step), nmade);
        for (uint64_t at = 4; !is_large && at < 120; at += 3)
            for (int sealed = 0; sealed < 2; sealed++)
                add_damaged(all, &all->stream[0], at * 7 % 400 + 4,
                            1u << at % 8, sealed > 0);
        assert_in_range(check_streams(all, memories[chunk.big_endian], 1),
                        nmade, is_large ? nmade : all->n / 2);
        free_streams(all);
    }
}

static struct terp_stream
stream_of_decimals(const struct terp_chunk *chunk, uint64_t every)
{
    struct terp_params params = {};
    uint8_t *values = (uint8_t *)terp_case_alloc(terp_chunk_nbytes(chunk));

    params.bound_mode = TERP_BOUND_ABSOLUTE;
    decimals_make(chunk, every, values);
    struct terp_stream stream = terp_case_encode(&params, chunk, values, 1);
    assert_int_equal(stream.bytes[TERP_FRAME_VERSION_AT], 2);
    free(values);
    return stream;
}

/* Grids, with and without exceptions; as parts; and other streams in the same
 * call. */
static void
device_decodes_grids(void **state)
{
    static const struct terp_chunk wholes[] = {
        {TERP_FLOAT32, true, false, 3, {5, 20, 60}},
        {TERP_FLOAT64, false, true, 3, {5, 20, 60}},
        {TERP_COMPLEX64, true, false, 3, {5, 20, 60}},
    };

    (void)state;
    for (const struct terp_chunk &chunk : wholes) {
        if (!terp_case_taken(2))
            continue;
        struct streams *all = no_streams(&chunk);
        add_stream(all, stream_of_decimals(&chunk, 0));
        add_stream(all, stream_of_decimals(&chunk, 50));
        add_stream(all, stream_of_decimals(&chunk, 29));
        add_stream(all, stream_of_few(&chunk, 300));
        add_stream(all, stream_of_field(&chunk, TERP_FIELD_ROUGH, 1e-3,
                                        TERP_CODING_RAW));
        const int nmade = all->n;
        for (enum terp_memory memory : memories)
            for (uint64_t step = 1; step <= 4; step *= 4)
                assert_int_equal(check_streams(all, memory, step), nmade);
        /* The head, and the table. A domain of damaged numbers would be left
         * to the CPU. */
        for (uint64_t at = 4; at < 64; at += 2)
            for (int sealed = 0; sealed < 2; sealed++)
                add_damaged(all, &all->stream[1], at, 1u << at * 5 % 8,
                            sealed > 0);
        assert_in_range(check_streams(all, memories[chunk.big_endian], 1),
                        nmade, all->n);
        free_streams(all);
    }
}

/* Chunks of few different values, and of decimals, among others: the device
 * says which. */
static void
device_leaves_few_values(void **state)
{
    static const struct terp_chunk shape = {
        TERP_FLOAT32, true, false, 3, {24, 20, 21}};
    const uint64_t nbytes = terp_chunk_nbytes(&shape);
    struct terp_params params = {};
    uint8_t *values[3],
        *made = (uint8_t *)terp_case_alloc(terp_encode_bound(&shape));

    (void)state;
    params.size = sizeof params;
    params.bound_mode = TERP_BOUND_ABSOLUTE;
    for (uint8_t *&some : values)
        some = (uint8_t *)terp_case_alloc(nbytes);
    terp_field_make(TERP_FIELD_ROUGH, &shape, values[0]);
    few_make(&shape, 300, values[1]);
    decimals_make(&shape, 0, values[2]);
    for (enum terp_memory memory : memories)
        for (int format = 0; format < 2; format++) {
            const struct terp_cuda_call where = {memory, false, NULL, 0, NULL};
            const void *src[3];
            void *dst[3], *to = made;
            uint64_t made_nbytes[3];
            params.format = format;
            for (int i = 0; i < 3; i++) {
                src[i] = make_memory(&where, values[i], nbytes);
                dst[i] = make_memory(&where, NULL, terp_encode_bound(&shape));
            }
            assert_int_equal(engine->encode(device, &where, &params, &shape, 3,
                                            src, dst, made_nbytes),
                             TERP_OK);
            for (int i = 0; i < 3; i++) {
                struct terp_stream stream =
                    terp_case_encode(&params, &shape, values[i], 1);
                const void *from = dst[i];
                const bool is_left = i > 0 && format == 0;
                assert_int_equal(made_nbytes[i], is_left ? 0 : stream.nbytes);
                engine->copy(device, &where, 1, &to, &from, &made_nbytes[i]);
                check_bytes("stream", i, 0, made, stream.bytes, made_nbytes[i]);
                free_memory(&where, (void *)src[i]);
                free_memory(&where, dst[i]);
                free(stream.bytes);
            }
        }
    for (uint8_t *some : values)
        free(some);
    free(made);
}

static struct terp_stream
stream_of_table(const struct terp_chunk *chunk)
{
    struct terp_params params = {};
    uint8_t *values = (uint8_t *)terp_case_alloc(terp_chunk_nbytes(chunk));

    params.bound_mode = TERP_BOUND_ABSOLUTE;
    table_make(chunk, values);
    struct terp_stream stream = terp_case_encode(&params, chunk, values, 1);
    assert_int_equal(stream.bytes[TERP_FRAME_VERSION_AT], 2);
    free(values);
    return stream;
}

/* Columns of all sizes of values, of which some are ranks; as parts; and other
 * streams in the same call. */
static void
device_decodes_columns(void **state)
{
    static const struct terp_chunk tables[] = {
        {TERP_FLOAT32, true, false, 2, {1001, 3}},
        {TERP_FLOAT64, false, false, 3, {10, 100, 3}},
        {TERP_INT16, true, false, 2, {600, 16}},
        {TERP_UINT8, false, false, 2, {1001, 4}},
        {TERP_COMPLEX64, true, false, 2, {1000, 3}},
    };

    (void)state;
    for (const struct terp_chunk &table : tables) {
        if (!terp_case_taken(2))
            continue;
        struct streams *all = no_streams(&table);
        add_stream(all, stream_of_table(&table));
        add_stream(all, copy_of(&all->stream[0]));
        add_stream(
            all, stream_of_field(&table, TERP_FIELD_ROUGH, 0, TERP_CODING_RAW));
        const int nmade = all->n;
        for (enum terp_memory memory : memories)
            for (uint64_t step = 1; step <= 4; step *= 4)
                assert_int_equal(check_streams(all, memory, step), nmade);
        for (uint64_t at = 16; at < 48; at += 4)
            add_damaged(all, &all->stream[0], at, 1u << at / 4 % 8, true);
        assert_in_range(check_streams(all, memories[table.big_endian], 1),
                        nmade, all->n - all->n / 4);
        free_streams(all);
    }
}

/* Tables among other chunks: the device says which. */
static void
device_leaves_tables(void **state)
{
    static const struct terp_chunk shape = {
        TERP_FLOAT32, true, false, 2, {2001, 4}};
    const uint64_t nbytes = terp_chunk_nbytes(&shape);
    struct terp_params params = {};
    uint8_t *values[2],
        *made = (uint8_t *)terp_case_alloc(terp_encode_bound(&shape));

    (void)state;
    params.size = sizeof params;
    params.bound_mode = TERP_BOUND_ABSOLUTE;
    for (uint8_t *&some : values)
        some = (uint8_t *)terp_case_alloc(nbytes);
    terp_field_make(TERP_FIELD_NOISE, &shape, values[0]);
    table_make(&shape, values[1]);
    for (enum terp_memory memory : memories)
        for (int format = 0; format < 2; format++) {
            const struct terp_cuda_call where = {memory, false, NULL, 0, NULL};
            const void *src[2];
            void *dst[2], *to = made;
            uint64_t made_nbytes[2];
            params.format = format;
            for (int i = 0; i < 2; i++) {
                src[i] = make_memory(&where, values[i], nbytes);
                dst[i] = make_memory(&where, NULL, terp_encode_bound(&shape));
            }
            assert_int_equal(engine->encode(device, &where, &params, &shape, 2,
                                            src, dst, made_nbytes),
                             TERP_OK);
            for (int i = 0; i < 2; i++) {
                struct terp_stream stream =
                    terp_case_encode(&params, &shape, values[i], 1);
                const void *from = dst[i];
                const bool is_left = i == 1 && format == 0;
                assert_int_equal(made_nbytes[i], is_left ? 0 : stream.nbytes);
                engine->copy(device, &where, 1, &to, &from, &made_nbytes[i]);
                check_bytes("stream", i, 0, made, stream.bytes, made_nbytes[i]);
                free_memory(&where, (void *)src[i]);
                free_memory(&where, dst[i]);
                free(stream.bytes);
            }
        }
    for (uint8_t *some : values)
        free(some);
    free(made);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(device_decodes_ranks),
        cmocka_unit_test(device_decodes_grids),
        cmocka_unit_test(device_leaves_few_values),
        cmocka_unit_test(device_decodes_columns),
        cmocka_unit_test(device_leaves_tables),
        cmocka_unit_test(device_keeps_what_repeats_by_chance),
        cmocka_unit_test(device_decodes_streams_that_hold_others),
        cmocka_unit_test(device_leaves_copies_out),
        cmocka_unit_test(device_leaves_references_that_lead_nowhere),
        cmocka_unit_test(both_engines_make_the_same_of_lossless_chunks),
        cmocka_unit_test(device_finds_references),
        cmocka_unit_test(device_finds_more_within_bounds),
        cmocka_unit_test(device_finds_references_of_types),
    };
    const struct terp_cuda_options options = {-1, 0};
    const char *name = NULL, *reason = NULL;

    if (terp_cuda_open(TERP_CUDA_ABI, &engine) != TERP_OK ||
        engine->open(&options, &device, &name, &reason) != TERP_OK)
        return 1;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    engine->close(device);
    return failed;
}
