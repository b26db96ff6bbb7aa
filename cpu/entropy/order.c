/* Copies symbols between level order and tile order, row by row of boxes. */
#include "cpu/entropy/order.h"

#include <string.h>

#include "codec/format/base.h"

void
terp_cpu_boxes_make(const struct terp_layout *layout,
                    const uint64_t extent[TERP_NDIMS],
                    struct cpu_boxes *boxes_ret)
{
    struct cpu_boxes *boxes = boxes_ret;

    memcpy(boxes->extent, extent, sizeof boxes->extent);
    boxes->box = (uint64_t)1 << terp_box_extent_log2(layout->rank);
    boxes->slowest = 0;
    boxes->brick_nsymbols = 1;
    for (int d = 0; d < TERP_NDIMS; d++) {
        boxes->brick_nsymbols *= extent[d];
        if (extent[d] > 1)
            boxes->slowest = d;
    }
    boxes->nslabs = boxes->slab_nsymbols = 0;
    if (boxes->brick_nsymbols == 0)
        return;
    uint64_t nslowest = extent[boxes->slowest];
    boxes->nslabs = div_up(nslowest, boxes->box);
    boxes->slab_nsymbols = boxes->brick_nsymbols / nslowest * boxes->box;
}

/* The arrays of a transfer. */
struct transfer {
    struct cpu_boxes boxes;
    const uint16_t *from;
    uint16_t *to;
    bool into_tiles;
};

/* A worker's position in tile order. */
struct copy {
    const struct transfer *transfer;
    uint64_t tiled;
};

CPU_INLINE void
copy_row(void *arg, uint64_t at, uint64_t n)
{
    struct copy *copy = arg;
    const struct transfer *t = copy->transfer;

    memcpy(t->to + (t->into_tiles ? copy->tiled : at),
           t->from + (t->into_tiles ? at : copy->tiled), 2 * n);
    copy->tiled += n;
}

CPU_INLINE void
fetch_row(void *arg, uint64_t at, uint64_t n)
{
    const struct copy *copy = arg;
    const struct transfer *t = copy->transfer;

    cpu_fetch(t->into_tiles ? t->from + at : t->to + at, 2 * n);
}

static void
copy_slabs(void *arg, struct cpu_share share)
{
    const struct transfer *t = arg;
    struct copy copy = {t, cpu_slab_begin(&t->boxes, share.first)};

    for (uint64_t slab = share.first; slab < share.end; slab++)
        cpu_slab_walk(&t->boxes, slab, fetch_row, copy_row, &copy);
}

static void
order_arrays(struct cpu_pool *pool, const struct terp_layout *layout,
             const uint64_t extent[TERP_NDIMS], struct transfer *t)
{
    terp_cpu_boxes_make(layout, extent, &t->boxes);
    terp_cpu_pool_run(pool, copy_slabs, t, layout->nbricks * t->boxes.nslabs,
                      4);
}

void
terp_cpu_order_level(struct cpu_pool *pool, const struct terp_layout *layout,
                     int l, const uint16_t *from, uint16_t *to, bool into_tiles)
{
    for (int i = 0; i < TERP_NCLASSES - 1; i++) {
        unsigned odd = terp_nth_class(i);
        uint64_t at = layout->level[l].class_at[odd], extent[TERP_NDIMS];
        struct transfer t = {
            .from = from + at, .to = to + at, .into_tiles = into_tiles};
        for (int d = 0; d < TERP_NDIMS; d++)
            extent[d] = terp_class_extent(&layout->level[l], odd, d);
        order_arrays(pool, layout, extent, &t);
    }
}

void
terp_cpu_order_tiles(struct cpu_pool *pool, const struct terp_layout *layout,
                     enum terp_prediction prediction, const uint16_t *from,
                     uint16_t *to, bool into_tiles)
{
    struct transfer t = {.from = from, .to = to, .into_tiles = into_tiles};

    if (terp_prediction_is_raster(prediction)) {
        order_arrays(pool, layout, layout->dims, &t);
        return;
    }
    memcpy(to, from, layout->nbricks * sizeof *to); /* anchors */
    for (int l = layout->nlevels; l >= 1; l--)
        terp_cpu_order_level(pool, layout, l, from, to, into_tiles);
}
