/* terp repack: copies attributes, and datasets that terp does not compress. */
#include "tools/repack/values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/copies.h"
#include "tools/common/limit.h"
#include "tools/common/stored.h"
#include "tools/repack/lists.h"
#include "tools/repack/references.h"
#include "tools/repack/salvage.h"
#include "tools/repack/split.h"
#include "tools/repack/types.h"

/* Size of the blocks in which values are copied; bounds the memory of a copy.
 */
#define COPY_NBYTES ((uint64_t)16 << 20)

/* ---- arrays that HDF5 writes wrongly ---- */

/* Whether the linked HDF5 has this bug: before 1.14.4, H5Tconvert uses the
 * converted previous array as the background of the next one. */
static bool
mixes_arrays(void)
{
    unsigned major = 0, minor = 0, release = 0;

    (void)H5get_libversion(&major, &minor, &release);
    return major < 1 ||
           (major == 1 && (minor < 14 || (minor == 14 && release < 4)));
}

/* How often a type occurs within another type. */
enum frequency {
    ONCE,
    MANY
};

/* Whether the bug mixes values of this type when HDF5 converts one of them, or
 * many, at once (`often`). It mixes values of arrays of compound types with
 * addresses. */
static bool
are_mixed(hid_t type, enum frequency often)
{
    const H5T_class_t class = H5Tget_class(type);
    bool mixed = false;

    if (class == H5T_COMPOUND) {
        const int nmembers = H5Tget_nmembers(type);
        for (int i = 0; !mixed && i < nmembers; i++) {
            hid_t member = H5Tget_member_type(type, (unsigned)i);
            mixed = are_mixed(member, often);
            tool_close(member);
        }
    } else if (class == H5T_ARRAY || class == H5T_VLEN) {
        hid_t super = H5Tget_super(type);
        mixed = (class == H5T_ARRAY && often == MANY &&
                 H5Tget_class(super) == H5T_COMPOUND &&
                 tool_type_has_addresses(super)) ||
                are_mixed(super, MANY);
        tool_close(super);
    }
    return mixed;
}

static bool
fail_for_arrays(struct repack *repack)
{
    unsigned major = 0, minor = 0, release = 0;

    (void)H5get_libversion(&major, &minor, &release);
    snprintf(repack->reason, sizeof repack->reason,
             "HDF5 %u.%u.%u cannot write arrays of compound values that hold "
             "strings or sequences; use a terp that is built with HDF5 1.14.4 "
             "or later",
             major, minor, release);
    return false;
}

/* ---- attributes ---- */

static bool
copy_attribute_values(struct repack *repack, hid_t in, hid_t out, hid_t type,
                      hid_t space)
{
    hssize_t nvalues = H5Sget_simple_extent_npoints(space);
    bool ok = false;

    if (nvalues == 0 || H5Sget_simple_extent_type(space) == H5S_NULL)
        return true;
    void *values = calloc((size_t)nvalues, H5Tget_size(type));
    if (values == NULL || H5Aread(in, type, values) < 0)
        goto out;
    ok = repack_translate(repack, type, (size_t)nvalues, values) &&
         H5Awrite(out, type, values) >= 0;
    if (mixes_arrays() && are_mixed(type, nvalues > 1 ? MANY : ONCE))
        ok = fail_for_arrays(repack);
    if (tool_type_has_addresses(type))
        H5Dvlen_reclaim(type, space, H5P_DEFAULT, values);
out:
    free(values);
    return ok;
}

struct attributes {
    struct repack *repack;
    const char *path;
    hid_t out;
};

static herr_t
copy_attribute(hid_t in_object, const char *name, const H5A_info_t *info,
               void *context)
{
    const struct attributes *attributes = context;
    struct repack *repack = attributes->repack;
    hid_t type = -1, memory_type = -1, out_type = -1, acpl = -1;
    hid_t space = -1, out_space = -1;
    hid_t out = -1, in = H5Aopen(in_object, name, H5P_DEFAULT);
    bool ok = false;

    (void)info;
    if (in < 0)
        goto out;
    type = H5Aget_type(in);
    space = H5Aget_space(in);
    acpl = repack_attribute_list(in);
    if (type < 0 || space < 0 || acpl < 0)
        goto out;
    memory_type = H5Tcopy(type);
    out_type = repack_type(repack, attributes->path, type);
    out_space = tool_space_copy(space);
    if (memory_type < 0 || out_type < 0 || out_space < 0)
        goto out;
    out = H5Acreate2(attributes->out, name, out_type, out_space, acpl,
                     H5P_DEFAULT);
    ok = out >= 0 && copy_attribute_values(repack, in, out, memory_type, space);
out:
    if (!ok)
        repack_fail(repack, attributes->path, "attribute %s: %s", name,
                    repack->reason);
    tool_close(out);
    tool_close(out_type);
    tool_close(memory_type);
    tool_close(type);
    tool_close(out_space);
    tool_close(space);
    tool_close(acpl);
    tool_close(in);
    return ok ? 0 : -1;
}

static hid_t
creation_plist(hid_t object)
{
    switch (H5Iget_type(object)) {
    case H5I_GROUP:
        return H5Gget_create_plist(object);
    case H5I_DATASET:
        return H5Dget_create_plist(object);
    default:
        return H5Tget_create_plist(object);
    }
}

bool
repack_copy_attributes(struct repack *repack, const char *path, hid_t in,
                       hid_t out)
{
    struct attributes attributes = {repack, path, out};
    hid_t ocpl = creation_plist(in);
    unsigned order = 0;

    if (ocpl < 0)
        return repack_fail(repack, path, NULL);
    H5Pget_attr_creation_order(ocpl, &order);
    H5Pclose(ocpl);
    return H5Aiterate2(in,
                       order & H5P_CRT_ORDER_TRACKED ? H5_INDEX_CRT_ORDER
                                                     : H5_INDEX_NAME,
                       H5_ITER_INC, NULL, copy_attribute, &attributes) >= 0 ||
           repack_fail(repack, path, NULL);
}

/* ---- datasets ---- */

/* Whether H5Dwrite_chunk will find a chunk of this size: HDF5 allocates chunks
 * with the dataset, or all chunks with the first write. */
static bool
has_its_size(hid_t out, const struct tool_dataset *in,
             const struct tool_grid *grid, hsize_t nbytes)
{
    hsize_t old_nbytes = 0;
    H5D_alloc_time_t when;

    if (H5Dget_chunk_storage_size(out, grid->at, &old_nbytes) >= 0 &&
        old_nbytes > 0)
        return old_nbytes == nbytes;
    return H5Pget_alloc_time(in->dcpl, &when) >= 0 &&
           when == H5D_ALLOC_TIME_LATE;
}

/* Copies a chunk as stored. H5Dwrite_chunk does not change the filter mask of
 * an existing chunk of the same size; a first write with another size makes it
 * do so. */
static bool
copy_stored(const struct tool_dataset *in, hid_t out,
            const struct tool_grid *grid, hsize_t nbytes, void *bytes)
{
    uint32_t mask = 0;

    return H5Dread_chunk(in->id, H5P_DEFAULT, grid->at, &mask, bytes) >= 0 &&
           (!has_its_size(out, in, grid, nbytes) ||
            H5Dwrite_chunk(out, H5P_DEFAULT, mask, grid->at,
                           nbytes > 1 ? nbytes - 1 : 2, bytes) >= 0) &&
           H5Dwrite_chunk(out, H5P_DEFAULT, mask, grid->at, nbytes, bytes) >= 0;
}

/* Copies the values of a chunk without filters (tool_chunk_read says why). */
static bool
copy_plain(const struct tool_dataset *in, hid_t out,
           const struct tool_grid *grid, void *values)
{
    hid_t in_file = -1, in_memory = -1;
    const bool ok =
        tool_box_select(in->id, grid, NULL, &in_file, &in_memory) &&
        H5Dread(in->id, in->type, in_memory, in_file, H5P_DEFAULT, values) >=
            0 &&
        H5Dwrite(out, in->type, in_memory, in_file, H5P_DEFAULT, values) >= 0;

    tool_close(in_file);
    tool_close(in_memory);
    return ok;
}

/* Copies chunks as stored: a lossy filter would change their values a second
 * time. */
static bool
copy_chunks(const struct repack_object *object, const struct tool_dataset *in,
            hid_t out)
{
    struct tool_grid grid = tool_grid_of(in, in->chunk_dims);
    struct tool_stored stored = tool_stored_find(in);
    void *bytes = NULL;
    hsize_t cap_nbytes = 0;
    bool ok = true;

    while (ok && tool_stored_next(&stored, &grid)) {
        hsize_t nbytes = 0;
        if (repack_salvage_lacks(object, in->rank, grid.at))
            continue;
        if (H5Dget_chunk_storage_size(in->id, grid.at, &nbytes) < 0 ||
            nbytes == 0) {
            ok = tool_chunk_is_absent(in, &grid);
            continue;
        }
        if (nbytes > cap_nbytes) {
            free(bytes);
            bytes = calloc(nbytes + 1, 1);
            cap_nbytes = nbytes;
        }
        ok = bytes != NULL &&
             (in->nfilters > 0 ? copy_stored(in, out, &grid, nbytes, bytes)
                               : copy_plain(in, out, &grid, bytes));
    }
    free(bytes);
    tool_stored_free(&stored);
    return ok && repack_salvage_fill(object, in, out);
}

/* Writes each value of a box by itself. */
static bool
write_each(hid_t out, hid_t type, const struct tool_grid *box,
           const uint8_t *values)
{
    const size_t value_nbytes = H5Tget_size(type);
    struct tool_grid one = {.rank = box->rank};
    bool ok = true;

    for (int d = 0; d < box->rank; d++) {
        one.dims[d] = box->count[d];
        one.step[d] = 1;
    }
    for (uint64_t i = 0; ok && tool_grid_next(&one); i++) {
        struct tool_grid value = one;
        hid_t in_file = -1, in_memory = -1;
        for (int d = 0; d < box->rank; d++)
            value.at[d] += box->at[d];
        ok = tool_box_select(out, &value, NULL, &in_file, &in_memory) &&
             H5Dwrite(out, type, in_memory, in_file, H5P_DEFAULT,
                      values + i * value_nbytes) >= 0;
        tool_close(in_file);
        tool_close(in_memory);
    }
    return ok;
}

static bool
copy_blocks(struct repack *repack, const struct repack_object *object,
            const struct tool_dataset *in, hid_t out)
{
    bool *has_chunks = NULL;
    struct tool_grid grid = repack_stored_grid(in, COPY_NBYTES, &has_chunks);
    hid_t type = H5Tcopy(in->type);
    void *values = calloc(tool_grid_cap(&grid), H5Tget_size(type));
    const bool mixes = in->has_addresses && mixes_arrays();
    const bool one_by_one = mixes && are_mixed(type, MANY);
    bool ok = values != NULL;

    if (mixes && are_mixed(type, ONCE))
        ok = fail_for_arrays(repack);
    while (ok && tool_stored_next_box(has_chunks, &grid)) {
        hid_t in_file = -1, in_memory = -1;
        ok = tool_box_select(in->id, &grid, NULL, &in_file, &in_memory) &&
             repack_salvage_read(object, in, type, &grid, values);
        if (ok) {
            ok = repack_translate(repack, type, grid.nvalues, values) &&
                 (one_by_one ? write_each(out, type, &grid, values)
                             : H5Dwrite(out, type, in_memory, in_file,
                                        H5P_DEFAULT, values) >= 0);
            if (in->has_addresses)
                H5Dvlen_reclaim(type, in_memory, H5P_DEFAULT, values);
        }
        tool_close(in_file);
        tool_close(in_memory);
    }
    free(has_chunks);
    free(values);
    H5Tclose(type);
    return ok;
}

bool
repack_copy_values(struct repack *repack, const struct repack_object *object,
                   hid_t in, hid_t out, bool as_stored)
{
    struct tool_dataset dataset;
    char reason[512];
    bool ok = true;

    if (!tool_dataset_of(in, &dataset))
        return repack_fail(repack, object->path, NULL);
    for (int i = 0; !dataset.chunked && i < dataset.rank; i++)
        dataset.chunk_dims[i] = 1;
    if (H5Dget_storage_size(in) == 0 || dataset.nvalues == 0)
        ok = true; /* without storage */
    else if (as_stored && dataset.chunked && !dataset.has_addresses)
        ok = copy_chunks(object, &dataset, out);
    else if (!repack->request.salvage &&
             !tool_limit_take(&dataset, TOOL_LIMIT_ALL, reason, sizeof reason))
        ok = repack_fail(repack, object->path, "%s", reason);
    else
        ok = copy_blocks(repack, object, &dataset, out);
    tool_dataset_close(&dataset);
    return ok || repack_fail(repack, object->path, NULL);
}
