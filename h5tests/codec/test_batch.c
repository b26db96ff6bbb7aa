/* Many chunks in one call, on the CPU: what one call a chunk gives. */
#include <stdlib.h>

#include "h5tests/support/cases.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/fields.h"
#include "h5tests/support/values.h"

#define NCHUNKS 7

static const uint64_t dims[] = {12, 13, 14};

static const struct terp_params relative = {.bound_mode = TERP_BOUND_RELATIVE,
                                            .bound = 1e-3};

#define CONST(pointers) ((const void *const *)(pointers))

/* Chunks of one shape and their streams, one call a chunk. */
struct batch {
    struct terp_chunk chunk;
    uint64_t chunk_nbytes;
    void *values[NCHUNKS];
    void *streams[NCHUNKS];
    uint64_t stream_nbytes[NCHUNKS];
    void *dst[NCHUNKS]; /* room for either */
};

static int
make_batch(void **state)
{
    static struct batch batch;

    batch.chunk = terp_case_chunk(TERP_FLOAT32, 3, dims);
    batch.chunk_nbytes = terp_chunk_nbytes(&batch.chunk);
    for (int i = 0; i < NCHUNKS; i++) {
        uint8_t *values = terp_case_alloc(batch.chunk_nbytes);
        /* Constant, smooth, rough, noise...: also one that is stored raw. */
        terp_field_make((enum terp_field)i, &batch.chunk, values);
        struct terp_stream stream =
            terp_case_encode(&relative, &batch.chunk, values, 1);
        batch.values[i] = values;
        batch.streams[i] = stream.bytes;
        batch.stream_nbytes[i] = stream.nbytes;
        batch.dst[i] = terp_case_alloc(terp_encode_bound(&batch.chunk));
    }
    *state = &batch;
    return 0;
}

static int
free_batch(void **state)
{
    struct batch *batch = *state;

    for (int i = 0; i < NCHUNKS; i++) {
        free(batch->values[i]);
        free(batch->streams[i]);
        free(batch->dst[i]);
    }
    return 0;
}

static void
batch_gives_the_streams_of_single_calls(void **state)
{
    static const int nthreads[] = {1, 2, 3, NCHUNKS, 3 * NCHUNKS};
    const struct batch *batch = *state;
    uint64_t nbytes[NCHUNKS];

    for (size_t t = 0; t < sizeof nthreads / sizeof *nthreads; t++) {
        struct terp_run run = {.nthreads = nthreads[t]};
        assert_int_equal(terp_encode_batch(&run, &relative, &batch->chunk,
                                           NCHUNKS, CONST(batch->values),
                                           batch->dst, nbytes),
                         TERP_OK);
        assert_int_equal(run.used, TERP_ENGINE_CPU);
        assert_null(run.reason);
        for (int i = 0; i < NCHUNKS; i++) {
            assert_int_equal(nbytes[i], batch->stream_nbytes[i]);
            assert_memory_equal(batch->dst[i], batch->streams[i], nbytes[i]);
            memset(batch->dst[i], 0xA5, nbytes[i]);
        }
    }
}

static void
batch_gives_the_values_of_single_calls(void **state)
{
    const struct batch *batch = *state;
    uint8_t *expected = terp_case_alloc(batch->chunk_nbytes);
    enum terp_status status[NCHUNKS];
    uint64_t got;

    for (int nthreads = 1; nthreads <= 4; nthreads++) {
        struct terp_run run = {.nthreads = nthreads};
        assert_int_equal(terp_decode_batch(&run, &batch->chunk, NCHUNKS,
                                           CONST(batch->streams),
                                           batch->stream_nbytes, batch->dst,
                                           status),
                         TERP_OK);
        for (int i = 0; i < NCHUNKS; i++) {
            assert_int_equal(status[i], TERP_OK);
            assert_int_equal(terp_decode(batch->streams[i],
                                         batch->stream_nbytes[i], expected,
                                         batch->chunk_nbytes, &got, 1),
                             TERP_OK);
            assert_memory_equal(batch->dst[i], expected, batch->chunk_nbytes);
            memset(batch->dst[i], 0xA5, batch->chunk_nbytes);
        }
    }
    free(expected);
}

static void
each_stream_has_its_own_status(void **state)
{
    const struct batch *batch = *state;
    static const uint64_t others[] = {14, 13, 12};
    struct terp_chunk other = terp_case_chunk(TERP_FLOAT32, 3, others);
    struct terp_stream turned =
        terp_case_encode(&relative, &other, batch->values[2], 1);
    uint8_t *damaged = terp_case_alloc(batch->stream_nbytes[1]);
    struct terp_run run = {.nthreads = 2};
    const void *src[NCHUNKS];
    uint64_t nbytes[NCHUNKS];
    enum terp_status status[NCHUNKS];

    memcpy(src, batch->streams, sizeof src);
    memcpy(nbytes, batch->stream_nbytes, sizeof nbytes);
    memcpy(damaged, src[1], nbytes[1]);
    damaged[nbytes[1] - 1] ^= 1;
    src[1] = damaged;
    src[2] = turned.bytes;
    nbytes[2] = turned.nbytes;
    nbytes[4] = 3;
    assert_int_equal(terp_decode_batch(&run, &batch->chunk, NCHUNKS, src,
                                       nbytes, batch->dst, status),
                     TERP_ERR_CHECKSUM);
    for (int i = 0; i < NCHUNKS; i++)
        assert_int_equal(status[i], i == 1   ? TERP_ERR_CHECKSUM
                                    : i == 2 ? TERP_ERR_ARGUMENT
                                    : i == 4 ? TERP_ERR_TRUNCATED
                                             : TERP_OK);
    free(turned.bytes);
    free(damaged);
}

static void
wrong_arguments_are_refused(void **state)
{
    const struct batch *batch = *state;
    struct terp_chunk no_chunk = {.type = TERP_FLOAT32};
    struct terp_params no_bound = {.bound_mode = TERP_BOUND_ABSOLUTE};
    struct terp_run run = {.nthreads = 1}, no_threads = {.nthreads = 0};
    uint64_t nbytes[NCHUNKS];
    enum terp_status status[NCHUNKS] = {TERP_OK};

    assert_int_equal(terp_encode_batch(&no_threads, &relative, &batch->chunk, 1,
                                       CONST(batch->values), batch->dst,
                                       nbytes),
                     TERP_ERR_ARGUMENT);
    assert_int_equal(terp_encode_batch(&run, &relative, &no_chunk, 1,
                                       CONST(batch->values), batch->dst,
                                       nbytes),
                     TERP_ERR_ARGUMENT);
    assert_int_equal(terp_encode_batch(&run, &no_bound, &batch->chunk, 1,
                                       CONST(batch->values), batch->dst,
                                       nbytes),
                     TERP_ERR_BOUND);
    assert_int_equal(
        terp_decode_batch(&run, &no_chunk, 2, CONST(batch->streams),
                          batch->stream_nbytes, batch->dst, status),
        TERP_ERR_ARGUMENT);
    assert_int_equal(status[0], TERP_ERR_ARGUMENT);
    assert_int_equal(status[1], TERP_ERR_ARGUMENT);
}

static void
empty_batch_is_done(void **state)
{
    const struct batch *batch = *state;
    struct terp_run run = {.engine = TERP_ENGINE_CUDA, .nthreads = 4};

    assert_int_equal(
        terp_encode_batch(&run, &relative, &batch->chunk, 0, NULL, NULL, NULL),
        TERP_OK);
    assert_int_equal(
        terp_decode_batch(&run, &batch->chunk, 0, NULL, NULL, NULL, NULL),
        TERP_OK);
}

static void
announced_chunk_is_what_was_encoded(void **state)
{
    struct terp_chunk chunk = {TERP_FLOAT64, true, true, 3, {2, 5, 6}};
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));
    struct terp_chunk announced;

    (void)state;
    terp_field_make(TERP_FIELD_SMOOTH, &chunk, values);
    struct terp_stream stream = terp_case_encode(&relative, &chunk, values, 1);
    assert_int_equal(
        terp_decoded_chunk(stream.bytes, stream.nbytes, &announced), TERP_OK);
    assert_int_equal(announced.type, TERP_FLOAT64);
    assert_true(announced.big_endian && announced.stack);
    assert_int_equal(announced.rank, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(announced.dims[i], chunk.dims[i]);
    assert_int_equal(terp_decoded_chunk(stream.bytes, 7, &announced),
                     TERP_ERR_TRUNCATED);
    free(stream.bytes);
    free(values);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batch_gives_the_streams_of_single_calls),
        cmocka_unit_test(batch_gives_the_values_of_single_calls),
        cmocka_unit_test(each_stream_has_its_own_status),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(empty_batch_is_done),
        cmocka_unit_test(announced_chunk_is_what_was_encoded),
    };
    return cmocka_run_group_tests(tests, make_batch, free_batch);
}
