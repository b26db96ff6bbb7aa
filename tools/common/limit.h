/* What a command takes of the machine for a file that nobody vouches for: some
 * kB can announce chunks of any size, and any number of them. TERP_MAX_MEMORY
 * limits what one call takes; where it is not set, it is given a default in
 * proportion to the file and the machine. What all chunks of a file decode to
 * has a limit in proportion to the file. */
#pragma once

#include "tools/common/h5file.h"

/* The help of the option that lifts both, and its key. */
enum {
    TOOL_KEY_TRUSTED = 1000
};
#define TOOL_HELP_TRUSTED                                                     \
    "Files come from who is trusted: there is no limit of memory or work in " \
    "proportion to their size; TERP_MAX_MEMORY remains if it is set"

/* Begins to count for files of so many bytes in all, without other threads. */
void
tool_limit_begin(uint64_t nbytes, bool is_trusted);

/* The bytes of an open file; 0 for a negative id. */
uint64_t
tool_limit_file_nbytes(hid_t file);

enum tool_limit_use {
    TOOL_LIMIT_LIST, /* its chunks are looked for */
    TOOL_LIMIT_SOME, /* some are decoded */
    TOOL_LIMIT_ALL   /* all are, or read */
};

/* Counts what a dataset takes. False, with a reason, where that is more than is
 * left, or a chunk takes more memory than may be. */
bool
tool_limit_take(const struct tool_dataset *dataset, enum tool_limit_use use,
                char *reason_ret, size_t reason_cap);

/* What to add to a reason that may name TERP_MAX_MEMORY: how to lift it, where
 * its value is the default one. */
const char *
tool_limit_hint(const char *reason);
