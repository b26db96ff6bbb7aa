#define _POSIX_C_SOURCE 200112L /* for setenv */
/* Compares terp_h5_write and terp_h5_read with H5Dwrite and H5Dread. With
 * TEST_MEMORY, the CUDA engine codes: "device", blocks in the device's memory;
 * "pinned", blocks on the host, which move by pinned memory. TERP_CUDA_LIBRARY
 * and TERP_TEST_CUDART name engine and runtime. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "codec/format/base.h"
#include "codec/format/frame.h"
#include "filter/h5/terp_h5.h"
#include "filter/plugin/h5z_terp.h"
#include "h5tests/support/cases.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/cuda_buffer.h"
#include "h5tests/support/fields.h"
#include "h5tests/support/h5_files.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* The space between values and guards; blocks are aligned only to values. */
#define OFFSET 8

static enum terp_memory memory;
static enum terp_engine_kind engine = TERP_ENGINE_CPU;
static hid_t file;

/* With chunks that extend beyond the dataset's end, and without. */
static const struct h5_shape shapes[] = {
    {1, {5000}, {1500}},
    {1, {3}, {3}},
    {2, {70, 90}, {32, 90}},
    {3, {20, 21, 22}, {8, 16, 22}},
    {4, {3, 10, 9, 11}, {2, 8, 8, 8}},
    {5, {2, 3, 8, 9, 11}, {1, 2, 8, 8, 8}},
};
static const struct h5_shape cube = {3, {20, 21, 22}, {8, 8, 8}};

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

/* The result of the last call of terp_h5. */
static struct terp_run_result result;

static struct terp_run_options
make_options(void)
{
    return (struct terp_run_options){
        .engine = engine, .memory = memory, .nthreads = 2};
}

/* A rough field with some special values. */
static uint8_t *
make_values(const struct h5_shape *shape, hid_t type)
{
    struct terp_chunk chunk = {.type = H5Tget_size(type) == 4 ? TERP_FLOAT32
                                                              : TERP_FLOAT64,
                               .big_endian = H5Tget_order(type) == H5T_ORDER_BE,
                               .rank = 1,
                               .dims = {h5_shape_nvalues(shape)}};
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));

    terp_field_make(TERP_FIELD_GAPS, &chunk, values);
    return values;
}

static uint64_t
nbytes_of(const hsize_t *count, int rank, hid_t type)
{
    uint64_t nbytes = H5Tget_size(type);

    for (int d = 0; d < rank; d++)
        nbytes *= count[d];
    return nbytes;
}

static hid_t
create_with(const char *name, hid_t type, const struct h5_shape *shape,
            hid_t dcpl)
{
    hid_t own = H5Pcopy(dcpl);

    assert_true(H5Pset_terp_abs(own, 1e-2) >= 0);
    hid_t dataset = h5_dataset_new(file, name, type, shape, own);
    assert_true(dataset >= 0);
    H5Pclose(own);
    return dataset;
}

static hid_t
create(const char *name, hid_t type, const struct h5_shape *shape)
{
    hid_t dcpl = h5_dcpl_new(shape, 0, 0, NULL);
    hid_t dataset = create_with(name, type, shape, dcpl);

    H5Pclose(dcpl);
    return dataset;
}

static enum terp_status
write_from(const struct terp_run_options *run, hid_t dataset,
           const hsize_t *offset, const hsize_t *count,
           const struct terp_params *params, const void *values,
           uint64_t nbytes)
{
    struct cuda_buffer buffer =
        cuda_buffer_make(memory, values, nbytes, OFFSET);
    enum terp_status st = terp_h5_write(run, dataset, offset, count, params,
                                        buffer.bytes, &result);

    cuda_buffer_free(&buffer);
    return st;
}

/* Reads a block. The caller frees it. */
static enum terp_status
read_to(const struct terp_run_options *run, hid_t dataset,
        const hsize_t *offset, const hsize_t *count, uint64_t nbytes,
        uint8_t **values_ret)
{
    struct cuda_buffer buffer = cuda_buffer_make(memory, NULL, nbytes, OFFSET);
    enum terp_status st =
        terp_h5_read(run, dataset, offset, count, buffer.bytes, &result);

    *values_ret = cuda_buffer_read(&buffer);
    cuda_buffer_free(&buffer);
    return st;
}

static void
write_block(hid_t dataset, const hsize_t *offset, const hsize_t *count,
            const struct terp_params *params, const void *values,
            uint64_t nbytes)
{
    struct terp_run_options run = make_options();

    assert_int_equal(
        write_from(&run, dataset, offset, count, params, values, nbytes),
        TERP_OK);
    if (result.reason != NULL)
        fail_msg("%s", result.reason);
    assert_int_equal(result.used, run.engine);
}

/* Compares the stored bytes of every chunk. */
static void
check_stored(const struct h5_shape *shape, hid_t want, hid_t got)
{
    hsize_t place[H5_MAX_RANK] = {0};
    size_t want_nbytes, got_nbytes;
    bool want_skipped, got_skipped;
    int d;

    do {
        void *a = h5_chunk_bytes(want, place, &want_nbytes, &want_skipped);
        void *b = h5_chunk_bytes(got, place, &got_nbytes, &got_skipped);
        assert_int_equal(want_nbytes, got_nbytes);
        assert_int_equal(want_skipped, got_skipped);
        assert_memory_equal(a, b, want_nbytes);
        free(a);
        free(b);
        for (d = shape->rank - 1; d >= 0; d--) {
            place[d] += shape->chunk[d];
            if (place[d] < shape->dims[d])
                break;
            place[d] = 0;
        }
    } while (d >= 0);
}

/* terp_h5_read of `offset` and `count` gives the values of H5Dread, for
 * `reason`. */
static void
check_read(hid_t dataset, const hsize_t *offset, const hsize_t *count, int rank,
           const char *reason)
{
    hid_t type = H5Dget_type(dataset), space = H5Dget_space(dataset);
    uint64_t nbytes = nbytes_of(count, rank, type);
    uint8_t *want = terp_case_alloc(nbytes), *got;
    struct terp_run_options run = make_options();
    hid_t block = H5Screate_simple(rank, count, NULL);

    assert_true(H5Sselect_hyperslab(space, H5S_SELECT_SET, offset, NULL, count,
                                    NULL) >= 0);
    assert_true(H5Dread(dataset, type, block, space, H5P_DEFAULT, want) >= 0);
    assert_int_equal(read_to(&run, dataset, offset, count, nbytes, &got),
                     TERP_OK);
    assert_memory_equal(want, got, nbytes);
    if (reason == NULL)
        assert_null(result.reason);
    else
        assert_string_equal(result.reason, reason);
    free(want);
    free(got);
    H5Sclose(block);
    H5Sclose(space);
    H5Tclose(type);
}

static const hsize_t beginning[H5_MAX_RANK];

/* terp_h5_read_strided gives the values of H5Dread. */
static void
check_strided(hid_t dataset, const struct h5_shape *shape,
              const hsize_t *offset, const hsize_t *stride)
{
    const struct terp_run_options run = make_options();
    hid_t type = H5Dget_type(dataset), space = H5Dget_space(dataset);
    hsize_t count[H5_MAX_RANK];

    for (int d = 0; d < shape->rank; d++)
        count[d] = (shape->dims[d] - offset[d] + stride[d] - 1) / stride[d];
    const uint64_t nbytes = nbytes_of(count, shape->rank, type);
    uint8_t *want = terp_case_alloc(nbytes);
    hid_t in_memory = H5Screate_simple(shape->rank, count, NULL);
    assert_true(H5Sselect_hyperslab(space, H5S_SELECT_SET, offset, stride,
                                    count, NULL) >= 0);
    assert_true(H5Dread(dataset, type, in_memory, space, H5P_DEFAULT, want) >=
                0);
    for (int told = 0; told < 2; told++) {
        struct cuda_buffer buffer =
            cuda_buffer_make(memory, NULL, nbytes, OFFSET);
        assert_int_equal(terp_h5_read_strided(&run, dataset, offset, stride,
                                              told ? count : NULL, buffer.bytes,
                                              &result),
                         TERP_OK);
        uint8_t *got = cuda_buffer_read(&buffer);
        assert_memory_equal(got, want, nbytes);
        cuda_buffer_free(&buffer);
        free(got);
    }
    free(want);
    H5Sclose(in_memory);
    H5Sclose(space);
    H5Tclose(type);
}

/* One dataset by HDF5, one by terp_h5_write. */
static void
compare_writers(const struct h5_shape *shape, hid_t type, hid_t dcpl,
                const char *name)
{
    uint64_t nbytes = nbytes_of(shape->dims, shape->rank, type);
    uint8_t *values = make_values(shape, type);
    char other[64];

    snprintf(other, sizeof other, "%s by hdf5", name);
    hid_t ours = create_with(name, type, shape, dcpl);
    hid_t theirs = create_with(other, type, shape, dcpl);
    h5_write(theirs, type, values);
    write_block(ours, NULL, NULL, NULL, values, nbytes);
    check_stored(shape, theirs, ours);
    check_read(theirs, beginning, shape->dims, shape->rank, NULL);
    check_read(ours, beginning, shape->dims, shape->rank, NULL);
    free(values);
    H5Dclose(ours);
    H5Dclose(theirs);
}

static void
dataset_has_the_bytes_of_h5dwrite(void **state)
{
    const hid_t types[] = {H5T_IEEE_F32LE, H5T_IEEE_F32BE, H5T_IEEE_F64LE,
                           H5T_IEEE_F64BE};
    char name[32];

    (void)state;
    for (size_t s = 0; s < COUNT(shapes); s++)
        for (size_t t = 0; t < COUNT(types); t++) {
            /* Fewer cases, because the emulated device is slow. */
            if (engine == TERP_ENGINE_CUDA &&
                !terp_case_is_drawn(COUNT(types) * s + t, COUNT(types)))
                continue;
            hid_t dcpl = h5_dcpl_new(&shapes[s], 0, 0, NULL);
            snprintf(name, sizeof name, "%zu %zu", s, t);
            compare_writers(&shapes[s], types[t], dcpl, name);
            H5Pclose(dcpl);
        }
}

static void
edge_chunks_are_padded_as_hdf5_does(void **state)
{
    const struct h5_shape plate = {2, {20, 21}, {8, 16}};
    const float fill = -999.0f;
    hid_t user = h5_dcpl_new(&plate, 0, 0, NULL);
    hid_t never = h5_dcpl_new(&plate, 0, 0, NULL);
    hid_t undefined = h5_dcpl_new(&plate, 0, 0, NULL);

    (void)state;
    assert_true(H5Pset_fill_value(user, H5T_NATIVE_FLOAT, &fill) >= 0);
    compare_writers(&plate, H5T_IEEE_F32LE, user, "user");
    compare_writers(&plate, H5T_IEEE_F64BE, user, "user, converted");
    assert_true(H5Pset_fill_value(never, H5T_NATIVE_FLOAT, &fill) >= 0);
    assert_true(H5Pset_fill_time(never, H5D_FILL_TIME_NEVER) >= 0);
    compare_writers(&plate, H5T_IEEE_F32LE, never, "never");
    assert_true(H5Pset_fill_value(undefined, H5T_NATIVE_FLOAT, NULL) >= 0);
    compare_writers(&plate, H5T_IEEE_F32LE, undefined, "undefined");
    H5Pclose(user);
    H5Pclose(never);
    H5Pclose(undefined);
}

static void
chunk_may_be_larger_than_the_dataset(void **state)
{
    const struct h5_shape shape = {2, {3, 5}, {7, 4}};
    const hsize_t max_dims[] = {H5S_UNLIMITED, H5S_UNLIMITED};
    const hsize_t offset[] = {7, 4}, dims[] = {9, 5};
    hid_t dcpl = h5_dcpl_new(&shape, 0, 0, NULL);
    hid_t space = H5Screate_simple(2, shape.dims, max_dims);
    uint8_t *values = make_values(&cube, H5T_IEEE_F64LE);

    (void)state;
    assert_true(H5Pset_terp_abs(dcpl, 1e-2) >= 0);
    hid_t dataset = H5Dcreate2(file, "field", H5T_IEEE_F64LE, space,
                               H5P_DEFAULT, dcpl, H5P_DEFAULT);
    write_block(dataset, NULL, NULL, NULL, values, sizeof(double) * 15);
    check_read(dataset, beginning, shape.dims, 2, NULL);
    assert_true(H5Dset_extent(dataset, dims) >= 0);
    write_block(dataset, offset, NULL, NULL, values, sizeof(double) * 2);
    check_read(dataset, beginning, dims, 2, NULL);
    free(values);
    H5Dclose(dataset);
    H5Sclose(space);
    H5Pclose(dcpl);
}

static void
bricks_are_coded_as_bricks(void **state)
{
    struct h5_shape shape = {1, {3500}, {1024}};
    struct H5Z_terp_config config = {.bound_mode = H5Z_TERP_RELATIVE,
                                     .bound = 1e-3,
                                     .nlogical = 3,
                                     .logical = {8, 8, 8}};
    hid_t dcpl = h5_dcpl_new(&shape, 0, 0, NULL);
    uint8_t *values = make_values(&shape, H5T_IEEE_F32LE);
    struct terp_cd cd;

    (void)state;
    assert_true(H5Pset_terp(dcpl, &config) >= 0);
    hid_t ours = h5_dataset_new(file, "ours", H5T_IEEE_F32LE, &shape, dcpl);
    hid_t theirs = h5_dataset_new(file, "theirs", H5T_IEEE_F32LE, &shape, dcpl);
    h5_dataset_cd(ours, &cd);
    assert_true(cd.chunk.stack);
    h5_write(theirs, H5T_IEEE_F32LE, values);
    write_block(ours, NULL, NULL, NULL, values, 4 * 3500);
    check_stored(&shape, theirs, ours);
    check_read(ours, beginning, shape.dims, 1, NULL);
    free(values);
    H5Dclose(ours);
    H5Dclose(theirs);
    H5Pclose(dcpl);
}

static void
hyperslab_is_written_where_it_belongs(void **state)
{
    const hsize_t offset[] = {8, 8, 16}, count[] = {12, 8, 6};
    const uint64_t nbytes = sizeof(float) * 12 * 8 * 6;
    const struct h5_shape part = {3, {12, 8, 6}, {8, 8, 8}};
    hid_t ours = create("ours", H5T_IEEE_F32LE, &cube);
    hid_t theirs = create("theirs", H5T_IEEE_F32LE, &cube);
    uint8_t *values = make_values(&cube, H5T_IEEE_F32LE);
    uint8_t *part_values = make_values(&part, H5T_IEEE_F32LE);
    hid_t space = H5Dget_space(theirs);
    hid_t block = H5Screate_simple(3, count, NULL);

    (void)state;
    h5_write(theirs, H5T_IEEE_F32LE, values);
    h5_write(ours, H5T_IEEE_F32LE, values);
    assert_true(H5Sselect_hyperslab(space, H5S_SELECT_SET, offset, NULL, count,
                                    NULL) >= 0);
    assert_true(H5Dwrite(theirs, H5T_IEEE_F32LE, block, space, H5P_DEFAULT,
                         part_values) >= 0);
    write_block(ours, offset, count, NULL, part_values, nbytes);
    check_read(ours, beginning, cube.dims, 3, NULL);
    check_read(ours, offset, count, 3, NULL);
    /* With offsets only, and with counts only. */
    struct terp_run_options run = make_options();
    uint8_t *got;
    assert_int_equal(read_to(&run, ours, offset, NULL, nbytes * 13 / 8, &got),
                     TERP_OK);
    free(got);
    assert_int_equal(read_to(&run, ours, NULL, count, nbytes, &got), TERP_OK);
    free(got);

    free(values);
    free(part_values);
    H5Sclose(block);
    H5Sclose(space);
    H5Dclose(ours);
    H5Dclose(theirs);
}

static void
params_of_the_call_replace_those_of_the_dataset(void **state)
{
    const hsize_t count[] = {8, 8, 8};
    struct terp_params params = {.bound_mode = TERP_BOUND_ABSOLUTE,
                                 .bound = 0.001953125,
                                 .pipeline = TERP_PIPELINE_SPEED};
    hid_t dataset = create("field", H5T_IEEE_F32LE, &cube);
    uint8_t *values = make_values(&cube, H5T_IEEE_F32LE);
    struct terp_info info = {.size = sizeof info};
    size_t nbytes;
    bool skipped;

    (void)state;
    write_block(dataset, NULL, count, &params, values, sizeof(float) * 512);
    uint8_t *stream = h5_chunk_bytes(dataset, beginning, &nbytes, &skipped);
    assert_int_equal(terp_inspect(stream, nbytes, &info), TERP_OK);
    assert_string_equal(info.pipeline, "speed");
    assert_true(info.bound == params.bound);
    check_read(dataset, beginning, count, 3, NULL);

    struct terp_run_options run = make_options();
    params.bound = -1;
    assert_int_equal(write_from(&run, dataset, NULL, NULL, &params, values,
                                nbytes_of(cube.dims, 3, H5T_IEEE_F32LE)),
                     TERP_ERR_BOUND);
    free(stream);
    free(values);
    H5Dclose(dataset);
}

static void
fill_value_of_the_dataset_stays_exact(void **state)
{
    const float fill = 1e20f;
    const struct h5_shape shape = {1, {512}, {512}};
    struct terp_params params = {.bound_mode = TERP_BOUND_RELATIVE,
                                 .bound = 1e-3};
    hid_t dcpl = h5_dcpl_new(&shape, 0, 0, NULL);
    float values[512];
    uint8_t *got;
    struct terp_run_options run = make_options();

    (void)state;
    for (int i = 0; i < 512; i++)
        values[i] = i % 3 == 0 ? fill : (float)i;
    assert_true(H5Pset_fill_value(dcpl, H5T_NATIVE_FLOAT, &fill) >= 0);
    hid_t dataset = create_with("field", H5T_IEEE_F32LE, &shape, dcpl);
    write_block(dataset, NULL, NULL, &params, values, sizeof values);
    assert_int_equal(read_to(&run, dataset, NULL, NULL, sizeof values, &got),
                     TERP_OK);
    for (size_t i = 0; i < 512; i++) {
        float value;
        memcpy(&value, got + i * sizeof value, sizeof value);
        assert_true(value - values[i] < 0.6 && values[i] - value < 0.6);
    }
    free(got);
    H5Dclose(dataset);
    H5Pclose(dcpl);
}

/* A container of the 2048 bytes of a chunk, as two streams of 256 floats.
 * doc/format.md, "Containers of compound values". Returns its bytes. */
static uint64_t
make_container(const uint8_t *values, uint8_t *dst)
{
    const struct terp_chunk half = {
        .type = TERP_FLOAT32, .rank = 1, .dims = {256}};
    const struct terp_params params = {.bound_mode = TERP_BOUND_ABSOLUTE,
                                       .bound = 1};
    static const uint8_t magic[] = {'T', 'E', 'R', 'P', 'R', 1};
    const uint64_t head_nbytes = 32 + 2 * 12;
    uint64_t at = head_nbytes, nbytes;

    memset(dst, 0, head_nbytes);
    memcpy(dst, magic, sizeof magic);
    store_le(dst + 16, 1, 8);    /* compound values */
    store_le(dst + 24, 2, 4);    /* members */
    store_le(dst + 28, 2048, 4); /* bytes of a value */
    for (int i = 0; i < 2; i++) {
        assert_int_equal(terp_encode(&params, &half, values + 1024 * i,
                                     dst + at, terp_encode_bound(&half),
                                     &nbytes, 1),
                         TERP_OK);
        store_le(dst + 32 + 12 * i, 1024, 4);
        store_le(dst + 36 + 12 * i, nbytes, 8);
        at += nbytes;
    }
    terp_frame_seal(dst, head_nbytes);
    return at;
}

static void
chunks_that_are_no_streams_are_read_all_the_same(void **state)
{
    const hsize_t raw_at[] = {8, 0, 0}, bytes_at[] = {0, 8, 8};
    const hsize_t container_at[] = {8, 8, 0}, stride[] = {4, 4, 4};
    const hsize_t count[] = {8, 8, 8};
    const uint64_t chunk_nbytes = sizeof(float) * 512;
    struct terp_chunk bytes = {.type = TERP_BYTES, .rank = 1, .dims = {2048}};
    struct terp_params params = {.bound_mode = TERP_BOUND_ABSOLUTE, .bound = 1};
    const float fill = 7;
    hid_t dcpl = h5_dcpl_new(&cube, 0, 0, NULL);
    uint8_t *values = make_values(&cube, H5T_IEEE_F32LE);
    uint8_t stream[2048 + 4 * TERP_MAX_FRAME_NBYTES];
    uint64_t nbytes;

    (void)state;
    assert_true(H5Pset_fill_value(dcpl, H5T_NATIVE_FLOAT, &fill) >= 0);
    hid_t dataset = create_with("field", H5T_IEEE_F32LE, &cube, dcpl);
    /* A stream of terp, a chunk that skipped terp, a chunk that passed through
     * in a frame, and a container. */
    write_block(dataset, NULL, count, NULL, values, chunk_nbytes);
    assert_true(H5Dwrite_chunk(dataset, H5P_DEFAULT, 1, raw_at, chunk_nbytes,
                               values) >= 0);
    assert_int_equal(
        terp_encode(&params, &bytes, values, stream, sizeof stream, &nbytes, 1),
        TERP_OK);
    assert_true(
        H5Dwrite_chunk(dataset, H5P_DEFAULT, 0, bytes_at, nbytes, stream) >= 0);
    nbytes = make_container(values, stream);
    assert_true(nbytes < chunk_nbytes);
    assert_true(H5Dwrite_chunk(dataset, H5P_DEFAULT, 0, container_at, nbytes,
                               stream) >= 0);
    check_read(dataset, beginning, cube.dims, 3, NULL);
    check_strided(dataset, &cube, beginning, stride);
    free(values);
    H5Dclose(dataset);
    H5Pclose(dcpl);
}

static void
part_of_a_chunk_is_read_but_not_written(void **state)
{
    static const struct {
        hsize_t offset[3], count[3];
    } parts[] = {{{1, 0, 0}, {8, 8, 8}},
                 {{0, 0, 0}, {8, 8, 7}},
                 {{8, 8, 8}, {11, 8, 8}}};
    hid_t dataset = create("field", H5T_IEEE_F32LE, &cube);
    uint8_t *values = make_values(&cube, H5T_IEEE_F32LE);

    (void)state;
    write_block(dataset, NULL, NULL, NULL, values,
                nbytes_of(cube.dims, 3, H5T_IEEE_F32LE));
    for (size_t i = 0; i < COUNT(parts); i++) {
        struct terp_run_options run = make_options();
        assert_int_equal(
            write_from(&run, dataset, parts[i].offset, parts[i].count, NULL,
                       values, nbytes_of(parts[i].count, 3, H5T_IEEE_F32LE)),
            TERP_ERR_ARGUMENT);
        check_read(dataset, parts[i].offset, parts[i].count, 3,
                   "the block is not made of whole chunks");
    }
    free(values);
    H5Dclose(dataset);
}

/* Writes and reads through HDF5; with parameters for the call this is an
 * error. */
static void
check_foreign(hid_t dataset, const struct h5_shape *shape, const char *reason)
{
    const struct terp_params params = {.bound_mode = TERP_BOUND_ABSOLUTE,
                                       .bound = 1};
    hid_t type = H5Dget_type(dataset);
    uint64_t nbytes = nbytes_of(shape->dims, shape->rank, type);
    uint8_t *values = make_values(shape, H5T_IEEE_F64LE);
    struct terp_run_options run = make_options();

    assert_int_equal(
        write_from(&run, dataset, NULL, NULL, NULL, values, nbytes), TERP_OK);
    assert_string_equal(result.reason, reason);
    assert_int_equal(result.used, TERP_ENGINE_CPU);
    check_read(dataset, beginning, shape->dims, shape->rank, reason);
    assert_int_equal(
        write_from(&run, dataset, NULL, NULL, &params, values, nbytes),
        TERP_ERR_ARGUMENT);
    free(values);
    H5Tclose(type);
    H5Dclose(dataset);
}

static void
other_datasets_are_left_to_hdf5(void **state)
{
    static const char others[] = "the dataset has other filters beside terp";
    hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE);

    (void)state;
    check_foreign(
        h5_dataset_new(file, "contiguous", H5T_IEEE_F32BE, &cube, dcpl), &cube,
        "the dataset has no chunks");
    H5Pclose(dcpl);

    dcpl = h5_dcpl_new(&cube, 0, 0, NULL);
    check_foreign(h5_dataset_new(file, "chunks", H5T_STD_I16LE, &cube, dcpl),
                  &cube, "the dataset's first filter is not terp");
    check_foreign(create_with("bits", H5T_STD_B32LE, &cube, dcpl), &cube,
                  "the dataset's values pass through terp uncompressed");
    assert_true(H5Pset_terp_abs(dcpl, 1e-2) >= 0);
    assert_true(H5Pset_fletcher32(dcpl) >= 0);
    check_foreign(
        h5_dataset_new(file, "terp first", H5T_IEEE_F32LE, &cube, dcpl), &cube,
        others);
    H5Pclose(dcpl);

    dcpl = h5_dcpl_new(&cube, 0, 0, NULL);
    assert_true(H5Pset_deflate(dcpl, 1) >= 0);
    check_foreign(create_with("deflate first", H5T_IEEE_F32LE, &cube, dcpl),
                  &cube, "the dataset's first filter is not terp");
    H5Pclose(dcpl);

    dcpl = h5_dcpl_new(&cube, 0, 0, NULL);
    assert_true(H5Pset_chunk_opts(dcpl, H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS) >=
                0);
    check_foreign(create_with("whole only", H5T_IEEE_F32LE, &cube, dcpl), &cube,
                  "the dataset's partial chunks are not filtered");
    H5Pclose(dcpl);
}

static void
dataset_without_dims_is_one_value(void **state)
{
    hid_t space = H5Screate(H5S_SCALAR);
    hid_t dataset = H5Dcreate2(file, "scalar", H5T_IEEE_F64LE, space,
                               H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    struct terp_run_options run = make_options();
    double value = 42;
    uint8_t *got;

    (void)state;
    assert_int_equal(
        write_from(&run, dataset, NULL, NULL, NULL, &value, sizeof value),
        TERP_OK);
    assert_int_equal(read_to(&run, dataset, NULL, NULL, sizeof value, &got),
                     TERP_OK);
    assert_memory_equal(got, &value, sizeof value);
    free(got);
    H5Dclose(dataset);
    H5Sclose(space);
}

static void
empty_block_is_done_at_once(void **state)
{
    const struct h5_shape none = {1, {0}, {16}};
    const hsize_t offset[] = {8, 21, 0}, count[] = {8, 0, 22};
    const hsize_t nothing[] = {0, 0, 0};
    hid_t dataset = create("field", H5T_IEEE_F32LE, &cube);
    hid_t empty = create("empty", H5T_IEEE_F32LE, &none);
    struct terp_run_options run = make_options();
    uint8_t byte = 0;

    (void)state;
    assert_int_equal(
        terp_h5_write(&run, dataset, offset, count, NULL, &byte, NULL),
        TERP_OK);
    assert_int_equal(terp_h5_read(&run, dataset, NULL, nothing, &byte, NULL),
                     TERP_OK);
    assert_int_equal(terp_h5_write(&run, empty, NULL, NULL, NULL, &byte, NULL),
                     TERP_OK);
    assert_int_equal(terp_h5_read(&run, empty, NULL, NULL, &byte, NULL),
                     TERP_OK);
    H5Dclose(dataset);
    H5Dclose(empty);
}

static void
damaged_stream_is_told_from_the_others(void **state)
{
    const hsize_t place[] = {8, 8, 8}, before[] = {8, 8, 8};
    const uint64_t nbytes = nbytes_of(cube.dims, 3, H5T_IEEE_F32LE);
    hid_t dataset = create("field", H5T_IEEE_F32LE, &cube);
    uint8_t *values = make_values(&cube, H5T_IEEE_F32LE), *got;
    struct terp_run_options run = make_options();
    size_t stream_nbytes;
    bool skipped;

    (void)state;
    write_block(dataset, NULL, NULL, NULL, values, nbytes);
    uint8_t *stream = h5_chunk_bytes(dataset, place, &stream_nbytes, &skipped);
    stream[stream_nbytes - 1] ^= 1;
    assert_true(H5Dwrite_chunk(dataset, H5P_DEFAULT, 0, place, stream_nbytes,
                               stream) >= 0);
    assert_int_equal(read_to(&run, dataset, NULL, NULL, nbytes, &got),
                     TERP_ERR_CHECKSUM);
    free(got);
    check_read(dataset, beginning, before, 3, NULL);
    assert_true(H5Dwrite_chunk(dataset, H5P_DEFAULT, 0, place, 20, values) >=
                0);
    assert_int_equal(read_to(&run, dataset, NULL, NULL, nbytes, &got),
                     TERP_ERR_MAGIC);
    free(got);
    free(stream);
    free(values);
    H5Dclose(dataset);
}

/* terp_h5 leaves these chunks to HDF5, which compares no sizes. */
static void
chunk_of_another_size_is_damage(void **state)
{
    static const hsize_t zeros[3];
    const hsize_t stride[] = {4, 4, 4};
    const struct terp_chunk bytes = {
        .type = TERP_BYTES, .rank = 1, .dims = {2047}};
    const struct terp_params params = {.bound_mode = TERP_BOUND_ABSOLUTE,
                                       .bound = 1};
    const uint64_t nbytes = nbytes_of(cube.dims, 3, H5T_IEEE_F32LE);
    uint8_t *values = make_values(&cube, H5T_IEEE_F32LE);
    uint8_t stream[2047 + TERP_MAX_FRAME_NBYTES];
    struct terp_run_options run = make_options();
    uint64_t stream_nbytes;

    (void)state;
    assert_int_equal(terp_encode(&params, &bytes, values, stream, sizeof stream,
                                 &stream_nbytes, 1),
                     TERP_OK);
    for (uint32_t skipped = 0; skipped < 2; skipped++) {
        hid_t dataset =
            create(skipped ? "skipped" : "bytes", H5T_IEEE_F32LE, &cube);
        assert_true(H5Dwrite_chunk(dataset, H5P_DEFAULT, skipped, zeros,
                                   skipped ? bytes.dims[0] : stream_nbytes,
                                   skipped ? values : stream) >= 0);
        /* HDF5 1.10 caches the old properties of the last chunk. */
        write_block(dataset, cube.chunk, cube.chunk, NULL, values,
                    8 * 8 * 8 * 4);
        struct cuda_buffer buffer =
            cuda_buffer_make(memory, NULL, nbytes, OFFSET);
        assert_int_equal(
            terp_h5_read(&run, dataset, NULL, NULL, buffer.bytes, &result),
            TERP_ERR_CORRUPT);
        assert_int_equal(terp_h5_read_strided(&run, dataset, zeros, stride,
                                              NULL, buffer.bytes, &result),
                         TERP_ERR_CORRUPT);
        cuda_buffer_free(&buffer);
        H5Dclose(dataset);
    }
    free(values);
}

static void
wrong_arguments_are_refused(void **state)
{
    const hsize_t behind[] = {24, 0, 0}, long_count[] = {21, 21, 22};
    hid_t dataset = create("field", H5T_IEEE_F32LE, &cube);
    struct terp_run_options run = make_options();
    uint8_t byte = 0;

    (void)state;
    assert_int_equal(terp_h5_read(&run, dataset, behind, NULL, &byte, NULL),
                     TERP_ERR_ARGUMENT);
    assert_int_equal(
        terp_h5_write(&run, dataset, NULL, long_count, NULL, &byte, NULL),
        TERP_ERR_ARGUMENT);
    assert_int_equal(terp_h5_read(&run, file, NULL, NULL, &byte, NULL),
                     TERP_ERR_HDF5);
    assert_int_equal(terp_h5_write(&run, -1, NULL, NULL, NULL, &byte, NULL),
                     TERP_ERR_HDF5);
    run.nthreads = -1;
    assert_int_equal(terp_h5_read(&run, dataset, NULL, NULL, &byte, NULL),
                     TERP_ERR_ARGUMENT);
    run = make_options();
    run.engine = TERP_ENGINE_CPU;
    run.memory = TERP_MEMORY_DEVICE;
    assert_int_equal(
        terp_h5_write(&run, dataset, NULL, NULL, NULL, &byte, NULL),
        TERP_ERR_ARGUMENT);
    H5Dclose(dataset);
}

static herr_t
find_no_intent(unsigned n, const H5E_error2_t *error, void *found)
{
    (void)n;
    *(bool *)found |= strstr(error->desc, "no write intent") != NULL;
    return 0;
}

/* HDF5 refuses the write before it changes anything. Otherwise an unfiltered
 * chunk would stay in the cache, and the file could not be closed. */
static void
file_that_is_only_read_is_not_written(void **state)
{
    const char *name = "test_h5_blocks.h5";
    const uint64_t nbytes = nbytes_of(cube.dims, 3, H5T_IEEE_F32LE);
    uint8_t *values = make_values(&cube, H5T_IEEE_F32LE);
    const struct terp_params lossless = {.bound_mode = TERP_BOUND_ABSOLUTE};
    hid_t in_memory = file;
    struct terp_run_options run = make_options();

    (void)state;
    file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    hid_t dataset = create("field", H5T_IEEE_F32LE, &cube);
    write_block(dataset, NULL, NULL, NULL, values, nbytes);
    H5Dclose(dataset);
    H5Fclose(file);
    file = H5Fopen(name, H5F_ACC_RDONLY, H5P_DEFAULT);
    dataset = H5Dopen2(file, "field", H5P_DEFAULT);
    check_read(dataset, beginning, cube.dims, 3, NULL);
    float *before = malloc(nbytes), *after = malloc(nbytes);
    assert_true(before != NULL && after != NULL);
    H5Dread(dataset, H5T_IEEE_F32LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, before);
    for (uint64_t i = 0; i < nbytes; i++)
        values[i] ^= (uint8_t)(i * 37);
    for (int i = 0; i < 2; i++) {
        bool found = false;
        assert_int_equal(write_from(&run, dataset, NULL, NULL,
                                    i == 0 ? NULL : &lossless, values, nbytes),
                         TERP_ERR_HDF5);
        H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, find_no_intent, &found);
        /* From device memory, terp_h5 copies the values last. */
        assert_true(found || run.memory == TERP_MEMORY_DEVICE);
        assert_true(H5Dread(dataset, H5T_IEEE_F32LE, H5S_ALL, H5S_ALL,
                            H5P_DEFAULT, after) >= 0);
        assert_memory_equal(after, before, nbytes);
    }
    free(before);
    free(after);
    assert_true(H5Dclose(dataset) >= 0);
    assert_true(H5Fclose(file) >= 0);
    remove(name);
    file = in_memory;
    free(values);
}

/* All threads count in one budget. ThreadSanitizer would report a race. */
static void
threads_share_the_limit_of_memory(void **state)
{
    hid_t dcpl = h5_dcpl_new(&cube, 0, 0, NULL);

    (void)state;
    assert_int_equal(setenv("TERP_MAX_MEMORY", "1G", 1), 0);
    compare_writers(&cube, H5T_IEEE_F32LE, dcpl, "limited");
    assert_int_equal(unsetenv("TERP_MAX_MEMORY"), 0);
    H5Pclose(dcpl);
}

/* ---- writes that go on after the call ---- */

static struct terp_h5_writing *
begin(hid_t dataset, const void *values, bool copies)
{
    struct terp_run_options run = make_options();
    struct terp_h5_writing *writing;

    assert_int_equal(terp_h5_write_begin(&run, dataset, NULL, NULL, NULL,
                                         values, copies, &writing),
                     TERP_OK);
    assert_non_null(writing);
    return writing;
}

#define NWRITES 3

/* Several writes at a time. Copied values change before the wait. */
static void
later_writes_have_the_bytes_of_h5dwrite(void **state)
{
    hid_t dcpl = h5_dcpl_new(&cube, 0, 0, NULL);
    const uint64_t nbytes = nbytes_of(cube.dims, cube.rank, H5T_IEEE_F32LE);
    uint8_t *values = make_values(&cube, H5T_IEEE_F32LE);
    hid_t theirs = create_with("theirs", H5T_IEEE_F32LE, &cube, dcpl);

    (void)state;
    h5_write(theirs, H5T_IEEE_F32LE, values);
    for (int copies = 0; copies < 2; copies++) {
        struct terp_h5_writing *writings[NWRITES];
        struct cuda_buffer buffers[NWRITES];
        hid_t ours[NWRITES];
        for (int i = 0; i < NWRITES; i++) {
            char name[] = {(char)('a' + copies), (char)('0' + i), '\0'};
            buffers[i] = cuda_buffer_make(memory, values, nbytes, OFFSET);
            ours[i] = create_with(name, H5T_IEEE_F32LE, &cube, dcpl);
            writings[i] = begin(ours[i], buffers[i].bytes, copies);
            if (copies)
                cuda_buffer_free(&buffers[i]);
        }
        for (int i = NWRITES - 1; i >= 0; i--) {
            result.size = sizeof result;
            assert_int_equal(terp_h5_write_wait(writings[i], &result), TERP_OK);
            assert_null(result.reason);
            assert_int_equal(result.used, make_options().engine);
            check_stored(&cube, theirs, ours[i]);
            H5Dclose(ours[i]);
            if (!copies)
                cuda_buffer_free(&buffers[i]);
        }
    }
    free(values);
    H5Dclose(theirs);
    H5Pclose(dcpl);
}

/* By H5Dwrite; or since its copy does not fit. Values are in host memory. */
static void
what_cannot_be_later_is_written_at_once(void **state)
{
    if (memory == TERP_MEMORY_DEVICE)
        return;
    const struct h5_shape line = {1, {200000}, {1500}};
    const uint64_t nbytes = nbytes_of(line.dims, line.rank, H5T_IEEE_F32LE);
    uint8_t *values = make_values(&line, H5T_IEEE_F32LE);
    uint8_t *got = terp_case_alloc(nbytes);
    hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE);
    hid_t plain = h5_dataset_new(file, "plain", H5T_IEEE_F32LE, &line, dcpl);
    hid_t limited = create("limited", H5T_IEEE_F32LE, &line);

    (void)state;
    struct terp_h5_writing *writing = begin(plain, values, true);
    assert_true(H5Dread(plain, H5T_IEEE_F32LE, H5S_ALL, H5S_ALL, H5P_DEFAULT,
                        got) >= 0);
    assert_memory_equal(got, values, nbytes);
    result.size = sizeof result;
    assert_int_equal(terp_h5_write_wait(writing, &result), TERP_OK);
    assert_string_equal(result.reason, "the dataset has no chunks");
    assert_int_equal(setenv("TERP_MAX_MEMORY", "1500K", 1), 0);
    writing = begin(limited, values, true);
    assert_true(H5Dget_storage_size(limited) > 0);
    assert_int_equal(terp_h5_write_wait(writing, NULL), TERP_OK);
    assert_int_equal(unsetenv("TERP_MAX_MEMORY"), 0);
    free(values);
    free(got);
    H5Dclose(plain);
    H5Dclose(limited);
    H5Pclose(dcpl);
}

static void
bad_argument_of_a_later_write_is_told_at_once(void **state)
{
    const hsize_t offset[] = {1, 0, 0};
    uint8_t *values = make_values(&cube, H5T_IEEE_F32LE);
    hid_t dataset = create("field", H5T_IEEE_F32LE, &cube);
    struct terp_run_options run = make_options();
    struct terp_h5_writing *writing;

    (void)state;
    assert_int_equal(terp_h5_write_begin(&run, dataset, offset, NULL, NULL,
                                         values, true, &writing),
                     TERP_ERR_ARGUMENT);
    assert_null(writing);
    run.nthreads = -1;
    assert_int_equal(terp_h5_write_begin(&run, dataset, NULL, NULL, NULL,
                                         values, true, &writing),
                     TERP_ERR_ARGUMENT);
    assert_null(writing);
    free(values);
    H5Dclose(dataset);
}

/* The first write's parameters are invalid, and the second one's are not. */
static void
chunk_that_fails_is_an_error_of_its_wait(void **state)
{
    if (memory == TERP_MEMORY_DEVICE)
        return;
    const struct terp_params params = {.bound_mode = TERP_BOUND_ABSOLUTE,
                                       .bound = -1};
    uint8_t *values = make_values(&cube, H5T_IEEE_F32LE);
    hid_t dataset = create("field", H5T_IEEE_F32LE, &cube);
    const struct terp_run_options run = make_options();
    struct terp_h5_writing *writing;

    (void)state;
    assert_int_equal(terp_h5_write_begin(&run, dataset, NULL, NULL, &params,
                                         values, true, &writing),
                     TERP_OK);
    struct terp_h5_writing *second = begin(dataset, values, true);
    assert_int_equal(terp_h5_write_wait(writing, NULL), TERP_ERR_BOUND);
    assert_int_equal(H5Dget_storage_size(dataset), 0);
    assert_int_equal(terp_h5_write_wait(second, NULL), TERP_OK);
    check_read(dataset, beginning, cube.dims, cube.rank, NULL);
    free(values);
    H5Dclose(dataset);
}

/* The child can neither wait nor hang, and the parent's write is complete. */
static void
child_process_has_no_writes(void **state)
{
    if (memory == TERP_MEMORY_DEVICE)
        return;
    uint8_t *values = make_values(&cube, H5T_IEEE_F32LE);
    hid_t dataset = create("field", H5T_IEEE_F32LE, &cube);
    struct terp_h5_writing *writing = begin(dataset, values, true);
    int status;

    (void)state;
    const pid_t child = fork();
    if (child == 0)
        _exit(terp_h5_write_wait(writing, NULL) == TERP_ERR_ARGUMENT ? 0 : 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(terp_h5_write_wait(writing, NULL), TERP_OK);
    check_read(dataset, beginning, cube.dims, cube.rank, NULL);
    free(values);
    H5Dclose(dataset);
}

#define BLOCK_TEST(test) \
    cmocka_unit_test_setup_teardown(test, open_file, close_file)

/* ---- strided reads ---- */

static void
strided_values_are_those_that_hdf5_reads(void **state)
{
    static const hsize_t strides[][H5_MAX_RANK] = {
        {1, 1, 1, 1, 1}, {2, 2, 2, 2, 2},      {4, 4, 4, 4, 4},
        {8, 4, 2, 4, 8}, {1, 3, 2, 5, 4},      {16, 16, 16, 16, 16},
        {4, 1, 1, 2, 2}, {64, 64, 64, 64, 64}, {9999, 99, 98, 97, 96}};
    static const hsize_t offsets[][H5_MAX_RANK] = {
        {0}, {1, 1, 1, 1, 1}, {0, 8, 8, 4, 2}, {2, 2, 4, 0, 0}};
    static const hsize_t zeros[H5_MAX_RANK];
    const hid_t types[] = {H5T_IEEE_F32LE, H5T_IEEE_F64BE};

    (void)state;
    for (size_t s = 0; s < COUNT(shapes); s++)
        for (size_t t = 0; t < COUNT(types); t++) {
            const struct h5_shape *shape = &shapes[s];
            if (engine == TERP_ENGINE_CUDA &&
                !terp_case_is_drawn(COUNT(types) * s + t, 2))
                continue;
            uint8_t *values = make_values(shape, types[t]);
            char name[32];
            snprintf(name, sizeof name, "strided %zu %zu", s, t);
            hid_t dataset = create(name, types[t], shape);
            write_block(dataset, NULL, NULL, NULL, values,
                        nbytes_of(shape->dims, shape->rank, types[t]));
            for (size_t i = 0; i < COUNT(strides); i++)
                for (size_t o = 0; o < COUNT(offsets); o++) {
                    bool fits = true;
                    if (!terp_case_taken(engine == TERP_ENGINE_CUDA ? 2 : 1))
                        continue;
                    for (int d = 0; d < shape->rank; d++)
                        fits &= offsets[o][d] < shape->dims[d];
                    check_strided(dataset, shape, fits ? offsets[o] : zeros,
                                  strides[i]);
                    assert_null(result.reason);
                }
            free(values);
            H5Dclose(dataset);
        }
}

/* Bricks, chunks that were never written or are not streams, other datasets. */
static void
strided_values_of_any_dataset_are_read(void **state)
{
    static const hsize_t zeros[H5_MAX_RANK];
    const hsize_t stride[] = {4, 4, 4}, place[] = {8, 8, 0};
    const hsize_t raw_at[] = {16, 0, 0};
    const struct h5_shape bricks = {1, {4096}, {1024}};
    const unsigned words[] = {TERP_BOUND_ABSOLUTE, 1, 2, 3, 8, 8, 8};
    uint8_t *values = make_values(&cube, H5T_IEEE_F32LE);
    uint8_t *flat = make_values(&bricks, H5T_IEEE_F32LE);

    (void)state;
    hid_t dataset = create("holes", H5T_IEEE_F32LE, &cube);
    check_strided(dataset, &cube, zeros, stride);
    write_block(dataset, place, cube.chunk, NULL, values, 8 * 8 * 8 * 4);
    check_strided(dataset, &cube, zeros, stride);
    H5Dclose(dataset);

    dataset = create("unfiltered", H5T_IEEE_F32LE, &cube);
    write_block(dataset, place, cube.chunk, NULL, values, 8 * 8 * 8 * 4);
    assert_true(H5Dwrite_chunk(dataset, H5P_DEFAULT, 1, raw_at, 8 * 8 * 8 * 4,
                               values) >= 0);
    check_strided(dataset, &cube, zeros, stride);
    H5Dclose(dataset);

    hid_t dcpl = h5_dcpl_new(&bricks, 0, 0, NULL);
    assert_true(H5Pset_filter(dcpl, H5Z_FILTER_TERP, H5Z_FLAG_MANDATORY,
                              COUNT(words), words) >= 0);
    dataset = h5_dataset_new(file, "bricks", H5T_IEEE_F32LE, &bricks, dcpl);
    write_block(dataset, NULL, NULL, NULL, flat, 4096 * 4);
    check_strided(dataset, &bricks, zeros, stride);
    assert_null(result.reason);
    H5Dclose(dataset);
    H5Pclose(dcpl);

    dcpl = h5_dcpl_new(&cube, 0, 0, NULL);
    assert_true(H5Pset_deflate(dcpl, 1) >= 0);
    dataset = h5_dataset_new(file, "deflated", H5T_IEEE_F32LE, &cube, dcpl);
    assert_true(H5Dwrite(dataset, H5T_IEEE_F32LE, H5S_ALL, H5S_ALL, H5P_DEFAULT,
                         values) >= 0);
    check_strided(dataset, &cube, zeros, stride);
    assert_string_equal(result.reason,
                        "the dataset's first filter is not terp");
    H5Dclose(dataset);
    H5Pclose(dcpl);
    free(values);
    free(flat);
}

static void
wrong_strides_are_refused(void **state)
{
    const struct terp_run_options run = make_options();
    const hsize_t none[] = {4, 0, 4}, stride[] = {4, 4, 4}, zeros[] = {0, 0, 0};
    const hsize_t many[] = {6, 6, 6}, beyond[] = {0, 0, 23};
    uint8_t *values = make_values(&cube, H5T_IEEE_F32LE);
    hid_t dataset = create("refused", H5T_IEEE_F32LE, &cube);

    (void)state;
    assert_int_equal(
        terp_h5_read_strided(&run, dataset, zeros, none, NULL, values, &result),
        TERP_ERR_ARGUMENT);
    assert_int_equal(terp_h5_read_strided(&run, dataset, NULL, stride, many,
                                          values, &result),
                     TERP_ERR_ARGUMENT);
    assert_int_equal(terp_h5_read_strided(&run, dataset, beyond, stride, NULL,
                                          values, &result),
                     TERP_ERR_ARGUMENT);
    H5Dclose(dataset);
    free(values);
}

int
main(void)
{
    const char *where = getenv("TEST_MEMORY");
    const struct CMUnitTest tests[] = {
        BLOCK_TEST(dataset_has_the_bytes_of_h5dwrite),
        BLOCK_TEST(edge_chunks_are_padded_as_hdf5_does),
        BLOCK_TEST(chunk_may_be_larger_than_the_dataset),
        BLOCK_TEST(bricks_are_coded_as_bricks),
        BLOCK_TEST(hyperslab_is_written_where_it_belongs),
        BLOCK_TEST(params_of_the_call_replace_those_of_the_dataset),
        BLOCK_TEST(fill_value_of_the_dataset_stays_exact),
        BLOCK_TEST(chunks_that_are_no_streams_are_read_all_the_same),
        BLOCK_TEST(part_of_a_chunk_is_read_but_not_written),
        BLOCK_TEST(other_datasets_are_left_to_hdf5),
        BLOCK_TEST(dataset_without_dims_is_one_value),
        BLOCK_TEST(empty_block_is_done_at_once),
        BLOCK_TEST(damaged_stream_is_told_from_the_others),
        BLOCK_TEST(chunk_of_another_size_is_damage),
        BLOCK_TEST(wrong_arguments_are_refused),
        BLOCK_TEST(file_that_is_only_read_is_not_written),
        BLOCK_TEST(threads_share_the_limit_of_memory),
        BLOCK_TEST(later_writes_have_the_bytes_of_h5dwrite),
        BLOCK_TEST(what_cannot_be_later_is_written_at_once),
        BLOCK_TEST(bad_argument_of_a_later_write_is_told_at_once),
        BLOCK_TEST(chunk_that_fails_is_an_error_of_its_wait),
        BLOCK_TEST(child_process_has_no_writes),
        BLOCK_TEST(strided_values_are_those_that_hdf5_reads),
        BLOCK_TEST(strided_values_of_any_dataset_are_read),
        BLOCK_TEST(wrong_strides_are_refused),
    };

    if (where == NULL)
        where = "host";
    else
        engine = TERP_ENGINE_CUDA;
    if (strcmp(where, "device") == 0)
        memory = TERP_MEMORY_DEVICE;
    return cmocka_run_group_tests_name(where, tests, NULL, NULL);
}
