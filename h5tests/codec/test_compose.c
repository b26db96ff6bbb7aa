/* A batch of unlike chunks gives the streams and the values of single chunks.
 * The CPU engine gets no such batches from the API, but a device does, by the
 * same composition. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/compose/bounds.h"
#include "codec/compose/decode.h"
#include "codec/model/bound.h"
#include "h5tests/support/cases.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/fields.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Contents that become a constant, a stored chunk, a stream of what is left
 * without copies, streams with references, plain streams in several
 * domains, and lossless ones under a bound. */
static const enum terp_field fields[] = {
    TERP_FIELD_ROUGH,    TERP_FIELD_NOISE,   TERP_FIELD_PROFILE,
    TERP_FIELD_MAPS,     TERP_FIELD_COAST,   TERP_FIELD_CONSTANT,
    TERP_FIELD_GAPS,     TERP_FIELD_PROFILE, TERP_FIELD_STEPS,
    TERP_FIELD_INTEGERS, TERP_FIELD_GRIDS};

static const struct terp_params bounds[] = {
    {.bound_mode = TERP_BOUND_RELATIVE, .bound = 1e-3},
    {.bound_mode = TERP_BOUND_ABSOLUTE, .bound = 0},
    {.bound_mode = TERP_BOUND_ABSOLUTE,
     .bound = 1e-2,
     .effort = TERP_EFFORT_BEST},
    {.bound_mode = TERP_BOUND_POINTWISE, .bound = 1e-2},
    {.bound_mode = TERP_BOUND_POINTWISE, .bound = 1e-2, .floor = 1e-3},
    {.bound_mode = TERP_BOUND_PSNR, .bound = 50},
};

static const enum terp_type types[] = {TERP_FLOAT32, TERP_FLOAT64,
                                       TERP_COMPLEX64, TERP_INT16};

/* How many streams of each coding were decoded. */
static int nstreams_of[TERP_CODING_PARTS + 1];

/* Chunks of a batch, with streams and values of their own. */
struct chunks {
    struct terp_chunk chunk;
    void *values[COUNT(fields)], *streams[COUNT(fields)],
        *decoded[COUNT(fields)];
    uint64_t nbytes[COUNT(fields)];
};

static void
make_chunks(const struct terp_chunk *chunk, struct chunks *chunks)
{
    chunks->chunk = *chunk;
    for (size_t i = 0; i < COUNT(fields); i++) {
        chunks->values[i] = terp_case_alloc(terp_chunk_nbytes(chunk));
        chunks->streams[i] = terp_case_alloc(terp_encode_bound(chunk));
        chunks->decoded[i] = terp_case_alloc(terp_chunk_nbytes(chunk));
        terp_field_make(fields[i], chunk, chunks->values[i]);
    }
}

static void
free_chunks(struct chunks *chunks)
{
    for (size_t i = 0; i < COUNT(fields); i++) {
        free(chunks->values[i]);
        free(chunks->streams[i]);
        free(chunks->decoded[i]);
    }
}

static struct terp_coder
open_coder(const struct terp_chunk *chunk)
{
    const struct terp_cpu_call call = {&terp_cpu_baseline, 1, NULL};

    return terp_coder_open(&call, terp_chunk_nvalues(chunk));
}

static void
encode(struct chunks *chunks, const struct terp_params *params)
{
    const struct terp_params known =
        terp_params_of_type(chunks->chunk.type, params);
    const struct terp_batch batch = {
        {.chunk = &chunks->chunk,
         .params = &known,
         .n = COUNT(fields),
         .src = (const void *const *)chunks->values},
        chunks->streams,
        chunks->nbytes};
    const struct terp_coder coder = open_coder(&chunks->chunk);

    assert_int_equal(terp_bounded_encode(&coder, &batch), TERP_OK);
    terp_coder_close(&coder);
}

static void
decode(struct chunks *chunks, uint64_t step)
{
    const struct terp_coder coder = open_coder(&chunks->chunk);
    struct terp_open_stream streams[COUNT(fields)];
    enum terp_status status[COUNT(fields)];

    assert_int_equal(terp_frames_read(&coder, COUNT(fields),
                                      (const void *const *)chunks->streams,
                                      chunks->nbytes, streams),
                     TERP_OK);
    assert_int_equal(terp_chunks_decode(&coder, COUNT(fields), streams, step,
                                        chunks->decoded, status),
                     TERP_OK);
    for (size_t i = 0; i < COUNT(fields); i++) {
        assert_int_equal(status[i], TERP_OK);
        nstreams_of[streams[i].frame.coding]++;
    }
    terp_coder_close(&coder);
}

/* Compares with chunks that are encoded and decoded alone. */
static void
check_chunks(struct chunks *chunks, const struct terp_params *params)
{
    const uint64_t chunk_nbytes = terp_chunk_nbytes(&chunks->chunk);
    uint8_t *stream = terp_case_alloc(terp_encode_bound(&chunks->chunk));
    uint8_t *values = terp_case_alloc(chunk_nbytes);
    uint64_t nbytes;

    for (size_t i = 0; i < COUNT(fields); i++) {
        assert_int_equal(terp_encode(params, &chunks->chunk, chunks->values[i],
                                     stream, terp_encode_bound(&chunks->chunk),
                                     &nbytes, 1),
                         TERP_OK);
        if (nbytes != chunks->nbytes[i] ||
            memcmp(stream, chunks->streams[i], nbytes) != 0)
            fail_msg("%s, %s, mode %d: %llu bytes alone, %llu in a batch",
                     terp_field_name[fields[i]],
                     terp_type_name(chunks->chunk.type),
                     (int)params->bound_mode, (unsigned long long)nbytes,
                     (unsigned long long)chunks->nbytes[i]);
    }
    for (uint64_t step = 1; step <= 4; step *= 2) {
        decode(chunks, step);
        for (size_t i = 0; i < COUNT(fields); i++) {
            assert_int_equal(terp_decode_coarse(chunks->streams[i],
                                                chunks->nbytes[i], step, values,
                                                chunk_nbytes, &nbytes, 1),
                             TERP_OK);
            assert_memory_equal(chunks->decoded[i], values, nbytes);
        }
    }
    free(stream);
    free(values);
}

static void
batches_equal_single_chunks(void **state)
{
    static const struct terp_chunk shapes[] = {
        {TERP_FLOAT32, false, false, 3, {24, 20, 30}},
        {TERP_FLOAT32, true, false, 2, {140, 61}},
        {TERP_FLOAT32, false, false, 1, {9000}},
        {TERP_FLOAT32, false, false, 1, {5}},
    };
    /* with a sanitizer, a quarter of the shapes of each type */
    const uint64_t every = terp_case_fewer() / 16;
    struct chunks chunks;

    (void)state;
    for (size_t t = 0; t < COUNT(types); t++)
        for (size_t s = 0; s < COUNT(shapes); s++) {
            struct terp_chunk chunk = shapes[s];
            chunk.type = types[t];
            if (!terp_case_is_drawn(COUNT(shapes) * t + s, every))
                continue;
            make_chunks(&chunk, &chunks);
            for (size_t b = 0; b < COUNT(bounds); b++) {
                struct terp_params params = bounds[b];
                if (terp_type_is_integer(chunk.type) &&
                    params.bound_mode != TERP_BOUND_ABSOLUTE)
                    continue;
                if (terp_type_is_integer(chunk.type) && params.bound > 0)
                    params.bound = 3;
                encode(&chunks, &params);
                check_chunks(&chunks, &params);
            }
            free_chunks(&chunks);
        }
    if (every > 1)
        return;
    assert_true(nstreams_of[TERP_CODING_RAW] > 0);
    assert_true(nstreams_of[TERP_CODING_CONSTANT] > 0);
    assert_true(nstreams_of[TERP_CODING_RATIO] > 0);
    assert_true(nstreams_of[TERP_CODING_COPIES] > 0);
    assert_true(nstreams_of[TERP_CODING_REFERENCES] > 0);
    assert_true(nstreams_of[TERP_CODING_PARTS] > 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_equal_single_chunks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
