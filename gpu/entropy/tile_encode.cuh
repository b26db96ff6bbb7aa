/* Shared by kernels that encode a tile per block: symbols in registers, slots
 * for tiles' bytes, and costs by entry. */
#pragma once

#include "codebooks/codebooks.h"
#include "gpu/block/warp.cuh"
#include "gpu/entropy/codebooks.cuh"

/* Threads of a block, and symbols of each thread. */
#define ENCODE_NTHREADS 256
#define ENCODE_THREAD_NSYMBOLS (TERP_TILE_NSYMBOLS / ENCODE_NTHREADS)
static_assert(ENCODE_THREAD_NSYMBOLS == 16,
              "A thread loads its symbols in two units of 16 bytes.");

/* Whether a batch has at most 128 tiles, about as many as a device has
 * multiprocessors: all blocks then run at once, and the kernels' latency
 * counts. With more tiles their throughput counts. Kernels have a variant
 * SMALL_BATCH for each. */
static __host__ __device__ __forceinline__ bool
is_small_batch(const struct cuda_batch &batch)
{
    return batch.ntiles * (unsigned)batch.nchunks <= 128;
}

#define ZERO_PAIR (TERP_RADIUS << 16 | TERP_RADIUS)

/* A thread's symbols of a tile, two in each word. */
struct thread_symbols {
    uint32_t pair[ENCODE_THREAD_NSYMBOLS / 2];
};

/* Loads eight symbols from `first` on; symbols from `n` on become code 0. */
static __device__ __forceinline__ void
load_symbols(const uint16_t *symbols, unsigned first, unsigned n,
             uint32_t pair[4])
{
    if (first + 8 <= n) {
        uint4 pairs = *(const uint4 *)(symbols + first);
        pair[0] = pairs.x;
        pair[1] = pairs.y;
        pair[2] = pairs.z;
        pair[3] = pairs.w;
        return;
    }
#pragma unroll
    for (unsigned i = 0; i < 8; i += 2) {
        unsigned low = TERP_RADIUS, high = TERP_RADIUS;
        if (first + i < n)
            low = symbols[first + i];
        if (first + i + 1 < n)
            high = symbols[first + i + 1];
        pair[i / 2] = high << 16 | low;
    }
}

/* Loads eight symbols from each of two places; the tile has `n` symbols. */
static __device__ __forceinline__ struct thread_symbols
load_thread_symbols(const uint16_t *symbols, unsigned first, unsigned second,
                    unsigned n)
{
    struct thread_symbols loaded;

    load_symbols(symbols, first, n, loaded.pair);
    load_symbols(symbols, second, n, loaded.pair + 4);
    return loaded;
}

static __device__ __forceinline__ unsigned
symbol_at(const struct thread_symbols &symbols, unsigned i)
{
    return symbols.pair[i / 2] >> (16 * (i % 2)) & 0xFFFF;
}

/* The slot of a tile in `staging`, which holds the tile's bytes until their
 * place in the stream is known. */
static __device__ __forceinline__ uint8_t *
tile_slot(const struct cuda_batch &batch, unsigned tile, unsigned max_nbytes)
{
    return region<uint8_t>(batch, batch.at.staging) +
           (uint64_t)tile * max_nbytes;
}

/* Copies the tile's `nbits` bits to its slot, and records its bytes and entry
 * for the index. All threads of a block call it. */
static __device__ __forceinline__ void
store_tile(const struct cuda_batch &batch, unsigned tile, unsigned max_nbytes,
           const uint32_t *s_bits, unsigned nbits, unsigned entry)
{
    const unsigned nbytes = (nbits + 7) / 8;
    uint32_t *slot = (uint32_t *)tile_slot(batch, tile, max_nbytes);

    for (unsigned i = threadIdx.x; i < (nbytes + 3) / 4; i += ENCODE_NTHREADS)
        slot[i] = __byte_perm(s_bits[i], 0, 0x0123);
    if (threadIdx.x == 0) {
        region<uint16_t>(batch, batch.at.nbytes)[tile] = (uint16_t)nbytes;
        region<uint8_t>(batch, batch.at.entry)[tile] = (uint8_t)entry;
    }
}

/* ---- costs ---- */

/* Words of a row of the table of codeword lengths, which has the lengths under
 * four entries in a word; groups of as many threads in a block. */
#define COST_ROW_NWORDS (TERP_ENTRY_STRIDE / 4)
#define COST_NGROUPS (ENCODE_NTHREADS / COST_ROW_NWORDS)
static_assert(TERP_TILE_NSYMBOLS * TERP_MAX_CODE_NBITS <= UINT16_MAX,
              "Two costs fit in 32 bits.");

/* Costs under four entries, 16 bits each: entries 0 and 2, and 1 and 3. */
struct four_costs {
    uint32_t even, odd;
};

/* Adds the groups' sums to the bits of a tile by entry, writes them to `cost`,
 * and counts the tile in ntiles_best for its best entry. The first warp works;
 * a lane has four entries. */
static __device__ __forceinline__ void
end_costs(struct cuda_chunk &chunk,
          const struct four_costs (*s_costs)[COST_ROW_NWORDS],
          struct cuda_tile_cost *cost)
{
    const unsigned at = threadIdx.x;
    uint32_t best = UINT32_MAX;

    if (threadIdx.x >= 32)
        return;
    if (threadIdx.x < COST_ROW_NWORDS) {
        struct four_costs sum = s_costs[0][at];
        for (unsigned g = 1; g < COST_NGROUPS; g++) {
            sum.even += s_costs[g][at].even;
            sum.odd += s_costs[g][at].odd;
        }
        ((uint2 *)cost->nbits)[at] =
            make_uint2((sum.even & 0xFFFF) | sum.odd << 16,
                       sum.even >> 16 | (sum.odd & 0xFFFF0000));
        for (unsigned i = 0; i < 4; i++) {
            uint32_t nbits = (i % 2 != 0 ? sum.odd : sum.even) >> (8 * (i & 2));
            if (4 * at + i < TERP_NENTRIES)
                best = min(best, (nbits & 0xFFFF) << 7 | (4 * at + i));
        }
    }
    best = warp_min(best);
    if (threadIdx.x == 0)
        atomicAdd(&chunk.ntiles_best[best & 127], 1ull);
}

/* The entry that a tile selects under the chunk's palette width. The entries of
 * all widths are loaded at once with the bits that decide the width. */
static __device__ __forceinline__ unsigned
entry_of_tile(const struct cuda_batch &batch, const struct cuda_chunk &chunk,
              unsigned tile)
{
    const uint4 *from =
        (const uint4 *)region<struct cuda_tile_cost>(batch, batch.at.cost)[tile]
            .best;
    const uint4 low = from[0], high = from[1];
    const uint32_t best[TERP_PALETTE_NWIDTHS] = {
        low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    unsigned width = palette_width(chunk);
    uint32_t selected = best[0];

#pragma unroll
    for (unsigned w = 1; w < TERP_PALETTE_NWIDTHS; w++)
        selected = w == width ? best[w] : selected;
    return selected & 127;
}
