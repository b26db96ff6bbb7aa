#define _POSIX_C_SOURCE 200809L /* for setenv */
/* Writes and reads datasets by the connector on top of a fake one, while each
 * function of HDF5, each allocation and each call of the device fails in turn.
 * The result is an error or right, nothing stays open, and a file contains only
 * earlier values and new ones. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "filter/plugin/h5z_terp.h"
#include "filter/plugin/history.h"
#include "filter/plugin/host.h"
#include "filter/plugin/marks.h"
#include "h5tests/engine/fake_cuda_engine.h"
#include "h5tests/support/allocations.h"
#include "h5tests/support/cases.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/h5_files.h"
#include "h5tests/support/painted.h"
#include "h5tests/vol/fake_below.h"
#include "vol/exchange.h"
#include "vol/messages.h"
#include "vol/object.h"
#include "vol/pass.h"
#include "vol/split.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define NVALUES (10 * 8 * 8)
/* Memory is large enough for a box within a larger box. */
#define CAP_NVALUES 2048

static const struct h5_shape cube = {3, {10, 8, 8}, {4, 4, 4}};
static const struct h5_shape whole = {3, {10, 8, 8}, {10, 8, 8}};
static struct fake_cuda *fake;

/* ---- functions that are not in the library's table ---- */

bool
__real_terp_host_find_id(const struct terp_host *, const char *, hid_t *);
bool
__wrap_terp_host_find_id(const struct terp_host *, const char *, hid_t *);
bool
__real_terp_host_find(const struct terp_host *, const char *, void *);
bool
__wrap_terp_host_find(const struct terp_host *, const char *, void *);
const struct vol_library *
__wrap_vol_library_of(const void *);
bool
__real_terp_prepared_take(size_t, const unsigned *, const void *, void *,
                          uint64_t *);
bool
__wrap_terp_prepared_take(size_t, const unsigned *, const void *, void *,
                          uint64_t *);

enum terp_mark
__real_terp_marks_take(const void *, uint64_t, void **, uint64_t *);
enum terp_mark
__wrap_terp_marks_take(const void *, uint64_t, void **, uint64_t *);

struct terp_remembered *
__real_terp_history_find(size_t, const unsigned *, const struct terp_chunk *,
                         const void *);
struct terp_remembered *
__wrap_terp_history_find(size_t, const unsigned *, const struct terp_chunk *,
                         const void *);

void
__real_terp_history_add(size_t, const unsigned *, const struct terp_chunk *,
                        const void *, uint64_t, const void *);
void
__wrap_terp_history_add(size_t, const unsigned *, const struct terp_chunk *,
                        const void *, uint64_t, const void *);

/* Chunks for which the filter found a stream that was encoded ahead. */
static int ntaken;

/* Streams that the filter gave to HDF5 for marks. */
static int nmarked;

/* The filter remembers no decoded streams. Which streams it finds depends on
 * addresses, and it asks for streams that were encoded ahead only if it finds
 * none. */
static bool remembers_nothing;

struct terp_remembered *
__wrap_terp_history_find(size_t nwords, const unsigned *words,
                         const struct terp_chunk *chunk, const void *values)
{
    return remembers_nothing
               ? NULL
               : __real_terp_history_find(nwords, words, chunk, values);
}

/* What it remembers stays allocated. */
void
__wrap_terp_history_add(size_t nwords, const unsigned *words,
                        const struct terp_chunk *chunk, const void *stream,
                        uint64_t stream_nbytes, const void *values)
{
    if (!remembers_nothing)
        __real_terp_history_add(nwords, words, chunk, stream, stream_nbytes,
                                values);
}

bool
__wrap_terp_prepared_take(size_t nwords, const unsigned *words,
                          const void *values, void *stream,
                          uint64_t *nbytes_ret)
{
    const bool is_taken =
        __real_terp_prepared_take(nwords, words, values, stream, nbytes_ret);

    ntaken += is_taken;
    return is_taken;
}

enum terp_mark
__wrap_terp_marks_take(const void *chunk, uint64_t nbytes, void **stream_ret,
                       uint64_t *stream_nbytes_ret)
{
    const enum terp_mark mark =
        __real_terp_marks_take(chunk, nbytes, stream_ret, stream_nbytes_ret);

    nmarked += mark == TERP_MARK_FOUND;
    return mark;
}

bool
__wrap_terp_host_find_id(const struct terp_host *host, const char *variable,
                         hid_t *id_ret)
{
    const struct {
        const char *name;
        hid_t id;
    } known[] = {{"H5T_IEEE_F32LE_g", H5T_IEEE_F32LE},
                 {"H5T_IEEE_F32BE_g", H5T_IEEE_F32BE},
                 {"H5T_IEEE_F64LE_g", H5T_IEEE_F64LE},
                 {"H5T_IEEE_F64BE_g", H5T_IEEE_F64BE},
                 {"H5T_STD_I8LE_g", H5T_STD_I8LE},
                 {"H5T_STD_I8BE_g", H5T_STD_I8BE},
                 {"H5T_STD_U8LE_g", H5T_STD_U8LE},
                 {"H5T_STD_U8BE_g", H5T_STD_U8BE},
                 {"H5T_STD_I16LE_g", H5T_STD_I16LE},
                 {"H5T_STD_I16BE_g", H5T_STD_I16BE},
                 {"H5T_STD_U16LE_g", H5T_STD_U16LE},
                 {"H5T_STD_U16BE_g", H5T_STD_U16BE},
                 {"H5T_STD_I32LE_g", H5T_STD_I32LE},
                 {"H5T_STD_I32BE_g", H5T_STD_I32BE},
                 {"H5T_STD_U32LE_g", H5T_STD_U32LE},
                 {"H5T_STD_U32BE_g", H5T_STD_U32BE},
                 {"H5T_STD_I64LE_g", H5T_STD_I64LE},
                 {"H5T_STD_I64BE_g", H5T_STD_I64BE},
                 {"H5T_STD_U64LE_g", H5T_STD_U64LE},
                 {"H5T_STD_U64BE_g", H5T_STD_U64BE},
                 {"H5P_LST_DATASET_XFER_ID_g", H5P_DATASET_XFER_DEFAULT}};

    (void)host;
    for (size_t i = 0; i < COUNT(known); i++)
        if (strcmp(variable, known[i].name) == 0) {
            *id_ret = known[i].id;
            return !fake_below_fails(variable);
        }
    return false;
}

bool
__wrap_terp_host_find(const struct terp_host *host, const char *name,
                      void *function_ret)
{
    return fake_below_find(name, function_ret) ||
           __real_terp_host_find(host, name, function_ret);
}

const struct vol_library *
__wrap_vol_library_of(const void *caller)
{
    (void)caller;
    return fake_below_fails("vol_library_of") ? NULL : &fake_below.library;
}

/* ---- datasets ---- */

enum kind {
    CUBE,           /* terp */
    BIG,            /* big-endian, of 64 bits, terp */
    HOLES,          /* terp; few chunks were written */
    SKIPPED,        /* terp; one chunk skipped it */
    ONE_CHUNK,      /* terp */
    BRICKS,         /* terp; chunks are stacks */
    PLAIN,          /* contiguous */
    BEHIND_ANOTHER, /* two filters */
    DEFLATED,       /* another filter */
    WHOLE_ONLY,     /* partial chunks are not filtered */
    WORDS,          /* bits, which terp passes on */
    INTEGERS,       /* integers that terp codes */
    NEVER,          /* terp; HDF5 does not write the fill value */
    UNTOLD          /* terp; no fill value */
};

enum selection {
    ALL,
    CHUNKS, /* {4, 0, 0}, {6, 8, 8} */
    PART,   /* {1, 0, 0}, {8, 8, 8} */
    LATE,   /* {0}, {8, 8, 7} */
    FEW,    /* {0}, {4, 4, 4} */
    STEPS,  /* every 4th value */
    ROWS,   /* every 2nd index of the first dim */
    BLOCKS, /* two values of four */
    LINES,  /* adjacent rows, one after the other */
    POINTS,
    TWO_BOXES,
    NONE,
    SHORTER, /* a space of other dims */
    MOVED,   /* a box that H5Soffset_simple moves, also in memory */
    /* In memory: */
    DENSE,  /* as many values in one dim */
    BLOCK,  /* VOL_SPACE_BLOCK */
    GHOSTS, /* a box whose rows have no gaps */
    GAPS,   /* a box of every second value */
    LAST,   /* a box of one value of two */
    LINE,   /* a part of one row of two */
    PLIST,  /* H5S_PLIST, which no transfer supports here */
};

static const struct scenario {
    const char *name;
    enum kind kind;
    bool writes;
    enum selection file, memory;
    bool is_left; /* to the connector below */
    enum {
        SAME = 0,
        WIDER = 1,         /* the type in memory differs */
        OTHER = 2,         /* properties other than the default ones */
        DOUBLED = 4,       /* properties with an expression */
        MPI = 16,          /* the file is open in parallel */
        PAIR = 32,         /* two datasets at once */
        ABOVE = 64,        /* the connector below is not the native one */
        NEWER = 128,       /* HDF5 2 */
        ALLOCATIONS = 256, /* allocations fail too */
        READ_ONLY = 512,   /* the file is open read-only */
        UNCACHED = 1024,   /* HDF5 filters chunks while it writes, as through
                            * MPI */
        TOGETHER = 2048,   /* all processes read metadata together */
        EVENT = 4096,      /* with an event set, for which the program waits */
        LATER = 8192       /* with TERP_ASYNC, until the file is closed */
    } how;
} scenarios[] = {
    {"write", CUBE, true, ALL, ALL, false, ALLOCATIONS},
    {"write, HDF5 2", CUBE, true, ALL, ALL, false, NEWER},
    {"write chunks", CUBE, true, CHUNKS, DENSE, false, SAME},
    {"write ghosts", CUBE, true, CHUNKS, GHOSTS, false, SAME},
    {"write a part", CUBE, true, PART, DENSE, false, SAME},
    {"write wider", CUBE, true, ALL, ALL, false, WIDER},
    {"write gaps", CUBE, true, CHUNKS, GAPS, false, ALLOCATIONS},
    {"write doubled", CUBE, true, ALL, ALL, true, OTHER | DOUBLED},
    {"write shared wider", CUBE, true, ALL, ALL, false, MPI | UNCACHED | WIDER},
    {"write late", CUBE, true, LATE, DENSE, false, SAME},
    {"write nothing", CUBE, true, ALL, ALL, true, READ_ONLY},
    {"write big", BIG, true, ALL, ALL, false, SAME},
    {"read untold", UNTOLD, false, ALL, ALL, false, SAME},
    {"write two", CUBE, true, ALL, ALL, false, PAIR},
    {"write plain", PLAIN, true, ALL, ALL, true, PAIR},
    {"write steps", CUBE, true, ROWS, DENSE, true, SAME},
    {"write shared", CUBE, true, ALL, ALL, true, MPI | UNCACHED | ALLOCATIONS},
    {"write shared chunks", CUBE, true, CHUNKS, GHOSTS, true, MPI | UNCACHED},
    {"write shared big", BIG, true, ALL, ALL, true, MPI | UNCACHED},
    {"write two shared", CUBE, true, ALL, ALL, true, MPI | UNCACHED | PAIR},
    {"write a shared part", CUBE, true, PART, DENSE, true, MPI | UNCACHED},
    {"read", CUBE, false, ALL, ALL, false, ALLOCATIONS},
    {"read chunks", CUBE, false, CHUNKS, DENSE, false, OTHER},
    {"read a block", CUBE, false, CHUNKS, BLOCK, false, SAME},
    {"read ghosts", CUBE, false, CHUNKS, GHOSTS, false, SAME},
    {"read gaps", CUBE, false, CHUNKS, GAPS, true, SAME},
    {"read a part", CUBE, false, PART, DENSE, false, SAME},
    {"read few", CUBE, false, FEW, DENSE, true, SAME},
    {"read holes", HOLES, false, ALL, ALL, false, SAME},
    {"read skipped", SKIPPED, false, ALL, ALL, false, SAME},
    {"read one chunk", ONE_CHUNK, false, ALL, ALL, true, SAME},
    {"read bricks", BRICKS, false, ALL, ALL, false, SAME},
    {"read big", BIG, false, ALL, ALL, false, SAME},
    {"read plain", PLAIN, false, ALL, ALL, true, SAME},
    {"read behind another filter", BEHIND_ANOTHER, false, ALL, ALL, true, SAME},
    {"read deflated", DEFLATED, false, ALL, ALL, true, SAME},
    {"read whole only", WHOLE_ONLY, false, ALL, ALL, true, SAME},
    {"read words", WORDS, false, ALL, ALL, true, SAME},
    {"read integers", INTEGERS, false, ALL, ALL, false, SAME},
    {"write integers", INTEGERS, true, ALL, ALL, false, SAME},
    {"read wider", CUBE, false, ALL, ALL, true, WIDER},
    {"read doubled", CUBE, false, ALL, ALL, true, OTHER | DOUBLED},
    {"read shared", CUBE, false, ALL, ALL, false, MPI},
    {"read two shared", CUBE, false, ALL, ALL, false, MPI | PAIR},
    {"read shared steps", CUBE, false, STEPS, DENSE, false, MPI},
    {"read together", CUBE, false, ALL, ALL, true, MPI | TOGETHER},
    {"read above", CUBE, false, ALL, ALL, true, ABOVE},
    {"read two", CUBE, false, ALL, ALL, false, PAIR},
    {"read two plain", PLAIN, false, ALL, ALL, true, PAIR},
    {"read steps", CUBE, false, STEPS, DENSE, false, ALLOCATIONS},
    {"read steps of holes", HOLES, false, STEPS, DENSE, false, SAME},
    {"read steps to gaps", CUBE, false, STEPS, GAPS, true, SAME},
    {"read steps of bricks", BRICKS, false, STEPS, DENSE, true, SAME},
    {"read steps in place", CUBE, false, STEPS, ALL, true, SAME},
    {"read to one of a row", CUBE, false, CHUNKS, LAST, true, SAME},
    {"read to a line", CUBE, false, CHUNKS, LINE, false, SAME},
    {"read never filled", NEVER, false, ALL, ALL, false, SAME},
    {"read rows", CUBE, false, ROWS, DENSE, true, SAME},
    {"read blocks", CUBE, false, BLOCKS, DENSE, true, SAME},
    {"read lines", CUBE, false, LINES, DENSE, true, SAME},
    {"read points", CUBE, false, POINTS, DENSE, true, SAME},
    {"read two boxes", CUBE, false, TWO_BOXES, DENSE, true, SAME},
    {"read nothing", CUBE, false, NONE, NONE, true, SAME},
    {"write event", CUBE, true, ALL, ALL, false, EVENT | ALLOCATIONS},
    {"write ghosts event", CUBE, true, CHUNKS, GHOSTS, false, EVENT},
    {"write big event", BIG, true, ALL, ALL, false, EVENT | NEWER},
    {"write two events", CUBE, true, ALL, ALL, false, EVENT | PAIR},
    {"write one chunk event", ONE_CHUNK, true, ALL, ALL, false, EVENT},
    {"write plain event", PLAIN, true, ALL, ALL, true, EVENT},
    {"write shared event", CUBE, true, ALL, ALL, true, EVENT | MPI | UNCACHED},
    {"read event", CUBE, false, ALL, ALL, false, EVENT | ALLOCATIONS},
    {"read chunks event", CUBE, false, CHUNKS, BLOCK, false, EVENT},
    {"read two events", CUBE, false, ALL, ALL, false, EVENT | PAIR},
    {"read holes event", HOLES, false, ALL, ALL, false, EVENT},
    {"read skipped event", SKIPPED, false, ALL, ALL, false, EVENT},
    {"read bricks event", BRICKS, false, ALL, ALL, false, EVENT},
    {"read ghosts event", CUBE, false, CHUNKS, GHOSTS, false, EVENT},
    {"write later", CUBE, true, ALL, ALL, false, LATER | ALLOCATIONS},
    {"write two later", CUBE, true, ALL, ALL, false, LATER | PAIR},
    {"write plain later", PLAIN, true, ALL, ALL, false, LATER},
};

static hid_t
type_of(enum kind kind)
{
    return kind == BIG        ? H5T_IEEE_F64BE
           : kind == WORDS    ? H5T_STD_B32LE
           : kind == INTEGERS ? H5T_STD_I32LE
                              : H5T_IEEE_F32LE;
}

static hid_t
make_dcpl(enum kind kind)
{
    const unsigned bricks[] = {H5Z_TERP_ABSOLUTE, 1, 2, 3, 2, 2, 2};
    hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE);
    const float fill = -7;

    if (kind == PLAIN)
        return dcpl;
    assert_true(
        H5Pset_chunk(dcpl, 3, kind == ONE_CHUNK ? whole.chunk : cube.chunk) >=
        0);
    if (kind == BEHIND_ANOTHER)
        assert_true(H5Pset_deflate(dcpl, 1) >= 0);
    if (kind == DEFLATED)
        assert_true(H5Pset_shuffle(dcpl) >= 0);
    if (kind == WHOLE_ONLY)
        assert_true(
            H5Pset_chunk_opts(dcpl, H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS) >= 0);
    if (kind == BRICKS)
        assert_true(H5Pset_filter(dcpl, H5Z_FILTER_TERP, H5Z_FLAG_MANDATORY,
                                  COUNT(bricks), bricks) >= 0);
    else if (kind == INTEGERS)
        assert_true(H5Pset_terp_abs(dcpl, 0) >= 0);
    else if (kind != DEFLATED)
        assert_true(H5Pset_terp_abs(dcpl, 0.0078125) >= 0);
    if (kind == NEVER)
        assert_true(H5Pset_fill_time(dcpl, H5D_FILL_TIME_NEVER) >= 0);
    if (kind == UNTOLD)
        assert_true(H5Pset_fill_value(dcpl, H5T_NATIVE_FLOAT, NULL) >= 0);
    else if (kind != WORDS)
        assert_true(H5Pset_fill_value(dcpl, H5T_NATIVE_FLOAT, &fill) >= 0);
    return dcpl;
}

static hid_t
select_box(hid_t space, const hsize_t *start, const hsize_t *stride,
           const hsize_t *count, const hsize_t *block)
{
    assert_true(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, stride, count,
                                    block) >= 0);
    return space;
}

static hid_t
make_file_space(enum selection selection)
{
    static const struct {
        hsize_t start[3], stride[3], count[3], block[3];
    } boxes[] = {
        [CHUNKS] = {{4, 0, 0}, {1, 1, 1}, {6, 8, 8}, {1, 1, 1}},
        [PART] = {{1, 0, 0}, {1, 1, 1}, {8, 8, 8}, {1, 1, 1}},
        [LATE] = {{0, 0, 0}, {1, 1, 1}, {8, 8, 7}, {1, 1, 1}},
        [FEW] = {{0, 0, 0}, {1, 1, 1}, {4, 4, 4}, {1, 1, 1}},
        [STEPS] = {{0, 0, 0}, {4, 4, 4}, {3, 2, 2}, {1, 1, 1}},
        [ROWS] = {{0, 0, 0}, {2, 1, 1}, {5, 1, 1}, {1, 8, 8}},
        [BLOCKS] = {{0, 0, 0}, {4, 1, 1}, {2, 1, 1}, {2, 8, 8}},
        [LINES] = {{0, 0, 0}, {1, 1, 3}, {10, 8, 2}, {1, 1, 1}},
        [MOVED] = {{0, 0, 0}, {1, 1, 1}, {8, 8, 7}, {1, 1, 1}},
    };
    static const hsize_t points[][3] = {{0, 0, 0}, {9, 7, 7}};
    static const hsize_t first[] = {0, 0, 0}, second[] = {6, 0, 0};
    static const hsize_t count[] = {3, 8, 8};

    if (selection == ALL)
        return H5S_ALL;
    hid_t space = H5Screate_simple(3, cube.dims, NULL);
    if (selection == POINTS)
        assert_true(H5Sselect_elements(space, H5S_SELECT_SET, 2,
                                       (const hsize_t *)points) >= 0);
    else if (selection == NONE)
        assert_true(H5Sselect_none(space) >= 0);
    else if (selection == TWO_BOXES) {
        select_box(space, first, NULL, count, NULL);
        assert_true(H5Sselect_hyperslab(space, H5S_SELECT_OR, second, NULL,
                                        count, NULL) >= 0);
    } else
        select_box(space, boxes[selection].start, boxes[selection].stride,
                   boxes[selection].count, boxes[selection].block);
    if (selection == MOVED)
        assert_true(H5Soffset_simple(space, (const hssize_t[]){2, 0, 1}) >= 0);
    return space;
}

/* Selects as many values as the file's space does. */
static hid_t
make_memory_space(enum selection selection, hid_t file_space)
{
    static const hsize_t ghosts[] = {8, 10, 8}, zero[] = {0, 0, 0};
    static const hsize_t at[] = {1, 1, 0}, count[] = {6, 8, 8};
    const hsize_t n = file_space == H5S_ALL
                          ? NVALUES
                          : (hsize_t)H5Sget_select_npoints(file_space);
    const hsize_t rows[] = {n / 4, 8}, columns[] = {n / 4, 4};

    if (selection == ALL)
        return H5S_ALL;
    if (selection == BLOCK)
        return (hid_t)1;
    if (selection == NONE) {
        hid_t none = H5Screate_simple(1, (const hsize_t[]){NVALUES}, NULL);
        H5Sselect_none(none);
        return none;
    }
    if (selection == DENSE)
        return H5Screate_simple(1, &n, NULL);
    if (selection == MOVED) {
        const hsize_t more = n + 40;
        hid_t space =
            select_box(H5Screate_simple(1, &more, NULL), zero, NULL, &n, NULL);
        H5Soffset_simple(space, (const hssize_t[]){30});
        return space;
    }
    if (selection == LAST)
        return select_box(
            H5Screate_simple(4, (const hsize_t[]){6, 8, 8, 2}, NULL),
            (const hsize_t[]){0, 0, 0, 1}, NULL, (const hsize_t[]){6, 8, 8, 1},
            NULL);
    if (selection == LINE)
        return select_box(H5Screate_simple(2, (const hsize_t[]){2, 400}, NULL),
                          (const hsize_t[]){1, 8}, NULL,
                          (const hsize_t[]){1, 384}, NULL);
    if (selection == GHOSTS)
        return select_box(H5Screate_simple(3, ghosts, NULL), at, NULL, count,
                          NULL);
    return select_box(H5Screate_simple(2, rows, NULL), zero, NULL, columns,
                      NULL);
}

/* ---- a scenario ---- */

struct trial {
    const struct scenario *scenario;
    hid_t file, datasets[2], type, dxpl, file_space, mem_space;
    size_t n;
    bool on_device;
    uint64_t starves_at; /* the allocation that fails, in move_by_new_objects */
    struct vol_object *ended;          /* the file that move closes, or NULL */
    uint8_t *before, *old[2], *new[2]; /* first values, values read */
    uint8_t *src, *want, *dst[2], *stored;
};

static uint8_t *
make_room(void)
{
    uint8_t *room = terp_case_alloc(CAP_NVALUES * sizeof(double));

    memset(room, 0, CAP_NVALUES * sizeof(double));
    return room;
}

/* Values of `type`; another `seed` gives other values. */
static uint8_t *
make_values(hid_t type, int seed)
{
    void *room = make_room();
    double *values = room;

    for (size_t i = 0; i < CAP_NVALUES; i++)
        values[i] = (double)((i / 7 + i % 32 * (size_t)seed) % 1000) / 8.0;
    if (H5Tget_class(type) == H5T_BITFIELD)
        type = H5T_STD_I32LE;
    assert_true(H5Tconvert(H5T_NATIVE_DOUBLE, type, CAP_NVALUES, values, NULL,
                           H5P_DEFAULT) >= 0);
    return room;
}

static void
fill_dataset(const struct trial *trial, hid_t dataset)
{
    static const hsize_t at[] = {4, 4, 0};
    const enum kind kind = trial->scenario->kind;
    hid_t type = type_of(kind);

    if (kind != HOLES) {
        assert_true(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT,
                             trial->before) >= 0);
    } else {
        hid_t space = H5Dget_space(dataset);
        hid_t memory = H5Screate_simple(3, cube.chunk, NULL);
        select_box(space, at, NULL, cube.chunk, NULL);
        assert_true(H5Dwrite(dataset, type, memory, space, H5P_DEFAULT,
                             trial->before) >= 0);
        H5Sclose(memory);
        H5Sclose(space);
    }
    if (kind == SKIPPED)
        assert_true(H5Dwrite_chunk(dataset, H5P_DEFAULT, 1, at, 256,
                                   trial->before) >= 0);
}

static void
read_dataset(const struct trial *trial, int i, uint8_t *values_ret)
{
    assert_true(H5Dread(trial->datasets[i], type_of(trial->scenario->kind),
                        H5S_ALL, H5S_ALL, H5P_DEFAULT, values_ret) >= 0);
}

static struct vol_object *
make_object(const struct trial *trial, hid_t id)
{
    const struct vol_object like = {
        .library = &fake_below.library,
        .vol = trial->scenario->how & ABOVE ? FAKE_ANOTHER : FAKE_NATIVE,
        .is_shared = trial->scenario->how & MPI,
        .reads_together = trial->scenario->how & TOGETHER,
        .fileno = FAKE_FILENO,
        .may_write = (trial->scenario->how & READ_ONLY) == 0};

    H5Iinc_ref(id);
    return vol_object_make(&like, fake_object_make(id));
}

/* A file for a trial that waits until it is closed. Its wrapper and the object
 * below are two blocks. */
static void
make_ended(struct trial *trial)
{
    if (trial->scenario->how & LATER)
        trial->ended = make_object(trial, trial->file);
}

static void
close_object(void *object)
{
    const uint64_t fail_at = fake_below.fail_at;
    const bool fails_on = fake_below.fails_on;

    fake_below.fail_at = UINT64_MAX;
    fake_below.fails_on = false;
    assert_true(vol_pass_class.dataset.close(object, H5P_DEFAULT, NULL) >= 0);
    fake_below.fail_at = fail_at;
    fake_below.fails_on = fails_on;
}

/* Waits for a request. Negative if it failed. */
static herr_t
end_request(void *request)
{
    int status;

    if (request == NULL)
        return 0;
    assert_true(vol_pass_class.request.wait(request, UINT64_MAX, &status) >= 0);
    assert_int_not_equal(status, VOL_STATUS_IN_PROGRESS);
    assert_true(vol_pass_class.request.free(request) >= 0);
    return status == VOL_STATUS_SUCCEED ? 0 : -1;
}

/* Closes the file of a fake object. A failure of an earlier write is an error,
 * and the second call then succeeds. */
static herr_t
end_file(struct trial *trial)
{
    herr_t result = 0;

    if (trial->ended == NULL)
        return 0;
    while (vol_pass_class.file.close(trial->ended, H5P_DEFAULT, NULL) < 0)
        result = -1;
    trial->ended = NULL;
    return result;
}

/* Through the connector. */
static herr_t
move(struct trial *trial, void **objects)
{
    const bool has_event = (trial->scenario->how & EVENT) != 0;
    void *request = NULL, **req = has_event ? &request : NULL;
    hid_t types[] = {trial->type, trial->type};
    hid_t mem_spaces[] = {trial->mem_space, trial->mem_space};
    hid_t file_spaces[] = {trial->file_space, trial->file_space};
    const void *src[] = {trial->src, trial->src};
    void *dst[] = {trial->dst[0], trial->dst[1]};

    if (trial->scenario->how & LATER)
        setenv("TERP_ASYNC", "1", 1);
    herr_t result =
        trial->scenario->writes
            ? vol_pass_class.dataset.write(trial->n, objects, types, mem_spaces,
                                           file_spaces, trial->dxpl, src, req)
            : vol_pass_class.dataset.read(trial->n, objects, types, mem_spaces,
                                          file_spaces, trial->dxpl, dst, req);
    unsetenv("TERP_ASYNC");
    /* The values have been copied. */
    if (request != NULL && trial->scenario->writes)
        trial->src[0] ^= 1;
    if (end_request(request) < 0)
        result = -1;
    if (request != NULL && trial->scenario->writes)
        trial->src[0] ^= 1;
    if (end_file(trial) < 0)
        result = -1;
    return result;
}

/* Whether the connector below got the whole call of the program. */
static bool
was_left(const struct trial *trial)
{
    const struct fake_call *last = &fake_below.last;

    return strcmp(last->name, trial->scenario->writes
                                  ? "H5VLdataset_write"
                                  : "H5VLdataset_read") == 0 &&
           last->arguments[0] == trial->n &&
           last->arguments[1] == (uintptr_t)trial->mem_space &&
           last->arguments[2] == (uintptr_t)trial->file_space;
}

static herr_t
move_by_new_objects(struct trial *trial, bool *left_ret)
{
    void *objects[2] = {make_object(trial, trial->datasets[0]),
                        make_object(trial, trial->datasets[1])};

    for (int i = 0; i < 2; i++)
        memset(trial->dst[i], 0, CAP_NVALUES * sizeof(double));
    make_ended(trial);
    if (trial->starves_at != UINT64_MAX)
        terp_allocations_start(trial->starves_at, UINT64_MAX);
    herr_t result = move(trial, objects);
    if (trial->starves_at != UINT64_MAX)
        (void)terp_allocations_stop();
    *left_ret = fake_below.last.name != NULL && was_left(trial);
    close_object(objects[0]);
    close_object(objects[1]);
    return result;
}

static hid_t
open_without_cache(hid_t file, const char *name, hid_t dataset)
{
    hid_t dapl = H5Pcreate(H5P_DATASET_ACCESS);

    H5Dclose(dataset);
    assert_true(H5Pset_chunk_cache(dapl, 1, 0, 0) >= 0);
    dataset = H5Dopen2(file, name, dapl);
    assert_true(dataset >= 0);
    H5Pclose(dapl);
    return dataset;
}

static void
open_trial(const struct scenario *scenario, struct trial *trial)
{
    hid_t dcpl = make_dcpl(scenario->kind), memory;

    memset(trial, 0, sizeof *trial);
    trial->scenario = scenario;
    trial->starves_at = UINT64_MAX;
    trial->file = h5_file_new();
    trial->n = scenario->how & PAIR ? 2 : 1;
    trial->before = make_values(type_of(scenario->kind), 1);
    trial->type =
        scenario->how & WIDER ? H5T_NATIVE_DOUBLE : type_of(scenario->kind);
    trial->src = make_values(trial->type, 3);
    trial->want = make_room();
    trial->stored = make_room();
    trial->file_space = make_file_space(scenario->file);
    trial->mem_space = make_memory_space(scenario->memory, trial->file_space);
    trial->dxpl = scenario->how & OTHER ? H5Pcreate(H5P_DATASET_XFER)
                                        : H5P_DATASET_XFER_DEFAULT;
    if (scenario->how & DOUBLED)
        assert_true(H5Pset_data_transform(trial->dxpl, "2*x") >= 0);
    for (int i = 0; i < 2; i++) {
        char name[] = {'a', (char)('0' + i), '\0'};
        trial->datasets[i] = h5_dataset_new(
            trial->file, name, type_of(scenario->kind), &cube, dcpl);
        assert_true(trial->datasets[i] >= 0);
        if (scenario->how & UNCACHED)
            trial->datasets[i] =
                open_without_cache(trial->file, name, trial->datasets[i]);
        trial->old[i] = make_room();
        trial->new[i] = make_room();
        trial->dst[i] = make_room();
        fill_dataset(trial, trial->datasets[i]);
        read_dataset(trial, i, trial->old[i]);
    }
    H5Pclose(dcpl);
    memory = scenario->memory == BLOCK
                 ? make_memory_space(DENSE, trial->file_space)
                 : trial->mem_space;
    for (size_t i = 0; i < trial->n && scenario->writes; i++)
        assert_true(H5Dwrite(trial->datasets[i], trial->type, memory,
                             trial->file_space, trial->dxpl, trial->src) >= 0);
    if (!scenario->writes)
        assert_true(H5Dread(trial->datasets[0], trial->type, memory,
                            trial->file_space, trial->dxpl, trial->want) >= 0);
    if (scenario->memory == BLOCK)
        H5Sclose(memory);
    for (int i = 0; i < 2; i++)
        read_dataset(trial, i, trial->new[i]);
}

static void
close_trial(struct trial *trial)
{
    uint8_t *const blocks[] = {trial->before, trial->src,    trial->want,
                               trial->stored, trial->old[0], trial->old[1],
                               trial->new[0], trial->new[1], trial->dst[0],
                               trial->dst[1]};

    if (trial->file_space != H5S_ALL)
        H5Sclose(trial->file_space);
    if (trial->mem_space > (hid_t)2)
        H5Sclose(trial->mem_space);
    if (trial->scenario->how & OTHER)
        H5Pclose(trial->dxpl);
    H5Dclose(trial->datasets[0]);
    H5Dclose(trial->datasets[1]);
    assert_int_equal(H5Fget_obj_count(trial->file, H5F_OBJ_ALL), 1);
    H5Fclose(trial->file);
    for (size_t i = 0; i < COUNT(blocks); i++)
        free(blocks[i]);
}

static void
prepare_below(const struct trial *trial, uint64_t fail_at)
{
    fake_below_reset();
    fake_below.library.major = trial->scenario->how & NEWER ? 2 : 1;
    fake_below.library.is_parallel = (trial->scenario->how & MPI) != 0;
    fake_below.fail_at = fail_at;
    for (size_t i = 0; i < trial->n && trial->scenario->writes; i++)
        fill_dataset(trial, trial->datasets[i]);
}

/* Whether value i of the file is one of `values`. A chunk of float32 that is
 * written again may keep values as they were decoded before, depending on
 * addresses. Such values differ by at most twice the bound, and others by 1/8.
 */
static bool
is_same(const struct trial *trial, const uint8_t *values, size_t i,
        size_t nbytes)
{
    float got, want;

    if (memcmp(trial->stored + i, values + i, nbytes) == 0)
        return true;
    if (type_of(trial->scenario->kind) != H5T_IEEE_F32LE)
        return false;
    memcpy(&got, trial->stored + i, sizeof got);
    memcpy(&want, values + i, sizeof want);
    return fabsf(got - want) <= 2 * 0.0078125F;
}

static void
check_values(struct trial *trial, herr_t result, const char *what)
{
    const size_t nbytes = H5Tget_size(type_of(trial->scenario->kind));

    for (size_t n = 0; n < trial->n; n++) {
        if (!trial->scenario->writes && result >= 0 &&
            memcmp(trial->dst[n], trial->want, CAP_NVALUES * sizeof(double)) !=
                0)
            fail_msg("%s: %s: other values are read", trial->scenario->name,
                     what);
        if (!trial->scenario->writes)
            continue;
        read_dataset(trial, (int)n, trial->stored);
        for (size_t i = 0; i < NVALUES * nbytes; i += nbytes)
            if (!is_same(trial, trial->new[n], i, nbytes) &&
                (result >= 0 || !is_same(trial, trial->old[n], i, nbytes)))
                fail_msg("%s: %s: value %zu of the file is neither",
                         trial->scenario->name, what, i / nbytes);
    }
}

static void
check_below(const struct trial *trial, const char *what)
{
    if (fake_below.nids != 0 || fake_below.nobjects != 0 ||
        fake_below.nstacks != 0)
        fail_msg("%s: %s: %d ids, %d objects, %d stacks stay",
                 trial->scenario->name, what, fake_below.nids,
                 fake_below.nobjects, fake_below.nstacks);
}

static void
without_failure_it_is_left_or_moved(void **state)
{
    bool left;

    (void)state;
    for (size_t i = 0; i < COUNT(scenarios); i++) {
        struct trial trial;
        open_trial(&scenarios[i], &trial);
        prepare_below(&trial, UINT64_MAX);
        herr_t result = move_by_new_objects(&trial, &left);
        check_below(&trial, "no failure");
        if (result < 0)
            fail_msg("%s fails", scenarios[i].name);
        if (left != scenarios[i].is_left)
            fail_msg("%s: %s", scenarios[i].name, left ? "left" : "moved");
        check_values(&trial, result, "no failure");
        close_trial(&trial);
    }
}

#ifdef MAX_STACK_NBYTES
static void
move_all(void *arg)
{
    bool left;

    (void)move_by_new_objects(arg, &left);
}

static void
read_plainly(void *arg)
{
    const struct trial *trial = arg;

    H5Dread(trial->datasets[0], trial->type, H5S_ALL, H5S_ALL, H5P_DEFAULT,
            trial->want);
}

/* Stack beyond that which HDF5 itself takes for chunks of another filter. */
static void
transfers_take_little_of_the_stack(void **state)
{
    static const struct scenario deflated = {"read", DEFLATED, false, ALL,
                                             ALL,    true,     SAME};
    const uint64_t all_nbytes = 1 << 20;
    struct trial trial;

    (void)state;
    open_trial(&deflated, &trial);
    const uint64_t of_hdf5 = painted_run(read_plainly, &trial, all_nbytes);
    close_trial(&trial);
    for (size_t i = 0; i < COUNT(scenarios); i++) {
        open_trial(&scenarios[i], &trial);
        prepare_below(&trial, UINT64_MAX);
        const uint64_t nbytes = painted_run(move_all, &trial, all_nbytes);
        if (nbytes > of_hdf5 + MAX_STACK_NBYTES)
            fail_msg("%s: %d bytes of stack, HDF5 itself takes %d",
                     scenarios[i].name, (int)nbytes, (int)of_hdf5);
        close_trial(&trial);
    }
}
#endif

static void
failure_of_hdf5_is_an_error_or_right(void **state)
{
    char what[100];
    bool left;

    (void)state;
    for (size_t i = 0; i < COUNT(scenarios); i++) {
        struct trial trial;
        open_trial(&scenarios[i], &trial);
        uint64_t n = 0, ncalls = 1;
        for (; n <= ncalls; n++) {
            if (n > 0 && !terp_case_taken(1))
                continue;
            prepare_below(&trial, n);
            herr_t result = move_by_new_objects(&trial, &left);
            ncalls = fake_below.ncalls;
            snprintf(what, sizeof what, "call %llu (%s)", (unsigned long long)n,
                     fake_below.failed == NULL ? "" : fake_below.failed);
            check_below(&trial, what);
            /* Fails also without an expression. */
            if (fake_below.failed == NULL || !(trial.scenario->how & DOUBLED) ||
                strcmp(fake_below.failed, "H5Pget_data_transform") != 0)
                check_values(&trial, result, what);
        }
        close_trial(&trial);
    }
}

/* ---- memory and the device ---- */

/* Tries some of the allocations of a codec; all would take too long. */
static void
failure_of_memory_is_an_error_or_right(void **state)
{
    char what[100];

    (void)state;
    for (size_t i = 0; i < COUNT(scenarios); i++) {
        struct trial trial;
        if ((scenarios[i].how & ALLOCATIONS) == 0)
            continue;
        open_trial(&scenarios[i], &trial);
        for (uint64_t n = 0, ncalls = 1; n <= ncalls; n += 1 + n / 16) {
            prepare_below(&trial, UINT64_MAX);
            struct vol_object *object = make_object(&trial, trial.datasets[0]);
            void *objects[] = {object};
            make_ended(&trial);
            const int nended = trial.ended == NULL ? 0 : 2;
            memset(trial.dst[0], 0, CAP_NVALUES * sizeof(double));
            terp_allocations_start(n, UINT64_MAX);
            herr_t result = move(&trial, objects);
            struct terp_allocations used = terp_allocations_stop();
            ncalls = used.ncalls;
            snprintf(what, sizeof what, "allocation %llu",
                     (unsigned long long)n);
            if (used.nleaked != (object->plan != NULL) - nended)
                fail_msg("%s: %s: %lld blocks stay", scenarios[i].name, what,
                         (long long)used.nleaked);
            close_object(object);
            check_below(&trial, what);
            check_values(&trial, result, what);
        }
        close_trial(&trial);
    }
}

/* All memory is the device's, or none. */
static void
use_device(bool has_memory)
{
    fake->begin = has_memory ? (const unsigned char *)1 : NULL;
    memset(&fake->end, 0xFF, sizeof fake->end);
    setenv("TERP_ENGINE", "cuda", 1);
}

static void
leave_device(void)
{
    fake->begin = NULL;
    unsetenv("TERP_ENGINE");
}

/* Fails one call, of HDF5 or of the device. Returns how many calls there
 * are. */
static uint64_t
move_on_device(struct trial *trial, bool of_device, uint64_t n)
{
    char what[100];
    bool left;

    leave_device();
    prepare_below(trial, of_device ? UINT64_MAX : n);
    use_device(trial->on_device);
    fake->ncalls = 0;
    fake->fail_at = of_device ? (int)n + 1 : 0;
    fake->fail_status = n % 2 == 0 ? TERP_ERR_DEVICE : TERP_ERR_MEMORY;
    herr_t result = move_by_new_objects(trial, &left);
    const uint64_t ncalls =
        of_device ? (uint64_t)fake->ncalls : fake_below.ncalls;
    fake->fail_at = 0;
    leave_device();
    snprintf(what, sizeof what, "%s, call %llu (%s)",
             of_device ? "device" : "HDF5", (unsigned long long)n,
             fake_below.failed == NULL ? "" : fake_below.failed);
    if (result < 0 && ncalls <= n)
        fail_msg("%s: %s: fails", trial->scenario->name, what);
    check_below(trial, what);
    check_values(trial, result, what);
    assert_int_equal(fake->nheld, 0);
    return ncalls;
}

static uint64_t
next_taken(uint64_t n)
{
    do
        n++;
    while (!terp_case_taken(1));
    return n;
}

static void
failure_on_a_device_is_an_error_or_right(void **state)
{
    static const struct scenario on_device[] = {
        {"write", CUBE, true, ALL, ALL, false, SAME},
        {"write a part", CUBE, true, PART, DENSE, true, SAME},
        {"write two plain", PLAIN, true, ALL, ALL, true, PAIR},
        {"read", CUBE, false, ALL, ALL, false, SAME},
        {"read holes", HOLES, false, ALL, ALL, false, SAME},
        {"read steps", CUBE, false, STEPS, DENSE, false, SAME},
        {"read plain", PLAIN, false, ALL, ALL, true, SAME},
        {"read two plain", PLAIN, false, CHUNKS, GHOSTS, true, PAIR},
        {"read plain to a block", PLAIN, false, CHUNKS, BLOCK, true, SAME},
        {"read all plain to a block", PLAIN, false, ALL, BLOCK, true, SAME},
        {"write event", CUBE, true, ALL, ALL, false, EVENT},
        {"write ghosts event", CUBE, true, CHUNKS, GHOSTS, false, EVENT},
        {"write later", CUBE, true, ALL, ALL, false, LATER},
    };

    (void)state;
    for (size_t i = 0; i < 2 * COUNT(on_device); i++) {
        struct trial trial;
        uint64_t n;
        open_trial(&on_device[i / 2], &trial);
        trial.on_device = i % 2 == 0;
        for (n = 0; n < move_on_device(&trial, true, n); n = next_taken(n))
            ;
        assert_true(!trial.on_device || n > 0);
        for (n = 0; n < move_on_device(&trial, false, n); n = next_taken(n))
            ;
        close_trial(&trial);
    }
}

/* Other processes of a file wait for this one in HDF5's collective call. The
 * allocation or the call of the device number n fails. */
static bool
takes_part(struct trial *trial, bool of_memory, uint64_t n)
{
    bool left;

    prepare_below(trial, UINT64_MAX);
    if (trial->on_device)
        use_device(true);
    fake->ncalls = 0;
    fake->fail_at = of_memory ? 0 : (int)n + 1;
    fake->fail_status = TERP_ERR_MEMORY;
    trial->starves_at = of_memory ? n : UINT64_MAX;
    const herr_t result = move_by_new_objects(trial, &left);
    trial->starves_at = UINT64_MAX;
    fake->fail_at = 0;
    leave_device();
    check_values(trial, result, "failure in one process");
    return fake_below.nmoves > 0;
}

static void
process_that_fails_takes_part_in_a_collective_call(void **state)
{
    static const struct scenario collective[] = {
        {"write shared", CUBE, true, ALL, ALL, true, MPI | UNCACHED},
        {"write two shared", CUBE, true, ALL, ALL, true, MPI | UNCACHED | PAIR},
        {"read shared", CUBE, false, ALL, ALL, false, MPI},
        {"read shared part", CUBE, false, PART, DENSE, true, MPI},
    };

    (void)state;
    remembers_nothing = true;
    for (size_t i = 0; i < 4 * COUNT(collective); i++) {
        struct trial trial;
        const bool of_memory = i % 4 / 2 == 0;
        open_trial(&collective[i / 4], &trial);
        trial.on_device = i % 2 == 1;
        /* A process that calls HDF5 for two datasets needs memory for it. */
        const bool needs_memory = of_memory && trial.n > 1;
        for (uint64_t n = needs_memory ? 5 : 0; n < 400; n += 1 + n / 16)
            if (!takes_part(&trial, of_memory, n))
                fail_msg(
                    "%s: %s %d: not after failure %d", collective[i / 4].name,
                    of_memory ? "memory" : "device", trial.on_device, (int)n);
        close_trial(&trial);
    }
    remembers_nothing = false;
}

/* Bytes that a dataset takes in `move_in_parts` beside copies of values. A
 * copy of all values has 2560 bytes or more. */
#define MAX_OTHER_NBYTES 2040

/* Moves values in device memory under a limit of memory. Returns the most bytes
 * that were allocated at a time. */
static uint64_t
move_in_parts(struct trial *trial, const char *limit)
{
    bool left;

    prepare_below(trial, UINT64_MAX);
    use_device(true);
    setenv("TERP_MAX_MEMORY", limit, 1);
    terp_allocations_start(UINT64_MAX, UINT64_MAX);
    const herr_t result = move_by_new_objects(trial, &left);
    const struct terp_allocations used = terp_allocations_stop();
    unsetenv("TERP_MAX_MEMORY");
    leave_device();
    if (result < 0)
        fail_msg("%s fails", trial->scenario->name);
    check_below(trial, "parts");
    check_values(trial, result, "parts");
    return used.peak_nbytes;
}

/* A copy of the values takes an eighth of TERP_MAX_MEMORY. */
static void
many_values_on_the_device_move_in_parts(void **state)
{
    static const struct scenario plain[] = {
        {"write", PLAIN, true, ALL, ALL, true, SAME},
        {"write two", PLAIN, true, ALL, ALL, true, PAIR},
        {"write wider", PLAIN, true, ALL, ALL, true, WIDER},
        {"write a part", PLAIN, true, PART, DENSE, true, SAME},
        {"write steps", PLAIN, true, STEPS, DENSE, true, SAME},
        {"write ghosts", PLAIN, true, CHUNKS, GHOSTS, true, SAME},
        {"write blocks", PLAIN, true, BLOCKS, GAPS, true, SAME},
        {"write two boxes", PLAIN, true, TWO_BOXES, DENSE, true, SAME},
        {"read", PLAIN, false, ALL, ALL, true, SAME},
        {"read two", PLAIN, false, ALL, ALL, true, PAIR},
        {"read a block", PLAIN, false, CHUNKS, BLOCK, true, SAME},
        {"read ghosts", PLAIN, false, CHUNKS, GHOSTS, true, SAME},
        {"read gaps", PLAIN, false, CHUNKS, GAPS, true, SAME},
        {"read to one of a row", PLAIN, false, CHUNKS, LAST, true, SAME},
        {"read to a line", PLAIN, false, CHUNKS, LINE, true, SAME},
        {"read lines", PLAIN, false, LINES, DENSE, true, SAME},
        {"read rows in place", PLAIN, false, ROWS, ALL, true, SAME},
        {"read two boxes", PLAIN, false, TWO_BOXES, DENSE, true, SAME},
    };
    static const struct {
        const char *limit;
        uint64_t copy_nbytes;
    } limits[] = {{"128", 16}, {"4000", 500}};

    (void)state;
    for (size_t i = 0; i < COUNT(plain); i++) {
        struct trial trial;
        open_trial(&plain[i], &trial);
        for (size_t k = 0; k < COUNT(limits); k++) {
            const uint64_t nbytes = move_in_parts(&trial, limits[k].limit);
            if (nbytes > limits[k].copy_nbytes + trial.n * MAX_OTHER_NBYTES)
                fail_msg("%s: %llu bytes", plain[i].name,
                         (unsigned long long)nbytes);
        }
        close_trial(&trial);
    }
}

/* Parts end where chunks end, if they can. Values are exact, because
 * under a bound a chunk's values depend on those that were decoded before. */
static void
chunks_on_the_device_move_in_parts(void **state)
{
    static const struct scenario chunked[] = {
        {"write", INTEGERS, true, ALL, ALL, true, WIDER},
        {"write gaps", INTEGERS, true, CHUNKS, GAPS, true, WIDER},
        {"write a part", INTEGERS, true, PART, DENSE, true, WIDER},
        {"write deflated", DEFLATED, true, ALL, ALL, true, WIDER},
        {"read", CUBE, false, ALL, ALL, true, WIDER},
        {"read gaps", CUBE, false, CHUNKS, GAPS, true, WIDER},
        {"read points", CUBE, false, POINTS, DENSE, true, WIDER},
        {"read deflated", DEFLATED, false, ALL, ALL, true, WIDER},
        {"write moved", INTEGERS, true, MOVED, DENSE, true, WIDER},
        {"write from moved", INTEGERS, true, PART, MOVED, true, WIDER},
        {"read moved", CUBE, false, MOVED, MOVED, true, WIDER},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(chunked); i++) {
        struct trial trial;
        open_trial(&chunked[i], &trial);
        (void)move_in_parts(&trial, "36000");
        close_trial(&trial);
    }
}

/* Cutting a transfer may fail, too. */
static void
failure_between_parts_is_an_error_or_right(void **state)
{
    static const struct scenario plain[] = {
        {"write blocks", PLAIN, true, BLOCKS, GAPS, true, SAME},
        {"read ghosts", PLAIN, false, CHUNKS, GHOSTS, true, SAME},
        {"read deflated", DEFLATED, false, ALL, ALL, true, SAME},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(plain); i++) {
        struct trial trial;
        uint64_t n;
        open_trial(&plain[i], &trial);
        trial.on_device = true;
        setenv("TERP_MAX_MEMORY", "8000", 1);
        for (n = 0; n < move_on_device(&trial, true, n); n = next_taken(n))
            ;
        assert_true(n > 1);
        for (n = 0; n < move_on_device(&trial, false, n); n = next_taken(n))
            ;
        unsetenv("TERP_MAX_MEMORY");
        close_trial(&trial);
    }
}

/* The value of a scalar dataset may be an array. */
static void
scalar_is_one_part(void **state)
{
    static const struct scenario plain = {"scalar", PLAIN, true, ALL,
                                          ALL,      true,  SAME};
    const hid_t space = H5Screate(H5S_SCALAR);
    struct trial trial;
    struct vol_split split;
    struct vol_part part;

    (void)state;
    open_trial(&plain, &trial);
    prepare_below(&trial, UINT64_MAX);
    struct vol_object *dataset = make_object(&trial, trial.datasets[0]);
    const struct vol_transfer transfer = {.dataset = dataset,
                                          .type = H5T_NATIVE_DOUBLE,
                                          .mem_space = space,
                                          .file_space = space,
                                          .dxpl = H5P_DATASET_XFER_DEFAULT,
                                          .src = trial.src};
    assert_true(vol_split_open(&transfer, &split));
    assert_true(vol_split_next(&split, 1, &part));
    assert_int_equal(part.at, 0);
    assert_int_equal(part.nvalues, 1);
    assert_int_equal(split.nleft, 0);
    vol_part_close(&split, &part);
    vol_split_close(&split);
    close_object(dataset);
    H5Sclose(space);
    close_trial(&trial);
}

/* The selection in memory is a transfer property, which only HDF5 can read. */
static void
unknown_selection_is_not_moved_from_the_device(void **state)
{
    const struct scenario scenario = {"read", CUBE, false, ALL,
                                      ALL,    true, SAME};
    struct trial trial;
    bool left;

    (void)state;
    open_trial(&scenario, &trial);
    trial.mem_space = (hid_t)2;
    prepare_below(&trial, UINT64_MAX);
    use_device(true);
    assert_true(move_by_new_objects(&trial, &left) < 0);
    leave_device();
    check_below(&trial, "plist");
    /* Calls with host memory are left to HDF5 too. */
    trial.file_space = make_file_space(CHUNKS);
    prepare_below(&trial, UINT64_MAX);
    (void)move_by_new_objects(&trial, &left);
    assert_true(left);
    H5Sclose(trial.file_space);
    trial.file_space = (hid_t)2;
    prepare_below(&trial, UINT64_MAX);
    (void)move_by_new_objects(&trial, &left);
    assert_true(left);
    trial.file_space = H5S_ALL;
    close_trial(&trial);
}

static void
values_that_are_nowhere_are_left(void **state)
{
    const struct scenario scenario = {"read", CUBE, false, ALL,
                                      ALL,    true, SAME};
    hid_t space = H5S_ALL, dxpl = H5P_DATASET_XFER_DEFAULT;
    hid_t type = H5T_IEEE_F32LE;
    struct trial trial;
    void *none = NULL;

    (void)state;
    open_trial(&scenario, &trial);
    prepare_below(&trial, UINT64_MAX);
    void *objects[] = {make_object(&trial, trial.datasets[0])};
    (void)vol_pass_class.dataset.read(1, objects, &type, &space, &space, dxpl,
                                      &none, NULL);
    assert_string_equal(fake_below.last.name, "H5VLdataset_read");
    close_object(objects[0]);
    check_below(&trial, "no values");
    close_trial(&trial);
}

/* A chunk larger than any stream of terp. */
static void
chunk_that_is_too_large_is_an_error(void **state)
{
    static const hsize_t at[] = {0, 0, 0};
    const struct scenario scenario = {"read", CUBE,  false, ALL,
                                      ALL,    false, SAME};
    struct trial trial;
    bool left;

    (void)state;
    open_trial(&scenario, &trial);
    assert_true(H5Dwrite_chunk(trial.datasets[0], H5P_DEFAULT, 0, at, 2048,
                               trial.src) >= 0);
    prepare_below(&trial, UINT64_MAX);
    assert_true(move_by_new_objects(&trial, &left) < 0);
    check_below(&trial, "large");
    close_trial(&trial);
}

static void
threads_are_all_cpus_unless_told(void **state)
{
    const struct scenario scenario = {"read", CUBE,  false, ALL,
                                      ALL,    false, SAME};
    const char *const numbers[] = {NULL, "", "2"};

    (void)state;
    for (size_t i = 0; i < COUNT(numbers); i++) {
        struct trial trial;
        bool left;
        if (numbers[i] == NULL)
            unsetenv("TERP_NUM_THREADS");
        else
            setenv("TERP_NUM_THREADS", numbers[i], 1);
        open_trial(&scenario, &trial);
        prepare_below(&trial, UINT64_MAX);
        assert_true(move_by_new_objects(&trial, &left) >= 0 && !left);
        check_values(&trial, 0, "threads");
        close_trial(&trial);
    }
    setenv("TERP_NUM_THREADS", "1", 1);
}

static int
open_fake(void **state)
{
    (void)state;
    fake = fake_cuda_take(getenv("TERP_CUDA_LIBRARY"));
    return fake == NULL;
}

/* The stored streams of a trial's datasets, one after the other. */
static uint64_t
read_streams(const struct trial *trial, uint8_t *streams_ret)
{
    uint64_t nbytes = 0;

    for (size_t i = 0; i < trial->n; i++) {
        hsize_t nchunks;
        hid_t space = H5Dget_space(trial->datasets[i]);
        assert_true(H5Dget_num_chunks(trial->datasets[i], space, &nchunks) >=
                    0);
        for (hsize_t k = 0; k < nchunks; k++) {
            hsize_t offset[3], size;
            uint32_t mask;
            assert_true(H5Dget_chunk_info(trial->datasets[i], space, k, offset,
                                          NULL, NULL, &size) >= 0);
            assert_true(H5Dread_chunk(trial->datasets[i], H5P_DEFAULT, offset,
                                      &mask, streams_ret + nbytes) >= 0);
            nbytes += size;
        }
        H5Sclose(space);
    }
    return nbytes;
}

/* Runs after the other tests, because HDF5 keeps the filter of this program. */
static void
chunks_of_shared_files_are_encoded_ahead(void **state)
{
    const struct {
        const char *name;
        int ntaken;
    } cases[] = {{"write shared", 12},       {"write shared chunks", 8},
                 {"write shared big", 12},   {"write two shared", 24},
                 {"write a shared part", 4}, {"write shared wider", 12}};

    (void)state;
    assert_true(H5Zregister(terp_filter_class()) >= 0);
    remembers_nothing = true;
    for (size_t c = 0, i = 0; c < COUNT(cases); c++, i = 0) {
        uint8_t *want = terp_case_alloc(4 * CAP_NVALUES * sizeof(double));
        uint8_t *got = terp_case_alloc(4 * CAP_NVALUES * sizeof(double));
        struct trial trial;
        bool left;
        while (strcmp(scenarios[i].name, cases[c].name) != 0)
            i++;
        open_trial(&scenarios[i], &trial);
        const uint64_t nbytes = read_streams(&trial, want);
        prepare_below(&trial, UINT64_MAX);
        ntaken = 0;
        assert_true(move_by_new_objects(&trial, &left) >= 0);
        assert_int_equal(left, scenarios[i].is_left);
        if (ntaken != cases[c].ntaken)
            fail_msg("%s: %d streams were taken", cases[c].name, ntaken);
        check_values(&trial, 0, "encoded ahead");
        assert_int_equal(read_streams(&trial, got), nbytes);
        assert_memory_equal(got, want, nbytes);
        close_trial(&trial);
        free(want);
        free(got);
    }
}

/* ---- marks ---- */

static const struct scenario marked[] = {
    {"write marked", CUBE, true, ALL, ALL, false, MPI | UNCACHED},
    {"write marked chunks", CUBE, true, CHUNKS, DENSE, false, MPI | UNCACHED},
    {"write marked ghosts", CUBE, true, CHUNKS, GHOSTS, false, MPI | UNCACHED},
    {"write marked big", BIG, true, ALL, ALL, false, MPI | UNCACHED},
    {"write marked holes", HOLES, true, ALL, ALL, false, MPI | UNCACHED},
};

static void
prepare_marks(const struct trial *trial, uint64_t fail_at)
{
    prepare_below(trial, fail_at);
    nmarked = 0;
}

/* HDF5 keeps the streams. */
static void
check_marks(struct trial *trial, herr_t result, const char *what)
{
    fake_below.nobjects -= nmarked;
    check_below(trial, what);
    check_values(trial, result, what);
}

static void
marks_stand_for_values(void **state)
{
    (void)state;
    setenv("TERP_MPI_WRITES", "disjoint", 1);
    for (size_t i = 0; i < COUNT(marked); i++) {
        struct trial trial;
        bool left;
        open_trial(&marked[i], &trial);
        prepare_marks(&trial, UINT64_MAX);
        assert_true(move_by_new_objects(&trial, &left) >= 0);
        if (nmarked != (marked[i].file == ALL ? 12 : 8))
            fail_msg("%s: %d chunks have marks", marked[i].name, nmarked);
        check_marks(&trial, 0, "marks");
        close_trial(&trial);
    }
    unsetenv("TERP_MPI_WRITES");
}

static void
failure_with_marks_is_an_error_or_right(void **state)
{
    char what[100];
    bool left;

    (void)state;
    setenv("TERP_MPI_WRITES", "disjoint", 1);
    for (size_t i = 0; i < COUNT(marked); i++) {
        struct trial trial;
        open_trial(&marked[i], &trial);
        for (uint64_t n = 0, ncalls = 1; n <= ncalls; n = next_taken(n)) {
            prepare_marks(&trial, n);
            const herr_t result = move_by_new_objects(&trial, &left);
            ncalls = fake_below.ncalls;
            snprintf(what, sizeof what, "call %llu (%s)", (unsigned long long)n,
                     fake_below.failed == NULL ? "" : fake_below.failed);
            check_marks(&trial, result, what);
        }
        for (uint64_t n = 0, ncalls = 1; n <= ncalls; n += 1 + n / 16) {
            prepare_marks(&trial, UINT64_MAX);
            struct vol_object *object = make_object(&trial, trial.datasets[0]);
            void *objects[] = {object};
            terp_allocations_start(n, UINT64_MAX);
            const herr_t result = move(&trial, objects);
            const struct terp_allocations used = terp_allocations_stop();
            ncalls = used.ncalls;
            snprintf(what, sizeof what, "allocation %llu",
                     (unsigned long long)n);
            if (used.nleaked != (object->plan != NULL))
                fail_msg("%s: %s: %lld blocks stay", marked[i].name, what,
                         (long long)used.nleaked);
            close_object(object);
            check_marks(&trial, result, what);
        }
        close_trial(&trial);
    }
    unsetenv("TERP_MPI_WRITES");
}

/* The marks of another process, in values that HDF5 hands to this process's
 * filter. */
static void
marks_of_another_process_are_an_error(void **state)
{
    static const struct scenario part = {
        "write a foreign mark", CUBE, true, PART, DENSE, true, MPI | UNCACHED};
    struct trial trial;
    bool left;

    (void)state;
    setenv("TERP_MPI_WRITES", "disjoint", 1);
    open_trial(&part, &trial);
    prepare_below(&trial, UINT64_MAX);
    /* The first values of the chunk at {4, 0, 0}. */
    memcpy(trial.src + 3 * 64 * sizeof(float), "terpmarkabcdefgh", 16);
    assert_true(move_by_new_objects(&trial, &left) < 0);
    unsetenv("TERP_MPI_WRITES");
    prepare_below(&trial, UINT64_MAX);
    assert_true(move_by_new_objects(&trial, &left) >= 0);
    close_trial(&trial);
}

/* ---- processes that write parts of the same chunks ---- */

/* Of the field of two processes, this one writes layers [0, 6), and the other
 * one the layers from `begin` on. Chunks have 4 layers. */
static struct {
    uint64_t begin;
    uint64_t state; /* 1: a box, 2: other values */
    bool cannot_tell, fails;
    float field[NVALUES];
    int nmessages;    /* to and from the other process */
    bool has_refused; /* a process: no further message may follow */
} other;

int
__wrap_vol_messages_nprocesses(const struct vol_messages *);
int
__wrap_vol_messages_rank(const struct vol_messages *);
bool
__wrap_vol_messages_any(const struct vol_messages *, uint8_t, uint8_t *);
bool
__wrap_vol_messages_gather(const struct vol_messages *, const void *, size_t,
                           void *);
bool
__wrap_vol_messages_exchange(const struct vol_messages *,
                             const struct vol_parcels *,
                             const struct vol_parcels *);
struct vol_messages *
__wrap_vol_messages_share(struct vol_messages *);
void
__wrap_vol_messages_close(struct vol_messages *);

int
__wrap_vol_messages_nprocesses(const struct vol_messages *messages)
{
    (void)messages;
    return 2;
}

int
__wrap_vol_messages_rank(const struct vol_messages *messages)
{
    (void)messages;
    return 0;
}

struct vol_messages *
__wrap_vol_messages_share(struct vol_messages *messages)
{
    return messages;
}

void
__wrap_vol_messages_close(struct vol_messages *messages)
{
    (void)messages;
}

/* Counts a message, which must be what the other process sends and waits for.
 */
static void
pass_message(int number)
{
    assert_false(other.has_refused);
    assert_int_equal(other.nmessages, number);
    other.nmessages++;
}

/* The first message is 1 if a process cannot list its values. The third one has
 * bit 1 if a process cannot exchange parts, and bit 2 if a process gets several
 * chunks. */
bool
__wrap_vol_messages_any(const struct vol_messages *messages, uint8_t mine,
                        uint8_t *any_ret)
{
    const bool is_first = other.nmessages == 0;

    (void)messages;
    pass_message(is_first ? 0 : 2);
    *any_ret = mine | (is_first ? other.cannot_tell : other.state == 2);
    other.has_refused = (*any_ret & 1) != 0;
    return !other.fails;
}

bool
__wrap_vol_messages_gather(const struct vol_messages *messages,
                           const void *mine, size_t nbytes, void *all_ret)
{
    const uint64_t box[] = {other.state, other.begin, 0, 0, 10, 8, 8};
    uint8_t *at = all_ret;

    (void)messages;
    pass_message(1);
    assert_int_equal(nbytes, sizeof box);
    memcpy(at, mine, nbytes);
    memcpy(at + nbytes, box, nbytes);
    return true;
}

bool
__wrap_vol_messages_exchange(const struct vol_messages *messages,
                             const struct vol_parcels *sent,
                             const struct vol_parcels *received)
{
    (void)messages;
    pass_message(3);
    assert_int_equal(sent->nbytes[1], 0);
    assert_int_equal(received->nbytes[1], 2 * 64 * sizeof(float));
    memcpy(received->data + received->at[1], other.field + 6 * 64,
           2 * 64 * sizeof(float));
    return true;
}

struct exchange_case {
    struct trial trial;
    hid_t dataset;
    struct vol_object *object;
    struct vol_transfer write;
};

static void
end_object(struct exchange_case *c)
{
    if (c->object == NULL)
        return;
    c->object->messages = NULL;
    close_object(c->object);
}

/* Makes a new object: an object remembers facts about its dataset. */
static void
renew_object(struct exchange_case *c)
{
    end_object(c);
    c->object = make_object(&c->trial, c->dataset);
    c->object->messages = (struct vol_messages *)&other;
    c->write.dataset = c->object;
}

static void
open_exchange(bool is_new, struct exchange_case *c)
{
    static const struct scenario scenario = {"exchange", CUBE, true, ALL,
                                             ALL,        true, MPI};
    static const hsize_t start[3], count[] = {6, 8, 8};
    hid_t dcpl = make_dcpl(CUBE), space = H5Screate_simple(3, cube.dims, NULL);

    memset(c, 0, sizeof *c);
    for (int i = 0; i < NVALUES; i++)
        other.field[i] = (float)i;
    other.begin = 6;
    other.state = 1;
    other.cannot_tell = other.fails = false;
    open_trial(&scenario, &c->trial);
    prepare_below(&c->trial, UINT64_MAX);
    hid_t fresh =
        h5_dataset_new(c->trial.file, "fresh", H5T_IEEE_F32LE, &cube, dcpl);
    c->dataset = is_new ? fresh : c->trial.datasets[0];
    H5Iinc_ref(c->dataset);
    c->write =
        (struct vol_transfer){.type = H5T_IEEE_F32LE,
                              .mem_space = H5Screate_simple(3, count, NULL),
                              .file_space = space,
                              .dxpl = H5P_DATASET_XFER_DEFAULT,
                              .src = other.field};
    select_box(space, start, NULL, count, NULL);
    renew_object(c);
    H5Dclose(fresh);
    H5Pclose(dcpl);
}

static void
close_exchange(struct exchange_case *c)
{
    H5Sclose(c->write.mem_space);
    H5Sclose(c->write.file_space);
    end_object(c);
    H5Idec_ref(c->dataset);
    check_below(&c->trial, "exchange");
    close_trial(&c->trial);
}

/* Whether the process got whole chunks. Otherwise its transfer is unchanged. It
 * sends all messages for which the other process waits. */
static bool
exchange(const struct exchange_case *c, const char *what)
{
    struct vol_transfer write = c->write;
    struct vol_exchange made;

    other.nmessages = 0;
    other.has_refused = false;
    const bool may_mark = vol_exchange_make(NULL, 0, &write, &made);
    if (may_mark)
        assert_memory_equal(made.values, other.field, 8 * 64 * sizeof(float));
    else if (write.src != other.field ||
             write.file_space != c->write.file_space)
        fail_msg("%s: the transfer is wrong", what);
    if (!other.has_refused && !other.fails && other.nmessages != 4)
        fail_msg("%s: the other process waits for message %d", what,
                 other.nmessages);
    vol_exchange_close(&fake_below.library, &made);
    return may_mark;
}

static void
parts_are_exchanged_where_they_fill_chunks(void **state)
{
    struct exchange_case c;

    (void)state;
    open_exchange(true, &c);
    assert_true(exchange(&c, "parts"));
    other.begin = 7;
    assert_false(exchange(&c, "a gap"));
    other.begin = 5;
    assert_false(exchange(&c, "an overlap"));
    other.begin = 6;
    other.state = 2;
    assert_false(exchange(&c, "no box"));
    other.state = 1;
    other.fails = true;
    assert_false(exchange(&c, "no messages"));
    other.fails = false;
    other.cannot_tell = true;
    assert_false(exchange(&c, "the other process cannot tell"));
    other.cannot_tell = false;
    c.write.on_device = true;
    assert_false(exchange(&c, "a device"));
    c.write.on_device = false;
    setenv("TERP_MAX_MEMORY", "16K", 1);
    assert_false(exchange(&c, "little memory"));
    unsetenv("TERP_MAX_MEMORY");
    close_exchange(&c);
    open_exchange(false, &c);
    assert_false(exchange(&c, "chunks exist"));
    close_exchange(&c);
}

static void
failure_in_an_exchange_leaves_the_values(void **state)
{
    struct exchange_case c;
    char what[100];

    (void)state;
    open_exchange(true, &c);
    for (uint64_t n = 0, ncalls = 1; n <= ncalls; n++) {
        fake_below.fail_at = UINT64_MAX;
        renew_object(&c);
        fake_below.ncalls = 0;
        fake_below.fail_at = n;
        snprintf(what, sizeof what, "call %llu", (unsigned long long)n);
        (void)exchange(&c, what);
        ncalls = fake_below.ncalls;
    }
    fake_below.fail_at = UINT64_MAX;
    renew_object(&c);
    assert_true(exchange(&c, "no failure"));
    for (uint64_t n = 0, ncalls = 1; n <= ncalls; n++) {
        snprintf(what, sizeof what, "allocation %llu", (unsigned long long)n);
        renew_object(&c);
        terp_allocations_start(n, UINT64_MAX);
        (void)exchange(&c, what);
        const struct terp_allocations used = terp_allocations_stop();
        ncalls = used.ncalls;
        if (used.nleaked != (c.object->plan != NULL))
            fail_msg("%s: %lld blocks stay", what, (long long)used.nleaked);
    }
    close_exchange(&c);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_failure_it_is_left_or_moved),
#ifdef MAX_STACK_NBYTES
        cmocka_unit_test(transfers_take_little_of_the_stack),
#endif
        cmocka_unit_test(failure_of_hdf5_is_an_error_or_right),
        cmocka_unit_test(failure_of_memory_is_an_error_or_right),
        cmocka_unit_test(failure_on_a_device_is_an_error_or_right),
        cmocka_unit_test(process_that_fails_takes_part_in_a_collective_call),
        cmocka_unit_test(many_values_on_the_device_move_in_parts),
        cmocka_unit_test(chunks_on_the_device_move_in_parts),
        cmocka_unit_test(failure_between_parts_is_an_error_or_right),
        cmocka_unit_test(scalar_is_one_part),
        cmocka_unit_test(unknown_selection_is_not_moved_from_the_device),
        cmocka_unit_test(values_that_are_nowhere_are_left),
        cmocka_unit_test(chunk_that_is_too_large_is_an_error),
        cmocka_unit_test(threads_are_all_cpus_unless_told),
        cmocka_unit_test(chunks_of_shared_files_are_encoded_ahead),
        cmocka_unit_test(marks_stand_for_values),
        cmocka_unit_test(failure_with_marks_is_an_error_or_right),
        cmocka_unit_test(marks_of_another_process_are_an_error),
        cmocka_unit_test(parts_are_exchanged_where_they_fill_chunks),
        cmocka_unit_test(failure_in_an_exchange_leaves_the_values),
    };

    return cmocka_run_group_tests(tests, open_fake, NULL);
}
