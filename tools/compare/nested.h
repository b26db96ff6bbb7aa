/* Values of any type, compared by what they hold: text and sequences of varying
 * length are addresses in memory, and references are addresses in their
 * file. */
#pragma once

#include <hdf5.h>
#include <stdbool.h>
#include <stdint.h>

struct nested_type;

/* What values of a type hold, within each other. NULL where that cannot be
 * compared, which *reason_ret explains: a static clause. */
struct nested_type *
nested_type_make(hid_t type, const char **reason_ret);

/* NULL: nothing. */
void
nested_type_free(struct nested_type *type);

/* Whether values hold memory of their own. */
bool
nested_has_heap(const struct nested_type *type);

bool
nested_has_references(const struct nested_type *type);

/* Two files of which each may refer to its own objects; both stay open. NULL
 * without memory. */
struct nested_files *
nested_files_open(hid_t a, hid_t b);

void
nested_files_close(struct nested_files *files);

/* Whether `nvalues` values as they are in memory are the same: numbers bit for
 * bit, without what stands between the members of compounds; references where
 * they are to objects that have the same path, and to the same selection.
 * `files` is needed for these alone. Of references to what is no longer there
 * all are the same. */
bool
nested_equal(struct nested_files *files, const struct nested_type *type,
             uint64_t nvalues, const void *a, const void *b);
