/* The number of threads changes no byte, and concurrent calls do not
 * interfere. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "h5tests/support/cases.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/fields.h"
#include "h5tests/support/values.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const enum terp_field contents[] = {TERP_FIELD_SMOOTH, TERP_FIELD_ROUGH,
                                           TERP_FIELD_COAST, TERP_FIELD_NOISE};

static const int nthreads_tried[] = {2, 3};

static struct terp_params
params_of(int mode)
{
    return (struct terp_params){.bound_mode = TERP_BOUND_RELATIVE,
                                .bound = 1e-3,
                                .pipeline = terp_mode[mode].pipeline,
                                .predictor = terp_mode[mode].predictor};
}

static void
compare_threads(const struct terp_params *params,
                const struct terp_chunk *chunk, const uint8_t *values)
{
    uint64_t nbytes = terp_chunk_nbytes(chunk), got;
    uint8_t *expected = terp_case_alloc(nbytes);
    uint8_t *decoded = terp_case_alloc(nbytes);
    struct terp_stream one = terp_case_encode(params, chunk, values, 1);

    assert_int_equal(
        terp_decode(one.bytes, one.nbytes, expected, nbytes, &got, 1), TERP_OK);
    for (size_t t = 0; t < COUNT(nthreads_tried); t++) {
        struct terp_stream many =
            terp_case_encode(params, chunk, values, nthreads_tried[t]);
        assert_int_equal(many.nbytes, one.nbytes);
        assert_memory_equal(many.bytes, one.bytes, one.nbytes);
        memset(decoded, 0xA5, nbytes);
        assert_int_equal(terp_decode(many.bytes, many.nbytes, decoded, nbytes,
                                     &got, nthreads_tried[t]),
                         TERP_OK);
        assert_memory_equal(decoded, expected, nbytes);
        free(many.bytes);
    }
    free(one.bytes);
    free(expected);
    free(decoded);
}

static void
any_number_of_threads_gives_the_same_bytes(void **state)
{
    static const struct terp_chunk chunks[] = {
        {TERP_FLOAT32, false, false, 3, {64, 64, 64}},
        {TERP_FLOAT64, false, false, 2, {523, 509}},
        {TERP_FLOAT32, false, false, 1, {400003}},
        {TERP_FLOAT64, true, true, 4, {65, 16, 16, 16}},
        {TERP_FLOAT32, false, false, 1, {2}},
    };

    (void)state;
    for (size_t c = 0; c < COUNT(chunks); c++) {
        uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunks[c]));
        for (size_t f = 0; f < COUNT(contents); f++) {
            terp_field_make(contents[f], &chunks[c], values);
            for (int mode = 0; mode < TERP_NMODES; mode++) {
                struct terp_params params = params_of(mode);
                if (terp_case_taken(1))
                    compare_threads(&params, &chunks[c], values);
            }
        }
        free(values);
    }
}

/* cmocka's checks work in the main thread only, so other threads count
 * errors. */
struct caller {
    pthread_t thread;
    int mode;
    const struct terp_chunk *chunk;
    const uint8_t *values;
    const struct terp_stream *expected; /* per mode */
    atomic_int *nwrong;
};

static void *
call(void *arg)
{
    struct caller *caller = arg;
    uint64_t nbytes = terp_chunk_nbytes(caller->chunk), got;
    uint64_t cap_nbytes = terp_encode_bound(caller->chunk);
    uint8_t *encoded = malloc(cap_nbytes), *decoded = malloc(nbytes);

    for (int turn = 0; turn < TERP_NMODES; turn++) {
        int mode = (caller->mode + turn) % TERP_NMODES;
        const struct terp_stream *expected = &caller->expected[mode];
        struct terp_params params = params_of(mode);
        bool right =
            encoded != NULL && decoded != NULL &&
            terp_encode(&params, caller->chunk, caller->values, encoded,
                        cap_nbytes, &got, 1 + turn % 2) == TERP_OK &&
            got == expected->nbytes &&
            memcmp(encoded, expected->bytes, got) == 0 &&
            terp_decode(encoded, got, decoded, nbytes, &got, 1 + turn % 2) ==
                TERP_OK;
        if (!right)
            (*caller->nwrong)++;
    }
    free(encoded);
    free(decoded);
    return NULL;
}

static void
calls_at_the_same_time_do_not_meet(void **state)
{
    static const uint64_t dims[] = {64, 64, 65};
    struct terp_chunk chunk = terp_case_chunk(TERP_FLOAT32, 3, dims);
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));
    struct terp_stream expected[TERP_NMODES];
    struct caller callers[4];
    atomic_int nwrong = 0;

    (void)state;
    terp_field_make(TERP_FIELD_GAPS, &chunk, values);
    for (int mode = 0; mode < TERP_NMODES; mode++) {
        struct terp_params params = params_of(mode);
        expected[mode] = terp_case_encode(&params, &chunk, values, 1);
    }
    for (int i = 0; i < (int)COUNT(callers); i++) {
        callers[i] = (struct caller){0, i, &chunk, values, expected, &nwrong};
        assert_int_equal(
            pthread_create(&callers[i].thread, NULL, call, &callers[i]), 0);
    }
    for (int i = 0; i < (int)COUNT(callers); i++)
        assert_int_equal(pthread_join(callers[i].thread, NULL), 0);
    assert_int_equal(nwrong, 0);
    for (int mode = 0; mode < TERP_NMODES; mode++)
        free(expected[mode].bytes);
    free(values);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_threads_gives_the_same_bytes),
        cmocka_unit_test(calls_at_the_same_time_do_not_meet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
