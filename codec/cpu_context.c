#include "cpu_context.h"

#include <stdlib.h>

#include "contexts.h"
#include "cpu_order.h"
#include "format.h"

/* While symbols are sorted their context stands above them. */
#define CONTEXT_SHIFT 10
#define SYMBOL_MASK ((1u << CONTEXT_SHIFT) - 1)
_Static_assert(TERP_NSYMBOLS == 1 << CONTEXT_SHIFT &&
                   TERP_NGROUPS << CONTEXT_SHIFT <= 1 << 16,
               "a context and a symbol in 16 bits");

/* Symbols that a member of the team counts and moves on its own. */
#define PIECE_NSYMBOLS 32768

/* Weights of a lattice's points: [nbricks][n3][n2][n1][n0] bytes. */
struct weights {
    const struct terp_layout *layout;
    int l;             /* the level whose even points these are of */
    uint8_t *even;     /* extents neven of the level */
    uint8_t *fine;     /* those of the level's own points too */
    uint16_t *symbols; /* work order */
};

/* A row's number to its coordinates; returns the brick. */
static uint64_t
find_row(const uint64_t extent[TERP_NDIMS], uint64_t row,
         uint64_t at[TERP_NDIMS])
{
    for (int d = 1; d < TERP_NDIMS; d++) {
        at[d] = row % extent[d];
        row /= extent[d];
    }
    return row;
}

/* On to the next row. True when it is another brick's. */
static bool
next_row(const uint64_t extent[TERP_NDIMS], uint64_t at[TERP_NDIMS])
{
    for (int d = 1; d < TERP_NDIMS; d++) {
        if (++at[d] < extent[d])
            return false;
        at[d] = 0;
    }
    return true;
}

/* Where a class's row begins in C order; its points are 2^l apart. */
static uint64_t
row_begin(const struct terp_layout *layout, int l, unsigned odd, uint64_t brick,
          const uint64_t at[TERP_NDIMS])
{
    uint64_t begin = brick;

    for (int d = TERP_NDIMS - 1; d > 0; d--)
        begin =
            begin * layout->dims[d] + ((2 * at[d] + (odd >> d & 1)) << (l - 1));
    return begin * layout->dims[0] + ((uint64_t)(odd & 1) << (l - 1));
}

static uint8_t
weight_of(uint16_t symbol)
{
    int code = (int)(symbol & SYMBOL_MASK) - TERP_RADIUS;

    return (uint8_t)(TERP_CONTEXT_UNIT *
                     min_u64((uint64_t)(code < 0 ? -code : code),
                             TERP_CONTEXT_MAX_CODE));
}

/* Rows [first, end) of the lattice that a level makes. */
static void
merge_rows(void *arg, int id, uint64_t first, uint64_t end)
{
    const struct weights *w = arg;
    const struct terp_level *level = &w->layout->level[w->l];
    uint64_t fine[TERP_NDIMS], at[TERP_NDIMS];

    (void)id;
    for (int d = 0; d < TERP_NDIMS; d++)
        fine[d] = level->neven[d] + level->nodd[d];
    uint64_t brick = find_row(fine, first, at);
    for (uint64_t row = first; row < end; row++, brick += next_row(fine, at)) {
        uint8_t *to = w->fine + row * fine[0];
        for (unsigned x_odd = 0; x_odd < 2; x_odd++) {
            unsigned odd = x_odd;
            uint64_t from = brick;
            for (int d = TERP_NDIMS - 1; d > 0; d--)
                odd |= (unsigned)(at[d] & 1) << d;
            for (int d = TERP_NDIMS - 1; d > 0; d--)
                from = from * terp_class_extent(level, odd, d) + at[d] / 2;
            uint64_t n = terp_class_extent(level, odd, 0);
            from *= n;
            if (odd == 0) {
                for (uint64_t i = 0; i < n; i++)
                    to[2 * i] = w->even[from + i] / 2;
                continue;
            }
            const uint16_t *symbols = w->symbols + level->class_at[odd] + from;
            for (uint64_t i = 0; i < n; i++)
                to[2 * i + x_odd] = weight_of(symbols[i]);
        }
    }
}

/* ---- contexts ---- */

/* The points of a class, whose contexts are to be found. */
struct contexts {
    const struct weights *weights;
    const uint64_t *mask; /* of special points in C order, or NULL */
    unsigned odd;
    uint16_t keep; /* bits of symbols that stay */
};

static inline bool
is_masked(const uint64_t *mask, uint64_t i)
{
    return mask[i / 64] >> (i % 64) & 1;
}

/* Special points stand behind all others. */
static void
mark_specials(const struct contexts *c, uint64_t at, uint64_t n,
              uint16_t *symbols)
{
    for (uint64_t i = 0; i < n; i++, at += (uint64_t)1 << c->weights->l)
        if (is_masked(c->mask, at))
            symbols[i] = (uint16_t)((symbols[i] & c->keep) |
                                    TERP_GROUP_SPECIALS << CONTEXT_SHIFT);
}

#define RUN_NVALUES 256 /* sums are made of so many at once */

/* Context of the points of rows [first, end) of a class, put above their
 * symbols. */
static void
mark_rows(void *arg, int id, uint64_t first, uint64_t end)
{
    const struct contexts *c = arg;
    const struct weights *w = c->weights;
    const struct terp_level *level = &w->layout->level[w->l];
    const uint64_t *even = level->neven;
    uint64_t extent[TERP_NDIMS], at[TERP_NDIMS];
    uint16_t sum[RUN_NVALUES + 1];

    (void)id;
    for (int d = 0; d < TERP_NDIMS; d++)
        extent[d] = terp_class_extent(level, c->odd, d);
    uint64_t brick = find_row(extent, first, at);
    for (uint64_t row = first; row < end;
         row++, brick += next_row(extent, at)) {
        const uint8_t *rows[TERP_NCLASSES / 2];
        unsigned nrows = 0, shift = TERP_NDIMS;
        for (unsigned corner = 0; corner < TERP_NCLASSES; corner += 2) {
            uint64_t from = brick;
            if (corner & ~c->odd)
                continue;
            for (int d = TERP_NDIMS - 1; d > 0; d--)
                from = from * even[d] +
                       min_u64(at[d] + (corner >> d & 1), even[d] - 1);
            rows[nrows++] = w->even + from * even[0];
        }
        for (unsigned n = nrows << (c->odd & 1); n > 1; n /= 2)
            shift--;
        uint16_t *symbols =
            w->symbols + level->class_at[c->odd] + row * extent[0];
        for (uint64_t x = 0; x < extent[0]; x += RUN_NVALUES) {
            uint64_t n = min_u64(RUN_NVALUES, extent[0] - x);
            uint64_t nsums = min_u64(n + 1, even[0] - x);
            memset(sum, 0, (n + 1) * sizeof *sum);
            for (unsigned r = 0; r < nrows; r++)
                for (uint64_t i = 0; i < nsums; i++)
                    sum[i] = (uint16_t)(sum[i] + rows[r][x + i]);
            if (nsums == n)
                sum[n] = sum[n - 1];
            if (c->odd & 1)
                for (uint64_t i = 0; i < n; i++)
                    sum[i] = (uint16_t)(sum[i] + sum[i + 1]);
            for (uint64_t i = 0; i < n; i++) {
                uint16_t context = terp_context_of((uint16_t)(sum[i] << shift));
                symbols[x + i] = (uint16_t)((symbols[x + i] & c->keep) |
                                            context << CONTEXT_SHIFT);
            }
        }
        if (c->mask != NULL)
            mark_specials(c, row_begin(w->layout, w->l, c->odd, brick, at),
                          extent[0], symbols);
    }
}

/* Marks a level's symbols, of which `keep` stays, with their contexts. */
static void
mark_level(struct cpu_team *team, const struct weights *weights,
           const uint64_t *mask, uint16_t keep)
{
    struct contexts c = {.weights = weights, .mask = mask, .keep = keep};

    for (int i = 0; i < TERP_NCLASSES - 1; i++) {
        c.odd = terp_class_order[i];
        cpu_team_run(team, mark_rows, &c,
                     terp_class_nrows(weights->layout, weights->l, c.odd), 64);
    }
}

/* ---- between tile order and context order ---- */

/* A level's symbols in tile order: pieces that members count and move. */
struct level_sort {
    const uint16_t *marked;
    const uint16_t *sorted; /* to restore; else NULL */
    uint16_t *to;
    uint64_t nsymbols;
    uint64_t (*begin)[TERP_NGROUPS]; /* of each piece: counts, then places */
};

static void
count_pieces(void *arg, int id, uint64_t first, uint64_t end)
{
    struct level_sort *sort = arg;

    (void)id;
    for (uint64_t piece = first; piece < end; piece++) {
        uint64_t i = piece * PIECE_NSYMBOLS;
        uint64_t last = min_u64(i + PIECE_NSYMBOLS, sort->nsymbols);
        /* Equal neighbours go to different counters. */
        uint32_t counts[4][TERP_NGROUPS] = {{0}};
        for (; i + 4 <= last; i += 4)
            for (unsigned k = 0; k < 4; k++)
                counts[k][sort->marked[i + k] >> CONTEXT_SHIFT]++;
        for (; i < last; i++)
            counts[0][sort->marked[i] >> CONTEXT_SHIFT]++;
        for (int c = 0; c < TERP_NGROUPS; c++)
            sort->begin[piece][c] =
                counts[0][c] + counts[1][c] + counts[2][c] + counts[3][c];
    }
}

static void
move_pieces(void *arg, int id, uint64_t first, uint64_t end)
{
    struct level_sort *sort = arg;

    (void)id;
    for (uint64_t piece = first; piece < end; piece++) {
        uint64_t i = piece * PIECE_NSYMBOLS;
        uint64_t last = min_u64(i + PIECE_NSYMBOLS, sort->nsymbols);
        uint64_t at[TERP_NGROUPS];
        memcpy(at, sort->begin[piece], sizeof at);
        if (sort->sorted != NULL)
            for (; i < last; i++)
                sort->to[i] =
                    sort->sorted[at[sort->marked[i] >> CONTEXT_SHIFT]++];
        else
            for (; i < last; i++)
                sort->to[at[sort->marked[i] >> CONTEXT_SHIFT]++] =
                    sort->marked[i] & SYMBOL_MASK;
    }
}

static enum terp_status
move_level(struct cpu_team *team, struct level_sort *sort)
{
    uint64_t npieces = div_up(sort->nsymbols, PIECE_NSYMBOLS), next = 0;

    sort->begin = malloc((npieces + 1) * sizeof *sort->begin);
    if (sort->begin == NULL)
        return TERP_ERR_MEMORY;
    cpu_team_run(team, count_pieces, sort, npieces, 2);
    for (int c = 0; c < TERP_NGROUPS; c++) {
        for (uint64_t piece = 0; piece < npieces; piece++) {
            uint64_t n = sort->begin[piece][c];
            sort->begin[piece][c] = next;
            next += n;
        }
    }
    cpu_team_run(team, move_pieces, sort, npieces, 2);
    free(sort->begin);
    return TERP_OK;
}

/* ---- all levels ---- */

/* As many symbols stand before the level's in every order. */
static uint64_t
even_nvalues(const struct terp_layout *layout, int l)
{
    uint64_t nvalues = layout->nbricks;

    for (int d = 0; d < TERP_NDIMS; d++)
        nvalues *= layout->level[l].neven[d];
    return nvalues;
}

/* The weights of the anchors, of which those of all levels are made in turn.
 * Memory: `even`, and behind it `fine`. */
static enum terp_status
start_weights(const struct terp_layout *layout, uint16_t *symbols,
              struct weights *weights_ret, void **memory_ret)
{
    uint64_t nvalues = layout->nlevels == 0 ? 0 : even_nvalues(layout, 1);
    uint8_t *memory = malloc(2 * nvalues + 1);

    *memory_ret = memory;
    if (memory == NULL)
        return TERP_ERR_MEMORY;
    *weights_ret = (struct weights){.layout = layout,
                                    .l = layout->nlevels,
                                    .even = memory,
                                    .fine = memory + nvalues,
                                    .symbols = symbols};
    for (uint64_t i = 0; layout->nlevels > 0 && i < layout->nbricks; i++)
        weights_ret->even[i] = weight_of(symbols[i]);
    return TERP_OK;
}

/* On to the next finer level, the symbols of this one being known. */
static void
go_on(struct cpu_team *team, struct weights *weights)
{
    const struct terp_level *level = &weights->layout->level[weights->l];
    uint8_t *even = weights->even;
    uint64_t nrows = weights->layout->nbricks;

    for (int d = 1; d < TERP_NDIMS; d++)
        nrows *= level->neven[d] + level->nodd[d];
    if (weights->l > 1)
        cpu_team_run(team, merge_rows, weights, nrows, 64);
    weights->even = weights->fine;
    weights->fine = even;
    weights->l--;
}

enum terp_status
cpu_context_sort(struct cpu_team *team, const struct terp_layout *layout,
                 const uint64_t *mask, uint16_t *symbols, uint16_t *scratch)
{
    struct weights weights;
    void *memory;
    uint64_t end = layout->nvalues;

    enum terp_status st = start_weights(layout, symbols, &weights, &memory);
    for (; st == TERP_OK && weights.l > 0; go_on(team, &weights))
        if (weights.l <= TERP_NCONTEXT_LEVELS)
            mark_level(team, &weights, mask, SYMBOL_MASK);
    free(memory);
    if (st != TERP_OK)
        return st;
    cpu_order_into_tiles(team, layout, CPU_ORDER_CLASSES, symbols, scratch);
    for (int l = 1; l <= layout->nlevels && l <= TERP_NCONTEXT_LEVELS; l++) {
        uint64_t begin = even_nvalues(layout, l);
        struct level_sort sort = {.marked = scratch + begin,
                                  .to = symbols + begin,
                                  .nsymbols = end - begin};
        st = move_level(team, &sort);
        if (st != TERP_OK)
            return st;
        end = begin;
    }
    memcpy(symbols, scratch, end * sizeof *symbols);
    return TERP_OK;
}

enum terp_status
cpu_context_restore(struct cpu_team *team, const struct terp_layout *layout,
                    const uint64_t *mask, const uint16_t *sorted,
                    uint16_t *scratch, uint16_t *symbols_ret)
{
    struct weights weights;
    void *memory;
    uint64_t begin = layout->nbricks;

    memcpy(symbols_ret, sorted, begin * sizeof *sorted);
    enum terp_status st = start_weights(layout, symbols_ret, &weights, &memory);
    for (; st == TERP_OK && weights.l > 0; go_on(team, &weights)) {
        int l = weights.l;
        uint64_t end = l == 1 ? layout->nvalues : even_nvalues(layout, l - 1);
        if (l > TERP_NCONTEXT_LEVELS) {
            cpu_order_level(team, layout, l, sorted, symbols_ret, false);
        } else {
            mark_level(team, &weights, mask, 0);
            cpu_order_level(team, layout, l, symbols_ret, scratch, true);
            struct level_sort sort = {.marked = scratch + begin,
                                      .sorted = sorted + begin,
                                      .to = scratch + begin,
                                      .nsymbols = end - begin};
            st = move_level(team, &sort);
            cpu_order_level(team, layout, l, scratch, symbols_ret, false);
        }
        begin = end;
    }
    free(memory);
    return st;
}

/* ---- between C order and work order ---- */

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
    uint64_t brick = find_row(extent, first, at);
    for (uint64_t row = first; row < end;
         row++, brick += next_row(extent, at)) {
        uint64_t begin = row_begin(deal->layout, deal->l, deal->odd, brick, at);
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
deal_all(struct cpu_team *team, struct deal *deal)
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
            deal->odd = terp_class_order[i];
            cpu_team_run(team, deal_rows, deal,
                         terp_class_nrows(layout, deal->l, deal->odd), 64);
        }
    }
}

void
cpu_context_deal(struct cpu_team *team, const struct terp_layout *layout,
                 const uint16_t *from, uint16_t *to)
{
    struct deal deal = {
        .layout = layout, .from = from, .to = to, .into_classes = true};
    deal_all(team, &deal);
}

void
cpu_context_merge(struct cpu_team *team, const struct terp_layout *layout,
                  const uint16_t *from, uint16_t *to)
{
    struct deal deal = {.layout = layout, .from = from, .to = to};
    deal_all(team, &deal);
}
