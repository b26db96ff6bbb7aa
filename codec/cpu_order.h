/* Floor 3: symbols from work order to tile order and back. doc/format.md,
 * "Tile order": symbols are listed box by box, so that a tile holds
 * neighbours in every dimension. */
#ifndef TERP_CPU_ORDER_H
#define TERP_CPU_ORDER_H

#include "cpu_team.h"
#include "layout.h"

/* Which order the symbols come from, or go to. */
enum cpu_order {
    CPU_ORDER_CLASSES, /* work order: every class is cut into boxes */
    CPU_ORDER_RASTER   /* C order: the bricks themselves are */
};

/* `from` and `to` hold a symbol for every value and do not overlap. */
void
cpu_order_into_tiles(struct cpu_team *team, const struct terp_layout *layout,
                     enum cpu_order order, const uint16_t *from, uint16_t *to);
void
cpu_order_from_tiles(struct cpu_team *team, const struct terp_layout *layout,
                     enum cpu_order order, const uint16_t *from, uint16_t *to);

/* The symbols of one level, between work order and tile order. */
void
cpu_order_level(struct cpu_team *team, const struct terp_layout *layout, int l,
                const uint16_t *from, uint16_t *to, bool into_tiles);

#endif
