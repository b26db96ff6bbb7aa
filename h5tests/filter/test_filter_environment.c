/* Datasets are the same in programs that flush subnormal numbers to zero, round
 * in another direction, or trap on floating-point exceptions. */
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
    double scale; /* values of a dataset */
    struct H5Z_terp_config config;
} cases[] = {
    /* float32 cannot hold these missing values. */
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
    {true, 1e-312, {.bound_mode = 2, .bound = 1e-2, .keep_sign = 2}},
    /* Float32 cannot hold these ends of a valid range either. */
    {false,
     1,
     {.bound_mode = 1,
      .bound = 0.1,
      .has_valid_range = 1,
      .valid_min = 1e-300,
      .valid_max = 1e300}},
    {true,
     1e-312,
     {.bound_mode = 2,
      .bound = 1e-2,
      .has_valid_range = 1,
      .valid_min = 0,
      .valid_max = 8e-312}},
};

struct result {
    const char *name;
    hid_t file, dcpl, dataset, memory_type;
    unsigned words[TERP_CD_MAX_NWORDS];
    size_t nwords, nbytes;
    void *bytes;
    double values[NVALUES]; /* half of the bytes for float32 */
};

/* The dataset's cd_values and stored bytes. */
static void
look_at(struct result *result)
{
    static const hsize_t at[2] = {0, 0};
    unsigned flags;
    bool skipped;

    result->nwords = h5_dataset_words(result->dataset, &flags, result->words);
    result->bytes =
        h5_chunk_bytes(result->dataset, at, &result->nbytes, &skipped);
    assert_false(skipped);
}

/* Writes case i in an environment. Each environment multiplies the values by
 * another factor, so that the filter cannot reuse the stream of the environment
 * before. */
static void
write_case(hid_t file, const char *name, size_t i, double factor,
           enum test_environment environment, struct result *result)
{
    const hid_t type = cases[i].is_double ? H5T_IEEE_F64LE : H5T_IEEE_F32LE;
    float narrow[NVALUES];

    memset(result, 0, sizeof *result);
    result->memory_type =
        cases[i].is_double ? H5T_NATIVE_DOUBLE : H5T_NATIVE_FLOAT;
    result->file = file;
    result->name = name;
    result->dcpl = h5_dcpl_new(&shape, 0, 0, NULL);
    for (int k = 0; k < NVALUES; k++) {
        result->values[k] =
            (0.1 + k % 64 * 0.37 + k / 64 % 7) * factor * cases[i].scale;
        narrow[k] = (float)result->values[k];
    }
    if (!cases[i].is_double)
        memcpy(result->values, narrow, sizeof narrow);
    test_environment_set(environment);
    const herr_t is_set = H5Pset_terp(result->dcpl, &cases[i].config);
    result->dataset = h5_dataset_new(file, name, type, &shape, result->dcpl);
    const herr_t is_written =
        H5Dwrite(result->dataset, result->memory_type, H5S_ALL, H5S_ALL,
                 H5P_DEFAULT, result->values);
    H5Dclose(result->dataset);
    result->dataset = H5Dopen2(result->file, result->name, H5P_DEFAULT);
    test_environment_set(TEST_ENVIRONMENT_DEFAULT);
    assert_true(is_set >= 0 && is_written >= 0);
    look_at(result);
}

/* Reads the dataset, and writes it again with a part of its values
 * unchanged. */
static void
write_again(enum test_environment environment, struct result *result)
{
    static double decoded[NVALUES];

    test_environment_set(environment);
    const herr_t is_read = H5Dread(result->dataset, result->memory_type,
                                   H5S_ALL, H5S_ALL, H5P_DEFAULT, decoded);
    memcpy(result->values, decoded, sizeof decoded / 4);
    const herr_t is_written =
        H5Dwrite(result->dataset, result->memory_type, H5S_ALL, H5S_ALL,
                 H5P_DEFAULT, result->values);
    H5Dclose(result->dataset);
    result->dataset = H5Dopen2(result->file, result->name, H5P_DEFAULT);
    test_environment_set(TEST_ENVIRONMENT_DEFAULT);
    assert_true(is_read >= 0 && is_written >= 0);
    memcpy(result->values, decoded, sizeof decoded);
    free(result->bytes);
    look_at(result);
}

static void
end(struct result *result)
{
    free(result->bytes);
    H5Dclose(result->dataset);
    H5Pclose(result->dcpl);
}

static void
assert_equal(const struct result *changed, const struct result *plain)
{
    assert_int_equal(changed->nwords, plain->nwords);
    assert_memory_equal(changed->words, plain->words, sizeof plain->words);
    assert_int_equal(changed->nbytes, plain->nbytes);
    assert_memory_equal(changed->bytes, plain->bytes, plain->nbytes);
    assert_memory_equal(changed->values, plain->values, sizeof plain->values);
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
        const double factor = 1 + (int)environment * 0.0123;
        const hid_t file = h5_file_new();
        struct result plain, changed;
        write_case(file, "plain", i, factor, TEST_ENVIRONMENT_DEFAULT, &plain);
        write_case(file, "changed", i, factor, environment, &changed);
        assert_equal(&changed, &plain);
        write_again(TEST_ENVIRONMENT_DEFAULT, &plain);
        write_again(environment, &changed);
        assert_equal(&changed, &plain);
        end(&plain);
        end(&changed);
        H5Fclose(file);
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
