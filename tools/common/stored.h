/* Which chunks of a dataset are stored, where it may have a thousand times as
 * many: then those are listed, and the grid is not gone through. */
#pragma once

#include "tools/common/h5file.h"

struct tool_stored {
    uint64_t nchunks;  /* in the grid of chunks */
    bool sparse;       /* it has many, and few are stored */
    bool listed;       /* else any chunk may be stored */
    uint64_t n;        /* that are listed */
    uint64_t *numbers; /* of these in the grid's order, ascending */
};

/* Lists the chunks of a dataset that has many, and few that are stored. Frees
 * nothing; tool_stored_free does. */
struct tool_stored
tool_stored_find(const struct tool_dataset *dataset);

void
tool_stored_free(struct tool_stored *stored);

/* As tool_grid_next of the grid of chunks, but to the next one that may be
 * stored. */
bool
tool_stored_next(const struct tool_stored *stored, struct tool_grid *grid);

/* How many of the grid that never stops at are not stored. */
uint64_t
tool_stored_nabsent(const struct tool_stored *stored);

/* For each box of another grid over a sparse dataset whether chunks in it are
 * stored, or cannot be found; NULL: it is not sparse, or there is no memory to
 * tell. The caller frees. */
bool *
tool_stored_boxes(const struct tool_dataset *dataset,
                  const struct tool_grid *grid);

/* Boxes of a grid, by their numbers. */
struct tool_boxes {
    bool all; /* that the grid has; else those that are listed */
    uint64_t n, cap;
    uint64_t *numbers; /* ascending */
};

/* The boxes of a grid over a dataset that may have values which were written:
 * the others are nothing but the fill value. `all` where few are written or
 * not, or none are listed. Free with tool_boxes_free. */
struct tool_boxes
tool_boxes_written(const struct tool_dataset *dataset,
                   const struct tool_grid *grid);

/* Adds those of `other`, which are of the same grid. */
void
tool_boxes_merge(struct tool_boxes *boxes, const struct tool_boxes *other);

void
tool_boxes_free(struct tool_boxes *boxes);

/* False where HDF5 has nothing but the fill value for a box of a dataset that
 * has values. */
bool
tool_box_is_written(const struct tool_dataset *dataset,
                    const struct tool_grid *box);

/* As tool_grid_next, but to the next box that `boxes` tells of. */
bool
tool_stored_next_box(const bool *boxes, struct tool_grid *grid);
