/* Large blocks of memory. */
#ifndef TERP_CPU_POOL_MEMORY_H
#define TERP_CPU_POOL_MEMORY_H

#include <stddef.h>

#include "cpu/pool/pool.h"

/* As malloc, or by the pool's allocator, and released by terp_cpu_memory_free
 * of the same pool. A large block has large pages where the system gives such,
 * and the pool touches them: a call uses its memory once, and a page fault for
 * each 4 KiB may take longer than the work. */
void *
terp_cpu_memory_make(struct cpu_pool *pool, size_t nbytes);
void
terp_cpu_memory_free(const struct cpu_pool *pool, void *memory);

#endif
