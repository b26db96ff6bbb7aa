#include "cpu_order.h"

#include <string.h>

#include "base.h"

/* Extent of a box in each dimension, by the rank of a brick: 4096 symbols. */
static const uint16_t box_extent[TERP_NDIMS + 1][TERP_NDIMS] = {{1, 1, 1, 1},
                                                                {4096, 1, 1, 1},
                                                                {64, 64, 1, 1},
                                                                {16, 16, 16, 1},
                                                                {8, 8, 8, 8}};

/* Stacked arrays [nbricks][n3][n2][n1][n0] on their way. */
struct arrays {
    uint64_t extent[TERP_NDIMS];
    const uint16_t *box;
    int slowest; /* slabs are cut along this dimension */
    uint64_t nslabs;
    const uint16_t *from;
    uint16_t *to;
    bool into_tiles;
};

/* Copies the box at `low`, clipped to `high`, whose array starts at `base`
 * and whose symbols in tile order start at `tiled`. */
static uint64_t
copy_box(const struct arrays *a, const uint64_t low[TERP_NDIMS],
         const uint64_t high[TERP_NDIMS], uint64_t base, uint64_t tiled)
{
    const uint64_t *n = a->extent;
    uint64_t end[TERP_NDIMS];

    for (int d = 0; d < TERP_NDIMS; d++)
        end[d] = min_u64(low[d] + a->box[d], high[d]);
    uint64_t nx = end[0] - low[0];
    for (uint64_t w = low[3]; w < end[3]; w++) {
        for (uint64_t z = low[2]; z < end[2]; z++) {
            for (uint64_t y = low[1]; y < end[1]; y++, tiled += nx) {
                uint64_t raster =
                    base + ((w * n[2] + z) * n[1] + y) * n[0] + low[0];
                memcpy(a->to + (a->into_tiles ? tiled : raster),
                       a->from + (a->into_tiles ? raster : tiled), 2 * nx);
            }
        }
    }
    return tiled;
}

/* A slab holds a brick's boxes of one place along the slowest dimension; it
 * covers the same range in both orders. */
static void
order_slabs(void *arg, int id, uint64_t first, uint64_t end)
{
    const struct arrays *a = arg;
    const uint64_t *n = a->extent;
    uint64_t brick_nvalues = n[0] * n[1] * n[2] * n[3];

    (void)id;
    for (uint64_t slab = first; slab < end; slab++) {
        int s = a->slowest;
        uint64_t low[TERP_NDIMS] = {0}, high[TERP_NDIMS], at[TERP_NDIMS];
        uint64_t base = slab / a->nslabs * brick_nvalues;
        memcpy(high, n, sizeof high);
        low[s] = slab % a->nslabs * a->box[s];
        high[s] = min_u64(low[s] + a->box[s], n[s]);
        uint64_t tiled = base + low[s] * (brick_nvalues / n[s]);
        for (at[3] = low[3]; at[3] < high[3]; at[3] += a->box[3])
            for (at[2] = low[2]; at[2] < high[2]; at[2] += a->box[2])
                for (at[1] = low[1]; at[1] < high[1]; at[1] += a->box[1])
                    for (at[0] = low[0]; at[0] < high[0]; at[0] += a->box[0])
                        tiled = copy_box(a, at, high, base, tiled);
    }
}

static void
order_arrays(struct cpu_team *team, const struct terp_layout *layout,
             struct arrays *a)
{
    uint64_t nvalues = layout->nbricks;

    a->box = box_extent[layout->rank];
    a->slowest = 0;
    for (int d = 0; d < TERP_NDIMS; d++) {
        nvalues *= a->extent[d];
        if (a->extent[d] > 1)
            a->slowest = d;
    }
    if (nvalues == 0)
        return;
    a->nslabs = div_up(a->extent[a->slowest], a->box[a->slowest]);
    cpu_team_run(team, order_slabs, a, layout->nbricks * a->nslabs, 4);
}

void
cpu_order_level(struct cpu_team *team, const struct terp_layout *layout, int l,
                const uint16_t *from, uint16_t *to, bool into_tiles)
{
    for (int i = 0; i < TERP_NCLASSES - 1; i++) {
        unsigned odd = terp_class_order[i];
        uint64_t at = layout->level[l].class_at[odd];
        struct arrays a = {
            .from = from + at, .to = to + at, .into_tiles = into_tiles};
        for (int d = 0; d < TERP_NDIMS; d++)
            a.extent[d] = terp_class_extent(&layout->level[l], odd, d);
        order_arrays(team, layout, &a);
    }
}

static void
order(struct cpu_team *team, const struct terp_layout *layout,
      enum cpu_order how, const uint16_t *from, uint16_t *to, bool into_tiles)
{
    struct arrays a = {.from = from, .to = to, .into_tiles = into_tiles};

    if (how == CPU_ORDER_RASTER) {
        memcpy(a.extent, layout->dims, sizeof a.extent);
        order_arrays(team, layout, &a);
        return;
    }
    memcpy(to, from, layout->nbricks * sizeof *to); /* anchors */
    for (int l = layout->nlevels; l >= 1; l--)
        cpu_order_level(team, layout, l, from, to, into_tiles);
}

void
cpu_order_into_tiles(struct cpu_team *team, const struct terp_layout *layout,
                     enum cpu_order how, const uint16_t *from, uint16_t *to)
{
    order(team, layout, how, from, to, true);
}

void
cpu_order_from_tiles(struct cpu_team *team, const struct terp_layout *layout,
                     enum cpu_order how, const uint16_t *from, uint16_t *to)
{
    order(team, layout, how, from, to, false);
}
