/* Floor 3: a tile's symbols of a level, from tile order to context order or
 * back, once all contexts of the level are counted. */
#ifndef TERP_CUDA_CONTEXT_MOVE_CUH
#define TERP_CUDA_CONTEXT_MOVE_CUH

#include "cuda_context_find.cuh"
#include "cuda_decode_bits.cuh"

#define MOVE_NSYMBOLS (TERP_TILE_NSYMBOLS / CONTEXT_NTHREADS) /* of a thread \
                                                               */
#define MOVE_NWARPS (CONTEXT_NTHREADS / 32)
static_assert(MOVE_NSYMBOLS == 16, "two wide loads, and one of contexts");
static_assert(MOVE_NWARPS == TERP_NCONTEXTS, "a warp a context");
static_assert(MOVE_NWARPS * TERP_NCONTEXTS == 64, "a warp's counts are four");

/* A tile's symbols of one context, in context order: words of two symbols of
 * the region `coded`, the first and the last of which may have another one. */
struct alignas(16) context_run {
    int64_t words_at;    /* what to add to a number of the tile's words */
    int first;           /* symbol of word 0, if the run were that long */
    uint16_t begin, end; /* of the tile's symbols, sorted */
};

struct move_shared {
    /* The tile's symbols, sorted by contexts: place i at i + i / 16 * 2, so
     * that threads which have one context each lie in different banks. */
    uint16_t sorted[TERP_TILE_NSYMBOLS / 16 * 18];
    uint16_t begin[TERP_NCONTEXTS][CONTEXT_NTHREADS]; /* a thread's first */
    uint32_t warp[MOVE_NWARPS][4];                    /* counts, in pairs */
    uint64_t at[TERP_NCONTEXTS]; /* of the first symbol, in `coded` */
    struct context_run run[TERP_NCONTEXTS];
    uint32_t words_end[TERP_NCONTEXTS]; /* of a run's words among all */
};

static __device__ __forceinline__ unsigned
sorted_place(unsigned i)
{
    return i + i / 16 * 2;
}

/* Eight counts of 16 bits, those of contexts 4, 6, 5, 7 above those of 0, 2, 1,
 * 3. */
struct context_pairs {
    uint32_t pair[4];
};

static __device__ __forceinline__ unsigned
pair_of_context(unsigned context)
{
    return (context & 1) << 1 | (context >> 1 & 1);
}

/* The number of a context, which lanes choose on their own. */
static __device__ __forceinline__ uint32_t
count_of(const struct context_pairs &pairs, unsigned context)
{
    const uint32_t even = context & 2 ? pairs.pair[1] : pairs.pair[0];
    const uint32_t odd = context & 2 ? pairs.pair[3] : pairs.pair[2];
    return (context & 1 ? odd : even) >> (context & 4 ? 16 : 0) & 0xFFFF;
}

/* ---- where symbols go ---- */

/* Where in `coded` the tile's symbols of each context begin: warp i has context
 * i. What other blocks count is read from memory. */
static __device__ __forceinline__ void
find_begins(const struct cuda_batch &batch, const struct context_level &level,
            uint64_t tile, struct move_shared *s)
{
    const struct cuda_context_counts counts = context_counts(batch, level.l);
    const uint64_t ngroups = cuda_context_ngroups(batch.ntiles);
    const unsigned lane = threadIdx.x % 32, context = threadIdx.x / 32;
    const uint64_t group = tile / CUDA_CONTEXT_GROUP_NTILES;
    const volatile uint32_t *groups = counts.group + context * ngroups;
    const volatile uint32_t *tiles = counts.tile + context * batch.ntiles;
    uint64_t sum = 0;

    if (lane < context)
        sum = ((const volatile unsigned long long *)counts.total)[lane];
#pragma unroll 2
    for (uint64_t i = lane; i < group; i += 32)
        sum += groups[i];
#pragma unroll 4
    for (uint64_t i = group * CUDA_CONTEXT_GROUP_NTILES + lane; i < tile;
         i += 32)
        sum += tiles[i];
#pragma unroll
    for (int step = 16; step > 0; step /= 2)
        sum += __shfl_xor_sync(0xFFFFFFFF, sum, step);
    if (lane == 0)
        s->at[context] = level.begin + sum;
}

/* A thread's contexts, a byte each. Symbols of coarser levels, which stand
 * before the level's, have context 0, those of finer ones the last. */
struct thread_contexts {
    uint32_t four[MOVE_NSYMBOLS / 4];
};

static __device__ __forceinline__ struct thread_contexts
load_contexts(const uint8_t *contexts, unsigned begin, unsigned end)
{
    const unsigned first = MOVE_NSYMBOLS * threadIdx.x;
    struct thread_contexts loaded = {};

    if (first < end && first + MOVE_NSYMBOLS > begin) {
        const uint4 all = ((const uint4 *)contexts)[threadIdx.x];
        loaded = {{all.x, all.y, all.z, all.w}};
    }
    if (first >= begin && first + MOVE_NSYMBOLS <= end)
        return loaded;
#pragma unroll
    for (unsigned i = 0; i < MOVE_NSYMBOLS; i++) {
        const uint32_t byte = 0xFFu << (8 * (i % 4));
        const uint32_t last = (TERP_NCONTEXTS - 1) << CONTEXT_SHIFT;
        uint32_t &four = loaded.four[i / 4];
        if (first + i < begin)
            four &= ~byte;
        if (first + i >= end)
            four = (four & ~byte) | last << (8 * (i % 4));
    }
    return loaded;
}

/* How far to shift for the context of a symbol. */
static __device__ __forceinline__ unsigned
shift_at(const struct thread_contexts &contexts, unsigned i)
{
    return contexts.four[i / 4] >> (8 * (i % 4)) & 31;
}

static __device__ __forceinline__ struct context_pairs
count_contexts(const struct thread_contexts &contexts)
{
    const uint32_t nibbles = 0x0F0F0F0F, fields = 0x00FF00FF;
    uint32_t half[2] = {0, 0};

#pragma unroll
    for (unsigned i = 0; i < MOVE_NSYMBOLS; i++)
        half[i / 8] += 1u << shift_at(contexts, i);
    static_assert(MOVE_NSYMBOLS / 2 < 16, "four bits a count");
    const uint32_t even = (half[0] & nibbles) + (half[1] & nibbles);
    const uint32_t odd = (half[0] >> 4 & nibbles) + (half[1] >> 4 & nibbles);
    return {
        {even & fields, even >> 8 & fields, odd & fields, odd >> 8 & fields}};
}

/* For each context the place, among the tile's sorted symbols, of the thread's
 * first one; and of the tile's. All threads meet here. */
static __device__ __forceinline__ void
scan_contexts(struct context_pairs counts, struct move_shared *s,
              struct context_pairs *own_ret, struct context_pairs *begin_ret)
{
    const unsigned all = 0xFFFFFFFF, lane = threadIdx.x % 32;
    const unsigned warp = threadIdx.x / 32;
    struct context_pairs sum = counts;

#pragma unroll
    for (unsigned step = 1; step < 32; step *= 2)
#pragma unroll
        for (unsigned k = 0; k < 4; k++) {
            const uint32_t below = __shfl_up_sync(all, sum.pair[k], step);
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
        const uint32_t below = __shfl_up_sync(all, through, step);
        through += lane >= step ? below : 0;
    }
    uint32_t before = 0; /* contexts, in both halves of a pair */
    struct context_pairs begin;
#pragma unroll
    for (unsigned i = 0; i < 4; i++) {
        const unsigned k = pair_of_context(i);
        begin.pair[k] = before;
        before += __shfl_sync(all, through, (int)(28 + k));
    }
#pragma unroll
    for (unsigned k = 0; k < 4; k++) {
        const uint32_t of_warp =
            __shfl_sync(all, through - own, (int)(4 * warp + k));
        begin.pair[k] += before << 16;
        own_ret->pair[k] =
            begin.pair[k] + of_warp + sum.pair[k] - counts.pair[k];
    }
    *begin_ret = begin;
}

/* The tile's runs; by lanes of the first warp, which has seen all of it. Those
 * of the level are its symbols [first, end). */
static __device__ __forceinline__ void
make_runs(const struct context_pairs &begins, unsigned first, unsigned end,
          struct move_shared *s)
{
    const unsigned lane = threadIdx.x % 32, context = lane % TERP_NCONTEXTS;
    const unsigned run_begin = context == 0 ? first : count_of(begins, context);
    const unsigned run_end =
        context == TERP_NCONTEXTS - 1 ? end : count_of(begins, context + 1);
    const uint64_t at = s->at[context];
    const unsigned skipped = at % 2;
    unsigned nwords = (run_end - run_begin + skipped + 1) / 2;
    unsigned words_end = run_begin < run_end ? nwords : 0;

    nwords = words_end;
#pragma unroll
    for (unsigned step = 1; step < TERP_NCONTEXTS; step *= 2) {
        const uint32_t below = __shfl_up_sync(0xFFFFFFFF, words_end, step);
        words_end += context >= step ? below : 0;
    }
    if (lane >= TERP_NCONTEXTS)
        return;
    const unsigned word = words_end - nwords;
    s->run[context] = {(int64_t)(at / 2) - word,
                       (int)run_begin - (int)(skipped + 2 * word),
                       (uint16_t)run_begin, (uint16_t)run_end};
    s->words_end[context] = words_end;
}

/* ---- symbols ---- */

/* All runs between shared memory and `coded`, a thread a word at a time. */
template <bool decode>
static __device__ __forceinline__ void
move_runs(uint16_t *coded, struct move_shared *s)
{
    uint32_t ends[TERP_NCONTEXTS];

#pragma unroll
    for (unsigned c = 0; c < TERP_NCONTEXTS; c++)
        ends[c] = s->words_end[c];
#pragma unroll(decode ? 3 : 1)
    for (unsigned i = threadIdx.x; i < ends[TERP_NCONTEXTS - 1];
         i += CONTEXT_NTHREADS) {
        unsigned c = 0;
#pragma unroll
        for (unsigned k = 0; k + 1 < TERP_NCONTEXTS; k++)
            c += i >= ends[k];
        const struct context_run run = s->run[c];
        uint32_t *word = (uint32_t *)coded + (run.words_at + (int)i);
        const int at = run.first + 2 * (int)i;
        const bool has_low = at >= run.begin, has_high = at + 1 < run.end;
        const unsigned low = sorted_place((unsigned)max(at, 0));
        const unsigned high = sorted_place((unsigned)(at + 1));
        if (decode) {
            const uint32_t two = *word;
            if (has_low)
                s->sorted[low] = (uint16_t)two;
            if (has_high)
                s->sorted[high] = (uint16_t)(two >> 16);
        } else if (has_low && has_high) {
            *word = (uint32_t)s->sorted[high] << 16 | s->sorted[low];
        } else if (has_low) {
            ((uint16_t *)word)[0] = s->sorted[low];
        } else {
            ((uint16_t *)word)[1] = s->sorted[high];
        }
    }
}

/* The thread's symbols, two by two, between registers and their places. */
template <bool decode>
static __device__ __forceinline__ void
place_symbols(const struct thread_contexts &contexts,
              uint32_t pair[MOVE_NSYMBOLS / 2], struct move_shared *s)
{
    uint32_t counts = 0;

#pragma unroll
    for (unsigned i = 0; i < MOVE_NSYMBOLS; i++) {
        /* Only the last one may have a count that takes five bits. */
        const unsigned shift = shift_at(contexts, i);
        const unsigned at = s->begin[shift >> CONTEXT_SHIFT][threadIdx.x] +
                            (counts >> shift & 15);
        uint16_t *place = &s->sorted[sorted_place(at)];
        counts += 1u << shift;
        if (!decode)
            *place = (uint16_t)(pair[i / 2] >> (16 * (i % 2)));
        else if (i % 2 == 0)
            pair[i / 2] = *place;
        else
            pair[i / 2] |= (uint32_t)*place << 16;
    }
}

/* Stores a thread's decoded symbols, those of the level in any case, and tells
 * of escapes among these. */
static __device__ __forceinline__ void
store_symbols(const struct cuda_batch &batch, struct cuda_chunk &chunk,
              uint64_t tile, unsigned begin, unsigned end,
              const uint32_t pair[MOVE_NSYMBOLS / 2], uint16_t *to)
{
    const unsigned first = MOVE_NSYMBOLS * threadIdx.x;
    unsigned escapes = 0;

    if (first >= begin && first + MOVE_NSYMBOLS <= end) {
        uint4 *units = (uint4 *)(to + first);
        units[0] = make_uint4(pair[0], pair[1], pair[2], pair[3]);
        units[1] = make_uint4(pair[4], pair[5], pair[6], pair[7]);
    } else {
#pragma unroll
        for (unsigned i = 0; i < MOVE_NSYMBOLS; i++)
            if (first + i >= begin && first + i < end)
                to[first + i] = (uint16_t)(pair[i / 2] >> (16 * (i % 2)));
    }
#pragma unroll
    for (unsigned i = 0; i < MOVE_NSYMBOLS / 2; i++)
        escapes |= find_escapes_of_two(pair[i]) << (2 * i);
#pragma unroll
    for (unsigned i = 0; i < MOVE_NSYMBOLS; i++)
        if (first + i < begin || first + i >= end)
            escapes &= ~(1u << i);
    if (escapes != 0)
        note_escapes(batch, chunk, escapes_are_listed(batch, chunk),
                     tile * TERP_TILE_NSYMBOLS + first, escapes);
}

/* The storage may be used again after the next barrier. */
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
    const unsigned first = MOVE_NSYMBOLS * threadIdx.x;
    uint16_t *symbols =
        region<uint16_t>(batch, blockIdx.y, batch.at.symbols) + tile_at;
    uint16_t *coded = region<uint16_t>(batch, blockIdx.y, batch.at.coded);
    uint32_t pair[MOVE_NSYMBOLS / 2] = {};

    const struct thread_contexts contexts = load_contexts(
        region<uint8_t>(batch, blockIdx.y, batch.at.contexts) + tile_at, begin,
        end);
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
    struct context_pairs own, begins;
    scan_contexts(count_contexts(contexts), s, &own, &begins);
#pragma unroll
    for (unsigned c = 0; c < TERP_NCONTEXTS; c++)
        s->begin[c][threadIdx.x] = (uint16_t)count_of(own, c);
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

#endif
