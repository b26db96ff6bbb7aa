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

static const struct terp_cuda_call on_host = {TERP_MEMORY_HOST, false, NULL};

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

/* Chunks of all fields, and what the CPU makes of them. */
static struct {
    struct terp_chunk chunk;
    struct terp_params params;
    uint64_t chunk_nbytes;
    uint8_t *values[TERP_NFIELDS], *out[TERP_NFIELDS];
    struct terp_stream stream[TERP_NFIELDS];
} sample;

static void
make_sample(const struct terp_chunk *chunk, enum terp_pipeline pipeline)
{
    sample.chunk = *chunk;
    sample.params = {};
    sample.params.bound_mode = TERP_BOUND_ABSOLUTE;
    sample.params.pipeline = pipeline;
    sample.params.effort = TERP_EFFORT_FAST;
    sample.chunk_nbytes = terp_chunk_nbytes(chunk);
    for (int i = 0; i < TERP_NFIELDS; i++) {
        sample.values[i] = (uint8_t *)terp_case_alloc(sample.chunk_nbytes);
        sample.out[i] = (uint8_t *)terp_case_alloc(terp_encode_bound(chunk));
        terp_field_make((enum terp_field)i, chunk, sample.values[i]);
        sample.stream[i] =
            terp_case_encode(&sample.params, chunk, sample.values[i], 1);
    }
}

static void
free_sample(void)
{
    for (int i = 0; i < TERP_NFIELDS; i++) {
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
    const void *src[TERP_NFIELDS];
    void *dst[TERP_NFIELDS];
    uint64_t nbytes[TERP_NFIELDS];
    enum terp_status status[TERP_NFIELDS];

    for (int i = 0; i < TERP_NFIELDS; i++) {
        src[i] = sample.stream[i].bytes;
        nbytes[i] = sample.stream[i].nbytes;
        dst[i] = sample.out[i];
    }
    assert_int_equal(engine->decode(device, &on_host, &sample.chunk,
                                    TERP_NFIELDS, src, nbytes, dst, status),
                     TERP_OK);
    for (int i = 0; i < TERP_NFIELDS; i++) {
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
    const void *src[TERP_NFIELDS];
    void *dst[TERP_NFIELDS];
    uint64_t nbytes[TERP_NFIELDS], nleft = 0;

    for (int i = 0; i < TERP_NFIELDS; i++) {
        src[i] = sample.values[i];
        dst[i] = sample.out[i];
    }
    assert_int_equal(engine->encode(device, &on_host, &sample.params,
                                    &sample.chunk, TERP_NFIELDS, src, dst,
                                    nbytes),
                     TERP_OK);
    for (int i = 0; i < TERP_NFIELDS; i++) {
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
device_encodes_what_the_cpu_does(void **state)
{
    (void)state;
    for (int c = 0; c < NCHUNKS; c++)
        for (enum terp_pipeline pipeline : pipelines) {
            make_sample(&chunks[c], pipeline);
            check_encoder(c);
            free_sample();
        }
}

static void
device_decodes_what_the_cpu_encodes(void **state)
{
    (void)state;
    for (int c = 0; c < NCHUNKS; c++)
        for (enum terp_pipeline pipeline : pipelines) {
            make_sample(&chunks[c], pipeline);
            check_decoder(c);
            free_sample();
        }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(device_decodes_what_the_cpu_encodes),
        cmocka_unit_test(device_encodes_what_the_cpu_does),
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
