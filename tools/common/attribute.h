/* Attributes of HDF5 objects: texts and numbers, in whichever form programs
 * write them. */
#pragma once

#include <hdf5.h>
#include <stdbool.h>

/* The text of an attribute, of fixed or of variable length, in UTF-8 or ASCII;
 * of an array of texts all, with blanks between them. Blanks and null bytes at
 * the end of a fixed text are left out. NULL where there is no such attribute,
 * where it is no text, and without memory. To be freed. */
char *
tool_attribute_text(hid_t object, const char *name);

/* Reads an attribute of at most `cap` numbers, and converts them to doubles.
 * Returns how many; 0 where there is no such attribute, where it has more, or
 * none, or is no integer and no float. */
int
tool_attribute_numbers(hid_t object, const char *name, int cap,
                       double *values_ret);
