/* Expands a reduced partition of tiles with a block of threads: undoes
 * RRE4-TCMS8-RZE1 (doc/format.md, "Stages"). codec/format/reduce.c does the
 * same one word after another. */
#pragma once

#include "codec/format/bytes.h"
#include "gpu/block/expand.cuh"
#include "gpu/engine/state.cuh"

/* RRE4 takes a partition as words of 4 bytes. RZE1 takes the words that RRE4
 * keeps, in pairs of 8 bytes. One bit map says which words are kept, the other
 * which bytes. */
#define EXPAND_MAX_NWORDS (CUDA_PARTITION_MAX_NBYTES / 4)
#define EXPAND_MAX_NPAIRS (EXPAND_MAX_NWORDS / 2)
static_assert(EXPAND_MAX_NWORDS % 64 == 0 && EXPAND_MAX_NPAIRS % 64 == 0,
              "Bit maps are whole words of 64 bits.");

/* Shared memory of a block of NTHREADS threads. STAGED_NBYTES bytes of the
 * reduced partition are staged; bytes beyond are read from the stream. */
template <unsigned NTHREADS, unsigned STAGED_NBYTES> struct expand_shared {
    __align__(16) uint8_t staged[STAGED_NBYTES];
    alignas(8) uint32_t words[EXPAND_MAX_NWORDS / 32]; /* the two bit maps */
    alignas(8) uint32_t bytes[EXPAND_MAX_NPAIRS / 4];
    alignas(8) uint8_t above[EXPAND_MAX_NPAIRS / 8];
    /* for each word of both maps, `words` first: bits set before it */
    uint32_t before[EXPAND_MAX_NWORDS / 32 + EXPAND_MAX_NPAIRS / 4];
    block_scan<unsigned, NTHREADS> scan;
};

/* The words and bytes of a partition that RRE4 and RZE1 have kept. */
struct kept_bytes {
    unsigned nwords; /* of the whole partition */
    unsigned nmap;   /* words of 32 bits in the map of words */
    const uint8_t *bytes;
};

/* Writes to before_ret[i] how many bits of a map of `nbits` bits are set before
 * word i. Returns how many are set in the whole map. Ends with a barrier. */
template <unsigned NTHREADS, unsigned STAGED_NBYTES>
static __device__ __forceinline__ unsigned
scan_map(expand_shared<NTHREADS, STAGED_NBYTES> &s, const uint32_t *map,
         unsigned nbits, uint32_t *before_ret)
{
    const unsigned n = (nbits + 31) / 32;
    const unsigned share = (n + NTHREADS - 1) / NTHREADS;
    const unsigned begin = threadIdx.x * share, end = min(begin + share, n);
    unsigned sum = 0, before, all;

#pragma unroll 1
    for (unsigned i = begin; i < end; i++)
        sum += (unsigned)__popc(map_word(map, nbits, i));
    before = scan_block(s.scan, sum, &all);
#pragma unroll 1
    for (unsigned i = begin; i < end; i++) {
        before_ret[i] = before;
        before += (unsigned)__popc(map_word(map, nbits, i));
    }
    __syncthreads();
    return all;
}

/* Expands both bit maps of a partition of `nbytes` bytes and finds the bytes
 * that were kept. The reduced partition extends from the reader's position to
 * its end. Returns false if it is not valid. Ends with a barrier. */
template <unsigned NTHREADS, unsigned STAGED_NBYTES>
static __device__ __forceinline__ bool
find_kept(struct block_reader *reader,
          expand_shared<NTHREADS, STAGED_NBYTES> &s, unsigned nbytes,
          struct kept_bytes *kept_ret)
{
    const unsigned nwords = (nbytes + 3) / 4, nmap = (nwords + 31) / 32;
    const uint8_t *bytes = nullptr;

    /* The first turn expands the map of words, the second the map of the bytes
     * of those words. A loop has less code than two calls. */
    unsigned nbits = nwords;
    uint32_t *map = s.words, *before = s.before;
#pragma unroll 1
    for (bool of_words = true;; of_words = false) {
        expand_bitmap<NTHREADS>(reader, (uint8_t *)map, (nbits + 7) / 8,
                                s.above);
        if (reader->underflow)
            return false;
        const unsigned n = scan_map(s, map, nbits, before);
        if (!of_words) {
            bytes = take_bytes(reader, n);
            break;
        }
        nbits = 8 * ((n + 1) / 2);
        map = s.bytes;
        before += nmap;
    }
    *kept_ret = {nwords, nmap, bytes};
    return bytes != nullptr && reader->at == reader->end;
}

/* Returns pair `at` of the words that RRE4 has kept. It undoes RZE1 and TCMS8.
 */
template <unsigned NTHREADS, unsigned STAGED_NBYTES>
static __device__ __forceinline__ uint64_t
kept_pair(const expand_shared<NTHREADS, STAGED_NBYTES> &s,
          const struct kept_bytes &kept, unsigned at)
{
    const uint32_t map = s.bytes[at / 4];
    const unsigned first = 8 * (at % 4), bits = map >> first & 255;
    const uint8_t *from = kept.bytes + s.before[kept.nmap + at / 4] +
                          __popc(map & ((1u << first) - 1));
    uint64_t pair = 0;

#pragma unroll
    for (unsigned i = 0; i < 8; i++)
        if (bits >> i & 1)
            pair |= (uint64_t)*from++ << (8 * i);
    return terp_tcms8_inverse(pair);
}

/* Returns word i of the partition. The number of bits set up to and including
 * bit i says which kept word it is. */
template <unsigned NTHREADS, unsigned STAGED_NBYTES>
static __device__ __forceinline__ uint32_t
kept_word(const expand_shared<NTHREADS, STAGED_NBYTES> &s,
          const struct kept_bytes &kept, unsigned i)
{
    const unsigned n =
        s.before[i / 32] +
        (unsigned)__popc(s.words[i / 32] & ((2u << (i % 32)) - 1));
    uint64_t pair = 0;

    if (n > 0)
        pair = kept_pair(s, kept, (n - 1) / 2);
    return n % 2 != 0 ? (uint32_t)pair : (uint32_t)(pair >> 32);
}
