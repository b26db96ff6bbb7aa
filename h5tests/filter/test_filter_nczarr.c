/* The codec for NCZarr, with functions of a netCDF that only this program has.
 * TEST_PLUGIN and TEST_CONNECTOR name the libraries. h5tests/python/
 * test_nczarr.py tests the codec with netCDF itself. */
#define _GNU_SOURCE /* for dup2 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "codec/api/cd_values.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/stderr_text.h"

/* NCZ_codec_t of netcdf_filter_build.h. */
struct codec {
    int version, sort;
    const char *id;
    unsigned filter;
    void (*initialize)(void);
    void (*finalize)(void);
    int (*read_json)(const char *, size_t *, unsigned **);
    int (*write_json)(size_t, const unsigned *, char **);
    int (*modify)(int, int, size_t *, unsigned **, size_t *, unsigned **);
};
static const struct codec *codec;
enum {
    FILTER_ERROR = -132
};

/* ---- a netCDF with one variable ---- */

static struct {
    int type, rank, layout, order, has_no_fill;
    size_t sizes[6];
    unsigned char fill[8];
    bool has_missing;
    int missing_type;
    size_t missing_length;
    double missing;
    int failing; /* the call that fails, from 1 on */
    int ncalls;
} fake;

/* The codec finds the functions by their names. */
#pragma GCC visibility push(default)

static int
end_call(void)
{
    return ++fake.ncalls == fake.failing ? -33 : 0;
}

int
nc_inq_var(int ncid, int varid, char *name, int *type, int *rank, int *dims,
           int *natts);
int
nc_inq_var(int ncid, int varid, char *name, int *type, int *rank, int *dims,
           int *natts)
{
    assert_int_equal(ncid, 7);
    assert_int_equal(varid, 3);
    (void)name, (void)dims, (void)natts;
    *type = fake.type;
    *rank = fake.rank;
    return end_call();
}

int
nc_inq_var_chunking(int ncid, int varid, int *layout, size_t *sizes);
int
nc_inq_var_chunking(int ncid, int varid, int *layout, size_t *sizes)
{
    (void)ncid, (void)varid;
    *layout = fake.layout;
    memcpy(sizes, fake.sizes, (size_t)fake.rank * sizeof *sizes);
    return end_call();
}

int
nc_inq_var_endian(int ncid, int varid, int *order);
int
nc_inq_var_endian(int ncid, int varid, int *order)
{
    (void)ncid, (void)varid;
    *order = fake.order;
    return end_call();
}

int
nc_inq_var_fill(int ncid, int varid, int *has_no_fill, void *fill);
int
nc_inq_var_fill(int ncid, int varid, int *has_no_fill, void *fill)
{
    (void)ncid, (void)varid;
    *has_no_fill = fake.has_no_fill;
    if (!fake.has_no_fill)
        memcpy(fill, fake.fill, sizeof fake.fill);
    return end_call();
}

int
nc_inq_att(int ncid, int varid, const char *name, int *type, size_t *length);
int
nc_inq_att(int ncid, int varid, const char *name, int *type, size_t *length)
{
    (void)ncid, (void)varid;
    assert_string_equal(name, "missing_value");
    *type = fake.missing_type;
    *length = fake.missing_length;
    return fake.has_missing ? 0 : -43;
}

int
nc_get_att_double(int ncid, int varid, const char *name, double *value);
int
nc_get_att_double(int ncid, int varid, const char *name, double *value)
{
    (void)ncid, (void)varid, (void)name;
    *value = fake.missing;
    return 0;
}

static void
make_variable(int type, int rank)
{
    memset(&fake, 0, sizeof fake);
    fake.type = type;
    fake.rank = rank;
    fake.order = 1;
    fake.has_no_fill = 1;
    for (int i = 0; i < rank; i++)
        fake.sizes[i] = (size_t)i + 2;
}

#pragma GCC visibility pop

/* ---- helpers ---- */

static const unsigned relative[] = {2, 1, 3};

/* What the filter gets for the variable. */
static int
describe(size_t nwords, const unsigned *words, struct terp_cd *cd_ret)
{
    unsigned *visible = malloc((nwords + 1) * sizeof *words);
    unsigned *working = malloc(1); /* netCDF may pass old parameters */
    size_t nvisible = nwords, nworking = 0;

    *cd_ret = (struct terp_cd){.pass = TERP_PASS_NONE};
    assert_non_null(visible);
    memcpy(visible, words, nwords * sizeof *words);
    const int result =
        codec->modify(7, 3, &nvisible, &visible, &nworking, &working);
    assert_int_equal(nvisible, nwords);
    assert_memory_equal(visible, words, nwords * sizeof *words);
    if (result == 0) {
        assert_int_equal(terp_cd_parse(nworking, working, cd_ret, NULL),
                         TERP_OK);
        assert_true(cd_ret->persisted);
        /* The number of the variable is not a version of the format. */
        assert_int_equal(cd_ret->params.format,
                         *words & TERP_CD_FORMAT_1 ? 1 : 0);
    }
    free(visible);
    free(working);
    return result;
}

/* ---- tests ---- */

static void
types_and_chunks_are_those_of_the_variable(void **state)
{
    static const int types[] = {
        -1,           TERP_INT8,    -1,         TERP_INT16,  TERP_INT32,
        TERP_FLOAT32, TERP_FLOAT64, TERP_UINT8, TERP_UINT16, TERP_UINT32,
        TERP_INT64,   TERP_UINT64,  -1,         -1};
    struct terp_cd cd;

    (void)state;
    for (int type = 0; type < (int)(sizeof types / sizeof *types); type++)
        for (int order = 0; order <= 2; order++) {
            make_variable(type, 3);
            fake.order = order;
            assert_int_equal(describe(3, relative, &cd), 0);
            if (types[type] < 0) {
                assert_int_equal(cd.pass, TERP_PASS_NOT_NUMBER);
                continue;
            }
            assert_int_equal(cd.pass, TERP_PASS_NONE);
            assert_int_equal(cd.chunk.type, types[type]);
            assert_int_equal(cd.chunk.big_endian,
                             order == 2 && type != 1 && type != 7);
            assert_int_equal(cd.chunk.rank, 3);
            assert_int_equal(cd.chunk.dims[2], 4);
            assert_int_equal(cd.params.bound_mode, TERP_BOUND_RELATIVE);
            assert_true(cd.params.bound == 1e-3);
            assert_false(cd.params.has_fill);
        }
}

static void
variables_without_chunks_pass_through(void **state)
{
    struct terp_cd cd;

    (void)state;
    make_variable(5, 0);
    assert_int_equal(describe(3, relative, &cd), 0);
    assert_int_equal(cd.pass, TERP_PASS_UNKNOWN_LAYOUT);
    make_variable(5, 2);
    fake.layout = 1;
    assert_int_equal(describe(3, relative, &cd), 0);
    assert_int_equal(cd.pass, TERP_PASS_UNKNOWN_LAYOUT);
}

/* The words of an HDF5 dataset describe that dataset. */
static void
stored_words_are_replaced(void **state)
{
    unsigned words[TERP_CD_MAX_NWORDS];
    struct terp_cd cd;

    (void)state;
    make_variable(6, 2);
    assert_int_equal(terp_cd_parse(3, relative, &cd, NULL), TERP_OK);
    cd.pass = TERP_PASS_NOT_FIRST;
    cd.params.has_fill = true;
    cd.params.fill_bits = 5;
    const size_t n = terp_cd_persist(&cd, words);
    assert_int_equal(describe(n, words, &cd), 0);
    assert_int_equal(cd.pass, TERP_PASS_NONE);
    assert_int_equal(cd.chunk.type, TERP_FLOAT64);
    assert_false(cd.params.has_fill);
}

static void
fill_values_other_than_zero_count(void **state)
{
    const float fill = -7.5f;
    uint32_t bits;
    struct terp_cd cd;

    (void)state;
    memcpy(&bits, &fill, sizeof bits);
    make_variable(5, 2);
    fake.has_no_fill = 0;
    memcpy(fake.fill, &fill, sizeof fill);
    fake.fill[5] = 9; /* behind the value */
    assert_int_equal(describe(3, relative, &cd), 0);
    assert_true(cd.params.has_fill);
    assert_true(cd.params.fill_bits == bits);
    memset(fake.fill, 0, 4);
    assert_int_equal(describe(3, relative, &cd), 0);
    assert_false(cd.params.has_fill);
}

static void
missing_values_are_given_or_those_of_the_attribute(void **state)
{
    /* a relative bound, and the missing value -9999 */
    const unsigned words[] = {2 + 262144, 1, 3, 4294957297, 0};
    struct terp_cd cd;

    (void)state;
    make_variable(5, 2);
    for (int i = 0; i < 5; i++) {
        const bool counts = i >= 3;
        fake.has_missing = i != 0;
        fake.missing_type = i == 1 ? 2 : i == 3 ? 6 : 5;
        fake.missing_length = i == 2 ? 2 : 1;
        fake.missing = i == 4 ? -999 : 5;
        assert_int_equal(describe(5, words, &cd), 0);
        assert_true(cd.has_missing && cd.missing == -9999);
        assert_int_equal(describe(3, relative, &cd), 0);
        assert_int_equal(cd.has_missing, counts);
        assert_true(!counts || cd.missing == fake.missing);
    }
}

/* Each variable has another number behind the words. */
static void
versions_of_the_format_are_given(void **state)
{
    const unsigned words[] = {2 + 4194304, 1, 3};
    struct terp_cd cd;

    (void)state;
    make_variable(5, 2);
    for (int i = 0; i < 3; i++)
        assert_int_equal(describe(3, words, &cd), 0);
}

static void
errors_of_netcdf_are_passed_on(void **state)
{
    struct terp_cd cd;

    (void)state;
    for (int i = 1; i <= 4; i++) {
        make_variable(5, 2);
        fake.failing = i;
        assert_int_equal(describe(3, relative, &cd), -33);
    }
    assert_int_equal(describe(2, relative, &cd), FILTER_ERROR);
}

/* JSON, and the JSON that its words give; NULL: the same. */
static void
check_json(const char *json, const char *expected)
{
    unsigned *words = NULL;
    size_t nwords;
    char *written;

    assert_int_equal(codec->read_json(json, &nwords, &words), 0);
    assert_int_equal(codec->write_json(nwords, words, &written), 0);
    assert_string_equal(written, expected == NULL ? json : expected);
    free(words);
    free(written);
}

static void
json_survives(void **state)
{
    static const char *const same[] = {
        "{\"id\": \"terp\", \"abs\": 0.001}",
        "{\"id\": \"terp\", \"abs\": 5e-324}",
        "{\"id\": \"terp\", \"abs\": 1.7976931348623157e+308}",
        "{\"id\": \"terp\", \"abs\": 1e+16}",
        "{\"id\": \"terp\", \"abs\": 9999999999999998.0}",
        "{\"id\": \"terp\", \"abs\": 0.1}",
        "{\"id\": \"terp\", \"rel\": 0.30000000000000004}",
        "{\"id\": \"terp\", \"pwr\": 1e-05}",
        "{\"id\": \"terp\", \"psnr\": 60.0}",
        "{\"id\": \"terp\", \"lossless\": true}",
        ("{\"id\": \"terp\", \"pwr\": 0.001, \"floor\": 1e-300, "
         "\"keep_sign\": \"chunk\", \"valid_range\": "
         "[-1.7976931348623157e+308, "
         "null], \"missing\": -9999.0, \"pipeline\": \"huffman\", "
         "\"predictor\": \"lorenzo\", \"effort\": \"default\", "
         "\"dims\": [1, 4294967295, 3], \"format\": 1}"),
    };

    (void)state;
    for (size_t i = 0; i + 1 < sizeof same / sizeof *same; i++)
        check_json(same[i], NULL);
    check_json(same[sizeof same / sizeof *same - 1],
               "{\"id\": \"terp\", \"pwr\": 0.001, \"floor\": 1e-300, "
               "\"keep_sign\": \"chunk\", \"valid_range\": "
               "[-1.7976931348623157e+308, null], \"missing\": -9999.0, "
               "\"pipeline\": \"huffman\", \"predictor\": \"lorenzo\", "
               "\"dims\": [1, 4294967295, 3], \"format\": 1}");
    check_json(" {\t\"abs\"\n:1E+0 ,\"id\":\"terp\"\r} ",
               "{\"id\": \"terp\", \"abs\": 1.0}");
    check_json("{\"rel\":null,\"abs\":-0,\"lossless\":false,\"floor\":null,"
               "\"valid_range\":null,\"missing\":null,\"dims\":[],"
               "\"format\":null,\"id\":\"terp\"}",
               "{\"id\": \"terp\", \"lossless\": true}");
    check_json("{\"id\":\"terp\",\"abs\":1,\"valid_range\":[null,null]}",
               "{\"id\": \"terp\", \"abs\": 1.0}");
    check_json("{\"id\":\"terp\"}", "{\"id\": \"terp\", \"lossless\": true}");
}

static void
wrong_json_is_refused(void **state)
{
    static const char *const wrong[] = {
        "",
        "{",
        "{}",
        "[]",
        "{\"id\":\"terp\"",
        "{\"id\":\"terp\",}",
        "{\"id\":\"terp\"} x",
        "{\"id\":\"terpx\",\"abs\":1}",
        "{\"abs\":1}",
        "{\"id\":1}",
        "{\"id\":\"terp\",\"abs\":01}",
        "{\"id\":\"terp\",\"abs\":.5}",
        "{\"id\":\"terp\",\"abs\":1.}",
        "{\"id\":\"terp\",\"abs\":0x1}",
        "{\"id\":\"terp\",\"abs\":+1}",
        "{\"id\":\"terp\",\"abs\":1e}",
        "{\"id\":\"terp\",\"abs\":1e400}",
        "{\"id\":\"terp\",\"abs\":NaN}",
        "{\"id\":\"terp\",\"abs\":-1}",
        "{\"id\":\"terp\",\"abs\":true}",
        "{\"id\":\"terp\",\"abs\":[1]}",
        "{\"id\":\"terp\",\"rel\":0}",
        "{\"id\":\"terp\",\"pwr\":1}",
        "{\"id\":\"terp\",\"abs\":1,\"psnr\":1}",
        "{\"id\":\"terp\",\"abs\":1,\"lossless\":true}",
        "{\"id\":\"terp\",\"rel\":1,\"floor\":1}",
        "{\"id\":\"terp\",\"pwr\":0.1,\"floor\":-1}",
        "{\"id\":\"terp\",\"pwr\":0.1,\"floor\":\"1\"}",
        "{\"id\":\"terp\",\"abs\":1,\"valid_range\":[1]}",
        "{\"id\":\"terp\",\"abs\":1,\"valid_range\":[2,1]}",
        "{\"id\":\"terp\",\"abs\":1,\"valid_range\":[1,2,3]}",
        "{\"id\":\"terp\",\"abs\":1,\"valid_range\":1}",
        "{\"id\":\"terp\",\"abs\":1,\"keep_sign\":\"no\"}",
        "{\"id\":\"terp\",\"abs\":1,\"keep_sign\":1}",
        "{\"id\":\"terp\",\"abs\":1,\"pipeline\":\"\"}",
        "{\"id\":\"terp\",\"abs\":1,\"predictor\":\"splines\"}",
        "{\"id\":\"terp\",\"abs\":1,\"effort\":\"best and a long tail\"}",
        "{\"id\":\"terp\",\"abs\":1,\"effort\":\"\\u0062est\"}",
        "{\"id\":\"terp\",\"abs\":1,\"effort\":\"best\\",
        "{\"id\":\"terp\",\"abs\":1,\"effort\":\"be\nst\"}",
        "{\"id\":\"terp\",\"abs\":1,\"dims\":[0]}",
        "{\"id\":\"terp\",\"abs\":1,\"dims\":[1.5]}",
        "{\"id\":\"terp\",\"abs\":1,\"dims\":[null]}",
        "{\"id\":\"terp\",\"abs\":1,\"dims\":[4294967296]}",
        "{\"id\":\"terp\",\"abs\":1,\"dims\":[1,2,3,4]}",
        "{\"id\":\"terp\",\"abs\":1,\"dims\":[1 2]}",
        "{\"id\":\"terp\",\"abs\":1,\"dims\":{}}",
        "{\"id\":\"terp\",\"abs\":1,\"missing\":\"x\"}",
        "{\"id\":\"terp\",\"abs\":1,\"missing\":NaN}",
        "{\"id\":\"terp\",\"abs\":1,\"format\":2}",
        "{\"id\":\"terp\",\"abs\":1,\"format\":true}",
        "{\"id\":\"terp\",\"abs\":1,\"more\":1}"};
    unsigned *words;
    size_t nwords;
    char text[4096];
    FILE *file;

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const int kept = redirect_stderr(&file);
        const int result = codec->read_json(wrong[i], &nwords, &words);
        restore_stderr(kept, file, text, sizeof text);
        if (result != FILTER_ERROR)
            fail_msg("accepted: %s", wrong[i]);
        assert_null(words);
        assert_non_null(strstr(text, "H5Z-TERP: NCZarr: the configuration"));
    }
}

static void
reasons_can_be_switched_off(void **state)
{
    unsigned *words;
    size_t nwords;
    char text[4096];
    FILE *file;

    (void)state;
    setenv("TERP_VERBOSE", "0", 1);
    const int kept = redirect_stderr(&file);
    assert_int_equal(codec->read_json("{}", &nwords, &words), FILTER_ERROR);
    restore_stderr(kept, file, text, sizeof text);
    unsetenv("TERP_VERBOSE");
    assert_string_equal(text, "");
}

static void
wrong_words_are_refused(void **state)
{
    const unsigned wrong[] = {9, 1, 3};
    char *json;

    (void)state;
    assert_int_equal(codec->write_json(3, wrong, &json), FILTER_ERROR);
    assert_null(json);
    assert_int_equal(codec->write_json(0, NULL, &json), 0);
    assert_string_equal(json, "{\"id\": \"terp\", \"lossless\": true}");
    free(json);
}

static const void *
call(const char *library, const char *name)
{
    const void *(*function)(void);
    const char *path = getenv(library);
    void *handle = path == NULL ? NULL : dlopen(path, RTLD_LAZY);

    assert_non_null(handle);
    void *symbol = dlsym(handle, name);
    assert_non_null(symbol);
    memcpy(&function, &symbol, sizeof symbol);
    return function();
}

static void
both_libraries_describe_the_codec(void **state)
{
    const struct codec *const *list =
        call("TEST_CONNECTOR", "NCZ_codec_info_defaults");

    (void)state;
    assert_non_null(list[0]);
    assert_null(list[1]);
    for (int i = 0; i < 2; i++) {
        const struct codec *found = i == 0 ? codec : list[0];
        assert_int_equal(found->version, 1);
        assert_int_equal(found->sort, 1);
        assert_int_equal(found->filter, 46117);
        assert_string_equal(found->id, "terp");
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types_and_chunks_are_those_of_the_variable),
        cmocka_unit_test(variables_without_chunks_pass_through),
        cmocka_unit_test(stored_words_are_replaced),
        cmocka_unit_test(fill_values_other_than_zero_count),
        cmocka_unit_test(missing_values_are_given_or_those_of_the_attribute),
        cmocka_unit_test(versions_of_the_format_are_given),
        cmocka_unit_test(errors_of_netcdf_are_passed_on),
        cmocka_unit_test(json_survives),
        cmocka_unit_test(wrong_json_is_refused),
        cmocka_unit_test(reasons_can_be_switched_off),
        cmocka_unit_test(wrong_words_are_refused),
        cmocka_unit_test(both_libraries_describe_the_codec),
    };

    codec = call("TEST_PLUGIN", "NCZ_get_codec_info");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
