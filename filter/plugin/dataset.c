/* Turns HDF5's description of a new dataset into parameters of terp. */
#include "filter/plugin/dataset.h"

#include "codec/api/context.h"
#include "codec/format/types.h"
#include "filter/members.h"
#include "filter/plugin/h5z_terp.h"
#include "filter/plugin/pipeline.h"
#include "filter/types.h"

bool
terp_dataset_get_words(const struct terp_host *host, hid_t dcpl,
                       unsigned *flags_ret, size_t *nwords_ret,
                       unsigned *words_ret)
{
    herr_t (*get_filter)(hid_t, H5Z_filter_t, unsigned *, size_t *, unsigned *,
                         size_t, char *, unsigned *);

    *nwords_ret = TERP_CD_MAX_NWORDS;
    /* HDF5 passes -1 for every id when the chunk is a group's heap. */
    if (dcpl < 0 ||
        !terp_host_find(host, "H5Pget_filter_by_id2", &get_filter) ||
        get_filter(dcpl, H5Z_FILTER_TERP, flags_ret, nwords_ret, words_ret, 0,
                   NULL, NULL) < 0)
        return false;
    /* HDF5 returns the full number, even where it copied fewer words. */
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

/* The rank; negative where the host does not tell. */
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

/* The bits of a value's real or imaginary part, from the file's byte order. */
static uint64_t
bits_of_part(const uint8_t *bytes, int nbytes, bool big_endian)
{
    uint64_t bits = 0;

    for (int i = 0; i < nbytes; i++)
        bits |= (uint64_t)bytes[big_endian ? nbytes - 1 - i : i] << 8 * i;
    return bits;
}

/* Takes over a fill value that the user has set. HDF5's default, 0, is coded
 * like any other value, and so is a complex fill value whose parts differ. */
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

/* Whether chunks may be what terp 1 does not read. */
static bool
may_be_new(const struct terp_params *params)
{
    struct terp_params own;

    return terp_params_copy(params, &own) && own.format != 1;
}

bool
terp_dataset_describe(const struct terp_host *host, hid_t dcpl, hid_t type,
                      hid_t space, struct terp_cd *cd, bool *unmatched_ret)
{
    struct terp_number number = {TERP_BYTES, false};
    bool fits = true;
    uint64_t dims[H5S_MAX_RANK];
    char in_the_way[TERP_PIPELINE_NAME_NBYTES];
    int ndims = 0;

    /* The words may be copied from another dataset. */
    memset(&cd->chunk, 0, sizeof cd->chunk);
    cd->params.has_fill = false;
    cd->params.fill_bits = 0;
    *unmatched_ret = false;

    cd->pass = terp_pipeline_check(host, dcpl, in_the_way);
    if (cd->pass == TERP_PASS_NONE)
        cd->pass = terp_number_read(host, type, &number);
    if (cd->pass == TERP_PASS_NOT_NUMBER && may_be_new(&cd->params))
        cd->pass = terp_members_read(host, type, cd, unmatched_ret);
    if (terp_cd_is_coded(cd)) {
        ndims = read_dims(host, space, dims);
        if (ndims < 0)
            cd->pass = TERP_PASS_UNKNOWN_LAYOUT;
    }
    if (cd->pass == TERP_PASS_BY_MEMBER)
        terp_cd_apply_compound(cd, ndims, dims);
    if (cd->pass == TERP_PASS_NONE)
        fits =
            terp_cd_apply_dims(cd, number.type, number.big_endian, ndims, dims);
    if (cd->pass == TERP_PASS_NONE)
        read_fill(host, dcpl, type, cd);
    return fits;
}

const char *
terp_pass_text(enum terp_pass pass)
{
    static const char *const texts[] = {
        [TERP_PASS_NONE] = "it is compressed",
        [TERP_PASS_NOT_NUMBER] = "terp does not compress values of this type",
        [TERP_PASS_FLOAT_FORMAT] =
            "the float is not IEEE binary16, binary32, binary64 or bfloat16",
        [TERP_PASS_UNKNOWN_LAYOUT] =
            "HDF5 does not tell the type and the dims of the chunk",
        [TERP_PASS_TOO_LARGE] = "the chunk is too large",
        [TERP_PASS_NOT_FIRST] = "another filter comes before terp",
        [TERP_PASS_BEHIND] =
            "a filter after terp does not preserve the bytes of streams",
        [TERP_PASS_BY_MEMBER] = "it is compressed by member"};
    return texts[pass];
}
