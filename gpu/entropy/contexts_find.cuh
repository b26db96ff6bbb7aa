/* Finds the contexts of a level's points from the weights of its even points.
 *
 * A block has a region of the lattice of even points. It first computes the
 * weight of each even point from the symbols of coarser levels. Then it finds
 * the contexts of all points between even points, class by class, four points
 * of a row at a time. While encoding it also copies lorenzo's symbols to the
 * order of splines. */
#pragma once

#include "gpu/entropy/contexts_region.cuh"
#include "gpu/predict/values.cuh"

/* The mark of a point, as the region `contexts` stores it: four times its
 * context, which is the shift of the context's 4-bit count in a word. Example:
 * context 5 has mark 20. Special points have mark 32. */
#define CONTEXT_SHIFT 2
#define CONTEXT_SPECIAL_MARK (TERP_GROUP_SPECIALS << CONTEXT_SHIFT)
static_assert(TERP_GROUP_SPECIALS == 8,
              "The mark of special points must have a bit of its own.");

struct find_shared {
    uint32_t weights[CONTEXT_MAX_NWORDS];
    struct context_part part[TERP_NCLASSES];
    /* By class: counts in the first tile that has points of the class in the
     * region, and in the next tile. */
    uint32_t count[TERP_NCLASSES][2][TERP_NGROUPS];
    uint32_t total[TERP_NGROUPS];
    bool is_in_tile[TERP_NCLASSES]; /* all points of a class are in one tile */
};

/* The arrays that a block reads and writes. */
struct find_view {
    const struct terp_layout *layout;
    const struct cuda_chunk *chunk;
    const uint16_t *symbols;
    /* `symbols` are in lorenzo's tile order, and are copied to `to`. */
    bool is_raster;
    uint16_t *to;
    uint8_t *contexts; /* marks, in the tile order of splines */
    bool has_specials;
    const uint64_t *specials; /* a bit a value in C order; NULL: there is no
                                 mask, test the values */
    int value_nbytes;
    int wide; /* see cuda_model */
};

/* The counts of level l. */
static __device__ __forceinline__ struct cuda_context_counts
context_counts(const struct cuda_batch &batch, int l)
{
    const uint64_t nspans = cuda_context_nspans(batch.ntiles);
    const unsigned i = (unsigned)(l - 1) * TERP_NGROUPS;
    const unsigned nall = TERP_NCONTEXT_LEVELS * TERP_NGROUPS;
    unsigned long long *totals =
        region<unsigned long long>(batch, batch.at.context_counts);
    uint32_t *spans = (uint32_t *)(totals + nall);
    uint32_t *tiles = spans + nall * nspans;

    return {tiles + i * batch.ntiles, spans + i * nspans, totals + i};
}

/* ---- weights ---- */

/* Stores the weight of even point x of a row of the region, or of the point
 * next to the region. If x is the last point of the lattice, stores the weight
 * for x + 1 too. */
static __device__ __forceinline__ void
store_weight(const struct context_level &level, const struct context_region &r,
             uint32_t *row, uint32_t x, uint32_t weight)
{
    ((uint8_t *)row)[x] = (uint8_t)weight;
    if (x + 1 == r.neven[0] && x < level.extent[0])
        ((uint8_t *)row)[x + 1] = (uint8_t)weight;
}

/* The symbol of an even point. Level `above` is the coarser level whose points
 * it belongs to, and `at` its coordinates in the lattice that this level
 * completes. */
static __device__ __forceinline__ unsigned
symbol_of(const struct find_view &view, int above,
          const uint32_t at[TERP_NDIMS], uint64_t brick)
{
    const struct terp_layout *layout = view.layout;
    const struct terp_level &level = layout->level[above];
    uint64_t extent[TERP_NDIMS], c[TERP_NDIMS];
    unsigned odd = 0;

#pragma unroll
    for (int d = 0; d < TERP_NDIMS; d++) {
        odd |= (at[d] & 1) << d;
        c[d] = view.is_raster ? (uint64_t)at[d] << (above - 1) : at[d] >> 1;
        extent[d] = view.is_raster ? layout->dims[d]
                    : at[d] & 1    ? level.nodd[d]
                                   : level.neven[d];
    }
    return view.symbols[(view.is_raster ? 0 : level.class_at[odd]) +
                        tiled_at(tiled_row_at(layout->rank, extent, c, brick),
                                 layout->rank, extent[0], c[0])];
}

/* Weighs the even points that belong to the next coarser level, which have an
 * odd coordinate. `rank` is a brick's rank, and is_raster equals
 * view.is_raster; both are template parameters to unroll the loop and to remove
 * its branches. A thread takes four points of a row at a time. Example: for <3,
 * false> there are three dimensions and the symbols are in the tile order of
 * splines. */
template <int rank, bool is_raster>
static __device__ __forceinline__ void
weigh_level_above(const struct find_view &view,
                  const struct context_level &level,
                  const struct context_region &r, uint32_t *s_weights)
{
    const struct terp_layout *layout = view.layout;
    const struct terp_level *above = &layout->level[level.l + 1];

#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < level.nwords; i += CONTEXT_NTHREADS) {
        uint64_t extent[TERP_NDIMS] = {1, 1, 1, 1}, at[TERP_NDIMS] = {};
        uint32_t left = i, odd = 0, x = 0;
        bool inside = true;
#pragma unroll
        for (int d = 0; d < rank; d++) {
            const uint32_t next = divide_by(level.words_reciprocal[d], left);
            uint32_t c = left - next * level.words_extent[d];
            left = next;
            if (d == 0) {
                x = 4 * c;
                continue;
            }
            inside &= c < r.neven[d];
            c += r.low[d];
            odd |= (c & 1) << d;
            at[d] = is_raster ? (uint64_t)c << level.l : c >> 1;
            extent[d] = is_raster ? layout->dims[d]
                        : c & 1   ? above->nodd[d]
                                  : above->neven[d];
        }
        if (!inside || left >= r.nbricks || x >= r.neven[0])
            continue;
        const struct tiled_row row =
            tiled_row_at(rank, extent, at, r.brick + left);
#pragma unroll
        for (unsigned k = 0; k < 4; k++) {
            const uint64_t at0 = (uint64_t)r.low[0] + x + k;
            const uint64_t n0 = k % 2 == 0 ? above->neven[0] : above->nodd[0];
            if ((odd | k % 2) == 0 || x + k >= r.neven[0] ||
                x + k > level.extent[0])
                continue;
            const uint64_t p =
                is_raster ? tiled_at(row, rank, layout->dims[0], at0 << level.l)
                          : above->class_at[odd | k % 2] +
                                tiled_at(row, rank, n0, at0 / 2);
            store_weight(level, r, s_weights + (i - x / 4), x + k,
                         terp_context_weight(view.symbols[p], view.wide));
        }
    }
}

/* Weighs all other even points: points of coarser levels, and anchors. A thread
 * takes a point at a time. */
static __device__ __forceinline__ void
weigh_coarse(const struct find_view &view, const struct context_level &level,
             const struct context_region &r, uint32_t *s_weights)
{
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < level.nhalves; i += CONTEXT_NTHREADS) {
        uint32_t at[TERP_NDIMS], left = i, any = 0, x = 0, words = 0;
        unsigned symbol;
        bool inside = true;
#pragma unroll
        for (int d = 0; d < TERP_NDIMS; d++) {
            const uint32_t next = divide_by(level.halves_reciprocal[d], left);
            const uint32_t c = 2 * (left - next * level.halves_extent[d]);
            left = next;
            inside &= c < r.neven[d];
            at[d] = r.low[d] + c;
            any |= at[d];
            if (d == 0)
                x = c;
            else
                words += c * level.stride[d];
        }
        if (!inside || left >= r.nbricks)
            continue;
        words += left * level.stride[TERP_NDIMS];
        const uint64_t brick = r.brick + left;
        int shift = view.layout->nlevels - level.l;
        if (any != 0) {
            shift = __ffs((int)any) - 1;
#pragma unroll
            for (int d = 0; d < TERP_NDIMS; d++)
                at[d] >>= shift;
            symbol = symbol_of(view, level.l + 1 + shift, at, brick);
        } else {
            symbol =
                view.symbols[view.is_raster ? brick * (view.layout->nvalues /
                                                       view.layout->nbricks)
                                            : brick];
        }
        store_weight(level, r, s_weights + words, x,
                     terp_context_weight(symbol, view.wide) >> min(shift, 31));
    }
}

/* ---- contexts ---- */

/* The marks of four points, a byte each, from the sums of their corners'
 * weights: `even` holds those of points 0 and 2, `odd` those of 1 and 3, 16
 * bits each. terp_context_of compares a sum with seven limits; the limits are
 * powers of two, so the position of the sum's highest bit gives the context. */
static __device__ __forceinline__ uint32_t
contexts_of(uint32_t even, uint32_t odd)
{
    const uint32_t ones = 0x00010001;
    uint32_t contexts = 0;

#pragma unroll
    for (int k = 0; k < 2; k++) {
        /* 0 becomes 2, and 1 to 7 become 4 to 7; the highest bit is then
         * context + 1. */
        uint32_t sum = k == 0 ? even : odd;
        sum |= ((sum + 0x7FFF * ones) & 0x8000 * ones) >> 13 | 2 * ones;
        const uint32_t low = 31 - (uint32_t)__clz((int)(sum & 0xFFFF));
        const uint32_t high = 31 - (uint32_t)__clz((int)(sum >> 16));
        contexts |= (min(low, 8u) | min(high, 8u) << 16) << (8 * k);
    }
    return (contexts - 0x01010101) << CONTEXT_SHIFT;
}

/* Sums of weights: of points 0 and 2 (low and high half), 1 and 3, and 4. */
struct weight_sums {
    uint32_t even, odd, next;
};

/* For each set of dimensions 1 to rank - 1: the sums over all corners along the
 * dimensions in the set. Bit d - 1 of a set's number stands for dimension d;
 * the caller sums along dimension 0. step[d] leads to the next even point along
 * d. Example: for rank 3, sums[2] adds the points at `at` and at + step[2]. */
template <int rank>
static __device__ __forceinline__ void
sum_weights(const uint32_t *at, const uint32_t step[rank],
            struct weight_sums sums[1 << (rank - 1)])
{
    const uint32_t fields = 0x00FF00FF;

#pragma unroll
    for (unsigned set = 0; set < 1u << (rank - 1); set++) {
        const uint32_t *from = at;
#pragma unroll
        for (int d = 1; d < rank; d++)
            from += set >> (d - 1) & 1 ? step[d] : 0;
        const uint32_t four = from[0];
        sums[set] = {four & fields, four >> 8 & fields, from[1] & 0xFF};
    }
#pragma unroll
    for (int d = 1; d < rank; d++)
#pragma unroll
        for (unsigned set = 0; set < 1u << (rank - 1); set++) {
            if (!(set >> (d - 1) & 1))
                continue;
            const struct weight_sums &below = sums[set ^ 1u << (d - 1)];
            sums[set].even += below.even;
            sums[set].odd += below.odd;
            sums[set].next += below.next;
        }
}

/* A thread's counts of contexts, a byte each: of contexts 0, 2, 4, 6 and of 1,
 * 3, 5, 7. */
struct met_contexts {
    uint32_t even, odd;
};

/* Counts the marks of `n` points, four at most. */
static __device__ __forceinline__ void
meet_contexts(uint32_t marks, unsigned n, struct met_contexts *met)
{
    const uint32_t fields = 0x0F0F0F0F;
    uint32_t counts = 0;

#pragma unroll
    for (unsigned k = 0; k < 4; k++)
        counts += (uint32_t)(k < n) << (marks >> (8 * k) & 31);
    met->even += counts & fields;
    met->odd += counts >> 4 & fields;
}

/* Adds the counts of a warp's threads to s_counts. */
static __device__ __forceinline__ void
add_met(const struct met_contexts &met, uint32_t *s_counts)
{
    const uint32_t fields = 0x00FF00FF;
    const unsigned lane = threadIdx.x % 32;
    /* Contexts 0 and 4, 1 and 5, 2 and 6, 3 and 7. */
    const uint32_t sum[4] = {
        __reduce_add_sync(FULL_WARP_MASK, met.even & fields),
        __reduce_add_sync(FULL_WARP_MASK, met.odd & fields),
        __reduce_add_sync(FULL_WARP_MASK, met.even >> 8 & fields),
        __reduce_add_sync(FULL_WARP_MASK, met.odd >> 8 & fields)};

    if (lane < TERP_NCONTEXTS) {
        const uint32_t low = lane & 1 ? sum[1] : sum[0];
        const uint32_t high = lane & 1 ? sum[3] : sum[2];
        const uint32_t n =
            (lane & 2 ? high : low) >> (lane & 4 ? 16 : 0) & 0xFFFF;
        if (n > 0)
            atomicAdd(&s_counts[lane], n);
    }
}

/* Adds a warp's counts to s_counts. Each lane has four bits per context. */
static __device__ __forceinline__ void
add_counts(uint32_t counts, uint32_t *s_counts)
{
    const uint32_t fields = 0x0F0F0F0F;
    const unsigned lane = threadIdx.x % 32;
    const uint32_t even = __reduce_add_sync(FULL_WARP_MASK, counts & fields);
    const uint32_t odd =
        __reduce_add_sync(FULL_WARP_MASK, counts >> 4 & fields);

    static_assert(32 * 4 <= UINT8_MAX,
                  "A warp's count of a context has eight bits.");
    if (lane < TERP_NCONTEXTS) {
        const uint32_t n =
            (lane % 2 == 0 ? even : odd) >> (8 * (lane / 2)) & 0xFF;
        if (n > 0)
            atomicAdd(&s_counts[lane], n);
    }
}

/* Counts the marks of points [begin, end) of each lane of a warp, by groups. */
static __device__ __forceinline__ void
count_groups(uint32_t marks, unsigned begin, unsigned end, bool has_specials,
             uint32_t s_counts[TERP_NGROUPS])
{
    uint32_t counts = 0, nspecials = 0;

#pragma unroll
    for (unsigned k = 0; k < 4; k++) {
        const unsigned mark = k >= begin && k < end
                                  ? marks >> (8 * k) & 63
                                  : (unsigned)CONTEXT_SPECIAL_MARK;
        counts += (uint32_t)((uint64_t)1 << mark);
        nspecials += k >= begin && k < end && mark == CONTEXT_SPECIAL_MARK;
    }
    add_counts(counts, s_counts);
    if (!has_specials)
        return;
    nspecials = __reduce_add_sync(FULL_WARP_MASK, nspecials);
    if (threadIdx.x % 32 == 0 && nspecials > 0)
        atomicAdd(&s_counts[TERP_GROUP_SPECIALS], nspecials);
}

/* Stores the marks of `n` points of a row. */
static __device__ __forceinline__ void
store_marks(uint8_t *to, uint32_t marks, unsigned n)
{
    if (n == 4 && (uintptr_t)to % 4 == 0) {
        *(uint32_t *)to = marks;
    } else {
#pragma unroll 1
        for (unsigned k = 0; k < n; k++)
            to[k] = (uint8_t)(marks >> (8 * k));
    }
}

/* Counts the marks of `n` points; the first one is `offset` symbols behind the
 * part's first symbol. Points of the part's first tile are counted in
 * s_counts[0], points of the next tile in s_counts[1]. */
static __device__ __forceinline__ void
count_marks(const struct context_part &part, uint32_t offset, uint32_t marks,
            unsigned n, bool has_specials, uint32_t s_counts[2][TERP_NGROUPS])
{
    const unsigned left = part.left > offset ? part.left - offset : 0;
    const unsigned nfirst = min(n, left);

    count_groups(marks, 0, nfirst, has_specials, s_counts[0]);
    if (__any_sync(FULL_WARP_MASK, nfirst < n))
        count_groups(marks, nfirst, n, has_specials, s_counts[1]);
}

template <typename T>
static __device__ __forceinline__ bool
has_special_value(const struct cuda_chunk &chunk, uint64_t at)
{
    return is_special(((const T *)chunk.src)[at], fills_of<T>(chunk));
}

/* Gives special points among `n` points their mark. The first point is at `at`
 * in C order, and neighbours are `step` apart. Few chunks have special points,
 * so the function is not inlined. */
static __device__ __attribute__((noinline)) uint32_t
mark_specials(const uint64_t *specials, const struct cuda_chunk *chunk,
              int value_nbytes, uint64_t at, uint64_t step, unsigned n,
              uint32_t marks)
{
#pragma unroll 1
    for (unsigned k = 0; k < n; k++, at += step) {
        bool special;
        if (specials != NULL)
            special = specials[at / 64] >> (at % 64) & 1;
        else if (value_nbytes == 4)
            special = has_special_value<float>(*chunk, at);
        else
            special = has_special_value<double>(*chunk, at);
        if (special)
            marks = (marks & ~(0xFFu << (8 * k))) |
                    (uint32_t)CONTEXT_SPECIAL_MARK << (8 * k);
    }
    return marks;
}

/* Returns the marks of `n` points of a class, with special points marked.
 * Copies lorenzo's symbols to the order of splines. */
static __device__ __forceinline__ uint32_t
finish_points(const struct find_view &view, const struct context_level &level,
              const struct context_region &r, const struct context_group &group,
              unsigned odd, uint64_t first, unsigned n, uint32_t marks)
{
    const struct raster_points points = raster_points_of(level, r, group, odd);

    if (view.has_specials)
        marks = mark_specials(view.specials, view.chunk, view.value_nbytes,
                              raster_begin(view.layout, points), points.step, n,
                              marks);
    if (view.is_raster) {
        const struct tiled_row row = raster_row(view.layout, points);
#pragma unroll 1
        for (unsigned k = 0; k < n; k++)
            view.to[first + k] = view.symbols[tiled_at(
                row, view.layout->rank, view.layout->dims[0],
                points.at[0] + k * points.step)];
    }
    return marks;
}

/* The bytes of met_contexts do not overflow: the assertion bounds the points of
 * a class that a thread has. */
static_assert(TERP_TILE_NSYMBOLS / CONTEXT_NTHREADS <= UINT8_MAX,
              "A region has no more groups than a box, a tile's points.");

/* Makes all contexts of the region. A thread takes a group of four even points
 * at a time, and the four points of each class beside it. `rank` is a brick's.
 * `plain`: the chunk has neither special values nor lorenzo's symbols; the
 * loop over classes is then unrolled, and where all points of a class are in
 * one tile, each thread counts its own, and warps add the counts at the end.
 * Example: make_contexts<3, true> is for plain chunks of three dimensions. All
 * threads of a block call it together. */
template <int rank, bool plain>
static __device__ __forceinline__ void
make_contexts(const struct find_view &view, const struct context_level &level,
              const struct context_region &r, struct find_shared *s)
{
    constexpr unsigned NSETS = 1u << (rank - 1);
    struct met_contexts met[2 * NSETS] = {};

#pragma unroll 1
    for (uint32_t i = threadIdx.x; i - threadIdx.x < level.ngroups;
         i += CONTEXT_NTHREADS) {
        const struct context_group group = context_group_of(level, r, i);
        struct weight_sums sums[NSETS];
        uint32_t step[rank] = {}, at = group.c[0] / 4;
        /* Beyond the far end, a corner is replaced by the one before it. */
#pragma unroll
        for (int d = 1; d < rank; d++) {
            step[d] = group.c[d] + 1 < r.neven[d] ? level.stride[d] : 0;
            at += group.c[d] * level.stride[d];
        }
        at += group.brick * level.stride[TERP_NDIMS];
        sum_weights<rank>(s->weights + at, step, sums);
#pragma unroll(plain ? 2 * NSETS : 1)
        for (unsigned odd = 1; odd < 2 * NSETS; odd++) {
            const struct weight_sums &sum = sums[odd / 2];
            const unsigned shift =
                TERP_NDIMS - (unsigned)__popc(odd & (2 * NSETS - 2));
            const struct context_part &part = s->part[odd];
            if (part.left == 0)
                continue;
            const unsigned n = context_group_size(level, r, group, odd);
            const uint32_t offset = context_group_offset(part, group);
            uint32_t even_sums = sum.even << shift;
            uint32_t odd_sums = sum.odd << shift;
            if (odd & 1) {
                const uint32_t behind = __funnelshift_r(sum.even, sum.next, 16);
                even_sums = (sum.even + sum.odd) << (shift - 1);
                odd_sums = (sum.odd + behind) << (shift - 1);
            }
            uint32_t marks = contexts_of(even_sums, odd_sums);
            if (!plain)
                marks = finish_points(view, level, r, group, odd,
                                      part.at + offset, n, marks);
            store_marks(view.contexts + part.at + offset, marks, n);
            if (plain && s->is_in_tile[odd])
                meet_contexts(marks, n, &met[odd]);
            else
                count_marks(part, offset, marks, n, view.has_specials,
                            s->count[odd]);
        }
    }
#pragma unroll
    for (unsigned odd = 1; plain && odd < 2 * NSETS; odd++)
        if (s->is_in_tile[odd])
            add_met(met[odd], s->count[odd][0]);
}

/* ---- a region ---- */

/* Adds the region's counts to the chunk's; a thread takes one count at a time.
 * Has a barrier. */
static __device__ __forceinline__ void
add_to_chunk(const struct cuda_batch &batch, int l, struct find_shared *s)
{
    const struct cuda_context_counts counts = context_counts(batch, l);
    const uint64_t nspans = cuda_context_nspans(batch.ntiles);

#pragma unroll 1
    for (unsigned i = threadIdx.x; i < sizeof s->count / sizeof(uint32_t);
         i += CONTEXT_NTHREADS) {
        const unsigned group = i % TERP_NGROUPS;
        const unsigned next = i / TERP_NGROUPS % 2;
        const struct context_part &part = s->part[i / (2 * TERP_NGROUPS)];
        const uint32_t n = ((const uint32_t *)s->count)[i];
        if (n == 0)
            continue;
        const uint64_t tile = part.at / TERP_TILE_NSYMBOLS + next;
        atomicAdd(&counts.tile[group * batch.ntiles + tile], n);
        atomicAdd(
            &counts.span[group * nspans + tile / CUDA_CONTEXT_SPAN_NTILES], n);
        atomicAdd(&s->total[group], n);
    }
    __syncthreads();
    if (threadIdx.x < TERP_NGROUPS && s->total[threadIdx.x] > 0)
        atomicAdd(&counts.total[threadIdx.x],
                  (unsigned long long)s->total[threadIdx.x]);
}

/* The arrays of a chunk. A decoder reads symbols in the order of splines for
 * either prediction; an encoder reads lorenzo's in their own order. */
template <bool decode>
static __device__ __forceinline__ struct find_view
find_view_of(const struct cuda_batch &batch, const struct cuda_chunk &chunk)
{
    const bool is_lorenzo = terp_prediction_is_raster(chunk.prediction);
    const uint64_t *specials = region<uint64_t>(batch, batch.at.mask);
    uint16_t *symbols = class_symbols(batch, chunk);

    return {batch.d_layout,
            &chunk,
            decode ? symbols : region<uint16_t>(batch, batch.at.symbols),
            !decode && is_lorenzo,
            symbols,
            region<uint8_t>(batch, batch.at.contexts),
            chunk.has_specials,
            decode || is_lorenzo ? specials : NULL,
            batch.value_nbytes,
            chunk.model.wide};
}

/* Finds the contexts of region `block` of the level. The symbols of all coarser
 * levels must be there. All threads of a block call it, and need a barrier
 * before they use `s` again. find_levels explains the template parameters. */
template <bool decode, int rank>
static __device__ __forceinline__ void
find_contexts(const struct cuda_batch &batch, const struct cuda_chunk &chunk,
              const struct context_level &level, uint32_t block,
              struct find_shared *s)
{
    const struct find_view view = find_view_of<decode>(batch, chunk);
    const struct terp_layout *layout = batch.d_layout;
    const struct terp_level &shape = layout->level[level.l];
    const struct context_region r =
        context_region_of(shape, layout->nbricks, level, block);

    if (threadIdx.x < TERP_NCLASSES) {
        const struct context_part part =
            context_part_of(shape, rank, r, threadIdx.x);
        s->part[threadIdx.x] = part;
        s->is_in_tile[threadIdx.x] =
            part.left >= part.stride[TERP_NDIMS] * r.nbricks;
    }
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < sizeof s->count / sizeof(uint32_t);
         i += CONTEXT_NTHREADS)
        ((uint32_t *)s->count)[i] = 0;
    if (threadIdx.x < TERP_NGROUPS)
        s->total[threadIdx.x] = 0;
    if (level.l < layout->nlevels && view.is_raster)
        weigh_level_above<rank, true>(view, level, r, s->weights);
    else if (level.l < layout->nlevels)
        weigh_level_above<rank, false>(view, level, r, s->weights);
    weigh_coarse(view, level, r, s->weights);
    __syncthreads();
    if (view.has_specials || view.is_raster)
        make_contexts<rank, false>(view, level, r, s);
    else
        make_contexts<rank, true>(view, level, r, s);
    __syncthreads();
    add_to_chunk(batch, level.l, s);
}
