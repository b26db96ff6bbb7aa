/* Chunks that several calls of H5Dwrite change: HDF5 reads each chunk, changes
 * a part, and encodes it again. Errors must not add up. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "h5tests/support/cases.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/fields.h"
#include "h5tests/support/h5_files.h"
#include "h5tests/support/values.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define SIDE 32
#define NVALUES (2 * SIDE * SIDE * SIDE)
#define NWRITES 50

static const struct h5_shape shape = {
    3, {2 * SIDE, SIDE, SIDE}, {SIDE, SIDE, SIDE}};

struct bound {
    const char *name;
    unsigned words[5];
    unsigned nwords;
    double bound, floor;
};

static const struct bound bounds[] = {
    {"absolute", {1, 1, 3}, 3, 1e-3, 0},
    {"absolute, lorenzo", {1 + 512, 1, 3}, 3, 1e-3, 0},
    {"relative", {2, 1, 3}, 3, 1e-3, 0},
    {"pointwise", {3, 1, 3}, 3, 1e-3, 0},
    {"pointwise with a floor", {3 + 131072, 1, 2, 1, 2}, 5, 1e-2, 1e-2},
    {"absolute, positive", {1 + 1048576, 1, 2}, 3, 1e-2, 0},
};

/* HDF5's chunk cache: absent, large enough for some chunks, or for all. */
static const size_t caches[] = {0, 200000, 1 << 22};

static float *
field_new(enum terp_field field)
{
    const struct terp_chunk chunk = {
        TERP_FLOAT32, false, false, 3, {2 * SIDE, SIDE, SIDE}};
    float *values = malloc(NVALUES * sizeof *values);

    assert_non_null(values);
    terp_field_make(field, &chunk, (uint8_t *)values);
    for (size_t i = 0; i < NVALUES; i++)
        values[i] = fabsf(values[i]) + 1e-3f;
    return values;
}

static hid_t
dataset_new(hid_t file, const struct bound *bound, size_t cache_nbytes)
{
    hid_t dcpl = h5_dcpl_new(&shape, 0, bound->nwords, bound->words);
    hid_t space = H5Screate_simple(shape.rank, shape.dims, NULL);
    hid_t dapl = H5Pcreate(H5P_DATASET_ACCESS);

    assert_true(H5Pset_chunk_cache(dapl, 101, cache_nbytes, 1) >= 0);
    hid_t dataset =
        H5Dcreate2(file, "x", H5T_IEEE_F32LE, space, H5P_DEFAULT, dcpl, dapl);
    assert_true(dataset >= 0);
    H5Pclose(dapl);
    H5Pclose(dcpl);
    H5Sclose(space);
    return dataset;
}

/* Writes a box of `source` and records it in `want`. */
static void
write_box(hid_t dataset, const float *source, const hsize_t *offset,
          const hsize_t *count, float *want)
{
    hid_t space = H5Dget_space(dataset);

    for (hsize_t z = offset[0]; z < offset[0] + count[0]; z++)
        for (hsize_t y = offset[1]; y < offset[1] + count[1]; y++)
            memcpy(want + (z * SIDE + y) * SIDE + offset[2],
                   source + (z * SIDE + y) * SIDE + offset[2],
                   (size_t)count[2] * sizeof *want);
    assert_true(H5Sselect_hyperslab(space, H5S_SELECT_SET, offset, NULL, count,
                                    NULL) >= 0);
    assert_true(H5Dwrite(dataset, H5T_NATIVE_FLOAT, space, space, H5P_DEFAULT,
                         source) >= 0);
    H5Sclose(space);
}

/* Boxes anywhere in the dataset, of one value or many. */
static void
choose_box(uint64_t k, hsize_t *offset, hsize_t *count)
{
    for (int d = 0; d < 3; d++) {
        const uint64_t random = terp_field_mix(3 * k + (uint64_t)d);
        offset[d] = random % shape.dims[d];
        count[d] = 1 + (random >> 20) % (shape.dims[d] - offset[d]);
        if (k % 5 == 0)
            count[d] = 1;
    }
}

/* The largest allowed error of each value. */
static double
allowed(const struct bound *bound, double value, double range)
{
    const unsigned mode = bound->words[0] & 0xF;
    const double of_value = bound->bound * fabs(value);

    return mode == 1                 ? bound->bound
           : mode == 2               ? bound->bound * range
           : of_value > bound->floor ? of_value
                                     : bound->floor;
}

/* A relative bound refers to the chunk's range when a value is written: at most
 * from the zeros before to the largest value of all. */
static double
largest_range(const float *source, const float *other)
{
    double max = 0;

    for (size_t i = 0; i < NVALUES; i++)
        max = fmax(max, fmax((double)source[i], (double)other[i]));
    return max;
}

static void
check_values(const struct bound *bound, const float *want, const float *got,
             double range)
{
    for (size_t i = 0; i < NVALUES; i++) {
        const double error = fabs((double)want[i] - (double)got[i]);
        if (error > allowed(bound, (double)want[i], range))
            fail_msg("%s: value %zu, %.9g, became %.9g", bound->name, i,
                     (double)want[i], (double)got[i]);
        assert_false(strstr(bound->name, "positive") != NULL && got[i] < 0);
    }
}

static void
check(const struct bound *bound, size_t cache_nbytes, enum terp_field field)
{
    float *source = field_new(field), *other = field_new(TERP_FIELD_SMOOTH);
    float *want = calloc(NVALUES, sizeof *want);
    float *got = malloc(NVALUES * sizeof *got);
    hid_t file = h5_file_new();
    hid_t dataset = dataset_new(file, bound, cache_nbytes);
    const hsize_t plane[] = {1, SIDE, SIDE};
    const double range = largest_range(source, other);

    assert_non_null(want);
    assert_non_null(got);
    for (hsize_t z = 0; z < 2 * SIDE; z++)
        write_box(dataset, source, (const hsize_t[]){z, 0, 0}, plane, want);
    for (uint64_t k = 0; k < NWRITES; k++) {
        hsize_t offset[3], count[3];
        choose_box(k, offset, count);
        write_box(dataset, k % 2 ? source : other, offset, count, want);
        if (k % 7 == 3)
            assert_true(H5Fflush(file, H5F_SCOPE_GLOBAL) >= 0);
    }
    h5_read(dataset, H5T_NATIVE_FLOAT, got);
    check_values(bound, want, got, range);
    H5Dclose(dataset);
    dataset = H5Dopen2(file, "x", H5P_DEFAULT);
    h5_read(dataset, H5T_NATIVE_FLOAT, got);
    check_values(bound, want, got, range);
    H5Dclose(dataset);
    H5Fclose(file);
    free(source);
    free(other);
    free(want);
    free(got);
}

static void
errors_do_not_add_up(void **state)
{
    static const enum terp_field fields[] = {TERP_FIELD_SMOOTH,
                                             TERP_FIELD_ROUGH};

    (void)state;
    for (size_t b = 0; b < COUNT(bounds); b++)
        for (size_t c = 0; c < COUNT(caches); c++)
            if ((b == 0 && c == 0) || terp_case_taken(1))
                check(&bounds[b], caches[c], fields[(b + c) % COUNT(fields)]);
}

/* Values that were read from another dataset and are written as whole chunks
 * give streams as small as new values do. */
static void
copies_of_changed_values_are_new(void **state)
{
    const unsigned words[] = {1, 1, 3};
    float *values = field_new(TERP_FIELD_ROUGH);
    hid_t file = h5_file_new();
    hsize_t size[2];

    (void)state;
    for (int i = 0; i < 2; i++) {
        const char name[] = {(char)('a' + i), 0};
        hid_t dcpl = h5_dcpl_new(&shape, 0, COUNT(words), words);
        hid_t dataset =
            h5_dataset_new(file, name, H5T_IEEE_F32LE, &shape, dcpl);
        h5_write(dataset, H5T_NATIVE_FLOAT, values);
        h5_read(dataset, H5T_NATIVE_FLOAT, values);
        size[i] = H5Dget_storage_size(dataset);
        for (size_t k = 0; k < NVALUES; k++)
            values[k] = 2 * values[k] + 1;
        H5Dclose(dataset);
        H5Pclose(dcpl);
    }
    assert_true(size[1] < size[0] * 3 / 2);
    H5Fclose(file);
    free(values);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_do_not_add_up),
        cmocka_unit_test(copies_of_changed_values_are_new),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
