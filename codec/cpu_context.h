/* Floor 3: symbols from work order to context order and back. doc/format.md,
 * "Context order": at the finest levels, points whose coarser neighbours had
 * large codes stand apart from those whose neighbours had none, so that tiles
 * hold codes of one distribution. */
#ifndef TERP_CPU_CONTEXT_H
#define TERP_CPU_CONTEXT_H

#include "cpu_team.h"
#include "layout.h"
#include "status.h"

/* In place. `scratch` has room for as many symbols. */
enum terp_status
cpu_context_sort(struct cpu_team *team, const struct terp_layout *layout,
                 uint16_t *symbols, uint16_t *scratch);

enum terp_status
cpu_context_restore(struct cpu_team *team, const struct terp_layout *layout,
                    const uint16_t *sorted, uint16_t *scratch,
                    uint16_t *symbols_ret);

#endif
