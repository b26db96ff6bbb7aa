/* terp as a codec of NCZarr, netCDF-C's way to read and write Zarr stores.
 *
 * netCDF (4.9 and later) opens every library in the folders of plugins. A
 * library that exports NCZ_get_codec_info translates between a filter's JSON in
 * the store and its cd_values; netCDF then calls the HDF5 filter for each
 * chunk. netCDF does not call set_local, so the codec does the same work: it
 * asks netCDF for the variable's type, chunk and fill value.
 *
 * The functions of netCDF are looked up in the library that calls, as those of
 * HDF5 are (host.h): a process may hold several libnetcdf. So the plugin is
 * linked to none, and is built without netCDF's headers. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/format/types.h"
#include "filter/plugin/call.h"
#include "filter/plugin/h5z_terp.h"
#include "filter/plugin/overwrite.h"
#include "filter/plugin/zarr_json.h"

/* netCDF's numbers of results, types and layouts. */
enum {
    NETCDF_OK = 0,
    NETCDF_NO_MEMORY = -61,
    NETCDF_FILTER_ERROR = -132
};

enum {
    NETCDF_CHUNKED = 0,
    NETCDF_BIG_ENDIAN = 2
};

/* The codec's description, of version 1: NCZ_codec_t of netCDF's header
 * netcdf_filter_build.h, against which test_nczarr_abi.c checks it. */
struct terp_nczarr_codec {
    int version, sort;
    const char *codec_id;
    unsigned filter_id;
    void (*initialize)(void);
    void (*finalize)(void);
    int (*read_json)(const char *json, size_t *nwords_ret,
                     unsigned **words_ret);
    int (*write_json)(size_t nwords, const unsigned *words, char **json_ret);
    int (*modify)(int ncid, int varid, size_t *nwords, unsigned **words,
                  size_t *nworking, unsigned **working);
};

/* netCDF shows its users no reason, only "Filter error". */
static int
refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

static int
refuse(const char *format, ...)
{
    char text[256];
    va_list arguments;

    va_start(arguments, format);
    /* clang-tidy loses track in a file that is built more than once. */
    /* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized) */
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (terp_verbosity() != TERP_VERBOSITY_QUIET)
        fprintf(stderr, "H5Z-TERP: NCZarr: %s\n", text);
    return NETCDF_FILTER_ERROR;
}

/* A copy that netCDF frees. NULL for no words, and where memory is missing. */
static unsigned *
copy_words(const unsigned *words, size_t nwords)
{
    unsigned *copy = nwords == 0 ? NULL : malloc(nwords * sizeof *words);

    if (copy != NULL)
        memcpy(copy, words, nwords * sizeof *words);
    return copy;
}

static int
read_json(const char *json, size_t *nwords_ret, unsigned **words_ret)
{
    unsigned words[TERP_CD_MAX_NWORDS];
    const char *reason;
    size_t nwords;

    *nwords_ret = 0;
    *words_ret = NULL;
    if (!terp_zarr_json_read(json, words, &nwords, &reason))
        return refuse("the configuration %.120s is not valid: %s", json,
                      reason);
    *words_ret = copy_words(words, nwords);
    if (nwords > 0 && *words_ret == NULL)
        return NETCDF_NO_MEMORY;
    *nwords_ret = nwords;
    return NETCDF_OK;
}

static int
write_json(size_t nwords, const unsigned *words, char **json_ret)
{
    char json[TERP_ZARR_JSON_NBYTES];
    const char *reason;
    struct terp_cd cd;

    *json_ret = NULL;
    if (terp_cd_parse(nwords, words, &cd, &reason) != TERP_OK)
        return refuse("%s", reason);
    terp_zarr_json_write(&cd, json);
    *json_ret = malloc(strlen(json) + 1);
    if (*json_ret == NULL)
        return NETCDF_NO_MEMORY;
    strcpy(*json_ret, json);
    return NETCDF_OK;
}

/* ---- the variable ---- */

/* Functions of the netCDF library that called. */
struct calls {
    int (*inq_var)(int, int, char *, int *, int *, int *, int *);
    int (*inq_var_chunking)(int, int, int *, size_t *);
    int (*inq_var_endian)(int, int, int *);
    int (*inq_var_fill)(int, int, int *, void *);
    int (*inq_att)(int, int, const char *, int *, size_t *);
    int (*get_att_double)(int, int, const char *, double *);
};

static bool
find_functions(const struct terp_host *host, struct calls *calls)
{
    return terp_host_find(host, "nc_inq_var", &calls->inq_var) &&
           terp_host_find(host, "nc_inq_var_chunking",
                          &calls->inq_var_chunking) &&
           terp_host_find(host, "nc_inq_var_endian", &calls->inq_var_endian) &&
           terp_host_find(host, "nc_inq_var_fill", &calls->inq_var_fill) &&
           terp_host_find(host, "nc_inq_att", &calls->inq_att) &&
           terp_host_find(host, "nc_get_att_double", &calls->get_att_double);
}

/* Types of netCDF, by their numbers. TERP_BYTES: terp does not compress them.
 */
static enum terp_type
type_of(int netcdf_type)
{
    static const enum terp_type types[] = {
        [1] = TERP_INT8,    [3] = TERP_INT16,   [4] = TERP_INT32,
        [5] = TERP_FLOAT32, [6] = TERP_FLOAT64, [7] = TERP_UINT8,
        [8] = TERP_UINT16,  [9] = TERP_UINT32,  [10] = TERP_INT64,
        [11] = TERP_UINT64};
    const int is_text = 2;

    if (netcdf_type < 1 || netcdf_type == is_text ||
        netcdf_type >= (int)(sizeof types / sizeof *types))
        return TERP_BYTES;
    return types[netcdf_type];
}

/* A fill value other than zero stays exact, as in Zarr's codec. netCDF returns
 * it in the host's byte order. */
static int
read_fill(const struct calls *calls, int ncid, int varid, struct terp_cd *cd)
{
    uint64_t bits = 0;
    int has_no_fill = 1;
    const int nbytes = terp_part_nbytes(cd->chunk.type);
    unsigned char value[sizeof bits] = {0};

    const int result = calls->inq_var_fill(ncid, varid, &has_no_fill, value);
    if (result != NETCDF_OK || has_no_fill)
        return result;
    const uint16_t one = 1;
    const bool is_little = *(const unsigned char *)&one == 1;
    for (int i = 0; i < nbytes; i++)
        bits |= (uint64_t)value[is_little ? i : nbytes - 1 - i] << 8 * i;
    cd->params.has_fill = bits != 0;
    cd->params.fill_bits = bits;
    return NETCDF_OK;
}

/* Where cd_values have no missing value, takes it from the variable's attribute
 * `missing_value`, as `terp repack` does. */
static void
read_missing(const struct calls *calls, int ncid, int varid, struct terp_cd *cd)
{
    static const char name[] = "missing_value";
    double missing = 0;
    size_t length = 0;
    int type = 0;

    if (cd->has_missing)
        return;
    cd->has_missing =
        calls->inq_att(ncid, varid, name, &type, &length) == NETCDF_OK &&
        length == 1 && type_of(type) != TERP_BYTES &&
        calls->get_att_double(ncid, varid, name, &missing) == NETCDF_OK;
    cd->missing = missing;
}

/* Fills pass, chunk, fill value and missing value of `cd`. */
static int
describe(const struct calls *calls, int ncid, int varid, struct terp_cd *cd)
{
    int type, rank, layout, order = 0;

    memset(&cd->chunk, 0, sizeof cd->chunk);
    cd->params.has_fill = false;
    cd->params.fill_bits = 0;
    int result = calls->inq_var(ncid, varid, NULL, &type, &rank, NULL, NULL);
    if (result != NETCDF_OK || rank < 0)
        return result;
    size_t *sizes = calloc((size_t)rank + 1, sizeof *sizes);
    uint64_t *dims = calloc((size_t)rank + 1, sizeof *dims);
    if (sizes == NULL || dims == NULL)
        result = NETCDF_NO_MEMORY;
    if (result == NETCDF_OK)
        result = calls->inq_var_chunking(ncid, varid, &layout, sizes);
    if (result == NETCDF_OK)
        result = calls->inq_var_endian(ncid, varid, &order);
    if (result == NETCDF_OK && type_of(type) == TERP_BYTES)
        cd->pass = TERP_PASS_NOT_NUMBER;
    else if (result == NETCDF_OK && (layout != NETCDF_CHUNKED || rank == 0))
        cd->pass = TERP_PASS_UNKNOWN_LAYOUT;
    else if (result == NETCDF_OK) {
        for (int i = 0; i < rank; i++)
            dims[i] = sizes[i];
        /* A byte has no order. */
        const bool is_big =
            order == NETCDF_BIG_ENDIAN && terp_part_nbytes(type_of(type)) > 1;
        (void)terp_cd_apply_dims(cd, type_of(type), is_big, rank, dims);
    }
    free(sizes);
    free(dims);
    if (result != NETCDF_OK || cd->pass != TERP_PASS_NONE)
        return result;
    read_missing(calls, ncid, varid, cd);
    return read_fill(calls, ncid, varid, cd);
}

/* Makes the cd_values for the filter's calls. netCDF keeps `words` as the
 * parameters that users see. */
static int
modify(int ncid, int varid, size_t *nwords, unsigned **words, size_t *nworking,
       unsigned **working)
{
    unsigned persisted[TERP_CD_MAX_NWORDS + TERP_OVERWRITE_NWORDS];
    const char *reason;
    struct terp_host host;
    struct calls calls;
    struct terp_cd cd;

    if (terp_cd_parse(*nwords, *words, &cd, &reason) != TERP_OK)
        return refuse("%s", reason);
    terp_host_open(__builtin_return_address(0), &host);
    int result = find_functions(&host, &calls)
                     ? describe(&calls, ncid, varid, &cd)
                     : refuse("%s has no functions of netCDF", host.path);
    terp_host_close(&host);
    if (result != NETCDF_OK)
        return result;
    size_t n = terp_cd_persist(&cd, persisted);
    terp_overwrite_mark(persisted + n);
    n += TERP_OVERWRITE_NWORDS;
    unsigned *copy = copy_words(persisted, n);
    if (copy == NULL)
        return NETCDF_NO_MEMORY;
    free(*working);
    *working = copy;
    *nworking = n;
    return NETCDF_OK;
}

static const struct terp_nczarr_codec codec = {
    .version = 1,
    .sort = 1, /* the codec of an HDF5 filter */
    .codec_id = "terp",
    .filter_id = H5Z_FILTER_TERP,
    .read_json = read_json,
    .write_json = write_json,
    .modify = modify,
};

#define EXPORT __attribute__((visibility("default")))

#ifndef TERP_LINKED
EXPORT const void *
NCZ_get_codec_info(void);

EXPORT const void *
NCZ_get_codec_info(void)
{
    return &codec;
}
#else
/* The connector lies in the same folder. netCDF reports an error for a plugin
 * that is no filter, and then reads no filter at all, except where the library
 * exports this list of codecs. netCDF uses the list only for filters without a
 * codec of their own. */
EXPORT const void *
NCZ_codec_info_defaults(void);

EXPORT const void *
NCZ_codec_info_defaults(void)
{
    static const struct terp_nczarr_codec *const codecs[] = {&codec, NULL};

    return codecs;
}
#endif
