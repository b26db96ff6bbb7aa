/* Writes or reads a block while each call of HDF5, each allocation and each
 * call of the device fails in turn. The result is an error or right, nothing
 * stays open, and a file contains only earlier values and new ones. The device
 * is a fake, whose memory is host memory. */
#include <stdlib.h>
#include <string.h>

#include "codec/format/frame.h"
#include "filter/h5/batch.h"
#include "filter/h5/terp_h5.h"
#include "filter/plugin/h5z_terp.h"
#include "h5tests/engine/fake_cuda_engine.h"
#include "h5tests/support/allocations.h"
#include "h5tests/support/cases.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/fields.h"
#include "h5tests/support/h5_calls.h"
#include "h5tests/support/h5_files.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define GUARD 0x5A
#define GUARD_NBYTES 64

static struct fake_cuda *fake;

/* Chunks extend beyond the end, where the fill value pads them. */
static const struct h5_shape cube = {3, {12, 13, 14}, {8, 8, 8}};
static const struct h5_shape one_value = {0, {0}, {0}};
static const float fill = -7;

enum contents {
    FULL,  /* all chunks are streams of terp */
    HOLES, /* most chunks were never written, and one skipped the filter */
    BYTES, /* one chunk is a stream of bytes, which terp passes on */
    PLAIN, /* contiguous */
    SCALAR
};

enum way {
    WRITE,
    BEGIN, /* a write that goes on after the call */
    READ,
    STRIDED
};

static const struct scenario {
    const char *name;
    enum way way;
    enum contents contents;
    hsize_t offset[3], count[3], stride[3];
} scenarios[] = {
    {"write all", WRITE, FULL, {0}, {12, 13, 14}, {0}},
    {"write some chunks", WRITE, FULL, {8, 8, 0}, {4, 5, 14}, {0}},
    {"write without chunks", WRITE, PLAIN, {1, 2, 3}, {9, 10, 11}, {0}},
    {"write one value", WRITE, SCALAR, {0}, {0}, {0}},
    {"begin all", BEGIN, FULL, {0}, {12, 13, 14}, {0}},
    {"begin some chunks", BEGIN, FULL, {8, 8, 0}, {4, 5, 14}, {0}},
    {"begin without chunks", BEGIN, PLAIN, {1, 2, 3}, {9, 10, 11}, {0}},
    {"read all", READ, FULL, {0}, {12, 13, 14}, {0}},
    {"read holes", READ, HOLES, {0}, {12, 13, 14}, {0}},
    {"read bytes", READ, BYTES, {0}, {12, 13, 14}, {0}},
    {"read parts of chunks", READ, FULL, {1, 8, 0}, {9, 5, 8}, {0}},
    {"read without chunks", READ, PLAIN, {0}, {12, 13, 14}, {0}},
    {"read one value", READ, SCALAR, {0}, {0}, {0}},
    {"every 4th", STRIDED, FULL, {0}, {3, 4, 4}, {4, 4, 4}},
    {"every 4th of holes", STRIDED, HOLES, {0}, {3, 4, 4}, {4, 4, 4}},
    {"every 4th of bytes", STRIDED, BYTES, {0}, {3, 4, 4}, {4, 4, 4}},
    {"every 9th", STRIDED, FULL, {1, 0, 5}, {2, 1, 1}, {9, 18, 9}},
    {"every 3rd without chunks", STRIDED, PLAIN, {1}, {4, 5, 5}, {3, 3, 3}},
};

/* The engine, and the memory that holds the values. */
static const struct place {
    const char *name;
    enum terp_engine_kind engine;
    enum terp_memory memory;
} places[] = {{"cpu", TERP_ENGINE_CPU, TERP_MEMORY_HOST},
              {"cuda, host", TERP_ENGINE_CUDA, TERP_MEMORY_HOST},
              {"cuda, device", TERP_ENGINE_CUDA, TERP_MEMORY_DEVICE}};

enum fault {
    OF_HDF5,
    OF_MEMORY,
    OF_DEVICE,
    OF_DEVICE_MEMORY,
    NFAULTS
};

/* A scenario with a dataset of its own. */
struct trial {
    const struct scenario *scenario;
    const struct place *place;
    const struct h5_shape *shape;
    hid_t file, dataset;
    uint64_t nbytes;       /* of the block */
    uint64_t all_nbytes;   /* of the dataset */
    uint8_t *before;       /* values that are written first, and */
    uint8_t *old, *new;    /* the dataset's values, at first and at last */
    uint8_t *src, *want;   /* values to write, and expected values */
    uint8_t *dst, *stored; /* buffer for the block */
};

static uint8_t *
make_values(enum terp_field field)
{
    static const uint64_t dims[] = {12, 13, 14};
    const struct terp_chunk chunk = terp_case_chunk(TERP_FLOAT32, 3, dims);
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));

    terp_field_make(field, &chunk, values);
    return values;
}

static void
read_dataset(const struct trial *trial, uint8_t *values_ret)
{
    assert_true(H5Dread(trial->dataset, H5T_IEEE_F32LE, H5S_ALL, H5S_ALL,
                        H5P_DEFAULT, values_ret) >= 0);
}

static void
write_chunk_of_bytes(hid_t dataset, const uint8_t *values)
{
    static const hsize_t at[] = {0, 8, 8};
    const struct terp_chunk bytes = {
        .type = TERP_BYTES, .rank = 1, .dims = {2048}};
    const struct terp_params params = {.bound_mode = TERP_BOUND_ABSOLUTE,
                                       .bound = 1};
    uint8_t stream[2048 + TERP_MAX_FRAME_NBYTES];
    uint64_t nbytes;

    assert_int_equal(
        terp_encode(&params, &bytes, values, stream, sizeof stream, &nbytes, 1),
        TERP_OK);
    assert_true(H5Dwrite_chunk(dataset, H5P_DEFAULT, 0, at, nbytes, stream) >=
                0);
}

/* Prepares the dataset before each call. */
static void
fill_dataset(const struct trial *trial, const uint8_t *values)
{
    static const hsize_t at[] = {8, 8, 0}, raw_at[] = {0, 0, 8};
    static const hsize_t count[] = {4, 5, 8};

    if (trial->scenario->contents != HOLES) {
        h5_write(trial->dataset, H5T_IEEE_F32LE, values);
        if (trial->scenario->contents == BYTES)
            write_chunk_of_bytes(trial->dataset, values);
        return;
    }
    hid_t space = H5Dget_space(trial->dataset);
    hid_t memory = H5Screate_simple(3, count, NULL);
    assert_true(
        H5Sselect_hyperslab(space, H5S_SELECT_SET, at, NULL, count, NULL) >= 0);
    assert_true(H5Dwrite(trial->dataset, H5T_IEEE_F32LE, memory, space,
                         H5P_DEFAULT, values) >= 0);
    assert_true(H5Dwrite_chunk(trial->dataset, H5P_DEFAULT, 1, raw_at, 2048,
                               values) >= 0);
    H5Sclose(memory);
    H5Sclose(space);
}

static hid_t
create_dataset(const struct trial *trial)
{
    const enum contents contents = trial->scenario->contents;
    hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE);
    hid_t space = contents == SCALAR
                      ? H5Screate(H5S_SCALAR)
                      : H5Screate_simple(cube.rank, cube.dims, NULL);

    if (contents != PLAIN && contents != SCALAR) {
        assert_true(H5Pset_chunk(dcpl, cube.rank, cube.chunk) >= 0);
        assert_true(H5Pset_terp_abs(dcpl, 1e-2) >= 0);
    }
    assert_true(H5Pset_fill_value(dcpl, H5T_NATIVE_FLOAT, &fill) >= 0);
    hid_t dataset = H5Dcreate2(trial->file, "field", H5T_IEEE_F32LE, space,
                               H5P_DEFAULT, dcpl, H5P_DEFAULT);
    assert_true(dataset >= 0);
    H5Sclose(space);
    H5Pclose(dcpl);
    return dataset;
}

static bool
writes(const struct scenario *scenario)
{
    return scenario->way == WRITE || scenario->way == BEGIN;
}

/* Begins a write, and waits for it. */
static enum terp_status
write_later(const struct trial *trial, const struct terp_run_options *options)
{
    const struct scenario *scenario = trial->scenario;
    struct terp_h5_writing *writing;
    const enum terp_status st =
        terp_h5_write_begin(options, trial->dataset, scenario->offset,
                            scenario->count, NULL, trial->src, true, &writing);

    assert_int_equal(st == TERP_OK, writing != NULL);
    return st == TERP_OK ? terp_h5_write_wait(writing, NULL) : st;
}

static enum terp_status
move(const struct trial *trial)
{
    const struct scenario *scenario = trial->scenario;
    const struct terp_run_options options = {.size = sizeof options,
                                             .engine = trial->place->engine,
                                             .memory = trial->place->memory,
                                             .nthreads = 1};

    if (scenario->way == WRITE)
        return terp_h5_write(&options, trial->dataset, scenario->offset,
                             scenario->count, NULL, trial->src, NULL);
    if (scenario->way == BEGIN)
        return write_later(trial, &options);
    memset(trial->dst, GUARD, trial->nbytes + GUARD_NBYTES);
    return scenario->way == READ
               ? terp_h5_read(&options, trial->dataset, scenario->offset,
                              scenario->count, trial->dst, NULL)
               : terp_h5_read_strided(&options, trial->dataset,
                                      scenario->offset, scenario->stride,
                                      scenario->count, trial->dst, NULL);
}

/* Reads the scenario's values through HDF5. */
static void
read_by_hdf5(const struct trial *trial, uint8_t *values_ret)
{
    const struct scenario *scenario = trial->scenario;
    hid_t space = H5Dget_space(trial->dataset), memory = H5S_ALL;

    if (trial->shape->rank > 0) {
        memory = H5Screate_simple(3, scenario->count, NULL);
        assert_true(H5Sselect_hyperslab(
                        space, H5S_SELECT_SET, scenario->offset,
                        scenario->way == STRIDED ? scenario->stride : NULL,
                        scenario->count, NULL) >= 0);
    }
    assert_true(H5Dread(trial->dataset, H5T_IEEE_F32LE, memory,
                        memory == H5S_ALL ? H5S_ALL : space, H5P_DEFAULT,
                        values_ret) >= 0);
    if (memory != H5S_ALL)
        H5Sclose(memory);
    H5Sclose(space);
}

/* Runs the scenario without faults, to get the right results. */
static void
begin_trial(const struct scenario *scenario, const struct place *place,
            struct trial *trial)
{
    memset(trial, 0, sizeof *trial);
    trial->scenario = scenario;
    trial->place = place;
    trial->shape = scenario->contents == SCALAR ? &one_value : &cube;
    trial->file = h5_file_new();
    trial->dataset = create_dataset(trial);
    trial->nbytes = trial->all_nbytes = sizeof(float);
    for (int d = 0; d < trial->shape->rank; d++) {
        trial->nbytes *= scenario->count[d];
        trial->all_nbytes *= cube.dims[d];
    }
    trial->src = make_values(TERP_FIELD_GAPS);
    trial->before = make_values(TERP_FIELD_SMOOTH);
    trial->old = terp_case_alloc(trial->all_nbytes);
    trial->new = terp_case_alloc(trial->all_nbytes);
    trial->want = terp_case_alloc(trial->nbytes);
    trial->dst = terp_case_alloc(trial->nbytes + GUARD_NBYTES);
    trial->stored = terp_case_alloc(trial->all_nbytes);
    fill_dataset(trial, trial->before);
    read_dataset(trial, trial->old);
    assert_int_equal(move(trial), TERP_OK);
    read_by_hdf5(trial, trial->want);
    read_dataset(trial, trial->new);
    read_dataset(trial, trial->stored);
    if (writes(scenario))
        assert_memory_not_equal(trial->new, trial->old, trial->all_nbytes);
    else
        assert_memory_equal(trial->dst, trial->want, trial->nbytes);
}

static void
end_trial(struct trial *trial)
{
    uint8_t *const blocks[] = {trial->src,   trial->before, trial->old,
                               trial->new,   trial->want,   trial->dst,
                               trial->stored};

    assert_true(H5Dclose(trial->dataset) >= 0);
    assert_int_equal(H5Fget_obj_count(trial->file, H5F_OBJ_ALL), 1);
    assert_true(H5Fclose(trial->file) >= 0);
    for (size_t i = 0; i < COUNT(blocks); i++)
        free(blocks[i]);
}

/* Every value in the file is the old or the new one. */
static void
check_file(const struct trial *trial, bool is_new, const char *what)
{
    read_dataset(trial, trial->stored);
    for (uint64_t i = 0; i < trial->all_nbytes; i += sizeof(float)) {
        const uint8_t *value = trial->stored + i;
        if (memcmp(value, trial->new + i, sizeof(float)) != 0 &&
            (is_new || memcmp(value, trial->old + i, sizeof(float)) != 0))
            fail_msg("%s, %s: %s: value %llu of the file is neither",
                     trial->scenario->name, trial->place->name, what,
                     (unsigned long long)(i / sizeof(float)));
    }
}

static void
check_result(const struct trial *trial, enum terp_status st, const char *what)
{
    const bool is_write = writes(trial->scenario);

    check_file(trial, !is_write || st == TERP_OK, what);
    if (is_write)
        return;
    for (uint64_t i = 0; i < GUARD_NBYTES; i++)
        assert_int_equal(trial->dst[trial->nbytes + i], GUARD);
    if (st == TERP_OK && memcmp(trial->dst, trial->want, trial->nbytes) != 0)
        fail_msg("%s, %s: %s: other values are read", trial->scenario->name,
                 trial->place->name, what);
}

/* Runs the scenario with the n-th call failing. Returns false if there are
 * fewer calls. */
static bool
move_with_fault(struct trial *trial, enum fault fault, uint64_t n,
                uint64_t *nfailed)
{
    static const enum terp_status statuses[] = {
        TERP_ERR_HDF5, TERP_ERR_MEMORY, TERP_ERR_DEVICE, TERP_ERR_MEMORY};
    const bool of_device = fault == OF_DEVICE || fault == OF_DEVICE_MEMORY;
    char what[100];

    if (memcmp(trial->stored, trial->old, trial->all_nbytes) != 0)
        fill_dataset(trial, trial->before);
    fake->ncalls = 0;
    fake->fail_at = of_device ? (int)n + 1 : 0;
    fake->fail_status = statuses[fault];
    h5_calls_start(fault == OF_HDF5 ? n : UINT64_MAX);
    terp_allocations_start(fault == OF_MEMORY ? n : UINT64_MAX, UINT64_MAX);
    enum terp_status st = move(trial);
    const struct terp_allocations memory = terp_allocations_stop();
    const struct h5_calls calls = h5_calls_stop();
    const uint64_t ncalls = fault == OF_HDF5     ? calls.ncalls
                            : fault == OF_MEMORY ? memory.ncalls
                                                 : (uint64_t)fake->ncalls;
    fake->fail_at = 0;
    snprintf(what, sizeof what, "fault %d, call %llu (%s)", (int)fault,
             (unsigned long long)n, calls.failed == NULL ? "" : calls.failed);
    if (st != TERP_OK && (st != statuses[fault] || ncalls <= n))
        fail_msg("%s, %s: %s: status %d", trial->scenario->name,
                 trial->place->name, what, (int)st);
    if (calls.nleaked != 0 || memory.nleaked != 0 || fake->nheld != 0)
        fail_msg("%s, %s: %s: %lld ids, %lld blocks, %d of the device's leak",
                 trial->scenario->name, trial->place->name, what,
                 (long long)calls.nleaked, (long long)memory.nleaked,
                 (int)fake->nheld);
    check_result(trial, st, what);
    *nfailed += st != TERP_OK;
    return ncalls > n;
}

/* Fails each call of HDF5 and of the device. Of the allocations, most of which
 * are the codec's, fails the first ones and some others. */
static void
fail_in_turn(const struct place *place, const struct scenario *scenario)
{
    struct trial trial;

    begin_trial(scenario, place, &trial);
    for (int fault = 0; fault < NFAULTS; fault++) {
        uint64_t nfailed = 0, n = 0;
        while (move_with_fault(&trial, (enum fault)fault, n, &nfailed))
            n += fault == OF_MEMORY ? 1 + n / 8 : 1;
        /* Only HDF5 calls move blocks to and from the file. */
        if (fault == OF_HDF5)
            assert_true(nfailed > 0);
        if (fault == OF_DEVICE && place->memory == TERP_MEMORY_DEVICE)
            assert_true(n > 0 && nfailed > 0);
    }
    end_trial(&trial);
}

static void
fail_all_in_turn(const struct place *place)
{
    for (size_t i = 0; i < COUNT(scenarios); i++)
        fail_in_turn(place, &scenarios[i]);
}

static void
failure_on_the_cpu_is_an_error_or_right(void **state)
{
    (void)state;
    fail_all_in_turn(&places[0]);
}

static void
failure_with_a_device_is_an_error_or_right(void **state)
{
    (void)state;
    fail_all_in_turn(&places[1]);
}

static void
failure_in_device_memory_is_an_error_or_right(void **state)
{
    (void)state;
    fail_all_in_turn(&places[2]);
}

/* A chunk larger than any stream of terp. */
static void
chunk_that_is_too_large_is_left_to_hdf5(void **state)
{
    static const hsize_t at[] = {0, 0, 0}, stride[] = {4, 4, 4};
    const struct scenario scenario = {"large", READ,         FULL,
                                      {0},     {12, 13, 14}, {0}};
    struct trial trial;

    (void)state;
    begin_trial(&scenario, &places[0], &trial);
    assert_true(H5Dwrite_chunk(trial.dataset, H5P_DEFAULT, 0, at,
                               trial.all_nbytes, trial.src) >= 0);
    assert_int_equal(move(&trial), TERP_ERR_HDF5);
    assert_int_equal(terp_h5_read_strided(NULL, trial.dataset, NULL, stride,
                                          NULL, trial.dst, NULL),
                     TERP_ERR_HDF5);
    end_trial(&trial);
}

/* Wrong or missing arguments of a caller. */
static void
strides_without_values_or_a_run_are_told(void **state)
{
    static const hsize_t stride[] = {4, 4, 4}, none[] = {0, 3, 3};
    const struct terp_run_options wrong = {.size = sizeof wrong,
                                           .nthreads = -1};
    const struct scenario scenario = {"none", READ,         FULL,
                                      {0},    {12, 13, 14}, {0}};
    struct trial trial;

    (void)state;
    begin_trial(&scenario, &places[0], &trial);
    memset(trial.dst, GUARD, trial.nbytes);
    assert_int_equal(terp_h5_read_strided(&wrong, trial.dataset, NULL, stride,
                                          NULL, trial.dst, NULL),
                     TERP_ERR_ARGUMENT);
    assert_int_equal(terp_h5_read_strided(NULL, trial.dataset, NULL, stride,
                                          none, trial.dst, NULL),
                     TERP_OK);
    for (uint64_t i = 0; i < trial.nbytes; i++)
        assert_int_equal(trial.dst[i], GUARD);
    end_trial(&trial);
}

/* A device without memory for even one chunk. */
static void
device_without_memory_is_an_error(void **state)
{
    const struct scenario scenario = {"all", READ,         FULL,
                                      {0},   {12, 13, 14}, {0}};
    struct trial trial;

    (void)state;
    begin_trial(&scenario, &places[2], &trial);
    fake->allocates_nothing = true;
    enum terp_status st = move(&trial);
    fake->allocates_nothing = false;
    assert_int_equal(st, TERP_ERR_MEMORY);
    assert_int_equal(fake->nheld, 0);
    assert_int_equal(move(&trial), TERP_OK);
    end_trial(&trial);
}

/* The number of chunks in a batch is the caller's, or as many as fit in
 * memory. */
static void
batch_has_room_for_what_is_asked(void **state)
{
    struct terp_h5_block block = {
        .cd.chunk = {.type = TERP_FLOAT32, .rank = 1, .dims = {64}}};
    struct terp_h5_batch batch;
    struct terp_run run;

    (void)state;
    block.array.rank = 1;
    block.array.value_nbytes = 4;
    block.array.chunk[0] = 64;
    block.array.dims[0] = 640;
    assert_int_equal(terp_run_begin(NULL, NULL, &run), TERP_OK);
    assert_int_equal(
        terp_h5_batch_make(&run, &block, UINT64_MAX, UINT64_MAX, &batch),
        TERP_OK);
    assert_int_equal(batch.cap_nchunks, 10);
    terp_h5_batch_free(&batch);
    assert_int_equal(terp_h5_batch_make(&run, &block, 10, UINT64_MAX, &batch),
                     TERP_OK);
    assert_int_equal(batch.cap_nchunks, 1);
    terp_h5_batch_free(&batch);
    block.array.dims[0] = UINT64_MAX / 2;
    terp_allocations_start(UINT64_MAX, 1 << 16);
    enum terp_status st =
        terp_h5_batch_make(&run, &block, UINT64_MAX, 1, &batch);
    terp_h5_batch_free(&batch);
    assert_int_equal(terp_allocations_stop().nleaked, 0);
    assert_int_equal(st, TERP_OK);
    assert_in_range(batch.cap_nchunks, 1, 1 << 10);
    (void)terp_run_end(&run, TERP_OK, NULL);
}

static int
open_fake(void **state)
{
    (void)state;
    fake = fake_cuda_take(getenv("TERP_CUDA_LIBRARY"));
    return fake == NULL;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failure_on_the_cpu_is_an_error_or_right),
        cmocka_unit_test(failure_with_a_device_is_an_error_or_right),
        cmocka_unit_test(failure_in_device_memory_is_an_error_or_right),
        cmocka_unit_test(chunk_that_is_too_large_is_left_to_hdf5),
        cmocka_unit_test(strides_without_values_or_a_run_are_told),
        cmocka_unit_test(device_without_memory_is_an_error),
        cmocka_unit_test(batch_has_room_for_what_is_asked),
    };

    return cmocka_run_group_tests(tests, open_fake, NULL);
}
