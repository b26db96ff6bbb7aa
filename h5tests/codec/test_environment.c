/* A caller's floating-point environment changes no byte of a stream, is the
 * same after the call, and terp's arithmetic raises no exception in it. Some
 * programs flush subnormal numbers to zero, some change the rounding direction,
 * and some trap on exceptions. */
#include <fenv.h>
#include <float.h>
#include <stdlib.h>

#include "codec/api/cd_values.h"
#include "codec/api/rewrite.h"
#include "h5tests/support/cases.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/environment.h"
#include "h5tests/support/fields.h"
#include "h5tests/support/values.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const enum test_environment environments[] = {
    TEST_ENVIRONMENT_FLUSH, TEST_ENVIRONMENT_UPWARD, TEST_ENVIRONMENT_DOWNWARD,
    TEST_ENVIRONMENT_TOWARDZERO, TEST_ENVIRONMENT_TRAPS};

struct content {
    enum terp_field field;
    enum terp_bound_mode mode;
    double bound, floor;
    double scale; /* values of a chunk; 0: no chunk */
    bool is_flat; /* coded as one dimension, to search domains */
};

static const struct content of_floats[] = {
    {TERP_FIELD_ROUGH, TERP_BOUND_RELATIVE, 1e-3, 0, 0, false},
    {TERP_FIELD_GAPS, TERP_BOUND_ABSOLUTE, 1e-3, 0, 0, false},
    {TERP_FIELD_CONSTANT, TERP_BOUND_RELATIVE, 1e-3, 0, 0, false},
    {TERP_FIELD_DENORMALS, TERP_BOUND_RELATIVE, 1e-1, 0, 0, false},
    {TERP_FIELD_DENORMALS, TERP_BOUND_ABSOLUTE, 0x1p-149, 0, 0, false},
    {TERP_FIELD_DENORMALS, TERP_BOUND_ABSOLUTE, 0x1p-1060, 0, 0, false},
    {TERP_FIELD_SMOOTH, TERP_BOUND_RELATIVE, 1e-3, 0, 0, true},
    {TERP_FIELD_DENORMALS, TERP_BOUND_RELATIVE, 1e-2, 0, 0, true},
    {TERP_FIELD_HUGE, TERP_BOUND_ABSOLUTE, 1e308, 0, 0, false},
    {TERP_FIELD_HUGE, TERP_BOUND_RELATIVE, 1e-3, 0, 0, false},
    {TERP_FIELD_GAPS, TERP_BOUND_POINTWISE, 1e-3, 0, 0, false},
    {TERP_FIELD_DENORMALS, TERP_BOUND_POINTWISE, 1e-3, 0, 0, false},
    {TERP_FIELD_DECADES, TERP_BOUND_POINTWISE, 1e-3, 1e-310, 0, false},
    {TERP_FIELD_DECADES, TERP_BOUND_POINTWISE, 1e-2, 1e-310, 0x1p-1000, false},
    {TERP_FIELD_DECADES, TERP_BOUND_POINTWISE, 1e-2, 1e-5, 0, false},
    {TERP_FIELD_GAPS, TERP_BOUND_PSNR, 60, 0, 0, false},
    {TERP_FIELD_DENORMALS, TERP_BOUND_PSNR, 60, 0, 0, false},
    {TERP_FIELD_ROUGH, TERP_BOUND_PSNR, 60, 0, 0x1p-1026, false},
    /* The encoder searches these for copies and references. */
    {TERP_FIELD_MIRRORS, TERP_BOUND_ABSOLUTE, 0, 0, 0x1p-1026, false},
    {TERP_FIELD_MIRRORS, TERP_BOUND_ABSOLUTE, 0, 0, 0x1p-1026, true},
    {TERP_FIELD_MIRRORS, TERP_BOUND_RELATIVE, 1e-3, 0, 0x1p-1026, false},
    {TERP_FIELD_PROFILE, TERP_BOUND_RELATIVE, 1e-4, 0, 0x1p-1030, false},
    {TERP_FIELD_GRIDS, TERP_BOUND_ABSOLUTE, 0, 0, 0x1p-1040, false},
    {TERP_FIELD_FINE, TERP_BOUND_ABSOLUTE, 0, 0, 0, false},
};

static const struct content of_others[] = {
    {TERP_FIELD_GAPS, TERP_BOUND_ABSOLUTE, 0, 0, 0, false},
    {TERP_FIELD_ROUGH, TERP_BOUND_ABSOLUTE, 3, 0, 0, false},
    {TERP_FIELD_ROUGH, TERP_BOUND_RELATIVE, 1e-3, 0, 0, true},
    {TERP_FIELD_DENORMALS, TERP_BOUND_RELATIVE, 1e-2, 0, 0, false},
    {TERP_FIELD_DENORMALS, TERP_BOUND_POINTWISE, 1e-2, 0, 0, false},
    {TERP_FIELD_HUGE, TERP_BOUND_RELATIVE, 1e-2, 0, 0, false},
};

static const uint64_t dims[] = {16, 31, 33};
#define NVALUES (16 * 31 * 33)

/* A chunk's values, made in the default environment. */
static uint8_t *
make_values(const struct content *content, const struct terp_chunk *chunk)
{
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(chunk));

    terp_field_make(content->field, chunk, values);
    for (uint64_t i = 0; content->scale > 0 && i < chunk_nvalues(chunk); i++) {
        const double scaled =
            value_of_bits(chunk->type, value_bits(chunk, values, i)) *
            content->scale;
        const float narrow = (float)scaled;
        uint32_t narrow_bits;
        memcpy(&narrow_bits, &narrow, sizeof narrow_bits);
        value_put(chunk, values, i,
                  chunk->type == TERP_FLOAT64 ? double_bits(scaled)
                                              : narrow_bits);
    }
    return values;
}

struct result {
    struct terp_stream stream, again;
    uint8_t *decoded, *coarse;
};

static void
free_result(struct result *result)
{
    free(result->stream.bytes);
    free(result->again.bytes);
    free(result->decoded);
    free(result->coarse);
}

/* Encodes again in an environment, after some values have changed. */
static void
run_again(enum test_environment environment, const struct terp_params *params,
          const struct terp_chunk *chunk, const uint8_t *values,
          struct result *result)
{
    const uint64_t nbytes = terp_chunk_nbytes(chunk);
    uint8_t *changed = terp_case_alloc(nbytes);
    struct terp_run run;
    bool is_rewrite;

    memcpy(changed, result->decoded, nbytes);
    memcpy(changed, values, nbytes / 4);
    result->again.bytes = terp_case_alloc(terp_encode_bound(chunk));
    assert_int_equal(terp_run_begin(NULL, NULL, &run), TERP_OK);
    test_environment_set(environment);
    enum terp_status st = terp_rewrite_encode(
        &run, params, chunk, result->stream.bytes, result->stream.nbytes,
        changed, result->again.bytes, &result->again.nbytes, &is_rewrite);
    st = terp_run_end(&run, st, NULL);
    const bool is_kept = test_environment_is(environment);
    test_environment_set(TEST_ENVIRONMENT_DEFAULT);
    assert_true(is_kept);
    assert_int_equal(st, TERP_OK);
    free(changed);
}

/* Makes all calls in an environment, which must not change. */
static struct result
run(enum test_environment environment, const struct terp_params *params,
    const struct terp_chunk *chunk, const uint8_t *values, int nthreads)
{
    const uint64_t nbytes = terp_chunk_nbytes(chunk);
    const uint64_t cap_nbytes = terp_encode_bound(chunk);
    struct result result = {.stream = {.bytes = terp_case_alloc(cap_nbytes)},
                            .decoded = terp_case_alloc(nbytes),
                            .coarse = terp_case_alloc(nbytes)};
    struct terp_info info = {.size = sizeof info};
    const struct terp_run_options options = {.size = sizeof options,
                                             .nthreads = nthreads};
    const void *src = values;
    void *dst = result.stream.bytes;
    enum terp_status st[5] = {TERP_OK};
    uint64_t got, got_coarse;

    test_environment_set(environment);
    st[0] = nthreads > 1 ? terp_encode_batch(&options, params, chunk, 1, &src,
                                             &dst, &result.stream.nbytes, NULL)
                         : terp_encode(params, chunk, values, dst, cap_nbytes,
                                       &result.stream.nbytes, nthreads);
    st[1] = terp_decode(dst, result.stream.nbytes, result.decoded, nbytes, &got,
                        nthreads);
    st[2] = terp_decode_coarse(dst, result.stream.nbytes, 2, result.coarse,
                               nbytes, &got_coarse, nthreads);
    st[3] = terp_inspect(dst, result.stream.nbytes, &info);
    st[4] = terp_params_check(params, NULL);
    const bool is_kept = test_environment_is(environment);
    test_environment_set(TEST_ENVIRONMENT_DEFAULT);
    assert_true(is_kept);
    for (size_t i = 0; i < COUNT(st); i++)
        assert_int_equal(st[i], TERP_OK);
    assert_int_equal(got, nbytes);
    memset(result.coarse + got_coarse, 0, nbytes - got_coarse);
    run_again(environment, params, chunk, values, &result);
    return result;
}

static void
compare_in_environment(enum test_environment environment, enum terp_type type,
                       const struct content *content, int mode)
{
    struct terp_chunk chunk =
        terp_case_chunk(type, content->is_flat ? 1 : 3,
                        content->is_flat ? (uint64_t[]){NVALUES} : dims);
    const struct terp_params params = {
        .bound_mode = content->mode,
        .bound = content->bound,
        .floor = content->floor,
        .pipeline = terp_mode[mode].pipeline,
        .predictor = terp_mode[mode].predictor,
        .effort = (enum terp_effort)(mode % TERP_NEFFORTS),
        .size = sizeof params,
        .keep_sign = (enum terp_keep_sign)(mode / 2 % TERP_NKEEP_SIGNS),
        .has_valid_range = mode % 3 == 0,
        .valid_min = -1e-311,
        .valid_max = 1e300};
    uint8_t *values = make_values(content, &chunk);
    const int nthreads = 1 + mode % 2;
    const uint64_t nbytes = terp_chunk_nbytes(&chunk);
    struct result plain =
        run(TEST_ENVIRONMENT_DEFAULT, &params, &chunk, values, nthreads);
    struct result changed = run(environment, &params, &chunk, values, nthreads);

    assert_int_equal(changed.stream.nbytes, plain.stream.nbytes);
    assert_memory_equal(changed.stream.bytes, plain.stream.bytes,
                        plain.stream.nbytes);
    assert_int_equal(changed.again.nbytes, plain.again.nbytes);
    assert_memory_equal(changed.again.bytes, plain.again.bytes,
                        plain.again.nbytes);
    assert_memory_equal(changed.decoded, plain.decoded, nbytes);
    assert_memory_equal(changed.coarse, plain.coarse, nbytes);
    free_result(&changed);
    free_result(&plain);
    free(values);
}

/* All combinations of contents, types and modes, in turns. */
static void
compare_with_default(enum test_environment environment)
{
    int turn = 0;

    const bool exists = test_environment_set(environment);

    test_environment_set(TEST_ENVIRONMENT_DEFAULT);
    if (!exists) {
        print_message("there is no environment \"%s\" here\n",
                      test_environment_name[environment]);
        skip();
    }
    for (size_t i = 0; i < COUNT(of_floats); i++)
        for (int type = TERP_FLOAT32; type <= TERP_FLOAT64; type++, turn++)
            if (terp_case_taken(1))
                compare_in_environment(environment, (enum terp_type)type,
                                       &of_floats[i], turn % TERP_NMODES);
    for (int type = 0; type < TERP_NTYPES; type++)
        for (size_t i = 0; i < COUNT(of_others); i++, turn++)
            if (type != TERP_BYTES &&
                !terp_type_is_plain((enum terp_type)type) && terp_case_taken(1))
                compare_in_environment(environment, (enum terp_type)type,
                                       &of_others[i], turn % TERP_NMODES);
}

static void
flushed_subnormals_change_nothing(void **state)
{
    (void)state;
    compare_with_default(TEST_ENVIRONMENT_FLUSH);
}

static void
direction_of_rounding_changes_nothing(void **state)
{
    (void)state;
    compare_with_default(TEST_ENVIRONMENT_UPWARD);
    compare_with_default(TEST_ENVIRONMENT_DOWNWARD);
    compare_with_default(TEST_ENVIRONMENT_TOWARDZERO);
}

static void
traps_do_not_spring(void **state)
{
    (void)state;
    compare_with_default(TEST_ENVIRONMENT_TRAPS);
}

static int
restore(void **state)
{
    (void)state;
    return test_environment_set(TEST_ENVIRONMENT_DEFAULT) ? 0 : -1;
}

/* ---- what the caller notices ---- */

static void
exceptions_that_the_caller_saw_stay(void **state)
{
    static const double values[64] = {DBL_MAX, -DBL_MAX, 1e-310};
    const struct terp_chunk chunk = {
        TERP_FLOAT64, TERP_HOST_IS_BIG_ENDIAN, false, 1, {64}};
    const struct terp_params params = {.bound_mode = TERP_BOUND_RELATIVE,
                                       .bound = 1e-3};
    uint8_t stream[2048];
    uint64_t nbytes;

    (void)state;
    assert_true(terp_encode_bound(&chunk) <= sizeof stream);
    feclearexcept(FE_ALL_EXCEPT);
    feraiseexcept(FE_DIVBYZERO);
    assert_int_equal(
        terp_encode(&params, &chunk, values, stream, sizeof stream, &nbytes, 1),
        TERP_OK);
    assert_int_equal(fetestexcept(FE_ALL_EXCEPT), FE_DIVBYZERO);
}

/* ---- numbers whose comparison depends on the environment ---- */

static void
numbers_at_limits_are_judged_alike(void **state)
{
    const double numbers[] = {0,        -0.0, 4.9e-324, 1e-310,      DBL_MIN,
                              0.5,      1,    FLT_MAX,  2 * FLT_MAX, DBL_MAX,
                              INFINITY, NAN,  -1e-310,  -2 * FLT_MAX};

    (void)state;
    for (size_t i = 0; i < COUNT(numbers); i++)
        for (int mode = TERP_BOUND_ABSOLUTE; mode < TERP_NBOUND_MODES; mode++)
            for (size_t e = 0; e < COUNT(environments); e++) {
                const struct terp_params params = {
                    .bound_mode = (enum terp_bound_mode)mode,
                    .bound = numbers[i],
                    .floor = mode == TERP_BOUND_POINTWISE
                                 ? numbers[COUNT(numbers) - 1 - i]
                                 : 0};
                const enum terp_status expected =
                    terp_params_check(&params, NULL);
                if (!test_environment_set(environments[e]))
                    continue;
                const enum terp_status st = terp_params_check(&params, NULL);
                const bool is_kept = test_environment_is(environments[e]);
                test_environment_set(TEST_ENVIRONMENT_DEFAULT);
                assert_int_equal(st, expected);
                assert_true(is_kept);
            }
}

/* cd_values with a missing value that float32 cannot hold, with decimal numbers
 * that double cannot hold, and with subnormal floors. */
static void
words_say_the_same(void **state)
{
    static const uint64_t chunk_dims[] = {64, 64};
    const struct {
        unsigned words[5];
        enum terp_type type;
    } cases[] = {
        {{TERP_BOUND_ABSOLUTE | TERP_CD_MISSING, 1, 3, 1, 0u - 300},
         TERP_FLOAT32},
        {{TERP_BOUND_ABSOLUTE | TERP_CD_MISSING, 1, 3, 1, 300}, TERP_FLOAT32},
        {{TERP_BOUND_ABSOLUTE | TERP_CD_MISSING, 1, 3, 1, 0u - 30}, TERP_INT8},
        {{TERP_BOUND_ABSOLUTE | TERP_CD_MISSING, 1, 3, 3, 0u - 38},
         TERP_FLOAT16},
        {{TERP_BOUND_POINTWISE | TERP_CD_FLOOR, 1, 3, 1, 310}, TERP_FLOAT64},
        {{TERP_BOUND_POINTWISE | TERP_CD_FLOOR, 1, 3, 1, 400}, TERP_FLOAT64},
        {{TERP_BOUND_ABSOLUTE, 1, 0u - 400, 0, 0}, TERP_FLOAT64},
        {{TERP_BOUND_RELATIVE, 123456789, 29, 0, 0}, TERP_FLOAT64},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        for (size_t e = 0; e < COUNT(environments); e++) {
            unsigned words[2][TERP_CD_MAX_NWORDS] = {{0}};
            enum terp_status st[2];
            bool is_kept = true;
            for (int k = 0; k < 2; k++) {
                struct terp_cd cd = {0}, again;
                const enum test_environment environment =
                    k == 0 ? TEST_ENVIRONMENT_DEFAULT : environments[e];
                if (!test_environment_set(environment))
                    continue;
                st[k] = terp_cd_parse(5, cases[i].words, &cd, NULL);
                size_t n = 0;
                if (st[k] == TERP_OK) {
                    terp_cd_apply_dims(&cd, cases[i].type, false, 2,
                                       chunk_dims);
                    n = terp_cd_persist(&cd, words[k]);
                    st[k] = terp_cd_parse(n, words[k], &again, NULL);
                }
                is_kept &= test_environment_is(environment);
                test_environment_set(TEST_ENVIRONMENT_DEFAULT);
                if (k == 1) {
                    assert_int_equal(st[1], st[0]);
                    assert_memory_equal(words[1], words[0], sizeof words[0]);
                }
            }
            assert_true(is_kept);
        }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(flushed_subnormals_change_nothing, restore),
        cmocka_unit_test_teardown(direction_of_rounding_changes_nothing,
                                  restore),
        cmocka_unit_test_teardown(traps_do_not_spring, restore),
        cmocka_unit_test_teardown(exceptions_that_the_caller_saw_stay, restore),
        cmocka_unit_test_teardown(numbers_at_limits_are_judged_alike, restore),
        cmocka_unit_test_teardown(words_say_the_same, restore),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
