/* Each error is reported with its cause, and the program continues. */
#define _GNU_SOURCE /* for setenv */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "codec/format/frame.h"
#include "filter/plugin/h5z_terp.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/h5_files.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define NVALUES 1024

static const struct h5_shape shape = {1, {NVALUES}, {NVALUES}};
static const hsize_t offset[1];
static float values[NVALUES];
static hid_t file;

static int
open_file(void **state)
{
    (void)state;
    file = h5_file_new();
    for (size_t i = 0; i < NVALUES; i++)
        values[i] = (float)(i * i) / NVALUES;
    return 0;
}

static int
close_file(void **state)
{
    (void)state;
    return H5Fclose(file) < 0;
}

/* Checks that the program can still write and read a dataset. */
static void
check_program_goes_on(void)
{
    static const unsigned words[] = {1, 1, 2};
    float got[NVALUES];
    hid_t dcpl = h5_dcpl_new(&shape, 0, COUNT(words), words);
    hid_t dataset =
        h5_dataset_new(file, "good", H5T_NATIVE_FLOAT, &shape, dcpl);

    assert_true(dataset >= 0);
    h5_write(dataset, H5T_NATIVE_FLOAT, values);
    h5_read(dataset, H5T_NATIVE_FLOAT, got);
    for (size_t i = 0; i < NVALUES; i++)
        assert_true(values[i] - got[i] <= 0.01 && got[i] - values[i] <= 0.01);
    H5Dclose(dataset);
    H5Pclose(dcpl);
    assert_true(H5Ldelete(file, "good", H5P_DEFAULT) >= 0);
}

/* Checks that the reason why `dataset` cannot be read is on the error stack,
 * also where HDF5 has paused it. */
static void
check_read_says(hid_t dataset, hid_t memory, hid_t space, const char *says)
{
    float got[NVALUES];

    assert_true(H5Dread(dataset, H5T_NATIVE_FLOAT, memory, space, H5P_DEFAULT,
                        got) < 0);
    assert_true(h5_error_says(says));
    assert_true(h5_error_says("filter returned failure"));
}

static void
wrong_words_are_named_and_create_nothing(void **state)
{
    static const struct {
        size_t nwords;
        unsigned words[8];
        const char *says;
    } cases[] = {
        {3, {0, 1, 3}, "cd_values[0] (mode) names an unknown bound"},
        {3, {5, 1, 3}, "cd_values[0] (mode) names an unknown bound"},
        {3, {3, 1, 0}, "must give a number below one"},
        {3, {2 | 15 << 4, 1, 3}, "cd_values[0] (mode) names an unknown pipe"},
        {3, {2 | 15 << 8, 1, 3}, "cd_values[0] (mode) names an unknown pred"},
        {3, {2 | 15 << 12, 1, 3}, "cd_values[0] (mode) names an unknown eff"},
        {3, {2 | 1 << 25, 1, 3}, "cd_values[0] (mode) has bits"},
        {3, {2 | 3 << 20, 1, 3}, "cd_values[0] (mode) names an unknown way"},
        {3, {2, 0, 3}, "cd_values[1] and cd_values[2] (bound)"},
        {3, {1, 1, 400}, "cd_values[1] and cd_values[2] (bound)"},
        {3, {1 | TERP_CD_EXACT, 0, 0xBFF00000}, "(bound)"}, /* -1 */
        {3, {1 | TERP_CD_EXACT, 0, 0x7FF00000}, "(bound)"}, /* infinity */
        {3, {1 | TERP_CD_EXACT, 0, 0x7FF80000}, "(bound)"}, /* NaN */
        {2, {2, 1}, "at least three cd_values"},
        {4, {2, 1, 3, 4}, "number of logical dims"},
        {5, {2, 1, 3, 3, 8}, "fewer logical dims"},
        {5, {2, 1, 3, 1, 0}, "a logical dim is 0"},
        {7, {2 | TERP_CD_PERSISTED, 0, 0x3FF00000, 99}, "newer version"},
    };
    const unsigned both[] = {H5Z_FLAG_MANDATORY, H5Z_FLAG_OPTIONAL};

    (void)state;
    for (size_t i = 0; i < COUNT(cases) * COUNT(both); i++) {
        size_t c = i / COUNT(both);
        hid_t dcpl = h5_dcpl_new(&shape, both[i % COUNT(both)], cases[c].nwords,
                                 cases[c].words);
        assert_true(
            h5_dataset_new(file, "bad", H5T_NATIVE_FLOAT, &shape, dcpl) < 0);
        assert_true(h5_error_says(cases[c].says));
        assert_true(h5_error_says("H5Z-TERP"));
        assert_true(H5Lexists(file, "bad", H5P_DEFAULT) == 0);
        H5Pclose(dcpl);
    }
    check_program_goes_on();
}

static void
config_out_of_range_is_refused_at_once(void **state)
{
    static const struct H5Z_terp_config cases[] = {
        {.bound_mode = 0, .bound = 1},
        {.bound_mode = 5, .bound = 1},
        {.bound_mode = 1, .bound = 1, .pipeline = 16},
        {.bound_mode = 1, .bound = 1, .predictor = 16},
        {.bound_mode = 1, .bound = 1, .effort = H5Z_TERP_NEFFORTS},
        {.bound_mode = 1, .bound = 1, .nlogical = 4},
    };
    hid_t dcpl = h5_dcpl_new(&shape, 0, 0, NULL);

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_true(H5Pset_terp(dcpl, &cases[i]) < 0);
        assert_true(h5_error_says("out of range"));
    }
    assert_int_equal(H5Pget_nfilters(dcpl), 0);
    H5Pclose(dcpl);
}

/* Replaces the chunk of a new dataset by `stream` and reads it. */
static void
check_stream_is_refused(const void *stream, size_t nbytes, const char *says)
{
    static const unsigned words[] = {1, 1, 2};
    hid_t dcpl = h5_dcpl_new(&shape, 0, COUNT(words), words);
    hid_t dataset =
        h5_dataset_new(file, "damaged", H5T_NATIVE_FLOAT, &shape, dcpl);

    assert_true(dataset >= 0);
    assert_true(
        H5Dwrite_chunk(dataset, H5P_DEFAULT, 0, offset, nbytes, stream) >= 0);
    check_read_says(dataset, H5S_ALL, H5S_ALL, says);
    H5Dclose(dataset);
    H5Pclose(dcpl);
    assert_true(H5Ldelete(file, "damaged", H5P_DEFAULT) >= 0);
}

static unsigned char *
good_stream(const struct h5_shape *of, size_t *nbytes_ret)
{
    static const unsigned words[] = {1, 1, 2};
    bool skipped;
    hid_t dcpl = h5_dcpl_new(of, 0, COUNT(words), words);
    hid_t dataset = h5_dataset_new(file, "whole", H5T_NATIVE_FLOAT, of, dcpl);
    float *numbers = calloc((size_t)h5_shape_nvalues(of), sizeof *numbers);

    assert_non_null(numbers);
    for (size_t i = 0; i < h5_shape_nvalues(of); i++)
        numbers[i] = values[i % NVALUES];
    h5_write(dataset, H5T_NATIVE_FLOAT, numbers);
    unsigned char *stream =
        h5_chunk_bytes(dataset, offset, nbytes_ret, &skipped);
    H5Dclose(dataset);
    H5Pclose(dcpl);
    free(numbers);
    assert_true(H5Ldelete(file, "whole", H5P_DEFAULT) >= 0);
    return stream;
}

static void
damaged_streams_are_refused(void **state)
{
    size_t nbytes;
    unsigned char *stream = good_stream(&shape, &nbytes);

    (void)state;
    stream[0] ^= 1;
    check_stream_is_refused(stream, nbytes, "not a terp stream");
    stream[0] ^= 1;
    stream[4] = TERP_FORMAT_VERSION + 1;
    check_stream_is_refused(stream, nbytes, "newer version of terp");
    stream[4] = TERP_FORMAT_VERSION;
    for (size_t at = TERP_FRAME_MAX_NBYTES; at < nbytes; at += nbytes / 5) {
        stream[at] ^= 0x10;
        check_stream_is_refused(stream, nbytes, "checksum does not match");
        stream[at] ^= 0x10;
    }
    free(stream);
    check_program_goes_on();
}

static void
truncated_streams_are_refused(void **state)
{
    size_t nbytes;
    unsigned char *stream = good_stream(&shape, &nbytes);

    (void)state;
    check_stream_is_refused(stream, 3, "truncated");
    check_stream_is_refused(stream, 10, "truncated");
    check_stream_is_refused(stream, nbytes - 1, "checksum does not match");
    check_stream_is_refused(stream, nbytes / 2, "checksum does not match");
    free(stream);
    check_program_goes_on();
}

static void
stream_of_another_size_is_refused(void **state)
{
    static const struct h5_shape others[] = {{1, {2 * NVALUES}, {2 * NVALUES}},
                                             {1, {NVALUES / 2}, {NVALUES / 2}}};

    (void)state;
    for (size_t i = 0; i < COUNT(others); i++) {
        size_t nbytes;
        unsigned char *stream = good_stream(&others[i], &nbytes);
        check_stream_is_refused(stream, nbytes,
                                i == 0 ? "a chunk of 8192 bytes where 4096"
                                       : "a chunk of 2048 bytes where 4096");
        free(stream);
    }
    check_program_goes_on();
}

/* A sealed frame that announces 2^40 values costs its reader no memory. */
static void
stream_of_impossible_size_is_refused(void **state)
{
    struct terp_frame frame = {.coding = TERP_CODING_CONSTANT};
    unsigned char stream[TERP_FRAME_MAX_NBYTES + 8] = {0};

    (void)state;
    frame.chunk = (struct terp_chunk){
        .type = TERP_FLOAT32, .rank = 1, .dims = {UINT64_C(1) << 40}};
    size_t nbytes = (size_t)terp_frame_write(&frame, stream) + 4;
    terp_frame_seal(stream, nbytes);
    check_stream_is_refused(stream, nbytes, "a chunk of 4398046511104 bytes");
}

static long
peak_kbytes(void)
{
    struct rusage usage;

    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    return usage.ru_maxrss;
}

/* The dataset's cd_values and a stream of a few bytes both announce 2 GiB. */
static void
huge_chunk_costs_no_more_than_the_limit(void **state)
{
    static const hsize_t n = (hsize_t)1 << 29;
    static const unsigned words[] = {1, 1, 2};
    const struct h5_shape huge = {1, {n}, {n}};
    struct terp_frame frame = {.coding = TERP_CODING_CONSTANT,
                               .chunk = {TERP_FLOAT32, false, false, 1, {n}}};
    unsigned char stream[TERP_FRAME_MAX_NBYTES + 8] = {0};
    const hsize_t one[] = {1};
    hid_t dcpl = h5_dcpl_new(&huge, 0, COUNT(words), words);
    hid_t dataset = h5_dataset_new(file, "huge", H5T_NATIVE_FLOAT, &huge, dcpl);

    (void)state;
    size_t nbytes = (size_t)terp_frame_write(&frame, stream) + 4;
    terp_frame_seal(stream, nbytes);
    assert_true(
        H5Dwrite_chunk(dataset, H5P_DEFAULT, 0, offset, nbytes, stream) >= 0);
    hid_t space = H5Dget_space(dataset);
    hid_t memory = H5Screate_simple(1, one, NULL);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, offset, NULL, one, NULL);
    const long before = peak_kbytes();
    setenv("TERP_MAX_MEMORY", "64M", 1);
    check_read_says(dataset, memory, space,
                    "more memory than TERP_MAX_MEMORY allows");
    setenv("TERP_MAX_MEMORY", "much", 1);
    check_read_says(dataset, memory, space,
                    "more memory than TERP_MAX_MEMORY allows");
    unsetenv("TERP_MAX_MEMORY");
    assert_true(peak_kbytes() - before < 64 << 10);
    H5Sclose(memory);
    H5Sclose(space);
    H5Dclose(dataset);
    H5Pclose(dcpl);
    assert_true(H5Ldelete(file, "huge", H5P_DEFAULT) >= 0);
    check_program_goes_on();
}

/* For a chunk of 4096 bytes, HDF5's buffer takes as many and decoding some
 * more. */
static void
limit_counts_what_is_read(void **state)
{
    static const unsigned words[] = {1, 1, 2};
    float got[NVALUES];
    hid_t dcpl = h5_dcpl_new(&shape, 0, COUNT(words), words);
    hid_t dataset =
        h5_dataset_new(file, "small", H5T_NATIVE_FLOAT, &shape, dcpl);

    (void)state;
    h5_write(dataset, H5T_NATIVE_FLOAT, values);
    H5Dclose(dataset);
    for (int i = 0; i < 3; i++) {
        static const char *const limits[] = {"4K", "6000", "1M"};
        setenv("TERP_MAX_MEMORY", limits[i], 1);
        /* HDF5's cache holds no chunk of it. */
        H5Fflush(file, H5F_SCOPE_LOCAL);
        dataset = H5Dopen2(file, "small", H5P_DEFAULT);
        if (i < 2)
            check_read_says(dataset, H5S_ALL, H5S_ALL, "TERP_MAX_MEMORY");
        else
            h5_read(dataset, H5T_NATIVE_FLOAT, got);
        H5Dclose(dataset);
    }
    unsetenv("TERP_MAX_MEMORY");
    for (size_t i = 0; i < NVALUES; i++)
        assert_true(values[i] - got[i] <= 0.01 && got[i] - values[i] <= 0.01);
    H5Pclose(dcpl);
    assert_true(H5Ldelete(file, "small", H5P_DEFAULT) >= 0);
}

/* If the filter is optional, HDF5 stores the chunk unfiltered. */
static void
write_beyond_the_limit_passes_through_or_fails(void **state)
{
    static const unsigned words[] = {1, 1, 2};
    float got[NVALUES];
    bool skipped;
    size_t nbytes;

    (void)state;
    for (int optional = 0; optional < 2; optional++) {
        hid_t dcpl = h5_dcpl_new(
            &shape, optional ? H5Z_FLAG_OPTIONAL : H5Z_FLAG_MANDATORY,
            COUNT(words), words);
        hid_t dataset =
            h5_dataset_new(file, "limited", H5T_NATIVE_FLOAT, &shape, dcpl);
        setenv("TERP_MAX_MEMORY", "1K", 1);
        herr_t result = H5Dwrite(dataset, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL,
                                 H5P_DEFAULT, values);
        if (result >= 0)
            result = H5Dflush(dataset);
        assert_int_equal(result >= 0, optional);
        unsetenv("TERP_MAX_MEMORY");
        if (optional) {
            free(h5_chunk_bytes(dataset, offset, &nbytes, &skipped));
            assert_true(skipped);
            h5_read(dataset, H5T_NATIVE_FLOAT, got);
            assert_memory_equal(got, values, sizeof got);
        }
        H5Dclose(dataset);
        H5Pclose(dcpl);
        assert_true(H5Ldelete(file, "limited", H5P_DEFAULT) >= 0);
    }
    check_program_goes_on();
}

static void
damage_of_one_chunk_leaves_the_others(void **state)
{
    static const struct h5_shape two = {1, {2 * NVALUES}, {NVALUES}};
    static const unsigned words[] = {1, 1, 2};
    const hsize_t second[] = {NVALUES}, count[] = {NVALUES};
    float both[2 * NVALUES], got[NVALUES];
    hid_t dcpl = h5_dcpl_new(&two, 0, COUNT(words), words);
    hid_t dataset = h5_dataset_new(file, "two", H5T_NATIVE_FLOAT, &two, dcpl);

    (void)state;
    memcpy(both, values, sizeof values);
    memcpy(both + NVALUES, values, sizeof values);
    h5_write(dataset, H5T_NATIVE_FLOAT, both);
    assert_true(H5Dwrite_chunk(dataset, H5P_DEFAULT, 0, offset, 20,
                               "not one of our own..") >= 0);
    hid_t space = H5Dget_space(dataset);
    hid_t memory = H5Screate_simple(1, count, NULL);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, offset, NULL, count, NULL);
    check_read_says(dataset, memory, space, "not a terp stream");
    H5Sselect_hyperslab(space, H5S_SELECT_SET, second, NULL, count, NULL);
    assert_true(H5Dread(dataset, H5T_NATIVE_FLOAT, memory, space, H5P_DEFAULT,
                        got) >= 0);
    for (size_t i = 0; i < NVALUES; i++)
        assert_true(values[i] - got[i] <= 0.01 && got[i] - values[i] <= 0.01);
    H5Sclose(memory);
    H5Sclose(space);
    H5Dclose(dataset);
    H5Pclose(dcpl);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_words_are_named_and_create_nothing),
        cmocka_unit_test(config_out_of_range_is_refused_at_once),
        cmocka_unit_test(damaged_streams_are_refused),
        cmocka_unit_test(truncated_streams_are_refused),
        cmocka_unit_test(stream_of_another_size_is_refused),
        cmocka_unit_test(stream_of_impossible_size_is_refused),
        cmocka_unit_test(huge_chunk_costs_no_more_than_the_limit),
        cmocka_unit_test(limit_counts_what_is_read),
        cmocka_unit_test(write_beyond_the_limit_passes_through_or_fails),
        cmocka_unit_test(damage_of_one_chunk_leaves_the_others),
    };
    return cmocka_run_group_tests(tests, open_file, close_file);
}
