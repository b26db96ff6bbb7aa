/* terp repack: lists the objects and links of the input, and creates them in
 * the output in the order in which groups list them. */
#define _POSIX_C_SOURCE 200809L /* strdup */
#include "tools/repack/structure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/api/text.h"
#include "filter/plugin/h5z_terp.h"
#include "tools/common/chunk_shape.h"
#include "tools/common/copies.h"
#include "tools/common/text.h"
#include "tools/common/tool.h"
#include "tools/common/walk.h"
#include "tools/repack/compress.h"
#include "tools/repack/dataset_list.h"
#include "tools/repack/filters.h"
#include "tools/repack/lists.h"
#include "tools/repack/lossy.h"
#include "tools/repack/mask.h"
#include "tools/repack/plan.h"
#include "tools/repack/record.h"
#include "tools/repack/salvage.h"
#include "tools/repack/sample.h"
#include "tools/repack/types.h"
#include "tools/repack/values.h"

/* Records the last rule that matches `path`; a dataset may have several paths.
 */
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

/* Only messages show the path of a group. Longer ones are shortened: with
 * deeply nested groups, all paths together would take too much memory. */
#define MAX_GROUP_PATH_NBYTES 1024

static void
shorten_path(char *path)
{
    const size_t nbytes = strlen(path), nkept = MAX_GROUP_PATH_NBYTES / 2;

    if (nbytes <= MAX_GROUP_PATH_NBYTES)
        return;
    memset(path + nkept, '.', 3);
    memmove(path + nkept + 3, path + nbytes - nkept, nkept + 1);
}

/* Adds the object that the walk has reached. NULL without memory. */
static struct repack_object *
add_object(struct repack *repack, const char *path, const H5O_info_t *info)
{
    char *copy = strdup(path);
    struct repack_object *object = NULL;

    if (copy != NULL) {
        if (info->type == H5O_TYPE_GROUP)
            shorten_path(copy);
        object = repack_add_object(repack, info, copy);
    }
    free(copy);
    return object;
}

static bool
list_group(struct repack *repack, struct tool_walk *walk, const char *path,
           struct repack_object *group)
{
    hid_t id = H5Oopen_by_addr(repack->in, group->address);
    const bool ok = id >= 0 && repack_note_coordinates(repack, id, path) &&
                    tool_walk_enter(walk, id, group);

    tool_close(id);
    return ok || repack_fail(repack, group->path, NULL);
}

static bool
list_dataset(struct repack *repack, const struct tool_walk *walk,
             struct repack_object *object, bool is_new)
{
    if (is_new) {
        hid_t id = tool_walk_open(walk);
        if (id < 0)
            return repack_fail(repack, walk->path, NULL);
        object->plan.reason = repack_obstacle(id);
        const bool ok = repack_note_coordinates(repack, id, walk->path);
        tool_close(id);
        if (!ok)
            return false;
    }
    match_rules(repack, object, walk->path);
    return true;
}

/* Lists a link, and its target if this is the first link to it. */
static bool
list_link(struct repack *repack, struct tool_walk *walk)
{
    struct repack_link *link =
        repack_add_link(repack, walk->group, walk->name, &walk->link);
    H5O_info_t info;

    if (link == NULL)
        return repack_fail(repack, walk->path, "not enough memory");
    if (link->type != H5L_TYPE_HARD)
        return true;
    if (!tool_walk_info(walk, &info))
        return repack_fail(repack, walk->path, NULL);
    struct repack_object *object = repack_find_object(repack, info.addr);
    const bool is_new = object == NULL;
    if (is_new)
        object = add_object(repack, walk->path, &info);
    if (object == NULL)
        return repack_fail(repack, walk->path, "not enough memory");
    link->target = object;
    return object->type == H5O_TYPE_DATASET
               ? list_dataset(repack, walk, object, is_new)
           : object->type == H5O_TYPE_GROUP && is_new
               ? list_group(repack, walk, walk->path, object)
               : true;
}

/* Lists all links and objects, from the root on. */
static bool
list_all(struct repack *repack)
{
    struct tool_walk walk = tool_walk_begin(repack->in, true);
    hid_t root = H5Gopen2(repack->in, "/", H5P_DEFAULT);
    struct repack_object *object = NULL;
    H5O_info_t info;

    bool ok = (root >= 0 && tool_object_info(root, &info)) ||
              repack_fail(repack, repack->request.path_in, NULL);
    tool_close(root);
    if (ok) {
        object = add_object(repack, "/", &info);
        ok = object != NULL || repack_fail(repack, "/", "not enough memory");
    }
    ok = ok && object != NULL && list_group(repack, &walk, "/", object);
    while (ok && tool_walk_next(&walk))
        ok = list_link(repack, &walk);
    tool_walk_end(&walk);
    return ok;
}

bool
repack_list(struct repack *repack)
{
    const struct repack_request *request = &repack->request;
    uint64_t total_nbytes = 0;
    bool ok = list_all(repack);

    ok = ok && repack_masks_read(repack);
    for (struct repack_object *object = repack->first_object;
         ok && object != NULL; object = object->next)
        if (object->type == H5O_TYPE_DATASET)
            ok = repack_plan(repack, object, &total_nbytes);
    ok = ok && repack_masks_check(repack);
    if (ok)
        repack_name_lossless(repack);
    if (ok && total_nbytes > 0 && H5Zfilter_avail(H5Z_FILTER_TERP) <= 0)
        ok = repack_fail(repack, request->path_in, TOOL_NO_PLUGIN);
    for (int i = 0; ok && i < request->nrules; i++)
        if (!request->rules[i].used && !repack_is_of_many(request))
            ok = repack_fail(repack, request->path_in,
                             "--dataset %s: no dataset that terp can "
                             "compress matches",
                             request->rules[i].text);
    for (int i = 0; ok && i < request->nmembers; i++)
        if (!request->members[i].used)
            ok = repack_fail(repack, request->path_in,
                             "--member %s: no compound values that terp can "
                             "compress have this member",
                             request->members[i].text);
        else if (!request->members[i].takes_bound)
            ok = repack_fail(repack, request->path_in,
                             "--member %s: this member has no numbers, and "
                             "terp changes nothing else",
                             request->members[i].text);
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

/* Whether the values of the dataset are in other datasets or files. */
static bool
is_elsewhere(hid_t dcpl)
{
    return H5Pget_layout(dcpl) == H5D_VIRTUAL ||
           H5Pget_external_count(dcpl) > 0;
}

/* Limits for --rest deflate. Smaller datasets save less than chunks cost.
 * Larger values would make chunks of 64^3 values very large. Level 6 is zlib's
 * default. */
#define DEFLATE_MIN_NBYTES 1024
#define DEFLATE_MAX_VALUE_NBYTES 4096
#define DEFLATE_LEVEL 6

/* Whether a dataset that terp does not compress gets deflate: its values are in
 * its chunks, and HDF5 can read them. */
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
           tool_has_filters(dataset);
}

/* Existing chunks stay, unless they are too small for any filter. A dataset
 * without chunks gets some. */
static bool
set_deflate(const struct tool_dataset *dataset, hid_t dcpl)
{
    hsize_t chunk_dims[H5S_MAX_RANK];

    if (!dataset->chunked || tool_chunk_is_tiny(dataset)) {
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

/* Reports a filter that HDF5 does not find. With --salvage the dataset is left
 * out. */
static hid_t
fail_for_filter(struct repack *repack, struct repack_object *object,
                const struct tool_dataset *dataset)
{
    char filter[128], reason[384];

    repack_missing_filter(dataset, filter, sizeof filter);
    snprintf(reason, sizeof reason,
             "copying its strings, sequences or references needs its filter "
             "%s; set HDF5_PLUGIN_PATH to the directory that holds the filter",
             filter);
    object->left_out = repack->request.salvage;
    if (!object->left_out) {
        repack_fail(repack, object->path, "%s", reason);
        return -1;
    }
    repack->nleft_out++;
    tool_progress_end(&repack->progress);
    fprintf(stderr, "terp repack: %s: left out: %s\n", tool_shown(object->path),
            tool_shown(reason));
    return -1;
}

/* Copies a dataset that terp does not compress; may deflate it. */
static hid_t
copy_dataset(struct repack *repack, struct repack_object *object, hid_t in,
             hid_t parent, const char *name, hid_t lcpl)
{
    struct tool_dataset dataset;
    hid_t dcpl = -1, dapl = -1, out_type = -1, space = -1, out = -1;

    if (!tool_dataset_of(in, &dataset))
        return -1;
    bool has_values = !is_elsewhere(dataset.dcpl);
    const bool deflates = is_deflated(repack, object, &dataset);
    object->deferred = has_references(dataset.type) && has_values;
    if (!tool_has_filters(&dataset)) {
        if (dataset.has_addresses) {
            out = fail_for_filter(repack, object, &dataset);
            goto out;
        }
        if (!repack_stand_in(&dataset))
            goto out;
    }
    dcpl = repack_dataset_list(repack, object->path, &dataset, REPACK_LIST_ALL);
    out_type = dcpl < 0 ? -1 : repack_type(repack, object->path, dataset.type);
    space = out_type < 0 ? -1 : tool_space_copy(dataset.space);
    if (space >= 0 && (!deflates || set_deflate(&dataset, dcpl)))
        dapl = repack_access_list(dcpl, space, out_type);
    if (dapl >= 0)
        out = H5Dcreate2(parent, name, out_type, space, lcpl, dcpl, dapl);
    if (out >= 0 && has_values && !object->deferred &&
        (!repack_copy_values(repack, object, in, out, !deflates) ||
         !repack_flush(out))) {
        H5Dclose(out);
        out = -1;
    }
out:
    tool_close(dapl);
    tool_close(dcpl);
    tool_close(space);
    tool_close(out_type);
    tool_dataset_close(&dataset);
    return out;
}

/* Opens `*in` again after a failed compression: HDF5 takes chunks in its cache
 * for stored ones. */
static hid_t
make_dataset(struct repack *repack, struct repack_object *object, hid_t *in,
             hid_t parent, const char *name, hid_t lcpl)
{
    if (repack->request.step > 0 && repack_is_sampled(*in)) {
        if (repack->request.verbose && object->plan.whole)
            printf("%s: all values, because they belong to boxes\n",
                   tool_shown(object->path));
        else if (repack->request.verbose)
            printf("%s: every %lluth value\n", tool_shown(object->path),
                   (unsigned long long)repack->request.step);
        return repack_sample(repack, object, *in, parent, name, lcpl);
    }
    if (object->plan.bound.mode != REPACK_KEEP) {
        hid_t out = repack_compress(repack, object, parent, name, lcpl);
        if (out >= 0 || object->plan.bound.mode != REPACK_KEEP)
            return out;
        H5Oclose(*in);
        *in = H5Oopen_by_addr(repack->in, object->address);
    }
    if (repack->request.verbose)
        printf("%s: copied: %s\n", tool_shown(object->path),
               object->plan.reason);
    return *in < 0 ? -1 : copy_dataset(repack, object, *in, parent, name, lcpl);
}

static hid_t
make_group(hid_t in, hid_t parent, const char *name, hid_t lcpl)
{
    hid_t gcpl = repack_group_list(in);
    hid_t out =
        gcpl < 0 ? -1 : H5Gcreate2(parent, name, lcpl, gcpl, H5P_DEFAULT);

    tool_close(gcpl);
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

/* Creates the object of the link, or one more link to it. */
static bool
make_hard_link(struct repack *repack, const struct repack_link *link,
               hid_t parent, hid_t lcpl)
{
    struct repack_object *object = link->target;
    H5O_info_t info;
    bool ok = false;

    if (object->left_out)
        return true;
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
        out = make_dataset(repack, object, &in, parent, link->name, lcpl);
    else if (in >= 0 && object->type == H5O_TYPE_NAMED_DATATYPE)
        out = make_type(repack, object, in, parent, link->name, lcpl);
    if (out >= 0 && tool_object_info(out, &info)) {
        object->made = true;
        object->out_address = info.addr;
        ok = true;
    } else {
        ok = object->left_out || repack_fail(repack, object->path, NULL);
    }
    tool_close(out);
    tool_close(in);
    repack_stand_in_end();
    return ok;
}

static hid_t
follow_nowhere(const char *name, hid_t group, const void *value,
               size_t value_nbytes, hid_t lapl, hid_t dxpl)
{
    (void)name;
    (void)group;
    (void)value;
    (void)value_nbytes;
    (void)lapl;
    (void)dxpl;
    return -1;
}

/* HDF5 creates user-defined links only after their kind was registered with
 * functions. A copy does not follow links; so the function fails. */
static bool
know_link(H5L_type_t type)
{
    const H5L_class_t class = {.version = H5L_LINK_CLASS_T_VERS,
                               .id = type,
                               .comment = "copied",
                               .trav_func = follow_nowhere};

    return type < H5L_TYPE_UD_MIN || H5Lis_registered(type) > 0 ||
           H5Lregister(&class) >= 0;
}

/* Creates a soft, external or user-defined link. Its value is copied byte for
 * byte. */
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
    ok = know_link(link->type) &&
         (link->type == H5L_TYPE_SOFT
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

/* Writes values that refer to other objects. */
static bool
fill_dataset(struct repack *repack, const struct repack_object *object,
             hid_t in)
{
    struct tool_dataset dataset;
    hid_t dapl = -1, out = -1;

    if (tool_dataset_of(in, &dataset)) {
        dapl = repack_access_list(dataset.dcpl, dataset.space, dataset.type);
        tool_dataset_close(&dataset);
    }
    if (dapl >= 0)
        out = H5Dopen2(repack->out, object->path, dapl);
    bool ok = out >= 0 || repack_fail(repack, object->path, NULL);
    ok = ok && repack_copy_values(repack, object, in, out, true) &&
         (repack_flush(out) || repack_fail(repack, object->path, NULL));
    tool_close(out);
    tool_close(dapl);
    return ok;
}

/* Copies HDF5's comment of an object. */
static bool
copy_comment(struct repack *repack, const char *path, hid_t in, hid_t out)
{
    const ssize_t nbytes = H5Oget_comment(in, NULL, 0);
    char *comment = nbytes > 0 ? malloc((size_t)nbytes + 1) : NULL;
    const bool ok =
        nbytes == 0 || (comment != NULL &&
                        H5Oget_comment(in, comment, (size_t)nbytes + 1) >= 0 &&
                        H5Oset_comment(out, comment) >= 0);

    free(comment);
    return ok || repack_fail(repack, path, NULL);
}

/* Writes attributes, and values that refer to other objects. All objects exist
 * now. */
static bool
fill_object(struct repack *repack, const struct repack_object *object)
{
    hid_t in = H5Oopen_by_addr(repack->in, object->address);
    hid_t out = H5Oopen_by_addr(repack->out, object->out_address);
    bool ok = in >= 0 && out >= 0;

    if (!ok)
        repack_fail(repack, object->path, NULL);
    if (ok && object->deferred) {
        /* An open dataset already has its chunk cache. */
        tool_close(out);
        ok = fill_dataset(repack, object, in);
        out = ok ? H5Oopen_by_addr(repack->out, object->out_address) : -1;
    }
    ok = ok && copy_comment(repack, object->path, in, out);
    ok = ok && repack_copy_attributes(repack, object->path, in, out);
    ok = ok && repack_salvage_note(repack, object, in, out);
    if (ok && object->type == H5O_TYPE_DATASET &&
        object->plan.bound.mode != REPACK_KEEP)
        ok = repack_record(repack, object, in, out) &&
             repack_lossy_note(repack, object, in, out);
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

    if (H5Oget_info_by_name2(repack->out, "/", &info, H5O_INFO_BASIC,
                             H5P_DEFAULT) < 0)
        return repack_fail(repack, "/", NULL);
    root->made = true;
    root->out_address = info.addr;
    for (struct repack_link *link = repack->first_link; ok && link != NULL;
         link = link->next)
        ok = make_link(repack, link);
    for (struct repack_object *object = root; ok && object != NULL;
         object = object->next)
        ok = object->left_out || fill_object(repack, object);
    return ok && repack_lossy_finish(repack);
}
