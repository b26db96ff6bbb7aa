/* Reads the boxes of the levels of AMReX plotfiles. AMReX's
 * WriteMultiLevelPlotfileHDF5SingleDset and ...MultiDset took names and order
 * of values from Chombo: either "data:datatype=0" holds all components of each
 * box, or a dataset "data:datatype=c" holds component c. Boxes of Chombo may
 * have ghost cells; boxes of AMReX have none. */
#define _POSIX_C_SOURCE 200809L /* strndup */
#include "tools/repack/amrex.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/format/base.h"
#include "tools/common/attribute.h"

#define DATA_NAME "data:datatype="
#define OFFSETS_NAME "data:offsets=0"
#define BOXES_NAME "boxes"
#define ATTRIBUTES_NAME "data_attributes"
#define COMPS_NAME "comps"
#define OUTPUT_GHOST_NAME "outputGhost"
#define GHOST_NAME "ghost"

/* These limits bound the memory that a damaged file can claim; simulations have
 * fewer boxes and components. Every count that is read from a file is checked
 * against them. */
#define MAX_NBOXES ((uint64_t)1 << 22)
#define MAX_NCOMPONENTS ((uint64_t)1 << 16)

/* ---- what the file contains ---- */

/* A box of the file: inclusive corners, x first. */
struct corners {
    long long low[3], high[3];
};
_Static_assert(sizeof(struct corners) == 6 * sizeof(long long),
               "corners_type places six numbers one after the other");

/* Reads all elements of a dataset of one dimension. Free the result; NULL where
 * the dataset has another rank or cannot be read. */
static void *
read_list(const struct tool_dataset *dataset, hid_t type)
{
    if (dataset->rank != 1 || type < 0)
        return NULL;
    /* Where boxes have fewer dimensions, the file lacks members; they stay 0.
     */
    void *list = calloc(dataset->nvalues + 1, H5Tget_size(type));
    if (list != NULL &&
        H5Dread(dataset->id, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, list) < 0) {
        free(list);
        list = NULL;
    }
    return list;
}

/* The type of struct corners, with only the members that `stored`, the type of
 * the file's boxes, also has. Close it; negative if there is no such member. */
static hid_t
corners_type(hid_t stored)
{
    static const char *const names[] = {"lo_i", "lo_j", "lo_k",
                                        "hi_i", "hi_j", "hi_k"};
    hid_t type = H5Tcreate(H5T_COMPOUND, sizeof(struct corners));
    int nfound = 0;

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (H5Tget_member_index(stored, names[i]) >= 0 &&
            H5Tinsert(type, names[i], i * sizeof(long long),
                      H5T_NATIVE_LLONG) >= 0)
            nfound++;
    if (nfound < 2) {
        H5Tclose(type);
        return -1;
    }
    return type;
}

/* The number of ghost cells on each side of a box, x first. */
struct ghosts {
    long long n[3];
};

static bool
set_box(const struct corners *corners, const struct ghosts *ghosts,
        struct amrex_box *box)
{
    box->nvalues = 1;
    for (int d = 0; d < 3; d++) {
        if (corners->high[d] < corners->low[d] ||
            corners->high[d] - corners->low[d] >= INT32_MAX)
            return false;
        box->dims[2 - d] = (uint64_t)(corners->high[d] - corners->low[d]) + 1 +
                           2 * (uint64_t)ghosts->n[d];
        if (!mul_fits(box->nvalues, box->dims[2 - d], &box->nvalues))
            return false;
    }
    return true;
}

/* Fills in the level except for chunk_nvalues. False where the offsets
 * contradict the boxes. */
static bool
set_boxes(struct amrex_level *level, const struct corners *corners,
          const struct ghosts *ghosts, const long long *offsets)
{
    uint64_t at = 0;

    for (uint64_t i = 0; i < level->nboxes; i++) {
        struct amrex_box *box = &level->boxes[i];
        if (!set_box(&corners[i], ghosts, box) || offsets[i] < 0 ||
            (uint64_t)offsets[i] != at || offsets[i + 1] <= offsets[i])
            return false;
        uint64_t nvalues = (uint64_t)(offsets[i + 1] - offsets[i]);
        if (i == 0)
            level->ncomponents = nvalues / box->nvalues;
        if (level->ncomponents == 0 || level->ncomponents > MAX_NCOMPONENTS ||
            nvalues % box->nvalues != 0 ||
            nvalues / box->nvalues != level->ncomponents)
            return false;
        box->begin = at;
        at += nvalues;
    }
    return at == level->nvalues;
}

/* Reads an attribute that is a compound of up to three numbers, whose names end
 * in i, j and k. Without the attribute all numbers are 0. False where a number
 * cannot be a count of ghost cells. */
static bool
read_ghosts(hid_t group, const char *name, struct ghosts *ghosts_ret)
{
    static const char *const names[] = {"intvecti", "intvectj", "intvectk"};
    bool ok = true;

    *ghosts_ret = (struct ghosts){{0, 0, 0}};
    if (group < 0 || name[0] == '\0' || H5Aexists(group, name) <= 0)
        return true;
    hid_t attribute = H5Aopen(group, name, H5P_DEFAULT);
    hid_t stored = attribute >= 0 ? H5Aget_type(attribute) : -1;
    hid_t type = H5Tcreate(H5T_COMPOUND, sizeof *ghosts_ret);
    hid_t space = attribute >= 0 ? H5Aget_space(attribute) : -1;
    int nfound = 0;

    for (size_t d = 0; stored >= 0 && d < 3; d++)
        if (H5Tget_class(stored) == H5T_COMPOUND &&
            H5Tget_member_index(stored, names[d]) >= 0 &&
            H5Tinsert(type, names[d], d * sizeof(long long),
                      H5T_NATIVE_LLONG) >= 0)
            nfound++;
    if (nfound > 0)
        ok = H5Sget_simple_extent_npoints(space) == 1 &&
             H5Aread(attribute, type, ghosts_ret) >= 0;
    for (int d = 0; d < 3; d++)
        ok = ok && ghosts_ret->n[d] >= 0 && ghosts_ret->n[d] < INT32_MAX / 4;
    tool_close(space);
    tool_close(type);
    tool_close(stored);
    tool_close(attribute);
    return ok;
}

/* Sets the boxes with the ghost cells that make the boxes agree with the
 * offsets. Chombo's outputGhost counts the ghost cells in the file; a file
 * without this attribute has none, or `ghost`. Several counts can agree where
 * boxes are multiples of each other; then the number of components decides. */
static bool
fit_boxes(hid_t group, struct amrex_level *level, const struct corners *corners,
          const long long *offsets)
{
    static const char *const names[] = {OUTPUT_GHOST_NAME, "", GHOST_NAME};
    const hid_t attributes = H5Lexists(group, ATTRIBUTES_NAME, H5P_DEFAULT) > 0
                                 ? H5Gopen2(group, ATTRIBUTES_NAME, H5P_DEFAULT)
                                 : -1;
    struct ghosts ghosts;
    double ncomponents = 0;
    bool found = false;

    if (attributes >= 0)
        (void)tool_attribute_numbers(attributes, COMPS_NAME, 1, &ncomponents);
    for (int strict = 1; !found && strict >= 0; strict--)
        for (int i = 0; !found && i < 3; i++)
            found = read_ghosts(attributes, names[i], &ghosts) &&
                    set_boxes(level, corners, &ghosts, offsets) &&
                    (!strict || level->ncomponents == 1 || ncomponents == 0 ||
                     (double)level->ncomponents == ncomponents);
    tool_close(attributes);
    return found;
}

/* ---- levels ---- */

/* Reads the boxes of `level`, whose nvalues is set. Returns NULL, or the reason
 * of a failure. */
static const char *
read_boxes(hid_t group, struct amrex_level *level)
{
    const char *reason = NULL;
    uint64_t noffsets = 0;
    struct corners *corners = NULL;
    long long *offsets = NULL;
    struct tool_dataset list;

    if (tool_dataset_open(group, BOXES_NAME, &list)) {
        hid_t type = corners_type(list.type);
        level->nboxes = list.nvalues;
        if (level->nboxes <= MAX_NBOXES)
            corners = read_list(&list, type);
        tool_close(type);
        tool_dataset_close(&list);
    }
    if (tool_dataset_open(group, OFFSETS_NAME, &list)) {
        noffsets = list.nvalues;
        if (noffsets <= MAX_NBOXES + 1)
            offsets = read_list(&list, H5T_NATIVE_LLONG);
        tool_dataset_close(&list);
    }
    if (level->nboxes > MAX_NBOXES)
        reason = "it has more boxes than terp supports";
    else if (corners == NULL || level->nboxes == 0)
        reason = "its group has no readable dataset boxes";
    else if (offsets == NULL || noffsets != level->nboxes + 1)
        reason = "its group has no data:offsets=0 that fits the boxes";
    if (reason == NULL) {
        level->boxes = calloc(level->nboxes, sizeof *level->boxes);
        if (level->boxes == NULL)
            reason = "not enough memory for its boxes";
        else if (!fit_boxes(group, level, corners, offsets))
            reason = "its boxes and data:offsets=0 contradict each other";
    }
    free(corners);
    free(offsets);
    return reason;
}

/* Opens the group that holds the object at `path`. Close it. */
static hid_t
open_folder(hid_t file, const char *path)
{
    const char *name = strrchr(path, '/');
    char *folder =
        name == NULL ? NULL : strndup(path, (size_t)(name + 1 - path));
    hid_t group = folder == NULL ? -1 : H5Gopen2(file, folder, H5P_DEFAULT);

    free(folder);
    return group;
}

bool
amrex_is_of_level(hid_t file, const char *path)
{
    static const char *const names[] = {BOXES_NAME, OFFSETS_NAME,
                                        DATA_NAME "0"};
    hid_t group = open_folder(file, path);
    bool is_of_level = group >= 0;

    for (size_t i = 0; is_of_level && i < sizeof names / sizeof *names; i++)
        is_of_level = H5Lexists(group, names[i], H5P_DEFAULT) > 0;
    tool_close(group);
    return is_of_level;
}

bool
amrex_is_of_components(hid_t file, const char *path)
{
    hid_t group = amrex_is_of_level(file, path) ? open_folder(file, path) : -1;
    const bool is_one =
        group >= 0 && H5Lexists(group, DATA_NAME "1", H5P_DEFAULT) == 0;

    tool_close(group);
    return is_one;
}

void
amrex_component_name(hid_t file, const struct amrex_level *level,
                     uint64_t component, char name_ret[AMREX_MAX_NAME_NBYTES])
{
    char attribute[32];
    hid_t root = H5Gopen2(file, "/", H5P_DEFAULT);

    snprintf(attribute, sizeof attribute, "component_%" PRIu64,
             level->first + component);
    char *name = root < 0 ? NULL : tool_attribute_text(root, attribute);
    if (name != NULL && name[0] != '\0')
        snprintf(name_ret, AMREX_MAX_NAME_NBYTES, "%s", name);
    else
        snprintf(name_ret, AMREX_MAX_NAME_NBYTES, "component %" PRIu64,
                 level->first + component);
    free(name);
    tool_close(root);
}

struct amrex_level *
amrex_level_open(hid_t file, const char *path,
                 const struct tool_dataset *dataset, const char **reason_ret)
{
    const char *name = strrchr(path, '/');
    *reason_ret = NULL;
    if (name == NULL || strncmp(name + 1, DATA_NAME, strlen(DATA_NAME)) != 0)
        return NULL;

    hid_t group = open_folder(file, path);
    struct amrex_level *level = calloc(1, sizeof *level);
    if (level == NULL) {
        *reason_ret = "not enough memory";
    } else if (dataset->rank != 1 ||
               (H5Tequal(dataset->type, H5T_NATIVE_FLOAT) <= 0 &&
                H5Tequal(dataset->type, H5T_NATIVE_DOUBLE) <= 0)) {
        *reason_ret = "it must have one dimension, and floats or doubles in "
                      "this machine's byte order";
    } else {
        level->nvalues = dataset->nvalues;
        level->first = strtoull(name + 1 + strlen(DATA_NAME), NULL, 10);
        *reason_ret = read_boxes(group, level);
    }
    tool_close(group);
    if (*reason_ret != NULL) {
        amrex_level_free(level);
        return NULL;
    }
    return level;
}

void
amrex_level_free(struct amrex_level *level)
{
    if (level != NULL)
        free(level->boxes);
    free(level);
}

bool
amrex_level_has_one_shape(const struct amrex_level *level)
{
    for (uint64_t i = 1; i < level->nboxes; i++)
        if (memcmp(level->boxes[i].dims, level->boxes[0].dims,
                   sizeof level->boxes[0].dims) != 0)
            return false;
    return true;
}

static uint64_t
gcd(uint64_t a, uint64_t b)
{
    while (b != 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

uint64_t
amrex_level_common_divisor(const struct amrex_level *level)
{
    uint64_t common = 0;

    for (uint64_t i = 0; i < level->nboxes; i++)
        common = gcd(common, level->boxes[i].nvalues);
    return common;
}

struct amrex_span
amrex_level_span(const struct amrex_level *level, uint64_t at, uint64_t nvalues)
{
    uint64_t first = 0, last = level->nboxes - 1;

    while (first < last) {
        uint64_t middle = last - (last - first) / 2;
        if (level->boxes[middle].begin <= at)
            first = middle;
        else
            last = middle - 1;
    }
    const struct amrex_box *box = &level->boxes[first];
    struct amrex_span span = {
        .box = box,
        .component = (at - box->begin) / box->nvalues,
        .at = (at - box->begin) % box->nvalues,
    };
    span.nvalues = min_u64(nvalues, box->nvalues - span.at);
    return span;
}
