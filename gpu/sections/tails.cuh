/* The section of tails: where it has those of each tile of values in C order,
 * whose groups follow each other. */
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

/* A block finds where tiles' tails begin, by the widths of groups. Returns the
 * bytes of all. */
template <unsigned NTHREADS>
static __device__ __forceinline__ uint64_t
place_tail_tiles(const struct tails_view &view,
                 struct block_scan<unsigned long long, NTHREADS> &s_scan)
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
        __syncthreads(); /* no thread needs the storage any more */
        before = scan_block(s_scan, nbytes, &all);
        if (tile < view.ntiles)
            view.begins[tile] = end + before;
        end += all;
    }
    return end;
}

/* Where a group's tails begin, behind all widths: groups before it in its tile
 * are whole. */
static __device__ __forceinline__ uint64_t
tail_group_begin(const struct tails_view &view, uint64_t group)
{
    const uint64_t tile = group / TERP_LOW_TILE_NGROUPS;
    unsigned widths = 0;

    for (uint64_t g = tile * TERP_LOW_TILE_NGROUPS; g < group; g++)
        widths += view.widths[g];
    return view.begins[tile] + widths * (TERP_LOW_GROUP_NNUMBERS / 8);
}
