/* What values a chunk has. */
#ifndef TERP_CPU_PREDICT_SCAN_H
#define TERP_CPU_PREDICT_SCAN_H

#include "cpu/pool/pool.h"
#include "cpu/predict/stages.h"

/* Extremes of the values that are not special, and how many are. `fills` has
 * the value that is known to be special in place 0, places without one have
 * -0.0; extremes that look like fill values join it. */
void
terp_cpu_scan(struct cpu_pool *team, const struct cpu_stages *stages,
              const void *values, uint64_t nvalues, struct cpu_fills *fills,
              struct cpu_stats *stats_ret);

#endif
