/* Floor 3: lossless stages, a block at a time. doc/format.md, "Stages" and
 * "Bit maps"; codec/reduce.c writes the same bytes one after another. What
 * reads them is in cuda_expand.cuh.
 *
 * All threads of a block of NTHREADS call these functions together. Memory is
 * shared or global; a function may read what it is given at once, and its
 * caller waits before it reads what others wrote, unless noted otherwise.
 * Loops are not unrolled: the only block of a small chunk waits longer for
 * code that it runs through once than for turns of a loop. */
#ifndef TERP_CUDA_REDUCE_CUH
#define TERP_CUDA_REDUCE_CUH

#include <cub/cub.cuh>

#include "cuda_platform.cuh"
#include "reduce.h"

/* A bit map this short is stored. */
#define CUDA_STORED_NBYTES 8

template <int NTHREADS>
using block_scan =
    cub::BlockScan<uint32_t, NTHREADS, cub::BLOCK_SCAN_WARP_SCANS>;
template <int NTHREADS>
using scan_storage = typename block_scan<NTHREADS>::TempStorage;

/* Bits of a word below bit i. */
static __device__ __forceinline__ uint32_t
bits_below(unsigned i)
{
    return (1u << i) - 1;
}

/* before[i]: how many bits are set in words before word i. Returns how many
 * are set in all. `before` and the storage may be used when it returns. */
template <int NTHREADS>
static __device__ unsigned
scan_bits(const uint32_t *words, unsigned nwords, uint32_t *before,
          scan_storage<NTHREADS> &s_scan)
{
    unsigned total = 0;

    for (unsigned first = 0; first < nwords; first += NTHREADS) {
        unsigned i = first + threadIdx.x;
        uint32_t at, sum;
        uint32_t n = i < nwords ? (uint32_t)__popc(words[i]) : 0;
        block_scan<NTHREADS>(s_scan).ExclusiveSum(n, at, sum);
        if (i < nwords)
            before[i] = total + at;
        total += sum;
        __syncthreads();
    }
    return total;
}

/* ---- bit maps ---- */

/* Which of eight bytes are not zero, a bit a byte. */
static __device__ __forceinline__ unsigned
nonzero_bytes(uint64_t bytes)
{
    const uint64_t low = UINT64_C(0x7F7F7F7F7F7F7F7F);
    uint64_t high = (((bytes & low) + low) | bytes) & ~low;
    /* Flags eight bits apart to flags in the highest byte. */
    return (unsigned)((high >> 7) * UINT64_C(0x0102040810204080) >> 56);
}

/* Writes those of eight bytes that have a bit. */
static __device__ __forceinline__ void
keep_bytes(uint8_t *dst, uint64_t bytes, unsigned bits)
{
#pragma unroll 1
    for (; bits != 0; bits &= bits - 1)
        *dst++ = (uint8_t)(bytes >> (8 * (__ffs((int)bits) - 1)));
}

/* Bytes and the bit maps above them: level 0 is the bytes, each further level
 * the bit map of the RRE1 of the one below, the last one short enough to be
 * stored. The stream has the last level, then the bytes that RRE1 keeps of
 * each level below, down to level 0.
 *
 * Levels from 1 on stand in `words`, the last one first, each filled up with
 * zeros to a multiple of 8 bytes, so that one scan of all their bits tells
 * where each kept byte goes. Threads take eight bytes at a time: level 0 is
 * aligned to 8, and its last eight bytes can be read. */
struct cuda_tower {
    const uint64_t *bytes; /* level 0 */
    unsigned nbytes;
    uint32_t *words;
    uint32_t *before; /* for each of `words` */
    unsigned nwords;
    unsigned top_nbytes; /* of the last level */
    unsigned nkept;      /* bytes, of all levels */
};

/* Words of the level above `nbytes` bytes. */
static __host__ __device__ constexpr unsigned
level_nwords(unsigned nbytes)
{
    return (nbytes + 63) / 64 * 2;
}

/* Number of words, and of bytes of the last level, above `nbytes` bytes. A bit
 * map needs no level above it when it is short, other bytes need one. */
static __host__ __device__ __forceinline__ unsigned
tower_nwords(unsigned nbytes, bool is_bitmap, unsigned *top_nbytes_ret)
{
    unsigned nwords = 0;

#pragma unroll 1
    for (bool more = !is_bitmap; more || nbytes > CUDA_STORED_NBYTES;
         more = false) {
        nwords += level_nwords(nbytes);
        nbytes = (nbytes + 7) / 8;
    }
    *top_nbytes_ret = nbytes;
    return nwords;
}

/* Takes twice the words of its levels from *memory, which is aligned to 8. */
static __device__ __forceinline__ struct cuda_tower
tower_of(const void *bytes, unsigned nbytes, bool is_bitmap, uint32_t **memory)
{
    struct cuda_tower tower = {};

    tower.bytes = (const uint64_t *)bytes;
    tower.nbytes = nbytes;
    tower.nwords = tower_nwords(nbytes, is_bitmap, &tower.top_nbytes);
    tower.words = *memory;
    tower.before = *memory + tower.nwords;
    *memory += 2 * tower.nwords;
    return tower;
}

/* Which of the eight bytes from 8 i on differ from the byte before, a bit a
 * byte. */
static __device__ __forceinline__ unsigned
differing_bytes(const uint64_t *bytes, unsigned i, unsigned nbytes)
{
    if (8 * i >= nbytes)
        return 0;
    uint64_t eight = bytes[i];
    uint64_t last = i == 0 ? 0 : ((const uint8_t *)bytes)[8 * i - 1];
    unsigned bits = nonzero_bytes(eight ^ (eight << 8 | last));
    return nbytes - 8 * i < 8 ? bits & bits_below(nbytes - 8 * i) : bits;
}

/* Makes the levels. Level 0 is visible to the block. */
template <int NTHREADS>
static __device__ void
tower_build(struct cuda_tower *tower, scan_storage<NTHREADS> &s_scan)
{
    const uint64_t *below = tower->bytes;
    unsigned nbytes = tower->nbytes, at = tower->nwords;

#pragma unroll 1
    while (at > 0) {
        unsigned nwords = level_nwords(nbytes);
        at -= nwords;
        uint8_t *level = (uint8_t *)(tower->words + at);
#pragma unroll 1
        for (unsigned i = threadIdx.x; i < 4 * nwords; i += NTHREADS)
            level[i] = (uint8_t)differing_bytes(below, i, nbytes);
        __syncthreads();
        below = (const uint64_t *)level;
        nbytes = (nbytes + 7) / 8;
    }
    tower->nkept =
        scan_bits<NTHREADS>(tower->words, tower->nwords, tower->before, s_scan);
}

/* The same by one warp. What `before` and the storage are for is known to it,
 * and to the block after a barrier; `nkept` to the warp. */
static __device__ void
tower_build_by_warp(struct cuda_tower *tower)
{
    const uint64_t *below = tower->bytes;
    unsigned nbytes = tower->nbytes, at = tower->nwords;
    const unsigned lane = threadIdx.x % 32;

#pragma unroll 1
    while (at > 0) {
        unsigned nwords = level_nwords(nbytes);
        at -= nwords;
        uint8_t *level = (uint8_t *)(tower->words + at);
#pragma unroll 1
        for (unsigned i = lane; i < 4 * nwords; i += 32)
            level[i] = (uint8_t)differing_bytes(below, i, nbytes);
        __syncwarp();
        below = (const uint64_t *)level;
        nbytes = (nbytes + 7) / 8;
    }
    unsigned total = 0;
#pragma unroll 1
    for (unsigned first = 0; first < tower->nwords; first += 32) {
        unsigned i = first + lane;
        unsigned n = i < tower->nwords ? (unsigned)__popc(tower->words[i]) : 0;
        unsigned sum = n;
#pragma unroll 1
        for (unsigned step = 1; step < 32; step *= 2) {
            unsigned other = __shfl_up_sync(0xFFFFFFFF, sum, step);
            sum += lane >= step ? other : 0;
        }
        if (i < tower->nwords)
            tower->before[i] = total + sum - n;
        total += __shfl_sync(0xFFFFFFFF, sum, 31);
    }
    tower->nkept = total;
}

static __device__ __forceinline__ unsigned
tower_nbytes(const struct cuda_tower &tower)
{
    return tower.top_nbytes + tower.nkept;
}

/* Writes the bytes that have a bit in `map`, where `before` bits come before
 * each of its words. `bytes` is aligned to 8. */
template <int NTHREADS>
static __device__ void
keep_marked(uint8_t *dst, const uint64_t *bytes, unsigned nbytes,
            const uint32_t *map, const uint32_t *before)
{
#pragma unroll 1
    for (unsigned i = threadIdx.x; 8 * i < nbytes; i += NTHREADS) {
        uint32_t word = map[i / 4];
        unsigned bits = word >> (8 * (i % 4)) & 0xFF;
        if (bits != 0)
            keep_bytes(dst + before[i / 4] +
                           __popc(word & bits_below(8 * (i % 4))),
                       bytes[i], bits);
    }
}

/* Writes tower_nbytes to dst, once the levels are made. */
template <int NTHREADS>
static __device__ void
tower_store(const struct cuda_tower &tower, uint8_t *dst)
{
    const uint64_t *below = tower.bytes;
    const uint8_t *top =
        (const uint8_t *)(tower.nwords > 0 ? tower.words : (const void *)below);
    unsigned nbytes = tower.nbytes, at = tower.nwords;

#pragma unroll 1
    for (unsigned i = threadIdx.x; i < tower.top_nbytes; i += NTHREADS)
        dst[i] = top[i];
#pragma unroll 1
    while (at > 0) {
        at -= level_nwords(nbytes);
        keep_marked<NTHREADS>(dst + tower.top_nbytes, below, nbytes,
                              tower.words + at, tower.before + at);
        below = (const uint64_t *)(tower.words + at);
        nbytes = (nbytes + 7) / 8;
    }
}

/* ---- TCMS1-BIT1-RRE1 ---- */

/* Transposes the 8x8 bit matrix whose rows are the bytes of a word (Warren,
 * Hacker's Delight, 7-3). Its own inverse. */
static __device__ __forceinline__ uint64_t
transpose_8x8(uint64_t m)
{
    uint64_t swap = (m ^ m >> 7) & UINT64_C(0x00AA00AA00AA00AA);
    m ^= swap ^ swap << 7;
    swap = (m ^ m >> 14) & UINT64_C(0x0000CCCC0000CCCC);
    m ^= swap ^ swap << 14;
    swap = (m ^ m >> 28) & UINT64_C(0x00000000F0F0F0F0);
    return m ^ swap ^ swap << 28;
}

/* Eight codes as bytes, the first lowest, to a byte of each plane: that of
 * plane p in byte p. */
static __device__ __forceinline__ uint64_t
planes_of_codes(uint64_t codes)
{
    uint64_t signs = codes >> 7 & UINT64_C(0x0101010101010101);
    uint64_t tcms = (codes << 1 & UINT64_C(0xFEFEFEFEFEFEFEFE)) ^ signs * 0xFF;
    return transpose_8x8(tcms);
}

/* ---- RRE4-TCMS8-RZE1 ---- */

/* Words that hold bit maps of `nbits`, filled up to a multiple of 8 bytes. */
static __host__ __device__ constexpr unsigned
map_nwords(unsigned nbits)
{
    return (nbits + 63) / 64 * 2;
}

/* Scratch of reduce_write beside the bytes, in words of 4 bytes. */
static __host__ __device__ __forceinline__ unsigned
reduce_maps_nwords(unsigned nbytes)
{
    unsigned nwords = (nbytes + 3) / 4, nlong = (nwords + 1) / 2, top_nbytes;

    return map_nwords(nwords) + map_nwords(8 * nlong) +
           2 * (tower_nwords((nwords + 7) / 8, true, &top_nbytes) +
                tower_nwords(nlong, true, &top_nbytes));
}

/* Words that RRE4 keeps of so many bytes at most, in words of 4 bytes. */
static __host__ __device__ __forceinline__ unsigned
reduce_kept_nwords(unsigned nbytes)
{
    return ((nbytes + 3) / 4 + 1) & ~1u;
}

/* What warps tell each other while they reduce. */
template <int NTHREADS> struct reduce_counts {
    unsigned nwords[NTHREADS / 32]; /* that differ, of each warp's */
    unsigned nbytes[NTHREADS / 32]; /* that are not zero, of each warp's */
    unsigned word_nkept, byte_nkept;
};

/* The sum of the counts of warps before this one, and of all. */
template <int NTHREADS>
static __device__ __forceinline__ unsigned
sum_of_warps(const unsigned counts[NTHREADS / 32], unsigned *total_ret)
{
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned all = lane < NTHREADS / 32 ? counts[lane] : 0;
    unsigned before = lane < warp ? all : 0;

#pragma unroll 1
    for (int step = 16; step > 0; step /= 2) {
        all += __shfl_xor_sync(0xFFFFFFFF, all, step);
        before += __shfl_xor_sync(0xFFFFFFFF, before, step);
    }
    *total_ret = all;
    return before;
}

/* Reduces `nbytes` bytes, which stand in `words`, filled up with zeros; all of
 * them are visible to the block. `kept`: reduce_kept_nwords; `maps`:
 * reduce_maps_nwords; both aligned to 8. Returns how many bytes it left in
 * place of the words: less than nbytes, or 0 where that many do not suffice
 * and the words are as they were.
 *
 * Each warp has a part of the words, later of the pairs that are kept, so that
 * it knows their places once it knows how many the warps before it have. The
 * levels above the maps are few: the last warp makes them. */
template <int NTHREADS>
static __device__ unsigned
reduce_write(uint32_t *words, unsigned nbytes, uint32_t *kept, uint32_t *maps,
             struct reduce_counts<NTHREADS> *s_counts)
{
    constexpr unsigned NWARPS = NTHREADS / 32;
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const unsigned nwords = (nbytes + 3) / 4, nmap = map_nwords(nwords);
    unsigned share = (nmap + NWARPS - 1) / NWARPS, n = 0, nkept, nrest;
    unsigned begin = min(warp * share, nmap), end = min(begin + share, nmap);
    uint32_t *map = maps;

    maps += nmap;
#pragma unroll 1
    for (unsigned w = begin; w < end; w++) {
        unsigned i = 32 * w + lane;
        bool differs = i < nwords && words[i] != (i == 0 ? 0 : words[i - 1]);
        uint32_t bits = __ballot_sync(0xFFFFFFFF, differs);
        if (lane == 0)
            map[w] = bits;
        n += (unsigned)__popc(bits);
    }
    if (lane == 0)
        s_counts->nwords[warp] = n;
    __syncthreads();

    unsigned at = sum_of_warps<NTHREADS>(s_counts->nwords, &nkept);
#pragma unroll 1
    for (unsigned w = begin; w < end; w++) {
        uint32_t bits = map[w];
        if (bits >> lane & 1)
            kept[at + (unsigned)__popc(bits & bits_below(lane))] =
                words[32 * w + lane];
        at += (unsigned)__popc(bits);
    }
    if (threadIdx.x == 0 && nkept % 2 != 0)
        kept[nkept] = 0;
    struct cuda_tower word_tower = tower_of(map, (nwords + 7) / 8, true, &maps);
    if (warp == NWARPS - 1) {
        tower_build_by_warp(&word_tower);
        s_counts->word_nkept = word_tower.nkept;
    }
    __syncthreads();

    const unsigned nlong = (nkept + 1) / 2,
                   nlong_map = 4 * map_nwords(8 * nlong);
    uint8_t *long_map = (uint8_t *)maps;
    uint64_t *longs = (uint64_t *)kept;
    maps += nlong_map / 4;
    share = (nlong_map + NTHREADS - 1) / NTHREADS * 32;
    begin = min(warp * share, nlong_map);
    end = min(begin + share, nlong_map);
    n = 0;
#pragma unroll 1
    for (unsigned i = begin + lane; i < end; i += 32) {
        unsigned bits = 0;
        if (i < nlong) {
            uint64_t word = longs[i];
            word = word << 1 ^ (0 - (word >> 63));
            bits = nonzero_bytes(word);
            longs[i] = word;
        }
        long_map[i] = (uint8_t)bits;
        n += (unsigned)__popc(bits);
    }
#pragma unroll 1
    for (int step = 16; step > 0; step /= 2)
        n += __shfl_xor_sync(0xFFFFFFFF, n, step);
    if (lane == 0)
        s_counts->nbytes[warp] = n;
    __syncthreads();

    struct cuda_tower byte_tower = tower_of(long_map, nlong, true, &maps);
    if (warp == NWARPS - 1) {
        tower_build_by_warp(&byte_tower);
        s_counts->byte_nkept = byte_tower.nkept;
    }
    at = sum_of_warps<NTHREADS>(s_counts->nbytes, &nrest);
    __syncthreads();

    uint8_t *dst = (uint8_t *)words;
    word_tower.nkept = s_counts->word_nkept;
    byte_tower.nkept = s_counts->byte_nkept;
    unsigned word_nbytes = tower_nbytes(word_tower);
    unsigned map_nbytes = word_nbytes + tower_nbytes(byte_tower);
    if (map_nbytes + nrest >= nbytes)
        return 0;
    tower_store<NTHREADS>(word_tower, dst);
    tower_store<NTHREADS>(byte_tower, dst + word_nbytes);
#pragma unroll 1
    for (unsigned first = begin; first < end; first += 32) {
        unsigned i = first + lane;
        unsigned bits = i < end ? long_map[i] : 0;
        unsigned sum = (unsigned)__popc(bits);
        n = sum;
#pragma unroll 1
        for (unsigned step = 1; step < 32; step *= 2) {
            unsigned below = __shfl_up_sync(0xFFFFFFFF, sum, step);
            sum += lane >= step ? below : 0;
        }
        if (bits != 0)
            keep_bytes(dst + map_nbytes + at + sum - n, longs[i], bits);
        at += __shfl_sync(0xFFFFFFFF, sum, 31);
    }
    return map_nbytes + nrest;
}

#endif
