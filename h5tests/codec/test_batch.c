/* Batches on the CPU: a batch gives the same results as one call for each
 * chunk. Also contexts, and the messages for invalid arguments. */
#define _GNU_SOURCE /* for posix_memalign */
#include <stdatomic.h>
#include <stdio.h>
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

/* Chunks of one shape, and the streams that single calls make of them. */
struct batch {
    struct terp_chunk chunk;
    uint64_t chunk_nbytes;
    void *values[NCHUNKS];
    void *streams[NCHUNKS];
    uint64_t stream_nbytes[NCHUNKS];
    void *dst[NCHUNKS]; /* large enough for a stream or a chunk */
};

static int
make_batch(void **state)
{
    static struct batch batch;

    batch.chunk = terp_case_chunk(TERP_FLOAT32, 3, dims);
    batch.chunk_nbytes = terp_chunk_nbytes(&batch.chunk);
    for (int i = 0; i < NCHUNKS; i++) {
        uint8_t *values = terp_case_alloc(batch.chunk_nbytes);
        /* Constant, smooth, rough, noise and so on; one chunk is stored raw. */
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
        struct terp_run_options run = {.size = sizeof run,
                                       .nthreads = nthreads[t]};
        struct terp_run_result result = {.size = sizeof result};
        assert_int_equal(terp_encode_batch(&run, &relative, &batch->chunk,
                                           NCHUNKS, CONST(batch->values),
                                           batch->dst, nbytes, &result),
                         TERP_OK);
        assert_int_equal(result.used, TERP_ENGINE_CPU);
        assert_null(result.reason);
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
        struct terp_run_options run = {.nthreads = nthreads};
        assert_int_equal(terp_decode_batch(&run, &batch->chunk, NCHUNKS,
                                           CONST(batch->streams),
                                           batch->stream_nbytes, batch->dst,
                                           status, NULL),
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
    struct terp_run_options run = {.nthreads = 2};
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
                                       nbytes, batch->dst, status, NULL),
                     TERP_ERR_CHECKSUM);
    for (int i = 0; i < NCHUNKS; i++)
        assert_int_equal(status[i], i == 1   ? TERP_ERR_CHECKSUM
                                    : i == 2 ? TERP_ERR_ARGUMENT
                                    : i == 4 ? TERP_ERR_TRUNCATED
                                             : TERP_OK);
    free(turned.bytes);
    free(damaged);
}

static enum terp_status
encode_with(const struct batch *batch, const struct terp_run_options *run,
            const struct terp_params *params, const struct terp_chunk *chunk,
            const char **reason_ret)
{
    struct terp_run_result result = {.size = sizeof result};
    uint64_t nbytes[NCHUNKS];
    enum terp_status st =
        terp_encode_batch(run, params, chunk, 1, CONST(batch->values),
                          batch->dst, nbytes, &result);

    *reason_ret = result.reason;
    return st;
}

static void
wrong_chunk_is_refused(void **state)
{
    const struct batch *batch = *state;
    struct terp_chunk no_chunk = {.type = TERP_FLOAT32};
    enum terp_status status[NCHUNKS] = {TERP_OK};
    const char *reason;

    assert_int_equal(encode_with(batch, NULL, &relative, &no_chunk, &reason),
                     TERP_ERR_ARGUMENT);
    assert_non_null(strstr(reason, "terp_chunk"));
    assert_int_equal(
        terp_decode_batch(NULL, &no_chunk, 2, CONST(batch->streams),
                          batch->stream_nbytes, batch->dst, status, NULL),
        TERP_ERR_ARGUMENT);
    assert_int_equal(status[0], TERP_ERR_ARGUMENT);
    assert_int_equal(status[1], TERP_ERR_ARGUMENT);
}

/* Chunks that differ from the streams' chunk in one property. */
static void
other_chunk_is_refused_by_each_stream(void **state)
{
    const struct batch *batch = *state;
    struct terp_chunk others[4] = {batch->chunk, batch->chunk, batch->chunk,
                                   batch->chunk};

    others[0].big_endian = true;
    others[1].type = TERP_INT32;
    others[2].stack = true;
    others[3].rank = 2;
    others[3].dims[0] *= others[3].dims[2];
    for (int i = 0; i < 4; i++)
        for (uint64_t step = 1; step <= 2; step++) {
            enum terp_status status[NCHUNKS] = {TERP_OK};
            assert_int_equal(terp_decode_coarse_batch(NULL, &others[i], step, 2,
                                                      CONST(batch->streams),
                                                      batch->stream_nbytes,
                                                      batch->dst, status, NULL),
                             TERP_ERR_ARGUMENT);
            assert_int_equal(status[0], TERP_ERR_ARGUMENT);
            assert_int_equal(status[1], TERP_ERR_ARGUMENT);
        }
}

/* All chunks have the same status as the call. */
static void
wrong_options_are_told_of_each_chunk(void **state)
{
    const struct batch *batch = *state;
    const struct terp_run_options run = {.size = 3};
    enum terp_status status[NCHUNKS] = {TERP_OK};

    assert_int_equal(terp_decode_coarse_batch(
                         &run, &batch->chunk, 2, NCHUNKS, CONST(batch->streams),
                         batch->stream_nbytes, batch->dst, status, NULL),
                     TERP_ERR_ARGUMENT);
    for (int i = 0; i < NCHUNKS; i++)
        assert_int_equal(status[i], TERP_ERR_ARGUMENT);
}

static void
wrong_options_are_refused_by_name(void **state)
{
    static const struct {
        struct terp_run_options options;
        const char *member;
    } cases[] = {
        {{.size = 1}, "terp_run_options.size"},
        {{.engine = (enum terp_engine_kind)3}, "terp_run_options.engine"},
        {{.engine = (enum terp_engine_kind) - 1}, "terp_run_options.engine"},
        {{.memory = (enum terp_memory)2}, "terp_run_options.memory"},
        {{.memory = TERP_MEMORY_DEVICE}, "terp_run_options.engine"},
        {{.nthreads = -1}, "terp_run_options.nthreads"},
    };
    const struct batch *batch = *state;
    struct terp_run_result other = {.size = 7};
    const char *reason;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(encode_with(batch, &cases[i].options, &relative,
                                     &batch->chunk, &reason),
                         TERP_ERR_ARGUMENT);
        assert_non_null(strstr(reason, cases[i].member));
    }
    assert_int_equal(terp_encode_batch(NULL, &relative, &batch->chunk, 0, NULL,
                                       NULL, NULL, &other),
                     TERP_ERR_ARGUMENT);
}

/* {.bound = 1e-3} alone does not choose a bound mode. */
static void
wrong_params_are_refused_by_name(void **state)
{
    const struct {
        struct terp_params params;
        enum terp_status status;
        const char *member;
    } cases[] = {
        {{.bound = 1e-3}, TERP_ERR_ARGUMENT, "terp_params.bound_mode"},
        {{.bound_mode = (enum terp_bound_mode)TERP_NBOUND_MODES, .bound = 1e-3},
         TERP_ERR_ARGUMENT,
         "terp_params.bound_mode"},
        {{.bound_mode = TERP_BOUND_RELATIVE,
          .bound = 1e-3,
          .pipeline = (enum terp_pipeline)77},
         TERP_ERR_ARGUMENT,
         "terp_params.pipeline"},
        {{.bound_mode = TERP_BOUND_RELATIVE,
          .bound = 1e-3,
          .predictor = (enum terp_predictor)9},
         TERP_ERR_ARGUMENT,
         "terp_params.predictor"},
        {{.bound_mode = TERP_BOUND_RELATIVE,
          .bound = 1e-3,
          .effort = TERP_NEFFORTS},
         TERP_ERR_ARGUMENT,
         "terp_params.effort"},
        {{.size = 3, .bound_mode = TERP_BOUND_RELATIVE, .bound = 1e-3},
         TERP_ERR_ARGUMENT,
         "terp_params.size"},
        {{.bound_mode = TERP_BOUND_RELATIVE},
         TERP_ERR_BOUND,
         "terp_params.bound"},
        {{.bound_mode = TERP_BOUND_POINTWISE, .bound = 1},
         TERP_ERR_BOUND,
         "terp_params.bound"},
    };
    const struct batch *batch = *state;
    const char *reason;
    uint64_t nbytes;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(terp_params_check(&cases[i].params, &reason),
                         cases[i].status);
        assert_non_null(strstr(reason, cases[i].member));
        assert_int_equal(
            encode_with(batch, NULL, &cases[i].params, &batch->chunk, &reason),
            cases[i].status);
        assert_non_null(strstr(reason, cases[i].member));
        assert_int_equal(terp_encode(&cases[i].params, &batch->chunk,
                                     batch->values[0], batch->dst[0],
                                     terp_encode_bound(&batch->chunk), &nbytes,
                                     1),
                         cases[i].status);
    }
    assert_int_equal(terp_params_check(&relative, &reason), TERP_OK);
    assert_null(reason);
}

static void
empty_batch_is_done(void **state)
{
    const struct batch *batch = *state;
    struct terp_run_options run = {.engine = TERP_ENGINE_CUDA, .nthreads = 4};

    assert_int_equal(terp_encode_batch(&run, &relative, &batch->chunk, 0, NULL,
                                       NULL, NULL, NULL),
                     TERP_OK);
    assert_int_equal(
        terp_decode_batch(&run, &batch->chunk, 0, NULL, NULL, NULL, NULL, NULL),
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

/* An allocator whose blocks have a header that the C library's do not have. */
struct pool {
    atomic_int nblocks, ncalls;
    bool is_empty;
};

static void *
pool_allocate(void *arg, size_t nbytes)
{
    struct pool *pool = arg;
    void *at = NULL;

    pool->ncalls++;
    if (pool->is_empty || posix_memalign(&at, 64, nbytes + 64) != 0)
        return NULL;
    pool->nblocks++;
    return (uint8_t *)at + 64;
}

static void
pool_release(void *arg, void *at)
{
    struct pool *pool = arg;

    pool->nblocks--;
    free((uint8_t *)at - 64);
}

static void
context_gives_memory_and_threads(void **state)
{
    const struct batch *batch = *state;
    struct pool pool = {0};
    struct terp_context_options shared = {.size = sizeof shared,
                                          .nthreads = 2,
                                          .device = -1,
                                          .allocate = pool_allocate,
                                          .release = pool_release,
                                          .allocator_arg = &pool};
    struct terp_run_options run = {.size = sizeof run};
    struct terp_chunk big_endian = batch->chunk;
    enum terp_status status[NCHUNKS];
    uint64_t nbytes[NCHUNKS];

    big_endian.big_endian = true;
    assert_int_equal(terp_context_make(&shared, &run.context), TERP_OK);
    for (int pipeline = 0; pipeline < TERP_NPIPELINES; pipeline++) {
        if (terp_pipeline_name((enum terp_pipeline)pipeline) == NULL)
            continue;
        struct terp_params params = relative;
        int ncalls = pool.ncalls;
        params.pipeline = (enum terp_pipeline)pipeline;
        assert_int_equal(terp_encode_batch(&run, &params, &batch->chunk,
                                           NCHUNKS, CONST(batch->values),
                                           batch->dst, nbytes, NULL),
                         TERP_OK);
        /* speed works in place, from values to streams */
        assert_true(pool.ncalls > ncalls || pipeline == TERP_PIPELINE_SPEED);
        assert_int_equal(pool.nblocks, 0);
        assert_int_equal(terp_encode_batch(&run, &params, &big_endian, NCHUNKS,
                                           CONST(batch->values), batch->dst,
                                           nbytes, NULL),
                         TERP_OK);
        assert_int_equal(pool.nblocks, 0);
    }
    pool.ncalls = 0;
    assert_int_equal(
        terp_decode_batch(&run, &batch->chunk, NCHUNKS, CONST(batch->streams),
                          batch->stream_nbytes, batch->dst, status, NULL),
        TERP_OK);
    assert_true(pool.ncalls > 0);
    assert_int_equal(pool.nblocks, 0);
    pool.is_empty = true;
    assert_int_equal(
        terp_decode_batch(&run, &batch->chunk, NCHUNKS, CONST(batch->streams),
                          batch->stream_nbytes, batch->dst, status, NULL),
        TERP_ERR_MEMORY);
    terp_context_trim(run.context);
    terp_context_destroy(run.context);
}

static void
wrong_context_is_refused(void **state)
{
    const struct terp_context_options wrong[] = {
        {.size = 5, .device = -1},
        {.nthreads = -1, .device = -1},
        {.device = -2},
        {.device = -1, .allocate = pool_allocate},
        {.device = -1, .release = pool_release}};
    struct terp_context *context;

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(terp_context_make(&wrong[i], &context),
                         TERP_ERR_ARGUMENT);
    assert_int_equal(terp_context_make(NULL, &context), TERP_OK);
    terp_context_destroy(context);
    terp_context_trim(NULL);
    terp_context_destroy(NULL);
}

static void
version_is_that_of_the_header(void **state)
{
    char numbers[32];

    (void)state;
    snprintf(numbers, sizeof numbers, "%d.%d.%d", TERP_VERSION_MAJOR,
             TERP_VERSION_MINOR, TERP_VERSION_PATCH);
    assert_string_equal(numbers, TERP_VERSION);
    assert_string_equal(terp_version(), TERP_VERSION);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batch_gives_the_streams_of_single_calls),
        cmocka_unit_test(batch_gives_the_values_of_single_calls),
        cmocka_unit_test(each_stream_has_its_own_status),
        cmocka_unit_test(wrong_chunk_is_refused),
        cmocka_unit_test(other_chunk_is_refused_by_each_stream),
        cmocka_unit_test(wrong_options_are_told_of_each_chunk),
        cmocka_unit_test(wrong_options_are_refused_by_name),
        cmocka_unit_test(wrong_params_are_refused_by_name),
        cmocka_unit_test(context_gives_memory_and_threads),
        cmocka_unit_test(wrong_context_is_refused),
        cmocka_unit_test(version_is_that_of_the_header),
        cmocka_unit_test(empty_batch_is_done),
        cmocka_unit_test(announced_chunk_is_what_was_encoded),
    };
    return cmocka_run_group_tests(tests, make_batch, free_batch);
}
