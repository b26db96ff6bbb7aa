/* terp repack: makes the creation property lists of datasets. */
#include "tools/repack/dataset_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/text.h"
#include "tools/repack/lists.h"
#include "tools/repack/references.h"

/* Copies the fill value and translates its references. References to objects
 * that do not exist yet are lost. */
static bool
copy_set_fill(struct repack *repack, const char *path,
              const struct tool_dataset *in, hid_t out)
{
    const uint64_t nlost = repack->nlost_references;
    hid_t type = H5Tcopy(in->type); /* as in memory */
    hid_t one = H5Screate(H5S_SCALAR);
    void *value = calloc(1, in->value_nbytes);
    bool ok = type >= 0 && one >= 0 && value != NULL &&
              H5Pget_fill_value(in->dcpl, type, value) >= 0;

    if (ok) {
        ok = repack_translate(repack, type, 1, value) &&
             H5Pset_fill_value(out, type, value) >= 0;
        H5Dvlen_reclaim(type, one, H5P_DEFAULT, value);
    }
    if (repack->nlost_references > nlost)
        fprintf(stderr,
                "terp %s: %s: its fill value is a reference to an object later "
                "in the file; it becomes a null reference\n",
                repack->request.command, tool_shown(path));
    free(value);
    tool_close(one);
    tool_close(type);
    return ok;
}

static bool
copy_fill(struct repack *repack, const char *path,
          const struct tool_dataset *in, hid_t out)
{
    H5D_fill_value_t status;
    H5D_fill_time_t when;

    if (H5Pget_fill_time(in->dcpl, &when) < 0 ||
        H5Pset_fill_time(out, when) < 0 ||
        H5Pfill_value_defined(in->dcpl, &status) < 0)
        return false;
    switch (status) {
    case H5D_FILL_VALUE_UNDEFINED:
        return H5Pset_fill_value(out, in->type, NULL) >= 0;
    case H5D_FILL_VALUE_USER_DEFINED:
        return copy_set_fill(repack, path, in, out);
    default:
        return true;
    }
}

static bool
copy_external(hid_t in, hid_t out)
{
    const int nfiles = H5Pget_external_count(in);
    size_t cap = 256;
    char *name = calloc(1, cap);
    bool ok = name != NULL && nfiles >= 0;

    for (int i = 0; ok && i < nfiles; i++) {
        off_t offset;
        hsize_t nbytes;
        ok = H5Pget_external(in, (unsigned)i, cap, name, &offset, &nbytes) >= 0;
        while (ok && memchr(name, '\0', cap) == NULL) {
            free(name);
            cap *= 2;
            name = calloc(1, cap);
            ok = name != NULL && H5Pget_external(in, (unsigned)i, cap, name,
                                                 &offset, &nbytes) >= 0;
        }
        ok = ok && H5Pset_external(out, name, offset, nbytes) >= 0;
    }
    free(name);
    return ok;
}

/* The name that `get` returns for a mapping; free it. NULL on failure. */
static char *
get_name(hid_t in, size_t i, ssize_t (*get)(hid_t, size_t, char *, size_t))
{
    const ssize_t length = get(in, i, NULL, 0);
    char *name = length < 0 ? NULL : malloc((size_t)length + 1);

    if (name != NULL && get(in, i, name, (size_t)length + 1) < 0) {
        free(name);
        return NULL;
    }
    return name;
}

/* Counts the values that a source gives to a mapping: the selected values of
 * the virtual dataset; for an unlimited selection one block per source. */
static bool
count_mapped(hid_t here, hsize_t *nvalues_ret)
{
    hsize_t start[H5S_MAX_RANK], stride[H5S_MAX_RANK];
    hsize_t count[H5S_MAX_RANK], block[H5S_MAX_RANK];
    const hssize_t nvalues = H5Sget_select_npoints(here);
    const int rank = H5Sget_simple_extent_ndims(here);

    *nvalues_ret = (hsize_t)nvalues;
    if ((hsize_t)nvalues != H5S_UNLIMITED)
        return nvalues >= 0;
    if (H5Sget_regular_hyperslab(here, start, stride, count, block) < 0)
        return false;
    *nvalues_ret = 1;
    for (int i = 0; i < rank; i++)
        *nvalues_ret *= (count[i] == H5S_UNLIMITED ? 1 : count[i]) * block[i];
    return true;
}

/* The selection in the source of a mapping. For a selection of all values the
 * file does not store the shape of the source, and HDF5 learns it only when it
 * opens the source; any shape with the same number of values will do. */
static hid_t
get_source(hid_t in, size_t i, hid_t here)
{
    hid_t there = H5Pget_virtual_srcspace(in, i);
    hsize_t nvalues;

    if (there < 0 || H5Sget_select_type(there) != H5S_SEL_ALL)
        return there;
    tool_close(there);
    return count_mapped(here, &nvalues) ? H5Screate_simple(1, &nvalues, NULL)
                                        : -1;
}

static bool
copy_mappings(hid_t in, hid_t out)
{
    size_t nmappings = 0;
    bool ok = H5Pget_virtual_count(in, &nmappings) >= 0;

    for (size_t i = 0; ok && i < nmappings; i++) {
        hid_t here = H5Pget_virtual_vspace(in, i);
        hid_t there = here < 0 ? -1 : get_source(in, i, here);
        char *file = get_name(in, i, H5Pget_virtual_filename);
        char *dataset = get_name(in, i, H5Pget_virtual_dsetname);
        ok = here >= 0 && there >= 0 && file != NULL && dataset != NULL &&
             H5Pset_virtual(out, here, file, dataset, there) >= 0;
        free(dataset);
        free(file);
        tool_close(there);
        tool_close(here);
    }
    return ok;
}

static bool
copy_chunks(const struct tool_dataset *in, hid_t out)
{
    unsigned options;

    return H5Pset_chunk(out, in->rank, in->chunk_dims) >= 0 &&
           H5Pget_chunk_opts(in->dcpl, &options) >= 0 &&
           (options == 0 || H5Pset_chunk_opts(out, options) >= 0) &&
           repack_list_filters(in->dcpl, out);
}

static bool
copy_storage(const struct tool_dataset *in, hid_t out)
{
    const H5D_layout_t layout = H5Pget_layout(in->dcpl);
    H5D_alloc_time_t when;
    bool ok;

    if (layout == H5D_CHUNKED)
        ok = copy_chunks(in, out);
    else if (layout == H5D_VIRTUAL)
        ok = H5Pset_layout(out, H5D_VIRTUAL) >= 0 &&
             copy_mappings(in->dcpl, out);
    else
        ok = H5Pset_layout(out, layout) >= 0 && copy_external(in->dcpl, out);
    /* HDF5 allocates compact datasets when it creates them, whatever the file
     * says. */
    return ok && H5Pget_alloc_time(in->dcpl, &when) >= 0 &&
           H5Pset_alloc_time(out, layout == H5D_COMPACT ? H5D_ALLOC_TIME_EARLY
                                                        : when) >= 0;
}

hid_t
repack_dataset_list(struct repack *repack, const char *path,
                    const struct tool_dataset *in, enum repack_list_scope scope)
{
    hid_t out = H5Pcreate(H5P_DATASET_CREATE);
    const bool ok =
        out >= 0 && repack_list_object(in->id, in->dcpl, out) &&
        copy_fill(repack, path, in, out) &&
        (scope == REPACK_LIST_WITHOUT_STORAGE || copy_storage(in, out));

    return repack_list_end(out, ok);
}

/* Whether one chunk holds all values. *nbytes_ret is its size. */
static bool
has_one_chunk(hid_t dcpl, hid_t space, hid_t type, size_t *nbytes_ret)
{
    hsize_t dims[H5S_MAX_RANK], chunk[H5S_MAX_RANK];
    const int rank = H5Sget_simple_extent_dims(space, dims, NULL);

    *nbytes_ret = H5Tget_size(type);
    if (rank <= 0 || H5Pget_layout(dcpl) != H5D_CHUNKED ||
        H5Pget_chunk(dcpl, H5S_MAX_RANK, chunk) != rank)
        return false;
    for (int i = 0; i < rank; i++) {
        if (dims[i] > chunk[i])
            return false;
        *nbytes_ret *= chunk[i];
    }
    return true;
}

/* HDF5 1.10 loses the address of the only chunk of a dataset unless the chunk
 * goes through its cache or through filters. The output has no other cache.
 * Values with addresses take up to twice as many bytes in a file. */
hid_t
repack_access_list(hid_t dcpl, hid_t space, hid_t type)
{
    hid_t dapl = H5Pcreate(H5P_DATASET_ACCESS);
    size_t nbytes;

    if (dapl >= 0 && has_one_chunk(dcpl, space, type, &nbytes) &&
        H5Pset_chunk_cache(dapl, 1, 2 * nbytes, 0) < 0) {
        H5Pclose(dapl);
        return -1;
    }
    return dapl;
}

/* H5Dflush visits all metadata that HDF5 holds of the file. */
bool
repack_flush(hid_t dataset)
{
    hid_t dapl = H5Dget_access_plist(dataset);
    hid_t dcpl = H5Dget_create_plist(dataset);
    size_t nslots, nbytes = 0;
    double w0;
    const bool is_chunked = dcpl >= 0 && H5Pget_layout(dcpl) == H5D_CHUNKED;
    const bool ok = dcpl >= 0 && dapl >= 0 &&
                    H5Pget_chunk_cache(dapl, &nslots, &nbytes, &w0) >= 0;

    tool_close(dcpl);
    tool_close(dapl);
    return ok && (!is_chunked || nbytes == 0 || H5Dflush(dataset) >= 0);
}
