/* Floor 3: a tile's code words to symbols, by a block.
 *
 * A tile's code words stand one behind another, and only the first one's place
 * is known. They synchronize themselves, though: a decoder that starts anywhere
 * soon meets word boundaries (Weissenberger and Schmidt, "Massively parallel
 * Huffman decoding on GPUs", ICPP 2018). So each thread decodes a stretch of
 * the tile's bits from where it guesses that a word begins, and again from
 * where the thread before it ended as long as that is not where it began. What
 * the first thread finds is right, so that all are in the end. */
#ifndef TERP_CUDA_DECODE_WORDS_CUH
#define TERP_CUDA_DECODE_WORDS_CUH

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

/* What a block stages of a codebook: all of it, or all but the symbols of long
 * words. */
template <unsigned NTHREADS> struct staged_book {
    static constexpr bool IS_WHOLE = NTHREADS == FEW_TILES_NTHREADS;
    static constexpr unsigned NUNITS =
        (IS_WHOLE ? sizeof(struct cuda_decode_book)
                  : offsetof(struct cuda_decode_book, sorted)) /
        16;
};
static_assert(sizeof(struct cuda_decode_book) % 16 == 0 &&
                  offsetof(struct cuda_decode_book, sorted) % 16 == 0,
              "copied by units");

/* 15 bytes before a tile's, zeros behind, and words that are read ahead. */
#define TILE_BITS_NUNITS (CUDA_TILE_MAX_NBYTES / 16 + 3)
static_assert(CUDA_TILE_MAX_NBYTES % 16 == 0, "whole units");

template <unsigned NTHREADS> struct words_shared {
    /* The tile's bytes from a multiple of 16 on. */
    uint4 bits[TILE_BITS_NUNITS];
    uint4 book[staged_book<NTHREADS>::NUNITS];
    /* A burst may go on behind a tile's last symbol. */
    union {
        uint16_t at[SPACED(TERP_TILE_NSYMBOLS + 64)];
        uint4 unit[SPACED(TERP_TILE_NSYMBOLS + 64) / UNIT_NSYMBOLS];
    } symbols;
    uint32_t stop[2][NTHREADS];
};

/* ---- words ---- */

/* A tile's words are the bits [begin, end) of words_shared. */
struct tile_bits {
    unsigned begin, end;
};

/* No word begins here: what was decoded is none, or runs out of the tile. */
#define NOWHERE UINT32_MAX

/* A place in the bits, and the words that begin there: to read what comes next
 * takes no memory. The word behind is on its way, and not looked at yet. */
struct bit_window {
    unsigned at;
    uint32_t word[2], behind;
};

/* Makes the first byte the highest. */
static __device__ __forceinline__ uint32_t
word_of_bytes(uint32_t bytes)
{
    return __byte_perm(bytes, 0, 0x0123);
}

template <unsigned NTHREADS>
static __device__ __forceinline__ struct bit_window
open_window(const struct words_shared<NTHREADS> &s, unsigned at)
{
    const uint32_t *bytes = (const uint32_t *)s.bits + at / 32;
    return {at, {word_of_bytes(bytes[0]), word_of_bytes(bytes[1])}, bytes[2]};
}

static __device__ __forceinline__ uint32_t
next_bits(const struct bit_window &window)
{
    return __funnelshift_l(window.word[1], window.word[0], window.at);
}

/* Goes on by up to 32 bits. */
template <unsigned NTHREADS>
static __device__ __forceinline__ void
move_window(const struct words_shared<NTHREADS> &s, struct bit_window &window,
            unsigned length)
{
    const unsigned before = window.at;

    window.at += length;
    if (window.at / 32 != before / 32) {
        window.word[0] = window.word[1];
        window.word[1] = word_of_bytes(window.behind);
        window.behind = ((const uint32_t *)s.bits)[window.at / 32 + 2];
    }
}

template <unsigned NTHREADS>
static __device__ __forceinline__ const struct cuda_decode_book *
book_of(const struct words_shared<NTHREADS> &s)
{
    return (const struct cuda_decode_book *)s.book;
}

/* Longer words than a look-up sees. 0: no word. */
static __device__ __forceinline__ unsigned
find_long(const struct cuda_decode_book *s_book, uint32_t next)
{
    const unsigned bits15 = next >> (32 - TERP_MAX_CODE_NBITS);
    unsigned length = CUDA_LOOKUP_NBITS + 1;

#pragma unroll
    for (unsigned l = CUDA_LOOKUP_NBITS + 1; l <= TERP_MAX_CODE_NBITS; l++)
        length += bits15 >= s_book->end[l];
    return length <= TERP_MAX_CODE_NBITS ? length : 0;
}

/* Counts the words that begin in [at, end). Returns where the next begins. */
template <unsigned NTHREADS>
static __device__ __forceinline__ unsigned
pass_words(const struct words_shared<NTHREADS> &s, unsigned at, unsigned end,
           unsigned tile_end, unsigned *nwords_ret)
{
    const struct cuda_decode_book *s_book = book_of(s);
    unsigned nwords = 0;

    *nwords_ret = 0;
    if (at >= end)
        return at;
    struct bit_window window = open_window(s, at);
#pragma unroll 1
    while (window.at < end) {
        uint32_t next = next_bits(window);
        uint32_t low = s_book->low[next >> (32 - CUDA_LOOKUP_NBITS)];
        unsigned length = CUDA_FOUND_NBITS(low), n = CUDA_FOUND_NWORDS(low);
        if (length == 0) {
            length = find_long(s_book, next);
            n = 1;
            if (length == 0) {
                *nwords_ret = nwords;
                return NOWHERE;
            }
        } else if (CUDA_FOUND_IS_RUN(low)) {
            length = n = min((unsigned)__clz((int)next), end - window.at);
        } else if (window.at + length > end) {
            /* Words up to the first that ends at `end` or behind. */
            unsigned left = end - window.at - 1;
            unsigned ends = CUDA_FOUND_ENDS(low);
            unsigned behind = ends >> left << left;
            unsigned last = behind & (0 - behind);
            length = (unsigned)__ffs((int)last);
            n = (unsigned)__popc(ends & (2 * last - 1));
        }
        move_window(s, window, length);
        nwords += n;
    }
    const bool runs_out = window.at > tile_end;
    *nwords_ret = nwords - (unsigned)runs_out;
    return runs_out ? NOWHERE : window.at;
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
write_words(struct words_shared<NTHREADS> &s, const uint16_t *sorted,
            unsigned at, unsigned end, unsigned tile_end, unsigned i,
            unsigned nsymbols, bool *escaped_ret)
{
    const struct cuda_decode_book *s_book = book_of(s);
    bool valid = true;

    if (at >= end)
        return true;
    struct bit_window window = open_window(s, at);
#pragma unroll 1
    while (window.at < end && i < nsymbols) {
        uint32_t next = next_bits(window);
        unsigned place = next >> (32 - CUDA_LOOKUP_NBITS);
        uint32_t low = s_book->low[place];
        unsigned length = CUDA_FOUND_NBITS(low), n = CUDA_FOUND_NWORDS(low);
        unsigned ends = CUDA_FOUND_ENDS(low), others = CUDA_FOUND_OTHERS(low);
        if (CUDA_FOUND_IS_RUN(low)) {
            length = n = (unsigned)__clz((int)next);
            ends = UINT32_MAX;
        } else if (length == 0 || CUDA_FOUND_IS_WIDE(low)) {
            unsigned symbol = s_book->high[place];
            if (length == 0) {
                length = find_long(s_book, next);
                if (length == 0)
                    break; /* not reached: such words were not counted */
                symbol =
                    sorted[s_book->base[length] + (int)(next >> (32 - length))];
                n = 1;
                ends = 1u << (length - 1);
            }
            s.symbols.at[SPACED(i)] = (uint16_t)symbol;
            *escaped_ret |= symbol == TERP_ESCAPE;
        } else if (others != 0) {
            uint32_t codes = s_book->high[place];
#pragma unroll 1
            for (; others != 0; others &= others - 1, codes >>= 8) {
                unsigned to = i + (unsigned)__ffs((int)others) - 1;
                s.symbols.at[SPACED(to)] =
                    (uint16_t)((int8_t)codes + TERP_RADIUS);
            }
        }
        if (i + n >= nsymbols)
            valid =
                tile_end - (window.at + end_of_word(ends, nsymbols - i)) < 8;
        move_window(s, window, length);
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

/* The tile's bytes, whole units where there are such, and 16 zeros or more.
 * What stands up to 15 bytes before `src` may be read: a frame is longer. */
template <unsigned NTHREADS>
static __device__ __forceinline__ struct tile_bits
stage_bits(struct words_shared<NTHREADS> &s, const uint8_t *src,
           unsigned nbytes)
{
    const unsigned skipped = (unsigned)((uintptr_t)src % 16);
    const unsigned end = skipped + nbytes, tail = end / 16 * 16;
    const uint8_t *from = src - skipped;

#pragma unroll 1
    for (unsigned i = threadIdx.x; i < end / 16; i += NTHREADS)
        copy_async(&s.bits[i], (const uint4 *)from + i);
    if (threadIdx.x < 32)
        ((uint8_t *)s.bits)[tail + threadIdx.x] =
            tail + threadIdx.x < end ? from[tail + threadIdx.x] : 0;
    return {8 * skipped, 8 * end};
}

template <unsigned NTHREADS>
static __device__ __forceinline__ void
stage_book(struct words_shared<NTHREADS> &s,
           const struct cuda_decode_book *book)
{
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < staged_book<NTHREADS>::NUNITS;
         i += NTHREADS)
        copy_async(&s.book[i], (const uint4 *)book + i);
}

/* A thread a stretch of the tile's bits. The book is staged, or will be with
 * `stage`. */
template <unsigned NTHREADS>
static __device__ bool
decode_words(const struct cuda_batch &batch, struct cuda_chunk &chunk,
             struct words_shared<NTHREADS> &s, tile_scan<NTHREADS> &s_scan,
             const struct cuda_decode_book *book, bool stage, uint64_t tile,
             const uint8_t *src, unsigned nbytes, uint16_t *symbols,
             unsigned nsymbols)
{
    unsigned nwords = 0, first, nall, stop = 0;
    bool is_right = false, escaped = false;

    /* Nothing is waited for until all has been asked for. */
    if (stage)
        stage_book(s, book);
#pragma unroll 1
    for (unsigned i = threadIdx.x;
         i < SPACED(TERP_TILE_NSYMBOLS) / UNIT_NSYMBOLS; i += NTHREADS)
        s.symbols.unit[i] = eight_zero_codes();
    const struct tile_bits bits = stage_bits(s, src, nbytes);
    const unsigned stretch = max(32u, (8 * nbytes + NTHREADS - 1) / NTHREADS);
    unsigned begin = min(bits.end, bits.begin + threadIdx.x * stretch);
    const unsigned end = min(bits.end, begin + stretch);
    const bool is_idle = begin == end;
    wait_async();
    __syncthreads();
    /* After n rounds the first n threads are right; and all are when no thread
     * ends elsewhere than in the round before. */
#pragma unroll 1
    for (unsigned turn = 0, before = begin;; turn ^= 1) {
        const unsigned last = stop;
        if (!is_right) {
            begin = before;
            stop = pass_words(s, begin, end, bits.end, &nwords);
        }
        s.stop[turn][threadIdx.x] = stop;
        if (!__syncthreads_or(stop != last))
            break;
        before = threadIdx.x == 0 ? bits.begin : s.stop[turn][threadIdx.x - 1];
        is_right = is_idle || before == begin;
    }
    block_sum<NTHREADS>(s_scan).ExclusiveSum(nwords, first, nall);
    bool valid = nall >= nsymbols;
    if (valid)
        valid = write_words(s,
                            staged_book<NTHREADS>::IS_WHOLE ? book_of(s)->sorted
                                                            : book->sorted,
                            begin, end, bits.end, first, nsymbols, &escaped);
    const bool is_special = __syncthreads_or(!valid || escaped) != 0;
#pragma unroll 1
    for (unsigned i = threadIdx.x; i * UNIT_NSYMBOLS < nsymbols; i += NTHREADS)
        ((uint4 *)symbols)[i] =
            s.symbols.unit[SPACED(i * UNIT_NSYMBOLS) / UNIT_NSYMBOLS];
    if (!is_special)
        return true;
    if (__syncthreads_or(!valid))
        return false;
#pragma unroll 1
    for (unsigned i = threadIdx.x; i * UNIT_NSYMBOLS < nsymbols;
         i += NTHREADS) {
        uint4 unit = s.symbols.unit[SPACED(i * UNIT_NSYMBOLS) / UNIT_NSYMBOLS];
        unsigned escapes =
            find_escapes_of_two(unit.x) | find_escapes_of_two(unit.y) << 2 |
            find_escapes_of_two(unit.z) << 4 | find_escapes_of_two(unit.w) << 6;
        if (escapes != 0)
            note_escapes(batch, chunk,
                         tile * TERP_TILE_NSYMBOLS + UNIT_NSYMBOLS * i,
                         escapes);
    }
    return true;
}

#endif
