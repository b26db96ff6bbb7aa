/* Moves symbols between level order and tile order. doc/format.md, "Tile
 * order": symbols are listed box by box, so that a tile holds neighbours in
 * every dimension. gpu/entropy/order.cuh computes single places; the CPU walks
 * boxes and copies whole rows. */
#pragma once

#include "codec/format/frame.h"
#include "codec/format/layout.h"
#include "cpu/pool/pool.h"

/* Moves symbols between a predictor's order and tile order. In level order
 * every class is cut into boxes, in C order the bricks are. `from` and `to`
 * hold a symbol per value and do not overlap. */
void
terp_cpu_order_tiles(struct cpu_pool *pool, const struct terp_layout *layout,
                     enum terp_prediction prediction, const uint16_t *from,
                     uint16_t *to, bool into_tiles);

/* Moves the symbols of one level between level order and tile order. */
void
terp_cpu_order_level(struct cpu_pool *pool, const struct terp_layout *layout,
                     int l, const uint16_t *from, uint16_t *to,
                     bool into_tiles);

/* ---- boxes ---- */

/* Inlined, so that walks are compiled for each visitor. */
#define CPU_INLINE static inline __attribute__((always_inline))

/* Stacked arrays [nbricks][n3][n2][n1][n0], cut into boxes. A slab holds the
 * boxes of a brick that share a coordinate of the slowest dimension; a slab
 * covers the same range in C order and in tile order. */
struct cpu_boxes {
    uint64_t extent[TERP_NDIMS];
    uint64_t box;    /* extent of a box in each dimension */
    int slowest;     /* the dimension that slabs are cut along */
    uint64_t nslabs; /* of a brick; 0: no symbols */
    uint64_t slab_nsymbols, brick_nsymbols;
};

void
terp_cpu_boxes_make(const struct terp_layout *layout,
                    const uint64_t extent[TERP_NDIMS],
                    struct cpu_boxes *boxes_ret);

/* The begin of a slab, numbered over all bricks; the end of the slab before
 * it. */
static inline uint64_t
cpu_slab_begin(const struct cpu_boxes *boxes, uint64_t slab)
{
    return slab / boxes->nslabs * boxes->brick_nsymbols +
           slab % boxes->nslabs * boxes->slab_nsymbols;
}

/* Visits a row of a box: `n` symbols from `at` on in C order. */
typedef void
cpu_row_visit(void *arg, uint64_t at, uint64_t n);

/* Rows of a box are too short for the processor's prefetcher. In
 * two-dimensional arrays of at least CPU_FETCH_MIN_NSYMBOLS, rows are
 * prefetched CPU_FETCH_NROWS ahead. In three dimensions rows are shorter, and
 * prefetching gained nothing. */
#define CPU_FETCH_NROWS 8
#define CPU_FETCH_MIN_NSYMBOLS (1 << 17)

CPU_INLINE void
cpu_fetch(const void *at, uint64_t nbytes)
{
    const char *bytes = (const char *)at;

    for (uint64_t i = 0; i < nbytes; i += 64)
        __builtin_prefetch(bytes + i);
    __builtin_prefetch(bytes + nbytes - 1);
    /* Otherwise GCC removes calls that have no other effect. */
    __asm__ volatile("");
}

static inline bool
cpu_is_fetched(const struct cpu_boxes *boxes)
{
    return boxes->slowest == 1 &&
           boxes->brick_nsymbols >= CPU_FETCH_MIN_NSYMBOLS;
}

/* Visits the rows of the box at `low`, clipped to `high`, of the array at
 * `base`. */
CPU_INLINE void
cpu_box_walk(const struct cpu_boxes *boxes, const uint64_t low[TERP_NDIMS],
             const uint64_t high[TERP_NDIMS], uint64_t base,
             cpu_row_visit *fetch, cpu_row_visit *visit, void *arg)
{
    const uint64_t *n = boxes->extent;
    uint64_t end[TERP_NDIMS];

    for (int d = 0; d < TERP_NDIMS; d++)
        end[d] = min_u64(low[d] + boxes->box, high[d]);
    for (uint64_t w = low[3]; w < end[3]; w++)
        for (uint64_t z = low[2]; z < end[2]; z++)
            for (uint64_t y = low[1]; y < end[1]; y++) {
                const uint64_t at =
                    base + ((w * n[2] + z) * n[1] + y) * n[0] + low[0];
                if (fetch != NULL && y + CPU_FETCH_NROWS < high[1])
                    fetch(arg, at + CPU_FETCH_NROWS * n[0], end[0] - low[0]);
                visit(arg, at, end[0] - low[0]);
            }
}

/* `fetch` NULL: no row is prefetched. */
CPU_INLINE void
cpu_slab_walk_boxes(const struct cpu_boxes *boxes, uint64_t slab,
                    cpu_row_visit *fetch, cpu_row_visit *visit, void *arg)
{
    int s = boxes->slowest;
    uint64_t low[TERP_NDIMS] = {0}, high[TERP_NDIMS], at[TERP_NDIMS];
    uint64_t base = slab / boxes->nslabs * boxes->brick_nsymbols;
    const uint64_t box = boxes->box;

    memcpy(high, boxes->extent, sizeof high);
    low[s] = slab % boxes->nslabs * box;
    high[s] = min_u64(low[s] + box, high[s]);
    for (at[3] = low[3]; at[3] < high[3]; at[3] += box)
        for (at[2] = low[2]; at[2] < high[2]; at[2] += box)
            for (at[1] = low[1]; at[1] < high[1]; at[1] += box)
                for (at[0] = low[0]; at[0] < high[0]; at[0] += box)
                    cpu_box_walk(boxes, at, high, base, fetch, visit, arg);
}

/* Visits a slab's rows in tile order; `fetch` only prefetches. */
CPU_INLINE void
cpu_slab_walk(const struct cpu_boxes *boxes, uint64_t slab,
              cpu_row_visit *fetch, cpu_row_visit *visit, void *arg)
{
    if (cpu_is_fetched(boxes))
        cpu_slab_walk_boxes(boxes, slab, fetch, visit, arg);
    else
        cpu_slab_walk_boxes(boxes, slab, NULL, visit, arg);
}
