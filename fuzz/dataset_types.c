/* HDF5 types for datasets: those that terp codes, in both byte orders; similar
 * types that it does not code; and one of every other class. And attributes of
 * these types. */
#include "fuzz/dataset_types.h"

#include <string.h>

#include "fuzz/target.h"

enum {
    MAX_NTYPES = 64,
    MAX_NSPACES = 8
};

static hid_t types[MAX_NTYPES];
static int ntypes;
static hid_t spaces[MAX_NSPACES];
static int nspaces;
static int first_type_of[TERP_NTYPES][2]; /* by byte order */

static void
add_type(hid_t type)
{
    CHECK(type >= 0 && ntypes < MAX_NTYPES);
    types[ntypes++] = type;
}

static void
add_coded_type(enum terp_type coded, hid_t little, hid_t big)
{
    first_type_of[coded][0] = ntypes;
    add_type(little);
    first_type_of[coded][1] = ntypes;
    add_type(big);
}

static hid_t
make_half(hid_t base, size_t exponent_at, size_t exponent_nbits, size_t bias)
{
    hid_t type = H5Tcopy(base);

    CHECK(H5Tset_fields(type, 15, exponent_at, exponent_nbits, 0,
                        exponent_at) >= 0);
    CHECK(H5Tset_size(type, 2) >= 0 && H5Tset_ebias(type, bias) >= 0);
    return type;
}

static hid_t
make_pair(hid_t part, const char *first, const char *second)
{
    const size_t nbytes = H5Tget_size(part);
    hid_t type = H5Tcreate(H5T_COMPOUND, 2 * nbytes);

    H5Tinsert(type, first, 0, part);
    H5Tinsert(type, second, nbytes, part);
    return type;
}

static hid_t
make_enum(hid_t base)
{
    hid_t type = H5Tenum_create(base);
    int one = 1;

    H5Tconvert(H5T_NATIVE_INT, base, 1, &one, NULL, H5P_DEFAULT);
    H5Tenum_insert(type, "one", &one);
    return type;
}

static hid_t
make_text(size_t nbytes, H5T_str_t padding, H5T_cset_t charset)
{
    hid_t type = H5Tcopy(H5T_C_S1);

    H5Tset_size(type, nbytes);
    H5Tset_strpad(type, padding);
    H5Tset_cset(type, charset);
    return type;
}

static void
make_odd_types(void)
{
    static const hsize_t dims[] = {3};
    hid_t type = H5Tcopy(H5T_IEEE_F32LE);

    CHECK(H5Tset_fields(type, 23, 15, 8, 0, 15) >= 0);
    CHECK(H5Tset_precision(type, 24) >= 0);
    add_type(type);
    type = H5Tcopy(H5T_IEEE_F64BE);
    H5Tset_norm(type, H5T_NORM_NONE);
    add_type(type);
    type = H5Tcopy(H5T_STD_I16LE);
    H5Tset_precision(type, 12);
    H5Tset_offset(type, 3);
    add_type(type);
    type = H5Tcopy(H5T_STD_U32BE);
    H5Tset_size(type, 3);
    add_type(type);
    add_type(make_pair(H5T_IEEE_F32LE, "re", "im"));
    add_type(make_pair(H5T_STD_I32LE, "r", "i"));
    type = H5Tcreate(H5T_COMPOUND, 20);
    H5Tinsert(type, "r", 0, H5T_IEEE_F32LE);
    H5Tinsert(type, "i", 12, H5T_IEEE_F64LE);
    add_type(type);
    add_type(make_enum(H5T_STD_I8LE));
    add_type(make_enum(H5T_STD_U32BE));
    add_type(H5Tarray_create2(H5T_IEEE_F32LE, 1, dims));
    type = H5Tcreate(H5T_OPAQUE, 5);
    H5Tset_tag(type, "five bytes");
    add_type(type);
    type = H5Tcreate(H5T_OPAQUE, 1000);
    add_type(type);
    add_type(H5Tcopy(H5T_STD_B16LE));
    add_type(H5Tcopy(H5T_UNIX_D32LE));
    add_type(H5Tcopy(H5T_STD_REF_OBJ));
    add_type(make_text(1, H5T_STR_NULLTERM, H5T_CSET_ASCII));
    add_type(make_text(7, H5T_STR_NULLTERM, H5T_CSET_ASCII));
    add_type(make_text(16, H5T_STR_SPACEPAD, H5T_CSET_UTF8));
    add_type(make_text(64, H5T_STR_NULLPAD, H5T_CSET_ASCII));
    add_type(make_text(300, H5T_STR_NULLPAD, H5T_CSET_UTF8));
    add_type(make_text(H5T_VARIABLE, H5T_STR_NULLTERM, H5T_CSET_UTF8));
    add_type(H5Tvlen_create(H5T_IEEE_F32LE));
}

void
fuzz_types_begin(void)
{
    static const hsize_t dims[][2] = {{1, 1}, {2, 1}, {8, 1}, {9, 1}, {2, 2}};
    static const int ranks[] = {1, 1, 1, 1, 2};

    add_coded_type(TERP_FLOAT32, H5T_IEEE_F32LE, H5T_IEEE_F32BE);
    add_coded_type(TERP_FLOAT64, H5T_IEEE_F64LE, H5T_IEEE_F64BE);
    add_coded_type(TERP_BYTES, H5Tcreate(H5T_OPAQUE, 1), H5Tcopy(H5T_STD_B8BE));
    add_coded_type(TERP_INT8, H5T_STD_I8LE, H5T_STD_I8BE);
    add_coded_type(TERP_INT16, H5T_STD_I16LE, H5T_STD_I16BE);
    add_coded_type(TERP_INT32, H5T_STD_I32LE, H5T_STD_I32BE);
    add_coded_type(TERP_INT64, H5T_STD_I64LE, H5T_STD_I64BE);
    add_coded_type(TERP_UINT8, H5T_STD_U8LE, H5T_STD_U8BE);
    add_coded_type(TERP_UINT16, H5T_STD_U16LE, H5T_STD_U16BE);
    add_coded_type(TERP_UINT32, H5T_STD_U32LE, H5T_STD_U32BE);
    add_coded_type(TERP_UINT64, H5T_STD_U64LE, H5T_STD_U64BE);
    add_coded_type(TERP_FLOAT16, make_half(H5T_IEEE_F32LE, 10, 5, 15),
                   make_half(H5T_IEEE_F32BE, 10, 5, 15));
    add_coded_type(TERP_BFLOAT16, make_half(H5T_IEEE_F32LE, 7, 8, 127),
                   make_half(H5T_IEEE_F32BE, 7, 8, 127));
    add_coded_type(TERP_COMPLEX64, make_pair(H5T_IEEE_F32LE, "r", "i"),
                   make_pair(H5T_IEEE_F32BE, "r", "i"));
    add_coded_type(TERP_COMPLEX128, make_pair(H5T_IEEE_F64LE, "r", "i"),
                   make_pair(H5T_IEEE_F64BE, "r", "i"));
    make_odd_types();
    spaces[nspaces++] = H5Screate(H5S_SCALAR);
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++)
        spaces[nspaces++] = H5Screate_simple(ranks[i], dims[i], NULL);
    spaces[nspaces++] = H5Screate(H5S_NULL);
}

hid_t
fuzz_type(uint8_t choice)
{
    return types[choice % ntypes];
}

hid_t
fuzz_coded_type(enum terp_type coded, bool big_endian)
{
    return types[first_type_of[coded][big_endian]];
}

/* ---- attributes ---- */

void
fuzz_attribute_make(hid_t dataset, const uint8_t *choices, const uint8_t *bytes,
                    size_t nbytes)
{
    static const char *const names[] = {
        "terp_implementation", "terp_bound_kind", "terp_bound",
        "terp_absolute_bound", "terp_floor",      "terp_max_error",
        "terp_psnr",           "terp_lost",       "terp_lost_reason",
        "terp_lost_value",     "_FillValue",      "missing_value"};
    enum {
        NNAMES = sizeof names / sizeof *names,
        MAX_NVALUES = 9,
        MAX_VALUE_NBYTES = 1000
    };
    static uint8_t values[MAX_NVALUES * MAX_VALUE_NBYTES];
    hid_t type = fuzz_type(choices[1]);
    char text[256];

    hid_t id =
        H5Acreate2(dataset, names[choices[0] % NNAMES], type,
                   spaces[choices[2] % nspaces], H5P_DEFAULT, H5P_DEFAULT);
    if (id < 0)
        return; /* the dataset already has an attribute of that name */
    const size_t needed = MAX_NVALUES * H5Tget_size(type);
    CHECK(needed <= sizeof values);
    for (size_t i = 0; i < needed; i++)
        values[i] = nbytes > 0 ? bytes[i % nbytes] : 0;
    memcpy(text, bytes, nbytes);
    text[nbytes] = '\0';
    if (H5Tget_class(type) == H5T_VLEN)
        for (int i = 0; i < MAX_NVALUES; i++)
            ((hvl_t *)(void *)values)[i] = (hvl_t){nbytes / 4, text};
    else if (H5Tis_variable_str(type) > 0)
        for (int i = 0; i < MAX_NVALUES; i++)
            ((char **)(void *)values)[i] = i == 1 ? NULL : text;
    (void)H5Awrite(id, type, values);
    H5Aclose(id);
}
