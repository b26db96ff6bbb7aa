/* Limits of memory and work for untrusted files: a few kB can claim chunks of
 * any size and number. TERP_MAX_MEMORY limits one call of the codec; if it is
 * not set, it gets a default from the size of the file and the memory of the
 * machine. The size of the file also limits what all its chunks together may
 * decode to. */
#pragma once

#include "tools/common/h5file.h"

/* Key and help of the option that lifts both limits. */
enum {
    TOOL_KEY_TRUSTED = 1000
};
#define TOOL_HELP_TRUSTED                                                \
    "Lift the limits of memory and work that depend on the size of the " \
    "files: use it for files that you trust. TERP_MAX_MEMORY still counts"

/* Starts counting for files of `nbytes` bytes together. Call it before threads
 * start. */
void
tool_limit_begin(uint64_t nbytes, bool is_trusted);

/* The size of an open file; 0 for a negative id. */
uint64_t
tool_limit_file_nbytes(hid_t file);

enum tool_limit_use {
    TOOL_LIMIT_LIST, /* look for its chunks */
    TOOL_LIMIT_SOME, /* decode some chunks */
    TOOL_LIMIT_ALL   /* read or decode all chunks */
};

/* Counts the cost of a dataset. False, with a reason, if the cost exceeds what
 * is left, or a chunk exceeds the limit of memory. */
bool
tool_limit_take(const struct tool_dataset *dataset, enum tool_limit_use use,
                char *reason_ret, size_t reason_cap);

/* Text to append to a reason that names TERP_MAX_MEMORY: how to lift the limit
 * if it is the default; else "". */
const char *
tool_limit_hint(const char *reason);
