/* Moves symbols between C order and level order. */
#include "cpu/predict/deinterleave.h"

#include "cpu/entropy/rows.h"

/* A class of even points along dimension 0, and the class of the odd points
 * between them. No class has points that are even in all dimensions: `odd` 0
 * stands for the odd points alone. */
struct transfer {
    const struct terp_layout *layout;
    int l;
    unsigned odd;
    const uint16_t *from;
    uint16_t *to;
    bool into_levels;
};

/* Copies n symbols that are 2^from_log2 apart, to positions that are 2^to_log2
 * apart. */
static inline void
copy_apart(const uint16_t *from, uint16_t *to, uint64_t n, int from_log2,
           int to_log2)
{
    for (uint64_t i = 0; i < n; i++)
        to[i << to_log2] = from[i << from_log2];
}

static void
join_row(const uint16_t *even, const uint16_t *odd, uint64_t n,
         uint16_t *restrict row)
{
    for (uint64_t i = 0; i < n; i++) {
        row[2 * i] = even[i];
        row[2 * i + 1] = odd[i];
    }
}

static void
split_row(const uint16_t *row, uint64_t n, uint16_t *restrict even,
          uint16_t *restrict odd)
{
    for (uint64_t i = 0; i < n; i++) {
        even[i] = row[2 * i];
        odd[i] = row[2 * i + 1];
    }
}

/* Rows [first, end) of both classes. On level 1, whose points stand side by
 * side, most rows are joined or split whole. */
static void
transfer_rows(void *arg, struct cpu_share share)
{
    const struct transfer *t = arg;
    const struct terp_level *level = &t->layout->level[t->l];
    const uint64_t neven = t->odd == 0 ? 0 : level->neven[0];
    const uint64_t nodd = level->nodd[0];
    const uint64_t npairs = t->l == 1 ? min_u64(neven, nodd) : 0;
    uint64_t extent[TERP_NDIMS], at[TERP_NDIMS];

    for (int d = 0; d < TERP_NDIMS; d++)
        extent[d] = terp_class_extent(level, t->odd, d);
    uint64_t brick = cpu_find_row(extent, share.first, at);
    for (uint64_t r = share.first; r < share.end;
         r++, brick += cpu_next_row(extent, at)) {
        const uint64_t row = cpu_row_begin(t->layout, t->l, t->odd, brick, at) +
                             (npairs << t->l);
        const uint64_t odd_row = row + (UINT64_C(1) << (t->l - 1));
        const uint64_t even = level->class_at[t->odd] + r * neven + npairs;
        const uint64_t odd = level->class_at[t->odd | 1] + r * nodd + npairs;
        if (t->into_levels) {
            split_row(t->from + row - 2 * npairs, npairs, t->to + even - npairs,
                      t->to + odd - npairs);
            copy_apart(t->from + row, t->to + even, neven - npairs, t->l, 0);
            copy_apart(t->from + odd_row, t->to + odd, nodd - npairs, t->l, 0);
        } else {
            join_row(t->from + even - npairs, t->from + odd - npairs, npairs,
                     t->to + row - 2 * npairs);
            copy_apart(t->from + even, t->to + row, neven - npairs, 0, t->l);
            copy_apart(t->from + odd, t->to + odd_row, nodd - npairs, 0, t->l);
        }
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
    for (t.l = layout->nlevels; t.l > 0; t.l--)
        for (t.odd = 0; t.odd < TERP_NCLASSES; t.odd += 2)
            terp_cpu_pool_run(pool, transfer_rows, &t,
                              terp_class_nrows(layout, t.l, t.odd), 64);
}
