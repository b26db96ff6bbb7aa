/* Attributes of HDF5 objects: text and numbers, in all types that programs
 * write. */
#pragma once

#include <hdf5.h>
#include <stdbool.h>

/* The text of an attribute, of fixed or varying length, in UTF-8 or ASCII,
 * without trailing blanks and null bytes. Texts of an array are joined with
 * blanks. Free it. NULL without the attribute, for other types, and without
 * memory. */
char *
tool_attribute_text(hid_t object, const char *name);

/* Reads an attribute of at most `cap` numbers as doubles. Returns their number;
 * 0 if the attribute is missing, empty, longer, or neither integer nor float.
 */
int
tool_attribute_numbers(hid_t object, const char *name, int cap,
                       double *values_ret);
