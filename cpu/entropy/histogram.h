/* Histograms. */
#ifndef TERP_CPU_ENTROPY_HISTOGRAM_H
#define TERP_CPU_ENTROPY_HISTOGRAM_H

#include <stdint.h>

#include "codec/format/limits.h"

/* At most so many numbers are counted at once. */
#define CPU_COUNT_MAX_NNUMBERS (4 * (uint64_t)UINT16_MAX)

/* How often each number occurs: they are below `end`, at most TERP_NSYMBOLS. */
void
terp_cpu_histogram(const uint16_t *numbers, uint64_t nnumbers, int end,
                   uint32_t *counts_ret);

#endif
