/* How the plugin describes a dataset from what a host reports or does not
 * report: hosts that lack a function, functions that fail, types of any kind.
 * The plugin's search for functions is replaced: names lead to the functions
 * below. */
#define _POSIX_C_SOURCE 200809L /* strdup */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/format/base.h"
#include "filter/plugin/dataset.h"
#include "filter/plugin/h5z_terp.h"
#include "filter/plugin/pipeline.h"
#include "h5tests/support/cmocka_all.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* A type as HDF5 stores it. `is` points to the variable of the predefined type
 * that it equals. */
struct type {
    const char *is;
    H5T_class_t class;
    size_t size, precision, sign, exponent, exponent_nbits, mantissa,
        mantissa_nbits, bias;
    H5T_norm_t norm;
    H5T_order_t order;
    hid_t base, member[2];
    int nmembers;
    const char *name[2];
    size_t offset[2];
};

/* Of type->is, classes, and sizes. */
enum {
    FLOAT32 = 1,
    FLOAT64,
    HALF,
    COMPOUND,
    DERIVED,
    NTYPES
};
static struct type types[NTYPES];

/* The host. `lacks` names a function that is missing, `fails` one that
 * fails. */
static struct {
    const char *lacks, *fails;
    int rank;
    hsize_t dims[H5S_MAX_RANK];
    H5Z_filter_t first, second; /* of the pipeline; 0: no pipeline */
    H5D_fill_value_t fill_status;
    uint8_t fill[16];
    unsigned words[TERP_CD_MAX_NWORDS + 4];
    size_t nwords;
    unsigned version;   /* of the functions that print errors */
    bool prints, drops; /* with the values of fake_host.h */
    bool tells_members; /* has functions that only members need */
    int npushed, nclosed;
    int nmade; /* errors on a stack that the plugin has made */
} host;

#define MADE_STACK ((hid_t)77)

static void
reset(void)
{
    static const struct type known[NTYPES] = {
        [FLOAT32] = {.is = "H5T_IEEE_F32LE_g", .class = H5T_FLOAT, .size = 4},
        [FLOAT64] = {.is = "H5T_IEEE_F64BE_g", .class = H5T_FLOAT, .size = 8},
        [HALF] = {.class = H5T_FLOAT,
                  .size = 2,
                  .precision = 16,
                  .sign = 15,
                  .exponent = 10,
                  .exponent_nbits = 5,
                  .mantissa_nbits = 10,
                  .bias = 15,
                  .norm = H5T_NORM_IMPLIED,
                  .order = H5T_ORDER_LE},
        [COMPOUND] = {.class = H5T_COMPOUND,
                      .size = 16,
                      .nmembers = 2,
                      .member = {FLOAT64, FLOAT64},
                      .name = {"r", "i"},
                      .offset = {0, 8}},
        [DERIVED] = {.class = H5T_ENUM, .base = FLOAT32},
    };
    memcpy(types, known, sizeof types);
    memset(&host, 0, sizeof host);
    host.rank = 2;
    host.dims[0] = 20;
    host.dims[1] = 30;
    host.first = H5Z_FILTER_TERP;
    host.fill_status = H5D_FILL_VALUE_DEFAULT;
    host.version = 1;
    host.prints = true;
}

static bool
fails(const char *name)
{
    return host.fails != NULL && strcmp(name, host.fails) == 0;
}

/* ---- functions of the host ---- */

static herr_t
get_filter_by_id(hid_t dcpl, H5Z_filter_t id, unsigned *flags, size_t *nwords,
                 unsigned *words, size_t n, char *name, unsigned *config)
{
    (void)dcpl, (void)id, (void)n, (void)name, (void)config;
    *flags = 7;
    for (size_t i = 0; i < host.nwords && i < *nwords; i++)
        words[i] = host.words[i];
    *nwords = host.nwords;
    return fails("H5Pget_filter_by_id2") ? -1 : 0;
}

static herr_t
modify_filter(hid_t dcpl, H5Z_filter_t id, unsigned flags, size_t nwords,
              const unsigned *words)
{
    (void)dcpl, (void)id, (void)flags;
    host.nwords = nwords;
    memcpy(host.words, words, nwords * sizeof *words);
    return fails("H5Pmodify_filter") ? -1 : 0;
}

static H5Z_filter_t
get_filter(hid_t dcpl, unsigned at, unsigned *flags, size_t *nwords,
           unsigned *words, size_t n, char *name, unsigned *config)
{
    (void)dcpl, (void)flags, (void)nwords, (void)words, (void)n, (void)name,
        (void)config;
    return fails("H5Pget_filter2") ? -1 : at == 0 ? host.first : host.second;
}

static int
count_filters(hid_t dcpl)
{
    (void)dcpl;
    return fails("H5Pget_nfilters") ? -1 : 1 + (host.second != 0);
}

static herr_t
remove_filter(hid_t dcpl, H5Z_filter_t id)
{
    (void)dcpl, (void)id;
    host.first = host.second;
    host.second = 0;
    return fails("H5Premove_filter") ? -1 : 0;
}

static herr_t
set_filter(hid_t dcpl, H5Z_filter_t id, unsigned flags, size_t nwords,
           const unsigned *words)
{
    (void)dcpl, (void)flags, (void)nwords, (void)words;
    host.second = id;
    return fails("H5Pset_filter") ? -1 : 0;
}

static htri_t
type_is_equal(hid_t a, hid_t b)
{
    /* Ids of the variables follow those of types: 100 + FLOAT32 and so on. */
    if (fails("H5Tequal"))
        return -1;
    return a == b || (b > 100 && a == b - 100);
}

static H5T_class_t
get_class(hid_t type)
{
    return fails("H5Tget_class") ? H5T_NO_CLASS : types[type].class;
}

static size_t
get_size(hid_t type)
{
    return types[type].size;
}

static size_t
get_precision(hid_t type)
{
    return types[type].precision;
}

static size_t
get_bias(hid_t type)
{
    return types[type].bias;
}

static H5T_norm_t
get_norm(hid_t type)
{
    return types[type].norm;
}

static H5T_order_t
get_order(hid_t type)
{
    return types[type].order;
}

static herr_t
get_fields(hid_t type, size_t *sign, size_t *exponent, size_t *exponent_nbits,
           size_t *mantissa, size_t *mantissa_nbits)
{
    *sign = types[type].sign;
    *exponent = types[type].exponent;
    *exponent_nbits = types[type].exponent_nbits;
    *mantissa = types[type].mantissa;
    *mantissa_nbits = types[type].mantissa_nbits;
    return fails("H5Tget_fields") ? -1 : 0;
}

static hid_t
get_super(hid_t type)
{
    return fails("H5Tget_super") ? -1 : types[type].base;
}

static herr_t
close_type(hid_t type)
{
    (void)type;
    host.nclosed++;
    return 0;
}

static int
count_members(hid_t type)
{
    return types[type].nmembers;
}

static int
find_member(hid_t type, const char *name)
{
    for (int i = 0; i < 2; i++)
        if (strcmp(types[type].name[i], name) == 0)
            return i;
    return -1;
}

static size_t
get_offset(hid_t type, unsigned i)
{
    return types[type].offset[i];
}

static hid_t
get_member(hid_t type, unsigned i)
{
    return types[type].member[i];
}

static int
get_array_ndims(hid_t type)
{
    (void)type;
    return -1;
}

static int
get_array_dims(hid_t type, hsize_t *dims)
{
    (void)type, (void)dims;
    return -1;
}

static char *
get_name(hid_t type, unsigned i)
{
    return fails("H5Tget_member_name") ? NULL : strdup(types[type].name[i]);
}

static herr_t
free_memory(void *memory)
{
    free(memory);
    return 0;
}

static htri_t
is_variable(hid_t type)
{
    (void)type;
    return 0;
}

static int
get_rank(hid_t space)
{
    (void)space;
    return host.rank;
}

static int
get_dims(hid_t space, hsize_t *dims, hsize_t *max)
{
    (void)space, (void)max;
    for (int i = 0; i < host.rank; i++)
        dims[i] = host.dims[i];
    return fails("H5Sget_simple_extent_dims") ? -1 : host.rank;
}

static herr_t
get_fill_status(hid_t dcpl, H5D_fill_value_t *status)
{
    (void)dcpl;
    *status = host.fill_status;
    return fails("H5Pfill_value_defined") ? -1 : 0;
}

static herr_t
get_fill(hid_t dcpl, hid_t type, void *fill)
{
    (void)dcpl, (void)type;
    memcpy(fill, host.fill, sizeof host.fill);
    return fails("H5Pget_fill_value") ? -1 : 0;
}

static herr_t
push(hid_t stack, const char *file, const char *function, unsigned line,
     hid_t class_id, hid_t major, hid_t minor, const char *format, ...)
{
    (void)file, (void)function, (void)line, (void)class_id, (void)major,
        (void)minor, (void)format;
    if (stack == MADE_STACK)
        host.nmade++;
    else
        host.npushed += !host.drops;
    return 0;
}

static herr_t
is_paused(hid_t stack, hbool_t *paused)
{
    (void)stack;
    *paused = host.drops;
    return 0;
}

static hid_t
create_stack(void)
{
    host.nmade = 0;
    return MADE_STACK;
}

static herr_t
set_stack(hid_t stack)
{
    assert_int_equal(stack, MADE_STACK);
    host.npushed = host.nmade;
    return 0;
}

static herr_t
close_stack(hid_t stack)
{
    assert_int_equal(stack, MADE_STACK);
    return 0;
}

static ssize_t
count_errors(hid_t stack)
{
    (void)stack;
    return host.npushed;
}

static herr_t
is_version_2(hid_t stack, unsigned *version)
{
    (void)stack;
    *version = host.version;
    return fails("H5Eauto_is_v2") ? -1 : 0;
}

static herr_t
print_nothing(hid_t stack, void *data)
{
    (void)stack, (void)data;
    return 0;
}

static herr_t
get_printer(hid_t stack, H5E_auto2_t *print, void **data)
{
    (void)stack;
    *print = host.prints ? print_nothing : NULL;
    *data = NULL;
    return fails("H5Eget_auto2") ? -1 : 0;
}

typedef void
any_function(void);
static const struct {
    const char *name;
    any_function *function;
} functions[] = {
    {"H5Pget_filter_by_id2", (any_function *)get_filter_by_id},
    {"H5Pmodify_filter", (any_function *)modify_filter},
    {"H5Pget_filter2", (any_function *)get_filter},
    {"H5Pget_nfilters", (any_function *)count_filters},
    {"H5Premove_filter", (any_function *)remove_filter},
    {"H5Pset_filter", (any_function *)set_filter},
    {"H5Tequal", (any_function *)type_is_equal},
    {"H5Tget_class", (any_function *)get_class},
    {"H5Tget_size", (any_function *)get_size},
    {"H5Tget_precision", (any_function *)get_precision},
    {"H5Tget_ebias", (any_function *)get_bias},
    {"H5Tget_norm", (any_function *)get_norm},
    {"H5Tget_order", (any_function *)get_order},
    {"H5Tget_fields", (any_function *)get_fields},
    {"H5Tget_super", (any_function *)get_super},
    {"H5Tclose", (any_function *)close_type},
    {"H5Tget_nmembers", (any_function *)count_members},
    {"H5Tget_member_index", (any_function *)find_member},
    {"H5Tget_member_offset", (any_function *)get_offset},
    {"H5Tget_member_type", (any_function *)get_member},
    {"H5Tget_array_ndims", (any_function *)get_array_ndims},
    {"H5Tget_array_dims2", (any_function *)get_array_dims},
    {"H5Tget_member_name", (any_function *)get_name},
    {"H5free_memory", (any_function *)free_memory},
    {"H5Tis_variable_str", (any_function *)is_variable},
    {"H5Sget_simple_extent_ndims", (any_function *)get_rank},
    {"H5Sget_simple_extent_dims", (any_function *)get_dims},
    {"H5Pfill_value_defined", (any_function *)get_fill_status},
    {"H5Pget_fill_value", (any_function *)get_fill},
    {"H5Epush2", (any_function *)push},
    {"H5Eis_paused", (any_function *)is_paused},
    {"H5Ecreate_stack", (any_function *)create_stack},
    {"H5Eset_current_stack", (any_function *)set_stack},
    {"H5Eclose_stack", (any_function *)close_stack},
    {"H5Eget_num", (any_function *)count_errors},
    {"H5Eauto_is_v2", (any_function *)is_version_2},
    {"H5Eget_auto2", (any_function *)get_printer},
};

/* ---- replacements of host.c ---- */

bool
terp_host_find(const struct terp_host *of, const char *name, void *function_ret)
{
    (void)of;
    memset(function_ret, 0, sizeof(any_function *));
    if ((host.lacks != NULL && strcmp(name, host.lacks) == 0) ||
        (!host.tells_members && strcmp(name, "H5Tget_array_ndims") == 0))
        return false;
    for (size_t i = 0; i < COUNT(functions); i++)
        if (strcmp(name, functions[i].name) == 0) {
            memcpy(function_ret, &functions[i].function,
                   sizeof functions[i].function);
            return true;
        }
    fail_msg("the plugin asks for %s", name);
    return false;
}

bool
terp_host_find_id(const struct terp_host *of, const char *variable,
                  hid_t *id_ret)
{
    (void)of;
    if (host.lacks != NULL && strcmp(variable, host.lacks) == 0)
        return false;
    *id_ret = 200;
    for (int t = 1; t < NTYPES; t++)
        if (types[t].is != NULL && strcmp(types[t].is, variable) == 0)
            *id_ret = 100 + t;
    return true;
}

/* ---- tests ---- */

static struct terp_cd
describe(hid_t type)
{
    struct terp_cd cd = {
        .params = {.bound_mode = TERP_BOUND_RELATIVE, .bound = 1e-3}};

    host.nclosed = 0;
    bool unmatched;

    assert_true(terp_dataset_describe(NULL, 5, type, 6, &cd, &unmatched));
    return cd;
}

static void
values_of_known_types_are_compressed(void **state)
{
    (void)state;
    reset();
    struct terp_cd cd = describe(FLOAT32);
    assert_int_equal(cd.pass, TERP_PASS_NONE);
    assert_int_equal(cd.chunk.type, TERP_FLOAT32);
    assert_false(cd.chunk.big_endian);
    assert_int_equal(cd.chunk.rank, 2);
    assert_int_equal(cd.chunk.dims[0], 20);
    cd = describe(FLOAT64);
    assert_int_equal(cd.chunk.type, TERP_FLOAT64);
    assert_true(cd.chunk.big_endian);
    types[HALF].class = H5T_STRING;
    assert_int_equal(describe(HALF).pass, TERP_PASS_NOT_NUMBER);
    types[HALF].class = H5T_INTEGER; /* unlike any known type */
    assert_int_equal(describe(HALF).pass, TERP_PASS_NOT_NUMBER);
}

/* Data passes through if the host lacks functions that describe it. */
static void
host_without_a_function_passes_data_through(void **state)
{
    static const struct {
        const char *name;
        hid_t type;
        enum terp_pass pass;
    } cases[] = {
        {"H5Pget_filter2", FLOAT32, TERP_PASS_UNKNOWN_LAYOUT},
        {"H5Pget_nfilters", FLOAT32, TERP_PASS_NONE},
        {"H5Premove_filter", FLOAT32, TERP_PASS_NONE},
        {"H5Tget_class", FLOAT32, TERP_PASS_UNKNOWN_LAYOUT},
        {"H5Tequal", FLOAT32, TERP_PASS_UNKNOWN_LAYOUT},
        {"H5T_IEEE_F32LE_g", FLOAT32, TERP_PASS_UNKNOWN_LAYOUT},
        {"H5T_STD_U64BE_g", HALF, TERP_PASS_UNKNOWN_LAYOUT},
        {"H5Sget_simple_extent_ndims", FLOAT32, TERP_PASS_UNKNOWN_LAYOUT},
        {"H5Sget_simple_extent_dims", FLOAT32, TERP_PASS_UNKNOWN_LAYOUT},
        {"H5Tget_fields", HALF, TERP_PASS_FLOAT_FORMAT},
        {"H5Tget_size", HALF, TERP_PASS_FLOAT_FORMAT},
        {"H5Tget_precision", HALF, TERP_PASS_FLOAT_FORMAT},
        {"H5Tget_ebias", HALF, TERP_PASS_FLOAT_FORMAT},
        {"H5Tget_norm", HALF, TERP_PASS_FLOAT_FORMAT},
        {"H5Tget_order", HALF, TERP_PASS_FLOAT_FORMAT},
        {"H5Tget_nmembers", COMPOUND, TERP_PASS_NOT_NUMBER},
        {"H5Tget_member_index", COMPOUND, TERP_PASS_NOT_NUMBER},
        {"H5Tget_member_offset", COMPOUND, TERP_PASS_NOT_NUMBER},
        {"H5Tget_size", COMPOUND, TERP_PASS_NOT_NUMBER},
        {"H5Tget_member_type", COMPOUND, TERP_PASS_NOT_NUMBER},
        {"H5Tequal", COMPOUND, TERP_PASS_NOT_NUMBER},
        {"H5Tclose", COMPOUND, TERP_PASS_NOT_NUMBER},
        {"H5Tget_super", DERIVED, TERP_PASS_UNKNOWN_LAYOUT},
        {"H5Tclose", DERIVED, TERP_PASS_UNKNOWN_LAYOUT},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        reset();
        assert_int_equal(describe(cases[i].type).pass, TERP_PASS_NONE);
        host.lacks = cases[i].name;
        if (describe(cases[i].type).pass != cases[i].pass)
            fail_msg("without %s", cases[i].name);
    }
}

static void
function_that_fails_passes_data_through(void **state)
{
    static const struct {
        const char *name;
        hid_t type;
        enum terp_pass pass;
    } cases[] = {
        {"H5Pget_filter2", FLOAT32, TERP_PASS_UNKNOWN_LAYOUT},
        {"H5Pget_nfilters", FLOAT32, TERP_PASS_UNKNOWN_LAYOUT},
        {"H5Tget_class", FLOAT32, TERP_PASS_UNKNOWN_LAYOUT},
        {"H5Tequal", COMPOUND, TERP_PASS_NOT_NUMBER},
        {"H5Tget_fields", HALF, TERP_PASS_FLOAT_FORMAT},
        {"H5Tget_super", DERIVED, TERP_PASS_UNKNOWN_LAYOUT},
        {"H5Sget_simple_extent_dims", FLOAT32, TERP_PASS_UNKNOWN_LAYOUT},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        reset();
        host.fails = cases[i].name;
        assert_int_equal(describe(cases[i].type).pass, cases[i].pass);
    }
    reset();
    host.rank = -1;
    assert_int_equal(describe(FLOAT32).pass, TERP_PASS_UNKNOWN_LAYOUT);
    host.rank = H5S_MAX_RANK + 1;
    assert_int_equal(describe(FLOAT32).pass, TERP_PASS_UNKNOWN_LAYOUT);
}

static void
other_filters_are_taken_away_where_the_host_can(void **state)
{
    static const char *const functions_of_it[] = {
        "H5Premove_filter", "H5Pset_filter", "H5Pmodify_filter"};

    (void)state;
    reset();
    host.first = H5Z_FILTER_DEFLATE;
    host.second = H5Z_FILTER_TERP;
    assert_int_equal(describe(FLOAT32).pass, TERP_PASS_NOT_FIRST);
    assert_false(terp_pipeline_clear(NULL, 1));
    assert_int_equal(host.first, H5Z_FILTER_DEFLATE);
    host.second = 0;
    assert_int_equal(describe(FLOAT32).pass, TERP_PASS_UNKNOWN_LAYOUT);
    assert_false(terp_pipeline_clear(NULL, 1));
    host.first = H5Z_FILTER_TERP;
    host.second = H5Z_FILTER_NBIT;
    assert_int_equal(describe(FLOAT32).pass, TERP_PASS_BEHIND);
    host.second = H5Z_FILTER_DEFLATE;
    assert_int_equal(describe(FLOAT32).pass, TERP_PASS_NONE);
    assert_true(terp_pipeline_clear(NULL, 1));
    assert_int_equal(host.second, H5Z_FILTER_DEFLATE);

    for (size_t i = 0; i < COUNT(functions_of_it); i++) {
        reset();
        host.first = H5Z_FILTER_FLETCHER32;
        host.second = H5Z_FILTER_TERP;
        assert_int_equal(describe(FLOAT32).pass, TERP_PASS_NONE);
        host.lacks = functions_of_it[i];
        assert_int_equal(describe(FLOAT32).pass, TERP_PASS_NOT_FIRST);
        assert_false(terp_pipeline_clear(NULL, 1));
        assert_int_equal(host.first, H5Z_FILTER_FLETCHER32);
        host.lacks = NULL;
        host.fails = i < 2 ? functions_of_it[i] : NULL;
        assert_int_equal(terp_pipeline_clear(NULL, 1), host.fails == NULL);
        if (host.fails == NULL) {
            assert_int_equal(host.first, H5Z_FILTER_TERP);
            assert_int_equal(host.second, H5Z_FILTER_FLETCHER32);
        }
    }
}

static void
half_floats_are_those_of_two_formats(void **state)
{
    (void)state;
    reset();
    assert_int_equal(describe(HALF).chunk.type, TERP_FLOAT16);
    types[HALF].order = H5T_ORDER_BE;
    assert_true(describe(HALF).chunk.big_endian);
    struct type other = types[HALF];
    other.exponent = other.mantissa_nbits = 7;
    other.exponent_nbits = 8;
    other.bias = 127;
    types[HALF] = other;
    assert_int_equal(describe(HALF).chunk.type, TERP_BFLOAT16);
    types[HALF].exponent = types[HALF].mantissa_nbits = 8;
    types[HALF].exponent_nbits = 7;
    types[HALF].bias = 63;
    assert_int_equal(describe(HALF).pass, TERP_PASS_FLOAT_FORMAT);
    types[HALF] = other;
    types[HALF].exponent_nbits = 7; /* a bit belongs to neither part */
    types[HALF].bias = 63;
    assert_int_equal(describe(HALF).pass, TERP_PASS_FLOAT_FORMAT);
    reset();
    types[HALF].exponent_nbits = 4;
    types[HALF].bias = 7;
    assert_int_equal(describe(HALF).pass, TERP_PASS_FLOAT_FORMAT);
    reset();
    types[HALF].exponent_nbits = 0;
    types[HALF].bias = 0;
    assert_int_equal(describe(HALF).pass, TERP_PASS_FLOAT_FORMAT);
    reset();
    types[HALF].order = H5T_ORDER_VAX;
    assert_int_equal(describe(HALF).pass, TERP_PASS_FLOAT_FORMAT);
    for (int i = 0; i < 7; i++) {
        reset();
        struct type *half = &types[HALF];
        size_t *const members[] = {&half->size,     &half->precision,
                                   &half->sign,     &half->exponent,
                                   &half->mantissa, &half->bias};
        if (i < 6)
            ++*members[i];
        else
            half->norm = H5T_NORM_NONE;
        assert_int_equal(describe(HALF).pass, TERP_PASS_FLOAT_FORMAT);
    }
}

static void
complex_values_are_two_parts(void **state)
{
    (void)state;
    reset();
    struct terp_cd cd = describe(COMPOUND);
    assert_int_equal(cd.chunk.type, TERP_COMPLEX128);
    assert_true(cd.chunk.big_endian);
    assert_int_equal(host.nclosed, 2);
    types[COMPOUND].member[0] = types[COMPOUND].member[1] = FLOAT32;
    types[COMPOUND].offset[1] = 4;
    types[COMPOUND].size = 8;
    assert_int_equal(describe(COMPOUND).chunk.type, TERP_COMPLEX64);
    types[DERIVED].class = (H5T_class_t)11; /* H5T_COMPLEX */
    assert_int_equal(describe(DERIVED).chunk.type, TERP_COMPLEX64);
    assert_int_equal(host.nclosed, 1);
    types[FLOAT32].is = "H5T_STD_I32LE_g";
    assert_int_equal(describe(COMPOUND).pass, TERP_PASS_NOT_NUMBER);
    assert_int_equal(describe(DERIVED).pass, TERP_PASS_NOT_NUMBER);
    types[FLOAT32].is = NULL;
    assert_int_equal(describe(COMPOUND).pass, TERP_PASS_NOT_NUMBER);
    for (int i = 0; i < 8; i++) {
        reset();
        struct type *compound = &types[COMPOUND];
        switch (i) {
        case 0:
            compound->nmembers = 3;
            break;
        case 1:
            compound->name[0] = "re";
            break;
        case 2:
            compound->name[1] = "im";
            break;
        case 3:
            compound->member[0] = -1;
            break;
        case 4:
            compound->member[1] = -1;
            break;
        case 5:
            compound->member[1] = FLOAT32;
            break;
        case 6:
            compound->offset[0] = 8;
            break;
        default:
            compound->offset[1] = 12;
        }
        assert_int_equal(describe(COMPOUND).pass, TERP_PASS_NOT_NUMBER);
    }
    reset();
    types[COMPOUND].size = 24; /* extra bytes behind the parts */
    assert_int_equal(describe(COMPOUND).pass, TERP_PASS_NOT_NUMBER);
}

/* A compound whose parts are no complex value. */
static struct terp_cd
describe_members(void)
{
    types[COMPOUND].name[0] = "x";
    return describe(COMPOUND);
}

static void
members_need_all_that_the_host_tells(void **state)
{
    static const char *const names[] = {
        "H5Tget_class",        "H5Tget_size",        "H5Tget_super",
        "H5Tget_member_type",  "H5Tclose",           "H5Tget_nmembers",
        "H5Tget_array_ndims",  "H5Tget_array_dims2", "H5Tget_member_offset",
        "H5Tget_member_name",  "H5free_memory",      "H5Tis_variable_str",
        "H5Tget_member_index", "H5Tequal",           "H5T_IEEE_F64BE_g"};

    (void)state;
    reset();
    host.tells_members = true;
    struct terp_cd cd = describe_members();
    assert_int_equal(cd.pass, TERP_PASS_BY_MEMBER);
    assert_int_equal(cd.compound.nmembers, 2);
    assert_int_equal(cd.compound.value_nbytes, 16);
    assert_int_equal(terp_chunk_nbytes(&cd.chunk), 16 * 20 * 30);
    for (size_t i = 0; i < COUNT(names); i++) {
        host.lacks = names[i];
        cd = describe_members();
        if (terp_cd_is_coded(&cd))
            fail_msg("without %s", names[i]);
    }
    host.lacks = NULL;
    host.fails = "H5Tget_member_name";
    assert_int_equal(describe_members().pass, TERP_PASS_NOT_NUMBER);
    host.fails = NULL;
    types[COMPOUND].offset[1] = 4; /* the members overlap */
    assert_int_equal(describe_members().pass, TERP_PASS_NOT_NUMBER);
    types[COMPOUND].offset[1] = 12; /* the last one ends behind the value */
    assert_int_equal(describe_members().pass, TERP_PASS_NOT_NUMBER);
}

static void
enumerations_are_their_integers(void **state)
{
    (void)state;
    reset();
    types[FLOAT32].is = "H5T_STD_U16BE_g";
    struct terp_cd cd = describe(DERIVED);
    assert_int_equal(cd.pass, TERP_PASS_NONE);
    assert_int_equal(cd.chunk.type, TERP_UINT16);
    assert_true(cd.chunk.big_endian);
}

static void
fill_value_is_what_the_user_has_set(void **state)
{
    static const char *const names[] = {"H5Pfill_value_defined",
                                        "H5Pget_fill_value"};

    (void)state;
    reset();
    host.fill[0] = 0x12;
    host.fill[7] = 0x34;
    assert_false(describe(FLOAT32).params.has_fill);
    host.fill_status = H5D_FILL_VALUE_USER_DEFINED;
    assert_true(describe(FLOAT32).params.has_fill);
    assert_int_equal(describe(FLOAT32).params.fill_bits, 0x12);
    assert_true(describe(FLOAT64).params.fill_bits ==
                UINT64_C(0x1200000000000034));
    assert_false(describe(COMPOUND).params.has_fill); /* the parts differ */
    assert_int_equal(describe(COMPOUND).params.fill_bits, 0);
    memcpy(host.fill + 8, host.fill, 8);
    assert_true(describe(COMPOUND).params.has_fill);
    for (size_t i = 0; i < COUNT(names); i++) {
        host.lacks = names[i];
        assert_false(describe(FLOAT32).params.has_fill);
        host.lacks = NULL;
        host.fails = names[i];
        assert_false(describe(FLOAT32).params.has_fill);
        host.fails = NULL;
    }
}

static void
words_are_as_many_as_have_room(void **state)
{
    unsigned words[TERP_CD_MAX_NWORDS], flags;
    size_t n;

    (void)state;
    reset();
    host.nwords = COUNT(host.words);
    host.words[2] = 3;
    assert_true(terp_dataset_get_words(NULL, 5, &flags, &n, words));
    assert_int_equal(n, TERP_CD_MAX_NWORDS);
    assert_int_equal(flags, 7);
    assert_int_equal(words[2], 3);
    assert_false(terp_dataset_get_words(NULL, -1, &flags, &n, words));
    host.fails = "H5Pget_filter_by_id2";
    assert_false(terp_dataset_get_words(NULL, 5, &flags, &n, words));
    host.lacks = "H5Pget_filter_by_id2";
    assert_false(terp_dataset_get_words(NULL, 5, &flags, &n, words));
    assert_true(terp_dataset_set_words(NULL, 5, 0, 3, words));
    assert_int_equal(host.nwords, 3);
    host.fails = "H5Pmodify_filter";
    assert_false(terp_dataset_set_words(NULL, 5, 0, 3, words));
    host.lacks = "H5Pmodify_filter";
    assert_false(terp_dataset_set_words(NULL, 5, 0, 3, words));
}

static bool
pushed(void)
{
    return terp_host_push(NULL, "file", "function", 1, "H5E_CANTFILTER_g",
                          "text");
}

/* Otherwise the plugin prints it. */
static void
errors_are_shown_where_the_host_prints_them(void **state)
{
    static const char *const needed[] = {
        "H5Epush2",      "H5Eget_num",   "H5E_ERR_CLS_g",   "H5E_PLINE_g",
        "H5Eauto_is_v2", "H5Eget_auto2", "H5E_CANTFILTER_g"};
    /* for a paused stack */
    static const char *const whole[] = {"H5Eis_paused", "H5Ecreate_stack",
                                        "H5Eset_current_stack"};

    (void)state;
    reset();
    assert_true(pushed());
    assert_int_equal(host.npushed, 1);
    for (size_t i = 0; i < COUNT(needed); i++) {
        host.lacks = needed[i];
        assert_false(pushed());
    }
    host.lacks = NULL;
    host.fails = "H5Eauto_is_v2";
    assert_false(pushed());
    host.fails = "H5Eget_auto2";
    assert_false(pushed());
    host.version = 0; /* a function of HDF5 1.6 */
    assert_true(pushed());
    host.version = 1;
    host.fails = NULL;
    host.prints = false;
    assert_false(pushed());
    host.prints = true;
    host.drops = true;
    for (size_t i = 0; i < COUNT(whole); i++) {
        host.lacks = whole[i];
        host.npushed = 0;
        assert_false(pushed());
    }
    host.lacks = NULL;
    assert_true(pushed());
    assert_int_equal(host.npushed, 1);
}

/* The public header writes the words that the plugin reads. */
static void
words_of_a_config_are_read_back(void **state)
{
    struct H5Z_terp_config config = {.bound_mode = H5Z_TERP_POINTWISE,
                                     .bound = 0.25,
                                     .floor = 0.5,
                                     .has_missing = 1,
                                     .missing = -9999};
    unsigned words[H5Z_TERP_MAX_NWORDS];
    const size_t n = H5Z_terp_cd_values(&config, words);
    struct terp_cd cd;

    (void)state;
    assert_true(n > 0);
    assert_int_equal(terp_cd_parse(n, words, &cd, NULL), TERP_OK);
    assert_true(cd.params.bound == 0.25 && cd.params.floor == 0.5);
    assert_true(cd.has_missing && cd.missing == -9999);
    config.effort = H5Z_TERP_NEFFORTS;
    assert_int_equal(H5Z_terp_cd_values(&config, words), 0);
    config.effort = 0;
    config.pipeline = H5Z_TERP_PIPELINE_NONE;
    assert_int_equal(H5Z_terp_cd_values(&config, words), 0);
}

static void
every_reason_has_a_text(void **state)
{
    (void)state;
    for (int pass = 0; pass <= TERP_PASS_BY_MEMBER; pass++)
        assert_true(strlen(terp_pass_text((enum terp_pass)pass)) > 10);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_of_known_types_are_compressed),
        cmocka_unit_test(host_without_a_function_passes_data_through),
        cmocka_unit_test(function_that_fails_passes_data_through),
        cmocka_unit_test(other_filters_are_taken_away_where_the_host_can),
        cmocka_unit_test(half_floats_are_those_of_two_formats),
        cmocka_unit_test(complex_values_are_two_parts),
        cmocka_unit_test(members_need_all_that_the_host_tells),
        cmocka_unit_test(enumerations_are_their_integers),
        cmocka_unit_test(fill_value_is_what_the_user_has_set),
        cmocka_unit_test(words_are_as_many_as_have_room),
        cmocka_unit_test(errors_are_shown_where_the_host_prints_them),
        cmocka_unit_test(words_of_a_config_are_read_back),
        cmocka_unit_test(every_reason_has_a_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
