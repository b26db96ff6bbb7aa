/* How a block of threads reads bytes of a stream and expands bit maps and bytes
 * that RRE1 has reduced: what gpu/block/reduce.cuh and codec/format/reduce.c
 * write. All threads of the block call these functions together, with the same
 * arguments, and get the same result. */
#pragma once

#include "gpu/block/scan.cuh"

#include "codec/format/base.h"
#include "codec/format/reduce.h"
#include "gpu/engine/platform.cuh"

/* ---- bytes ---- */

/* A reader that every thread of a block holds, at the same place. Some of the
 * bytes are staged, that is in shared memory too. Places count from `src`. */
struct block_reader {
    const uint8_t *src, *s_staged;
    uint64_t staged_at, staged_end;
    uint64_t at, end;
    bool underflow;
};

/* Stages what comes next, in aligned units of 16 bytes. So up to 15 bytes
 * before it are read too, which exist since a frame is longer; and up to as
 * many less than `cap_nbytes` are staged. s_staged is aligned to 16. */
template <unsigned NTHREADS>
static __device__ inline void
stage_bytes(struct block_reader *reader, uint8_t *s_staged, unsigned cap_nbytes)
{
    const uint8_t *at = reader->src + reader->at;
    const unsigned skipped = (unsigned)((uintptr_t)at % 16);
    const uint8_t *src = at - skipped;
    const unsigned end =
        (unsigned)min_u64(cap_nbytes, skipped + (reader->end - reader->at));
    const unsigned tail = end / 16 * 16;

    __syncthreads();
#pragma unroll 2
    for (unsigned i = threadIdx.x; i < end / 16; i += NTHREADS)
        ((uint4 *)s_staged)[i] = ((const uint4 *)src)[i];
    if (threadIdx.x < end - tail)
        s_staged[tail + threadIdx.x] = src[tail + threadIdx.x];
    reader->s_staged = s_staged + skipped;
    reader->staged_at = reader->at;
    reader->staged_end = reader->at + (end - skipped);
    __syncthreads();
}

/* The bytes [at, at + nbytes), none of which stands before what is staged. */
static __device__ __forceinline__ const uint8_t *
bytes_at(const struct block_reader &reader, uint64_t at, uint64_t nbytes)
{
    return at + nbytes <= reader.staged_end
               ? reader.s_staged + (at - reader.staged_at)
               : reader.src + at;
}

/* The next `nbytes`; NULL where there are fewer. */
static __device__ __forceinline__ const uint8_t *
take_bytes(struct block_reader *reader, uint64_t nbytes)
{
    if (reader->underflow || nbytes > reader->end - reader->at) {
        reader->underflow = true;
        return nullptr;
    }
    reader->at += nbytes;
    return bytes_at(*reader, reader->at - nbytes, nbytes);
}

static __device__ __forceinline__ uint64_t
take_le(struct block_reader *reader, int nbytes)
{
    const uint8_t *at = take_bytes(reader, (uint64_t)nbytes);
    return at == nullptr ? 0 : load_le(at, nbytes);
}

/* ---- expansion ---- */

/* Word i of a bit map of `nbits`; bits behind the last are 0. */
static __device__ __forceinline__ uint32_t
map_word(const uint32_t *map, unsigned nbits, unsigned i)
{
    const unsigned n = nbits - 32 * i;
    return n < 32 ? map[i] & ((1u << n) - 1) : map[i];
}

/* How many bits are set in a map of `nbits`, and how many in its words before
 * word `end`. Each warp finds this out for itself. */
static __device__ __forceinline__ unsigned
count_map(const uint32_t *map, unsigned nbits, unsigned end,
          unsigned *before_ret)
{
    unsigned all = 0, before = 0;

#pragma unroll 1
    for (unsigned i = threadIdx.x % 32; i < (nbits + 31) / 32; i += 32) {
        unsigned n = (unsigned)__popc(map_word(map, nbits, i));
        all += n;
        before += i < end ? n : 0;
    }
    *before_ret = __reduce_add_sync(FULL_WARP_MASK, before);
    return __reduce_add_sync(FULL_WARP_MASK, all);
}

/* RRE1 backwards: dst[i] is the byte kept for the last bit that is set in the
 * first i + 1 of the map, or 0. A warp has some words of the map that follow
 * each other, and makes a byte a lane. Ends with a barrier. */
template <unsigned NTHREADS>
static __device__ void
expand_level(struct block_reader *reader, const uint32_t *map, uint8_t *dst,
             unsigned nbytes)
{
    const unsigned nwords = (nbytes + 31) / 32, lane = threadIdx.x % 32;
    const unsigned share = (nwords + NTHREADS / 32 - 1) / (NTHREADS / 32);
    const unsigned begin = threadIdx.x / 32 * share;
    unsigned n;
    const uint8_t *kept = take_bytes(reader, count_map(map, nbytes, begin, &n));

#pragma unroll 1
    for (unsigned i = begin; i < min(begin + share, nwords) && kept != nullptr;
         i++) {
        uint32_t bits = map_word(map, nbytes, i);
        unsigned at = n + (unsigned)__popc(bits & ((2u << lane) - 1));
        if (32 * i + lane < nbytes)
            dst[32 * i + lane] = at > 0 ? kept[at - 1] : 0;
        n += (unsigned)__popc(bits);
    }
    __syncthreads();
}

/* A bit map of `nbytes` that is stored or reduced, into dst: aligned to 8, as
 * `scratch` is, which has room for an eighth. Both have room for a multiple of
 * 8 bytes. Bits behind the last one in use are not checked. */
template <unsigned NTHREADS>
static __device__ void
expand_bitmap(struct block_reader *reader, uint8_t *dst, unsigned nbytes,
              uint8_t *scratch)
{
    unsigned level = 0;

    if (nbytes == 0)
        return;
        /* Level k has a bit for each byte of level k - 1. The levels take turns
         * in dst and scratch. */
#pragma unroll 1
    while ((nbytes - 1) >> (3 * level) >= TERP_BITMAP_STORED_NBYTES)
        level++;
#pragma unroll 1
    for (bool stored = true;; stored = false, level--) {
        unsigned level_nbytes = ((nbytes - 1) >> (3 * level)) + 1;
        uint8_t *to = level % 2 == 0 ? dst : scratch;
        uint8_t *from = level % 2 == 0 ? scratch : dst;
        if (stored) {
            const uint8_t *at = take_bytes(reader, level_nbytes);
            if (at != nullptr && threadIdx.x < level_nbytes)
                to[threadIdx.x] = at[threadIdx.x];
            __syncthreads();
        } else {
            expand_level<NTHREADS>(reader, (const uint32_t *)from, to,
                                   level_nbytes);
        }
        if (level == 0 || reader->underflow)
            return;
    }
}
