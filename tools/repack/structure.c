/* terp repack: lists the objects and links of the input, and makes them anew
 * in the output, in the order in which groups list them. */
#include "tools/repack/structure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/api/text.h"
#include "filter/plugin/h5z_terp.h"
#include "tools/common/chunk_shape.h"
#include "tools/common/h5file.h"
#include "tools/repack/compress.h"
#include "tools/repack/plan.h"
#include "tools/repack/record.h"
#include "tools/repack/salvage.h"
#include "tools/repack/sample.h"
#include "tools/repack/values.h"

/* Notes the last rule that matches `path`, which may be one of several paths of
 * the dataset. */
static void
match_rules(const struct repack *repack, struct repack_object *object,
            const char *path)
{
    for (int i = 0; i < repack->request.nrules; i++) {
        struct repack_rule *rule = &repack->request.rules[i];
        if (!terp_text_matches(rule->glob, path))
            continue;
        if (object->rule == NULL || object->rule < rule)
            object->rule = rule;
        rule->used |=
            rule->bound.mode == REPACK_KEEP || object->plan.reason == NULL;
    }
}

struct listing {
    struct repack *repack;
    struct repack_object *group;
};

static herr_t
list_link(hid_t in_group, const char *name, const H5L_info_t *info,
          void *context);

static bool
list_group(struct repack *repack, struct repack_object *group, hid_t id)
{
    struct listing listing = {repack, group};
    hid_t gcpl = H5Gget_create_plist(id);
    unsigned order = 0;

    if (gcpl < 0 || H5Pget_link_creation_order(gcpl, &order) < 0)
        return repack_fail(repack, group->path, NULL);
    H5Pclose(gcpl);
    return H5Literate(id,
                      order & H5P_CRT_ORDER_TRACKED ? H5_INDEX_CRT_ORDER
                                                    : H5_INDEX_NAME,
                      H5_ITER_INC, NULL, list_link, &listing) >= 0 ||
           repack_fail(repack, group->path, NULL);
}

static herr_t
list_link(hid_t in_group, const char *name, const H5L_info_t *info,
          void *context)
{
    const struct listing *listing = context;
    struct repack *repack = listing->repack;
    const char *group_path = listing->group->path;
    struct repack_link *link =
        repack_add_link(repack, listing->group, name, info);
    H5O_info_t object_info;
    bool ok = true;

    if (link == NULL)
        return repack_fail(repack, group_path, "not enough memory") ? 0 : -1;
    if (info->type != H5L_TYPE_HARD)
        return 0;
    size_t path_nbytes = strlen(group_path) + strlen(name) + 2;
    char *path = malloc(path_nbytes);
    if (path == NULL)
        return repack_fail(repack, group_path, "not enough memory") ? 0 : -1;
    snprintf(path, path_nbytes, "%s/%s",
             strcmp(group_path, "/") == 0 ? "" : group_path, name);

    hid_t id = H5Oopen(in_group, name, H5P_DEFAULT);
    if (id < 0 || H5Oget_info(id, &object_info) < 0) {
        ok = repack_fail(repack, path, NULL);
        goto out;
    }
    link->target = repack_find_object(repack, object_info.addr);
    bool is_new = link->target == NULL;
    if (is_new)
        link->target = repack_add_object(repack, &object_info, path);
    if (link->target == NULL) {
        ok = repack_fail(repack, path, "not enough memory");
    } else if (link->target->type == H5O_TYPE_DATASET) {
        if (is_new)
            link->target->plan.reason = repack_obstacle(id);
        match_rules(repack, link->target, path);
    } else if (is_new && link->target->type == H5O_TYPE_GROUP) {
        ok = list_group(repack, link->target, id);
    }
out:
    tool_close(id);
    free(path);
    return ok ? 0 : -1;
}

bool
repack_list(struct repack *repack)
{
    const struct repack_request *request = &repack->request;
    uint64_t total_nbytes = 0;
    H5O_info_t info;

    hid_t root = H5Gopen2(repack->in, "/", H5P_DEFAULT);
    if (root < 0 || H5Oget_info(root, &info) < 0)
        return repack_fail(repack, request->path_in, NULL);
    struct repack_object *object = repack_add_object(repack, &info, "/");
    if (object == NULL)
        return repack_fail(repack, "/", "not enough memory");
    bool ok = list_group(repack, object, root);
    H5Gclose(root);
    for (; ok && object != NULL; object = object->next)
        if (object->type == H5O_TYPE_DATASET)
            ok = repack_plan(repack, object, &total_nbytes);
    if (ok && total_nbytes > 0 && H5Zfilter_avail(H5Z_FILTER_TERP) <= 0)
        ok = repack_fail(repack, request->path_in,
                         "HDF5 does not find the terp filter plugin; set "
                         "HDF5_PLUGIN_PATH to the directory that holds it");
    for (int i = 0; ok && i < request->nrules; i++)
        if (!request->rules[i].used)
            ok = repack_fail(repack, request->path_in,
                             "--dataset %s: no dataset that could be "
                             "compressed has such a name",
                             request->rules[i].text);
    if (ok && request->salvage)
        ok = repack_salvage_find(repack);
    tool_progress_start(&repack->progress, total_nbytes);
    return ok;
}

static bool
has_references(hid_t type)
{
    return H5Tdetect_class(type, H5T_REFERENCE) > 0;
}

/* Whether the values of such a dataset are in other datasets or files. */
static bool
is_elsewhere(hid_t dcpl)
{
    return H5Pget_layout(dcpl) == H5D_VIRTUAL ||
           H5Pget_external_count(dcpl) > 0;
}

/* The rest is deflated from so many bytes on, and up to so many a value. */
#define DEFLATE_MIN_NBYTES 1024
#define DEFLATE_MAX_VALUE_NBYTES 4096
#define DEFLATE_LEVEL 6

/* Whether a dataset that terp does not compress is to be deflated, and can be:
 * what it holds is in its chunks, and the program can read it. */
static bool
is_deflated(const struct repack *repack, const struct repack_object *object,
            const struct tool_dataset *dataset)
{
    return repack->request.deflates_rest && !object->plan.unwanted &&
           !is_elsewhere(dataset->dcpl) && dataset->rank > 0 &&
           H5Tdetect_class(dataset->type, H5T_REFERENCE) <= 0 &&
           H5Tdetect_class(dataset->type, H5T_VLEN) <= 0 &&
           (H5Tget_class(dataset->type) != H5T_STRING ||
            H5Tis_variable_str(dataset->type) == 0) &&
           dataset->value_nbytes <= DEFLATE_MAX_VALUE_NBYTES &&
           dataset->nvalues * dataset->value_nbytes >= DEFLATE_MIN_NBYTES &&
           H5Pall_filters_avail(dataset->dcpl) > 0;
}

/* Chunks stay as they are; a dataset without gets some. */
static bool
set_deflate(const struct tool_dataset *dataset)
{
    hsize_t chunk_dims[H5S_MAX_RANK];
    const hid_t dcpl = dataset->dcpl;

    if (!dataset->chunked) {
        tool_chunk_shape(dataset->rank, dataset->dims, chunk_dims);
        if (H5Pset_layout(dcpl, H5D_CHUNKED) < 0 ||
            H5Pset_chunk(dcpl, dataset->rank, chunk_dims) < 0)
            return false;
    }
    return H5Premove_filter(dcpl, H5Z_FILTER_ALL) >= 0 &&
           H5Pset_alloc_time(dcpl, H5D_ALLOC_TIME_INCR) >= 0 &&
           H5Pset_shuffle(dcpl) >= 0 &&
           H5Pset_deflate(dcpl, DEFLATE_LEVEL) >= 0;
}

/* Copies a dataset that stays as it is, or is deflated. H5Ocopy, which needs no
 * filter, is left for those that cannot be created without: it knows nothing of
 * the output's committed types and of where references point, and crashes on a
 * full disk (HDF5 1.10.8). */
static hid_t
copy_dataset(struct repack *repack, struct repack_object *object, hid_t in,
             hid_t parent, const char *name, hid_t lcpl)
{
    struct tool_dataset dataset;
    hid_t out_type = -1, out = -1;

    if (!tool_dataset_of(in, &dataset))
        return -1;
    bool has_values = !is_elsewhere(dataset.dcpl);
    const bool deflates = is_deflated(repack, object, &dataset);
    object->deferred = has_references(dataset.type) && has_values;
    if (H5Tcommitted(dataset.type) <= 0 && !has_references(dataset.type) &&
        dataset.chunked && object->losses.nchunks == 0 &&
        H5Pall_filters_avail(dataset.dcpl) <= 0) {
        hid_t ocpypl = H5Pcreate(H5P_OBJECT_COPY);
        if (H5Pset_copy_object(ocpypl, H5O_COPY_WITHOUT_ATTR_FLAG) >= 0 &&
            H5Ocopy(in, ".", parent, name, ocpypl, lcpl) >= 0)
            out = H5Dopen2(parent, name, H5P_DEFAULT);
        H5Pclose(ocpypl);
        goto out;
    }
    out_type = repack_type(repack, object->path, dataset.type);
    if (out_type >= 0 && (!deflates || set_deflate(&dataset)))
        out = H5Dcreate2(parent, name, out_type, dataset.space, lcpl,
                         dataset.dcpl, H5P_DEFAULT);
    if (out >= 0 && has_values && !object->deferred &&
        !repack_copy_values(repack, object, in, out, !deflates)) {
        H5Dclose(out);
        out = -1;
    }
out:
    tool_close(out_type);
    tool_dataset_close(&dataset);
    return out;
}

static hid_t
make_dataset(struct repack *repack, struct repack_object *object, hid_t in,
             hid_t parent, const char *name, hid_t lcpl)
{
    if (repack->request.step > 0 && repack_is_sampled(in)) {
        if (repack->request.verbose)
            printf("%s: every %lluth value\n", object->path,
                   (unsigned long long)repack->request.step);
        return repack_sample(repack, object, in, parent, name, lcpl);
    }
    if (object->plan.bound.mode != REPACK_KEEP)
        return repack_compress(repack, object, parent, name, lcpl);
    if (repack->request.verbose)
        printf("%s: copied, %s\n", object->path, object->plan.reason);
    return copy_dataset(repack, object, in, parent, name, lcpl);
}

static hid_t
make_group(hid_t in, hid_t parent, const char *name, hid_t lcpl)
{
    hid_t gcpl = H5Gget_create_plist(in);
    hid_t out = H5Gcreate2(parent, name, lcpl, gcpl, H5P_DEFAULT);
    H5Pclose(gcpl);
    return out;
}

static hid_t
make_type(struct repack *repack, struct repack_object *object, hid_t in,
          hid_t parent, const char *name, hid_t lcpl)
{
    hid_t out = repack_type(repack, object->path, in);

    if (out >= 0 && H5Olink(out, parent, name, lcpl, H5P_DEFAULT) < 0) {
        H5Tclose(out);
        return -1;
    }
    return out;
}

/* Makes the object that the link points to, or one more link to it. */
static bool
make_hard_link(struct repack *repack, const struct repack_link *link,
               hid_t parent, hid_t lcpl)
{
    struct repack_object *object = link->target;
    H5O_info_t info;
    bool ok = false;

    if (object->made) {
        hid_t out = H5Oopen_by_addr(repack->out, object->out_address);
        ok = out >= 0 &&
             H5Olink(out, parent, link->name, lcpl, H5P_DEFAULT) >= 0;
        tool_close(out);
        return ok || repack_fail(repack, object->path, NULL);
    }
    hid_t out = -1, in = H5Oopen_by_addr(repack->in, object->address);
    if (in >= 0 && object->type == H5O_TYPE_GROUP)
        out = make_group(in, parent, link->name, lcpl);
    else if (in >= 0 && object->type == H5O_TYPE_DATASET)
        out = make_dataset(repack, object, in, parent, link->name, lcpl);
    else if (in >= 0 && object->type == H5O_TYPE_NAMED_DATATYPE)
        out = make_type(repack, object, in, parent, link->name, lcpl);
    if (out >= 0 && H5Oget_info(out, &info) >= 0) {
        object->made = true;
        object->out_address = info.addr;
        ok = true;
    } else {
        repack_fail(repack, object->path, NULL);
    }
    tool_close(out);
    tool_close(in);
    return ok;
}

/* Makes a soft, external or user-defined link, whose value is mere bytes. */
static bool
make_other_link(struct repack *repack, const struct repack_link *link,
                hid_t parent, hid_t lcpl)
{
    bool ok = false;
    H5L_info_t info;
    char *value = NULL;

    hid_t in = H5Oopen_by_addr(repack->in, link->parent->address);
    if (in < 0 || H5Lget_info(in, link->name, &info, H5P_DEFAULT) < 0)
        goto out;
    value = malloc(info.u.val_size + 1);
    if (value == NULL ||
        H5Lget_val(in, link->name, value, info.u.val_size, H5P_DEFAULT) < 0)
        goto out;
    ok = (link->type == H5L_TYPE_SOFT
              ? H5Lcreate_soft(value, parent, link->name, lcpl, H5P_DEFAULT)
              : H5Lcreate_ud(parent, link->name, link->type, value,
                             info.u.val_size, lcpl, H5P_DEFAULT)) >= 0;
out:
    free(value);
    tool_close(in);
    return ok || repack_fail(repack, link->parent->path, NULL);
}

static bool
make_link(struct repack *repack, const struct repack_link *link)
{
    hid_t lcpl = H5Pcreate(H5P_LINK_CREATE);
    hid_t parent = H5Oopen_by_addr(repack->out, link->parent->out_address);
    bool ok;

    H5Pset_char_encoding(lcpl, link->charset);
    if (parent < 0)
        ok = repack_fail(repack, link->parent->path, NULL);
    else if (link->type == H5L_TYPE_HARD)
        ok = make_hard_link(repack, link, parent, lcpl);
    else
        ok = make_other_link(repack, link, parent, lcpl);
    tool_close(parent);
    H5Pclose(lcpl);
    return ok;
}

/* Writes attributes and references, which may point to any other object, so
 * that all objects must exist before. */
static bool
fill_object(struct repack *repack, const struct repack_object *object)
{
    hid_t in = H5Oopen_by_addr(repack->in, object->address);
    hid_t out = H5Oopen_by_addr(repack->out, object->out_address);
    bool ok = in >= 0 && out >= 0;

    if (!ok)
        repack_fail(repack, object->path, NULL);
    if (ok && object->deferred)
        ok = repack_copy_values(repack, object, in, out, true);
    ok = ok && repack_copy_attributes(repack, object->path, in, out);
    ok = ok && repack_salvage_note(repack, object, in, out);
    if (ok && object->type == H5O_TYPE_DATASET &&
        object->plan.bound.mode != REPACK_KEEP)
        ok = repack_record(repack, object, in, out);
    if (ok && repack->request.step > 0)
        ok = repack_sample_attributes(repack, object->path, out);
    tool_close(in);
    tool_close(out);
    return ok;
}

bool
repack_make(struct repack *repack)
{
    struct repack_object *root = repack->first_object;
    H5O_info_t info;
    bool ok = true;

    if (H5Oget_info_by_name(repack->out, "/", &info, H5P_DEFAULT) < 0)
        return repack_fail(repack, "/", NULL);
    root->made = true;
    root->out_address = info.addr;
    for (struct repack_link *link = repack->first_link; ok && link != NULL;
         link = link->next)
        ok = make_link(repack, link);
    for (struct repack_object *object = root; ok && object != NULL;
         object = object->next)
        ok = fill_object(repack, object);
    return ok;
}
