/* Large blocks of memory. */
#ifndef TERP_CPU_POOL_MEMORY_H
#define TERP_CPU_POOL_MEMORY_H

#include <stddef.h>

#include "cpu/pool/pool.h"

/* As malloc, or by the team's allocator, and released by terp_cpu_memory_free
 * of the same team. A large block has large pages where the
 * system gives such, and the team takes them: a call uses its memory once, for
 * which page faults, one for 4 KiB, may take longer than the work. */
void *
terp_cpu_memory_make(struct cpu_pool *team, size_t nbytes);
void
terp_cpu_memory_free(const struct cpu_pool *team, void *memory);

#endif
