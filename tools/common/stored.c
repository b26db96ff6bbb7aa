/* Finds the stored chunks of datasets. */
#include "tools/common/stored.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "codec/format/base.h"

/* With fewer chunks, looking for each one takes at most some milliseconds. */
#define MIN_NCHUNKS 4096

/* If more than one chunk in SPARSE_EVERY is stored, looking for all chunks
 * costs little beside reading. */
#define SPARSE_EVERY 16

/* Reading LARGE_NBYTES of fill values takes longer than looking for the chunks.
 * Larger datasets count as sparse if one chunk in LARGE_SPARSE_EVERY is stored.
 */
#define LARGE_NBYTES ((uint64_t)64 << 20)
#define LARGE_SPARSE_EVERY 2

/* Limit of the list of boxes; bounds memory. Longer lists become "all". */
#define MAX_NBOXES ((uint64_t)1 << 24)

/* Time to look for one chunk, in seconds; used to compare with the time for
 * listing chunks. */
#define LOOK_S 0.4e-6

static int
compare(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* The number of the chunk at `at`; false if the grid has no such chunk. */
static bool
number_of(const struct tool_dataset *dataset, const hsize_t *at,
          uint64_t *number_ret)
{
    uint64_t number = 0;

    for (int d = 0; d < dataset->rank; d++) {
        const hsize_t step = dataset->chunk_dims[d];
        if (at[d] % step != 0 || at[d] >= dataset->dims[d])
            return false;
        number = number * div_up(dataset->dims[d], step) + at[d] / step;
    }
    *number_ret = number;
    return true;
}

static bool
list(const struct tool_dataset *dataset, uint64_t n, uint64_t *numbers)
{
    for (uint64_t i = 0; i < n; i++) {
        hsize_t at[H5S_MAX_RANK], nbytes;
        haddr_t address;
        unsigned mask;
        /* HDF5 gives wrong positions of chunks in extensible arrays whose
         * unlimited dim is not the first one. If every position holds a chunk
         * and no two are equal, the list is complete. */
        if (H5Dget_chunk_info(dataset->id, dataset->space, i, at, &mask,
                              &address, &nbytes) < 0 ||
            !number_of(dataset, at, &numbers[i]) ||
            H5Dget_chunk_storage_size(dataset->id, at, &nbytes) < 0)
            return false;
    }
    qsort(numbers, n, sizeof *numbers, compare);
    /* Two chunks at one position: the index is damaged. */
    for (uint64_t i = 1; i < n; i++)
        if (numbers[i] == numbers[i - 1])
            return false;
    return true;
}

/* Whether listing chunks is faster than looking for each one. HDF5 finds the
 * n-th chunk by counting: chunks in a B-tree, but all elements of an array,
 * stored or not. The time for the last chunk shows which. It only decides
 * between two methods with the same result. */
static bool
listing_pays(const struct tool_dataset *dataset, uint64_t n, uint64_t nchunks)
{
    hsize_t at[H5S_MAX_RANK], nbytes;
    haddr_t address;
    unsigned mask;
    const clock_t begin = clock(); /* CPU time of this process */

    if (n > 0 && H5Dget_chunk_info(dataset->id, dataset->space, n - 1, at,
                                   &mask, &address, &nbytes) < 0)
        return false;
    const double last_s = (double)(clock() - begin) / CLOCKS_PER_SEC;
    return last_s * (double)n / 2 <= LOOK_S * (double)nchunks;
}

/* The dataset is sparse if at most one chunk in this many is stored; 0: it is
 * too small to be sparse. */
static uint64_t
sparse_every(const struct tool_dataset *dataset, uint64_t nchunks)
{
    return nchunks >= MIN_NCHUNKS ? SPARSE_EVERY
           : dataset->nvalues >= LARGE_NBYTES / dataset->value_nbytes
               ? LARGE_SPARSE_EVERY
               : 0;
}

struct tool_stored
tool_stored_find(const struct tool_dataset *dataset)
{
    struct tool_grid grid = tool_grid_of(dataset, dataset->chunk_dims);
    struct tool_stored stored = {
        .nchunks = dataset->chunked ? tool_grid_nboxes(&grid) : 0};
    const uint64_t every = sparse_every(dataset, stored.nchunks);
    hsize_t n = 0;

    if (every == 0 || !dataset->chunked ||
        H5Dget_num_chunks(dataset->id, dataset->space, &n) < 0 ||
        n > stored.nchunks / every)
        return stored;
    stored.sparse = true;
    if (!listing_pays(dataset, n, stored.nchunks))
        return stored;
    stored.numbers = calloc(n + 1, sizeof *stored.numbers);
    if (stored.numbers == NULL)
        return stored;
    stored.listed = list(dataset, n, stored.numbers);
    stored.n = stored.listed ? n : 0;
    return stored;
}

void
tool_stored_free(struct tool_stored *stored)
{
    free(stored->numbers);
    *stored = (struct tool_stored){0};
}

bool
tool_stored_next(const struct tool_stored *stored, struct tool_grid *grid)
{
    uint64_t first = 0, end = stored->n;

    if (!stored->listed)
        return tool_grid_next(grid);
    while (first < end) {
        const uint64_t middle = first + (end - first) / 2;
        if (stored->numbers[middle] < grid->next)
            first = middle + 1;
        else
            end = middle;
    }
    if (first == stored->n)
        return false;
    grid->next = stored->numbers[first];
    return tool_grid_next(grid);
}

uint64_t
tool_stored_nabsent(const struct tool_stored *stored)
{
    return stored->listed ? stored->nchunks - stored->n : 0;
}

/* The boxes of one grid that overlap a box of another grid. */
struct touched {
    const struct tool_grid *grid;
    struct tool_grid steps; /* from the first of these boxes */
    hsize_t first[H5S_MAX_RANK];
};

static struct touched
touch(const struct tool_grid *grid, const struct tool_grid *box)
{
    struct touched touched = {.grid = grid, .steps = {.rank = grid->rank}};

    for (int d = 0; d < grid->rank; d++) {
        const hsize_t last = box->at[d] + box->count[d] - 1;
        touched.first[d] = box->at[d] / grid->step[d];
        touched.steps.dims[d] = last / grid->step[d] - touched.first[d] + 1;
        touched.steps.step[d] = 1;
    }
    return touched;
}

/* The number of the next box; false after the last one. */
static bool
next_touched(struct touched *touched, uint64_t *number_ret)
{
    const struct tool_grid *grid = touched->grid;
    uint64_t number = 0;

    if (!tool_grid_next(&touched->steps))
        return false;
    for (int d = 0; d < grid->rank; d++)
        number = number * div_up(grid->dims[d], grid->step[d]) +
                 touched->first[d] + touched->steps.at[d];
    *number_ret = number;
    return true;
}

/* Marks the boxes of `grid` that overlap the chunk `chunk`. */
static void
mark(const struct tool_grid *grid, const struct tool_grid *chunk,
     bool *boxes_ret)
{
    struct touched touched = touch(grid, chunk);
    uint64_t number;

    while (next_touched(&touched, &number))
        boxes_ret[number] = true;
}

bool *
tool_stored_boxes(const struct tool_dataset *dataset,
                  const struct tool_grid *grid)
{
    struct tool_stored stored = tool_stored_find(dataset);
    struct tool_grid chunk = tool_grid_of(dataset, dataset->chunk_dims);
    bool *boxes = NULL;

    if (stored.sparse)
        boxes = calloc(tool_grid_nboxes(grid), sizeof *boxes);
    while (boxes != NULL && tool_stored_next(&stored, &chunk))
        if (stored.listed || !tool_chunk_is_absent(dataset, &chunk))
            mark(grid, &chunk, boxes);
    tool_stored_free(&stored);
    return boxes;
}

bool
tool_stored_next_box(const bool *boxes, struct tool_grid *grid)
{
    uint64_t number;

    do {
        number = grid->next;
        if (!tool_grid_next(grid))
            return false;
    } while (boxes != NULL && !boxes[number]);
    return true;
}

/* ---- stored boxes ---- */

/* Whether a dataset without chunks stores values, in its file or in others. */
static bool
has_values(const struct tool_dataset *dataset)
{
    return H5Dget_storage_size(dataset->id) > 0 ||
           H5Pget_layout(dataset->dcpl) == H5D_VIRTUAL ||
           H5Pget_external_count(dataset->dcpl) > 0;
}

/* False above the limit, or without memory. */
static bool
add_box(struct tool_boxes *boxes, uint64_t number)
{
    if (boxes->n == MAX_NBOXES)
        return false;
    if (boxes->n == boxes->cap) {
        const uint64_t cap = boxes->cap == 0 ? 64 : 2 * boxes->cap;
        uint64_t *more = realloc(boxes->numbers, cap * sizeof *more);
        if (more == NULL)
            return false;
        boxes->numbers = more;
        boxes->cap = cap;
    }
    boxes->numbers[boxes->n++] = number;
    return true;
}

static void
take_all(struct tool_boxes *boxes)
{
    tool_boxes_free(boxes);
    boxes->all = true;
}

/* Sorts the numbers and removes repetitions. */
static void
sort(struct tool_boxes *boxes)
{
    uint64_t n = 0;

    if (boxes->n == 0)
        return;
    qsort(boxes->numbers, boxes->n, sizeof *boxes->numbers, compare);
    for (uint64_t i = 1; i < boxes->n; i++)
        if (boxes->numbers[i] != boxes->numbers[n])
            boxes->numbers[++n] = boxes->numbers[i];
    boxes->n = n + 1;
}

struct tool_boxes
tool_boxes_written(const struct tool_dataset *dataset,
                   const struct tool_grid *grid)
{
    struct tool_grid chunk = tool_grid_of(dataset, dataset->chunk_dims);
    struct tool_boxes boxes = {.all = dataset->chunked ? false
                                                       : has_values(dataset)};

    if (!dataset->chunked)
        return boxes;
    struct tool_stored stored = tool_stored_find(dataset);
    bool ok = stored.listed;
    while (ok && tool_stored_next(&stored, &chunk)) {
        struct touched touched = touch(grid, &chunk);
        uint64_t number;
        while (ok && next_touched(&touched, &number))
            ok = add_box(&boxes, number);
    }
    tool_stored_free(&stored);
    if (ok)
        sort(&boxes);
    else
        take_all(&boxes);
    return boxes;
}

void
tool_boxes_merge(struct tool_boxes *boxes, const struct tool_boxes *other)
{
    bool ok = !boxes->all && !other->all;

    for (uint64_t i = 0; ok && i < other->n; i++)
        ok = add_box(boxes, other->numbers[i]);
    if (ok)
        sort(boxes);
    else
        take_all(boxes);
}

void
tool_boxes_free(struct tool_boxes *boxes)
{
    free(boxes->numbers);
    *boxes = (struct tool_boxes){0};
}

/* Whether HDF5 finds a chunk here when it reads: otherwise it reports so, or
 * gives the size 0. */
static bool
is_found(const struct tool_dataset *dataset, const hsize_t *at)
{
    hsize_t nbytes = 0;
    char reason[64];

    if (H5Dget_chunk_storage_size(dataset->id, at, &nbytes) >= 0)
        return nbytes > 0;
    tool_hdf5_reason(reason, sizeof reason);
    return strcmp(reason, "chunk storage is not allocated") != 0;
}

bool
tool_box_is_written(const struct tool_dataset *dataset,
                    const struct tool_grid *box)
{
    struct tool_grid chunks = tool_grid_of(dataset, dataset->chunk_dims);
    uint64_t number;

    if (!dataset->chunked)
        return has_values(dataset);
    struct touched touched = touch(&chunks, box);
    while (next_touched(&touched, &number)) {
        chunks.next = number;
        if (!tool_grid_next(&chunks) || is_found(dataset, chunks.at))
            return true;
    }
    return false;
}
