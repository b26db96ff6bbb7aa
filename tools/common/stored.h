/* Lists the stored chunks of a dataset that has many chunks but stores few, so
 * that commands need not walk over the whole grid. */
#pragma once

#include "tools/common/h5file.h"

struct tool_stored {
    uint64_t nchunks;  /* in the grid of chunks */
    bool sparse;       /* it has many chunks and stores few */
    bool listed;       /* numbers lists the stored chunks; else any chunk may be
                          stored */
    uint64_t n;        /* length of numbers */
    uint64_t *numbers; /* numbers of stored chunks, ascending */
};

/* Lists the stored chunks of a sparse dataset. Free with tool_stored_free. */
struct tool_stored
tool_stored_find(const struct tool_dataset *dataset);

void
tool_stored_free(struct tool_stored *stored);

/* Like tool_grid_next on the grid of chunks, but moves to the next chunk that
 * may be stored. */
bool
tool_stored_next(const struct tool_stored *stored, struct tool_grid *grid);

/* The number of chunks that tool_stored_next skips. */
uint64_t
tool_stored_nabsent(const struct tool_stored *stored);

/* For each box of another grid over a sparse dataset, whether it overlaps
 * chunks that are stored or cannot be found. NULL: the dataset is not sparse,
 * or memory is short. The caller frees it. */
bool *
tool_stored_boxes(const struct tool_dataset *dataset,
                  const struct tool_grid *grid);

/* Numbers of boxes of a grid. */
struct tool_boxes {
    bool all; /* all boxes of the grid; else those in numbers */
    uint64_t n, cap;
    uint64_t *numbers; /* ascending */
};

/* The boxes of a grid over a dataset that may hold stored values; the other
 * boxes hold the fill value. `all` if chunks cannot be listed or too many boxes
 * are stored. Free with tool_boxes_free. */
struct tool_boxes
tool_boxes_written(const struct tool_dataset *dataset,
                   const struct tool_grid *grid);

/* Adds the boxes of `other`, which refers to the same grid. */
void
tool_boxes_merge(struct tool_boxes *boxes, const struct tool_boxes *other);

void
tool_boxes_free(struct tool_boxes *boxes);

/* False if the box has only unwritten chunks. */
bool
tool_box_is_written(const struct tool_dataset *dataset,
                    const struct tool_grid *box);

/* Like tool_grid_next, but moves to the next box that `boxes` marks. */
bool
tool_stored_next_box(const bool *boxes, struct tool_grid *grid);
