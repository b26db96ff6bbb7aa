/* How a block of threads expands a reduced partition of tiles: RRE4-TCMS8-RZE1
 * backwards. codec/format/reduce.c does the same one word after another. */
#pragma once

#include "codec/format/bytes.h"
#include "gpu/block/expand.cuh"
#include "gpu/engine/state.cuh"

/* RRE4 sees a partition as words of four bytes, RZE1 what is left of them as
 * pairs of words. A bit each for the words and for the bytes that are kept. */
#define EXPAND_MAX_NWORDS (CUDA_PARTITION_MAX_NBYTES / 4)
#define EXPAND_MAX_NPAIRS (EXPAND_MAX_NWORDS / 2)
static_assert(EXPAND_MAX_NWORDS % 64 == 0 && EXPAND_MAX_NPAIRS % 64 == 0,
              "Bit maps are whole words of 64 bits.");

/* Of a block of NTHREADS. STAGED_NBYTES of a partition's bytes are staged; more
 * are read where they are. */
template <unsigned NTHREADS, unsigned STAGED_NBYTES> struct expand_shared {
    __align__(16) uint8_t staged[STAGED_NBYTES];
    alignas(8) uint32_t words[EXPAND_MAX_NWORDS / 32]; /* bit maps */
    alignas(8) uint32_t bytes[EXPAND_MAX_NPAIRS / 4];
    alignas(8) uint8_t above[EXPAND_MAX_NPAIRS / 8];
    /* bits set before each word of the maps, which stand one after another */
    uint32_t before[EXPAND_MAX_NWORDS / 32 + EXPAND_MAX_NPAIRS / 4];
    struct block_scan<unsigned, NTHREADS> scan;
};

/* What RRE4 and RZE1 kept of a partition. */
struct kept_bytes {
    unsigned nwords; /* of the partition */
    unsigned nmap;   /* words of the map of words */
    const uint8_t *bytes;
};

/* Finds how many bits are set before each word of a map of `nbits`. Returns how
 * many are set in all. Ends with a barrier. */
template <unsigned NTHREADS, unsigned STAGED_NBYTES>
static __device__ __forceinline__ unsigned
scan_map(struct expand_shared<NTHREADS, STAGED_NBYTES> &s, const uint32_t *map,
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

/* Finds what was kept of a partition of `nbytes`, which stands from the
 * reader's place up to its end. False where that is not valid. Ends with a
 * barrier. */
template <unsigned NTHREADS, unsigned STAGED_NBYTES>
static __device__ __forceinline__ bool
find_kept(struct block_reader *reader,
          struct expand_shared<NTHREADS, STAGED_NBYTES> &s, unsigned nbytes,
          struct kept_bytes *kept_ret)
{
    const unsigned nwords = (nbytes + 3) / 4, nmap = (nwords + 31) / 32;
    const uint8_t *bytes = nullptr;

    /* First the map of words, then that of the bytes of those that are kept.
     * A loop, for less code. */
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

/* Pair `at` of the words that RRE4 kept: RZE1 and TCMS8 backwards. */
template <unsigned NTHREADS, unsigned STAGED_NBYTES>
static __device__ __forceinline__ uint64_t
kept_pair(const struct expand_shared<NTHREADS, STAGED_NBYTES> &s,
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

/* Word i of the partition: bits set up to its own tell which kept word it is.
 */
template <unsigned NTHREADS, unsigned STAGED_NBYTES>
static __device__ __forceinline__ uint32_t
kept_word(const struct expand_shared<NTHREADS, STAGED_NBYTES> &s,
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
