/* Valid points. A point is valid if it is not special, and its number is how
 * many valid points stand before it in C order. The lossless prediction stores
 * differences in the order of the points' numbers. The region `valid_before`
 * holds the number of valid points before each tile, and last that of the
 * chunk. Without special points the number of a point is its position, and the
 * region is not used. */
#pragma once

#include "gpu/block/warp.cuh"
#include "gpu/predict/lossless.cuh"

#define VALID_TILE_NVALUES TERP_TILE_NSYMBOLS
#define VALID_TILE_NWORDS (VALID_TILE_NVALUES / 32)
static_assert(VALID_TILE_NWORDS == 4 * 32, "A lane has four words of a tile.");

/* The points of the block's chunk. */
struct valid_points {
    const uint32_t *mask;    /* NULL: no point is special */
    const uint64_t *nbefore; /* valid points before each tile, and all */
    uint64_t nvalues, ntiles;
};

static __device__ __forceinline__ struct valid_points
valid_points_of(const struct cuda_batch &batch, const struct cuda_chunk &chunk)
{
    return {lossless_mask(batch, chunk),
            region<uint64_t>(batch, batch.at.valid_before), batch.nvalues,
            batch.ntiles};
}

static __device__ __forceinline__ bool
is_valid(const struct valid_points &points, uint64_t at)
{
    return points.mask == nullptr || !is_set(points.mask, at);
}

static __device__ __forceinline__ uint64_t
nvalid_of(const struct valid_points &points)
{
    return points.mask == nullptr ? points.nvalues
                                  : points.nbefore[points.ntiles];
}

/* The valid points of a mask word that stand before `end`, as bits. */
static __device__ __forceinline__ uint32_t
valid_of_word(const struct valid_points &points, uint64_t word, uint64_t end)
{
    if (word * 32 >= end)
        return 0;
    const uint32_t all =
        end - word * 32 < 32 ? (1u << (end - word * 32)) - 1 : UINT32_MAX;
    return all & ~points.mask[word];
}

/* How many valid points of a tile stand before `end`. A warp calls it together,
 * with equal arguments. */
static __device__ __forceinline__ unsigned
count_valid(const struct valid_points &points, uint64_t tile, uint64_t end)
{
    const uint64_t first = tile * VALID_TILE_NWORDS + threadIdx.x % 32 * 4;
    unsigned n = 0;

#pragma unroll
    for (unsigned i = 0; i < 4; i++)
        n += (unsigned)__popc(valid_of_word(points, first + i, end));
    return warp_sum(n);
}

/* One more than the position of the last valid point in [first, end); 0 if
 * there is none. */
static __device__ __forceinline__ uint64_t
last_valid_before(const struct valid_points &points, uint64_t first,
                  uint64_t end)
{
    if (points.mask == nullptr || end == first)
        return end == first ? 0 : end;
    uint64_t word = (end - 1) / 32;
    uint32_t valid = valid_of_word(points, word, end);
    while (valid == 0 && word > first / 32) {
        const uint64_t tile = word / VALID_TILE_NWORDS;
        /* Skip a tile without valid points. */
        if (word % VALID_TILE_NWORDS == VALID_TILE_NWORDS - 1 &&
            points.nbefore[tile + 1] == points.nbefore[tile])
            word = tile * VALID_TILE_NWORDS;
        if (word <= first / 32)
            return 0;
        valid = valid_of_word(points, --word, end);
    }
    if (valid == 0)
        return 0;
    const uint64_t found = word * 32 + 32 - (unsigned)__clz((int)valid);
    return found > first ? found : 0;
}

/* The number of a valid point, for one thread. */
static __device__ __forceinline__ uint64_t
number_of_valid(const struct valid_points &points, uint64_t at)
{
    if (points.mask == nullptr)
        return at;
    const uint64_t tile = at / VALID_TILE_NVALUES;
    uint64_t number = points.nbefore[tile];
    for (uint64_t word = tile * VALID_TILE_NWORDS; word * 32 < at; word++)
        number += (unsigned)__popc(valid_of_word(points, word, at));
    return number;
}

/* The number of the point at `at` or, if that is special, of the next valid
 * one. A warp calls it together, with equal arguments. */
static __device__ __forceinline__ uint64_t
next_number(const struct valid_points &points, uint64_t at)
{
    const uint64_t tile = at / VALID_TILE_NVALUES;

    return points.mask == nullptr
               ? at
               : points.nbefore[tile] + count_valid(points, tile, at);
}
