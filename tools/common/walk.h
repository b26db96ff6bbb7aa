/* Walks over the links and objects of a file. No function calls itself, so that
 * groups may be nested to any depth. */
#pragma once

#include "tools/common/h5file.h"

/* Type, address, number of links and header of an object; it asks HDF5 for no
 * more, and so does not fail on what HDF5 cannot read of the rest. */
bool
tool_object_info(hid_t object, H5O_info_t *info_ret);

/* A walk, and the link that it has come to. */
struct tool_walk {
    const char *path; /* of that link, from "/" on */
    const char *name; /* its last part */
    H5L_info_t link;
    void *group; /* that the link is in: what tool_walk_enter was given */

    hid_t file;
    bool by_creation;
    char *text; /* the path */
    size_t text_cap;
    struct tool_walk_group *groups; /* the outermost first */
    size_t ngroups, cap_ngroups;
};

/* A walk of an open file, which begins when a group is entered. Links come in
 * the order of their names, or `by_creation` in the one in which they were
 * made, where that is known. To be ended in any case. */
struct tool_walk
tool_walk_begin(hid_t file, bool by_creation);

/* Lists the links of a group, which is the root at first and then the target of
 * the link that the walk has come to; they come next. False where HDF5 cannot
 * list them, or without memory. */
bool
tool_walk_enter(struct tool_walk *walk, hid_t group, void *context);

/* Moves on to the next link; false past the last one. */
bool
tool_walk_next(struct tool_walk *walk);

/* The same as tool_object_info of the target of a hard link that the walk has
 * come to, which need not be opened for it. */
bool
tool_walk_info(struct tool_walk *walk, H5O_info_t *info_ret);

/* Opens that target; negative where HDF5 cannot. */
hid_t
tool_walk_open(const struct tool_walk *walk);

void
tool_walk_end(struct tool_walk *walk);

/* Calls `visit` once for every dataset, in the order of their names, with its
 * path, and for every other object that cannot be opened or followed.
 * `dataset` is NULL where HDF5 cannot open it, which `trouble` explains. False
 * where links are missing since a group cannot be followed. */
typedef void
tool_visit(const char *path, const struct tool_dataset *dataset,
           const struct tool_trouble *trouble, void *context);

bool
tool_file_visit(hid_t file, tool_visit *visit, void *context);
