/* The threads of one call, and large blocks of memory: a pool lives as long as
 * the call. */
#pragma once

#include "codec/engine.h"

struct cpu_pool;

/* A thread that has fewer values to decode than this, 0.2 ms of work, waits
 * longer than it works. */
#define CPU_THREAD_MIN_NVALUES (UINT64_C(1) << 17)

/* Items [first, end) of a task, for worker `worker` of the pool. */
struct cpu_share {
    int worker;
    uint64_t first, end;
};

/* Does a share. The pool calls it for any number of them. */
typedef void
cpu_task(void *arg, struct cpu_share share);

/* A pool of at most `nthreads` workers; the calling thread is worker 0. A pool
 * does without threads that the system refuses, so this never fails; NULL is a
 * pool of one that has no allocator. Released by terp_cpu_pool_free. */
struct cpu_pool *
terp_cpu_pool_make(int nthreads, const struct terp_allocator *allocator);

void
terp_cpu_pool_free(struct cpu_pool *pool);

int
terp_cpu_pool_nworkers(const struct cpu_pool *pool);

/* Splits `nitems` into contiguous ranges, which workers take in order, and
 * returns when all are done. Fewer than `min_nitems` are done by the caller. */
void
terp_cpu_pool_run(struct cpu_pool *pool, cpu_task *task, void *arg,
                  uint64_t nitems, uint64_t min_nitems);

/* The same, item by item. */
typedef void
cpu_item(void *arg, uint64_t item);

void
terp_cpu_pool_each(struct cpu_pool *pool, cpu_item *item, void *arg,
                   uint64_t nitems, uint64_t min_nitems);

/* As malloc, or by the pool's allocator, and released by terp_cpu_memory_free
 * of the same pool. A large block comes from the allocator's reserve, where
 * that has one, or has large pages where the system gives such, and the pool
 * touches them: a page fault for each 4 KiB may take longer than the work.
 * Only the caller of the pool may ask. */
void *
terp_cpu_memory_make(struct cpu_pool *pool, size_t nbytes);
void
terp_cpu_memory_free(struct cpu_pool *pool, void *memory);
