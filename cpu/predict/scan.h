/* The special values of a chunk and the range of the others. */
#ifndef TERP_CPU_PREDICT_SCAN_H
#define TERP_CPU_PREDICT_SCAN_H

#include "cpu/pool/pool.h"
#include "cpu/predict/stages.h"

/* Extremes of the values that are not special, and the number of those that
 * are. Slot 0 of `fills` has the fill value that the caller knows; slots
 * without one have -0.0. Extremes that look like fill values take the other
 * slots. */
void
terp_cpu_scan(struct cpu_pool *pool, const struct cpu_stages *stages,
              const void *values, uint64_t nvalues, struct cpu_fills *fills,
              struct cpu_stats *stats_ret);

#endif
