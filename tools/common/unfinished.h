/* An unfinished file: a command writes it under another name, and renames it
 * when it is complete. doc/design/12-tools.md explains the name. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Creates an empty file beside `out`, whose name identifies this process, and
 * sets path_ret to it. Returns its descriptor; or -1, and errno says why. */
int
tool_unfinished_make(const char *out, char *path_ret, size_t path_cap);

/* Whether a path has the name of an unfinished file, of any process. */
bool
tool_unfinished_is(const char *path);

/* Receives the path of an unfinished file whose process cannot be checked: it
 * runs on another machine, or ran before this machine's last start. */
typedef void
tool_unfinished_report(void *context, const char *path);

/* Removes unfinished files beside `out` whose processes on this machine have
 * ended. Leaves files of running processes. */
void
tool_unfinished_sweep(const char *out, tool_unfinished_report *report,
                      void *context);
