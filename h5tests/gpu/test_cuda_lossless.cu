/* The lossless prediction on the emulated device, called by the engine's own
 * functions: what these leave to the CPU is counted. Streams and values are
 * those of the CPU. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "codec/engine.h"
#include "codec/format/frame.h"

extern "C" {
#include "h5tests/support/cases.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/fields.h"

terp_cuda_open_function terp_cuda_open;
}

static const struct terp_cuda_call on_host = {TERP_MEMORY_HOST, false, NULL, 0};

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

/* What else asks for another step, order or list of special values. */
enum other_field {
    OTHER_GRID,        /* whole steps from a value, in each row another one */
    OTHER_EXPONENTS,   /* noise of all exponents and signs */
    OTHER_OFFSET,      /* small noise far from 0 */
    OTHER_LAND,        /* one value in long runs, and zeros in others */
    OTHER_PAYLOADS,    /* NaN of many payloads, and -0.0 among zeros */
    OTHER_PLANES,      /* squares of coordinates: smooth, by two differences */
    OTHER_MIRRORED,    /* the second half is the first one, mirrored */
    OTHER_LATE_COLORS, /* smooth, and some values that no step has */
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

/* Chunks of all fields, and what the CPU makes of them. */
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
            continue; /* the CPU copies it */
        if (status[i] != TERP_OK)
            fail_msg("chunk %d, field %d: \"%s\"", chunk, i,
                     terp_status_text(status[i]));
        check_bytes("values", chunk, i, sample.out[i], sample.values[i],
                    sample.chunk_nbytes);
    }
}

/* A chunk that the device leaves to the CPU is one whose values repeat. */
static uint64_t
check_encoder(int chunk)
{
    const void *src[NFIELDS];
    void *dst[NFIELDS];
    uint64_t nbytes[NFIELDS], nleft = 0;

    for (int i = 0; i < NFIELDS; i++) {
        src[i] = sample.values[i];
        dst[i] = sample.out[i];
    }
    assert_int_equal(engine->encode(device, &on_host, &sample.params,
                                    &sample.chunk, NFIELDS, src, dst, nbytes),
                     TERP_OK);
    for (int i = 0; i < NFIELDS; i++) {
        const struct terp_stream *stream = &sample.stream[i];
        if (nbytes[i] == 0 && sample.params.effort != TERP_EFFORT_FAST) {
            nleft++;
            continue;
        }
        check_bytes("stream", chunk, i, sample.out[i], stream->bytes,
                    nbytes[i] < stream->nbytes ? nbytes[i] : stream->nbytes);
        assert_int_equal(nbytes[i], stream->nbytes);
    }
    return nleft;
}

static void
both_engines_make_the_same_of_lossless_chunks(void **state)
{
    (void)state;
    for (int c = 0; c < NCHUNKS; c++)
        for (enum terp_pipeline pipeline : pipelines) {
            if (!terp_case_taken(4))
                continue;
            make_sample(&chunks[c], pipeline, TERP_EFFORT_FAST);
            check_encoder(c);
            check_decoder(c);
            free_sample();
        }
}

/* Whether values repeat is asked of samples. */
static void
device_leaves_repeats_to_the_cpu(void **state)
{
    uint64_t nleft = 0;

    (void)state;
    for (int c = 0; c < 4; c += 3) {
        make_sample(&chunks[c], pipelines[0], TERP_EFFORT_DEFAULT);
        nleft += check_encoder(c);
        free_sample();
    }
    assert_in_range(nleft, 1, (uint64_t)2 * NFIELDS / 4);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_engines_make_the_same_of_lossless_chunks),
        cmocka_unit_test(device_leaves_repeats_to_the_cpu),
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
