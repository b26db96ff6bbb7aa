/* Floor 3: histograms. */
#ifndef TERP_CPU_COUNT_H
#define TERP_CPU_COUNT_H

#include <stdint.h>

#include "codec/format/limits.h"

/* At most so many numbers are counted at once. */
#define CPU_COUNT_MAX_NNUMBERS (4 * (uint64_t)UINT16_MAX)

/* How often each number below TERP_NSYMBOLS occurs. */
void
cpu_count(const uint16_t *numbers, uint64_t nnumbers,
          uint32_t counts_ret[TERP_NSYMBOLS]);

#endif
