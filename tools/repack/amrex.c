/* Levels of AMReX plotfiles: reads their boxes, chooses the length of chunks,
 * and encodes chunks in the shape of the boxes. The names and the order of
 * values are those of AMReX's WriteMultiLevelPlotfileHDF5SingleDset and
 * ...MultiDset, which take them from Chombo: "data:datatype=0" holds all
 * components of each box, or there is a dataset "data:datatype=c" for each
 * component c. Chombo's boxes may have ghost cells, which AMReX's have not. */
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

/* No simulation has more boxes or components; a damaged file may say so. */
#define MAX_NBOXES ((uint64_t)1 << 22)
#define MAX_NCOMPONENTS ((uint64_t)1 << 16)

/* A chunk of one component has at least as many values as AMReX's smallest
 * usual boxes, 8^3, since HDF5's index and terp's frame take about 100 bytes
 * for each chunk; and at most 128^3, for readers of a part of a level. */
#define MIN_CHUNK_NVALUES 512
#define MAX_CHUNK_NVALUES ((uint64_t)1 << 21)
/* Where components may share chunks, boxes of equal shape are stacked, up to as
 * many values as chunks of other datasets have. Boxes of several shapes get
 * long chunks where the length that divides them is short: the frames of short
 * ones then take more than the shape of a box saves. */
#define STACK_NVALUES ((uint64_t)1 << 18)
#define MIN_SHAPED_NVALUES ((uint64_t)1 << 11)
#define SHARED_CHUNK_NVALUES ((uint64_t)1 << 15)
/* Where no length divides all boxes, some chunks hold the end of one component
 * and the start of the next, and must keep the smaller of their bounds. They
 * are few when chunks are this small a part of the smallest box. */
#define ODD_CHUNKS_PER_BOX 8
#define MAX_ODD_CHUNK_NVALUES ((uint64_t)1 << 15)

/* ---- what the file says ---- */

/* A box in the file: inclusive corners, x first. */
struct corners {
    long long low[3], high[3];
};
_Static_assert(sizeof(struct corners) == 6 * sizeof(long long),
               "corners_type places six numbers one after the other");

/* Reads all elements of a dataset of one dimension. NULL when it is no such
 * dataset; to be freed. */
static void *
read_list(const struct tool_dataset *dataset, hid_t type)
{
    if (dataset->rank != 1 || type < 0)
        return NULL;
    /* Members that the file does not have, since its boxes have fewer
     * dimensions, stay 0. */
    void *list = calloc(dataset->nvalues + 1, H5Tget_size(type));
    if (list != NULL &&
        H5Dread(dataset->id, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, list) < 0) {
        free(list);
        list = NULL;
    }
    return list;
}

/* The type of struct corners with those members that the boxes of the file,
 * which are `stored`, have. Negative where they have none; to be closed. */
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

/* How many ghost cells boxes have on each side, x first. */
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

/* Fills in all members of the level but the chunks' length. False where offsets
 * do not follow from the boxes. */
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
 * in i, j and k. All are 0 where there is no such attribute; false where they
 * are none that boxes can have. */
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

/* Sets the boxes with as many ghost cells as make them agree with the offsets.
 * Chombo's outputGhost are those in the file; files without have none, or
 * `ghost`. Where several agree, since boxes happen to be multiples of each
 * other, the number of components decides. */
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

/* ---- how long chunks are ---- */

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

/* How many values would lie in chunks that keep the shape of their boxes. */
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

/* Chooses a length that divides all boxes, so that each chunk is of one
 * component and has its bound. Among such lengths it takes those by which most
 * values are in chunks that keep the shape of their boxes, and of these the
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

/* The same where components may share chunks: whole boxes where they are equal
 * and small, else chunks that are long enough. `stacks`: what is beside each
 * other in a chunk may be of several components; bits of these have nothing in
 * common, and then a stack is larger than its boxes one by one. */
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

/* Reads the boxes of `level`, whose nvalues is set. NULL, or why not. */
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
        reason = "it has more boxes than terp knows how to take";
    else if (corners == NULL || level->nboxes == 0)
        reason = "there are no boxes beside it";
    else if (offsets == NULL || noffsets != level->nboxes + 1)
        reason = "there are no offsets for its boxes";
    if (reason == NULL) {
        level->boxes = calloc(level->nboxes, sizeof *level->boxes);
        if (level->boxes == NULL)
            reason = "there is not enough memory for its boxes";
        else if (!fit_boxes(group, level, corners, offsets))
            reason = "its boxes and their offsets do not agree";
    }
    free(corners);
    free(offsets);
    return reason;
}

/* The group in which the object at `path` is; to be closed. */
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
        *reason_ret = "there is not enough memory";
    } else if (dataset->rank != 1 ||
               (H5Tequal(dataset->type, H5T_NATIVE_FLOAT) <= 0 &&
                H5Tequal(dataset->type, H5T_NATIVE_DOUBLE) <= 0)) {
        *reason_ret = "it is no array of this machine's floating-point numbers";
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

struct amrex_piece
amrex_level_piece(const struct amrex_level *level, uint64_t at,
                  uint64_t nvalues)
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
    struct amrex_piece piece = {
        .box = box,
        .component = (at - box->begin) / box->nvalues,
        .at = (at - box->begin) % box->nvalues,
    };
    piece.nvalues = min_u64(nvalues, box->nvalues - piece.at);
    return piece;
}

/* ---- chunks ---- */

/* Whether the values from `at` on are of boxes like the first of them. */
static bool
boxes_are_alike(const struct amrex_level *level, uint64_t at, uint64_t nvalues)
{
    if (nvalues > level->nvalues - at)
        return false;
    struct amrex_piece first = amrex_level_piece(level, at, nvalues);
    for (uint64_t done = first.nvalues; done < nvalues;) {
        struct amrex_piece piece =
            amrex_level_piece(level, at + done, nvalues - done);
        if (memcmp(piece.box->dims, first.box->dims, sizeof piece.box->dims) !=
            0)
            return false;
        done += piece.nvalues;
    }
    return true;
}

/* A stack of boxes where the chunk holds whole ones, a box where it holds
 * planes of one, a map where it holds rows, else a line. */
void
amrex_level_shape(const struct amrex_level *level, enum terp_type type,
                  uint64_t at, struct terp_chunk *chunk_ret)
{
    uint64_t nvalues = level->chunk_nvalues;
    struct terp_chunk line = {.type = type, .rank = 1, .dims = {nvalues}};

    *chunk_ret = line;
    if (!boxes_are_alike(level, at, nvalues))
        return;
    struct amrex_piece piece = amrex_level_piece(level, at, nvalues);
    const uint64_t *box = piece.box->dims;
    uint64_t plane = box[1] * box[2], row = box[2];
    if (piece.at == 0 && nvalues % piece.box->nvalues == 0 &&
        nvalues > piece.box->nvalues) {
        *chunk_ret = (struct terp_chunk){
            .type = type,
            .stack = true,
            .rank = 4,
            .dims = {nvalues / piece.box->nvalues, box[0], box[1], box[2]}};
    } else if (piece.at % plane == 0 && nvalues % plane == 0 &&
               piece.nvalues == nvalues) {
        *chunk_ret = (struct terp_chunk){
            .type = type, .rank = 3, .dims = {nvalues / plane, box[1], row}};
    } else if (piece.at % row == 0 && nvalues % row == 0) {
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

/* The smallest bound of all components that the chunk holds. An absolute bound
 * counts before a relative one. The signs of a chunk of several components tell
 * nothing of one of them, so all values keep theirs there. */
static struct terp_params
params_at(const struct amrex_level *level, const struct terp_params *params,
          uint64_t at)
{
    uint64_t nvalues = min_u64(level->chunk_nvalues, level->nvalues - at);
    struct amrex_piece piece = amrex_level_piece(level, at, nvalues);
    const uint64_t first = piece.component;
    struct terp_params least = params[first];
    bool several = false;

    for (uint64_t done = piece.nvalues; done < nvalues; done += piece.nvalues) {
        piece = amrex_level_piece(level, at + done, nvalues - done);
        const struct terp_params *other = &params[piece.component];
        if (other->bound_mode < least.bound_mode ||
            (other->bound_mode == least.bound_mode &&
             other->bound < least.bound))
            least = *other;
        several |= piece.component != first;
    }
    if (several && least.keep_sign != TERP_KEEP_SIGN_NONE)
        least.keep_sign = TERP_KEEP_SIGN_OF_VALUES;
    return least;
}

/* How a chunk is coded. */
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

/* Encodes in one batch `work[first]` and all later chunks of the same shape and
 * bound; *ntaken counts the chunks that are taken. */
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
        work[i].params.keep_sign = own.keep_sign; /* not the dataset's */
    }
    for (uint64_t i = 0; st == TERP_OK && i < nwork; i++)
        if (!work[i].taken)
            st = encode_alike(batch, work, nwork, i, &ntaken);
    free(work);
    return st;
}
