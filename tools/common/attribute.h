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

/* Writes a scalar attribute of ASCII text, which must not exist. False where
 * HDF5 fails; so do the next two functions. */
bool
tool_attribute_write_text(hid_t object, const char *name, const char *text);

/* Writes a scalar attribute of a float64. */
bool
tool_attribute_write_number(hid_t object, const char *name, double number);

/* Removes an attribute if it exists. */
bool
tool_attribute_remove(hid_t object, const char *name);
