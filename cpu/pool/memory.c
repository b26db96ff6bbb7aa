/* Large blocks of memory, in large pages that the pool has touched. */
#define _GNU_SOURCE /* madvise */

#include "cpu/pool/memory.h"

#include <stdlib.h>
#include <sys/mman.h>

#define LARGE_PAGE_NBYTES ((size_t)2 << 20)

/* Smaller blocks come from memory that the process keeps. */
#define MIN_NBYTES (2 * LARGE_PAGE_NBYTES)

/* Each page is the work of one worker: two that meet in a page that is not
 * there yet would both clear one. */
static void
touch_pages(void *arg, int id, uint64_t first, uint64_t end)
{
    volatile char *memory = arg;

    (void)id;
    for (uint64_t page = first; page < end; page++)
        memory[page * LARGE_PAGE_NBYTES] = 0;
}

void *
terp_cpu_memory_make(struct cpu_pool *pool, size_t nbytes)
{
    const struct terp_allocator *allocator = terp_cpu_pool_allocator(pool);
    size_t npages = nbytes / LARGE_PAGE_NBYTES;

    if (nbytes < MIN_NBYTES || allocator != NULL)
        return terp_allocate(allocator, nbytes);
    if (nbytes % LARGE_PAGE_NBYTES != 0)
        nbytes = (npages + 1) * LARGE_PAGE_NBYTES;
    void *memory = aligned_alloc(LARGE_PAGE_NBYTES, nbytes);
#ifdef MADV_HUGEPAGE
    /* A block without large pages serves as well. */
    if (memory != NULL &&
        madvise(memory, npages * LARGE_PAGE_NBYTES, MADV_HUGEPAGE) == 0 &&
        terp_cpu_pool_nworkers(pool) > 1)
        terp_cpu_pool_run(pool, touch_pages, memory, npages, 2);
#endif
    return memory;
}

void
terp_cpu_memory_free(const struct cpu_pool *pool, void *memory)
{
    terp_release(terp_cpu_pool_allocator(pool), memory);
}
