/* Functions by which a block of threads reads bytes of a stream and expands bit
 * maps that RRE1 has reduced (doc/format.md, "Stages"). gpu/block/reduce.cuh
 * and codec/format/reduce.c write such bytes. All threads of the block call
 * each function together, with the same arguments, and get the same result. */
#pragma once

#include "gpu/block/scan.cuh"

#include "codec/format/base.h"
#include "codec/format/reduce.h"
#include "gpu/engine/platform.cuh"

/* ---- bytes ---- */

/* A position in a stream. Every thread of a block holds a copy, and all copies
 * are equal. The bytes from staged_at to staged_end are also in shared memory.
 * Positions are offsets from `src`. underflow: more bytes were read than the
 * stream has. */
struct block_reader {
    const uint8_t *src, *s_staged;
    uint64_t staged_at, staged_end;
    uint64_t at, end;
    bool underflow;
};

/* Copies the next bytes to `s_staged`, which must be aligned to 16. It loads
 * aligned units of 16 bytes. It therefore reads up to 15 bytes before the
 * reader's position, which exist because a frame is longer than that; and it
 * stages between `cap_nbytes` - 15 and `cap_nbytes` bytes if the stream has as
 * many. Begins and ends with a barrier. */
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

/* Returns the address of the bytes [at, at + nbytes), in shared memory if all
 * of them are staged. They must not begin before staged_at. */
static __device__ __forceinline__ const uint8_t *
bytes_at(const struct block_reader &reader, uint64_t at, uint64_t nbytes)
{
    return at + nbytes <= reader.staged_end
               ? reader.s_staged + (at - reader.staged_at)
               : reader.src + at;
}

/* Returns the next `nbytes` bytes and moves the reader past them. Returns NULL
 * and sets underflow if fewer bytes are left. */
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

/* Returns word i of a bit map of `nbits` bits. Bits after the last one are 0.
 */
static __device__ __forceinline__ uint32_t
map_word(const uint32_t *map, unsigned nbits, unsigned i)
{
    const unsigned n = nbits - 32 * i;
    return n < 32 ? map[i] & ((1u << n) - 1) : map[i];
}

/* Returns how many bits are set in a map of `nbits` bits, and in *before_ret
 * how many are set in the words before word `end`. Each warp counts for itself,
 * so no barrier is needed. */
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

/* Undoes RRE1. dst[i] is the byte that was kept for the last bit set among the
 * first i + 1 bits of the map, or 0 if none is set. Each warp has consecutive
 * words of the map; for each word a lane writes one byte. Ends with a barrier.
 */
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

/* Expands a bit map of `nbytes` bytes, which is stored or reduced, to `dst`.
 * `dst` and `scratch` are aligned to 8 and hold a multiple of 8 bytes;
 * `scratch` holds at least nbytes / 8. Bits after the last one in use are not
 * checked. */
template <unsigned NTHREADS>
static __device__ void
expand_bitmap(struct block_reader *reader, uint8_t *dst, unsigned nbytes,
              uint8_t *scratch)
{
    unsigned level = 0;

    if (nbytes == 0)
        return;
        /* Level k has a bit for each byte of level k - 1. Levels with even
         * numbers are in `dst`, levels with odd numbers in `scratch`. */
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
