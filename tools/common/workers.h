/* Threads that take work in the order in which it is given. */
#pragma once

#include <stdbool.h>

/* One piece of work, within the struct that says what it is. */
struct tool_work {
    struct tool_work *next;
    bool is_done;
};

struct tool_workers;

typedef void
tool_work_do(void *arg, struct tool_work *work);

/* Where the system gives fewer threads, the rest is theirs, or the caller's;
 * NULL for want of memory. */
struct tool_workers *
tool_workers_start(int nthreads, tool_work_do *do_work, void *arg);

/* Where there is no thread, the work is done before this returns. */
void
tool_workers_give(struct tool_workers *workers, struct tool_work *work);

/* Returns when the work that was given is done. */
void
tool_workers_await(struct tool_workers *workers, struct tool_work *work);

/* When all work is done. NULL: nothing. */
void
tool_workers_end(struct tool_workers *workers);
