/* Data that terp does not compress passes through unchanged. */
#include <stdlib.h>
#include <string.h>

#include "codec/format/frame.h"
#include "filter/plugin/h5z_terp.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/h5_files.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define NVALUES 1000
#define CHUNK_NVALUES 512

static const struct h5_shape shape = {1, {NVALUES}, {CHUNK_NVALUES}};
static const unsigned words[] = {2, 1, 3};
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

static hid_t
string_type(void)
{
    hid_t type = H5Tcopy(H5T_C_S1);
    H5Tset_size(type, 6);
    return type;
}

static hid_t
few_bits_type(void)
{
    hid_t type = H5Tcopy(H5T_STD_I32BE);
    H5Tset_precision(type, 24);
    return type;
}

static hid_t
enum_type(void)
{
    hid_t base = few_bits_type(), type = H5Tenum_create(base);
    const int value = 1;
    H5Tenum_insert(type, "one", &value);
    H5Tclose(base);
    return type;
}

/* bfloat16: the class is float, with float32's exponent. */
/* The size of float32 with another exponent. */
static hid_t
odd_float_type(void)
{
    hid_t type = H5Tcopy(H5T_IEEE_F32LE);
    H5Tset_fields(type, 31, 21, 10, 0, 21);
    H5Tset_ebias(type, 511);
    return type;
}

static hid_t
long_double_type(void)
{
    return H5Tcopy(H5T_NATIVE_LDOUBLE);
}

static hid_t
bitfield_type(void)
{
    return H5Tcopy(H5T_STD_B16LE);
}

static hid_t
opaque_type(void)
{
    hid_t type = H5Tcreate(H5T_OPAQUE, 7);
    H5Tset_tag(type, "tag");
    return type;
}

static const struct {
    const char *name;
    hid_t (*make)(void);
    enum terp_pass pass;
} types[] = {
    {"integer of few bits", few_bits_type, TERP_PASS_NOT_NUMBER},
    {"bit field", bitfield_type, TERP_PASS_NOT_NUMBER},
    {"string", string_type, TERP_PASS_NOT_NUMBER},
    {"enum", enum_type, TERP_PASS_NOT_NUMBER},
    {"opaque", opaque_type, TERP_PASS_NOT_NUMBER},
    {"odd float", odd_float_type, TERP_PASS_FLOAT_FORMAT},
    {"long double", long_double_type, TERP_PASS_FLOAT_FORMAT},
};

static unsigned char *
bytes_new(size_t nbytes)
{
    unsigned char *bytes = malloc(nbytes);

    assert_non_null(bytes);
    for (size_t i = 0; i < nbytes; i++)
        bytes[i] = (unsigned char)(i * 167 + i / 256);
    return bytes;
}

/* The first chunk in the file. It is unfiltered if HDF5 may skip the filter, so
 * that anyone can read it; else it is in a frame of terp. */
static void
check_stored(hid_t dataset, unsigned flags, const unsigned char *want,
             size_t chunk_nbytes)
{
    static const hsize_t offset[1];
    size_t nbytes;
    bool skipped;
    struct terp_info info = {.size = sizeof info};
    unsigned char *bytes = h5_chunk_bytes(dataset, offset, &nbytes, &skipped);

    assert_int_equal(skipped, flags == H5Z_FLAG_OPTIONAL);
    if (skipped) {
        assert_int_equal(nbytes, chunk_nbytes);
        assert_memory_equal(bytes, want, nbytes);
    } else {
        assert_true(nbytes <= chunk_nbytes + TERP_MAX_FRAME_NBYTES);
        assert_int_equal(terp_inspect(bytes, nbytes, &info), TERP_OK);
        assert_int_equal(info.chunk.type, TERP_BYTES);
    }
    free(bytes);
}

static void
pass_through(unsigned flags)
{
    for (size_t i = 0; i < COUNT(types); i++) {
        hid_t type = types[i].make();
        size_t nbytes = NVALUES * H5Tget_size(type);
        unsigned char *want = bytes_new(nbytes), *got = bytes_new(nbytes);
        hid_t dcpl = h5_dcpl_new(&shape, flags, COUNT(words), words);
        struct terp_cd cd;
        char name[32];

        snprintf(name, sizeof name, "%s %u", types[i].name, flags);
        hid_t dataset = h5_dataset_new(file, name, type, &shape, dcpl);
        assert_true(dataset >= 0);
        h5_dataset_cd(dataset, &cd);
        assert_int_equal(cd.pass, types[i].pass);
        h5_write(dataset, type, want);
        memset(got, 0, nbytes);
        h5_read(dataset, type, got);
        assert_memory_equal(got, want, nbytes);
        check_stored(dataset, flags, want, CHUNK_NVALUES * H5Tget_size(type));
        H5Dclose(dataset);
        H5Pclose(dcpl);
        H5Tclose(type);
        free(want);
        free(got);
    }
}

static void
other_types_are_stored_plain_when_optional(void **state)
{
    (void)state;
    pass_through(H5Z_FLAG_OPTIONAL);
}

static void
other_types_are_framed_when_mandatory(void **state)
{
    (void)state;
    pass_through(H5Z_FLAG_MANDATORY);
}

/* HDF5 calls no set_local for these types, and refuses mandatory filters. */
static void
strings_of_any_length_pass_through(void **state)
{
    static const char *const want[] = {"a", "", "longer than the others", "z"};
    static const struct h5_shape four = {1, {4}, {3}};
    char *got[4];
    hid_t type = H5Tcopy(H5T_C_S1);
    hid_t space = H5Screate_simple(1, four.dims, NULL);
    hid_t dcpl = h5_dcpl_new(&four, H5Z_FLAG_OPTIONAL, COUNT(words), words);

    (void)state;
    H5Tset_size(type, H5T_VARIABLE);
    hid_t dataset = h5_dataset_new(file, "vlen", type, &four, dcpl);
    assert_true(dataset >= 0);
    h5_write(dataset, type, want);
    h5_read(dataset, type, got);
    for (size_t s = 0; s < COUNT(got); s++)
        assert_string_equal(got[s], want[s]);
    H5Dvlen_reclaim(type, space, H5P_DEFAULT, got);
    H5Dclose(dataset);
    H5Pclose(dcpl);
    H5Sclose(space);
    H5Tclose(type);
}

static void
later_filters_take_the_stream(void **state)
{
    float want[NVALUES], got[NVALUES];
    struct terp_cd cd;
    hid_t dcpl = h5_dcpl_new(&shape, 0, COUNT(words), words);

    (void)state;
    for (size_t i = 0; i < NVALUES; i++)
        want[i] = (float)i / 7;
    assert_true(H5Pset_deflate(dcpl, 1) >= 0);
    assert_true(H5Pset_fletcher32(dcpl) >= 0);
    hid_t dataset = h5_dataset_new(file, "later", H5T_IEEE_F32LE, &shape, dcpl);
    h5_dataset_cd(dataset, &cd);
    assert_int_equal(cd.pass, TERP_PASS_NONE);
    h5_write(dataset, H5T_NATIVE_FLOAT, want);
    h5_read(dataset, H5T_NATIVE_FLOAT, got);
    /* The range of a chunk, with its padding of zeros, is below 143. */
    for (size_t i = 0; i < NVALUES; i++)
        assert_true(want[i] - got[i] <= 0.143 && got[i] - want[i] <= 0.143);
    H5Dclose(dataset);
    H5Pclose(dcpl);
}

/* HDF5 passes the heap of a group, with -1 for type and dims. */
static void
group_heap_passes_through(void **state)
{
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS), gcpl = H5Pcreate(H5P_GROUP_CREATE);
    char name[80];

    (void)state;
    H5Pset_fapl_core(fapl, 1 << 20, 0);
    H5Pset_libver_bounds(fapl, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
    hid_t latest = H5Fcreate("group.h5", H5F_ACC_TRUNC, H5P_DEFAULT, fapl);
    H5Pset_link_phase_change(gcpl, 0, 0);
    assert_true(H5Pset_filter(gcpl, H5Z_FILTER_TERP, H5Z_FLAG_MANDATORY,
                              COUNT(words), words) >= 0);
    hid_t group = H5Gcreate2(latest, "g", H5P_DEFAULT, gcpl, H5P_DEFAULT);
    assert_true(group >= 0);
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "a link with a name of its own %d", i);
        assert_true(H5Lcreate_soft("/nowhere", group, name, H5P_DEFAULT,
                                   H5P_DEFAULT) >= 0);
    }
    assert_true(H5Gclose(group) >= 0);
    assert_true(H5Fflush(latest, H5F_SCOPE_GLOBAL) >= 0);
    group = H5Gopen2(latest, "g", H5P_DEFAULT);
    assert_true(H5Lexists(group, name, H5P_DEFAULT) > 0);
    H5Gclose(group);
    assert_true(H5Fclose(latest) >= 0);
    H5Pclose(gcpl);
    H5Pclose(fapl);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_types_are_stored_plain_when_optional),
        cmocka_unit_test(other_types_are_framed_when_mandatory),
        cmocka_unit_test(strings_of_any_length_pass_through),
        cmocka_unit_test(later_filters_take_the_stream),
        cmocka_unit_test(group_heap_passes_through),
    };
    return cmocka_run_group_tests(tests, open_file, close_file);
}
