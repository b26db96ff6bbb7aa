/* A tile's code words to symbols, by a block of many threads where
 * there are few tiles.
 *
 * A thread has a stretch of the tile's bits. To know where in it the first word
 * begins it does not wait until words synchronize
 * (gpu/entropy/decode_codewords.cuh): long words of like lengths do that late.
 * It finds for each bit that may be the first where words from there on leave
 * its stretch, and all threads follow these maps. Then it notes where words
 * begin, and each word is decoded. */
#ifndef TERP_GPU_ENTROPY_DECODE_SMALL_BATCH_CUH
#define TERP_GPU_ENTROPY_DECODE_SMALL_BATCH_CUH

#include "gpu/entropy/decode_bits.cuh"

#define FEW_TILES_NTHREADS 512
static_assert(FEW_TILES_NTHREADS * UNIT_NSYMBOLS == TERP_TILE_NSYMBOLS,
              "a thread a unit of symbols");

/* A map has four bits for each of the first 16 bits of a stretch: if a word
 * begins there, how far behind the stretch the first word behind it begins.
 * Groups of stretches have maps too. */
#define GROUP_NSTRETCHES 16
#define NGROUPS (FEW_TILES_NTHREADS / GROUP_NSTRETCHES)
static_assert(NGROUPS == 32, "a lane a group");

#define LENGTHS_NBITS 12
static_assert(LENGTHS_NBITS == 12 && TERP_MAX_CODE_NBITS == 15,
              "words of 14 and of 15 bits are told apart by their ends");

struct few_words_shared {
    uint32_t bits[BITS_NWORDS];
    struct cuda_codeword_table book;
    /* By a word's first bits: four times its length less one; of longer words
     * as if they had one bit more than is looked at. */
    alignas(8) uint8_t length[1 << LENGTHS_NBITS];
    uint64_t stretch[FEW_TILES_NTHREADS]; /* maps */
    alignas(8) uint32_t group[NGROUPS][2];
    union {
        uint16_t at[TERP_TILE_NSYMBOLS];
        uint2 four[TERP_TILE_NSYMBOLS / 4];
    } begin; /* of words */
};

/* Until wait_async. */
static __device__ __forceinline__ void
stage_word_book(struct few_words_shared &s, const struct cuda_decode_table *book)
{
    const unsigned nunits = sizeof s.book / 16;

    static_assert(sizeof s.book % 16 == 0 && nunits <= FEW_TILES_NTHREADS,
                  "a thread a unit");
    if (threadIdx.x < nunits)
        copy_async((uint4 *)&s.book + threadIdx.x,
                   (const uint4 *)book->end + threadIdx.x);
}

/* By the book, which is there. A thread eight entries. */
static __device__ __forceinline__ void
make_lengths(struct few_words_shared &s)
{
    const unsigned below = TERP_MAX_CODE_NBITS - LENGTHS_NBITS;
    const unsigned first = 8 * threadIdx.x;
    uint64_t lengths = 0;

    static_assert(8 * FEW_TILES_NTHREADS == 1 << LENGTHS_NBITS,
                  "a thread eight entries");
#pragma unroll
    for (unsigned l = 1; l <= LENGTHS_NBITS; l++) {
        const unsigned end = s.book.end[l] >> below;
        const unsigned n = end > first ? end - first : 0;
        lengths += n < 8 ? UINT64_C(0x0404040404040404) << (8 * n) : 0;
    }
    ((uint64_t *)s.length)[threadIdx.x] = lengths;
}

/* Entry `i` of a map. */
static __device__ __forceinline__ unsigned
follow_map(uint64_t map, unsigned i)
{
    return (unsigned)(map >> (4 * i)) & 15;
}

static __device__ __forceinline__ uint64_t
group_map(const struct few_words_shared &s, unsigned group)
{
    return (uint64_t)s.group[group][1] << 32 | s.group[group][0];
}

/* The map of the units of 16 bits [first, end). From the last bit to the first;
 * what is known of the 16 bits behind a bit is the map so far. What is no word
 * counts as a long one: who comes to it finds out. */
static __device__ __forceinline__ uint64_t
map_of_units(const struct few_words_shared &s, unsigned first, unsigned end)
{
    const unsigned left = 32 - TERP_MAX_CODE_NBITS;
    const uint32_t all = UINT32_MAX, over = 1u << TERP_MAX_CODE_NBITS;
    const uint32_t end13 = s.book.end[13], end14 = s.book.end[14];
    const uint32_t from14 = end13 < over ? end13 << left : all;
    const uint32_t from15 = end14 < over ? end14 << left : all;
    uint64_t map = UINT64_C(0xFEDCBA9876543210);

#pragma unroll 1
    for (unsigned u = end; u-- > first;) {
        /* Never all ones. */
        const uint32_t bits = bits_at(s.bits, 16 * u) & ~1u;
#pragma unroll 8
        for (unsigned i = 0; i < 16; i++) {
            const uint32_t next = bits << (15 - i);
            const unsigned by = s.length[next >> (32 - LENGTHS_NBITS)] +
                                (next >= from14 ? 4 : 0) +
                                (next >= from15 ? 4 : 0);
            map = map << 4 | (map >> by & 15);
        }
    }
    return map;
}

/* Behind which bit of the thread's stretch its first word begins, when the
 * tile's begins behind `first`. Threads of 16 lanes follow the maps of a group
 * from each entry, and note where it enters each stretch. Most groups' maps
 * have one exit, so that what was before does not matter. */
static __device__ __forceinline__ unsigned
find_entry(struct few_words_shared &s, uint64_t map, unsigned first)
{
    const unsigned all = 0xFFFFFFFF, lane = threadIdx.x % 32;
    const unsigned i = lane % GROUP_NSTRETCHES;
    const unsigned group = threadIdx.x / GROUP_NSTRETCHES;
    const uint64_t *maps = &s.stretch[group * GROUP_NSTRETCHES];
    uint32_t entries[2] = {0, 0};
    unsigned at = i;

    s.stretch[threadIdx.x] = map;
    __syncwarp();
#pragma unroll
    for (unsigned k = 0; k < GROUP_NSTRETCHES; k++) {
        entries[k / 8] |= at << (4 * (k % 8));
        at = follow_map(maps[k], at);
    }
    uint32_t half = at << (4 * (i % 8));
#pragma unroll
    for (int distance = 1; distance < 8; distance *= 2)
        half |= __shfl_xor_sync(all, half, distance);
    if (i % 8 == 0)
        s.group[group][i / 8] = half;
    __syncthreads();
    const uint64_t of_lane = group_map(s, lane);
    const uint64_t ones = UINT64_C(0x0111111111111111);
    const unsigned has_one =
        __ballot_sync(all, (of_lane & 15 * ones) == (of_lane & 15) * ones);
    const unsigned before = has_one & ((1u << group) - 1);
    unsigned g = 0;
    at = first;
    if (before != 0) {
        g = 31 - (unsigned)__clz((int)before);
        at = 0; /* any */
    }
#pragma unroll 1
    for (; g < group; g++)
        at = follow_map(group_map(s, g), at);
    const unsigned from = lane / 16 * 16 + at;
    const uint32_t low = __shfl_sync(all, entries[0], (int)from);
    const uint32_t high = __shfl_sync(all, entries[1], (int)from);
    return (i < 8 ? low : high) >> (4 * (i % 8)) & 15;
}

/* Bits of the word that `next` begins with; one more than words have: none. */
static __device__ __forceinline__ unsigned
word_nbits(const struct few_words_shared &s, uint32_t next)
{
    const unsigned bits15 = next >> (32 - TERP_MAX_CODE_NBITS);

    return s.length[next >> (32 - LENGTHS_NBITS)] / 4 + 1 +
           (bits15 >= s.book.end[13]) + (bits15 >= s.book.end[14]) +
           (bits15 >= s.book.end[15]);
}

/* Words that begin in the bits [at, end) of a tile. */
struct word_stretch {
    unsigned at, end;
    unsigned nwords;
    bool is_cut;       /* none begins behind these, or it leaves the tile */
    unsigned last_end; /* of the last one */
};

/* Walks over up to `max_nwords` words. Notes where they begin, if at all. */
static __device__ __forceinline__ void
walk_words(const struct few_words_shared &s, struct word_stretch &own,
           unsigned tile_end, unsigned max_nwords, uint16_t *begin_ret)
{
    unsigned at = own.at, n = 0;

    own.is_cut = false;
#pragma unroll 1
    while (at < own.end && n < max_nwords && !own.is_cut) {
        /* Words that begin in the first 50 bits of 64 end in these. */
        const unsigned stop = min(own.end, at + 50);
        uint32_t high = bits_at(s.bits, at), low = bits_at(s.bits, at + 32);
#pragma unroll 1
        while (at < stop && n < max_nwords) {
            const unsigned nbits = word_nbits(s, high);
            if (nbits > TERP_MAX_CODE_NBITS) {
                own.is_cut = true;
                break;
            }
            if (begin_ret != nullptr)
                begin_ret[n] = (uint16_t)at;
            high = __funnelshift_l(low, high, nbits);
            low <<= nbits;
            at += nbits;
            n++;
        }
    }
    if (at > tile_end && n > 0) {
        own.is_cut = true;
        n--;
    }
    own.nwords = n;
    own.last_end = at;
}

/* The words of the thread's stretch. */
static __device__ __forceinline__ struct word_stretch
find_words(struct few_words_shared &s, const struct tile_bits &bits)
{
    const unsigned n = FEW_TILES_NTHREADS;
    const unsigned base = bits.begin / 16;
    const unsigned nunits = (bits.end + 15) / 16 - base;
    const unsigned share = (nunits + n - 1) / n;
    const unsigned first = min(threadIdx.x * share, nunits);
    const unsigned end = min(first + share, nunits);
    struct word_stretch own;

    const uint64_t map = map_of_units(s, base + first, base + end);
    own.at = 16 * (base + first) + find_entry(s, map, bits.begin % 16);
    own.end = min(16 * (base + end), bits.end);
    walk_words(s, own, bits.end, UINT32_MAX, nullptr);
    return own;
}

/* The words of a unit of symbols. Returns a bit for each escape. */
static __device__ __forceinline__ unsigned
decode_unit(const struct few_words_shared &s, uint16_t *symbols,
            unsigned nsymbols)
{
    unsigned escapes = 0;

#pragma unroll 1
    for (unsigned half = 0; half < 2; half++) {
        const unsigned at = UNIT_NSYMBOLS * threadIdx.x + 4 * half;
        const uint2 begins = s.begin.four[at / 4];
        unsigned symbol[4];
#pragma unroll
        for (unsigned i = 0; i < 4; i++) {
            const unsigned two = i < 2 ? begins.x : begins.y;
            const unsigned begin =
                at + i < nsymbols ? two >> (16 * (i % 2)) & 0xFFFF : 0;
            const uint32_t next = bits_at(s.bits, begin);
            symbol[i] =
                symbol_of_word(&s.book, next >> (32 - TERP_MAX_CODE_NBITS),
                               word_nbits(s, next));
            if (at + i >= nsymbols)
                symbol[i] = TERP_RADIUS;
            escapes |= (unsigned)(symbol[i] == TERP_ESCAPE) << (4 * half + i);
        }
        *(uint2 *)&symbols[at] = make_uint2(symbol[1] << 16 | symbol[0],
                                            symbol[3] << 16 | symbol[2]);
    }
    return escapes;
}

/* Bits and book are there when all threads come here. A bit for each escape of
 * the thread's unit of symbols. */
static __device__ __forceinline__ bool
decode_few_words(struct few_words_shared &s,
                 tile_scan<FEW_TILES_NTHREADS> &s_scan,
                 const struct tile_bits &bits, uint16_t *symbols,
                 unsigned nsymbols, unsigned *escapes_ret)
{
    unsigned first, nall;

    __syncthreads();
    struct word_stretch own = find_words(s, bits);
    block_sum<FEW_TILES_NTHREADS>(s_scan).ExclusiveSum(own.nwords, first, nall);
    const unsigned end = first + own.nwords;
    bool valid = nall >= nsymbols && (!own.is_cut || end >= nsymbols);
    if (valid && first < nsymbols) {
        walk_words(s, own, bits.end, min(own.nwords, nsymbols - first),
                   &s.begin.at[first]);
        /* The last word ends in the last byte. */
        if (end >= nsymbols)
            valid = bits.end - own.last_end < 8;
    }
    if (__syncthreads_or(!valid))
        return false;
    if (UNIT_NSYMBOLS * threadIdx.x < nsymbols)
        *escapes_ret = decode_unit(s, symbols, nsymbols);
    return true;
}

#endif
