/* Tables that depend on the dictionary alone. The process keeps them. */
#pragma once

#include <stdatomic.h>

#include "codebooks/codebooks.h"

/* A table for each entry, made on first use. */
struct cpu_kept {
    atomic_int state[TERP_NENTRIES];
    void *tables;
    size_t table_nbytes;
    void (*make)(int entry, void *table_ret);
};

/* Returns the table of an entry. If another thread is just making it, makes the
 * table at `own` and returns that: no thread waits for another, as a forked
 * child would wait forever. */
const void *
terp_cpu_kept_table(struct cpu_kept *kept, int entry, void *own);
