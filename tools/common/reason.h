/* The reason of HDF5's latest failure, from its error stack. Each successful
 * call of HDF5 clears the stack. */
#pragma once

#include <hdf5.h>
#include <stdbool.h>
#include <stddef.h>

/* Turns off HDF5's own error messages. */
void
tool_hdf5_quiet(void);

/* The innermost message of HDF5's error stack, or that the file needs a newer
 * HDF5. */
void
tool_hdf5_reason(char *text_ret, size_t text_cap);

/* Whether the latest failure was a lack of memory, including the limit
 * TERP_MAX_MEMORY. */
bool
tool_hdf5_lacks_memory(void);

/* Why an object cannot be opened. */
struct tool_trouble {
    bool is_newer; /* it needs a newer HDF5; else it is damaged */
    char reason[256];
};

/* Describes the latest failure. */
struct tool_trouble
tool_hdf5_trouble(void);

/* Saves the error stack during other calls of HDF5. */
hid_t
tool_hdf5_hold(void);

/* Restores the error stack that tool_hdf5_hold saved. */
void
tool_hdf5_release(hid_t stack);
