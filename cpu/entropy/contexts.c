/* Sorts a level's symbols by context, and restores their order. Contexts follow
 * from the symbols of coarser levels. Workers take ranges of the level twice:
 * first they find and count contexts, then they move symbols. */
#include "cpu/entropy/contexts.h"

#include <stdlib.h>

#include "codec/format/limits.h"
#include "codec/model/contexts.h"
#include "cpu/entropy/order.h"
#include "cpu/entropy/rows.h"

/* ---- weights ---- */

/* Weights of the points of a lattice: [nbricks][n3][n2][n1][n0] bytes. */
struct weights {
    const struct terp_layout *layout;
    int l;                   /* the level whose even points have weights */
    uint8_t *even;           /* weights of these, extents neven of the level */
    uint8_t *fine;           /* weights of the even and the level's own
                              * points */
    const uint16_t *symbols; /* in level order */
    int wide;                /* of the codes */
};

/* Contexts are found for this many points at once. As a row may have fewer
 * points, this many bytes after the weights must be readable. */
#define BLOCK_NVALUES 32

/* Makes rows [first, end) of the lattice that a level completes: even points
 * and the level's own points alternate. */
static void
interleave_rows(void *arg, struct cpu_share share)
{
    const struct weights *w = arg;
    const struct terp_level *level = &w->layout->level[w->l];
    uint64_t fine[TERP_NDIMS], at[TERP_NDIMS];
    uint8_t half[2][BLOCK_NVALUES];

    for (int d = 0; d < TERP_NDIMS; d++)
        fine[d] = level->neven[d] + level->nodd[d];
    uint64_t brick = cpu_find_row(fine, share.first, at);
    for (uint64_t row = share.first; row < share.end;
         row++, brick += cpu_next_row(fine, at)) {
        uint8_t *to = w->fine + row * fine[0];
        unsigned odd = 0;
        uint64_t from = brick;
        for (int d = TERP_NDIMS - 1; d > 0; d--)
            odd |= (unsigned)(at[d] & 1) << d;
        for (int d = TERP_NDIMS - 1; d > 0; d--)
            from = from * terp_class_extent(level, odd, d) + at[d] / 2;
        const uint8_t *even = w->even + from * level->neven[0];
        const uint16_t *evens =
            w->symbols + level->class_at[odd] + from * level->neven[0];
        const uint16_t *odds =
            w->symbols + level->class_at[odd | 1] + from * level->nodd[0];
        for (uint64_t x = 0; x < level->neven[0]; x += BLOCK_NVALUES) {
            uint64_t neven = min_u64(BLOCK_NVALUES, level->neven[0] - x);
            uint64_t nodd = min_u64(BLOCK_NVALUES, level->nodd[0] - x);
            for (uint64_t i = 0; odd == 0 && i < neven; i++)
                half[0][i] = even[x + i] / 2;
            for (uint64_t i = 0; odd != 0 && i < neven; i++)
                half[0][i] = terp_context_weight(evens[x + i], w->wide);
            for (uint64_t i = 0; i < nodd; i++)
                half[1][i] = terp_context_weight(odds[x + i], w->wide);
            for (uint64_t i = 0; i < nodd; i++) {
                to[2 * (x + i)] = half[0][i];
                to[2 * (x + i) + 1] = half[1][i];
            }
            if (nodd < neven)
                to[2 * (x + nodd)] = half[0][nodd];
        }
    }
}

/* The number of even points, which is the number of symbols before the level's
 * in every order. */
static uint64_t
even_nvalues(const struct terp_layout *layout, int l)
{
    uint64_t nvalues = layout->nbricks;

    for (int d = 0; d < TERP_NDIMS; d++)
        nvalues *= layout->level[l].neven[d];
    return nvalues;
}

/* Makes the weights of the anchors; go_on() then makes those of each finer
 * level. `even` and `fine` are one allocation. */
static enum terp_status
start_weights(const struct terp_layout *layout, int wide,
              const uint16_t *symbols, struct weights *weights_ret,
              void **memory_ret)
{
    uint64_t nvalues = layout->nlevels == 0 ? 0 : even_nvalues(layout, 1);
    uint8_t *memory = malloc(2 * nvalues + BLOCK_NVALUES);

    *memory_ret = memory;
    if (memory == NULL)
        return TERP_ERR_MEMORY;
    *weights_ret = (struct weights){.layout = layout,
                                    .l = layout->nlevels,
                                    .even = memory,
                                    .fine = memory + nvalues,
                                    .symbols = symbols,
                                    .wide = wide};
    for (uint64_t i = 0; layout->nlevels > 0 && i < layout->nbricks; i++)
        weights_ret->even[i] = terp_context_weight(symbols[i], wide);
    return TERP_OK;
}

/* Advances to the next finer level, once this level's symbols are known. */
static void
go_on(struct cpu_pool *pool, struct weights *weights)
{
    const struct terp_level *level = &weights->layout->level[weights->l];
    uint8_t *even = weights->even;
    uint64_t nrows = weights->layout->nbricks;

    for (int d = 1; d < TERP_NDIMS; d++)
        nrows *= level->neven[d] + level->nodd[d];
    if (weights->l > 1)
        terp_cpu_pool_run(pool, interleave_rows, weights, nrows, 512);
    weights->even = weights->fine;
    weights->fine = even;
    weights->l--;
}

/* ---- contexts ---- */

/* A level whose points move between level order and context order. */
struct sort {
    const struct weights *weights;
    const uint64_t *mask; /* special points, in C order; NULL: none */
    const struct terp_layout *layout;
    int l;
    uint64_t begin;  /* first symbol of the level, in either order */
    uint8_t *groups; /* in level order, times GROUP_UNIT */
    const uint16_t *from;
    uint16_t *to;
    bool restore; /* from context order to level order; else the reverse */
    uint64_t npieces;
    struct slab_range *ranges;
};

/* A group g is stored as g * GROUP_UNIT: the shift of byte g in a word of eight
 * bytes, and the byte offset of word g in an array. */
#define GROUP_UNIT 8
_Static_assert(GROUP_UNIT == sizeof(uint64_t), "A group has a word.");

/* Slabs of a class that one worker handles. */
struct slab_range {
    unsigned odd;
    uint64_t first, end;
    /* Of each group: first the number of points, then the place in context
     * order where they begin. */
    uint64_t at[TERP_NGROUPS];
};
#define PIECE_NSYMBOLS 8192 /* or one slab, if it is larger */

static void
boxes_of_class(const struct sort *sort, unsigned odd, struct cpu_boxes *boxes)
{
    uint64_t extent[TERP_NDIMS];

    for (int d = 0; d < TERP_NDIMS; d++)
        extent[d] = terp_class_extent(&sort->layout->level[sort->l], odd, d);
    terp_cpu_boxes_make(sort->layout, extent, boxes);
}

/* Lists the level's ranges; classes and slabs are in tile order. */
static enum terp_status
make_pieces(struct sort *sort)
{
    struct cpu_boxes boxes;

    sort->npieces = 0;
    sort->ranges = NULL;
    for (int pass = 0;; pass++) {
        uint64_t n = 0;
        for (int i = 0; i < TERP_NCLASSES - 1; i++) {
            unsigned odd = terp_nth_class(i);
            boxes_of_class(sort, odd, &boxes);
            uint64_t nslabs = sort->layout->nbricks * boxes.nslabs;
            uint64_t step = PIECE_NSYMBOLS / (boxes.slab_nsymbols + 1) + 1;
            for (uint64_t slab = 0; slab < nslabs; slab += step, n++)
                if (pass == 1)
                    sort->ranges[n] = (struct slab_range){
                        odd, slab, min_u64(slab + step, nslabs), {0}};
        }
        if (pass == 1)
            return TERP_OK;
        sort->npieces = n;
        sort->ranges = malloc((n + 1) * sizeof *sort->ranges);
        if (sort->ranges == NULL)
            return TERP_ERR_MEMORY;
    }
}

/* Sums the weights of `n` corners; n is a power of two. */
static inline void
sum_corners(const uint8_t *const *corner, unsigned n, uint64_t x,
            int16_t sum[BLOCK_NVALUES])
{
    for (unsigned i = 0; i < BLOCK_NVALUES; i++) {
        int16_t all = 0;
        for (unsigned c = 0; c < n; c++)
            all = (int16_t)(all + corner[c][x + i]);
        sum[i] = all;
    }
}

/* Finds the groups of BLOCK_NVALUES points. */
static inline void
find_groups(const uint8_t *const *corner, unsigned ncorners, uint64_t x,
            uint8_t *restrict groups_ret)
{
    int16_t sum[BLOCK_NVALUES], context[BLOCK_NVALUES];
    int16_t factor = (int16_t)(TERP_NCLASSES / ncorners);

    /* Calls with a constant, which the compiler unrolls. */
    if (ncorners == 2)
        sum_corners(corner, 2, x, sum);
    else if (ncorners == 4)
        sum_corners(corner, 4, x, sum);
    else if (ncorners == 8)
        sum_corners(corner, 8, x, sum);
    else
        sum_corners(corner, 16, x, sum);
    for (unsigned i = 0; i < BLOCK_NVALUES; i++)
        context[i] = (int16_t)terp_context_of((int16_t)(sum[i] * factor));
    for (unsigned i = 0; i < BLOCK_NVALUES; i++)
        groups_ret[i] = (uint8_t)(context[i] * GROUP_UNIT);
}

/* The group of a row's last point, which may have no even point after it. */
static uint8_t
find_last_group(const uint8_t *const *corner, unsigned ncorners, uint64_t x)
{
    int sum = 0;

    for (unsigned c = 0; c < ncorners; c += 2)
        sum += 2 * corner[c][x];
    const int16_t all = (int16_t)(sum * (int)(TERP_NCLASSES / ncorners));
    return (uint8_t)(terp_context_of(all) * GROUP_UNIT);
}

/* Keeps hot loops out of line: in their caller, gcc 12 spills their registers
 * (bench/results/notes/2026-11-28-version-1.md, "What checks cost"). */
#define APART static __attribute__((noinline))

/* Finds the groups of points [begin, end) of a class, taken as one sequence.
 * Rows that all have their corners are handled as one row. */
APART void
mark_points(const struct weights *w, unsigned odd, uint64_t begin, uint64_t end,
            uint8_t *groups)
{
    const struct terp_level *level = &w->layout->level[w->l];
    const uint64_t *even = level->neven;
    uint64_t extent[TERP_NDIMS], at[TERP_NDIMS], stride[TERP_NDIMS + 1] = {1};

    for (int d = 0; d < TERP_NDIMS; d++) {
        extent[d] = terp_class_extent(level, odd, d);
        stride[d + 1] = stride[d] * even[d];
    }
    uint64_t x = begin % extent[0];
    uint64_t brick = cpu_find_row(extent, begin / extent[0], at);
    for (uint64_t i = begin, n; i < end;
         i += n, x = 0, brick += cpu_next_row(extent, at)) {
        const uint8_t *corner[TERP_NCLASSES];
        unsigned ncorners = 1;
        corner[0] = w->even + brick * stride[TERP_NDIMS] + x;
        for (int d = 1; d < TERP_NDIMS; d++)
            corner[0] += at[d] * stride[d];
        for (int d = 0; d < TERP_NDIMS; d++) {
            if (!(odd >> d & 1))
                continue;
            uint64_t step = d == 0 || at[d] + 1 < even[d] ? stride[d] : 0;
            for (unsigned c = 0; c < ncorners; c++)
                corner[ncorners + c] = corner[c] + step;
            ncorners *= 2;
        }
        /* The last row along dimension 1 may have no row after it. */
        const uint64_t alike = min_u64(extent[1], even[1] - 1);
        const uint64_t nrows =
            extent[0] == even[0] && at[1] < alike ? alike - at[1] : 1;
        at[1] += nrows - 1;
        n = min_u64(nrows * extent[0] - x, end - i);
        uint64_t done = 0;
        for (; done + BLOCK_NVALUES <= n; done += BLOCK_NVALUES)
            find_groups(corner, ncorners, done, groups + i + done);
        if (done < n) {
            uint8_t block[BLOCK_NVALUES];
            find_groups(corner, ncorners, done, block);
            memcpy(groups + i + done, block, n - done);
        }
        if (odd & 1 && extent[0] == even[0])
            for (uint64_t last = extent[0] - 1 - x; last < n; last += extent[0])
                groups[i + last] = find_last_group(corner, ncorners, last);
    }
}

#define SPECIALS (TERP_GROUP_SPECIALS * GROUP_UNIT)

/* Collects the even bits of a word in its lower half. */
static inline uint64_t
even_bits(uint64_t word)
{
    word &= UINT64_C(0x5555555555555555);
    word = (word | word >> 1) & UINT64_C(0x3333333333333333);
    word = (word | word >> 2) & UINT64_C(0x0F0F0F0F0F0F0F0F);
    word = (word | word >> 4) & UINT64_C(0x00FF00FF00FF00FF);
    word = (word | word >> 8) & UINT64_C(0x0000FFFF0000FFFF);
    return (word | word >> 16) & UINT64_C(0x00000000FFFFFFFF);
}

/* Marks those of eight points whose bits are set. */
static inline void
mark_eight(uint64_t bits, uint8_t *groups)
{
    const uint64_t bytes = UINT64_C(0x0101010101010101);
    const uint64_t of_byte = bits * bytes & UINT64_C(0x8040201008040201);
    const uint64_t above = of_byte + UINT64_C(0x7F7F7F7F7F7F7F7F);
    const uint64_t taken = ((above | of_byte) >> 7 & bytes) * UINT8_MAX;

    store_le(groups, (load_le64(groups) & ~taken) | (taken & bytes * SPECIALS),
             8);
}

/* Marks the special points among `n` (at most 32) points of level 1. Point i
 * has bit 2 * i of `word`. Level 1 has 7/8 of the points in three dimensions,
 * so they are marked eight at a time. */
static inline void
mark_word(uint64_t word, uint64_t n, uint8_t *groups)
{
    uint64_t bits = even_bits(word), x = 0;

    for (; x + 8 <= n; x += 8, bits >>= 8)
        mark_eight(bits & UINT8_MAX, groups + x);
    for (; x < n; x++, bits >>= 1)
        groups[x] = bits & 1 ? SPECIALS : groups[x];
}

/* The bits of a mask word that belong to points of level l, if the first bit
 * does. */
static inline uint64_t
taken_bits(int l)
{
    return l < 6 ? UINT64_MAX / ((UINT64_C(2) << ((1 << l) - 1)) - 1) : 1;
}

/* Marks the special points among `n` points that are 2^l apart in C order, from
 * `from` on. */
static inline void
mark_row(const uint64_t *mask, uint64_t from, int l, uint64_t taken, uint64_t n,
         uint8_t *groups)
{
    for (uint64_t x = 0; x < n;) {
        const uint64_t at = from + (x << l);
        const uint64_t npoints = min_u64(n - x, ((63 - at % 64) >> l) + 1);
        uint64_t word = mask[at / 64] >> at % 64 & taken;
        const uint64_t all = taken & UINT64_MAX >> (63 - ((npoints - 1) << l));
        word &= all;
        if (word == all) {
            memset(groups + x, SPECIALS, npoints);
            word = 0;
        } else if (l == 1 && word != 0) {
            mark_word(word, npoints, groups + x);
            word = 0;
        }
        for (; word != 0; word &= word - 1)
            groups[x + ((uint64_t)__builtin_ctzll(word) >> l)] = SPECIALS;
        x += npoints;
    }
}

/* Puts the special points among [begin, end) of a class into the last group. */
static void
mark_specials(const struct sort *sort, unsigned odd, uint64_t begin,
              uint64_t end, uint8_t *groups)
{
    const struct terp_layout *layout = sort->layout;
    const uint64_t taken = taken_bits(sort->l);
    uint64_t extent[TERP_NDIMS], at[TERP_NDIMS];

    for (int d = 0; d < TERP_NDIMS; d++)
        extent[d] = terp_class_extent(&layout->level[sort->l], odd, d);
    uint64_t row = begin / extent[0], x = begin % extent[0];
    uint64_t brick = cpu_find_row(extent, row, at);
    for (uint64_t i = begin; i < end;
         x = 0, brick += cpu_next_row(extent, at)) {
        const uint64_t from = cpu_row_begin(layout, sort->l, odd, brick, at);
        const uint64_t n = min_u64(extent[0] - x, end - i);
        mark_row(sort->mask, from + (x << sort->l), sort->l, taken, n,
                 groups + i);
        i += n;
    }
}

/* Counts the points of whole blocks by group. Counters are bytes, a block of
 * them per group. The groups alternate, since each sum depends on the one
 * before it. */
static void
count_blocks(const uint8_t *groups, uint64_t nblocks,
             uint64_t counts_inout[TERP_NGROUPS])
{
    uint8_t counts[TERP_NGROUPS][BLOCK_NVALUES] = {{0}};

    for (uint64_t b = 0; b < nblocks; b++, groups += BLOCK_NVALUES)
        for (int g = 0; g < TERP_NGROUPS; g++) {
            const uint8_t group = (uint8_t)(g * GROUP_UNIT);
            for (int j = 0; j < BLOCK_NVALUES; j++)
                counts[g][j] = (uint8_t)(counts[g][j] + (groups[j] == group));
        }
    for (int g = 0; g < TERP_NGROUPS; g++)
        for (int j = 0; j < BLOCK_NVALUES; j++)
            counts_inout[g] += counts[g][j];
}

APART void
count_groups(const uint8_t *groups, uint64_t n,
             uint64_t counts_ret[TERP_NGROUPS])
{
    const uint64_t nblocks = n / BLOCK_NVALUES;

    memset(counts_ret, 0, TERP_NGROUPS * sizeof *counts_ret);
    for (uint64_t b = 0; b < nblocks; b += UINT8_MAX)
        count_blocks(groups + b * BLOCK_NVALUES,
                     min_u64(nblocks - b, UINT8_MAX), counts_ret);
    for (uint64_t i = nblocks * BLOCK_NVALUES; i < n; i++)
        counts_ret[groups[i] / GROUP_UNIT]++;
}

static void
mark_piece(void *arg, uint64_t p)
{
    const struct sort *sort = arg;
    struct slab_range *range = &sort->ranges[p];
    struct cpu_boxes boxes;
    boxes_of_class(sort, range->odd, &boxes);
    uint64_t begin = cpu_slab_begin(&boxes, range->first);
    uint64_t stop = cpu_slab_begin(&boxes, range->end);
    uint8_t *groups =
        sort->groups + sort->layout->level[sort->l].class_at[range->odd];
    mark_points(sort->weights, range->odd, begin, stop, groups);
    if (sort->mask != NULL)
        mark_specials(sort, range->odd, begin, stop, groups);
    count_groups(groups + begin, stop - begin, range->at);
}

/* ---- between level order and context order ---- */

/* The arrays of a class, and the next place of each group in context order:
 * at[g] plus the group's byte of `ahead`. Counting in `ahead`, a register,
 * avoids waiting for a store to at[g] before the next load. */
struct move {
    const uint8_t *groups;
    const uint16_t *from;
    uint16_t *to;
    const uint16_t *in_levels; /* `from` or `to`, whichever is in level order */
    uint64_t at[TERP_NGROUPS];
    uint64_t ahead;
    uint64_t nahead; /* sum of the bytes of `ahead` */
};
#define MAX_NAHEAD 255
_Static_assert(TERP_NCONTEXTS == 8 && GROUP_UNIT == 8,
               "A context has a byte of eight.");

static inline void
catch_up(struct move *m)
{
    for (int c = 0; c < TERP_NCONTEXTS; c++)
        m->at[c] += m->ahead >> (GROUP_UNIT * c) & 0xFF;
    m->ahead = m->nahead = 0;
}

/* The number of a row's symbols that can move before a byte of `ahead` could
 * overflow: all, or MAX_NAHEAD. */
static inline uint64_t
go_ahead(struct move *m, uint64_t nleft)
{
    uint64_t n = min_u64(nleft, MAX_NAHEAD);

    if (m->nahead + n > MAX_NAHEAD)
        catch_up(m);
    m->nahead += n;
    return n;
}

/* Takes the next place in context order of a group that is not special. */
static inline uint64_t
next_place(const struct move *m, unsigned group, uint64_t *ahead)
{
    uint64_t place;

    memcpy(&place, (const uint8_t *)m->at + group, sizeof place);
    place += *ahead >> group & 0xFF;
    *ahead += UINT64_C(1) << group;
    return place;
}

CPU_INLINE void
sort_row(void *arg, uint64_t at, uint64_t n)
{
    struct move *m = arg;

    for (uint64_t end = at + n; at < end;) {
        uint64_t stop = at + go_ahead(m, end - at), ahead = m->ahead;
        for (; at + 8 <= stop; at += 8)
            for (unsigned k = 0; k < 8; k++)
                m->to[next_place(m, m->groups[at + k], &ahead)] =
                    m->from[at + k];
        for (; at < stop; at++)
            m->to[next_place(m, m->groups[at], &ahead)] = m->from[at];
        m->ahead = ahead;
    }
}

CPU_INLINE void
restore_row(void *arg, uint64_t at, uint64_t n)
{
    struct move *m = arg;

    for (uint64_t end = at + n; at < end;) {
        uint64_t stop = at + go_ahead(m, end - at), ahead = m->ahead;
        for (; at + 8 <= stop; at += 8)
            for (unsigned k = 0; k < 8; k++)
                m->to[at + k] =
                    m->from[next_place(m, m->groups[at + k], &ahead)];
        for (; at < stop; at++)
            m->to[at] = m->from[next_place(m, m->groups[at], &ahead)];
        m->ahead = ahead;
    }
}

/* Chunks with special points: each group, including that of special points, has
 * seven bits of `ahead`. Special points come in runs, which are copied eight at
 * a time. */
#define MASKED_NBITS 7
#define MAX_NAHEAD_MASKED ((1 << MASKED_NBITS) - 1)
_Static_assert(TERP_NGROUPS *MASKED_NBITS <= 64, "Each group has its bits.");
#define SPECIALS_SHIFT (TERP_GROUP_SPECIALS * MASKED_NBITS)

static inline void
catch_up_masked(struct move *m)
{
    for (int g = 0; g < TERP_NGROUPS; g++)
        m->at[g] += m->ahead >> (MASKED_NBITS * g) & MAX_NAHEAD_MASKED;
    m->ahead = m->nahead = 0;
}

static inline uint64_t
go_ahead_masked(struct move *m, uint64_t nleft)
{
    uint64_t n = min_u64(nleft, MAX_NAHEAD_MASKED);

    if (m->nahead + n > MAX_NAHEAD_MASKED)
        catch_up_masked(m);
    m->nahead += n;
    return n;
}

static inline uint64_t
next_place_masked(const struct move *m, unsigned group, uint64_t *ahead)
{
    const unsigned shift = group - group / GROUP_UNIT;
    uint64_t place;

    _Static_assert(GROUP_UNIT - 1 == MASKED_NBITS, "The shift is a difference");
    memcpy(&place, (const uint8_t *)m->at + group, sizeof place);
    place += *ahead >> shift & MAX_NAHEAD_MASKED;
    *ahead += UINT64_C(1) << shift;
    return place;
}

/* Whether eight points are all special; if so, takes the place of the first. */
static inline bool
are_specials(const struct move *m, uint64_t at, uint64_t *ahead,
             uint64_t *place_ret)
{
    if (load_le64(m->groups + at) != UINT64_C(0x0101010101010101) * SPECIALS)
        return false;
    *place_ret = m->at[TERP_GROUP_SPECIALS] + (*ahead >> SPECIALS_SHIFT);
    *ahead += UINT64_C(8) << SPECIALS_SHIFT;
    return true;
}

CPU_INLINE void
sort_masked_row(void *arg, uint64_t at, uint64_t n)
{
    struct move *m = arg;

    for (uint64_t end = at + n; at < end;) {
        uint64_t stop = at + go_ahead_masked(m, end - at), ahead = m->ahead;
        uint64_t place;
        for (; at + 8 <= stop; at += 8) {
            if (are_specials(m, at, &ahead, &place)) {
                memcpy(m->to + place, m->from + at, 8 * sizeof *m->to);
                continue;
            }
            for (unsigned k = 0; k < 8; k++)
                m->to[next_place_masked(m, m->groups[at + k], &ahead)] =
                    m->from[at + k];
        }
        for (; at < stop; at++)
            m->to[next_place_masked(m, m->groups[at], &ahead)] = m->from[at];
        m->ahead = ahead;
    }
}

CPU_INLINE void
restore_masked_row(void *arg, uint64_t at, uint64_t n)
{
    struct move *m = arg;

    for (uint64_t end = at + n; at < end;) {
        uint64_t stop = at + go_ahead_masked(m, end - at), ahead = m->ahead;
        uint64_t place;
        for (; at + 8 <= stop; at += 8) {
            if (are_specials(m, at, &ahead, &place)) {
                memcpy(m->to + at, m->from + place, 8 * sizeof *m->to);
                continue;
            }
            for (unsigned k = 0; k < 8; k++)
                m->to[at + k] =
                    m->from[next_place_masked(m, m->groups[at + k], &ahead)];
        }
        for (; at < stop; at++)
            m->to[at] = m->from[next_place_masked(m, m->groups[at], &ahead)];
        m->ahead = ahead;
    }
}

CPU_INLINE void
fetch_row(void *arg, uint64_t at, uint64_t n)
{
    const struct move *m = arg;

    cpu_fetch(m->groups + at, n);
    cpu_fetch(m->in_levels + at, 2 * n);
}

static void
move_piece(void *arg, uint64_t p)
{
    const struct sort *sort = arg;
    const struct slab_range *range = &sort->ranges[p];
    uint64_t class_at = sort->layout->level[sort->l].class_at[range->odd];
    struct cpu_boxes boxes;
    struct move m = {.groups = sort->groups + class_at,
                     .from = sort->from + (sort->restore ? 0 : class_at),
                     .to = sort->to + (sort->restore ? class_at : 0)};
    m.in_levels = sort->restore ? m.to : m.from;
    memcpy(m.at, range->at, sizeof m.at);
    boxes_of_class(sort, range->odd, &boxes);
    for (uint64_t slab = range->first; slab < range->end; slab++) {
        if (sort->restore && sort->mask != NULL)
            cpu_slab_walk(&boxes, slab, fetch_row, restore_masked_row, &m);
        else if (sort->restore)
            cpu_slab_walk(&boxes, slab, fetch_row, restore_row, &m);
        else if (sort->mask != NULL)
            cpu_slab_walk(&boxes, slab, fetch_row, sort_masked_row, &m);
        else
            cpu_slab_walk(&boxes, slab, fetch_row, sort_row, &m);
    }
}

static enum terp_status
move_level(struct cpu_pool *pool, const struct weights *weights,
           struct sort *sort)
{
    sort->weights = weights;
    sort->l = weights->l;
    enum terp_status st = make_pieces(sort);
    if (st != TERP_OK)
        return st;
    terp_cpu_pool_each(pool, mark_piece, sort, sort->npieces, 2);
    uint64_t next = even_nvalues(sort->layout, sort->l);
    for (int c = 0; c < TERP_NGROUPS; c++) {
        for (uint64_t p = 0; p < sort->npieces; p++) {
            uint64_t n = sort->ranges[p].at[c];
            sort->ranges[p].at[c] = next;
            next += n;
        }
    }
    terp_cpu_pool_each(pool, move_piece, sort, sort->npieces, 2);
    free(sort->ranges);
    return TERP_OK;
}

/* Handles all levels, the coarsest first: each level's symbols yield the
 * weights of the next. */
enum terp_status
terp_cpu_order_contexts(struct cpu_pool *pool, const struct terp_layout *layout,
                        const uint64_t *mask, const uint16_t *from, int wide,
                        int nskipped, uint8_t *scratch, uint16_t *to,
                        bool into_contexts)
{
    struct sort sort = {.mask = mask,
                        .layout = layout,
                        .groups = scratch,
                        .from = from,
                        .to = to,
                        .restore = !into_contexts};
    struct weights weights;
    void *memory;

    memcpy(to, from, layout->nbricks * sizeof *to);
    enum terp_status st = start_weights(layout, wide, into_contexts ? from : to,
                                        &weights, &memory);
    for (; st == TERP_OK && weights.l > 0; go_on(pool, &weights)) {
        if (weights.l + nskipped > TERP_NCONTEXT_LEVELS)
            terp_cpu_order_level(pool, layout, weights.l, from, to,
                                 into_contexts);
        else
            st = move_level(pool, &weights, &sort);
    }
    free(memory);
    return st;
}
