/* terp repack: copies values as HDF5 reads them: those of attributes, and of
 * datasets that cannot be copied as stored. References become those of the
 * output. */
#include "tools/repack/values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/limit.h"
#include "tools/common/stored.h"
#include "tools/repack/salvage.h"
#include "tools/repack/split.h"

/* Values are copied in blocks of about this size. */
#define COPY_NBYTES ((uint64_t)16 << 20)

static bool
translate(struct repack *repack, hid_t type, size_t nvalues, void *values);

/* Replaces a reference to an object of the input by one to its counterpart. A
 * reference to an object that no longer exists becomes a null reference, which
 * HDF5 writes as zeros. Members of a compound value need not be aligned, so the
 * reference is copied out and in. */
static bool
translate_object(struct repack *repack, void *value)
{
    hobj_ref_t reference;

    memcpy(&reference, value, sizeof reference);
    const struct repack_object *object =
        reference == 0 ? NULL : repack_find_object(repack, reference);
    reference = 0;
    if (object != NULL && object->made) {
        hid_t target = H5Oopen_by_addr(repack->out, object->out_address);
        if (target < 0)
            return false;
        herr_t status = H5Rcreate(&reference, target, ".", H5R_OBJECT, -1);
        H5Oclose(target);
        if (status < 0)
            return false;
    }
    memcpy(value, &reference, sizeof reference);
    return true;
}

static bool
translate_region(struct repack *repack, void *value)
{
    const hdset_reg_ref_t null = {0};
    hdset_reg_ref_t reference;
    H5O_info_t info;
    bool ok = false;
    hid_t target = -1, space = -1, in = -1;

    if (memcmp(value, &null, sizeof null) == 0)
        return true;
    memcpy(&reference, value, sizeof reference);
    in = H5Rdereference2(repack->in, H5P_DEFAULT, H5R_DATASET_REGION,
                         &reference);
    if (in >= 0 && H5Oget_info(in, &info) >= 0) {
        const struct repack_object *object =
            repack_find_object(repack, info.addr);
        space = H5Rget_region(repack->in, H5R_DATASET_REGION, &reference);
        if (object != NULL && object->made && space >= 0)
            target = H5Oopen_by_addr(repack->out, object->out_address);
    }
    memset(&reference, 0, sizeof reference);
    if (target >= 0)
        ok = H5Rcreate(&reference, target, ".", H5R_DATASET_REGION, space) >= 0;
    else
        ok = in < 0; /* what it pointed to is gone */
    memcpy(value, &reference, sizeof reference);
    tool_close(target);
    tool_close(space);
    tool_close(in);
    return ok;
}

/* Translates the references in members of compound values. */
static bool
translate_parts(struct repack *repack, hid_t type, size_t nvalues,
                uint8_t *values)
{
    size_t value_nbytes = H5Tget_size(type);
    int nmembers = H5Tget_nmembers(type);
    bool ok = true;

    for (int i = 0; ok && i < nmembers; i++) {
        hid_t member = H5Tget_member_type(type, (unsigned)i);
        size_t at = H5Tget_member_offset(type, (unsigned)i);
        if (H5Tdetect_class(member, H5T_REFERENCE) > 0)
            for (size_t j = 0; ok && j < nvalues; j++)
                ok = translate(repack, member, 1,
                               values + j * value_nbytes + at);
        H5Tclose(member);
    }
    return ok;
}

/* Translates the references among values of a type in memory. */
static bool
translate(struct repack *repack, hid_t type, size_t nvalues, void *values)
{
    size_t value_nbytes = H5Tget_size(type);
    uint8_t *at = values, *end = at + nvalues * value_nbytes;
    hid_t super = -1;
    hvl_t sequence;
    bool ok = true;

    if (H5Tdetect_class(type, H5T_REFERENCE) <= 0)
        return true;
    switch (H5Tget_class(type)) {
    case H5T_REFERENCE:
        if (H5Tequal(type, H5T_STD_REF_OBJ) > 0)
            for (; ok && at < end; at += value_nbytes)
                ok = translate_object(repack, at);
        else if (H5Tequal(type, H5T_STD_REF_DSETREG) > 0)
            for (; ok && at < end; at += value_nbytes)
                ok = translate_region(repack, at);
        else {
            snprintf(repack->reason, sizeof repack->reason,
                     "references of HDF5 1.12's new kind are not known here");
            ok = false;
        }
        break;
    case H5T_COMPOUND:
        ok = translate_parts(repack, type, nvalues, values);
        break;
    case H5T_ARRAY:
        super = H5Tget_super(type);
        ok = translate(repack, super,
                       nvalues * value_nbytes / H5Tget_size(super), values);
        break;
    case H5T_VLEN:
        super = H5Tget_super(type);
        for (; ok && at < end; at += value_nbytes) {
            memcpy(&sequence, at, sizeof sequence);
            ok = translate(repack, super, sequence.len, sequence.p);
        }
        break;
    default:
        break;
    }
    tool_close(super);
    return ok;
}

static bool
has_heap_values(hid_t type)
{
    return H5Tdetect_class(type, H5T_VLEN) > 0 ||
           H5Tdetect_class(type, H5T_STRING) > 0;
}

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
    ok = translate(repack, type, (size_t)nvalues, values) &&
         H5Awrite(out, type, values) >= 0;
    if (has_heap_values(type))
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
    hid_t type = -1, memory_type = -1, out_type = -1, space = -1, acpl = -1;
    hid_t out = -1, in = H5Aopen(in_object, name, H5P_DEFAULT);
    bool ok = false;

    (void)info;
    if (in < 0)
        goto out;
    type = H5Aget_type(in);
    space = H5Aget_space(in);
    acpl = H5Aget_create_plist(in);
    if (type < 0 || space < 0 || acpl < 0)
        goto out;
    memory_type = H5Tcopy(type);
    out_type = repack_type(repack, attributes->path, type);
    if (memory_type < 0 || out_type < 0)
        goto out;
    out = H5Acreate2(attributes->out, name, out_type, space, acpl, H5P_DEFAULT);
    ok = out >= 0 && copy_attribute_values(repack, in, out, memory_type, space);
out:
    if (!ok)
        repack_fail(repack, attributes->path, "attribute %s: %s", name,
                    repack->reason);
    tool_close(out);
    tool_close(out_type);
    tool_close(memory_type);
    tool_close(type);
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

/* Copies a chunk as it is stored. */
static bool
copy_stored(const struct tool_dataset *in, hid_t out,
            const struct tool_grid *grid, hsize_t nbytes, void *bytes)
{
    uint32_t mask = 0;

    return H5Dread_chunk(in->id, H5P_DEFAULT, grid->at, &mask, bytes) >= 0 &&
           H5Dwrite_chunk(out, H5P_DEFAULT, mask, grid->at, nbytes, bytes) >= 0;
}

/* Copies its values where there are no filters (tool_chunk_read says why). */
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

/* Copies chunks as they are stored, so that no lossy filter codes their values
 * twice. */
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
            bytes = malloc(nbytes);
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

static bool
copy_blocks(struct repack *repack, const struct repack_object *object,
            const struct tool_dataset *in, hid_t out)
{
    struct tool_grid grid = repack_grid(in, in->chunk_dims, COPY_NBYTES);
    hid_t type = H5Tcopy(in->type);
    void *values = calloc(tool_grid_cap(&grid), H5Tget_size(type));
    bool *has_chunks = tool_stored_boxes(in, &grid);
    bool ok = values != NULL;

    while (ok && tool_stored_next_box(has_chunks, &grid)) {
        hid_t in_file = -1, in_memory = -1;
        ok = tool_box_select(in->id, &grid, NULL, &in_file, &in_memory) &&
             repack_salvage_read(object, in, type, &grid, values);
        if (ok) {
            ok = translate(repack, type, grid.nvalues, values) &&
                 H5Dwrite(out, type, in_memory, in_file, H5P_DEFAULT, values) >=
                     0;
            if (has_heap_values(type))
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
        ok = true; /* nothing was ever written */
    else if (as_stored && dataset.chunked &&
             H5Tdetect_class(dataset.type, H5T_REFERENCE) <= 0 &&
             !has_heap_values(dataset.type))
        ok = copy_chunks(object, &dataset, out);
    else if (!repack->request.salvage &&
             !tool_limit_take(&dataset, TOOL_LIMIT_ALL, reason, sizeof reason))
        ok = repack_fail(repack, object->path, "%s", reason);
    else
        ok = copy_blocks(repack, object, &dataset, out);
    tool_dataset_close(&dataset);
    return ok || repack_fail(repack, object->path, NULL);
}
