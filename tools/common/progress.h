/* A progress bar on standard error when that is a terminal, and a line in the
 * end. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Since some moment. */
double
tool_seconds(void);

/* Such as "3.42 GB". */
void
tool_nbytes_text(double nbytes, char text[16]);

struct tool_progress {
    bool shown; /* standard error is a terminal */
    uint64_t total_nbytes, done_nbytes;
    double start_s, drawn_s; /* tool_seconds() then */
    int width;               /* of the line that is drawn */
};

void
tool_progress_start(struct tool_progress *progress, uint64_t total_nbytes);

/* Counts `nbytes` as done; draws the bar at most ten times a second. */
void
tool_progress_add(struct tool_progress *progress, uint64_t nbytes);

/* Wipes the bar away. */
void
tool_progress_end(struct tool_progress *progress);

/* The last line: the files' sizes, their ratio, and the time since start_s. */
void
tool_progress_sum(double start_s, const char *in, uint64_t in_nbytes,
                  const char *out, uint64_t out_nbytes);
