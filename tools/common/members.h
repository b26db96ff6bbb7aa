/* The members of compound values: their names, and types in memory that hold
 * one of them alone. */
#pragma once

#include <hdf5.h>
#include <stdbool.h>

#include "codec/api/cd_values.h"

/* Longer paths are cut. */
#define TOOL_MEMBER_PATH_NBYTES 256

/* A member as HDF5 knows it: a number, text or other value within a compound
 * value, or an array of them. */
struct tool_member {
    char path[TOOL_MEMBER_PATH_NBYTES]; /* such as "position.x"; "" where the
                                           type is an array of numbers */
    hid_t type; /* of one element; close with H5Tclose */
    uint64_t n; /* elements in a compound value */
    size_t at;  /* the first byte of the first element */
};

/* Finds the member that holds byte `at` of a value of `type`. False for
 * padding, and where HDF5 fails. */
bool
tool_member_find(hid_t type, size_t at, struct tool_member *member_ret);

/* A type in memory that has only this member of `type`, as `element`s one after
 * another. Close it; negative if HDF5 fails. */
hid_t
tool_member_wrap(hid_t type, size_t at, hid_t element);

/* Whether terp codes values of `type` by member. With a name: only if it has a
 * member of that path. */
bool
tool_is_by_member(hid_t type, const char *name);

/* Whether terp codes values of `type` by member, and member `name` is or has
 * numbers, which a bound can change. */
bool
tool_member_has_numbers(hid_t type, const char *name);
