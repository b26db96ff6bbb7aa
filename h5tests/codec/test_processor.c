/* The engine makes the same streams and values with all instruction sets of the
 * processor. TERP_CPU chooses between them. */
#define _POSIX_C_SOURCE 200809L /* for setenv */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "codec/api/processor.h"
#include "codec/compose/stream.h"
#include "codec/format/types.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/fields.h"
#include "h5tests/support/modes.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Rows shorter and longer than any vector, with all remainders. */
static const struct terp_chunk shapes[] = {
    {TERP_FLOAT32, false, false, 3, {7, 37, 71}},
    {TERP_FLOAT32, true, true, 4, {3, 11, 12, 13}},
    {TERP_FLOAT32, false, false, 1, {10007}},
};

static const struct terp_params bounds[] = {
    {.bound_mode = TERP_BOUND_RELATIVE, .bound = 1e-2},
    {.bound_mode = TERP_BOUND_RELATIVE, .bound = 1e-6},
    {.bound_mode = TERP_BOUND_ABSOLUTE, .bound = 0},
    {.bound_mode = TERP_BOUND_ABSOLUTE, .bound = 2},
    {.bound_mode = TERP_BOUND_POINTWISE, .bound = 1e-3},
    {.bound_mode = TERP_BOUND_POINTWISE, .bound = 1e-4, .floor = 1e-2},
};

/* An engine's results for a chunk. */
struct made {
    enum terp_status status;
    uint64_t nbytes;
    uint8_t *stream, *decoded;
    struct terp_measure measure; /* of the decoded values */
};

static void *
allocate(uint64_t nbytes)
{
    void *at = calloc(1, nbytes);

    assert_non_null(at);
    return at;
}

static struct made
make(const struct terp_engine *engine, const struct terp_params *params,
     const struct terp_chunk *chunk, const uint8_t *values)
{
    const struct terp_cpu_call call = {.engine = engine, .nthreads = 1};
    struct made made = {.stream = allocate(terp_encode_bound(chunk)),
                        .decoded = allocate(terp_chunk_nbytes(chunk))};
    struct terp_open_stream stream;

    made.status = terp_stream_encode(&call, params, chunk, values, made.stream,
                                     &made.nbytes);
    if (made.status != TERP_OK)
        return made;
    assert_int_equal(terp_stream_open(made.stream, made.nbytes, 1, &stream),
                     TERP_OK);
    assert_int_equal(terp_stream_decode(&call, &stream, 1, made.decoded),
                     TERP_OK);
    if (!terp_type_is_plain(chunk->type))
        return made;
    uint8_t *other = allocate(terp_chunk_nbytes(chunk));
    memcpy(other, made.decoded, terp_chunk_nbytes(chunk));
    struct terp_session *session = engine->open(&call, 1);
    const void *const src[] = {values};
    void *const others[] = {other};
    engine->measure(session, params, chunk, 1, src, &made.measure);
    engine->compare(session, params, chunk, 1, src, others, &made.measure);
    engine->close(session);
    free(other);
    return made;
}

static void
free_made(struct made *made)
{
    free(made->stream);
    free(made->decoded);
}

/* Compares each engine with the baseline. Counts the streams. */
static void
compare(const struct terp_params *params, const struct terp_chunk *chunk,
        const uint8_t *values, unsigned *nstreams)
{
    struct made wanted = make(&terp_cpu_baseline, params, chunk, values);
    const struct terp_engine *engine;

    for (size_t i = 0;
         (engine = terp_processor_nth_engine(i)) != &terp_cpu_baseline; i++) {
        struct made got = make(engine, params, chunk, values);
        assert_int_equal(got.status, wanted.status);
        if (wanted.status == TERP_OK) {
            assert_int_equal(got.nbytes, wanted.nbytes);
            assert_memory_equal(got.stream, wanted.stream, wanted.nbytes);
            assert_memory_equal(got.decoded, wanted.decoded,
                                terp_chunk_nbytes(chunk));
            assert_memory_equal(&got.measure, &wanted.measure,
                                sizeof wanted.measure);
            ++*nstreams;
        }
        free_made(&got);
    }
    free_made(&wanted);
}

static void
all_instructions_make_the_same_bytes(void **state)
{
    unsigned nstreams = 0, turn = 0;

    (void)state;
    if (terp_processor_nth_engine(0) == &terp_cpu_baseline)
        skip();
    for (int type = TERP_FLOAT32; type < TERP_NTYPES; type++)
        for (int field = 0; field < TERP_NFIELDS; field++) {
            struct terp_chunk chunk = shapes[(unsigned)field % COUNT(shapes)];
            if (type == TERP_BYTES)
                continue;
            chunk.type = (enum terp_type)type;
            uint8_t *values = allocate(terp_chunk_nbytes(&chunk));
            terp_field_make((enum terp_field)field, &chunk, values);
            for (size_t b = turn % 2; b < COUNT(bounds); b += 2, turn++) {
                struct terp_params params = bounds[b];
                params.pipeline = terp_mode[turn % TERP_NMODES].pipeline;
                params.predictor = terp_mode[turn % TERP_NMODES].predictor;
                if (!terp_type_is_plain(chunk.type))
                    params.floor = 0;
                compare(&params, &chunk, values, &nstreams);
            }
            free(values);
        }
    assert_true(nstreams > 500);
}

/* ---- the choice ---- */

/* A process chooses an instruction set once, so each choice runs in a child.
 * Returns whether it is `wanted`, and whether there is a reason. */
static void
check_choice(const char *name, const struct terp_engine *wanted,
             bool has_reason)
{
    fflush(NULL);
    pid_t child = fork();
    int status;

    assert_true(child >= 0);
    if (child == 0) {
        unsetenv("TERP_CPU");
        if (name != NULL)
            setenv("TERP_CPU", name, 1);
        _exit(terp_processor_engine() == wanted &&
                      strcmp(terp_cpu_instructions(), wanted->instructions) ==
                          0 &&
                      (terp_processor_reason() != NULL) == has_reason
                  ? EXIT_SUCCESS
                  : EXIT_FAILURE);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS);
}

static void
environment_chooses_what_the_processor_runs(void **state)
{
    const struct terp_engine *best = terp_processor_nth_engine(0), *engine;

    (void)state;
    for (size_t i = 0; (engine = terp_processor_nth_engine(i)) != NULL; i++)
        check_choice(engine->instructions, engine, false);
    check_choice(NULL, best, false);
    check_choice("", best, false);
    check_choice("abacus", best, true);
    check_choice("AVX2", best, true);
}

static void
every_processor_runs_the_baseline(void **state)
{
    const struct terp_engine *engine, *last = NULL;

    (void)state;
    for (size_t i = 0; (engine = terp_processor_nth_engine(i)) != NULL; i++)
        last = engine;
    assert_ptr_equal(last, &terp_cpu_baseline);
    assert_string_equal(terp_cpu_baseline.instructions, "baseline");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_instructions_make_the_same_bytes),
        cmocka_unit_test(environment_chooses_what_the_processor_runs),
        cmocka_unit_test(every_processor_runs_the_baseline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
