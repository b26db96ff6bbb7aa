/* The section of low bits: where it has those of each tile, whose groups follow
 * each other, and how a block writes it. */
#ifndef TERP_GPU_SECTIONS_LOW_BITS_CUH
#define TERP_GPU_SECTIONS_LOW_BITS_CUH

#include <cub/block/block_scan.cuh>

#include "gpu/block/concatenate.cuh"
#include "gpu/engine/state.cuh"
#include "gpu/entropy/codebooks.cuh"

/* What is known of a tile's low bits. */
struct alignas(16) cuda_low_tile {
    uint64_t widths; /* of its groups, as the section has them */
    uint64_t begin;  /* behind all widths */
};

#define LOW_TILE_NGROUPS (TERP_TILE_NSYMBOLS / TERP_LOW_GROUP_NNUMBERS)
#define LOW_TILE_MAX_NBYTES (TERP_TILE_NSYMBOLS * TERP_LOW_MAX_NBITS / 8)
static_assert(LOW_TILE_NGROUPS * TERP_LOW_WIDTH_NBITS == 64,
              "The widths of a tile's groups fill a word.");

template <unsigned NTHREADS>
using low_tile_scan = cub::BlockScan<unsigned long long, (int)NTHREADS,
                                     cub::BLOCK_SCAN_WARP_SCANS>;

/* The low bits of a block's chunk. */
struct low_bits_view {
    uint64_t nvalues, ntiles;
    struct cuda_low_tile *tiles;
    uint8_t *slots; /* encode: LOW_TILE_MAX_NBYTES a tile */
};

static __device__ __forceinline__ struct low_bits_view
low_bits_of(const struct cuda_batch &batch)
{
    return {batch.nvalues, batch.ntiles,
            region<struct cuda_low_tile>(batch, blockIdx.y, batch.at.low_tiles),
            region<uint8_t>(batch, blockIdx.y, batch.at.low_bits)};
}

/* ---- widths ---- */

/* Bytes of the widths of all groups. */
static __device__ __forceinline__ uint64_t
low_widths_nbytes(const struct low_bits_view &view)
{
    return packed_nbytes(terp_low_ngroups(view.nvalues), TERP_LOW_WIDTH_NBITS);
}

static __device__ __forceinline__ int
low_width_at(uint64_t widths, unsigned group)
{
    return (int)(widths >> (TERP_LOW_WIDTH_NBITS * group) &
                 ((1u << TERP_LOW_WIDTH_NBITS) - 1));
}

/* Groups of a tile. */
static __device__ __forceinline__ unsigned
low_tile_ngroups(const struct low_bits_view &view, uint64_t tile)
{
    return (unsigned)min_u64(LOW_TILE_NGROUPS, terp_low_ngroups(view.nvalues) -
                                                   tile * LOW_TILE_NGROUPS);
}

/* A tile's widths from those of all at `at`; 0 where it has no group. */
static __device__ __forceinline__ uint64_t
load_low_widths(const struct low_bits_view &view, const uint8_t *at,
                uint64_t tile)
{
    const unsigned nbits = low_tile_ngroups(view, tile) * TERP_LOW_WIDTH_NBITS;

    return load_le(at + 8 * tile, (int)(nbits + 7) / 8) &
           UINT64_MAX >> (64 - nbits);
}

/* Whether all widths of a tile may be. */
static __device__ __forceinline__ bool
low_widths_fit(uint64_t widths, int low_nbits)
{
    bool fit = true;

#pragma unroll
    for (unsigned g = 0; g < LOW_TILE_NGROUPS; g++)
        fit &= low_width_at(widths, g) <= low_nbits;
    return fit;
}

/* Where a tile's group begins behind the first: only the last of all may have
 * fewer numbers than others. */
static __device__ __forceinline__ unsigned
low_group_begin(uint64_t widths, unsigned group)
{
    const uint64_t nibbles = UINT64_C(0x0F0F0F0F0F0F0F0F);
    const uint64_t before =
        widths & ((UINT64_C(1) << (TERP_LOW_WIDTH_NBITS * group)) - 1);
    const uint64_t pairs = (before & nibbles) + (before >> 4 & nibbles);

    static_assert(LOW_TILE_NGROUPS * TERP_LOW_MAX_NBITS < 256,
                  "A byte holds the sum of a tile's widths.");
    return (unsigned)(pairs * UINT64_C(0x0101010101010101) >> 56) *
           (TERP_LOW_GROUP_NNUMBERS / 8);
}

/* Bytes of a tile's low bits. */
static __device__ __forceinline__ unsigned
low_tile_nbytes(const struct low_bits_view &view, uint64_t tile,
                uint64_t widths)
{
    const unsigned last = low_tile_ngroups(view, tile) - 1;

    return low_group_begin(widths, last) +
           (unsigned)terp_low_group_nbytes(view.nvalues,
                                           tile * LOW_TILE_NGROUPS + last,
                                           low_width_at(widths, last));
}

/* A block finds where tiles' low bits begin, by widths_of(tile). Returns the
 * bytes of all. */
template <unsigned NTHREADS, typename F>
static __device__ __forceinline__ uint64_t
place_low_tiles(const struct low_bits_view &view,
                typename low_tile_scan<NTHREADS>::TempStorage &s_scan,
                const F &widths_of)
{
    unsigned long long end = 0;

#pragma unroll 1
    for (uint64_t first = 0; first < view.ntiles; first += NTHREADS) {
        const uint64_t tile = first + threadIdx.x;
        const bool exists = tile < view.ntiles;
        const uint64_t widths = exists ? widths_of(tile) : 0;
        unsigned long long nbytes = 0, before, all;
        if (exists)
            nbytes = low_tile_nbytes(view, tile, widths);
        __syncthreads(); /* no thread needs the storage any more */
        low_tile_scan<NTHREADS>(s_scan).ExclusiveSum(nbytes, before, all);
        if (exists)
            view.tiles[tile] = {widths, end + before};
        end += all;
    }
    return end;
}

/* ---- writing ---- */

/* A warp writes what the section, which begins at `section`, has of a tile. */
static __device__ __forceinline__ void
write_low_bits(const struct low_bits_view &view, uint64_t tile,
               uint8_t *section)
{
    const unsigned lane = threadIdx.x % 32;
    const uint64_t widths_nbytes = low_widths_nbytes(view);
    const struct cuda_low_tile low = view.tiles[tile];

    if (lane < 8 && 8 * tile + lane < widths_nbytes)
        section[8 * tile + lane] = (uint8_t)(low.widths >> (8 * lane));
    copy_bytes(section + widths_nbytes + low.begin,
               view.slots + tile * LOW_TILE_MAX_NBYTES,
               low_tile_nbytes(view, tile, low.widths), lane, 32);
}

#endif
