/* Reads datasets, their stored chunks, and boxes of their values. */
#include "tools/common/h5file.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "codec/format/base.h"
#include "codec/format/types.h"
#include "codec/model/bound.h"
#include "filter/plugin/h5z_terp.h"
#include "filter/types.h"
#include "tools/common/attribute.h"
#include "tools/common/range.h"
#include "tools/common/text.h"

#define FLETCHER32_NBYTES 4

/* Size of HDF5's chunk cache. A few large chunks fit: a chunk that several
 * boxes touch is then decompressed once. Chunks of two files need not align. */
#define CHUNK_CACHE_NBYTES ((size_t)64 << 20)

/* Why a file of this kind cannot be HDF5, else NULL. Opening a pipe would wait
 * for another program. */
static const char *
kind_obstacle(mode_t mode)
{
    return S_ISREG(mode)   ? NULL
           : S_ISDIR(mode) ? "this is a directory; give a file"
                           : "not a regular file";
}

hid_t
tool_file_try(const char *path, char *reason_ret, size_t reason_cap)
{
    struct stat found;
    const char *obstacle = NULL;
    hid_t file;

    tool_hdf5_quiet();
    if (stat(path, &found) != 0)
        obstacle = strerror(errno);
    else
        obstacle = kind_obstacle(found.st_mode);
    FILE *probe = obstacle == NULL ? fopen(path, "rb") : NULL;
    if (obstacle == NULL && probe == NULL)
        obstacle = strerror(errno);
    if (probe != NULL)
        fclose(probe);
    if (obstacle == NULL && H5Fis_hdf5(path) <= 0)
        obstacle = "not an HDF5 file";
    if (obstacle != NULL) {
        snprintf(reason_ret, reason_cap, "%s", obstacle);
        return -1;
    }
    file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    if (file < 0)
        tool_hdf5_reason(reason_ret, reason_cap);
    return file;
}

hid_t
tool_file_open(const char *command, const char *path)
{
    char reason[256];
    const hid_t file = tool_file_try(path, reason, sizeof reason);

    if (file < 0)
        fprintf(stderr, "terp %s: %s: %s\n", command, tool_shown(path),
                tool_shown(reason));
    return file;
}

void
tool_close(hid_t id)
{
    if (id >= 0)
        H5Idec_ref(id);
}

/* Reads terp's parameters, and the positions of filters. */
static void
read_pipeline(struct tool_dataset *dataset)
{
    dataset->nfilters = H5Pget_nfilters(dataset->dcpl);
    for (int i = 0; i < dataset->nfilters; i++) {
        unsigned words[TERP_CD_MAX_NWORDS] = {0}, flags, config;
        size_t nwords = TERP_CD_MAX_NWORDS;
        H5Z_filter_t filter = H5Pget_filter2(dataset->dcpl, (unsigned)i, &flags,
                                             &nwords, words, 0, NULL, &config);
        if (filter == H5Z_FILTER_FLETCHER32)
            dataset->fletcher_mask |= 1u << i;
        if (filter == H5Z_FILTER_SHUFFLE)
            dataset->shuffle_mask |= 1u << i;
        if (filter == H5Z_FILTER_TERP && !dataset->has_terp) {
            dataset->has_terp = true;
            dataset->terp_mask = 1u << i;
            dataset->params_error = NULL;
            terp_cd_parse(min_u64(nwords, TERP_CD_MAX_NWORDS), words,
                          &dataset->cd, &dataset->params_error);
            if (*dataset->params_error == '\0')
                dataset->params_error = NULL;
            continue;
        }
        if (dataset->has_terp && filter != H5Z_FILTER_FLETCHER32)
            dataset->unseen_mask |= 1u << i;
    }
}

/* Reports a failure through HDF5's error stack and its error callback. */
static void
fail_as_hdf5(const char *reason)
{
    H5E_auto2_t report = NULL;
    void *context = NULL;

    H5Eclear2(H5E_DEFAULT);
    H5Eget_auto2(H5E_DEFAULT, &report, &context);
    H5Epush2(H5E_DEFAULT, "h5file.c", "tool_dataset_of", __LINE__, H5E_ERR_CLS,
             H5E_DATASPACE, H5E_BADRANGE, "%s", reason);
    if (report != NULL)
        (void)report(H5E_DEFAULT, context);
}

/* Whether the size of all values in bytes fits into 63 bits: HDF5 1.10 does not
 * check. */
static bool
has_size(const struct tool_dataset *dataset)
{
    uint64_t nleft = INT64_MAX / dataset->value_nbytes;

    for (int i = 0; i < dataset->rank; i++)
        if (dataset->dims[i] == 0)
            return true;
    for (int i = 0; i < dataset->rank; i++)
        nleft /= dataset->dims[i];
    return nleft > 0;
}

/* Whether HDF5 writes no fill value where nothing was written. */
static bool
leaves_gaps(hid_t dcpl)
{
    H5D_fill_value_t status;
    H5D_fill_time_t when;

    return H5Pfill_value_defined(dcpl, &status) < 0 ||
           H5Pget_fill_time(dcpl, &when) < 0 ||
           status == H5D_FILL_VALUE_UNDEFINED || when == H5D_FILL_TIME_NEVER;
}

bool
tool_dataset_of(hid_t id, struct tool_dataset *dataset_ret)
{
    struct tool_dataset dataset = {.id = id};
    unsigned options = 0;

    H5Iinc_ref(id);
    dataset.type = H5Dget_type(id);
    dataset.space = dataset.type < 0 ? -1 : H5Dget_space(id);
    dataset.dcpl = dataset.space < 0 ? -1 : H5Dget_create_plist(id);
    if (dataset.dcpl < 0) {
        hid_t errors = tool_hdf5_hold();
        tool_dataset_close(&dataset);
        tool_hdf5_release(errors);
        return false;
    }
    dataset.value_nbytes = H5Tget_size(dataset.type);
    dataset.has_addresses = tool_type_has_addresses(dataset.type);
    dataset.rank = H5Sget_simple_extent_dims(dataset.space, dataset.dims, NULL);
    if (!has_size(&dataset)) {
        tool_dataset_close(&dataset);
        fail_as_hdf5("it claims too many values");
        return false;
    }
    dataset.nvalues = (uint64_t)H5Sget_simple_extent_npoints(dataset.space);
    dataset.chunked = H5Pget_layout(dataset.dcpl) == H5D_CHUNKED;
    if (dataset.chunked) {
        H5Pget_chunk(dataset.dcpl, H5S_MAX_RANK, dataset.chunk_dims);
        H5Pget_chunk_opts(dataset.dcpl, &options);
        dataset.edges_unfiltered =
            options & H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS;
        read_pipeline(&dataset);
    }
    dataset.leaves_gaps = leaves_gaps(dataset.dcpl);
    dataset.chunk_nbytes = dataset.value_nbytes;
    for (int i = 0; dataset.chunked && i < dataset.rank; i++)
        dataset.chunk_nbytes *= dataset.chunk_dims[i];
    *dataset_ret = dataset;
    return true;
}

bool
tool_dataset_open(hid_t file, const char *path,
                  struct tool_dataset *dataset_ret)
{
    hid_t dapl = H5Pcreate(H5P_DATASET_ACCESS);

    H5Pset_chunk_cache(dapl, H5D_CHUNK_CACHE_NSLOTS_DEFAULT, CHUNK_CACHE_NBYTES,
                       H5D_CHUNK_CACHE_W0_DEFAULT);
    hid_t id = H5Dopen2(file, path, dapl);
    bool ok = id >= 0 && tool_dataset_of(id, dataset_ret);
    /* Keep HDF5's reason. */
    hid_t errors = ok ? -1 : tool_hdf5_hold();

    tool_close(id);
    H5Pclose(dapl);
    tool_hdf5_release(errors);
    return ok;
}

void
tool_dataset_close(struct tool_dataset *dataset)
{
    tool_close(dataset->type);
    tool_close(dataset->space);
    tool_close(dataset->dcpl);
    tool_close(dataset->id);
}

/* H5Pall_filters_avail of HDF5 1.10 does not look for plugins. */
bool
tool_has_filters(const struct tool_dataset *dataset)
{
    const int nfilters = H5Pget_nfilters(dataset->dcpl);
    unsigned flags, config;

    for (int i = 0; i < nfilters; i++) {
        size_t nwords = 0;
        const H5Z_filter_t filter =
            H5Pget_filter2(dataset->dcpl, (unsigned)i, &flags, &nwords, NULL, 0,
                           NULL, &config);
        if (H5Zfilter_avail(filter) <= 0)
            return false;
    }
    return true;
}

struct tool_grid
tool_grid_of(const struct tool_dataset *dataset, const hsize_t *step)
{
    struct tool_grid grid = {.rank = dataset->rank};

    memcpy(grid.dims, dataset->dims, sizeof grid.dims);
    memcpy(grid.step, step, sizeof grid.step);
    return grid;
}

uint64_t
tool_grid_cap(const struct tool_grid *grid)
{
    uint64_t nvalues = 1;

    for (int i = 0; i < grid->rank; i++)
        nvalues *= min_u64(grid->step[i], grid->dims[i]);
    return nvalues;
}

uint64_t
tool_grid_nboxes(const struct tool_grid *grid)
{
    uint64_t nboxes = 1;

    for (int i = 0; i < grid->rank; i++)
        nboxes *= div_up(grid->dims[i], grid->step[i]);
    return nboxes;
}

bool
tool_grid_next(struct tool_grid *grid)
{
    uint64_t left = grid->next;

    grid->nvalues = 1;
    for (int i = grid->rank - 1; i >= 0; i--) {
        uint64_t nboxes = div_up(grid->dims[i], grid->step[i]);
        if (nboxes == 0)
            return false;
        grid->at[i] = left % nboxes * grid->step[i];
        grid->count[i] = min_u64(grid->step[i], grid->dims[i] - grid->at[i]);
        grid->nvalues *= grid->count[i];
        left /= nboxes;
    }
    grid->next += left == 0;
    return left == 0;
}

void
tool_selection_text(const struct tool_grid *box,
                    char text_ret[TOOL_MAX_SELECTION_NBYTES])
{
    size_t at = 0;

    text_ret[0] = '\0';
    for (int i = 0; i < box->rank; i++)
        at += (size_t)snprintf(text_ret + at, TOOL_MAX_SELECTION_NBYTES - at,
                               "%s%" PRIu64 ":%" PRIu64, i == 0 ? "" : ", ",
                               (uint64_t)box->at[i],
                               (uint64_t)(box->at[i] + box->count[i]));
}

enum terp_type
tool_coded_type(hid_t type)
{
    struct terp_host host;
    struct terp_number number;

    terp_host_open(NULL, &host);
    return terp_number_read(&host, type, &number) == TERP_PASS_NONE
               ? number.type
               : TERP_BYTES;
}

enum terp_type
tool_type(hid_t type)
{
    const enum terp_type coded = tool_coded_type(type);

    return terp_type_is_plain(coded) ? coded : TERP_BYTES;
}

static bool
any_member_has_addresses(hid_t type)
{
    const int nmembers = H5Tget_nmembers(type);
    bool found = false;

    for (int i = 0; !found && i < nmembers; i++) {
        hid_t member = H5Tget_member_type(type, (unsigned)i);
        found = tool_type_has_addresses(member);
        tool_close(member);
    }
    return found;
}

bool
tool_type_has_addresses(hid_t type)
{
    hid_t super;
    bool found;

    switch (H5Tget_class(type)) {
    case H5T_VLEN:
    case H5T_REFERENCE:
        return true;
    case H5T_STRING:
        return H5Tis_variable_str(type) > 0;
    case H5T_COMPOUND:
        return any_member_has_addresses(type);
    case H5T_ARRAY:
        super = H5Tget_super(type);
        found = tool_type_has_addresses(super);
        tool_close(super);
        return found;
    default:
        return false;
    }
}

bool
tool_is_lossless(const struct tool_dataset *dataset)
{
    const enum terp_type type = tool_coded_type(dataset->type);
    const struct terp_params params =
        terp_params_of_type(type, &dataset->cd.params);

    if (dataset->has_terp && dataset->params_error == NULL &&
        dataset->cd.pass == TERP_PASS_BY_MEMBER)
        return !terp_cd_may_lose(&dataset->cd);
    return dataset->has_terp && dataset->params_error == NULL &&
           (dataset->cd.pass != TERP_PASS_NONE || type == TERP_BYTES ||
            terp_is_lossless(&params) ||
            (terp_type_is_integer(type) &&
             (params.bound_mode != TERP_BOUND_ABSOLUTE || params.bound < 1)));
}

bool
tool_fill_bits(const struct tool_dataset *dataset, bool wide,
               uint64_t *bits_ret)
{
    H5D_fill_value_t defined;

    *bits_ret = 0;
    return H5Pfill_value_defined(dataset->dcpl, &defined) >= 0 &&
           defined == H5D_FILL_VALUE_USER_DEFINED &&
           H5Pget_fill_value(dataset->dcpl,
                             wide ? H5T_NATIVE_DOUBLE : H5T_NATIVE_FLOAT,
                             bits_ret) >= 0;
}

/* Adds an attribute's values to the ones found before. */
static int
add_missing(hid_t dataset, const char *name, bool wide, int nvalues,
            double *values)
{
    double found[TOOL_MAX_NMISSING];
    const int n =
        tool_attribute_numbers(dataset, name, TOOL_MAX_NMISSING, found);

    for (int i = 0; i < n && nvalues < TOOL_MAX_NMISSING; i++) {
        const double value = wide ? found[i] : (double)(float)found[i];
        bool known = !isfinite(value); /* special anyway */
        for (int j = 0; j < nvalues; j++)
            known |= values[j] == value;
        if (!known)
            values[nvalues++] = value;
    }
    return nvalues;
}

int
tool_missing_values(const struct tool_dataset *dataset, bool wide,
                    double values_ret[TOOL_MAX_NMISSING])
{
    static const char *const names[] = {"_FillValue", "missing_value"};
    int nvalues = 0;

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        nvalues = add_missing(dataset->id, names[i], wide, nvalues, values_ret);
    return nvalues;
}

bool
tool_second_fill(const struct tool_dataset *dataset, bool wide,
                 double *value_ret)
{
    double values[TOOL_MAX_NMISSING];
    uint64_t fill;
    const int nvalues = tool_missing_values(dataset, wide, values);
    const bool has_fill = tool_fill_bits(dataset, wide, &fill);

    for (int i = 0; i < nvalues; i++)
        if (!has_fill || values[i] != tool_value_at(wide, &fill, 0)) {
            *value_ret = values[i];
            return true;
        }
    return false;
}

bool
tool_box_select(hid_t dataset, const struct tool_grid *box,
                const hsize_t *stride, hid_t *in_file_ret, hid_t *in_memory_ret)
{
    hid_t in_file = H5Dget_space(dataset);

    *in_file_ret = in_file;
    *in_memory_ret = box->rank > 0
                         ? H5Screate_simple(box->rank, box->count, NULL)
                         : H5Scopy(in_file);
    return in_file >= 0 && *in_memory_ret >= 0 &&
           (box->rank == 0 ||
            H5Sselect_hyperslab(in_file, H5S_SELECT_SET, box->at, stride,
                                box->count, NULL) >= 0);
}

void
tool_box_clear(const struct tool_dataset *dataset, hid_t type,
               const struct tool_grid *box, void *values)
{
    size_t nbytes = H5Tget_size(type);

    if (!dataset->leaves_gaps)
        return;
    for (int i = 0; i < box->rank; i++)
        nbytes *= box->count[i];
    memset(values, 0, nbytes);
}

bool
tool_box_read(const struct tool_dataset *dataset, hid_t type,
              const struct tool_grid *box, const hsize_t *stride, void *values)
{
    return tool_box_read_by(H5P_DEFAULT, dataset, type, box, stride, values);
}

bool
tool_box_read_by(hid_t dxpl, const struct tool_dataset *dataset, hid_t type,
                 const struct tool_grid *box, const hsize_t *stride,
                 void *values)
{
    hid_t in_file, in_memory;

    tool_box_clear(dataset, type, box, values);
    bool ok = tool_box_select(dataset->id, box, stride, &in_file, &in_memory) &&
              H5Dread(dataset->id, type, in_memory, in_file, dxpl, values) >= 0;
    /* Other calls would clear the error stack with the reason. */
    hid_t errors = ok ? -1 : tool_hdf5_hold();

    tool_close(in_file);
    tool_close(in_memory);
    tool_hdf5_release(errors);
    return ok;
}

void
tool_dataset_type_name(const struct tool_dataset *dataset, char *text_ret,
                       size_t text_cap)
{
    static const char *const classes[] = {
        "int",      "float",           "time",     "string",
        "bitfield", "opaque",          "compound", "reference",
        "enum",     "variable-length", "array"};
    H5T_class_t class = H5Tget_class(dataset->type);
    bool number = class == H5T_INTEGER || class == H5T_FLOAT;
    size_t nbits = 8 * dataset->value_nbytes;

    if (number)
        snprintf(text_ret, text_cap, "%s%s%s%zu",
                 nbits > 8 && H5Tget_order(dataset->type) == H5T_ORDER_BE
                     ? "big-endian "
                     : "",
                 class == H5T_INTEGER &&
                         H5Tget_sign(dataset->type) == H5T_SGN_NONE
                     ? "u"
                     : "",
                 classes[class], nbits);
    else if (class >= 0 && class <= H5T_ARRAY)
        snprintf(text_ret, text_cap, "%s", classes[class]);
    else
        snprintf(text_ret, text_cap, "unknown type");
}

static bool
is_cut(const struct tool_grid *grid)
{
    for (int i = 0; i < grid->rank; i++)
        if (grid->count[i] < grid->step[i])
            return true;
    return false;
}

/* For a chunk that was never written, and for one that cannot be found,
 * H5Dget_chunk_storage_size gives 0 or fails; its reason distinguishes them.
 * The alternative H5Dget_chunk_info_by_coord finds wrong chunks in extensible
 * arrays whose unlimited dim is not the first one, also in HDF5 1.14. */
bool
tool_chunk_is_absent(const struct tool_dataset *dataset,
                     const struct tool_grid *grid)
{
    char reason[256];
    hsize_t nbytes = 0;

    if (H5Dget_chunk_storage_size(dataset->id, grid->at, &nbytes) >= 0)
        return nbytes == 0;
    tool_hdf5_reason(reason, sizeof reason);
    return strcmp(reason, "chunk storage is not allocated") == 0 ||
           strcmp(reason, "chunk address isn't defined") == 0;
}

/* Size of the checksums at the end of a chunk. */
static uint64_t
checksums_nbytes(const struct tool_dataset *dataset, uint32_t unused_mask)
{
    uint64_t nbytes = 0;

    for (int i = dataset->nfilters - 1; i >= 0; i--) {
        if (unused_mask & 1u << i)
            continue;
        if (!(dataset->fletcher_mask & 1u << i))
            break;
        nbytes += FLETCHER32_NBYTES;
    }
    return nbytes;
}

/* Whether a chunk without terp can have this size. With shuffle and fletcher32
 * alone, it is the chunk's size and its checksums; other filters give any size.
 */
static bool
fits(const struct tool_dataset *dataset, uint32_t unused_mask, uint64_t nbytes)
{
    uint64_t expected = dataset->chunk_nbytes;

    if (dataset->has_addresses)
        return true; /* another size in the file */
    for (int i = 0; i < dataset->nfilters; i++) {
        const uint32_t bit = 1u << i;
        if (dataset->fletcher_mask & bit & ~unused_mask)
            expected += FLETCHER32_NBYTES;
        else if (!((dataset->shuffle_mask | unused_mask) & bit))
            return true;
    }
    return nbytes == expected;
}

void
tool_chunk_read(const struct tool_dataset *dataset,
                const struct tool_grid *grid, struct tool_chunk *chunk)
{
    hsize_t nbytes = 0;
    uint32_t mask;

    chunk->kind = TOOL_CHUNK_UNREADABLE;
    if (H5Dget_chunk_storage_size(dataset->id, grid->at, &nbytes) < 0 ||
        nbytes == 0) {
        if (tool_chunk_is_absent(dataset, grid))
            chunk->kind = TOOL_CHUNK_ABSENT;
        return;
    }
    chunk->nbytes = nbytes;
    if (dataset->nfilters == 0) {
        chunk->kind = TOOL_CHUNK_PLAIN;
        chunk->unused_mask = 0;
        return;
    }
    if (nbytes > chunk->cap_nbytes) {
        uint8_t *bytes = realloc(chunk->bytes, nbytes);
        if (bytes == NULL)
            return;
        chunk->bytes = bytes;
        chunk->cap_nbytes = nbytes;
    }
    if (H5Dread_chunk(dataset->id, H5P_DEFAULT, grid->at, &mask, chunk->bytes) <
        0)
        return;
    if (dataset->edges_unfiltered && is_cut(grid))
        mask = UINT32_MAX;
    /* HDF5 1.10 never returns if a chunk is shorter than its checksum. */
    const uint64_t checksums = checksums_nbytes(dataset, mask);
    if (nbytes < checksums)
        return;
    chunk->unused_mask = mask;
    if ((mask & dataset->terp_mask) || !dataset->has_terp)
        chunk->kind =
            fits(dataset, mask, nbytes) ? TOOL_CHUNK_PLAIN : TOOL_CHUNK_MISFIT;
    else if (dataset->unseen_mask & ~mask)
        chunk->kind = TOOL_CHUNK_HIDDEN;
    else {
        chunk->kind = TOOL_CHUNK_STREAM;
        chunk->nbytes -= checksums;
    }
}

void
tool_chunk_free(struct tool_chunk *chunk)
{
    free(chunk->bytes);
    memset(chunk, 0, sizeof *chunk);
}

bool
tool_stream_fits(const struct tool_dataset *dataset, uint64_t values_nbytes)
{
    return values_nbytes == dataset->chunk_nbytes || dataset->terp_mask != 1;
}

double
tool_ratio(uint64_t nbytes, uint64_t stored_nbytes)
{
    return stored_nbytes > 0 ? (double)nbytes / (double)stored_nbytes
                             : (double)NAN;
}

void
tool_dims_print(int rank, const hsize_t *dims)
{
    if (rank == 0)
        printf("scalar");
    for (int i = 0; i < rank; i++)
        printf("%s%" PRIu64, i == 0 ? "" : "x", (uint64_t)dims[i]);
}
