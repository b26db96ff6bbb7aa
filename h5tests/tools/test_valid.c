/* The valid values of a variable, by its attributes. */
#include "tools/repack/valid.h"

#include <math.h>

#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/h5_files.h"

static hid_t file;

static int
open_file(void **state)
{
    (void)state;
    file = h5_file_new();
    return 0;
}

static int
close_file(void **state)
{
    (void)state;
    return H5Fclose(file) < 0;
}

/* A dataset of one value. It stays open until it is read. */
static hid_t
new_dataset(hid_t type)
{
    hid_t space = H5Screate(H5S_SCALAR);
    hid_t dataset = H5Dcreate_anon(file, type, space, H5P_DEFAULT, H5P_DEFAULT);

    H5Sclose(space);
    assert_true(dataset >= 0);
    return dataset;
}

static void
set(hid_t dataset, const char *name, hid_t type, hsize_t n,
    const double *values)
{
    hid_t space = H5Screate_simple(1, &n, NULL);
    hid_t attribute =
        H5Acreate2(dataset, name, type, space, H5P_DEFAULT, H5P_DEFAULT);

    assert_true(H5Awrite(attribute, H5T_NATIVE_DOUBLE, values) >= 0);
    H5Aclose(attribute);
    H5Sclose(space);
}

static void
set_one(hid_t dataset, const char *name, hid_t type, double value)
{
    set(dataset, name, type, 1, &value);
}

/* Reads the valid values, and closes the dataset. */
static void
check(hid_t dataset, unsigned ends, double min, double max)
{
    double found_min, found_max;

    assert_int_equal(repack_valid_range(dataset, &found_min, &found_max), ends);
    assert_true(found_min == min && found_max == max);
    H5Dclose(dataset);
}

#define BOTH (REPACK_VALID_MIN | REPACK_VALID_MAX)

static void
nothing_is_said_without_attributes(void **state)
{
    (void)state;
    check(new_dataset(H5T_IEEE_F32LE), 0, -INFINITY, INFINITY);
}

static void
range_is_taken_whatever_its_type(void **state)
{
    const double range[] = {0, 100};
    const hid_t types[] = {H5T_IEEE_F32BE, H5T_IEEE_F64LE, H5T_STD_I16LE};

    (void)state;
    for (int i = 0; i < 3; i++) {
        hid_t dataset = new_dataset(H5T_IEEE_F32LE);
        set(dataset, "valid_range", types[i], 2, range);
        check(dataset, BOTH, 0, 100);
    }
}

static void
one_end_is_enough(void **state)
{
    (void)state;
    hid_t dataset = new_dataset(H5T_IEEE_F64LE);
    set_one(dataset, "valid_min", H5T_IEEE_F64LE, -2.5);
    check(dataset, REPACK_VALID_MIN, -2.5, INFINITY);
    dataset = new_dataset(H5T_IEEE_F64LE);
    set_one(dataset, "valid_max", H5T_IEEE_F64LE, 1);
    check(dataset, REPACK_VALID_MAX, -INFINITY, 1);
}

static void
range_counts_before_its_ends(void **state)
{
    const double range[] = {0, 1};

    (void)state;
    hid_t dataset = new_dataset(H5T_IEEE_F64LE);
    set(dataset, "valid_range", H5T_IEEE_F64LE, 2, range);
    set_one(dataset, "valid_min", H5T_IEEE_F64LE, -5);
    check(dataset, BOTH, 0, 1);
}

static void
range_of_another_form_does_not_count(void **state)
{
    const double values[] = {0, 1, 2}, turned[] = {1, 0};
    const double infinite[] = {-INFINITY, NAN};

    (void)state;
    hid_t dataset = new_dataset(H5T_IEEE_F64LE);
    set(dataset, "valid_range", H5T_IEEE_F64LE, 3, values);
    set_one(dataset, "valid_max", H5T_IEEE_F64LE, 7);
    check(dataset, REPACK_VALID_MAX, -INFINITY, 7);
    dataset = new_dataset(H5T_IEEE_F64LE);
    set(dataset, "valid_range", H5T_IEEE_F64LE, 2, turned);
    check(dataset, 0, -INFINITY, INFINITY);
    dataset = new_dataset(H5T_IEEE_F64LE);
    set(dataset, "valid_range", H5T_IEEE_F64LE, 2, infinite);
    check(dataset, 0, -INFINITY, INFINITY);
}

static void
packed_range_is_of_packed_values(void **state)
{
    const double range[] = {0, 1000};

    (void)state;
    hid_t dataset = new_dataset(H5T_STD_I16LE);
    set_one(dataset, "scale_factor", H5T_IEEE_F32LE, 0.5);
    set_one(dataset, "add_offset", H5T_IEEE_F32LE, 20);
    set(dataset, "valid_range", H5T_STD_I16LE, 2, range);
    check(dataset, BOTH, 0, 1000);
}

static void
unpacked_range_is_packed(void **state)
{
    const double range[] = {20, 120};

    (void)state;
    hid_t dataset = new_dataset(H5T_STD_I16LE);
    set_one(dataset, "scale_factor", H5T_IEEE_F32LE, 0.5);
    set_one(dataset, "add_offset", H5T_IEEE_F32LE, 20);
    set(dataset, "valid_range", H5T_IEEE_F32LE, 2, range);
    check(dataset, BOTH, 0, 200);
}

static void
negative_scale_turns_ends_around(void **state)
{
    (void)state;
    hid_t dataset = new_dataset(H5T_IEEE_F32LE);
    set_one(dataset, "scale_factor", H5T_IEEE_F64LE, -2);
    set_one(dataset, "valid_min", H5T_IEEE_F64LE, 10);
    check(dataset, REPACK_VALID_MAX, -INFINITY, -5);
}

static void
scale_of_zero_leaves_no_range(void **state)
{
    (void)state;
    hid_t dataset = new_dataset(H5T_IEEE_F32LE);
    set_one(dataset, "scale_factor", H5T_IEEE_F64LE, 0);
    set_one(dataset, "valid_min", H5T_IEEE_F64LE, 10);
    check(dataset, 0, -INFINITY, INFINITY);
}

static void
unsigned_values_in_signed_ones_have_no_range(void **state)
{
    const double range[] = {0, 100};

    (void)state;
    hid_t dataset = new_dataset(H5T_STD_I8LE);
    hid_t type = H5Tcopy(H5T_C_S1), space = H5Screate(H5S_SCALAR);
    H5Tset_size(type, 4);
    hid_t attribute =
        H5Acreate2(dataset, "_Unsigned", type, space, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(H5Awrite(attribute, type, "true") >= 0);
    H5Aclose(attribute);
    H5Sclose(space);
    H5Tclose(type);
    set(dataset, "valid_range", H5T_STD_I8LE, 2, range);
    check(dataset, 0, -INFINITY, INFINITY);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_said_without_attributes),
        cmocka_unit_test(range_is_taken_whatever_its_type),
        cmocka_unit_test(one_end_is_enough),
        cmocka_unit_test(range_counts_before_its_ends),
        cmocka_unit_test(range_of_another_form_does_not_count),
        cmocka_unit_test(packed_range_is_of_packed_values),
        cmocka_unit_test(unpacked_range_is_packed),
        cmocka_unit_test(negative_scale_turns_ends_around),
        cmocka_unit_test(scale_of_zero_leaves_no_range),
        cmocka_unit_test(unsigned_values_in_signed_ones_have_no_range),
    };
    return cmocka_run_group_tests(tests, open_file, close_file);
}
