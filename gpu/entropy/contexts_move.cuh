/* Moves a tile's symbols of a level from tile order to context order or back,
 * after all contexts of the level are counted. */
#pragma once

#include "gpu/block/warp.cuh"
#include "gpu/entropy/contexts_find.cuh"
#include "gpu/entropy/decode_bits.cuh"

/* Symbols of a thread, and warps of a block. */
#define CONTEXT_MOVE_NSYMBOLS (TERP_TILE_NSYMBOLS / CONTEXT_NTHREADS)
#define CONTEXT_MOVE_NWARPS (CONTEXT_NTHREADS / 32)
static_assert(
    CONTEXT_MOVE_NSYMBOLS == 16,
    "A thread loads symbols in two units of 16 bytes, and contexts in one.");
static_assert(CONTEXT_MOVE_NWARPS * 4 == 32,
              "Each lane has a pair of a warp's counts.");

/* A run: the tile's symbols of one group, which follow each other in the region
 * `coded`. They are copied as 32-bit words of two symbols; the first and the
 * last word may share a symbol with another tile's run. The words of all runs
 * of a tile are numbered from 0. */
struct alignas(16) context_run {
    int64_t words_at; /* word i of the tile is word words_at + i of `coded` */
    int first;        /* word i of the tile begins with sorted symbol
                         first + 2 i, which may lie outside the run */
    uint16_t begin, end; /* the run's symbols among the tile's sorted ones */
};

struct move_shared {
    /* The tile's symbols, sorted by groups. Symbol i is at i + i / 16 * 2, so
     * that threads whose 16 symbols are all of one group access different
     * banks. */
    uint16_t sorted[TERP_TILE_NSYMBOLS / 16 * 18];
    /* By group and thread: where the thread's next symbol of the group is among
     * the sorted ones. */
    uint16_t next[TERP_NGROUPS][CONTEXT_NTHREADS];
    uint32_t warp[CONTEXT_MOVE_NWARPS][4]; /* a warp's counts, in pairs */
    uint64_t at[TERP_NGROUPS];             /* a run's first symbol in `coded` */
    struct context_run run[TERP_NGROUPS];
    uint32_t words_end[TERP_NGROUPS]; /* end of a run's words */
};

static __device__ __forceinline__ unsigned
sorted_place(unsigned i)
{
    return i + i / 16 * 2;
}

/* Counts of the contexts, 16 bits each: pair[0] to pair[3] hold contexts 0, 2,
 * 1, 3 in their low halves and 4, 6, 5, 7 in their high halves. Symbols that
 * are not counted belong to special points. */
struct context_pairs {
    uint32_t pair[4];
};

static __device__ __forceinline__ unsigned
pair_of_context(unsigned context)
{
    return (context & 1) << 1 | (context >> 1 & 1);
}

/* The count of a context, which may differ between lanes. */
static __device__ __forceinline__ uint32_t
count_of(const struct context_pairs &pairs, unsigned context)
{
    const uint32_t even = context & 2 ? pairs.pair[1] : pairs.pair[0];
    const uint32_t odd = context & 2 ? pairs.pair[3] : pairs.pair[2];
    return (context & 1 ? odd : even) >> (context & 4 ? 16 : 0) & 0xFFFF;
}

/* ---- places of symbols ---- */

/* Finds s->at, the place in `coded` of the tile's first symbol of each group; a
 * warp takes a group at a time. Counts are read as volatile: in restore_coarse
 * the same launch has made them. */
static __device__ __forceinline__ void
find_begins(const struct cuda_batch &batch, const struct context_level &level,
            uint64_t tile, struct move_shared *s)
{
    const struct cuda_context_counts counts = context_counts(batch, level.l);
    const uint64_t nspans = cuda_context_nspans(batch.ntiles);
    const uint64_t span = tile / CUDA_CONTEXT_SPAN_NTILES;
    const unsigned lane = threadIdx.x % 32;

#pragma unroll 1
    for (unsigned group = threadIdx.x / 32; group < TERP_NGROUPS;
         group += CONTEXT_MOVE_NWARPS) {
        const volatile uint32_t *spans = counts.span + group * nspans;
        const volatile uint32_t *tiles = counts.tile + group * batch.ntiles;
        uint64_t sum = 0;
        if (lane < group)
            sum = ((const volatile unsigned long long *)counts.total)[lane];
#pragma unroll 2
        for (uint64_t i = lane; i < span; i += 32)
            sum += spans[i];
#pragma unroll 4
        for (uint64_t i = span * CUDA_CONTEXT_SPAN_NTILES + lane; i < tile;
             i += 32)
            sum += tiles[i];
        sum = warp_sum(sum);
        if (lane == 0)
            s->at[group] = level.begin + sum;
    }
}

/* The contexts of a thread's symbols, a byte each, as shifts (CONTEXT_SHIFT).
 * Symbols of coarser levels stand before the level's and count as context 0;
 * symbols of finer levels stand behind and count as special points. So sorting
 * does not move either, and runs leave them out. */
struct thread_contexts {
    uint32_t four[CONTEXT_MOVE_NSYMBOLS / 4];
};

static __device__ __forceinline__ struct thread_contexts
load_contexts(const uint8_t *contexts, unsigned begin, unsigned end)
{
    const unsigned first = CONTEXT_MOVE_NSYMBOLS * threadIdx.x;
    struct thread_contexts loaded = {};

    if (first < end && first + CONTEXT_MOVE_NSYMBOLS > begin) {
        const uint4 all = ((const uint4 *)contexts)[threadIdx.x];
        loaded = {{all.x, all.y, all.z, all.w}};
    }
    if (first >= begin && first + CONTEXT_MOVE_NSYMBOLS <= end)
        return loaded;
#pragma unroll
    for (unsigned i = 0; i < CONTEXT_MOVE_NSYMBOLS; i++) {
        const uint32_t byte = 0xFFu << (8 * (i % 4));
        uint32_t &four = loaded.four[i / 4];
        if (first + i < begin)
            four &= ~byte;
        if (first + i >= end)
            four = (four & ~byte) | (uint32_t)CONTEXT_SPECIAL_MARK
                                        << (8 * (i % 4));
    }
    return loaded;
}

/* The context of symbol `i`, as a shift. */
static __device__ __forceinline__ unsigned
shift_at(const struct thread_contexts &contexts, unsigned i)
{
    return contexts.four[i / 4] >> (8 * (i % 4)) & 63;
}

static __device__ __forceinline__ struct context_pairs
count_contexts(const struct thread_contexts &contexts)
{
    const uint32_t nibbles = 0x0F0F0F0F, fields = 0x00FF00FF;
    uint32_t half[2] = {0, 0};

#pragma unroll
    for (unsigned i = 0; i < CONTEXT_MOVE_NSYMBOLS; i++)
        half[i / 8] += (uint32_t)((uint64_t)1 << shift_at(contexts, i));
    static_assert(CONTEXT_MOVE_NSYMBOLS / 2 < 16, "A count has four bits.");
    const uint32_t even = (half[0] & nibbles) + (half[1] & nibbles);
    const uint32_t odd = (half[0] >> 4 & nibbles) + (half[1] >> 4 & nibbles);
    return {
        {even & fields, even >> 8 & fields, odd & fields, odd >> 8 & fields}};
}

/* Places among the tile's sorted symbols. */
struct sorted_places {
    struct context_pairs context; /* of the first symbol of each context */
    uint32_t special;             /* of the first special point */
};

/* Finds the places of the thread's first symbol of each group (own_ret), and
 * the tile's first (all_ret), from the counts of each thread. Has a barrier. */
static __device__ __forceinline__ void
scan_contexts(struct context_pairs counts, struct move_shared *s,
              struct sorted_places *own_ret, struct sorted_places *all_ret)
{
    const unsigned lane = threadIdx.x % 32;
    const unsigned warp = threadIdx.x / 32;
    struct context_pairs sum = counts;

#pragma unroll
    for (unsigned step = 1; step < 32; step *= 2)
#pragma unroll
        for (unsigned k = 0; k < 4; k++) {
            const uint32_t below =
                __shfl_up_sync(FULL_WARP_MASK, sum.pair[k], step);
            sum.pair[k] += lane >= step ? below : 0;
        }
    if (lane == 31)
#pragma unroll
        for (unsigned k = 0; k < 4; k++)
            s->warp[warp][k] = sum.pair[k];
    __syncthreads();

    /* Lane i has pair i % 4 of warp i / 4. */
    const uint32_t own = s->warp[lane / 4][lane % 4];
    uint32_t through = own;
#pragma unroll
    for (unsigned step = 4; step < 32; step *= 2) {
        const uint32_t below = __shfl_up_sync(FULL_WARP_MASK, through, step);
        through += lane >= step ? below : 0;
    }
    uint32_t before = 0; /* symbols of lower contexts, in both halves */
#pragma unroll
    for (unsigned i = 0; i < 4; i++) {
        const unsigned k = pair_of_context(i);
        all_ret->context.pair[k] = before;
        before += __shfl_sync(FULL_WARP_MASK, through, (int)(28 + k));
    }
    uint32_t nbefore = 0; /* of threads before: symbols that are not special */
#pragma unroll
    for (unsigned k = 0; k < 4; k++) {
        const uint32_t of_warp =
            __shfl_sync(FULL_WARP_MASK, through - own, (int)(4 * warp + k));
        const uint32_t of_threads = of_warp + sum.pair[k] - counts.pair[k];
        all_ret->context.pair[k] += before << 16;
        own_ret->context.pair[k] = all_ret->context.pair[k] + of_threads;
        nbefore += of_threads;
    }
    all_ret->special = (before & 0xFFFF) + (before >> 16);
    own_ret->special = all_ret->special + CONTEXT_MOVE_NSYMBOLS * threadIdx.x -
                       (nbefore & 0xFFFF) - (nbefore >> 16);
}

/* Makes the tile's runs: lane g of the first warp makes that of group g. The
 * level has the tile's symbols [first, end). */
static __device__ __forceinline__ void
make_runs(const struct sorted_places &begins, unsigned first, unsigned end,
          struct move_shared *s)
{
    const unsigned lane = threadIdx.x % 32;
    const unsigned group = min(lane, (unsigned)TERP_GROUP_SPECIALS);
    const unsigned run_begin = group == 0 ? first
                               : group == TERP_GROUP_SPECIALS
                                   ? begins.special
                                   : count_of(begins.context, group);
    const unsigned run_end = group == TERP_GROUP_SPECIALS ? end
                             : group + 1 == TERP_NCONTEXTS
                                 ? begins.special
                                 : count_of(begins.context, group + 1);
    const uint64_t at = s->at[group];
    const unsigned skipped = at % 2;
    const unsigned nwords = lane < TERP_NGROUPS && run_begin < run_end
                                ? (run_end - run_begin + skipped + 1) / 2
                                : 0;
    unsigned words_end = nwords;

    words_end = warp_inclusive_sum<2 * TERP_NCONTEXTS>(words_end);
    if (lane >= TERP_NGROUPS)
        return;
    const unsigned word = words_end - nwords;
    s->run[group] = {(int64_t)(at / 2) - word,
                     (int)run_begin - (int)(skipped + 2 * word),
                     (uint16_t)run_begin, (uint16_t)run_end};
    s->words_end[group] = words_end;
}

/* ---- symbols ---- */

/* Copies word `i` of the tile, two symbols, between shared memory and `coded`:
 * encoding to `coded`, decoding from it. Symbols of other runs in the word are
 * left alone. */
template <bool decode>
static __device__ __forceinline__ void
move_word(uint16_t *coded, const struct context_run &run, unsigned i,
          uint16_t *s_sorted)
{
    uint32_t *word = (uint32_t *)coded + (run.words_at + (int)i);
    const int at = run.first + 2 * (int)i;
    const bool has_low = at >= run.begin, has_high = at + 1 < run.end;
    uint16_t *low = &s_sorted[sorted_place((unsigned)max(at, 0))];
    uint16_t *high = &s_sorted[sorted_place((unsigned)(at + 1))];

    if (decode) {
        const uint32_t two = *word;
        if (has_low)
            *low = (uint16_t)two;
        if (has_high)
            *high = (uint16_t)(two >> 16);
    } else if (has_low && has_high) {
        *word = (uint32_t)*high << 16 | *low;
    } else if (has_low) {
        ((uint16_t *)word)[0] = *low;
    } else {
        ((uint16_t *)word)[1] = *high;
    }
}

/* Copies all runs. Each warp has an equal share of the tile's words, which may
 * cover several runs. */
template <bool decode>
static __device__ __forceinline__ void
move_runs(uint16_t *coded, struct move_shared *s)
{
    const unsigned nwords = s->words_end[TERP_NGROUPS - 1];
    const unsigned share =
        (nwords + CONTEXT_MOVE_NWARPS - 1) / CONTEXT_MOVE_NWARPS;
    unsigned begin = threadIdx.x / 32 * share;
    const unsigned end = min(begin + share, nwords);

#pragma unroll 1
    for (unsigned c = 0; c < TERP_NGROUPS && begin < end; c++) {
        const unsigned run_end = min(s->words_end[c], end);
        const struct context_run run = s->run[c];
#pragma unroll 4
        for (unsigned i = begin + threadIdx.x % 32; i < run_end; i += 32)
            move_word<decode>(coded, run, i, s->sorted);
        begin = max(begin, run_end);
    }
}

/* Copies the thread's symbols between registers, two in each, and their sorted
 * places in shared memory. Counts up s->next. */
template <bool decode>
static __device__ __forceinline__ void
place_symbols(const struct thread_contexts &contexts,
              uint32_t pair[CONTEXT_MOVE_NSYMBOLS / 2], struct move_shared *s)
{
#pragma unroll
    for (unsigned i = 0; i < CONTEXT_MOVE_NSYMBOLS; i++) {
        const unsigned group = shift_at(contexts, i) >> CONTEXT_SHIFT;
        const unsigned at = s->next[group][threadIdx.x]++;
        uint16_t *place = &s->sorted[sorted_place(at)];
        if (!decode)
            *place = (uint16_t)(pair[i / 2] >> (16 * (i % 2)));
        else if (i % 2 == 0)
            pair[i / 2] = *place;
        else
            pair[i / 2] |= (uint32_t)*place << 16;
    }
}

/* Stores a thread's decoded symbols of the level. Counts or lists their
 * escapes, except lorenzo's: order_lorenzo_symbols moves those symbols again.
 */
static __device__ __forceinline__ void
store_symbols(const struct cuda_batch &batch, struct cuda_chunk &chunk,
              uint64_t tile, unsigned begin, unsigned end,
              const uint32_t pair[CONTEXT_MOVE_NSYMBOLS / 2], uint16_t *to)
{
    const unsigned first = CONTEXT_MOVE_NSYMBOLS * threadIdx.x;
    unsigned escapes = 0;

    if (first >= begin && first + CONTEXT_MOVE_NSYMBOLS <= end) {
        uint4 *units = (uint4 *)(to + first);
        units[0] = make_uint4(pair[0], pair[1], pair[2], pair[3]);
        units[1] = make_uint4(pair[4], pair[5], pair[6], pair[7]);
    } else {
#pragma unroll
        for (unsigned i = 0; i < CONTEXT_MOVE_NSYMBOLS; i++)
            if (first + i >= begin && first + i < end)
                to[first + i] = (uint16_t)(pair[i / 2] >> (16 * (i % 2)));
    }
#pragma unroll
    for (unsigned i = 0; i < CONTEXT_MOVE_NSYMBOLS / 2; i++)
        escapes |= find_escapes_of_two(pair[i]) << (2 * i);
#pragma unroll
    for (unsigned i = 0; i < CONTEXT_MOVE_NSYMBOLS; i++)
        if (first + i < begin || first + i >= end)
            escapes &= ~(1u << i);
    if (escapes != 0 && !terp_prediction_is_raster(chunk.prediction))
        note_escapes(batch, chunk, escapes_are_listed(batch, chunk),
                     tile * TERP_TILE_NSYMBOLS + first, escapes);
}

/* Moves the tile's symbols of the level: with `decode` from context order to
 * tile order, else from tile order to context order. Thread i has symbols 16 i
 * to 16 i + 15 of the tile. All threads of a block call it, and need a barrier
 * before they use `s` again. */
template <bool decode>
static __device__ __forceinline__ void
move_tile(const struct cuda_batch &batch, struct cuda_chunk &chunk,
          const struct context_level &level, uint64_t tile,
          struct move_shared *s)
{
    const uint64_t tile_at = tile * TERP_TILE_NSYMBOLS;
    const unsigned begin =
        (unsigned)(level.begin > tile_at ? level.begin - tile_at : 0);
    const unsigned end =
        (unsigned)min_u64(TERP_TILE_NSYMBOLS, level.end - tile_at);
    const unsigned first = CONTEXT_MOVE_NSYMBOLS * threadIdx.x;
    uint16_t *symbols = class_symbols(batch, chunk) + tile_at;
    uint16_t *coded = region<uint16_t>(batch, batch.at.coded);
    uint32_t pair[CONTEXT_MOVE_NSYMBOLS / 2] = {};

    const struct thread_contexts contexts = load_contexts(
        region<uint8_t>(batch, batch.at.contexts) + tile_at, begin, end);
    if (!decode && first < end) {
        const uint4 *units = (const uint4 *)(symbols + first);
        const uint4 low = units[0], high = units[1];
        pair[0] = low.x;
        pair[1] = low.y;
        pair[2] = low.z;
        pair[3] = low.w;
        pair[4] = high.x;
        pair[5] = high.y;
        pair[6] = high.z;
        pair[7] = high.w;
    }
    find_begins(batch, level, tile, s);
    struct sorted_places own, begins;
    scan_contexts(count_contexts(contexts), s, &own, &begins);
#pragma unroll
    for (unsigned c = 0; c < TERP_NCONTEXTS; c++)
        s->next[c][threadIdx.x] = (uint16_t)count_of(own.context, c);
    s->next[TERP_GROUP_SPECIALS][threadIdx.x] = (uint16_t)own.special;
    if (threadIdx.x < 32)
        make_runs(begins, begin, end, s);
    if (!decode)
        place_symbols<decode>(contexts, pair, s);
    __syncthreads();
    move_runs<decode>(coded, s);
    if (!decode)
        return;
    __syncthreads();
    place_symbols<decode>(contexts, pair, s);
    store_symbols(batch, chunk, tile, begin, end, pair, symbols);
}
