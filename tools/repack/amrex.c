/* Levels of AMReX plotfiles: reads their boxes, chooses the length of chunks,
 * and encodes chunks in the shape of the boxes. The names and the order of
 * values are those of AMReX's WriteMultiLevelPlotfileHDF5SingleDset and
 * ...MultiDset, which take them from Chombo: "data:datatype=0" holds all
 * components of each box, or there is a dataset "data:datatype=c" for each
 * component c. */
#define _POSIX_C_SOURCE 200809L /* strndup */
#include "tools/repack/amrex.h"

#include <stdlib.h>
#include <string.h>

#include "codec/api/cd_values.h"
#include "codec/format/base.h"

#define DATA_NAME "data:datatype="
#define OFFSETS_NAME "data:offsets=0"
#define BOXES_NAME "boxes"

/* A chunk of one component has at least as many values as AMReX's smallest
 * usual boxes, 8^3, since HDF5's index and terp's frame take about 100 bytes
 * for each chunk; and at most 128^3, for readers of a part of a level. */
#define MIN_CHUNK_NVALUES 512
#define MAX_CHUNK_NVALUES ((uint64_t)1 << 21)
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

static bool
set_box(const struct corners *corners, struct amrex_box *box)
{
    box->nvalues = 1;
    for (int d = 0; d < 3; d++) {
        if (corners->high[d] < corners->low[d] ||
            corners->high[d] - corners->low[d] >= INT32_MAX)
            return false;
        box->dims[2 - d] = (uint64_t)(corners->high[d] - corners->low[d]) + 1;
        if (!mul_fits(box->nvalues, box->dims[2 - d], &box->nvalues))
            return false;
    }
    return true;
}

/* Fills in all members of the level but the chunks' length. False where offsets
 * do not follow from the boxes. */
static bool
set_boxes(struct amrex_level *level, const struct corners *corners,
          const long long *offsets)
{
    uint64_t at = 0;

    for (uint64_t i = 0; i < level->nboxes; i++) {
        struct amrex_box *box = &level->boxes[i];
        if (!set_box(&corners[i], box) || offsets[i] < 0 ||
            (uint64_t)offsets[i] != at || offsets[i + 1] <= offsets[i])
            return false;
        uint64_t nvalues = (uint64_t)(offsets[i + 1] - offsets[i]);
        if (i == 0)
            level->ncomponents = nvalues / box->nvalues;
        if (level->ncomponents == 0 || nvalues % box->nvalues != 0 ||
            nvalues / box->nvalues != level->ncomponents)
            return false;
        box->begin = at;
        at += nvalues;
    }
    return at == level->nvalues;
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
        corners = read_list(&list, type);
        level->nboxes = list.nvalues;
        tool_close(type);
        tool_dataset_close(&list);
    }
    if (tool_dataset_open(group, OFFSETS_NAME, &list)) {
        offsets = read_list(&list, H5T_NATIVE_LLONG);
        noffsets = list.nvalues;
        tool_dataset_close(&list);
    }
    if (corners == NULL || level->nboxes == 0)
        reason = "there are no boxes beside it";
    else if (offsets == NULL || noffsets != level->nboxes + 1)
        reason = "there are no offsets for its boxes";
    if (reason == NULL) {
        level->boxes = calloc(level->nboxes, sizeof *level->boxes);
        if (level->boxes == NULL)
            reason = "there is not enough memory for its boxes";
        else if (!set_boxes(level, corners, offsets))
            reason = "its boxes and their offsets do not agree";
    }
    free(corners);
    free(offsets);
    return reason;
}

struct amrex_level *
amrex_level_open(hid_t file, const char *path,
                 const struct tool_dataset *dataset, const char **reason_ret)
{
    const char *name = strrchr(path, '/');
    *reason_ret = NULL;
    if (name == NULL || strncmp(name + 1, DATA_NAME, strlen(DATA_NAME)) != 0)
        return NULL;

    char *folder = strndup(path, (size_t)(name + 1 - path));
    struct amrex_level *level = calloc(1, sizeof *level);
    hid_t group = folder == NULL ? -1 : H5Gopen2(file, folder, H5P_DEFAULT);
    if (folder == NULL || level == NULL) {
        *reason_ret = "there is not enough memory";
    } else if (dataset->rank != 1 ||
               (H5Tequal(dataset->type, H5T_NATIVE_FLOAT) <= 0 &&
                H5Tequal(dataset->type, H5T_NATIVE_DOUBLE) <= 0)) {
        *reason_ret = "it is no array of this machine's floating-point numbers";
    } else {
        level->nvalues = dataset->nvalues;
        *reason_ret = read_boxes(group, level);
    }
    tool_close(group);
    free(folder);
    if (*reason_ret != NULL) {
        amrex_level_free(level);
        return NULL;
    }
    level->chunk_nvalues = choose_chunk(level);
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

/* Finds the shape in which the chunk at value `at` is coded: a stack of boxes
 * where it holds whole ones, a box where it holds planes of one, a map where it
 * holds rows, else a line. */
static void
find_shape(const struct amrex_level *level, enum terp_type type, uint64_t at,
           struct terp_chunk *chunk_ret)
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

    if (!boxes_are_alike(level, 0, level->nvalues) ||
        level->nvalues % chunk_nvalues != 0 ||
        (box_nvalues % chunk_nvalues != 0 && chunk_nvalues % box_nvalues != 0))
        return 0;
    find_shape(level, TERP_FLOAT32, 0, &chunk);
    if (chunk.rank == 1)
        return 0;
    int first = chunk.stack ? 1 : 0;
    for (int d = first; d < chunk.rank; d++)
        dims_ret[d - first] = (unsigned)chunk.dims[d];
    return (unsigned)(chunk.rank - first);
}

/* The smallest bound of all components that the chunk holds. An absolute bound
 * counts before a relative one. */
static struct terp_params
params_at(const struct amrex_level *level, const struct terp_params *params,
          uint64_t at)
{
    uint64_t nvalues = min_u64(level->chunk_nvalues, level->nvalues - at);
    struct amrex_piece piece = amrex_level_piece(level, at, nvalues);
    struct terp_params least = params[piece.component];

    for (uint64_t done = piece.nvalues; done < nvalues; done += piece.nvalues) {
        piece = amrex_level_piece(level, at + done, nvalues - done);
        const struct terp_params *other = &params[piece.component];
        if (other->bound_mode < least.bound_mode ||
            (other->bound_mode == least.bound_mode &&
             other->bound < least.bound))
            least = *other;
    }
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
           double_bits(a->params.bound) == double_bits(b->params.bound);
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
        find_shape(level, block->cd.chunk.type, at, &work[i].chunk);
        work[i].params = params_at(level, params, at);
        terp_cd_copy_fills(&block->cd, &work[i].params);
    }
    for (uint64_t i = 0; st == TERP_OK && i < nwork; i++)
        if (!work[i].taken)
            st = encode_alike(batch, work, nwork, i, &ntaken);
    free(work);
    return st;
}
