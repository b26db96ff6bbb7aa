/* Symbols between C order, in which lorenzo makes them, and level order, in
 * which contexts are found. */
#ifndef TERP_CPU_PREDICT_DEINTERLEAVE_H
#define TERP_CPU_PREDICT_DEINTERLEAVE_H

#include "codec/format/layout.h"
#include "cpu/pool/pool.h"

/* `from` and `to` do not overlap. */
void
terp_cpu_deinterleave_symbols(struct cpu_pool *pool,
                              const struct terp_layout *layout,
                              const uint16_t *from, uint16_t *to);
void
terp_cpu_interleave_symbols(struct cpu_pool *pool,
                            const struct terp_layout *layout,
                            const uint16_t *from, uint16_t *to);

#endif
