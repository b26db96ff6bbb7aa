/* Walks over the links and objects of a file. The walk is not recursive; groups
 * may be nested to any depth. */
#pragma once

#include "tools/common/h5file.h"

/* Type, address, number of links and header of an object. Asks HDF5 for nothing
 * else, so that an unreadable rest does no harm. */
bool
tool_object_info(hid_t object, H5O_info_t *info_ret);

/* A walk, and its current link. */
struct tool_walk {
    const char *path; /* of the current link, from "/" on */
    const char *name; /* its last name */
    H5L_info_t link;
    void *group; /* context of the group that holds the link, from
                    tool_walk_enter */

    hid_t file;
    bool by_creation;
    char *text; /* memory of the path */
    size_t text_cap;
    struct tool_walk_group *groups; /* outermost first */
    size_t ngroups, cap_ngroups;
};

/* A walk over an open file; it starts when tool_walk_enter gets the root. Links
 * come in the order of their names, or with `by_creation` in the order of
 * creation, if the file tracks it. End the walk in any case. */
struct tool_walk
tool_walk_begin(hid_t file, bool by_creation);

/* Enters a group: the root, or the target of the current link. Its links come
 * next. False where HDF5 cannot list them, or without memory. */
bool
tool_walk_enter(struct tool_walk *walk, hid_t group, void *context);

/* Moves to the next link; false after the last one. */
bool
tool_walk_next(struct tool_walk *walk);

/* tool_object_info of the target of the current hard link, without opening it.
 */
bool
tool_walk_info(struct tool_walk *walk, H5O_info_t *info_ret);

/* Opens the target of the current link; negative where HDF5 fails. */
hid_t
tool_walk_open(const struct tool_walk *walk);

void
tool_walk_end(struct tool_walk *walk);

/* Calls `visit` once for every dataset, in the order of names, and for every
 * object that cannot be opened or walked. `dataset` is NULL if HDF5 cannot open
 * it, and `trouble` says why. False if a group could not be walked, so that
 * datasets may be missing. */
typedef void
tool_visit(const char *path, const struct tool_dataset *dataset,
           const struct tool_trouble *trouble, void *context);

bool
tool_file_visit(hid_t file, tool_visit *visit, void *context);
