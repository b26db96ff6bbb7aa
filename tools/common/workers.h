/* Threads that take work in the order in which it was given. */
#pragma once

#include <stdbool.h>

/* An item of work; the first member of a larger struct. */
struct tool_work {
    struct tool_work *next;
    bool is_done;
};

struct tool_workers;

typedef void
tool_work_do(void *arg, struct tool_work *work);

/* If the system starts fewer threads, these do all the work; without threads,
 * the caller does. NULL without memory. */
struct tool_workers *
tool_workers_start(int nthreads, tool_work_do *do_work, void *arg);

/* Without threads, does the work before it returns. */
void
tool_workers_give(struct tool_workers *workers, struct tool_work *work);

/* Waits until this work is done. */
void
tool_workers_await(struct tool_workers *workers, struct tool_work *work);

/* Waits until all work is done. Does nothing for NULL. */
void
tool_workers_end(struct tool_workers *workers);
