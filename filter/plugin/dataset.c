/* What HDF5 says of a dataset that is about to be created, as parameters. */
#include "filter/plugin/dataset.h"

#include "codec/format/types.h"
#include "filter/plugin/h5z_terp.h"
#include "filter/plugin/pipeline.h"

/* What is known of a dataset's values. */
struct values {
    enum terp_type type;
    bool big_endian;
};

/* The types that are compressed, by the variables that hold them in HDF5. */
static const struct {
    const char *variable;
    struct values values;
} known_types[] = {
    {"H5T_IEEE_F32LE_g", {TERP_FLOAT32, false}},
    {"H5T_IEEE_F64LE_g", {TERP_FLOAT64, false}},
    {"H5T_IEEE_F32BE_g", {TERP_FLOAT32, true}},
    {"H5T_IEEE_F64BE_g", {TERP_FLOAT64, true}},
    {"H5T_STD_I8LE_g", {TERP_INT8, false}},
    {"H5T_STD_I16LE_g", {TERP_INT16, false}},
    {"H5T_STD_I32LE_g", {TERP_INT32, false}},
    {"H5T_STD_I64LE_g", {TERP_INT64, false}},
    {"H5T_STD_U8LE_g", {TERP_UINT8, false}},
    {"H5T_STD_U16LE_g", {TERP_UINT16, false}},
    {"H5T_STD_U32LE_g", {TERP_UINT32, false}},
    {"H5T_STD_U64LE_g", {TERP_UINT64, false}},
    {"H5T_STD_I8BE_g", {TERP_INT8, true}},
    {"H5T_STD_I16BE_g", {TERP_INT16, true}},
    {"H5T_STD_I32BE_g", {TERP_INT32, true}},
    {"H5T_STD_I64BE_g", {TERP_INT64, true}},
    {"H5T_STD_U8BE_g", {TERP_UINT8, true}},
    {"H5T_STD_U16BE_g", {TERP_UINT16, true}},
    {"H5T_STD_U32BE_g", {TERP_UINT32, true}},
    {"H5T_STD_U64BE_g", {TERP_UINT64, true}},
};

bool
terp_dataset_get_words(const struct terp_host *host, hid_t dcpl,
                       unsigned *flags_ret, size_t *nwords_ret,
                       unsigned *words_ret)
{
    herr_t (*get_filter)(hid_t, H5Z_filter_t, unsigned *, size_t *, unsigned *,
                         size_t, char *, unsigned *);

    *nwords_ret = TERP_CD_MAX_NWORDS;
    /* For the heap of a group HDF5 gives -1 in place of every id. */
    if (dcpl < 0 ||
        !terp_host_find(host, "H5Pget_filter_by_id2", &get_filter) ||
        get_filter(dcpl, H5Z_FILTER_TERP, flags_ret, nwords_ret, words_ret, 0,
                   NULL, NULL) < 0)
        return false;
    /* HDF5 says how many there are, also where it gave fewer. */
    *nwords_ret = min_u64(*nwords_ret, TERP_CD_MAX_NWORDS);
    return true;
}

bool
terp_dataset_set_words(const struct terp_host *host, hid_t dcpl, unsigned flags,
                       size_t nwords, const unsigned *words)
{
    herr_t (*modify_filter)(hid_t, H5Z_filter_t, unsigned, size_t,
                            const unsigned *);

    return terp_host_find(host, "H5Pmodify_filter", &modify_filter) &&
           modify_filter(dcpl, H5Z_FILTER_TERP, flags, nwords, words) >= 0;
}

/* Compared as a whole: a program that is linked with libhdf5.a lacks the
 * functions that tell a type's parts unless it calls them itself. */
static enum terp_pass
find_type(const struct terp_host *host, hid_t type, struct values *values_ret)
{
    htri_t (*is_equal)(hid_t, hid_t);
    hid_t known;

    if (!terp_host_find(host, "H5Tequal", &is_equal))
        return TERP_PASS_UNKNOWN_LAYOUT;
    for (size_t i = 0; i < sizeof known_types / sizeof *known_types; i++) {
        if (!terp_host_find_id(host, known_types[i].variable, &known))
            return TERP_PASS_UNKNOWN_LAYOUT;
        if (is_equal(type, known) > 0) {
            *values_ret = known_types[i].values;
            return TERP_PASS_NONE;
        }
    }
    return TERP_PASS_NOT_NUMBER;
}

/* A float type of 16 bits, which HDF5 has no name for before version 1.14.4. */
static enum terp_pass
read_half(const struct terp_host *host, hid_t type, struct values *values_ret)
{
    herr_t (*get_fields)(hid_t, size_t *, size_t *, size_t *, size_t *,
                         size_t *);
    size_t (*get_size)(hid_t), (*get_precision)(hid_t), (*get_bias)(hid_t);
    H5T_norm_t (*get_norm)(hid_t);
    H5T_order_t (*get_order)(hid_t);
    size_t sign, exponent, exponent_nbits, mantissa, mantissa_nbits;

    if (!terp_host_find(host, "H5Tget_fields", &get_fields) ||
        !terp_host_find(host, "H5Tget_size", &get_size) ||
        !terp_host_find(host, "H5Tget_precision", &get_precision) ||
        !terp_host_find(host, "H5Tget_ebias", &get_bias) ||
        !terp_host_find(host, "H5Tget_norm", &get_norm) ||
        !terp_host_find(host, "H5Tget_order", &get_order) ||
        get_size(type) != 2 || get_precision(type) != 16 ||
        get_norm(type) != H5T_NORM_IMPLIED ||
        get_fields(type, &sign, &exponent, &exponent_nbits, &mantissa,
                   &mantissa_nbits) < 0 ||
        sign != 15 || mantissa != 0 || exponent != mantissa_nbits ||
        get_bias(type) != ((size_t)1 << (exponent_nbits - 1)) - 1)
        return TERP_PASS_FLOAT_FORMAT;
    values_ret->type = mantissa_nbits == 10 ? TERP_FLOAT16 : TERP_BFLOAT16;
    values_ret->big_endian = get_order(type) == H5T_ORDER_BE;
    return (mantissa_nbits == 10 && exponent_nbits == 5) ||
                   (mantissa_nbits == 7 && exponent_nbits == 8)
               ? TERP_PASS_NONE
               : TERP_PASS_FLOAT_FORMAT;
}

/* Complex values of the parts' type. */
static enum terp_pass
find_complex(const struct terp_host *host, hid_t part,
             struct values *values_ret)
{
    enum terp_pass pass = find_type(host, part, values_ret);

    if (pass != TERP_PASS_NONE)
        return pass;
    if (!terp_type_is_plain(values_ret->type))
        return TERP_PASS_NOT_NUMBER;
    values_ret->type =
        values_ret->type == TERP_FLOAT32 ? TERP_COMPLEX64 : TERP_COMPLEX128;
    return TERP_PASS_NONE;
}

/* A compound of two parts, "r" and "i", as h5py writes complex values. */
static enum terp_pass
read_compound(const struct terp_host *host, hid_t type,
              struct values *values_ret)
{
    int (*count_members)(hid_t), (*find_member)(hid_t, const char *);
    size_t (*get_offset)(hid_t, unsigned), (*get_size)(hid_t);
    hid_t (*get_member)(hid_t, unsigned);
    htri_t (*is_equal)(hid_t, hid_t);
    herr_t (*close_type)(hid_t);

    if (!terp_host_find(host, "H5Tget_nmembers", &count_members) ||
        !terp_host_find(host, "H5Tget_member_index", &find_member) ||
        !terp_host_find(host, "H5Tget_member_offset", &get_offset) ||
        !terp_host_find(host, "H5Tget_size", &get_size) ||
        !terp_host_find(host, "H5Tget_member_type", &get_member) ||
        !terp_host_find(host, "H5Tequal", &is_equal) ||
        !terp_host_find(host, "H5Tclose", &close_type) ||
        count_members(type) != 2 || find_member(type, "r") != 0 ||
        find_member(type, "i") != 1)
        return TERP_PASS_NOT_NUMBER;
    const hid_t real = get_member(type, 0), imaginary = get_member(type, 1);
    enum terp_pass pass = TERP_PASS_NOT_NUMBER;
    if (real >= 0 && imaginary >= 0 && is_equal(real, imaginary) > 0 &&
        get_offset(type, 0) == 0 && get_offset(type, 1) == get_size(real) &&
        get_size(type) == 2 * get_size(real))
        pass = find_complex(host, real, values_ret);
    close_type(real);
    close_type(imaginary);
    return pass;
}

/* Enumerations are their integers, and complex values those of their parts. */
static enum terp_pass
read_derived(const struct terp_host *host, hid_t type, bool is_complex,
             struct values *values_ret)
{
    hid_t (*get_super)(hid_t);
    herr_t (*close_type)(hid_t);

    if (!terp_host_find(host, "H5Tget_super", &get_super) ||
        !terp_host_find(host, "H5Tclose", &close_type))
        return TERP_PASS_UNKNOWN_LAYOUT;
    const hid_t base = get_super(type);
    if (base < 0)
        return TERP_PASS_UNKNOWN_LAYOUT;
    enum terp_pass pass = is_complex ? find_complex(host, base, values_ret)
                                     : find_type(host, base, values_ret);
    close_type(base);
    return pass;
}

/* H5T_COMPLEX of HDF5 2.0 and later. */
#define CLASS_COMPLEX 11

static enum terp_pass
read_type(const struct terp_host *host, hid_t type, struct values *values_ret)
{
    H5T_class_t (*get_class)(hid_t);

    if (!terp_host_find(host, "H5Tget_class", &get_class))
        return TERP_PASS_UNKNOWN_LAYOUT;
    const int class = (int)get_class(type);
    if (class == H5T_NO_CLASS)
        return TERP_PASS_UNKNOWN_LAYOUT;
    if (class == H5T_ENUM || class == CLASS_COMPLEX)
        return read_derived(host, type, class == CLASS_COMPLEX, values_ret);
    if (class == H5T_COMPOUND)
        return read_compound(host, type, values_ret);
    if (class != H5T_FLOAT && class != H5T_INTEGER)
        return TERP_PASS_NOT_NUMBER;
    enum terp_pass pass = find_type(host, type, values_ret);
    return pass == TERP_PASS_NOT_NUMBER && class == H5T_FLOAT
               ? read_half(host, type, values_ret)
               : pass;
}

/* A negative result stands for a space that cannot be asked. */
static int
read_dims(const struct terp_host *host, hid_t space, uint64_t *dims_ret)
{
    int (*get_rank)(hid_t);
    int (*get_dims)(hid_t, hsize_t *, hsize_t *);
    hsize_t dims[H5S_MAX_RANK];

    if (!terp_host_find(host, "H5Sget_simple_extent_ndims", &get_rank) ||
        !terp_host_find(host, "H5Sget_simple_extent_dims", &get_dims))
        return -1;
    int rank = get_rank(space);
    if (rank < 0 || rank > H5S_MAX_RANK || get_dims(space, dims, NULL) < 0)
        return -1;
    for (int i = 0; i < rank; i++)
        dims_ret[i] = dims[i];
    return rank;
}

/* The bits of a part, as it is in the file. */
static uint64_t
bits_of_part(const uint8_t *bytes, int nbytes, bool big_endian)
{
    uint64_t bits = 0;

    for (int i = 0; i < nbytes; i++)
        bits |= (uint64_t)bytes[big_endian ? nbytes - 1 - i : i] << 8 * i;
    return bits;
}

/* Takes over the fill value that the user has set. HDF5's own default, 0,
 * is a value like any other, and so is a complex one whose parts differ. */
static void
read_fill(const struct terp_host *host, hid_t dcpl, hid_t type,
          struct terp_cd *cd)
{
    herr_t (*get_status)(hid_t, H5D_fill_value_t *);
    herr_t (*get_fill)(hid_t, hid_t, void *);
    H5D_fill_value_t status;
    uint8_t fill[16];
    const int nbytes = terp_part_nbytes(cd->chunk.type);

    if (!terp_host_find(host, "H5Pfill_value_defined", &get_status) ||
        !terp_host_find(host, "H5Pget_fill_value", &get_fill) ||
        get_status(dcpl, &status) < 0 ||
        status != H5D_FILL_VALUE_USER_DEFINED || get_fill(dcpl, type, fill) < 0)
        return;
    cd->params.fill_bits = bits_of_part(fill, nbytes, cd->chunk.big_endian);
    cd->params.has_fill =
        terp_type_nparts(cd->chunk.type) == 1 ||
        bits_of_part(fill + nbytes, nbytes, cd->chunk.big_endian) ==
            cd->params.fill_bits;
    if (!cd->params.has_fill)
        cd->params.fill_bits = 0;
}

bool
terp_dataset_describe(const struct terp_host *host, hid_t dcpl, hid_t type,
                      hid_t space, struct terp_cd *cd)
{
    struct values values = {TERP_BYTES, false};
    bool fits = true;
    uint64_t dims[H5S_MAX_RANK];
    char in_the_way[TERP_PIPELINE_NAME_NBYTES];
    int ndims = 0;

    /* What the words say of another dataset is not true of this one. */
    memset(&cd->chunk, 0, sizeof cd->chunk);
    cd->params.has_fill = false;
    cd->params.fill_bits = 0;

    cd->pass = terp_pipeline_check(host, dcpl, in_the_way);
    if (cd->pass == TERP_PASS_NONE)
        cd->pass = read_type(host, type, &values);
    if (cd->pass == TERP_PASS_NONE) {
        ndims = read_dims(host, space, dims);
        if (ndims < 0)
            cd->pass = TERP_PASS_UNKNOWN_LAYOUT;
    }
    if (cd->pass == TERP_PASS_NONE)
        fits =
            terp_cd_apply_dims(cd, values.type, values.big_endian, ndims, dims);
    if (cd->pass == TERP_PASS_NONE)
        read_fill(host, dcpl, type, cd);
    return fits;
}

const char *
terp_pass_text(enum terp_pass pass)
{
    static const char *const texts[] = {
        [TERP_PASS_NONE] = "it is compressed",
        [TERP_PASS_NOT_NUMBER] = "the type is no number that terp knows",
        [TERP_PASS_FLOAT_FORMAT] =
            "the float is neither IEEE binary16, 32 or 64 nor bfloat16",
        [TERP_PASS_UNKNOWN_LAYOUT] =
            "HDF5 has not told the type and the dims of the chunk",
        [TERP_PASS_TOO_LARGE] = "the chunk is too large",
        [TERP_PASS_NOT_FIRST] = "another filter comes before terp",
        [TERP_PASS_BEHIND] =
            "a filter behind terp does not give the bytes of streams back"};
    return texts[pass];
}
