/* The file that a command writes until it is whole and gets another file's
 * name. doc/design/08-tools.md tells why it is called what it is. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Makes an empty file beside `out`, whose name tells that this process writes
 * it, and sets `path_ret` to that name. Returns its descriptor; or -1, and
 * errno says why. */
int
tool_part_make(const char *out, char *path_ret, size_t path_cap);

/* Gets the path of a file whose writer cannot be seen from here, since it runs
 * on another machine, or ran before this one was started. */
typedef void
tool_part_tell(void *context, const char *path);

/* Removes what processes of this machine that no longer run have left beside
 * `out`, and leaves what any that runs is writing. */
void
tool_part_sweep(const char *out, tool_part_tell *tell, void *context);
