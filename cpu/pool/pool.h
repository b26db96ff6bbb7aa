/* The threads and the large blocks of memory of one call. A pool lives as long
 * as the call. */
#pragma once

#include "codec/engine.h"

struct cpu_pool;

/* The fewest values to decode that are worth a thread: 0.2 ms of work. A thread
 * with fewer waits longer than it works. */
#define CPU_THREAD_MIN_NVALUES (UINT64_C(1) << 17)

/* Items [first, end) of a task, for worker `worker` of the pool. */
struct cpu_share {
    int worker;
    uint64_t first, end;
};

/* Handles a share. The pool may call it several times on each worker. */
typedef void
cpu_task(void *arg, struct cpu_share share);

/* Makes a pool of at most `nthreads` workers; the calling thread is worker 0.
 * If the system refuses threads, the pool has fewer, so this never fails; NULL
 * is a pool of one worker without an allocator. Release with
 * terp_cpu_pool_free. */
struct cpu_pool *
terp_cpu_pool_make(int nthreads, const struct terp_allocator *allocator);

void
terp_cpu_pool_free(struct cpu_pool *pool);

int
terp_cpu_pool_nworkers(const struct cpu_pool *pool);

/* Splits `nitems` into contiguous ranges, which workers take in order, and
 * returns when all are done. The caller handles fewer than `min_nitems` items
 * alone. */
void
terp_cpu_pool_run(struct cpu_pool *pool, cpu_task *task, void *arg,
                  uint64_t nitems, uint64_t min_nitems);

/* Like cpu_task and terp_cpu_pool_run, for a task that handles one item at a
 * time. */
typedef void
cpu_item(void *arg, uint64_t item);

void
terp_cpu_pool_each(struct cpu_pool *pool, cpu_item *item, void *arg,
                   uint64_t nitems, uint64_t min_nitems);

/* Allocates like malloc, or by the pool's allocator; release with
 * terp_cpu_memory_free of the same pool. A large block comes from the
 * allocator's reserve, or is allocated in large pages if the system has them,
 * and touched by the pool: a page fault per 4 KiB may take longer than the
 * work. Only the thread that made the pool may call this. */
void *
terp_cpu_memory_make(struct cpu_pool *pool, size_t nbytes);
void
terp_cpu_memory_free(struct cpu_pool *pool, void *memory);
