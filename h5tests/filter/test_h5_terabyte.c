/* A dataset of more than 2^40 bytes, behind another of the same size, in a
 * sparse file. A small part is written through the filter and by terp_h5_write,
 * and read, also strided. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "filter/h5/terp_h5.h"
#include "filter/plugin/h5z_terp.h"
#include "h5tests/support/cases.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/fields.h"
#include "h5tests/support/values.h"

#define TERABYTE (UINT64_C(1) << 40)
#define N 16384 /* a dataset of N * N * DEPTH float32 */
#define DEPTH 1030
#define CHUNK 64
#define BOUND 1e-3

static const hsize_t dims[] = {N, N, DEPTH};

/* Boxes of whole chunks, or cut at the dataset's end. */
static const struct box {
    hsize_t offset[3], count[3];
} boxes[] = {
    {{0, 0, 0}, {CHUNK, CHUNK, CHUNK}},
    {{N / 2, N / 2, 512}, {CHUNK, 2 * CHUNK, CHUNK}},
    {{N - CHUNK, N - CHUNK, 1024}, {CHUNK, CHUNK, DEPTH - 1024}},
};
#define NBOXES (sizeof boxes / sizeof *boxes)

static struct terp_chunk
shape_of(const struct box *box)
{
    const uint64_t counts[] = {box->count[0], box->count[1], box->count[2]};

    return terp_case_chunk(TERP_FLOAT32, 3, counts);
}

static float *
values_of(const struct box *box)
{
    const struct terp_chunk shape = shape_of(box);
    float *values = terp_case_alloc(terp_chunk_nbytes(&shape));

    terp_field_make(TERP_FIELD_ROUGH, &shape, (uint8_t *)values);
    return values;
}

/* The first dataset reserves its space in the file, but nothing is written to
 * it. */
static void
create_terabyte_before(hid_t file)
{
    const hsize_t n = TERABYTE;
    hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE);
    hid_t space = H5Screate_simple(1, &n, NULL);

    assert_true(H5Pset_alloc_time(dcpl, H5D_ALLOC_TIME_EARLY) >= 0);
    assert_true(H5Pset_fill_time(dcpl, H5D_FILL_TIME_NEVER) >= 0);
    hid_t before = H5Dcreate2(file, "before", H5T_NATIVE_UCHAR, space,
                              H5P_DEFAULT, dcpl, H5P_DEFAULT);
    assert_true(before >= 0);
    H5Dclose(before);
    H5Sclose(space);
    H5Pclose(dcpl);
}

static hid_t
create(hid_t file)
{
    const hsize_t chunk[] = {CHUNK, CHUNK, CHUNK};
    hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE);
    hid_t space = H5Screate_simple(3, dims, NULL);

    assert_true(H5Sget_simple_extent_npoints(space) * 4 >= (hssize_t)TERABYTE);
    assert_true(H5Pset_chunk(dcpl, 3, chunk) >= 0);
    assert_true(H5Pset_terp_abs(dcpl, BOUND) >= 0);
    hid_t dataset = H5Dcreate2(file, "x", H5T_IEEE_F32LE, space, H5P_DEFAULT,
                               dcpl, H5P_DEFAULT);
    assert_true(dataset >= 0);
    H5Sclose(space);
    H5Pclose(dcpl);
    return dataset;
}

/* Through the filter. */
static void
transfer(hid_t dataset, const struct box *box, float *to, const float *from)
{
    hid_t space = H5Dget_space(dataset);
    hid_t memory = H5Screate_simple(3, box->count, NULL);

    assert_true(H5Sselect_hyperslab(space, H5S_SELECT_SET, box->offset, NULL,
                                    box->count, NULL) >= 0);
    assert_true((to == NULL ? H5Dwrite(dataset, H5T_NATIVE_FLOAT, memory, space,
                                       H5P_DEFAULT, from)
                            : H5Dread(dataset, H5T_NATIVE_FLOAT, memory, space,
                                      H5P_DEFAULT, to)) >= 0);
    H5Sclose(space);
    H5Sclose(memory);
}

static void
write_boxes(hid_t dataset, const struct terp_run_options *run)
{
    for (size_t i = 0; i < NBOXES; i++) {
        float *values = values_of(&boxes[i]);
        if (i % 2 == 0)
            transfer(dataset, &boxes[i], NULL, values);
        else
            assert_int_equal(terp_h5_write(run, dataset, boxes[i].offset,
                                           boxes[i].count, NULL, values, NULL),
                             TERP_OK);
        free(values);
    }
}

static void
check_box(hid_t dataset, const struct terp_run_options *run,
          const struct box *box)
{
    const struct terp_params params = {.bound_mode = TERP_BOUND_ABSOLUTE,
                                       .bound = BOUND};
    const struct terp_chunk shape = shape_of(box);
    const uint64_t nbytes = terp_chunk_nbytes(&shape);
    const hsize_t stride[] = {4, 4, 4};
    hsize_t count[3];
    uint8_t *by_filter = terp_case_alloc(nbytes);
    uint8_t *by_blocks = terp_case_alloc(nbytes);
    uint8_t *taken = terp_case_alloc(nbytes);
    float *values = values_of(box);

    transfer(dataset, box, (void *)by_filter, NULL);
    terp_case_compare("box", &params, &shape, (uint8_t *)values, by_filter,
                      BOUND);
    assert_int_equal(
        terp_h5_read(run, dataset, box->offset, box->count, by_blocks, NULL),
        TERP_OK);
    assert_memory_equal(by_filter, by_blocks, nbytes);
    for (int d = 0; d < 3; d++)
        count[d] = (box->count[d] + stride[d] - 1) / stride[d];
    const uint64_t taken_nbytes = terp_case_take(&shape, by_filter, 4, taken);
    assert_int_equal(terp_h5_read_strided(run, dataset, box->offset, stride,
                                          count, by_blocks, NULL),
                     TERP_OK);
    assert_memory_equal(by_blocks, taken, taken_nbytes);
    free(by_filter);
    free(by_blocks);
    free(taken);
    free(values);
}

/* The whole dataset, one value in 4096 of each dimension. */
static void
check_coarsely(hid_t dataset, const struct terp_run_options *run)
{
    const hsize_t stride[] = {4096, 4096, 512}, count[] = {4, 4, 3};
    float values[4 * 4 * 3], first, middle;
    struct box one = {{0, 0, 0}, {1, 1, 1}};

    transfer(dataset, &one, &first, NULL);
    one = (struct box){{N / 2, N / 2, 512}, {1, 1, 1}};
    transfer(dataset, &one, &middle, NULL);
    assert_int_equal(
        terp_h5_read_strided(run, dataset, NULL, stride, count, values, NULL),
        TERP_OK);
    for (int i = 0; i < 4 * 4 * 3; i++) {
        const float expected = i == 0                     ? first
                               : i == (2 * 4 + 2) * 3 + 1 ? middle
                                                          : 0;
        assert_true(values[i] == expected);
    }
}

static void
terabyte_is_written_and_read_in_part(void **state)
{
    const struct terp_run_options run = {.size = sizeof run, .nthreads = 2};
    char path[] = "terabyte_XXXXXX";
    const int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    for (int latest = 0; latest < 2; latest++) {
        hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
        if (latest)
            H5Pset_libver_bounds(fapl, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
        hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, fapl);
        assert_true(file >= 0);
        create_terabyte_before(file);
        hid_t dataset = create(file);
        write_boxes(dataset, &run);
        H5Dclose(dataset);
        assert_true(H5Fclose(file) >= 0);
        file = H5Fopen(path, H5F_ACC_RDONLY, fapl);
        dataset = H5Dopen2(file, "x", H5P_DEFAULT);
        assert_true(dataset >= 0);
        for (size_t i = 0; i < NBOXES; i++)
            check_box(dataset, &run, &boxes[i]);
        check_coarsely(dataset, &run);
        H5Dclose(dataset);
        H5Fclose(file);
        H5Pclose(fapl);
    }
    unlink(path);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(terabyte_is_written_and_read_in_part)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
