/* Tables that follow from the dictionary alone, kept by the process. */
#pragma once

#include <stdatomic.h>

#include "codebooks/codebooks.h"

/* A table for each entry, made when it is first asked for. */
struct cpu_kept {
    atomic_int state[TERP_NENTRIES];
    void *tables;
    size_t table_nbytes;
    void (*make)(int entry, void *table_ret);
};

/* One that another thread is making is made once more, at `own`: none waits for
 * another, which a forked child would do forever. */
const void *
terp_cpu_kept_table(struct cpu_kept *kept, int entry, void *own);
