/* Floor 3: contexts of a level's points, by the weights of its even points.
 *
 * A block has a region of the lattice of even points. For each of these it
 * finds the weight in the symbols of coarser levels; then the contexts of all
 * points between these and the next ones, of all classes, four points of a row
 * at a time. */
#ifndef TERP_CUDA_CONTEXT_FIND_CUH
#define TERP_CUDA_CONTEXT_FIND_CUH

#include "cuda_context_order.cuh"
#include "cuda_order.cuh"

#define CONTEXT_NTHREADS 256

/* Weights of a region, four a word, and those next to it on the far sides: of
 * 9^4 points, three words a row; other regions need fewer. */
#define CONTEXT_MAX_NWORDS (9 * 9 * 9 * 3)

/* Contexts are stored four times as large: how far to shift, so that each has
 * four bits of a word. */
#define CONTEXT_SHIFT 2

/* How blocks share a level. Regions lie in one box each, or hold several bricks
 * that are smaller. [d]: dimension, then bricks. Reciprocals are for
 * divide_by. */
struct context_level {
    int l;
    uint64_t begin, end; /* positions of its symbols */
    uint32_t nblocks;
    uint32_t nregions[TERP_NDIMS]; /* along a dimension */
    uint32_t extent[TERP_NDIMS + 1];
    uint32_t ngroups; /* of four points, of a region */
    uint32_t groups_reciprocal[TERP_NDIMS];
    uint32_t nwords;                 /* of weights */
    uint32_t stride[TERP_NDIMS + 1]; /* in words; [0]: not used */
    uint32_t words_extent[TERP_NDIMS], words_reciprocal[TERP_NDIMS];
    uint32_t nhalves; /* of weights whose coordinates are all even */
    uint32_t halves_extent[TERP_NDIMS], halves_reciprocal[TERP_NDIMS];
};

/* Levels that have contexts, the coarsest first. */
struct context_work {
    int rank;
    uint64_t nbricks;
    uint64_t ncoarse; /* symbols before all of these */
    int nlevels;
    struct context_level level[TERP_NCONTEXT_LEVELS];
};

/* Where the symbols of a class of a region stand: in one box, or in those of
 * bricks that follow each other. */
struct alignas(16) context_part {
    uint64_t at;                     /* of the first */
    uint32_t stride[TERP_NDIMS + 1]; /* [0]: 1 */
    uint32_t left; /* symbols up to the end of the first one's tile; 0: none */
};

struct find_shared {
    uint32_t weights[CONTEXT_MAX_NWORDS];
    struct context_part part[TERP_NCLASSES];
    /* Of the first tile that a class is in, and of the next. */
    uint32_t count[TERP_NCLASSES][2][TERP_NCONTEXTS];
    uint32_t total[TERP_NCONTEXTS];
};
static_assert(TERP_NCLASSES * 2 * TERP_NCONTEXTS == CONTEXT_NTHREADS,
              "a thread a count");

/* A block's region. */
struct context_region {
    uint32_t low[TERP_NDIMS];
    uint64_t brick;
    /* Even and odd points from there on, and bricks. */
    uint32_t neven[TERP_NDIMS], nodd[TERP_NDIMS], nbricks;
};

/* A level's counts. */
static __device__ __forceinline__ struct cuda_context_counts
context_counts(const struct cuda_batch &batch, int l)
{
    const uint64_t ngroups = cuda_context_ngroups(batch.ntiles);
    unsigned long long *totals =
        region<unsigned long long>(batch, blockIdx.y, batch.at.context_counts);
    uint32_t *groups =
        (uint32_t *)(totals + TERP_NCONTEXT_LEVELS * TERP_NCONTEXTS);
    uint32_t *tiles = groups + TERP_NCONTEXT_LEVELS * TERP_NCONTEXTS * ngroups;
    const unsigned i = (unsigned)(l - 1) * TERP_NCONTEXTS;

    return {tiles + i * batch.ntiles, groups + i * ngroups, totals + i};
}

/* ---- weights ---- */

static __device__ __forceinline__ uint32_t
weight_of_symbol(unsigned symbol)
{
    const int code = (int)symbol - TERP_RADIUS;
    return TERP_CONTEXT_UNIT *
           min((unsigned)abs(code), (unsigned)TERP_CONTEXT_MAX_CODE);
}

/* Stores the weight of the region's even point x, or of the one next to it, of
 * a row. Beyond the far end stands the last one again. */
static __device__ __forceinline__ void
store_weight(const struct context_level &level, const struct context_region &r,
             uint32_t *row, uint32_t x, uint32_t weight)
{
    ((uint8_t *)row)[x] = (uint8_t)weight;
    if (x + 1 == r.neven[0] && x < level.extent[0])
        ((uint8_t *)row)[x + 1] = (uint8_t)weight;
}

/* Those of the level above: points that have an odd coordinate. */
static __device__ __forceinline__ void
weigh_level_above(const struct terp_layout *layout, int rank,
                  const struct context_level &level,
                  const struct context_region &r, const uint16_t *symbols,
                  uint32_t *s_weights)
{
    const struct terp_level *above = &layout->level[level.l + 1];

#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < level.nwords; i += CONTEXT_NTHREADS) {
        uint64_t extent[TERP_NDIMS], at[TERP_NDIMS];
        uint32_t left = i, odd = 0, x = 0;
        bool inside = true;
#pragma unroll
        for (int d = 0; d < TERP_NDIMS; d++) {
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
            at[d] = c >> 1;
            extent[d] = c & 1 ? above->nodd[d] : above->neven[d];
        }
        if (!inside || left >= r.nbricks || x >= r.neven[0])
            continue;
        const struct tiled_row row =
            tiled_row_at(rank, extent, at, r.brick + left);
        const uint64_t half = (r.low[0] + x) / 2;
#pragma unroll
        for (unsigned k = 0; k < 4; k++) {
            const uint64_t n0 = k % 2 == 0 ? above->neven[0] : above->nodd[0];
            if ((odd | k % 2) == 0 || x + k >= r.neven[0] ||
                x + k > level.extent[0])
                continue;
            const uint64_t p = above->class_at[odd | k % 2] +
                               tiled_at(row, rank, n0, half + k / 2);
            store_weight(level, r, s_weights + (i - x / 4), x + k,
                         weight_of_symbol(symbols[p]));
        }
    }
}

/* Those of coarser levels, and anchors. */
static __device__ __forceinline__ void
weigh_coarse(const struct terp_layout *layout, int rank,
             const struct context_level &level, const struct context_region &r,
             const uint16_t *symbols, uint32_t *s_weights)
{
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < level.nhalves; i += CONTEXT_NTHREADS) {
        uint32_t at[TERP_NDIMS], left = i, any = 0, x = 0, words = 0;
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
        int shift = layout->nlevels - level.l;
        uint64_t p = brick;
        if (any != 0) {
            shift = __ffs((int)any) - 1;
            const struct terp_level *coarse =
                &layout->level[level.l + 1 + shift];
            uint64_t extent[TERP_NDIMS], class_at[TERP_NDIMS];
            unsigned odd = 0;
#pragma unroll
            for (int d = 0; d < TERP_NDIMS; d++) {
                const uint32_t c = at[d] >> shift;
                odd |= (c & 1) << d;
                class_at[d] = c >> 1;
                extent[d] = c & 1 ? coarse->nodd[d] : coarse->neven[d];
            }
            p = coarse->class_at[odd] +
                tiled_at(tiled_row_at(rank, extent, class_at, brick), rank,
                         extent[0], class_at[0]);
        }
        store_weight(level, r, s_weights + words, x,
                     weight_of_symbol(symbols[p]) >> min(shift, 31));
    }
}

/* ---- contexts ---- */

/* Of four points, a byte each, by their sums of corners' weights: of points 0
 * and 2, and of points 1 and 3. As terp_context_of does. */
static __device__ __forceinline__ uint32_t
contexts_of(uint32_t even, uint32_t odd)
{
    const uint32_t ones = 0x00010001;
    uint32_t contexts = 0;

#pragma unroll
    for (int k = 0; k < 2; k++) {
        /* 2 for 0, 4 to 7 for 1 to 7: its highest bit tells the context. */
        uint32_t sum = k == 0 ? even : odd;
        sum |= ((sum + 0x7FFF * ones) & 0x8000 * ones) >> 13 | 2 * ones;
        const uint32_t low = 31 - (uint32_t)__clz((int)(sum & 0xFFFF));
        const uint32_t high = 31 - (uint32_t)__clz((int)(sum >> 16));
        contexts |= (min(low, 8u) | min(high, 8u) << 16) << (8 * k);
    }
    return (contexts - 0x01010101) << CONTEXT_SHIFT;
}

/* Sums of weights: of points 0 and 2, of points 1 and 3, of point 4. */
struct weight_sums {
    uint32_t even, odd, next;
};

/* Of all corners of a set of odd dimensions but the fastest: a bit of `odd` for
 * each of the others. */
static __device__ __forceinline__ struct weight_sums
sum_weights(const uint32_t *at, const uint32_t step[TERP_NDIMS], unsigned odd)
{
    const uint32_t fields = 0x00FF00FF;
    struct weight_sums sums = {0, 0, 0};

#pragma unroll 1
    for (unsigned corner = odd;; corner = (corner - 1) & odd) {
        const uint32_t *from = at + (corner & 1 ? step[1] : 0) +
                               (corner & 2 ? step[2] : 0) +
                               (corner & 4 ? step[3] : 0);
        const uint32_t four = from[0];
        sums.even += four & fields;
        sums.odd += four >> 8 & fields;
        sums.next += from[1] & 0xFF;
        if (corner == 0)
            return sums;
    }
}

/* Adds a warp's counts, four bits a context in each lane. */
static __device__ __forceinline__ void
add_counts(uint32_t counts, uint32_t *s_counts)
{
    const uint32_t fields = 0x0F0F0F0F;
    const unsigned lane = threadIdx.x % 32;
    const uint32_t even = __reduce_add_sync(0xFFFFFFFF, counts & fields);
    const uint32_t odd = __reduce_add_sync(0xFFFFFFFF, counts >> 4 & fields);

    static_assert(32 * 4 <= UINT8_MAX, "a warp's counts of a context");
    if (lane < TERP_NCONTEXTS) {
        const uint32_t n =
            (lane % 2 == 0 ? even : odd) >> (8 * (lane / 2)) & 0xFF;
        if (n > 0)
            atomicAdd(&s_counts[lane], n);
    }
}

/* Stores contexts of `n` points in a row, and counts these. */
static __device__ __forceinline__ void
store_contexts(const struct context_part &part, uint32_t offset,
               uint32_t contexts, unsigned n, uint8_t *to,
               uint32_t s_counts[2][TERP_NCONTEXTS])
{
    uint32_t counts = 0, of_next = 0;

    if (n == 4 && (part.at + offset) % 4 == 0) {
        *(uint32_t *)(to + offset) = contexts;
    } else {
#pragma unroll 1
        for (unsigned k = 0; k < n; k++)
            to[offset + k] = (uint8_t)(contexts >> (8 * k));
    }
#pragma unroll
    for (unsigned k = 0; k < 4; k++)
        counts += k < n ? 1u << (contexts >> (8 * k) & 31) : 0;
    if (__any_sync(0xFFFFFFFF, n > 0 && offset + n > part.left)) {
#pragma unroll
        for (unsigned k = 0; k < 4; k++)
            if (k < n && offset + k >= part.left)
                of_next += 1u << (contexts >> (8 * k) & 31);
        add_counts(of_next, s_counts[1]);
    }
    add_counts(counts - of_next, s_counts[0]);
}

/* All threads together, in turns of a group of four points each. */
static __device__ __forceinline__ void
make_contexts(int rank, const struct context_level &level,
              const struct context_region &r, struct find_shared *s,
              uint8_t *contexts)
{
#pragma unroll 1
    for (uint32_t first = 0; first < level.ngroups; first += CONTEXT_NTHREADS) {
        uint32_t left = first + threadIdx.x, c[TERP_NDIMS], step[TERP_NDIMS];
        bool inside = left < level.ngroups;
        unsigned odd_inside = 0;
        left = inside ? left : 0;
#pragma unroll
        for (int d = 0; d < TERP_NDIMS; d++) {
            const uint32_t next = divide_by(level.groups_reciprocal[d], left);
            const uint32_t extent =
                d == 0 ? (level.extent[0] + 3) / 4 : level.extent[d];
            c[d] = left - next * extent;
            left = next;
            step[d] = 0;
            if (d == 0)
                continue;
            inside &= c[d] < r.neven[d];
            odd_inside |= (unsigned)(c[d] < r.nodd[d]) << (d - 1);
            /* A corner beyond the far end is the one before it. */
            step[d] = c[d] + 1 < r.neven[d] ? level.stride[d] : 0;
        }
        inside &= left < r.nbricks;
        const uint32_t x = 4 * c[0];
        const uint32_t row = c[1] * level.stride[1] + c[2] * level.stride[2] +
                             c[3] * level.stride[3] + left * level.stride[4];
        /* The region may be cut short in a box. */
        const uint32_t most = x < level.extent[0] ? level.extent[0] - x : 0;
#pragma unroll 1
        for (unsigned odd = 0; odd < 1u << (rank - 1); odd++) {
            const struct weight_sums sums =
                sum_weights(s->weights + row + c[0], step, odd);
            const unsigned shift = TERP_NDIMS - (unsigned)__popc(odd);
            const bool has = inside && (odd & ~odd_inside) == 0;
#pragma unroll 1
            for (unsigned x_odd = 0; x_odd < 2; x_odd++) {
                const struct context_part &part = s->part[2 * odd | x_odd];
                const uint32_t nx = x_odd ? r.nodd[0] : r.neven[0];
                const uint32_t n =
                    has && x < nx ? min(min(nx - x, most), 4u) : 0;
                uint32_t even_sums = sums.even << shift;
                uint32_t odd_sums = sums.odd << shift;
                if (part.left == 0)
                    continue;
                if (x_odd) {
                    const uint32_t behind =
                        __funnelshift_r(sums.even, sums.next, 16);
                    even_sums = (sums.even + sums.odd) << (shift - 1);
                    odd_sums = (sums.odd + behind) << (shift - 1);
                }
                store_contexts(
                    part,
                    x + c[1] * part.stride[1] + c[2] * part.stride[2] +
                        c[3] * part.stride[3] + left * part.stride[4],
                    contexts_of(even_sums, odd_sums), n, contexts + part.at,
                    s->count[2 * odd | x_odd]);
            }
        }
    }
}

/* ---- a region ---- */

static __device__ __forceinline__ struct context_region
context_region_of(const struct terp_level &shape, uint64_t nbricks,
                  const struct context_level &level, uint32_t block)
{
    struct context_region r;

#pragma unroll
    for (int d = 0; d < TERP_NDIMS; d++) {
        const uint32_t next = block / level.nregions[d];
        r.low[d] = (block - next * level.nregions[d]) * level.extent[d];
        block = next;
        r.neven[d] = (uint32_t)shape.neven[d] - r.low[d];
        r.nodd[d] = (uint32_t)shape.nodd[d] > r.low[d]
                        ? (uint32_t)shape.nodd[d] - r.low[d]
                        : 0;
    }
    r.brick = (uint64_t)block * level.extent[TERP_NDIMS];
    r.nbricks = (uint32_t)min_u64(nbricks - r.brick, level.extent[TERP_NDIMS]);
    return r;
}

static __device__ __forceinline__ struct context_part
context_part_of(const struct terp_level &shape, int rank,
                const struct context_region &r, unsigned odd)
{
    const uint64_t box = (uint64_t)1 << box_shift(rank);
    uint64_t extent[TERP_NDIMS], at[TERP_NDIMS];
    struct context_part part = {};
    uint32_t stride = 1;
    bool some = odd != 0;

#pragma unroll
    for (int d = 0; d < TERP_NDIMS; d++) {
        extent[d] = terp_class_extent(&shape, odd, d);
        at[d] = r.low[d];
        some &= at[d] < extent[d];
        part.stride[d] = stride;
        stride *= (uint32_t)min_u64(box, extent[d] - (at[d] & ~(box - 1)));
    }
    part.stride[TERP_NDIMS] = stride;
    if (!some)
        return part;
    part.at =
        shape.class_at[odd] + tiled_at(tiled_row_at(rank, extent, at, r.brick),
                                       rank, extent[0], at[0]);
    part.left = TERP_TILE_NSYMBOLS - part.at % TERP_TILE_NSYMBOLS;
    return part;
}

/* Thread i has a count of a class, of a tile, of a context. */
static __device__ __forceinline__ void
add_to_chunk(const struct cuda_batch &batch, int l, struct find_shared *s)
{
    const struct cuda_context_counts counts = context_counts(batch, l);
    const uint64_t ngroups = cuda_context_ngroups(batch.ntiles);
    const unsigned i = threadIdx.x, context = i % TERP_NCONTEXTS;
    const unsigned next = i / TERP_NCONTEXTS % 2;
    const struct context_part &part = s->part[i / (2 * TERP_NCONTEXTS)];
    const uint32_t n = ((const uint32_t *)s->count)[i];

    if (n > 0) {
        const uint64_t tile = part.at / TERP_TILE_NSYMBOLS + next;
        atomicAdd(&counts.tile[context * batch.ntiles + tile], n);
        atomicAdd(
            &counts.group[context * ngroups + tile / CUDA_CONTEXT_GROUP_NTILES],
            n);
        atomicAdd(&s->total[context], n);
    }
    __syncthreads();
    if (i < TERP_NCONTEXTS && s->total[i] > 0)
        atomicAdd(&counts.total[i], (unsigned long long)s->total[i]);
}

/* Block number `block` of the level, whose coarser levels have their symbols.
 * The storage may be used again after the next barrier. */
static __device__ __forceinline__ void
find_contexts(const struct cuda_batch &batch, const struct context_work &work,
              const struct context_level &level, uint32_t block,
              struct find_shared *s)
{
    const struct terp_layout *layout = batch.d_layout;
    const struct terp_level &shape = layout->level[level.l];
    const uint16_t *symbols =
        region<uint16_t>(batch, blockIdx.y, batch.at.symbols);
    const struct context_region r =
        context_region_of(shape, work.nbricks, level, block);

    if (threadIdx.x < TERP_NCLASSES)
        s->part[threadIdx.x] =
            context_part_of(shape, work.rank, r, threadIdx.x);
    ((uint32_t *)s->count)[threadIdx.x] = 0;
    if (threadIdx.x < TERP_NCONTEXTS)
        s->total[threadIdx.x] = 0;
    if (level.l < layout->nlevels)
        weigh_level_above(layout, work.rank, level, r, symbols, s->weights);
    weigh_coarse(layout, work.rank, level, r, symbols, s->weights);
    __syncthreads();
    make_contexts(work.rank, level, r, s,
                  region<uint8_t>(batch, blockIdx.y, batch.at.contexts));
    __syncthreads();
    add_to_chunk(batch, level.l, s);
}

#endif
