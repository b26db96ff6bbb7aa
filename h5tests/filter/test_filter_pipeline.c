#define _POSIX_C_SOURCE 200809L /* for fileno and dup */
/* Other filters before and behind terp: the plugin removes them, reports them
 * or refuses them. Datasets that are written can be read. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "filter/plugin/h5z_terp.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/h5_files.h"
#include "h5tests/support/stderr_text.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define MAX_NFILTERS 4
#define BOUND 1e-2

static const struct h5_shape shape = {2, {50, 40}, {20, 40}};
#define NVALUES (50 * 40)

enum {
    SHUFFLE = H5Z_FILTER_SHUFFLE,
    DEFLATE = H5Z_FILTER_DEFLATE,
    SUM = H5Z_FILTER_FLETCHER32,
    NBIT = H5Z_FILTER_NBIT,
    SCALE = H5Z_FILTER_SCALEOFFSET,
    TERP = H5Z_FILTER_TERP
};

static hid_t
make_dcpl(const int *filters, unsigned flags)
{
    static const unsigned words[] = {H5Z_TERP_ABSOLUTE, 1, 2};
    hid_t dcpl = h5_dcpl_new(&shape, 0, 0, NULL);

    for (int i = 0; i < MAX_NFILTERS && filters[i] != 0; i++) {
        herr_t result =
            filters[i] == SHUFFLE   ? H5Pset_shuffle(dcpl)
            : filters[i] == DEFLATE ? H5Pset_deflate(dcpl, 1)
            : filters[i] == SUM     ? H5Pset_fletcher32(dcpl)
            : filters[i] == NBIT    ? H5Pset_nbit(dcpl)
            : filters[i] == SCALE
                ? H5Pset_scaleoffset(dcpl, H5Z_SO_FLOAT_DSCALE, 3)
                : H5Pset_filter(dcpl, TERP, flags, COUNT(words), words);
        assert_true(result >= 0);
    }
    return dcpl;
}

static void
check_filters(hid_t dataset, const int *filters)
{
    hid_t dcpl = H5Dget_create_plist(dataset);
    unsigned flags, config, size = 0;
    int n = 0;

    while (n < MAX_NFILTERS && filters[n] != 0)
        n++;
    assert_int_equal(H5Pget_nfilters(dcpl), n);
    for (int i = 0; i < n; i++) {
        size_t nwords = 1;
        assert_int_equal(H5Pget_filter2(dcpl, (unsigned)i, &flags, &nwords,
                                        &size, 0, NULL, &config),
                         filters[i]);
        /* A filter before terp that does nothing stays. */
        if (i == 0 && filters[i] == SHUFFLE && filters[1] == TERP)
            assert_int_equal(size, 1);
    }
    H5Pclose(dcpl);
}

static void
make_values(float *values)
{
    for (int i = 0; i < NVALUES; i++)
        values[i] = (float)(i / 40) / 7 + (float)(i % 40) / 3;
}

/* Writes values and reads them again from the file. */
static void
check_values(hid_t file, const char *name, bool is_coded)
{
    float want[NVALUES], got[NVALUES];
    hid_t dataset = H5Dopen2(file, name, H5P_DEFAULT);

    make_values(want);
    h5_write(dataset, H5T_NATIVE_FLOAT, want);
    assert_true(H5Dclose(dataset) >= 0);
    dataset = H5Dopen2(file, name, H5P_DEFAULT);
    h5_read(dataset, H5T_NATIVE_FLOAT, got);
    for (int i = 0; i < NVALUES; i++)
        assert_true(fabs((double)want[i] - (double)got[i]) <= BOUND);
    if (is_coded)
        assert_true(H5Dget_storage_size(dataset) < sizeof want / 2);
    assert_true(H5Dclose(dataset) >= 0);
}

static void
filters_before_terp_do_not_mix_values(void **state)
{
    static const struct {
        int given[MAX_NFILTERS], made[MAX_NFILTERS];
    } cases[] = {
        {{TERP}, {TERP}},
        {{SHUFFLE, TERP}, {TERP}},
        {{SHUFFLE, SHUFFLE, TERP}, {TERP}},
        {{SUM, TERP}, {TERP, SUM}},
        {{SHUFFLE, SUM, TERP}, {TERP, SUM}},
        {{SUM, SHUFFLE, TERP}, {TERP, SUM}},
        {{SHUFFLE, TERP, SUM}, {SHUFFLE, TERP, SUM}},
        {{SHUFFLE, TERP, DEFLATE, SUM}, {SHUFFLE, TERP, DEFLATE, SUM}},
        {{TERP, SHUFFLE, DEFLATE, SUM}, {TERP, SHUFFLE, DEFLATE, SUM}},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        for (unsigned flags = 0; flags < 2; flags++) {
            struct terp_cd cd;
            hid_t file = h5_file_new(), dcpl = make_dcpl(cases[i].given, flags);
            hid_t dataset =
                h5_dataset_new(file, "x", H5T_IEEE_F32LE, &shape, dcpl);
            assert_true(dataset >= 0);
            check_filters(dataset, cases[i].made);
            h5_dataset_cd(dataset, &cd);
            assert_int_equal(cd.pass, TERP_PASS_NONE);
            H5Dclose(dataset);
            check_values(file, "x", true);
            /* The program's own property list has not changed and can be used
             * again. */
            dataset = h5_dataset_new(file, "y", H5T_IEEE_F64BE, &shape, dcpl);
            check_filters(dataset, cases[i].made);
            H5Dclose(dataset);
            check_values(file, "y", true);
            H5Pclose(dcpl);
            assert_true(H5Fclose(file) >= 0);
        }
}

/* Other types may be shuffled, because terp only passes their bytes on. */
static void
filters_before_terp_stay_where_it_codes_nothing(void **state)
{
    static const int given[MAX_NFILTERS] = {SHUFFLE, TERP};
    uint32_t want[NVALUES], got[NVALUES];
    struct terp_cd cd;
    hid_t file = h5_file_new(), dcpl = make_dcpl(given, H5Z_FLAG_MANDATORY);
    unsigned flags, config, size = 0;
    size_t nwords = 1;

    (void)state;
    for (uint32_t i = 0; i < NVALUES; i++)
        want[i] = 77 * i;
    hid_t dataset = h5_dataset_new(file, "x", H5T_STD_B32LE, &shape, dcpl);
    h5_dataset_cd(dataset, &cd);
    assert_int_equal(cd.pass, TERP_PASS_NOT_NUMBER);
    hid_t made = H5Dget_create_plist(dataset);
    assert_int_equal(
        H5Pget_filter2(made, 0, &flags, &nwords, &size, 0, NULL, &config),
        SHUFFLE);
    assert_int_equal(size, 4);
    h5_write(dataset, H5T_STD_B32LE, want);
    h5_read(dataset, H5T_STD_B32LE, got);
    assert_memory_equal(got, want, sizeof want);
    H5Pclose(made);
    H5Dclose(dataset);
    H5Pclose(dcpl);
    H5Fclose(file);
}

/* Creates datasets with two property lists. Returns the printed messages. */
static void
create_twice(hid_t file, const int *filters, unsigned flags, bool is_refused,
             char *text, size_t text_cap_nbytes)
{
    FILE *said;
    const int kept = redirect_stderr(&said);

    for (int i = 0; i < 2; i++) {
        hid_t dcpl = make_dcpl(filters, flags), dataset;
        H5E_BEGIN_TRY
        {
            dataset = h5_dataset_new(file, i == 0 ? "x" : "y", H5T_IEEE_F32LE,
                                     &shape, dcpl);
        }
        H5E_END_TRY
        assert_int_equal(dataset < 0, is_refused);
        if (dataset >= 0)
            H5Dclose(dataset);
        H5Pclose(dcpl);
    }
    restore_stderr(kept, said, text, text_cap_nbytes);
}

/* Bytes behind deflate are not numbers, so a bound would have no meaning. */
static void
other_filters_before_terp_are_told_once(void **state)
{
    static const int cases[][MAX_NFILTERS] = {
        {DEFLATE, TERP}, {SHUFFLE, DEFLATE, TERP}, {SUM, TERP, DEFLATE}};
    char text[600];
    int nsaid = 0;

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        for (unsigned flags = 0; flags < 2; flags++) {
            hid_t file = h5_file_new();
            struct terp_cd cd;
            create_twice(file, cases[i], flags, false, text, sizeof text);
            const char *said = strstr(text, "comes before it");
            if (said != NULL) {
                nsaid++;
                assert_non_null(strstr(text, "deflate"));
                assert_null(strstr(said + 1, "comes before it"));
            } else {
                assert_string_equal(text, "");
            }
            hid_t dataset = H5Dopen2(file, "x", H5P_DEFAULT);
            check_filters(dataset, cases[i]);
            h5_dataset_cd(dataset, &cd);
            assert_int_equal(cd.pass, TERP_PASS_NOT_FIRST);
            H5Dclose(dataset);
            check_values(file, "x", false);
            H5Fclose(file);
        }
    assert_int_equal(nsaid, 1);
}

/* These filters need numbers, so a dataset with them could never be read. */
static void
filters_that_spoil_streams_are_refused_or_told(void **state)
{
    static const int cases[][MAX_NFILTERS] = {
        {TERP, NBIT}, {TERP, SCALE}, {TERP, DEFLATE, SCALE}, {TERP, TERP}};
    char text[600];

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        hid_t file = h5_file_new();
        struct terp_cd cd;
        create_twice(file, cases[i], H5Z_FLAG_MANDATORY, true, text,
                     sizeof text);
        if (i == 0)
            assert_non_null(strstr(text, "nbit comes after terp"));
        create_twice(file, cases[i], H5Z_FLAG_OPTIONAL, false, text,
                     sizeof text);
        if (i == 0)
            assert_non_null(strstr(text, "nbit comes after it"));
        else
            assert_string_equal(text, "");
        hid_t dataset = H5Dopen2(file, "x", H5P_DEFAULT);
        check_filters(dataset, cases[i]);
        h5_dataset_cd(dataset, &cd);
        assert_int_equal(cd.pass, TERP_PASS_BEHIND);
        H5Dclose(dataset);
        /* HDF5's scaleoffset reads beyond the end of deflate's output. */
        if (cases[i][1] != DEFLATE)
            check_values(file, "x", false);
        H5Fclose(file);
    }
}

/* As with h5py's compression=46117, and with programs that lose the
 * parameters. */
static void
no_parameters_are_lossless(void **state)
{
    float want[NVALUES], got[NVALUES];
    struct terp_cd cd;
    hid_t file = h5_file_new(), dcpl = h5_dcpl_new(&shape, 0, 0, NULL);

    (void)state;
    make_values(want);
    want[7] = (float)NAN;
    want[8] = -0.f;
    assert_true(H5Pset_filter(dcpl, TERP, H5Z_FLAG_MANDATORY, 0, NULL) >= 0);
    hid_t dataset = h5_dataset_new(file, "x", H5T_IEEE_F32LE, &shape, dcpl);
    h5_dataset_cd(dataset, &cd);
    assert_int_equal(cd.params.bound_mode, TERP_BOUND_ABSOLUTE);
    assert_true(cd.params.bound == 0);
    h5_write(dataset, H5T_NATIVE_FLOAT, want);
    assert_true(H5Dclose(dataset) >= 0);
    dataset = H5Dopen2(file, "x", H5P_DEFAULT);
    h5_read(dataset, H5T_NATIVE_FLOAT, got);
    assert_memory_equal(got, want, sizeof want);
    assert_true(H5Dget_storage_size(dataset) < sizeof want);
    H5Dclose(dataset);
    H5Pclose(dcpl);
    H5Fclose(file);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(filters_before_terp_do_not_mix_values),
        cmocka_unit_test(filters_before_terp_stay_where_it_codes_nothing),
        cmocka_unit_test(other_filters_before_terp_are_told_once),
        cmocka_unit_test(filters_that_spoil_streams_are_refused_or_told),
        cmocka_unit_test(no_parameters_are_lossless),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
