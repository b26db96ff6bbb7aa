/* Moves symbols between C order, in which lorenzo makes them, and level order,
 * in which contexts are found. */
#pragma once

#include "codec/format/layout.h"
#include "cpu/pool/pool.h"

/* `from` and `to` do not overlap. */
void
terp_cpu_order_levels(struct cpu_pool *pool, const struct terp_layout *layout,
                      const uint16_t *from, uint16_t *to, bool into_levels);
