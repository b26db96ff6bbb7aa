/* Floor 3: symbols between C order and work order: those of lorenzo come in the
 * one, contexts are made in the other. */
#ifndef TERP_CPU_DEAL_H
#define TERP_CPU_DEAL_H

#include "codec/format/layout.h"
#include "cpu/pool/pool.h"

/* `from` and `to` do not overlap. */
void
cpu_deal_symbols(struct cpu_team *team, const struct terp_layout *layout,
                 const uint16_t *from, uint16_t *to);
void
cpu_merge_symbols(struct cpu_team *team, const struct terp_layout *layout,
                  const uint16_t *from, uint16_t *to);

#endif
