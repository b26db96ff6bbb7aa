/* Moves symbols between C order and level order. */
#include "cpu/predict/deinterleave.h"

#include "cpu/entropy/rows.h"

struct transfer {
    const struct terp_layout *layout;
    int l;
    unsigned odd;
    const uint16_t *from;
    uint16_t *to;
    bool into_levels;
};

/* Rows [first, end) of a class. */
static void
transfer_rows(void *arg, struct cpu_share share)
{
    const struct transfer *transfer = arg;
    const struct terp_level *level = &transfer->layout->level[transfer->l];
    uint64_t extent[TERP_NDIMS], at[TERP_NDIMS];

    for (int d = 0; d < TERP_NDIMS; d++)
        extent[d] = terp_class_extent(level, transfer->odd, d);
    uint64_t brick = cpu_find_row(extent, share.first, at);
    for (uint64_t row = share.first; row < share.end;
         row++, brick += cpu_next_row(extent, at)) {
        uint64_t begin = cpu_row_begin(transfer->layout, transfer->l,
                                       transfer->odd, brick, at);
        uint64_t level_order = level->class_at[transfer->odd] + row * extent[0];
        if (transfer->into_levels)
            for (uint64_t i = 0; i < extent[0]; i++)
                transfer->to[level_order + i] =
                    transfer->from[begin + (i << transfer->l)];
        else
            for (uint64_t i = 0; i < extent[0]; i++)
                transfer->to[begin + (i << transfer->l)] =
                    transfer->from[level_order + i];
    }
}

void
terp_cpu_order_levels(struct cpu_pool *pool, const struct terp_layout *layout,
                      const uint16_t *from, uint16_t *to, bool into_levels)
{
    struct transfer t = {
        .layout = layout, .from = from, .to = to, .into_levels = into_levels};
    uint64_t brick_nvalues = layout->nvalues / layout->nbricks;

    for (uint64_t b = 0; b < layout->nbricks; b++) {
        uint64_t raster = b * brick_nvalues;
        to[into_levels ? b : raster] = from[into_levels ? raster : b];
    }
    for (t.l = layout->nlevels; t.l > 0; t.l--) {
        for (int i = 0; i < TERP_NCLASSES - 1; i++) {
            t.odd = terp_nth_class(i);
            terp_cpu_pool_run(pool, transfer_rows, &t,
                              terp_class_nrows(layout, t.l, t.odd), 64);
        }
    }
}
