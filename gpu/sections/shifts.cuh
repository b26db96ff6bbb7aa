/* Groups of differences of the lossless prediction, as the regions
 * `shift_groups` and `shift_spans` describe them. doc/format.md, "Shifts". */
#pragma once

#include "gpu/block/sum.cuh"
#include "gpu/sections/valid_points.cuh"

#define SHIFT_TILE_NGROUPS (TERP_TILE_NSYMBOLS / TERP_SHIFT_GROUP_NVALUES)

/* A group: where its numbers begin in its span, in bytes, its shift, and its
 * zeros. The region packs them into one word, so that one load gets all. */
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

/* Values of a group: only the last group has fewer than others. */
static __device__ __forceinline__ unsigned
shift_group_nvalues(uint64_t nvalid, uint64_t group)
{
    return (unsigned)min_u64(TERP_SHIFT_GROUP_NVALUES,
                             nvalid - group * TERP_SHIFT_GROUP_NVALUES);
}

/* Groups of a span, one for each lane of the warp that places the span. The
 * region `shift_spans` holds where spans begin. */
#define SHIFT_SPAN_NGROUPS 32
static __device__ __forceinline__ uint64_t
shift_nspans(uint64_t ngroups)
{
    return div_up(ngroups, SHIFT_SPAN_NGROUPS);
}

/* Where a group's numbers begin, from the first group's on. */
static __device__ __forceinline__ uint64_t
shift_group_begin(const struct shift_group &group, const uint64_t *spans,
                  uint64_t g)
{
    return spans[g / SHIFT_SPAN_NGROUPS] + group.begin;
}

/* Places the groups of a span. Lane i of the warp has the word of group i,
 * still without its begin. Writes the words with begins to `groups`, and the
 * span's bytes to `spans`. */
static __device__ __forceinline__ void
place_shift_span(uint64_t nvalid, uint64_t span, uint64_t word,
                 uint64_t *groups, uint64_t *spans)
{
    const uint64_t g = span * SHIFT_SPAN_NGROUPS + threadIdx.x % 32;
    const bool exists = g < shift_ngroups(nvalid);
    const uint64_t nbytes = exists
                                ? packed_nbytes(shift_group_nvalues(nvalid, g),
                                                shift_group_of(word).shift)
                                : 0;
    const uint64_t sum = warp_inclusive_sum(nbytes);

    if (exists)
        groups[g] = word | (sum - nbytes);
    if (threadIdx.x % 32 == 31)
        spans[span] = sum;
}

/* Replaces the bytes of spans by where each begins. Returns the bytes of all
 * numbers. A block of NTHREADS threads calls it together. */
template <unsigned NTHREADS>
static __device__ __forceinline__ uint64_t
place_shift_spans(uint64_t ngroups, uint64_t *spans,
                  block_scan<unsigned long long, NTHREADS> &s_scan)
{
    return sum_numbers<NTHREADS>(
        shift_nspans(ngroups), s_scan, [&](uint64_t i) { return spans[i]; },
        [&](uint64_t i, uint64_t before) { spans[i] = before; });
}

/* ---- the fields of groups in a stream ---- */

/* The section's first byte, which says whether groups have shifts and zeros,
 * and the place of these fields behind it. */
struct shift_fields {
    unsigned has;
    uint64_t at, end; /* in the stream */
};

static __device__ __forceinline__ struct shift_fields
shift_fields_at(unsigned has, uint64_t at, uint64_t ngroups, int value_nbytes)
{
    const uint64_t nbytes =
        packed_nbytes(ngroups, terp_shift_nbits(value_nbytes));

    return {has, at, at + nbytes * (unsigned)__popc(has)};
}

static __device__ __forceinline__ bool
shift_fields_are_valid(const struct shift_fields &fields, uint64_t end)
{
    return (fields.has & ~(TERP_SHIFTS_SHIFTS | TERP_SHIFTS_ZEROS)) == 0 &&
           fields.end <= end;
}
