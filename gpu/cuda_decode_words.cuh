/* Floor 3: a tile's code words to symbols, by a block.
 *
 * A tile's code words stand one behind another, and only the first one's place
 * is known. A thread has a stretch of the tile's bits, and finds where in it
 * the first word begins in one of two ways.
 *
 * Where there are many tiles: words synchronize themselves. A decoder that
 * starts anywhere soon meets word boundaries (Weissenberger and Schmidt,
 * "Massively parallel Huffman decoding on GPUs", ICPP 2018). So each thread
 * decodes from where it guesses that a word begins, and again from where the
 * thread before it ended as long as that is not where it began. What the first
 * thread finds is right, so that all are in the end.
 *
 * Where there are few, that takes too long: long words of like lengths
 * synchronize late. There each thread finds of each bit that may be its first
 * where words from there on leave its stretch, and all follow these maps. */
#ifndef TERP_CUDA_DECODE_WORDS_CUH
#define TERP_CUDA_DECODE_WORDS_CUH

#include <type_traits>

#include "cuda_decode_book.cuh"
#include "cuda_escapes.cuh"
#include "cuda_expand.cuh"
#include "cuda_order.cuh"

/* Where there are many tiles, a block of few threads decodes some: mostly with
 * the same codebook, which it then fetches once. Where there are few, a block
 * has threads enough to be done with its tile soon. */
#define MANY_TILES_NTHREADS 128
#define FEW_TILES_NTHREADS 512

template <unsigned NTHREADS>
using tile_scan = typename block_sum<NTHREADS>::TempStorage;

/* ---- escapes ---- */

/* One more escape in the range of the place in work order, for each of these
 * symbols from number `tiled` on. Rare, and long: out of the way of others. */
static __device__ __attribute__((noinline)) void
count_in_ranges(unsigned long long *ranges, const struct terp_layout *layout,
                bool is_lorenzo, uint64_t tiled, unsigned escapes)
{
#pragma unroll 1
    for (; escapes != 0; escapes &= escapes - 1) {
        uint64_t escape = tiled + (unsigned)__ffs((int)escapes) - 1;
        uint64_t at = is_lorenzo ? raster_position_of_tiled(layout, escape)
                                 : work_position_of_tiled(layout, escape);
        atomicAdd(&ranges[at / CUDA_RANGE_NVALUES], 1ULL);
    }
}

/* Lists or counts these escapes. */
static __device__ __forceinline__ void
note_escapes(const struct cuda_batch &batch, struct cuda_chunk &chunk,
             uint64_t tiled, unsigned escapes)
{
    if (!escapes_are_listed(batch, chunk)) {
        count_in_ranges(
            region<unsigned long long>(batch, blockIdx.y, batch.at.ranges),
            batch.d_layout, chunk.prediction == TERP_PREDICTION_LORENZO, tiled,
            escapes);
        return;
    }
    uint64_t *list = listed_escapes(batch);
    unsigned to = atomicAdd(&chunk.progress[CUDA_PROGRESS_LISTED],
                            (unsigned)__popc(escapes));
#pragma unroll 1
    for (; escapes != 0 && to < CUDA_MAX_NLISTED; escapes &= escapes - 1)
        list[to++] = tiled + (unsigned)__ffs((int)escapes) - 1;
}

/* ---- what a block shares ---- */

/* Symbols wait here until they are stored together. Threads write runs of
 * about 32 symbols; eight symbols of space in 64 spread these over the banks,
 * and keep units of 16 bytes whole. */
#define UNIT_NSYMBOLS 8
#define SPACED(i) ((i) + (i) / 64 * UNIT_NSYMBOLS)

/* Many tiles: where words of a thread's stretch end. */
struct word_stops {
    uint32_t stop[MANY_TILES_NTHREADS];
};

/* Few tiles: maps of stretches, and of groups of them. A map has four bits for
 * each of the first 16 bits of a stretch: if a word begins there, how far
 * behind the stretch the first word behind it begins. */
#define GROUP_NSTRETCHES 16
#define NGROUPS (FEW_TILES_NTHREADS / GROUP_NSTRETCHES)
#define LENGTHS_NBITS 12
struct word_maps {
    /* By a word's first bits: four times its length less one; of longer words
     * as if they had one bit more than is looked at. */
    alignas(8) uint8_t length[1 << LENGTHS_NBITS];
    uint64_t stretch[FEW_TILES_NTHREADS];
    uint64_t group[NGROUPS];
};
static_assert(NGROUPS == 32, "a lane a group");

template <unsigned NTHREADS>
constexpr bool are_few = NTHREADS == FEW_TILES_NTHREADS;

template <unsigned NTHREADS> struct words_shared {
    /* The tile's bytes from a multiple of 4 on, the first one highest. */
    uint32_t bits[CUDA_TILE_MAX_NBYTES / 4 + 2];
    std::conditional_t<are_few<NTHREADS>, struct cuda_decode_book,
                       struct cuda_short_book>
        book;
    /* A burst may go on behind a tile's last symbol. */
    union {
        uint16_t at[SPACED(TERP_TILE_NSYMBOLS + 64)];
        uint4 unit[SPACED(TERP_TILE_NSYMBOLS + 64) / UNIT_NSYMBOLS];
    } symbols;
    std::conditional_t<are_few<NTHREADS>, struct word_maps, struct word_stops>
        search;
};

/* A tile's words are the bits [begin, end) of words_shared. */
struct tile_bits {
    unsigned begin, end;
};

/* No word begins here: what was decoded is none, or runs out of the tile. */
#define NOWHERE UINT32_MAX

template <unsigned NTHREADS>
static __device__ __forceinline__ uint32_t
bits_at(const struct words_shared<NTHREADS> &s, unsigned at)
{
    return __funnelshift_l(s.bits[at / 32 + 1], s.bits[at / 32], at % 32);
}

/* Longer words than a look-up sees. 0: no word. */
template <unsigned NTHREADS>
static __device__ __forceinline__ unsigned
find_long(const struct words_shared<NTHREADS> &s, uint32_t next)
{
    const unsigned bits15 = next >> (32 - TERP_MAX_CODE_NBITS);
    unsigned length = CUDA_LOOKUP_NBITS + 1;

#pragma unroll
    for (unsigned l = length; l < TERP_MAX_CODE_NBITS; l++)
        length += bits15 >= s.book.end[l];
    return bits15 < s.book.end[TERP_MAX_CODE_NBITS] ? length : 0;
}

/* Counts the words that begin in [at, end). Returns where the next begins. */
template <unsigned NTHREADS>
static __device__ __forceinline__ unsigned
pass_words(const struct words_shared<NTHREADS> &s, unsigned at, unsigned end,
           unsigned tile_end, unsigned *nwords_ret)
{
    unsigned nwords = 0;

    while (at < end) {
        uint32_t next = bits_at(s, at);
        uint32_t low = s.book.low[next >> (32 - CUDA_LOOKUP_NBITS)];
        unsigned length = CUDA_FOUND_NBITS(low), n = CUDA_FOUND_NWORDS(low);
        if (length == 0) {
            length = find_long(s, next);
            if (length == 0) {
                at = NOWHERE;
                break;
            }
            n = 1;
        } else if (CUDA_FOUND_IS_RUN(low)) {
            length = n = min((unsigned)__clz((int)next), end - at);
        } else if (at + length > end) {
            /* Words up to the first that ends at `end` or behind. */
            unsigned ends = CUDA_FOUND_ENDS(low);
            unsigned behind = ends >> (end - at - 1) << (end - at - 1);
            unsigned last = behind & (0 - behind);
            length = (unsigned)__ffs((int)last);
            n = (unsigned)__popc(ends & (2 * last - 1));
        }
        at += length;
        nwords += n;
    }
    if (at > tile_end && at != NOWHERE) {
        at = NOWHERE;
        nwords--;
    }
    *nwords_ret = nwords;
    return at;
}

/* Bits up to the end of word `n` (from 1) of those that were found. */
static __device__ __forceinline__ unsigned
end_of_word(unsigned ends, unsigned n)
{
#pragma unroll 1
    for (; n > 1; n--)
        ends &= ends - 1;
    return (unsigned)__ffs((int)ends);
}

/* Writes the words that begin in [at, end), of which the first is number i.
 * Those behind are the next thread's, who writes the same. Zeros are there
 * already. False where the tile's last word is not in its last byte. */
template <unsigned NTHREADS>
static __device__ __forceinline__ bool
write_words(struct words_shared<NTHREADS> &s,
            const struct cuda_decode_book *book, unsigned at, unsigned end,
            unsigned tile_end, unsigned i, unsigned nsymbols)
{
    bool valid = true;

    while (at < end && i < nsymbols) {
        uint32_t next = bits_at(s, at);
        unsigned place = next >> (32 - CUDA_LOOKUP_NBITS);
        uint32_t low = s.book.low[place];
        unsigned length = CUDA_FOUND_NBITS(low), n = CUDA_FOUND_NWORDS(low);
        unsigned ends = CUDA_FOUND_ENDS(low), others = CUDA_FOUND_OTHERS(low);
        if (CUDA_FOUND_IS_RUN(low)) {
            length = n = (unsigned)__clz((int)next);
            ends = UINT32_MAX;
        } else if (length == 0 || CUDA_FOUND_IS_WIDE(low)) {
            unsigned symbol = s.book.high[place];
            if (length == 0) {
                length = find_long(s, next);
                if (length == 0)
                    break; /* not reached: such words were not counted */
                symbol = symbol_of_word(
                    book, next >> (32 - TERP_MAX_CODE_NBITS), length);
                n = 1;
                ends = 1u << (length - 1);
            }
            s.symbols.at[SPACED(i)] = (uint16_t)symbol;
        } else if (others != 0) {
            uint32_t codes = s.book.high[place];
#pragma unroll 1
            for (; others != 0; others &= others - 1, codes >>= 8) {
                unsigned to = i + (unsigned)__ffs((int)others) - 1;
                s.symbols.at[SPACED(to)] =
                    (uint16_t)((int8_t)codes + TERP_RADIUS);
            }
        }
        if (i + n >= nsymbols)
            valid = tile_end - (at + end_of_word(ends, nsymbols - i)) < 8;
        at += length;
        i += n;
    }
    return valid;
}

/* A bit for each of two symbols. */
static __device__ __forceinline__ unsigned
find_escapes_of_two(uint32_t two)
{
    static_assert(TERP_ESCAPE == 0, "a symbol of no bits");
    return (unsigned)((two & 0xFFFF) == 0) | (unsigned)(two >> 16 == 0) << 1;
}

static __device__ __forceinline__ uint4
eight_zero_codes(void)
{
    const unsigned two = TERP_RADIUS << 16 | TERP_RADIUS;
    return make_uint4(two, two, two, two);
}

/* The tile's bytes, whole words where there are such. `src` is not the first
 * byte of its memory: what stands before may be read. */
template <unsigned NTHREADS>
static __device__ __forceinline__ struct tile_bits
stage_bits(struct words_shared<NTHREADS> &s, const uint8_t *src,
           unsigned nbytes)
{
    const unsigned skipped = (unsigned)((uintptr_t)src % 4);
    const uint32_t *words = (const uint32_t *)(src - skipped);
    const unsigned end = skipped + nbytes;
    const struct tile_bits bits = {8 * skipped, 8 * end};

#pragma unroll 2
    for (unsigned i = threadIdx.x; i < end / 4; i += NTHREADS)
        s.bits[i] = __byte_perm(words[i], 0, 0x0123);
    if (threadIdx.x < 2) {
        uint32_t last = 0;
        if (threadIdx.x == 0)
#pragma unroll 1
            for (unsigned i = 0; i < end % 4; i++)
                last |= (uint32_t)((const uint8_t *)words)[end / 4 * 4 + i]
                        << (24 - 8 * i);
        s.bits[end / 4 + threadIdx.x] = last;
    }
    return bits;
}

/* As much of the book as is shared; where tiles are few, until wait_async. */
template <unsigned NTHREADS>
static __device__ __forceinline__ void
stage_book(struct words_shared<NTHREADS> &s,
           const struct cuda_decode_book *book)
{
    const unsigned nunits = sizeof s.book / 16;

    static_assert(sizeof s.book % 16 == 0, "whole units");
#pragma unroll
    for (unsigned k = 0; k < nunits; k += NTHREADS) {
        const unsigned i = k + threadIdx.x;
        uint4 *to = (uint4 *)&s.book + i;
        const uint4 *from = (const uint4 *)book + i;
        if (i < nunits && are_few<NTHREADS>)
            copy_async(to, from);
        else if (i < nunits)
            *to = *from;
    }
}

/* ---- where a thread's words begin ---- */

/* Words that begin in the bits [begin, end) of a tile; the first one does at
 * `begin`. */
struct word_stretch {
    unsigned begin, end;
    unsigned nwords;
    bool is_cut; /* something stands behind these that is no word */
};

/* By rounds. Ends with a barrier. */
static __device__ __forceinline__ struct word_stretch
find_words(struct words_shared<MANY_TILES_NTHREADS> &s,
           const struct tile_bits &bits)
{
    const unsigned n = MANY_TILES_NTHREADS;
    const unsigned length = max(32u, (bits.end - bits.begin + n - 1) / n);
    uint32_t *stop = s.search.stop;
    struct word_stretch own;

    own.begin = min(bits.end, bits.begin + threadIdx.x * length);
    own.end = min(bits.end, own.begin + length);
    const bool is_idle = own.begin == own.end;
    /* After n rounds the first n threads are right. */
    bool is_right = false;
#pragma unroll 1
    for (unsigned before = own.begin;;) {
        if (!is_right) {
            own.begin = before;
            stop[threadIdx.x] =
                pass_words(s, own.begin, own.end, bits.end, &own.nwords);
        }
        __syncthreads();
        before = threadIdx.x == 0 ? bits.begin : stop[threadIdx.x - 1];
        is_right = is_idle || before == own.begin;
        if (!__syncthreads_or(!is_right))
            break;
    }
    own.is_cut = false; /* then nobody behind has words */
    return own;
}

/* Four times the length of the word that each of so many bits begins, less
 * one; a thread eight entries. */
static __device__ __forceinline__ void
stage_lengths(struct words_shared<FEW_TILES_NTHREADS> &s)
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
    ((uint64_t *)s.search.length)[threadIdx.x] = lengths;
}

/* Entry `i` of a map. */
static __device__ __forceinline__ unsigned
follow_map(uint64_t map, unsigned i)
{
    return (unsigned)(map >> (4 * i)) & 15;
}

/* The map of the units of 16 bits [first, end). From the last bit to the first;
 * what is known of the 16 bits behind a bit is the map so far. What is no word
 * counts as a long one: who comes to it finds out. */
static __device__ __forceinline__ uint64_t
map_of_units(const struct words_shared<FEW_TILES_NTHREADS> &s, unsigned first,
             unsigned end)
{
    const unsigned left = 32 - TERP_MAX_CODE_NBITS;
    const uint32_t all = UINT32_MAX, over = 1u << TERP_MAX_CODE_NBITS;
    const uint32_t end13 = s.book.end[13], end14 = s.book.end[14];
    const uint32_t from14 = end13 < over ? end13 << left : all;
    const uint32_t from15 = end14 < over ? end14 << left : all;
    uint64_t map = UINT64_C(0xFEDCBA9876543210);

    static_assert(LENGTHS_NBITS == 12 && TERP_MAX_CODE_NBITS == 15,
                  "words of 14 and 15 bits are told apart");
#pragma unroll 1
    for (unsigned u = end; u-- > first;) {
        /* Never all ones. */
        const uint32_t bits = bits_at(s, 16 * u) & ~1u;
#pragma unroll 8
        for (unsigned i = 0; i < 16; i++) {
            const uint32_t next = bits << (15 - i);
            const unsigned by = s.search.length[next >> (32 - LENGTHS_NBITS)] +
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
find_entry(struct words_shared<FEW_TILES_NTHREADS> &s, uint64_t map,
           unsigned first)
{
    const unsigned all = 0xFFFFFFFF, lane = threadIdx.x % 32;
    const unsigned i = lane % GROUP_NSTRETCHES;
    const unsigned group = threadIdx.x / GROUP_NSTRETCHES;
    const uint64_t *maps = &s.search.stretch[group * GROUP_NSTRETCHES];
    uint32_t entries[2] = {0, 0};
    unsigned at = i;

    s.search.stretch[threadIdx.x] = map;
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
        ((uint32_t *)s.search.group)[2 * group + i / 8] = half;
    __syncthreads();
    const uint64_t of_lane = s.search.group[lane];
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
        at = follow_map(s.search.group[g], at);
    const unsigned from = lane / 16 * 16 + at;
    const uint32_t low = __shfl_sync(all, entries[0], (int)from);
    const uint32_t high = __shfl_sync(all, entries[1], (int)from);
    return (i < 8 ? low : high) >> (4 * (i % 8)) & 15;
}

/* By maps. */
static __device__ __forceinline__ struct word_stretch
find_words(struct words_shared<FEW_TILES_NTHREADS> &s,
           const struct tile_bits &bits)
{
    const unsigned n = FEW_TILES_NTHREADS;
    const unsigned base = bits.begin / 16;
    const unsigned nunits = (bits.end + 15) / 16 - base;
    const unsigned share = (nunits + n - 1) / n;
    const unsigned first = min(threadIdx.x * share, nunits);
    const unsigned end = min(first + share, nunits);
    struct word_stretch own;

    const uint64_t map = map_of_units(s, base + first, base + end);
    own.begin = min(bits.end,
                    16 * (base + first) + find_entry(s, map, bits.begin % 16));
    own.end = min(16 * (base + end), bits.end);
    own.is_cut =
        pass_words(s, own.begin, own.end, bits.end, &own.nwords) == NOWHERE;
    return own;
}

/* ---- a tile ---- */

/* The codes of a tile before its words are written. */
template <unsigned NTHREADS>
static __device__ __forceinline__ void
clear_symbols(struct words_shared<NTHREADS> &s)
{
#pragma unroll 1
    for (unsigned i = threadIdx.x;
         i < SPACED(TERP_TILE_NSYMBOLS) / UNIT_NSYMBOLS; i += NTHREADS)
        s.symbols.unit[i] = eight_zero_codes();
}

/* Bits and book are staged and symbols are cleared, which this waits for. */
template <unsigned NTHREADS>
static __device__ bool
decode_words(const struct cuda_batch &batch, struct cuda_chunk &chunk,
             struct words_shared<NTHREADS> &s, tile_scan<NTHREADS> &s_scan,
             const struct cuda_decode_book *book, const struct tile_bits &bits,
             uint64_t tile, uint16_t *symbols, unsigned nsymbols)
{
    unsigned first, nall;

    if constexpr (are_few<NTHREADS>)
        book = &s.book; /* all of it */
    __syncthreads();
    const struct word_stretch own = find_words(s, bits);
    block_sum<NTHREADS>(s_scan).ExclusiveSum(own.nwords, first, nall);
    bool valid =
        nall >= nsymbols && !(own.is_cut && first + own.nwords < nsymbols);
    if (valid)
        valid =
            write_words(s, book, own.begin, own.end, bits.end, first, nsymbols);
    valid = !__syncthreads_or(!valid);
#pragma unroll 1
    for (unsigned i = threadIdx.x; i * UNIT_NSYMBOLS < nsymbols;
         i += NTHREADS) {
        uint4 unit = s.symbols.unit[SPACED(i * UNIT_NSYMBOLS) / UNIT_NSYMBOLS];
        ((uint4 *)symbols)[i] = unit;
        unsigned escapes =
            find_escapes_of_two(unit.x) | find_escapes_of_two(unit.y) << 2 |
            find_escapes_of_two(unit.z) << 4 | find_escapes_of_two(unit.w) << 6;
        if (escapes != 0)
            note_escapes(batch, chunk,
                         tile * TERP_TILE_NSYMBOLS + UNIT_NSYMBOLS * i,
                         escapes);
    }
    return valid;
}

#endif
