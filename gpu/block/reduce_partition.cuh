/* Reduces a partition of tiles with a block of threads: RRE4-TCMS8-RZE1
 * (doc/format.md, "Stages"). codec/format/reduce.c writes the same bytes,
 * gpu/block/expand_partition.cuh undoes it. The comment at the top of
 * gpu/block/reduce.cuh says what memory, visibility and barriers a function
 * expects; that holds here too. */
#pragma once

#include "gpu/block/reduce.cuh"

/* The bit maps of a reduction follow each other in memory in this order: the
 * levels above the map of words, the highest first; the map of words; the
 * levels above the map of bytes, the highest first; the map of bytes. Each is
 * padded with zeros to a multiple of 8 bytes. A level says which bytes of the
 * following map are kept, and the map of bytes says which bytes of the pairs of
 * words are kept, so the maps have the order of the stream. The map of words
 * always begins at REDUCE_WORD_MAP_AT.
 *
 * Lane i of each warp holds where map i begins, in words of 4 bytes. Lane
 * REDUCE_NMAPS holds where the last map ends.
 *
 * REDUCE_NLEVELS, REDUCE_WORD_MAP_AT and REDUCE_MAX_NBYTES bound the size of a
 * partition; the static asserts below check that they agree. */
#define REDUCE_NLEVELS 4 /* the most levels above a map */
#define REDUCE_WORD_MAP REDUCE_NLEVELS
#define REDUCE_BYTE_MAP (2 * REDUCE_NLEVELS + 1)
#define REDUCE_NMAPS (REDUCE_BYTE_MAP + 1)
#define REDUCE_WORD_MAP_AT 160
#define REDUCE_MAX_NBYTES (1 << 17)

/* Returns the words of a map of `nbytes` bytes (level 0), or of a level above
 * it. */
static __host__ __device__ constexpr unsigned
reduce_map_nwords(unsigned nbytes, unsigned level)
{
    return nbytes == 0 || (level > 0 && (nbytes - 1) >> (3 * level) == 0)
               ? 0
               : 2 * (((nbytes - 1) >> (3 * level + 3)) + 1);
}
static_assert(reduce_map_nwords(REDUCE_MAX_NBYTES / 32, 1) +
                      reduce_map_nwords(REDUCE_MAX_NBYTES / 32, 2) +
                      reduce_map_nwords(REDUCE_MAX_NBYTES / 32, 3) +
                      reduce_map_nwords(REDUCE_MAX_NBYTES / 32, 4) <=
                  REDUCE_WORD_MAP_AT,
              "The levels above the map of words fit before it.");
static_assert(REDUCE_MAX_NBYTES / 8 >> (3 * REDUCE_NLEVELS) <=
                  TERP_BITMAP_STORED_NBYTES,
              "No map has more levels above it.");

/* Returns the words of 4 bytes that reduce_write needs in `maps`: one for each
 * word of the maps, and one for the number of bits before it. */
static __host__ __device__ __forceinline__ unsigned
reduce_maps_nwords(unsigned nbytes)
{
    unsigned nwords = (nbytes + 3) / 4, npairs = (nwords + 1) / 2;

    /* The map of bytes has npairs / 4 words. Each level above has an eighth of
     * the words of the level below. */
    return 2 * (REDUCE_WORD_MAP_AT + reduce_map_nwords((nwords + 7) / 8, 0) +
                npairs / 3 + 2 * (REDUCE_NLEVELS + 1)) +
           2;
}

/* Returns the most words of 4 bytes that RRE4 keeps of `nbytes` bytes, rounded
 * up to whole pairs. */
static __host__ __device__ __forceinline__ unsigned
reduce_kept_nwords(unsigned nbytes)
{
    return ((nbytes + 3) / 4 + 1) & ~1u;
}

/* Words that a thread loads before it uses the first one, so that the latencies
 * of the loads overlap. */
#define REDUCE_NLOADS 4

/* Shared memory by which the warps exchange their counts. */
template <int NTHREADS> struct reduce_counts {
    unsigned nwords[NTHREADS / 32]; /* words that differ, counted by each warp
                                     */
    unsigned nbytes[NTHREADS / 32]; /* bytes that are kept, counted by each warp
                                     */
};

/* Returns the sum of the counts of the warps before this one, and in *total_ret
 * the sum of all. */
template <int NTHREADS>
static __device__ __forceinline__ unsigned
sum_of_warps(const unsigned counts[NTHREADS / 32], unsigned *total_ret)
{
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned all = lane < NTHREADS / 32 ? counts[lane] : 0;
    unsigned before = lane < warp ? all : 0;

#pragma unroll 1
    for (int step = 16; step > 0; step /= 2) {
        all += __shfl_xor_sync(FULL_WARP_MASK, all, step);
        before += __shfl_xor_sync(FULL_WARP_MASK, before, step);
    }
    *total_ret = all;
    return before;
}

/* Returns the sum of the numbers of this lane and the lanes before it. */
static __device__ __forceinline__ unsigned
sum_of_lanes(unsigned n)
{
    const unsigned lane = threadIdx.x % 32;

#pragma unroll 1
    for (unsigned step = 1; step < 32; step *= 2) {
        unsigned below = __shfl_up_sync(FULL_WARP_MASK, n, step);
        n += lane >= step ? below : 0;
    }
    return n;
}

/* Does RRE4: makes the map of words, and gathers the words that are kept. If
 * their number is odd, a zero word completes the last pair. Each warp has
 * consecutive words. Returns how many words are kept. Ends with a barrier. */
template <int NTHREADS>
static __device__ __forceinline__ unsigned
reduce_words(const uint32_t *words, unsigned nwords, uint32_t *map,
             uint32_t *kept, reduce_counts<NTHREADS> *s_counts)
{
    constexpr unsigned NWARPS = NTHREADS / 32;
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const unsigned nmap = reduce_map_nwords((nwords + 7) / 8, 0);
    const unsigned share = (nmap + NWARPS - 1) / NWARPS;
    const unsigned begin = min(warp * share, nmap);
    const unsigned end = min(begin + share, nmap);
    uint32_t last =
        begin == 0 || 32 * begin > nwords ? 0 : words[32 * begin - 1];
    unsigned n = 0, nkept;

#pragma unroll 1
    for (unsigned w = begin; w < end; w += REDUCE_NLOADS) {
        uint32_t word[REDUCE_NLOADS];
#pragma unroll
        for (unsigned k = 0; k < REDUCE_NLOADS; k++) {
            unsigned i = 32 * (w + k) + lane;
            word[k] = w + k < end && i < nwords ? words[i] : 0;
        }
#pragma unroll
        for (unsigned k = 0; k < REDUCE_NLOADS; k++) {
            uint32_t before = __shfl_up_sync(FULL_WARP_MASK, word[k], 1);
            before = lane == 0 ? last : before;
            last = __shfl_sync(FULL_WARP_MASK, word[k], 31);
            uint32_t bits = __ballot_sync(
                FULL_WARP_MASK, w + k < end && 32 * (w + k) + lane < nwords &&
                                    word[k] != before);
            if (lane == 0 && w + k < end)
                map[w + k] = bits;
            n += (unsigned)__popc(bits);
        }
    }
    if (lane == 0)
        s_counts->nwords[warp] = n;
    __syncthreads();
    unsigned at = sum_of_warps<NTHREADS>(s_counts->nwords, &nkept);
#pragma unroll 1
    for (unsigned w = begin; w < end; w += REDUCE_NLOADS) {
        uint32_t bits[REDUCE_NLOADS], word[REDUCE_NLOADS];
#pragma unroll
        for (unsigned k = 0; k < REDUCE_NLOADS; k++) {
            bits[k] = w + k < end ? map[w + k] : 0;
            word[k] = 0;
            if (32 * (w + k) + lane < nwords)
                word[k] = words[32 * (w + k) + lane];
        }
#pragma unroll
        for (unsigned k = 0; k < REDUCE_NLOADS; k++) {
            if (bits[k] >> lane & 1)
                kept[at + (unsigned)__popc(bits[k] & bits_below(lane))] =
                    word[k];
            at += (unsigned)__popc(bits[k]);
        }
    }
    if (threadIdx.x == 0 && nkept % 2 != 0)
        kept[nkept] = 0;
    __syncthreads();
    return nkept;
}

/* Returns where this lane's map begins. The map of words has `word_nbytes`
 * bytes, the map of bytes `byte_nbytes`. */
static __device__ __forceinline__ unsigned
place_maps(unsigned word_nbytes, unsigned byte_nbytes)
{
    const unsigned lane = threadIdx.x % 32;
    const bool of_words = lane <= REDUCE_WORD_MAP;
    unsigned n = 0;

    if (lane < REDUCE_NMAPS)
        n = reduce_map_nwords(of_words ? word_nbytes : byte_nbytes,
                              (of_words ? REDUCE_WORD_MAP : REDUCE_BYTE_MAP) -
                                  lane);
    unsigned begin = sum_of_lanes(n) - n;
    return begin + REDUCE_WORD_MAP_AT -
           __shfl_sync(FULL_WARP_MASK, begin, REDUCE_WORD_MAP);
}

/* Does TCMS8 of the pairs, in place, and makes the map of RZE1, padded with
 * zeros. A thread has one pair at a time. */
template <int NTHREADS>
static __device__ __forceinline__ void
reduce_pairs(uint64_t *pairs, unsigned npairs, uint8_t *map)
{
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < (npairs + 7) / 8 * 8; i += NTHREADS) {
        uint64_t pair = 0;
        if (i < npairs) {
            pair = terp_tcms8(pairs[i]);
            pairs[i] = pair;
        }
        map[i] = (uint8_t)nonzero_bytes(pair);
    }
}

/* Makes the levels above both maps. One half of the threads works on the map of
 * words, the other half on the map of bytes. Begins and ends with a barrier. */
template <int NTHREADS>
static __device__ __forceinline__ void
reduce_maps(uint32_t *maps, unsigned begin, unsigned word_nbytes,
            unsigned byte_nbytes)
{
    const bool of_words = threadIdx.x < NTHREADS / 2;
    unsigned nbytes = of_words ? word_nbytes : byte_nbytes;
    unsigned map = of_words ? REDUCE_WORD_MAP : REDUCE_BYTE_MAP;

    __syncthreads();
#pragma unroll 1
    for (unsigned most = max(word_nbytes, byte_nbytes);
         most > TERP_BITMAP_STORED_NBYTES; most = (most + 7) / 8) {
        unsigned below = __shfl_sync(FULL_WARP_MASK, begin, (int)map--);
        unsigned at = __shfl_sync(FULL_WARP_MASK, begin, (int)map);
#pragma unroll 1
        for (unsigned i = threadIdx.x % (NTHREADS / 2); i < 4 * (below - at);
             i += NTHREADS / 2)
            ((uint8_t *)(maps + at))[i] = (uint8_t)differing_bytes(
                (const uint64_t *)(maps + below), i, nbytes);
        nbytes = (nbytes + 7) / 8;
        __syncthreads();
    }
}

/* Writes to before[i] how many bytes are kept by the words of the maps before
 * word i. The map of words does not count, since it keeps words. Returns how
 * many bytes are kept in all. Ends with a barrier. */
template <int NTHREADS>
static __device__ __forceinline__ unsigned
count_kept(const uint32_t *maps, unsigned begin, uint32_t *before,
           reduce_counts<NTHREADS> *s_counts)
{
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const unsigned first = __shfl_sync(FULL_WARP_MASK, begin, 0);
    const unsigned end = __shfl_sync(FULL_WARP_MASK, begin, REDUCE_NMAPS);
    const unsigned none = REDUCE_WORD_MAP_AT;
    const unsigned none_end =
        __shfl_sync(FULL_WARP_MASK, begin, REDUCE_WORD_MAP + 1);
    const unsigned share = (end - first + NTHREADS - 1) / NTHREADS;
    const unsigned mine = first + threadIdx.x * share;
    unsigned n = 0, total;

#pragma unroll 1
    for (unsigned i = mine; i < min(mine + share, end); i++)
        n += i >= none && i < none_end ? 0 : (unsigned)__popc(maps[i]);
    unsigned at = sum_of_lanes(n);
    if (lane == 31)
        s_counts->nbytes[warp] = at;
    __syncthreads();
    at += sum_of_warps<NTHREADS>(s_counts->nbytes, &total) - n;
#pragma unroll 1
    for (unsigned i = mine; i < min(mine + share, end); i++) {
        before[i] = at;
        at += i >= none && i < none_end ? 0 : (unsigned)__popc(maps[i]);
    }
    if (threadIdx.x == 0)
        before[end] = total;
    __syncthreads();
    return total;
}

/* Writes the bytes of the levels and maps that the level above them keeps. A
 * warp has one word of a map at a time, a lane one bit. */
template <int NTHREADS>
static __device__ __forceinline__ void
store_levels(uint8_t *dst, const uint32_t *maps, unsigned begin,
             const uint32_t *before, unsigned byte_top_nbytes)
{
    const unsigned lane = threadIdx.x % 32;
    const unsigned first = __shfl_sync(FULL_WARP_MASK, begin, 0);
    const unsigned end = __shfl_sync(FULL_WARP_MASK, begin, REDUCE_BYTE_MAP);
    const unsigned of_words =
        __shfl_sync(FULL_WARP_MASK, begin, REDUCE_WORD_MAP);
    /* The map of words keeps words, not bytes, and is left out. */
    const unsigned after =
        __shfl_sync(FULL_WARP_MASK, begin, REDUCE_WORD_MAP + 1) - of_words;

#pragma unroll 1
    for (unsigned i = first + threadIdx.x / 32; i < end - after;
         i += NTHREADS / 32) {
        const unsigned w = i < of_words ? i : i + after;
        int map = __popc(__ballot_sync(FULL_WARP_MASK,
                                       lane < REDUCE_BYTE_MAP && begin <= w)) -
                  1;
        unsigned at = __shfl_sync(FULL_WARP_MASK, begin, map);
        unsigned below = __shfl_sync(FULL_WARP_MASK, begin, map + 1);
        uint32_t bits = maps[w];
        if (bits >> lane & 1)
            dst[before[w] + (unsigned)__popc(bits & bits_below(lane)) +
                (map > REDUCE_WORD_MAP ? byte_top_nbytes : 0)] =
                ((const uint8_t *)(maps + below))[32 * (w - at) + lane];
    }
}

/* Writes the bytes of the pairs that the map of bytes keeps. A warp has one
 * word of the map at a time, a lane one bit. */
template <int NTHREADS>
static __device__ __forceinline__ void
store_bytes(uint8_t *dst, const uint8_t *bytes, const uint32_t *map,
            const uint32_t *before, unsigned nwords)
{
    constexpr unsigned NWARPS = NTHREADS / 32;
    const unsigned lane = threadIdx.x % 32;

#pragma unroll 1
    for (unsigned i = threadIdx.x / 32; i < nwords;
         i += REDUCE_NLOADS * NWARPS) {
        uint32_t bits[REDUCE_NLOADS], at[REDUCE_NLOADS];
        uint8_t byte[REDUCE_NLOADS] = {};
#pragma unroll
        for (unsigned k = 0; k < REDUCE_NLOADS; k++) {
            const unsigned w = min(i + k * NWARPS, nwords - 1);
            bits[k] = i + k * NWARPS < nwords ? map[w] : 0;
            at[k] = before[w];
            if (bits[k] >> lane & 1)
                byte[k] = bytes[32 * w + lane];
        }
#pragma unroll
        for (unsigned k = 0; k < REDUCE_NLOADS; k++)
            if (bits[k] >> lane & 1)
                dst[at[k] + (unsigned)__popc(bits[k] & bits_below(lane))] =
                    byte[k];
    }
}

/* Returns the bytes of the highest level above a map, or of the map itself if
 * it has no level above it. */
static __device__ __forceinline__ unsigned
top_nbytes(unsigned nbytes)
{
#pragma unroll 1
    while (nbytes > TERP_BITMAP_STORED_NBYTES)
        nbytes = (nbytes + 7) / 8;
    return nbytes;
}

/* Reduces the `nbytes` bytes in `words`, which are padded with zeros to a whole
 * word and visible to the block. `kept` holds reduce_kept_nwords words, `maps`
 * reduce_maps_nwords; both are aligned to 8. Returns how many bytes it has
 * written to `dst`. That is less than `nbytes`; if it would not be, the
 * function writes nothing and returns 0. */
template <int NTHREADS>
static __device__ unsigned
reduce_write(uint8_t *dst, const uint32_t *words, unsigned nbytes,
             uint32_t *kept, uint32_t *maps, reduce_counts<NTHREADS> *s_counts)
{
    const unsigned nwords = (nbytes + 3) / 4, word_nbytes = (nwords + 7) / 8;
    const unsigned npairs =
        (reduce_words<NTHREADS>(words, nwords, maps + REDUCE_WORD_MAP_AT, kept,
                                s_counts) +
         1) /
        2;
    const unsigned begin = place_maps(word_nbytes, npairs);
    const unsigned byte_map =
        __shfl_sync(FULL_WARP_MASK, begin, REDUCE_BYTE_MAP);
    const unsigned end = __shfl_sync(FULL_WARP_MASK, begin, REDUCE_NMAPS);
    uint32_t *before = maps + end;

    reduce_pairs<NTHREADS>((uint64_t *)kept, npairs,
                           (uint8_t *)(maps + byte_map));
    reduce_maps<NTHREADS>(maps, begin, word_nbytes, npairs);
    unsigned nkept = count_kept<NTHREADS>(maps, begin, before, s_counts);
    const unsigned word_top_nbytes = top_nbytes(word_nbytes);
    const unsigned byte_top_nbytes = top_nbytes(npairs);
    nkept += word_top_nbytes + byte_top_nbytes;
    if (nkept >= nbytes)
        return 0;
    const unsigned word_top = __shfl_sync(FULL_WARP_MASK, begin, 0);
    const unsigned byte_top =
        __shfl_sync(FULL_WARP_MASK, begin, REDUCE_WORD_MAP + 1);
    if (threadIdx.x < word_top_nbytes)
        dst[threadIdx.x] = ((const uint8_t *)(maps + word_top))[threadIdx.x];
    dst += word_top_nbytes;
    if (threadIdx.x < byte_top_nbytes)
        dst[before[byte_top] + threadIdx.x] =
            ((const uint8_t *)(maps + byte_top))[threadIdx.x];
    store_levels<NTHREADS>(dst, maps, begin, before, byte_top_nbytes);
    store_bytes<NTHREADS>(dst + byte_top_nbytes, (const uint8_t *)kept,
                          maps + byte_map, before + byte_map, end - byte_map);
    return nkept;
}
