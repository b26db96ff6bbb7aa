/* Makes tables on first use. */
#include "cpu/entropy/kept.h"

enum {
    UNMADE,
    BEING_MADE,
    MADE
};

const void *
terp_cpu_kept_table(struct cpu_kept *kept, int entry, void *own)
{
    atomic_int *state = &kept->state[entry];
    void *table = (uint8_t *)kept->tables + (size_t)entry * kept->table_nbytes;
    int unmade = UNMADE;

    if (atomic_load_explicit(state, memory_order_acquire) == MADE)
        return table;
    if (!atomic_compare_exchange_strong(state, &unmade, BEING_MADE)) {
        kept->make(entry, own);
        return own;
    }
    kept->make(entry, table);
    atomic_store_explicit(state, MADE, memory_order_release);
    return table;
}
