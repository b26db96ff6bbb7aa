/* Reads a dataset's filters, chunk options and fill value. */
#include "filter/dcpl.h"

#include <string.h>

#include "codec/format/base.h"
#include "filter/plugin/h5z_terp.h"

const char *
terp_dcpl_read_streams(const struct terp_host *host, hid_t dcpl,
                       struct terp_cd *cd_ret)
{
    H5D_layout_t (*get_layout)(hid_t);
    int (*count_filters)(hid_t);
    H5Z_filter_t (*get_filter)(hid_t, unsigned, unsigned *, size_t *,
                               unsigned *, size_t, char *, unsigned *);
    herr_t (*get_chunk_opts)(hid_t, unsigned *);
    unsigned words[TERP_CD_MAX_NWORDS], flags, options;
    size_t nwords = TERP_CD_MAX_NWORDS;

    if (!terp_host_find(host, "H5Pget_layout", &get_layout) ||
        !terp_host_find(host, "H5Pget_nfilters", &count_filters) ||
        !terp_host_find(host, "H5Pget_filter2", &get_filter) ||
        !terp_host_find(host, "H5Pget_chunk_opts", &get_chunk_opts))
        return "HDF5 does not tell how the dataset is stored";
    if (get_layout(dcpl) != H5D_CHUNKED)
        return "the dataset has no chunks";
    const int nfilters = count_filters(dcpl);
    if (nfilters < 1 || get_filter(dcpl, 0, &flags, &nwords, words, 0, NULL,
                                   NULL) != H5Z_FILTER_TERP)
        return "the dataset's first filter is not terp";
    if (nfilters > 1)
        return "the dataset has other filters beside terp";
    if (get_chunk_opts(dcpl, &options) < 0 ||
        (options & H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS) != 0)
        return "the dataset's partial chunks are not filtered";
    nwords = min_u64(nwords, TERP_CD_MAX_NWORDS);
    if (terp_cd_parse(nwords, words, cd_ret, NULL) != TERP_OK ||
        !cd_ret->persisted || !terp_cd_is_coded(cd_ret))
        return "the dataset's values pass through terp uncompressed";
    return cd_ret->pass == TERP_PASS_BY_MEMBER
               ? "the dataset's values are coded by member"
               : NULL;
}

bool
terp_dcpl_read_padding(const struct terp_host *host, hid_t dcpl, hid_t type,
                       uint8_t pad_ret[TERP_DCPL_PAD_NBYTES])
{
    herr_t (*get_status)(hid_t, H5D_fill_value_t *);
    herr_t (*get_time)(hid_t, H5D_fill_time_t *);
    herr_t (*get_fill)(hid_t, hid_t, void *);
    H5D_fill_value_t status;
    H5D_fill_time_t when;

    memset(pad_ret, 0, TERP_DCPL_PAD_NBYTES);
    if (!terp_host_find(host, "H5Pfill_value_defined", &get_status) ||
        !terp_host_find(host, "H5Pget_fill_time", &get_time) ||
        !terp_host_find(host, "H5Pget_fill_value", &get_fill) ||
        get_status(dcpl, &status) < 0 || get_time(dcpl, &when) < 0)
        return false;
    return status == H5D_FILL_VALUE_UNDEFINED || when == H5D_FILL_TIME_NEVER ||
           get_fill(dcpl, type, pad_ret) >= 0;
}
