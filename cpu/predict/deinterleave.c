#include "cpu/predict/deinterleave.h"

#include "cpu/entropy/rows.h"

struct deal {
    const struct terp_layout *layout;
    int l;
    unsigned odd;
    const uint16_t *from;
    uint16_t *to;
    bool into_classes;
};

/* Rows [first, end) of a class. */
static void
deal_rows(void *arg, int id, uint64_t first, uint64_t end)
{
    const struct deal *deal = arg;
    const struct terp_level *level = &deal->layout->level[deal->l];
    uint64_t extent[TERP_NDIMS], at[TERP_NDIMS];

    (void)id;
    for (int d = 0; d < TERP_NDIMS; d++)
        extent[d] = terp_class_extent(level, deal->odd, d);
    uint64_t brick = cpu_find_row(extent, first, at);
    for (uint64_t row = first; row < end;
         row++, brick += cpu_next_row(extent, at)) {
        uint64_t begin =
            cpu_row_begin(deal->layout, deal->l, deal->odd, brick, at);
        uint64_t work = level->class_at[deal->odd] + row * extent[0];
        if (deal->into_classes)
            for (uint64_t i = 0; i < extent[0]; i++)
                deal->to[work + i] = deal->from[begin + (i << deal->l)];
        else
            for (uint64_t i = 0; i < extent[0]; i++)
                deal->to[begin + (i << deal->l)] = deal->from[work + i];
    }
}

static void
deal_all(struct cpu_pool *team, struct deal *deal)
{
    const struct terp_layout *layout = deal->layout;
    uint64_t brick_nvalues = layout->nvalues / layout->nbricks;

    for (uint64_t b = 0; b < layout->nbricks; b++) {
        uint64_t work = b, raster = b * brick_nvalues;
        deal->to[deal->into_classes ? work : raster] =
            deal->from[deal->into_classes ? raster : work];
    }
    for (deal->l = layout->nlevels; deal->l > 0; deal->l--) {
        for (int i = 0; i < TERP_NCLASSES - 1; i++) {
            deal->odd = terp_nth_class(i);
            terp_cpu_pool_run(team, deal_rows, deal,
                              terp_class_nrows(layout, deal->l, deal->odd), 64);
        }
    }
}

void
terp_cpu_deinterleave_symbols(struct cpu_pool *team,
                              const struct terp_layout *layout,
                              const uint16_t *from, uint16_t *to)
{
    struct deal deal = {
        .layout = layout, .from = from, .to = to, .into_classes = true};
    deal_all(team, &deal);
}

void
terp_cpu_interleave_symbols(struct cpu_pool *team,
                            const struct terp_layout *layout,
                            const uint16_t *from, uint16_t *to)
{
    struct deal deal = {.layout = layout, .from = from, .to = to};
    deal_all(team, &deal);
}
