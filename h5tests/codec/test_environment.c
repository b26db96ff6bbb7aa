/* What the caller did to the floating-point unit changes no byte, and is as
 * it was after the call. Programs that are built for speed round denormal
 * numbers to zero, and some change the direction of rounding. */
#include <fenv.h>
#include <stdlib.h>
#ifdef __SSE__
#include <xmmintrin.h>
#endif

#include "h5tests/support/cases.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/fields.h"
#include "h5tests/support/values.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct {
    enum terp_field field;
    enum terp_bound_mode mode;
    double bound;
    bool is_flat; /* coded in one dimension, in which boxes are looked for */
} contents[] = {
    {TERP_FIELD_ROUGH, TERP_BOUND_RELATIVE, 1e-3, false},
    {TERP_FIELD_GAPS, TERP_BOUND_ABSOLUTE, 1e-3, false},
    {TERP_FIELD_CONSTANT, TERP_BOUND_RELATIVE, 1e-3, false},
    {TERP_FIELD_DENORMALS, TERP_BOUND_RELATIVE, 1e-1, false},
    {TERP_FIELD_DENORMALS, TERP_BOUND_ABSOLUTE, 0x1p-149, false},
    {TERP_FIELD_DENORMALS, TERP_BOUND_ABSOLUTE, 0x1p-1060, false},
    {TERP_FIELD_SMOOTH, TERP_BOUND_RELATIVE, 1e-3, true},
    {TERP_FIELD_DENORMALS, TERP_BOUND_RELATIVE, 1e-2, true},
};

struct result {
    struct terp_stream stream;
    uint8_t *decoded;
};

static struct result
run(size_t content, int type, int mode, int nthreads)
{
    static const uint64_t dims[] = {30, 31, 33};
    struct terp_chunk chunk = terp_case_chunk((enum terp_type)type, 3, dims);
    struct terp_params params = {.bound_mode = contents[content].mode,
                                 .bound = contents[content].bound,
                                 .pipeline = terp_mode[mode].pipeline,
                                 .predictor = terp_mode[mode].predictor};
    uint64_t nbytes = terp_chunk_nbytes(&chunk), got;
    uint8_t *values = terp_case_alloc(nbytes);
    struct result result = {.decoded = terp_case_alloc(nbytes)};
    fenv_t caller;

    /* Contents are made in the environment that all tests have. */
    fegetenv(&caller);
    fesetenv(FE_DFL_ENV);
    terp_field_make(contents[content].field, &chunk, values);
    fesetenv(&caller);
    if (contents[content].is_flat)
        chunk = terp_case_chunk((enum terp_type)type, 1,
                                (uint64_t[]){30 * 31 * 33});
    result.stream = terp_case_encode(&params, &chunk, values, nthreads);
    assert_int_equal(terp_decode(result.stream.bytes, result.stream.nbytes,
                                 result.decoded, nbytes, &got, nthreads),
                     TERP_OK);
    free(values);
    return result;
}

/* All contents and modes in the caller's environment and in the default. */
static void
compare_with_default(void)
{
    fenv_t caller;

    for (size_t content = 0; content < COUNT(contents); content++)
        for (int type = TERP_FLOAT32; type <= TERP_FLOAT64; type++)
            for (int mode = 0; mode < TERP_NMODES; mode++) {
                int nthreads = 1 + mode % 2;
                struct result changed = run(content, type, mode, nthreads);
                fegetenv(&caller);
                fesetenv(FE_DFL_ENV);
                struct result plain = run(content, type, mode, nthreads);
                fesetenv(&caller);
                assert_int_equal(changed.stream.nbytes, plain.stream.nbytes);
                assert_memory_equal(changed.stream.bytes, plain.stream.bytes,
                                    plain.stream.nbytes);
                assert_memory_equal(changed.decoded, plain.decoded,
                                    30 * 31 * 33 * (type == 0 ? 4 : 8));
                free(changed.stream.bytes);
                free(changed.decoded);
                free(plain.stream.bytes);
                free(plain.decoded);
            }
}

static int
restore(void **state)
{
    (void)state;
    return fesetenv(FE_DFL_ENV);
}

static void
direction_of_rounding_changes_nothing(void **state)
{
    static const int directions[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};

    (void)state;
    for (size_t i = 0; i < COUNT(directions); i++) {
        assert_int_equal(fesetround(directions[i]), 0);
        compare_with_default();
        assert_int_equal(fegetround(), directions[i]);
    }
}

static void
flushed_denormals_change_nothing(void **state)
{
    (void)state;
#ifdef __SSE__
    /* Flush to zero, and denormals are zero. */
    const unsigned flush = 0x8040;
    _mm_setcsr(_mm_getcsr() | flush);
    compare_with_default();
    assert_int_equal(_mm_getcsr() & flush, flush);
#else
    skip();
#endif
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(direction_of_rounding_changes_nothing,
                                  restore),
        cmocka_unit_test_teardown(flushed_denormals_change_nothing, restore),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
