/* Floor 3: lossless stages, a block at a time. doc/format.md, "Stages" and
 * "Bit maps"; codec/reduce.c writes the same bytes one after another. What
 * reads them is in cuda_expand.cuh.
 *
 * All threads of a block of NTHREADS call these functions together. Memory is
 * shared or global; a function may read what it is given at once, and its
 * caller waits before it reads what others wrote, unless noted otherwise. */
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

/* Bytes and the bit maps above them: level 0 is the bytes, each further level
 * the bit map of the RRE1 of the one below, the last one short enough to be
 * stored. The stream has the last level, then the bytes that RRE1 keeps of
 * each level below, down to level 0.
 *
 * Levels from 1 on stand in `words`, the last one first, each in whole words,
 * so that one scan of all their bits tells where each kept byte goes. */
struct cuda_tower {
    const uint8_t *bytes; /* level 0 */
    unsigned nbytes;
    uint32_t *words;
    uint32_t *before; /* for each of `words` */
    unsigned nwords;
    unsigned top_nbytes; /* of the last level */
    unsigned nkept;      /* bytes, of all levels */
};

/* Number of words, and of bytes of the last level, above `nbytes` bytes. A bit
 * map needs no level above it when it is short, other bytes need one. */
static __host__ __device__ __forceinline__ unsigned
tower_nwords(unsigned nbytes, bool is_bitmap, unsigned *top_nbytes_ret)
{
    unsigned nwords = 0;

    for (bool more = !is_bitmap; more || nbytes > CUDA_STORED_NBYTES;
         more = false) {
        nwords += (nbytes + 31) / 32;
        nbytes = (nbytes + 7) / 8;
    }
    *top_nbytes_ret = nbytes;
    return nwords;
}

/* Takes twice the words of its levels from *memory. */
static __device__ __forceinline__ struct cuda_tower
tower_of(const void *bytes, unsigned nbytes, bool is_bitmap, uint32_t **memory)
{
    struct cuda_tower tower = {};

    tower.bytes = (const uint8_t *)bytes;
    tower.nbytes = nbytes;
    tower.nwords = tower_nwords(nbytes, is_bitmap, &tower.top_nbytes);
    tower.words = *memory;
    tower.before = *memory + tower.nwords;
    *memory += 2 * tower.nwords;
    return tower;
}

/* Makes the levels. Level 0 is visible to the block. */
template <int NTHREADS>
static __device__ void
tower_build(struct cuda_tower *tower, scan_storage<NTHREADS> &s_scan)
{
    const uint8_t *below = tower->bytes;
    unsigned nbytes = tower->nbytes, lane = threadIdx.x % 32;
    uint32_t *level = tower->words + tower->nwords;

    while (level != tower->words) {
        unsigned nwords = (nbytes + 31) / 32;
        level -= nwords;
        for (unsigned w = threadIdx.x / 32; w < nwords; w += NTHREADS / 32) {
            unsigned i = 32 * w + lane;
            bool differs =
                i < nbytes && below[i] != (i == 0 ? 0 : below[i - 1]);
            uint32_t bits = __ballot_sync(0xFFFFFFFF, differs);
            if (lane == 0)
                level[w] = bits;
        }
        __syncthreads();
        below = (const uint8_t *)level;
        nbytes = (nbytes + 7) / 8;
    }
    tower->nkept =
        scan_bits<NTHREADS>(tower->words, tower->nwords, tower->before, s_scan);
}

static __device__ __forceinline__ unsigned
tower_nbytes(const struct cuda_tower &tower)
{
    return tower.top_nbytes + tower.nkept;
}

/* Writes tower_nbytes to dst, once the levels are made. */
template <int NTHREADS>
static __device__ void
tower_store(const struct cuda_tower &tower, uint8_t *dst)
{
    const uint8_t *below = tower.bytes;
    const uint8_t *top =
        tower.nwords > 0 ? (const uint8_t *)tower.words : tower.bytes;
    unsigned nbytes = tower.nbytes, at = tower.nwords;

    for (unsigned i = threadIdx.x; i < tower.top_nbytes; i += NTHREADS)
        dst[i] = top[i];
    dst += tower.top_nbytes;
    while (at > 0) {
        at -= (nbytes + 31) / 32;
        for (unsigned i = threadIdx.x; i < nbytes; i += NTHREADS) {
            uint32_t bits = tower.words[at + i / 32];
            if (bits >> (i % 32) & 1)
                dst[tower.before[at + i / 32] +
                    __popc(bits & bits_below(i % 32))] = below[i];
        }
        below = (const uint8_t *)(tower.words + at);
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

/* Scratch beside the words, in words of 4 bytes; see reduce_lay_out. */
static __host__ __device__ __forceinline__ unsigned
reduce_maps_nwords(unsigned nbytes)
{
    unsigned nwords = (nbytes + 3) / 4, top_nbytes;
    unsigned word_map = (nwords + 31) / 32;
    unsigned byte_map = ((nwords + 1) / 2 + 3) / 4;

    return 2 * (word_map + byte_map +
                tower_nwords((nwords + 7) / 8, true, &top_nbytes) +
                tower_nwords((nwords + 1) / 2, true, &top_nbytes));
}

/* Words that RRE4 keeps of so many bytes at most, in words of 4 bytes. */
static __host__ __device__ __forceinline__ unsigned
reduce_kept_nwords(unsigned nbytes)
{
    return ((nbytes + 3) / 4 + 1) & ~1u;
}

/* Reduces `nbytes` bytes, which stand in `words`, filled up with zeros; all of
 * them are visible to the block. `kept`: reduce_kept_nwords, aligned to 8;
 * `maps`: reduce_maps_nwords. Returns how many bytes it wrote to dst: less
 * than nbytes, or 0, and nothing is written, when that many do not suffice. */
template <int NTHREADS>
static __device__ unsigned
reduce_write(const uint32_t *words, unsigned nbytes, uint32_t *kept,
             uint32_t *maps, uint8_t *dst, scan_storage<NTHREADS> &s_scan)
{
    unsigned nwords = (nbytes + 3) / 4, lane = threadIdx.x % 32;
    unsigned nmap = (nwords + 31) / 32;
    uint32_t *map = maps, *before = maps + nmap;

    maps += 2 * nmap;
    for (unsigned w = threadIdx.x / 32; w < nmap; w += NTHREADS / 32) {
        unsigned i = 32 * w + lane;
        bool differs = i < nwords && words[i] != (i == 0 ? 0 : words[i - 1]);
        uint32_t bits = __ballot_sync(0xFFFFFFFF, differs);
        if (lane == 0)
            map[w] = bits;
    }
    __syncthreads();
    unsigned nkept = scan_bits<NTHREADS>(map, nmap, before, s_scan);
    for (unsigned i = threadIdx.x; i < nwords; i += NTHREADS) {
        uint32_t bits = map[i / 32];
        if (bits >> (i % 32) & 1)
            kept[before[i / 32] + __popc(bits & bits_below(i % 32))] = words[i];
    }
    if (threadIdx.x == 0 && nkept % 2 != 0)
        kept[nkept] = 0;
    struct cuda_tower word_tower = tower_of(map, (nwords + 7) / 8, true, &maps);
    tower_build<NTHREADS>(&word_tower, s_scan);
    __syncthreads();

    unsigned nlong = (nkept + 1) / 2, nlong_map = (nlong + 3) / 4;
    uint32_t *byte_map = maps, *byte_before = maps + nlong_map;
    uint64_t *longs = (uint64_t *)kept;
    maps += 2 * nlong_map;
    for (unsigned i = threadIdx.x; i < 4 * nlong_map; i += NTHREADS) {
        unsigned bits = 0;
        if (i < nlong) {
            uint64_t word = longs[i];
            word = word << 1 ^ (0 - (word >> 63));
            for (unsigned j = 0; j < 8; j++)
                bits |= (unsigned)((word >> (8 * j) & 0xFF) != 0) << j;
            longs[i] = word;
        }
        ((uint8_t *)byte_map)[i] = (uint8_t)bits;
    }
    __syncthreads();
    unsigned nrest =
        scan_bits<NTHREADS>(byte_map, nlong_map, byte_before, s_scan);
    struct cuda_tower byte_tower = tower_of(byte_map, nlong, true, &maps);
    tower_build<NTHREADS>(&byte_tower, s_scan);

    unsigned word_nbytes = tower_nbytes(word_tower);
    unsigned map_nbytes = word_nbytes + tower_nbytes(byte_tower);
    if (map_nbytes + nrest >= nbytes)
        return 0;
    tower_store<NTHREADS>(word_tower, dst);
    tower_store<NTHREADS>(byte_tower, dst + word_nbytes);
    for (unsigned i = threadIdx.x; i < 8 * nlong; i += NTHREADS) {
        uint32_t bits = byte_map[i / 32];
        if (bits >> (i % 32) & 1)
            dst[map_nbytes + byte_before[i / 32] +
                __popc(bits & bits_below(i % 32))] = ((uint8_t *)longs)[i];
    }
    return map_nbytes + nrest;
}

#endif
