/* Compares values of any type by content. Strings and sequences of varying
 * length are addresses in memory; references are addresses in their file. */
#pragma once

#include <hdf5.h>
#include <stdbool.h>
#include <stdint.h>

struct nested_type;

/* Analyses a type. NULL if its values cannot be compared; *reason_ret then says
 * why and is static. */
struct nested_type *
nested_type_make(hid_t type, const char **reason_ret);

/* Does nothing for NULL. */
void
nested_type_free(struct nested_type *type);

/* Whether values contain strings or sequences of varying length. */
bool
nested_has_heap(const struct nested_type *type);

bool
nested_has_references(const struct nested_type *type);

/* Two files whose references are compared; the caller keeps them open. NULL
 * without memory. */
struct nested_files *
nested_files_open(hid_t a, hid_t b);

void
nested_files_close(struct nested_files *files);

/* Whether `nvalues` values in memory are equal. Numbers must be equal bit for
 * bit; padding of compounds is ignored. References must point to objects of the
 * same path and to the same selection; only they need `files`. References whose
 * targets no longer exist are equal. */
bool
nested_equal(struct nested_files *files, const struct nested_type *type,
             uint64_t nvalues, const void *a, const void *b);
