/* What sampled codes would cost, by their histogram. */
#ifndef TERP_CPU_PREDICT_COUNTED_COST_H
#define TERP_CPU_PREDICT_COUNTED_COST_H

#include "codec/model/cost.h"
#include "cpu/entropy/codebooks.h"

/* What sampled codes cost whose magnitudes, or escapes, were counted. */
static inline uint64_t
cpu_cost_of_counts(const uint32_t counts[TERP_NROWS])
{
    int nrows = TERP_RADIUS;

    while (nrows > 0 && counts[nrows - 1] == 0)
        nrows--;
    /* An escape also stores its value. */
    return terp_cpu_entry_least_cost(counts, nrows) +
           counts[TERP_ROW_ESCAPE] * TERP_ESCAPE_COST;
}

#endif
