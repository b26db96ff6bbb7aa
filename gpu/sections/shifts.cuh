/* Groups of the lossless prediction's differences: what the region
 * `shift_groups` has of each. doc/format.md, "Shifts". */
#ifndef TERP_GPU_SECTIONS_SHIFTS_CUH
#define TERP_GPU_SECTIONS_SHIFTS_CUH

#include "codec/format/bits.h"
#include "gpu/block/sum.cuh"
#include "gpu/sections/ranks.cuh"

#define SHIFT_TILE_NGROUPS (TERP_TILE_NSYMBOLS / TERP_SHIFT_GROUP_NVALUES)

/* A group's numbers begin at a byte of the section, and it has a shift and
 * zeros. One load gets all of these. */
#define SHIFT_GROUP_BEGIN_NBITS 48
#define SHIFT_GROUP_ZEROS_AT 56
struct shift_group {
    uint64_t begin;
    int shift, nzeros;
};

static __device__ __forceinline__ struct shift_group
shift_group_of(uint64_t word)
{
    return {word & ((UINT64_C(1) << SHIFT_GROUP_BEGIN_NBITS) - 1),
            (int)(word >> SHIFT_GROUP_BEGIN_NBITS & 63),
            (int)(word >> SHIFT_GROUP_ZEROS_AT)};
}

static __device__ __forceinline__ uint64_t
shift_group_word(int shift, int nzeros)
{
    return (uint64_t)shift << SHIFT_GROUP_BEGIN_NBITS |
           (uint64_t)nzeros << SHIFT_GROUP_ZEROS_AT;
}

static __device__ __forceinline__ uint64_t
shift_ngroups(uint64_t nvalid)
{
    return div_up(nvalid, TERP_SHIFT_GROUP_NVALUES);
}

/* Fewer only of the last. */
static __device__ __forceinline__ unsigned
shift_group_nvalues(uint64_t nvalid, uint64_t group)
{
    return (unsigned)min_u64(TERP_SHIFT_GROUP_NVALUES,
                             nvalid - group * TERP_SHIFT_GROUP_NVALUES);
}

/* A block finds where groups begin, whose words have no begin yet. Returns the
 * bytes of all numbers. */
template <unsigned NTHREADS>
static __device__ __forceinline__ uint64_t
place_shift_groups(uint64_t nvalid, uint64_t *groups,
                   typename number_scan<NTHREADS>::TempStorage &s_scan)
{
    return sum_numbers<NTHREADS>(
        shift_ngroups(nvalid), s_scan,
        [&](uint64_t g) {
            return packed_nbytes(shift_group_nvalues(nvalid, g),
                                 shift_group_of(groups[g]).shift);
        },
        [&](uint64_t g, uint64_t before) { groups[g] |= before; });
}

#endif
