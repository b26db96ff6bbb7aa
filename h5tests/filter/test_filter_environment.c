/* Datasets are the same in programs that flush subnormal numbers to zero, round
 * in another direction, or end where floating-point arithmetic goes wrong. */
#include <stdlib.h>
#include <string.h>

#include "filter/plugin/h5z_terp.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/environment.h"
#include "h5tests/support/h5_files.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define NVALUES 4096

static const struct h5_shape shape = {2, {64, 64}, {64, 64}};

static const struct {
    bool is_double;
    double scale; /* of values */
    struct H5Z_terp_config config;
} cases[] = {
    /* No float32 has these missing values. */
    {false,
     1,
     {.bound_mode = 1, .bound = 1e-3, .has_missing = 1, .missing = 1e300}},
    {false,
     1,
     {.bound_mode = 1, .bound = 1e-3, .has_missing = 1, .missing = 1e-300}},
    {true,
     1,
     {.bound_mode = 2, .bound = 1e-3, .has_missing = 1, .missing = -1e308}},
    {true, 1e305, {.bound_mode = 1, .bound = 1e308}},
    {true, 1e-312, {.bound_mode = 2, .bound = 1e-3}},
    {true, 1e-312, {.bound_mode = 3, .bound = 1e-3, .floor = 1e-310}},
    {true, 1, {.bound_mode = 3, .bound = 1e-3, .floor = 1e-310}},
    {true, 1e-312, {.bound_mode = 4, .bound = 60}},
};

struct result {
    unsigned words[TERP_CD_MAX_NWORDS];
    size_t nwords, nbytes;
    void *bytes;
    double values[NVALUES];
};

/* Writes and reads case i in an environment. */
static void
run(size_t i, enum test_environment environment, struct result *result)
{
    static const hsize_t at[2] = {0, 0};
    const hid_t type = cases[i].is_double ? H5T_IEEE_F64LE : H5T_IEEE_F32LE;
    const hid_t memory_type =
        cases[i].is_double ? H5T_NATIVE_DOUBLE : H5T_NATIVE_FLOAT;
    double wide[NVALUES];
    float narrow[NVALUES];
    unsigned flags;
    bool skipped;
    const hid_t file = h5_file_new(), dcpl = h5_dcpl_new(&shape, 0, 0, NULL);

    memset(result, 0, sizeof *result);
    for (int k = 0; k < NVALUES; k++) {
        wide[k] = (k % 64 * 0.37 + k / 64 % 7) * cases[i].scale;
        narrow[k] = (float)wide[k];
    }
    void *values = cases[i].is_double ? (void *)wide : (void *)narrow;
    test_environment_set(environment);
    const herr_t is_set = H5Pset_terp(dcpl, &cases[i].config);
    hid_t dataset = h5_dataset_new(file, "d", type, &shape, dcpl);
    const herr_t is_written =
        H5Dwrite(dataset, memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
    H5Dclose(dataset);
    dataset = H5Dopen2(file, "d", H5P_DEFAULT);
    const herr_t is_read = H5Dread(dataset, memory_type, H5S_ALL, H5S_ALL,
                                   H5P_DEFAULT, result->values);
    test_environment_set(TEST_ENVIRONMENT_DEFAULT);
    assert_true(is_set >= 0 && is_written >= 0 && is_read >= 0);
    result->nwords = h5_dataset_words(dataset, &flags, result->words);
    result->bytes = h5_chunk_bytes(dataset, at, &result->nbytes, &skipped);
    assert_false(skipped);
    H5Dclose(dataset);
    H5Pclose(dcpl);
    H5Fclose(file);
}

static void
compare_in(enum test_environment environment)
{
    const bool exists = test_environment_set(environment);

    test_environment_set(TEST_ENVIRONMENT_DEFAULT);
    if (!exists) {
        print_message("there is no environment \"%s\" here\n",
                      test_environment_name[environment]);
        skip();
    }
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct result plain, changed;
        run(i, TEST_ENVIRONMENT_DEFAULT, &plain);
        run(i, environment, &changed);
        assert_int_equal(changed.nwords, plain.nwords);
        assert_memory_equal(changed.words, plain.words, sizeof plain.words);
        assert_int_equal(changed.nbytes, plain.nbytes);
        assert_memory_equal(changed.bytes, plain.bytes, plain.nbytes);
        assert_memory_equal(changed.values, plain.values, sizeof plain.values);
        free(plain.bytes);
        free(changed.bytes);
    }
}

static void
errors_that_trap_do_not_occur(void **state)
{
    (void)state;
    compare_in(TEST_ENVIRONMENT_ERRORS);
}

static void
flushed_subnormals_change_nothing(void **state)
{
    (void)state;
    compare_in(TEST_ENVIRONMENT_FLUSH);
}

static void
direction_of_rounding_changes_nothing(void **state)
{
    (void)state;
    compare_in(TEST_ENVIRONMENT_UPWARD);
    compare_in(TEST_ENVIRONMENT_TOWARDZERO);
}

static void
digits_mean_the_same_bound(void **state)
{
    (void)state;
    for (unsigned n = 0; n <= H5Z_TERP_MAX_NDIGITS + 1; n++) {
        const double plain = H5Z_terp_bound_of_digits(n);
        test_environment_set(TEST_ENVIRONMENT_UPWARD);
        const double upward = H5Z_terp_bound_of_digits(n);
        test_environment_set(TEST_ENVIRONMENT_DEFAULT);
        assert_true(upward == plain);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_that_trap_do_not_occur),
        cmocka_unit_test(flushed_subnormals_change_nothing),
        cmocka_unit_test(direction_of_rounding_changes_nothing),
        cmocka_unit_test(digits_mean_the_same_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
