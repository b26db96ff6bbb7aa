/* Functions by which a block of threads reduces bit maps: RRE1, and the levels
 * of bit maps above it (doc/format.md, "Bit maps"). codec/format/reduce.c
 * writes the same bytes, gpu/block/expand.cuh reads them.
 *
 * All threads of a block of NTHREADS call each function together. Memory is
 * shared or global. The input of a function must be visible to all threads of
 * the block before the call. Its output is visible to all threads after the
 * next barrier, unless a comment says otherwise. Loops with few turns are not
 * unrolled: the only block of a small chunk runs its code once, so loading more
 * code takes longer than taking more turns. */
#pragma once

#include "gpu/block/scan.cuh"

#include "codec/format/reduce.h"
#include "gpu/engine/platform.cuh"

/* Returns the bits of a word below bit i. */
static __device__ __forceinline__ uint32_t
bits_below(unsigned i)
{
    return (1u << i) - 1;
}

/* Writes to before[i] how many bits are set in the words before word i. Returns
 * how many bits are set in all words. Ends with a barrier. */
template <int NTHREADS>
static __device__ unsigned
scan_bits(const uint32_t *words, unsigned nwords, uint32_t *before,
          block_scan<unsigned, NTHREADS> &s_scan)
{
    unsigned total = 0;

    for (unsigned first = 0; first < nwords; first += NTHREADS) {
        unsigned i = first + threadIdx.x;
        uint32_t at, sum;
        uint32_t n = i < nwords ? (uint32_t)__popc(words[i]) : 0;
        at = scan_block(s_scan, n, &sum);
        if (i < nwords)
            before[i] = total + at;
        total += sum;
        __syncthreads();
    }
    return total;
}

/* Returns one bit for each of eight bytes: 1 if the byte is not zero. */
static __device__ __forceinline__ unsigned
nonzero_bytes(uint64_t bytes)
{
    const uint64_t low = UINT64_C(0x7F7F7F7F7F7F7F7F);
    uint64_t high = (((bytes & low) + low) | bytes) & ~low;
    /* The product gathers the flags of all bytes in the highest byte. */
    return (unsigned)((high >> 7) * UINT64_C(0x0102040810204080) >> 56);
}

/* Writes the bytes of `bytes` whose bits are set in `bits`, one after another.
 */
static __device__ __forceinline__ void
keep_bytes(uint8_t *dst, uint64_t bytes, unsigned bits)
{
#pragma unroll 1
    for (; bits != 0; bits &= bits - 1)
        *dst++ = (uint8_t)(bytes >> (8 * (__ffs((int)bits) - 1)));
}

/* A bit map and the levels above it. Level 0 is the bytes of the map itself.
 * Each further level is the bit map of RRE1 of the level below. The last level
 * is short enough to be stored. The stream has the last level, then the bytes
 * that RRE1 keeps of each lower level, down to level 0.
 *
 * The levels from 1 on are in `words`, the last level first. Each level is
 * padded with zeros to a multiple of 8 bytes, so one scan over all bits says
 * where each kept byte goes. A thread takes eight bytes at a time. Level 0 must
 * therefore be aligned to 8, and its last eight bytes must be readable as one
 * word. */
struct cuda_tower {
    const uint64_t *bytes; /* level 0 */
    unsigned nbytes;
    uint32_t *words;
    uint32_t *before; /* bits set before each of `words` */
    unsigned nwords;
    unsigned top_nbytes; /* of the last level */
    unsigned nkept;      /* bytes kept of all levels */
};

/* Returns the words of the level above `nbytes` bytes. */
static __host__ __device__ constexpr unsigned
level_nwords(unsigned nbytes)
{
    return (nbytes + 63) / 64 * 2;
}

/* Returns the words of all levels above a bit map of `nbytes` bytes, and in
 * *top_nbytes_ret the bytes of the last level. */
static __host__ __device__ __forceinline__ unsigned
tower_nwords(unsigned nbytes, unsigned *top_nbytes_ret)
{
    unsigned nwords = 0;

#pragma unroll 1
    while (nbytes > TERP_BITMAP_STORED_NBYTES) {
        nwords += level_nwords(nbytes);
        nbytes = (nbytes + 7) / 8;
    }
    *top_nbytes_ret = nbytes;
    return nwords;
}

/* Returns a tower whose levels tower_build will fill. It takes memory for
 * `words` and `before` from *memory, which must be aligned to 8, and moves
 * *memory past them. */
static __device__ __forceinline__ struct cuda_tower
tower_of(const void *bitmap, unsigned nbytes, uint32_t **memory)
{
    struct cuda_tower tower = {};

    tower.bytes = (const uint64_t *)bitmap;
    tower.nbytes = nbytes;
    tower.nwords = tower_nwords(nbytes, &tower.top_nbytes);
    tower.words = *memory;
    tower.before = *memory + tower.nwords;
    *memory += 2 * tower.nwords;
    return tower;
}

/* Returns one bit for each of the eight bytes from byte 8 i on: 1 if the byte
 * differs from the byte before it. */
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

/* Fills all levels, from level 1 up, and counts the bytes that are kept. One
 * thread makes one byte of a level. Ends with a barrier. */
template <int NTHREADS>
static __device__ void
tower_build(struct cuda_tower *tower, block_scan<unsigned, NTHREADS> &s_scan)
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

static __device__ __forceinline__ unsigned
tower_nbytes(const struct cuda_tower &tower)
{
    return tower.top_nbytes + tower.nkept;
}

/* Writes the bytes whose bits are set in `map`. before[i]: how many bits are
 * set before word i of the map. `bytes` is aligned to 8. */
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

/* Writes the bytes of a tower to `dst`, tower_nbytes of them. tower_build must
 * have filled its levels. */
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
