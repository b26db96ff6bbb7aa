/* The places of tails in their section. Values are in C order, and groups and
 * tiles of values follow each other. */
#pragma once

#include "gpu/sections/low_bits.cuh"

/* The tails of a block's chunk. */
struct tails_view {
    uint64_t nvalues, ntiles;
    uint8_t *widths;  /* of groups */
    uint64_t *begins; /* of tiles, behind all widths */
};

static __device__ __forceinline__ struct tails_view
tails_of(const struct cuda_batch &batch)
{
    return {batch.nvalues, batch.ntiles,
            region<uint8_t>(batch, batch.at.tail_widths),
            region<uint64_t>(batch, batch.at.tail_begins)};
}

static __device__ __forceinline__ uint64_t
group_nbytes_of(const struct tails_view &view, uint64_t group)
{
    return terp_low_group_nbytes(view.nvalues, group, view.widths[group]);
}

/* Finds where the tails of tiles begin, from the widths of groups. Returns the
 * bytes of all tails. A block of NTHREADS threads calls it together, a thread a
 * tile; a barrier protects s_scan. */
template <unsigned NTHREADS>
static __device__ __forceinline__ uint64_t
place_tail_tiles(const struct tails_view &view,
                 block_scan<unsigned long long, NTHREADS> &s_scan)
{
    const uint64_t ngroups = terp_low_ngroups(view.nvalues);
    unsigned long long end = 0;

#pragma unroll 1
    for (uint64_t first = 0; first < view.ntiles; first += NTHREADS) {
        const uint64_t tile = first + threadIdx.x;
        const uint64_t stop =
            min_u64(ngroups, (tile + 1) * TERP_LOW_TILE_NGROUPS);
        unsigned long long nbytes = 0, before, all;
        for (uint64_t g = tile * TERP_LOW_TILE_NGROUPS; g < stop; g++)
            nbytes += group_nbytes_of(view, g);
        __syncthreads(); /* no thread still reads s_scan */
        before = scan_block(s_scan, nbytes, &all);
        if (tile < view.ntiles)
            view.begins[tile] = end + before;
        end += all;
    }
    return end;
}

/* Where the tails of a group begin, behind all widths. The groups before it in
 * its tile are full. */
static __device__ __forceinline__ uint64_t
tail_group_begin(const struct tails_view &view, uint64_t group)
{
    const uint64_t tile = group / TERP_LOW_TILE_NGROUPS;
    unsigned widths = 0;

    for (uint64_t g = tile * TERP_LOW_TILE_NGROUPS; g < group; g++)
        widths += view.widths[g];
    return view.begins[tile] + widths * (TERP_LOW_GROUP_NNUMBERS / 8);
}
