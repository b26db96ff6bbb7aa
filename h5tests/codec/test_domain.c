/* The domain, the shape in which a chunk is predicted: the encoder finds it,
 * the decoder reads it. doc/format.md, "Domain". */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codec/format/frame.h"
#include "h5tests/support/cases.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/fields.h"
#include "h5tests/support/values.h"

static const struct terp_params params_1e_3 = {
    .bound_mode = TERP_BOUND_RELATIVE, .bound = 1e-3};

/* Checks what a chunk's stream says of itself, all promises, and that the
 * number of threads does not matter. */
static struct terp_info
code(const struct terp_params *params, const struct terp_chunk *chunk,
     const uint8_t *values)
{
    struct terp_info info = {.size = sizeof info};

    terp_case_check("domain", params, chunk, values);
    struct terp_stream one = terp_case_encode(params, chunk, values, 1);
    struct terp_stream three = terp_case_encode(params, chunk, values, 3);
    assert_true(one.nbytes == three.nbytes);
    assert_memory_equal(one.bytes, three.bytes, one.nbytes);
    assert_int_equal(terp_inspect(one.bytes, one.nbytes, &info), TERP_OK);
    assert_true(terp_shapes_are_equal(&info.chunk, chunk));
    free(one.bytes);
    free(three.bytes);
    return info;
}

/* A field that is made in one shape and coded in another. */
static struct terp_info
code_field(enum terp_field field, const struct terp_chunk *made,
           const struct terp_chunk *chunk)
{
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(made));

    assert_true(terp_chunk_nbytes(made) == terp_chunk_nbytes(chunk));
    terp_field_make(field, made, values);
    struct terp_info info = code(&params_1e_3, chunk, values);
    free(values);
    return info;
}

static void
smooth_chunks_are_their_own_domain(void **state)
{
    static const uint64_t dims[] = {20, 21, 22, 23};

    (void)state;
    for (int type = TERP_FLOAT32; type <= TERP_FLOAT64; type++)
        for (int rank = 1; rank <= 4; rank++) {
            struct terp_chunk chunk = terp_case_chunk(
                (enum terp_type)type, rank, dims + TERP_MAX_RANK - rank);
            if (rank == 1)
                chunk.dims[0] = 30011; /* a prime, so there are no rows */
            struct terp_info info =
                code_field(TERP_FIELD_SMOOTH, &chunk, &chunk);
            assert_true(terp_shapes_are_equal(&info.domain, &chunk));
        }
}

/* Among many shapes, a few samples of noise seem predictable by chance. */
static void
noise_is_no_rows(void **state)
{
    static const uint64_t dims[] = {1 << 16};
    const struct terp_chunk chunk = terp_case_chunk(TERP_FLOAT32, 1, dims);
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));
    uint32_t random = 1;

    (void)state;
    for (int seed = 0; seed < 12; seed++) {
        struct terp_info info = {.size = sizeof info};
        for (uint64_t i = 0; i < dims[0]; i++) {
            random = random * 1664525 + 1013904223;
            const float noise = (float)(random >> 8) / 16777216;
            value_put(&chunk, values, i,
                      value_to_bits(chunk.type, (float)(i / 3900) + noise));
        }
        struct terp_stream stream =
            terp_case_encode(&params_1e_3, &chunk, values, 1);
        assert_int_equal(terp_inspect(stream.bytes, stream.nbytes, &info),
                         TERP_OK);
        assert_true(terp_shapes_are_equal(&info.domain, &chunk));
        free(stream.bytes);
    }
    free(values);
}

/* Bricks without relation to each other. */
static void
stacks_are_found(void **state)
{
    static const uint64_t maps[] = {40, 64, 96}, cubes[] = {12, 24, 25, 26};

    (void)state;
    for (int type = TERP_FLOAT32; type <= TERP_FLOAT64; type++)
        for (int rank = 3; rank <= 4; rank++)
            for (int big_endian = 0; big_endian < 2; big_endian++) {
                struct terp_chunk chunk = terp_case_chunk(
                    (enum terp_type)type, rank, rank == 3 ? maps : cubes);
                chunk.big_endian = big_endian;
                struct terp_chunk stack = chunk;
                stack.stack = true;
                struct terp_info info =
                    code_field(TERP_FIELD_ROUGH, &stack, &chunk);
                assert_true(terp_shapes_are_equal(&info.domain, &stack));
                assert_int_equal(info.domain.big_endian, big_endian);
            }
}

/* Given as a stack, the same values cost as much, except for the domain's
 * bytes. */
static void
found_stack_is_as_small_as_a_declared_one(void **state)
{
    static const uint64_t dims[] = {40, 64, 96};
    struct terp_chunk chunk = terp_case_chunk(TERP_FLOAT32, 3, dims), stack;
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));

    (void)state;
    stack = chunk;
    stack.stack = true;
    terp_field_make(TERP_FIELD_ROUGH, &stack, values);
    uint64_t found = terp_case_check("found", &params_1e_3, &chunk, values);
    uint64_t declared =
        terp_case_check("declared", &params_1e_3, &stack, values);
    assert_true(found <= declared + 1 + 3);
    free(values);
}

/* Rows and planes of an array that is declared as one-dimensional. */
static void
periods_are_found(void **state)
{
    static const uint64_t cube[] = {32, 32, 32}, map[] = {100, 360};

    (void)state;
    for (int type = TERP_FLOAT32; type <= TERP_FLOAT64; type++)
        for (int rank = 2; rank <= 3; rank++) {
            struct terp_chunk made = terp_case_chunk((enum terp_type)type, rank,
                                                     rank == 3 ? cube : map);
            const uint64_t n = rank == 3 ? 32 * 32 * 32 : 100 * 360;
            struct terp_chunk flat =
                terp_case_chunk((enum terp_type)type, 1, &n);
            struct terp_info info = code_field(TERP_FIELD_SMOOTH, &made, &flat);
            assert_true(info.domain.rank >= 2);
            assert_true(info.domain.dims[info.domain.rank - 1] ==
                        made.dims[rank - 1]);
        }
}

/* A caller who gives bricks, or chooses lorenzo, leaves no choice of domain. */
static void
declared_stacks_and_lorenzo_have_no_other_domain(void **state)
{
    static const uint64_t dims[] = {6, 40, 41, 42};
    struct terp_chunk stack = terp_case_chunk(TERP_FLOAT32, 4, dims), made;
    struct terp_params params = params_1e_3;
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&stack));

    (void)state;
    stack.stack = true;
    made = terp_case_chunk(TERP_FLOAT32, 3, (uint64_t[]){6 * 40, 41, 42});
    made.stack = true;
    terp_field_make(TERP_FIELD_SMOOTH, &made, values);
    struct terp_info info = code(&params, &stack, values);
    assert_true(terp_shapes_are_equal(&info.domain, &stack));
    made.stack = false;
    params.predictor = TERP_PREDICTOR_LORENZO;
    info = code(&params, &made, values);
    assert_true(terp_shapes_are_equal(&info.domain, &made));
    free(values);
}

/* All maps share a coast; the encoder detects 1e20 as a fill value. */
static void
special_values_do_not_hide_a_stack(void **state)
{
    static const uint64_t dims[] = {30, 60, 90};
    struct terp_chunk chunk = terp_case_chunk(TERP_FLOAT32, 3, dims),
                      stack = chunk;
    uint64_t map = 60 * 90;
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));

    (void)state;
    stack.stack = true;
    terp_field_make(TERP_FIELD_SMOOTH, &stack, values);
    for (uint64_t i = 0; i < 30 * map; i++)
        if (i % map / 90 < 20 + i % 90 / 9)
            value_put(&chunk, values, i,
                      value_to_bits(chunk.type, i % 2 == 0 ? NAN : INFINITY));
    struct terp_info info = code(&params_1e_3, &chunk, values);
    assert_true(terp_shapes_are_equal(&info.domain, &stack));
    assert_true(info.nspecials > 0);
    free(values);
}

/* No choice of the caller gives a smaller stream than the encoder's own
 * choice. */
static void
best_effort_is_the_least_of_all(void **state)
{
    static const struct terp_chunk chunks[] = {
        {TERP_FLOAT32, false, false, 3, {20, 21, 22}},
        {TERP_FLOAT64, true, false, 2, {70, 71}},
        {TERP_FLOAT32, false, false, 1, {64 * 80}},
        {TERP_FLOAT32, false, true, 3, {6, 30, 31}},
        {TERP_FLOAT64, false, false, 3, {3, 4, 5}},
    };
    static const double bounds[] = {1e-2, 1e-6};

    (void)state;
    for (size_t c = 0; c < sizeof chunks / sizeof *chunks; c++)
        for (int field = TERP_FIELD_SMOOTH; field <= TERP_FIELD_ROUGH; field++)
            for (int b = 0; b < 2; b++) {
                if (!terp_case_taken(1))
                    continue;
                struct terp_params params = {.bound_mode = TERP_BOUND_RELATIVE,
                                             .bound = bounds[b],
                                             .effort = TERP_EFFORT_BEST};
                uint8_t *values =
                    terp_case_alloc(terp_chunk_nbytes(&chunks[c]));
                terp_field_make((enum terp_field)field, &chunks[c], values);
                uint64_t best =
                    terp_case_check("best", &params, &chunks[c], values);
                (void)code(&params, &chunks[c], values);
                for (int effort = 0; effort < TERP_EFFORT_BEST; effort++)
                    for (int way = 0; way < 9; way++) {
                        params.effort = (enum terp_effort)effort;
                        params.predictor = (enum terp_predictor)(way % 3);
                        params.pipeline = way / 3 == 2
                                              ? TERP_PIPELINE_RATIO
                                              : (enum terp_pipeline)(way / 3);
                        assert_true(best <= terp_case_check("other", &params,
                                                            &chunks[c],
                                                            values));
                    }
                free(values);
            }
}

/* Lorenzo leaves few nonzero codes, close to each other. Context order would
 * spread them over many tiles. */
static void
few_codes_in_one_place_have_one_tile(void **state)
{
    static const uint64_t dims[] = {20000, 2};
    const struct terp_chunk chunk = terp_case_chunk(TERP_FLOAT32, 2, dims);
    struct terp_params params = params_1e_3;
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));

    (void)state;
    params.predictor = TERP_PREDICTOR_LORENZO;
    memset(values, 0, terp_chunk_nbytes(&chunk));
    for (uint64_t i = 0; i < 100; i++)
        value_put(&chunk, values, i,
                  value_to_bits(chunk.type, (double)(i * 7919 % 101 % 7) - 3));
    struct terp_info first = code(&params, &chunk, values);
    assert_string_equal(first.pipeline, "huffman");
    params.effort = TERP_EFFORT_FAST;
    struct terp_info fast = code(&params, &chunk, values);
    assert_string_equal(fast.pipeline, "ratio");
    assert_true(first.stream_nbytes < fast.stream_nbytes);
    params.effort = TERP_EFFORT_DEFAULT;
    params.pipeline = TERP_PIPELINE_RATIO;
    struct terp_info asked = code(&params, &chunk, values);
    assert_string_equal(asked.pipeline, "ratio");
    free(values);
}

static void
fast_effort_keeps_the_chunk(void **state)
{
    static const uint64_t dims[] = {40, 64, 96};
    struct terp_chunk chunk = terp_case_chunk(TERP_FLOAT32, 3, dims),
                      stack = chunk;
    struct terp_params params = params_1e_3;
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));

    (void)state;
    stack.stack = true;
    params.effort = TERP_EFFORT_FAST;
    terp_field_make(TERP_FIELD_SMOOTH, &stack, values);
    struct terp_info info = code(&params, &chunk, values);
    assert_true(terp_shapes_are_equal(&info.domain, &chunk));
    free(values);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(smooth_chunks_are_their_own_domain),
        cmocka_unit_test(noise_is_no_rows),
        cmocka_unit_test(stacks_are_found),
        cmocka_unit_test(found_stack_is_as_small_as_a_declared_one),
        cmocka_unit_test(periods_are_found),
        cmocka_unit_test(declared_stacks_and_lorenzo_have_no_other_domain),
        cmocka_unit_test(special_values_do_not_hide_a_stack),
        cmocka_unit_test(best_effort_is_the_least_of_all),
        cmocka_unit_test(few_codes_in_one_place_have_one_tile),
        cmocka_unit_test(fast_effort_keeps_the_chunk),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
