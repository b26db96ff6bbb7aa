/* Reads the boxes of the levels of AMReX plotfiles, chooses the length of
 * chunks, and encodes chunks in the shape of the boxes. AMReX's
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

#include "codec/api/cd_values.h"
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

/* Limits of a chunk that holds one component. At least 8^3 values, as AMReX's
 * smallest usual boxes have: HDF5's index and terp's frame take about 100 bytes
 * for each chunk. At most 128^3 values, so that a reader of a small region
 * decodes little else. */
#define MIN_CHUNK_NVALUES 512
#define MAX_CHUNK_NVALUES ((uint64_t)1 << 21)
/* Sizes of chunks that several components may share. Boxes of equal shape are
 * stacked in a chunk up to STACK_NVALUES, the size of chunks of other datasets.
 * Boxes of several shapes get chunks of SHARED_CHUNK_NVALUES where their common
 * divisor is below MIN_SHAPED_NVALUES: the frames of so short chunks take more
 * than the shape of the boxes saves. */
#define STACK_NVALUES ((uint64_t)1 << 18)
#define MIN_SHAPED_NVALUES ((uint64_t)1 << 11)
#define SHARED_CHUNK_NVALUES ((uint64_t)1 << 15)
/* Where no length divides all boxes, some chunks hold the end of one component
 * and the start of the next; they must keep the smaller of the two bounds. With
 * ODD_CHUNKS_PER_BOX chunks in the smallest box such chunks are few. */
#define ODD_CHUNKS_PER_BOX 8
#define MAX_ODD_CHUNK_NVALUES ((uint64_t)1 << 15)

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

/* ---- length of chunks ---- */

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

static uint64_t
plane_of(const struct amrex_box *box)
{
    return box->dims[1] * box->dims[2];
}

/* The number of values in chunks that keep the shape of their boxes. */
static uint64_t
count_in_shape(const struct amrex_level *level, uint64_t chunk_nvalues)
{
    uint64_t nvalues = 0;

    for (uint64_t i = 0; i < level->nboxes; i++)
        if (chunk_nvalues % plane_of(&level->boxes[i]) == 0)
            nvalues += level->boxes[i].nvalues;
    return nvalues;
}

static bool
boxes_have_one_shape(const struct amrex_level *level)
{
    for (uint64_t i = 1; i < level->nboxes; i++)
        if (memcmp(level->boxes[i].dims, level->boxes[0].dims,
                   sizeof level->boxes[0].dims) != 0)
            return false;
    return true;
}

/* Chooses a length that divides all boxes: then each chunk holds one component
 * and has its bound. Of such lengths the function takes the one with the most
 * values in chunks that keep the shape of their boxes, and of equal ones the
 * largest. */
static uint64_t
choose_chunk(const struct amrex_level *level)
{
    uint64_t common = 0, smallest = UINT64_MAX, best = 0, best_in_shape = 0;

    for (uint64_t i = 0; i < level->nboxes; i++) {
        common = gcd(common, level->boxes[i].nvalues);
        smallest = min_u64(smallest, level->boxes[i].nvalues);
    }
    for (uint64_t nvalues = min_u64(common, MAX_CHUNK_NVALUES);
         nvalues >= MIN_CHUNK_NVALUES; nvalues--) {
        if (common % nvalues != 0)
            continue;
        uint64_t in_shape = count_in_shape(level, nvalues);
        if (best == 0 || in_shape > best_in_shape) {
            best = nvalues;
            best_in_shape = in_shape;
        }
    }
    if (best == 0)
        best = min_u64(smallest / ODD_CHUNKS_PER_BOX, MAX_ODD_CHUNK_NVALUES);
    if (best < MIN_CHUNK_NVALUES)
        best = MIN_CHUNK_NVALUES;
    return min_u64(best, level->nvalues);
}

/* Chooses a length where components may share chunks: whole boxes if boxes are
 * equal and small, else chunks of a sufficient length. `stacks` is false for
 * lossless chunks of several components: bits of different components have
 * nothing in common, and a stack would be larger than its boxes one by one. */
static uint64_t
choose_shared_chunk(const struct amrex_level *level, bool stacks)
{
    const uint64_t box_nvalues = level->boxes[0].nvalues;
    const uint64_t nvalues = choose_chunk(level);

    if (stacks && boxes_have_one_shape(level) &&
        box_nvalues <= STACK_NVALUES / 2)
        return min_u64(STACK_NVALUES / box_nvalues * box_nvalues,
                       level->nvalues);
    return nvalues < MIN_SHAPED_NVALUES
               ? min_u64(SHARED_CHUNK_NVALUES, level->nvalues)
               : nvalues;
}

void
amrex_level_choose_chunk(struct amrex_level *level, enum amrex_bounds bounds)
{
    const bool is_one = level->ncomponents == 1;

    level->chunk_nvalues =
        bounds == AMREX_OWN && !is_one
            ? choose_chunk(level)
            : choose_shared_chunk(level, is_one || bounds != AMREX_LOSSLESS);
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

/* ---- chunks ---- */

/* Whether all boxes of the values from `at` on have the same shape. */
static bool
boxes_are_alike(const struct amrex_level *level, uint64_t at, uint64_t nvalues)
{
    if (nvalues > level->nvalues - at)
        return false;
    struct amrex_span first = amrex_level_span(level, at, nvalues);
    for (uint64_t done = first.nvalues; done < nvalues;) {
        struct amrex_span span =
            amrex_level_span(level, at + done, nvalues - done);
        if (memcmp(span.box->dims, first.box->dims, sizeof span.box->dims) != 0)
            return false;
        done += span.nvalues;
    }
    return true;
}

/* The shape is a stack of boxes if the chunk holds whole boxes, a box if it
 * holds planes of one box, a map if it holds rows, else a line. */
void
amrex_level_shape(const struct amrex_level *level, enum terp_type type,
                  uint64_t at, struct terp_chunk *chunk_ret)
{
    uint64_t nvalues = level->chunk_nvalues;
    struct terp_chunk line = {.type = type, .rank = 1, .dims = {nvalues}};

    *chunk_ret = line;
    if (!boxes_are_alike(level, at, nvalues))
        return;
    struct amrex_span span = amrex_level_span(level, at, nvalues);
    const uint64_t *box = span.box->dims;
    uint64_t plane = box[1] * box[2], row = box[2];
    if (span.at == 0 && nvalues % span.box->nvalues == 0 &&
        nvalues > span.box->nvalues) {
        *chunk_ret = (struct terp_chunk){
            .type = type,
            .stack = true,
            .rank = 4,
            .dims = {nvalues / span.box->nvalues, box[0], box[1], box[2]}};
    } else if (span.at % plane == 0 && nvalues % plane == 0 &&
               span.nvalues == nvalues) {
        *chunk_ret = (struct terp_chunk){
            .type = type, .rank = 3, .dims = {nvalues / plane, box[1], row}};
    } else if (span.at % row == 0 && nvalues % row == 0) {
        *chunk_ret = (struct terp_chunk){
            .type = type, .rank = 2, .dims = {nvalues / row, row}};
    }
}

unsigned
amrex_level_brick(const struct amrex_level *level, unsigned *dims_ret)
{
    struct terp_chunk chunk;
    uint64_t chunk_nvalues = level->chunk_nvalues;
    uint64_t box_nvalues = level->boxes[0].nvalues;

    if (!boxes_have_one_shape(level) || level->nvalues % chunk_nvalues != 0 ||
        (box_nvalues % chunk_nvalues != 0 && chunk_nvalues % box_nvalues != 0))
        return 0;
    amrex_level_shape(level, TERP_FLOAT32, 0, &chunk);
    if (chunk.rank == 1)
        return 0;
    int first = chunk.stack ? 1 : 0;
    for (int d = first; d < chunk.rank; d++)
        dims_ret[d - first] = (unsigned)chunk.dims[d];
    return (unsigned)(chunk.rank - first);
}

/* The smallest bound of all components in the chunk; an absolute bound takes
 * precedence over a relative one. A chunk of several components keeps the sign
 * of each value: the common sign of a chunk says nothing about one component.
 */
static struct terp_params
params_at(const struct amrex_level *level, const struct terp_params *params,
          uint64_t at)
{
    uint64_t nvalues = min_u64(level->chunk_nvalues, level->nvalues - at);
    struct amrex_span span = amrex_level_span(level, at, nvalues);
    const uint64_t first = span.component;
    struct terp_params least = params[first];
    bool several = false;

    for (uint64_t done = span.nvalues; done < nvalues; done += span.nvalues) {
        span = amrex_level_span(level, at + done, nvalues - done);
        const struct terp_params *other = &params[span.component];
        if (other->bound_mode < least.bound_mode ||
            (other->bound_mode == least.bound_mode &&
             other->bound < least.bound))
            least = *other;
        several |= span.component != first;
    }
    if (several && least.keep_sign != TERP_KEEP_SIGN_NONE)
        least.keep_sign = TERP_KEEP_SIGN_OF_VALUES;
    return least;
}

/* How one chunk is encoded. */
struct work {
    struct terp_chunk chunk;
    struct terp_params params;
    bool taken;
};

static bool
is_alike(const struct work *a, const struct work *b)
{
    return a->chunk.rank == b->chunk.rank && a->chunk.stack == b->chunk.stack &&
           memcmp(a->chunk.dims, b->chunk.dims, sizeof a->chunk.dims) == 0 &&
           a->params.bound_mode == b->params.bound_mode &&
           double_bits(a->params.bound) == double_bits(b->params.bound) &&
           a->params.keep_sign == b->params.keep_sign;
}

/* Encodes `work[first]` and all later chunks of the same shape and bound in one
 * batch; *ntaken counts the chunks that batches have taken. */
static enum terp_status
encode_alike(struct terp_h5_batch *batch, struct work *work, uint64_t nwork,
             uint64_t first, uint64_t *ntaken)
{
    const uint64_t from = *ntaken;

    for (uint64_t i = first; i < nwork; i++) {
        if (work[i].taken || !is_alike(&work[i], &work[first]))
            continue;
        work[i].taken = true;
        terp_h5_batch_take(batch, i, i, (*ntaken)++);
    }
    return terp_run_encode(batch->run, &work[first].params, &work[first].chunk,
                           *ntaken - from,
                           (const void *const *)batch->chunk + from,
                           batch->stream + from, batch->stream_nbytes + from);
}

enum terp_status
amrex_level_encode(const struct amrex_level *level, struct terp_h5_batch *batch,
                   const struct terp_h5_block *block,
                   const struct terp_params *params, const void *values)
{
    const uint64_t nwork = terp_array_nchunks(&block->array);
    struct work *work = calloc(nwork, sizeof *work);
    uint64_t ntaken = 0;

    if (work == NULL)
        return TERP_ERR_MEMORY;
    enum terp_status st = terp_array_gather(batch->run, &block->array, 0, nwork,
                                            values, batch->chunks);
    for (uint64_t i = 0; i < nwork; i++) {
        uint64_t at = block->offset[0] + i * level->chunk_nvalues;
        amrex_level_shape(level, block->cd.chunk.type, at, &work[i].chunk);
        const struct terp_params own = params_at(level, params, at);
        work[i].params = own;
        terp_cd_copy_fills(&block->cd, &work[i].params);
        work[i].params.keep_sign = own.keep_sign; /* of the chunk, not of the
                                                     dataset */
    }
    for (uint64_t i = 0; st == TERP_OK && i < nwork; i++)
        if (!work[i].taken)
            st = encode_alike(batch, work, nwork, i, &ntaken);
    free(work);
    return st;
}
