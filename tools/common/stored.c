/* Asks HDF5 for the chunks that its index has. */
#include "tools/common/stored.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "codec/format/base.h"

/* To look for this many, each by itself, takes some milliseconds. */
#define MIN_NCHUNKS 4096

/* Where more are stored than one in so many, all may be looked for. */
#define SPARSE_EVERY 16

/* What it takes to look for one. */
#define LOOK_S 0.4e-6

static int
compare(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* The number of the chunk at `at`; false: there is none in the grid. */
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
        if (H5Dget_chunk_info(dataset->id, dataset->space, i, at, &mask,
                              &address, &nbytes) < 0 ||
            !number_of(dataset, at, &numbers[i]))
            return false;
    }
    qsort(numbers, n, sizeof *numbers, compare);
    /* A damaged index. */
    for (uint64_t i = 1; i < n; i++)
        if (numbers[i] == numbers[i - 1])
            return false;
    return true;
}

/* HDF5 finds the n-th chunk by counting up to it: chunks in a B-tree, but all
 * elements of an array, stored or not. So this is worth the time where few are
 * stored, and the last of them tells how few. The time decides nothing but who
 * finds them. */
static bool
listing_pays(const struct tool_dataset *dataset, uint64_t n, uint64_t nchunks)
{
    hsize_t at[H5S_MAX_RANK], nbytes;
    haddr_t address;
    unsigned mask;
    const clock_t begin = clock(); /* not what other processes take */

    if (n > 0 && H5Dget_chunk_info(dataset->id, dataset->space, n - 1, at,
                                   &mask, &address, &nbytes) < 0)
        return false;
    const double last_s = (double)(clock() - begin) / CLOCKS_PER_SEC;
    return last_s * (double)n / 2 <= LOOK_S * (double)nchunks;
}

struct tool_stored
tool_stored_find(const struct tool_dataset *dataset)
{
    struct tool_grid grid = tool_grid_of(dataset, dataset->chunk_dims);
    struct tool_stored stored = {
        .nchunks = dataset->chunked ? tool_grid_nboxes(&grid) : 0};
    hsize_t n = 0;

    if (stored.nchunks < MIN_NCHUNKS ||
        H5Dget_num_chunks(dataset->id, dataset->space, &n) < 0 ||
        n > stored.nchunks / SPARSE_EVERY)
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

/* Marks the boxes of `grid` that have values of the chunk `chunk`. */
static void
mark(const struct tool_grid *grid, const struct tool_grid *chunk,
     bool *boxes_ret)
{
    struct tool_grid touched = {.rank = grid->rank};
    hsize_t first[H5S_MAX_RANK];

    for (int d = 0; d < grid->rank; d++) {
        const hsize_t last = chunk->at[d] + chunk->count[d] - 1;
        first[d] = chunk->at[d] / grid->step[d];
        touched.dims[d] = last / grid->step[d] - first[d] + 1;
        touched.step[d] = 1;
    }
    while (tool_grid_next(&touched)) {
        uint64_t number = 0;
        for (int d = 0; d < grid->rank; d++)
            number = number * div_up(grid->dims[d], grid->step[d]) + first[d] +
                     touched.at[d];
        boxes_ret[number] = true;
    }
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
