/* Why HDF5 has failed most recently. Each call of HDF5 that succeeds empties
 * the stack of errors that tells. */
#pragma once

#include <hdf5.h>
#include <stdbool.h>
#include <stddef.h>

/* Keeps HDF5 from printing errors by itself. */
void
tool_hdf5_quiet(void);

/* The innermost message on HDF5's error stack; of a version of the file format
 * that this HDF5 does not know it says so. */
void
tool_hdf5_reason(char *text_ret, size_t text_cap);

/* Whether HDF5 has failed most recently for want of memory, also of what
 * TERP_MAX_MEMORY allows. */
bool
tool_hdf5_lacks_memory(void);

/* Whether HDF5 has failed most recently at something that a later version of
 * HDF5 has added to the format of files. */
bool
tool_hdf5_is_older(void);

/* Why an object cannot be opened. */
struct tool_trouble {
    bool is_newer; /* HDF5 is too old for it; else it is damaged */
    char reason[256];
};

/* Of the most recent failure. */
struct tool_trouble
tool_hdf5_trouble(void);

/* Keeps the error stack while other calls of HDF5 are made. */
hid_t
tool_hdf5_hold(void);

/* Gives the stack back that tool_hdf5_hold has kept. */
void
tool_hdf5_release(hid_t stack);
