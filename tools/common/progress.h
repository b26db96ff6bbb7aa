/* A progress bar on standard error if that is a terminal, and a last line. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Seconds since a fixed moment. */
double
tool_seconds(void);

/* Text such as "3.42 GB". */
void
tool_nbytes_text(double nbytes, char text[16]);

struct tool_progress {
    bool shown; /* standard error is a terminal */
    uint64_t total_nbytes, done_nbytes;
    double start_s, drawn_s;  /* by tool_seconds() */
    int width;                /* of the drawn line */
    atomic_uint *nhundredths; /* that are done, for another process; or NULL */
};

void
tool_progress_start(struct tool_progress *progress, uint64_t total_nbytes);

/* Counts `nbytes` as done. Draws the bar at most ten times a second. */
void
tool_progress_add(struct tool_progress *progress, uint64_t nbytes);

/* Erases the bar. */
void
tool_progress_end(struct tool_progress *progress);

/* Prints the last line: sizes of both files, their ratio, and the time since
 * start_s. */
void
tool_progress_sum(double start_s, const char *in, uint64_t in_nbytes,
                  const char *out, uint64_t out_nbytes);
