/* What HDF5 says of a dataset that is about to be created, as parameters. */
#include "filter/plugin/dataset.h"

#include "codec/format/base.h"
#include "filter/plugin/h5z_terp.h"

/* The types that are compressed, by the variables that hold them in HDF5. */
static const struct {
    const char *variable;
    enum terp_type type;
    bool big_endian;
} float_types[] = {
    {"H5T_IEEE_F32LE_g", TERP_FLOAT32, false},
    {"H5T_IEEE_F64LE_g", TERP_FLOAT64, false},
    {"H5T_IEEE_F32BE_g", TERP_FLOAT32, true},
    {"H5T_IEEE_F64BE_g", TERP_FLOAT64, true},
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

/* Whether the values arrive here as they are in memory. */
static enum terp_pass
check_place(const struct terp_host *host, hid_t dcpl)
{
    H5Z_filter_t (*get_filter)(hid_t, unsigned, unsigned *, size_t *,
                               unsigned *, size_t, char *, unsigned *);
    unsigned flags, config;
    size_t nwords = 0;

    if (!terp_host_find(host, "H5Pget_filter2", &get_filter))
        return TERP_PASS_UNKNOWN_LAYOUT;
    H5Z_filter_t first =
        get_filter(dcpl, 0, &flags, &nwords, NULL, 0, NULL, &config);
    return first == H5Z_FILTER_TERP ? TERP_PASS_NONE : TERP_PASS_NOT_FIRST;
}

/* Compared as a whole: a program that is linked with libhdf5.a lacks the
 * functions that tell a type's parts unless it calls them itself. */
static enum terp_pass
read_type(const struct terp_host *host, hid_t type, enum terp_type *type_ret,
          bool *big_endian_ret)
{
    H5T_class_t (*get_class)(hid_t);
    htri_t (*is_equal)(hid_t, hid_t);
    hid_t known;

    if (!terp_host_find(host, "H5Tget_class", &get_class) ||
        !terp_host_find(host, "H5Tequal", &is_equal))
        return TERP_PASS_UNKNOWN_LAYOUT;
    H5T_class_t class = get_class(type);
    if (class == H5T_NO_CLASS)
        return TERP_PASS_UNKNOWN_LAYOUT;
    if (class != H5T_FLOAT)
        return TERP_PASS_NOT_FLOAT;
    for (size_t i = 0; i < sizeof float_types / sizeof *float_types; i++) {
        if (!terp_host_find_id(host, float_types[i].variable, &known))
            return TERP_PASS_UNKNOWN_LAYOUT;
        if (is_equal(type, known) > 0) {
            *type_ret = float_types[i].type;
            *big_endian_ret = float_types[i].big_endian;
            return TERP_PASS_NONE;
        }
    }
    return TERP_PASS_FLOAT_FORMAT;
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

/* Takes over the fill value that the user has set. HDF5's own default, 0,
 * is a value like any other. */
static void
read_fill(const struct terp_host *host, hid_t dcpl, hid_t type,
          struct terp_cd *cd)
{
    herr_t (*get_status)(hid_t, H5D_fill_value_t *);
    herr_t (*get_fill)(hid_t, hid_t, void *);
    H5D_fill_value_t status;
    uint8_t fill[8];
    int nbytes = cd->chunk.type == TERP_FLOAT32 ? 4 : 8;

    if (!terp_host_find(host, "H5Pfill_value_defined", &get_status) ||
        !terp_host_find(host, "H5Pget_fill_value", &get_fill) ||
        get_status(dcpl, &status) < 0 ||
        status != H5D_FILL_VALUE_USER_DEFINED || get_fill(dcpl, type, fill) < 0)
        return;
    cd->params.has_fill = true;
    for (int i = 0; i < nbytes; i++) {
        uint8_t byte = fill[cd->chunk.big_endian ? nbytes - 1 - i : i];
        cd->params.fill_bits |= (uint64_t)byte << 8 * i;
    }
}

bool
terp_dataset_describe(const struct terp_host *host, hid_t dcpl, hid_t type,
                      hid_t space, struct terp_cd *cd)
{
    enum terp_type value_type = TERP_BYTES;
    bool big_endian = false, fits = true;
    uint64_t dims[H5S_MAX_RANK];
    int ndims = 0;

    /* What the words say of another dataset is not true of this one. */
    memset(&cd->chunk, 0, sizeof cd->chunk);
    cd->params.has_fill = false;
    cd->params.fill_bits = 0;

    cd->pass = check_place(host, dcpl);
    if (cd->pass == TERP_PASS_NONE)
        cd->pass = read_type(host, type, &value_type, &big_endian);
    if (cd->pass == TERP_PASS_NONE) {
        ndims = read_dims(host, space, dims);
        if (ndims < 0)
            cd->pass = TERP_PASS_UNKNOWN_LAYOUT;
    }
    if (cd->pass == TERP_PASS_NONE)
        fits = terp_cd_apply_dims(cd, value_type, big_endian, ndims, dims);
    if (cd->pass == TERP_PASS_NONE)
        read_fill(host, dcpl, type, cd);
    return fits;
}

const char *
terp_pass_text(enum terp_pass pass)
{
    static const char *const texts[] = {
        [TERP_PASS_NONE] = "it is compressed",
        [TERP_PASS_NOT_FLOAT] = "the type is not a floating-point number",
        [TERP_PASS_FLOAT_FORMAT] =
            "the floating-point type is neither IEEE binary32 nor binary64",
        [TERP_PASS_UNKNOWN_LAYOUT] =
            "HDF5 has not told the type and the dims of the chunk",
        [TERP_PASS_TOO_LARGE] = "the chunk is too large",
        [TERP_PASS_NOT_FIRST] = "another filter comes before terp"};
    return texts[pass];
}
