/* Writes and reads a tile's list of codes, by a block: codes that escape from
 * the tile but not from the predictor. doc/format.md, "Low bits". */
#pragma once

#include "gpu/block/warp.cuh"
#include "gpu/sections/low_bits.cuh"

#define LIST_MAX_NGROUPS (TERP_TILE_NSYMBOLS / TERP_LIST_GROUP_NNUMBERS)

/* A list in shared memory, 10 KB. The tile's groups are those of its low bits;
 * list groups are groups of listed numbers. */
struct low_list_shared {
    uint16_t number[TERP_TILE_NSYMBOLS];         /* listed codes, as zigzag */
    uint32_t is_listed[TERP_TILE_NSYMBOLS / 32]; /* a bit an escape */
    uint32_t nescapes[TERP_LOW_TILE_NGROUPS];    /* of each group of the tile */
    uint32_t nlisted[TERP_LOW_TILE_NGROUPS];     /* of each group of the tile */
    uint32_t nlisted_before[TERP_TILE_NSYMBOLS / 32]; /* a word of is_listed */
    uint16_t begin[LIST_MAX_NGROUPS + 1];             /* of list groups */
    uint8_t width[LIST_MAX_NGROUPS];
    bool is_valid;
};

/* The sum of the counts of groups before `end`. */
static __device__ __forceinline__ unsigned
sum_of_groups(const uint32_t of_group[TERP_LOW_TILE_NGROUPS], unsigned end)
{
    unsigned sum = 0;

    for (unsigned g = 0; g < end; g++)
        sum += of_group[g];
    return sum;
}

/* Finds s->begin, the offsets of list groups behind the list's widths. One
 * thread calls it. */
static __device__ __forceinline__ void
place_list_groups(unsigned nlisted, struct low_list_shared *s)
{
    unsigned end = 0;

    for (unsigned g = 0; g < terp_list_ngroups(nlisted); g++) {
        s->begin[g] = (uint16_t)end;
        end += terp_list_group_nbytes(nlisted, g, s->width[g]);
    }
    s->begin[terp_list_ngroups(nlisted)] = (uint16_t)end;
}

/* ---- writing ---- */

/* Byte `b` of the bit field array of a list group. */
static __device__ __forceinline__ uint8_t
list_byte(const uint16_t *number, unsigned n, unsigned width, unsigned b)
{
    unsigned byte = 0;

    for (unsigned i = 8 * b / width; i < n && i * width < 8 * b + 8; i++) {
        const int shift = (int)(i * width) - (int)(8 * b);
        byte |= shift < 0 ? number[i] >> -shift : (unsigned)number[i] << shift;
    }
    return (uint8_t)byte;
}

/* Writes the list in `s` to `to`. Returns its bytes; 0 if nothing is listed. A
 * block of NTHREADS threads calls it together; a warp has a list group. */
template <unsigned NTHREADS>
static __device__ __forceinline__ unsigned
write_low_list(unsigned nescapes, unsigned nlisted, struct low_list_shared *s,
               uint8_t *to)
{
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const unsigned ngroups = terp_list_ngroups(nlisted);
    const bool has_bits = nlisted < nescapes;
    const unsigned bits_nbytes = has_bits ? (nescapes + 7) / 8 : 0;
    const unsigned head = nlisted | (has_bits ? TERP_LIST_HAS_BITS : 0u);
    uint8_t *widths = to + TERP_LIST_HEAD_NBYTES, *groups = widths + ngroups;

    static_assert(TERP_LIST_GROUP_NNUMBERS == 32, "A lane has a number.");
    if (nlisted == 0)
        return 0;
    for (unsigned g = warp; g < ngroups; g += NTHREADS / 32) {
        const unsigned n = terp_list_group_nnumbers(nlisted, g);
        const unsigned all =
            warp_or(lane < n ? (unsigned)s->number[32 * g + lane] : 0u);
        if (lane == 0)
            s->width[g] = (uint8_t)bit_width(all);
    }
    __syncthreads();
    if (threadIdx.x == 0)
        place_list_groups(nlisted, s);
    __syncthreads();
    for (unsigned g = warp; g < ngroups; g += NTHREADS / 32) {
        const unsigned n = terp_list_group_nnumbers(nlisted, g);
        const unsigned nbytes = s->begin[g + 1] - (unsigned)s->begin[g];
        if (lane == 0)
            widths[g] = s->width[g];
        for (unsigned b = lane; b < nbytes; b += 32)
            groups[s->begin[g] + b] =
                list_byte(s->number + 32 * g, n, s->width[g], b);
    }
    const unsigned end = s->begin[ngroups];
    if (threadIdx.x < TERP_LIST_HEAD_NBYTES)
        to[threadIdx.x] = (uint8_t)(head >> (8 * threadIdx.x));
    for (unsigned b = threadIdx.x; b < bits_nbytes; b += NTHREADS)
        groups[end + b] = (uint8_t)(s->is_listed[b / 4] >> (8 * (b % 4)));
    return TERP_LIST_HEAD_NBYTES + ngroups + end + bits_nbytes;
}

/* ---- reading ---- */

/* Reads a list of `nbytes` to `s`; the tile has `nescapes` escapes. Returns the
 * same in all threads; false: the list is not valid. A block of NTHREADS
 * threads calls it together. */
template <unsigned NTHREADS>
static __device__ __forceinline__ bool
read_low_list(const uint8_t *from, unsigned nbytes, unsigned nescapes,
              struct low_list_shared *s)
{
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const unsigned head =
        nbytes < TERP_LIST_HEAD_NBYTES ? 0 : from[0] | (unsigned)from[1] << 8;
    const bool has_bits = (head & TERP_LIST_HAS_BITS) != 0;
    const unsigned nlisted = head & ~TERP_LIST_HAS_BITS;
    const unsigned ngroups = terp_list_ngroups(nlisted);
    const unsigned groups_at = TERP_LIST_HEAD_NBYTES + ngroups;
    const unsigned bits_nbytes = has_bits ? (nescapes + 7) / 8 : 0;
    bool valid = nlisted >= 1 && nlisted <= TERP_TILE_NSYMBOLS &&
                 groups_at <= nbytes &&
                 (has_bits ? nescapes > 0 : nescapes == nlisted);

    static_assert(TERP_LIST_HEAD_NBYTES == 2, "A head is two bytes.");
    for (unsigned g = threadIdx.x; valid && g < ngroups; g += NTHREADS) {
        s->width[g] = from[TERP_LIST_HEAD_NBYTES + g];
        valid = s->width[g] <= TERP_LIST_MAX_WIDTH;
    }
    if (!__syncthreads_and(valid))
        return false;
    if (threadIdx.x == 0)
        place_list_groups(nlisted, s);
    __syncthreads();
    const unsigned bits_at = groups_at + s->begin[ngroups];
    if (bits_at + bits_nbytes != nbytes)
        return false;
    for (unsigned g = warp; g < ngroups; g += NTHREADS / 32) {
        const unsigned n = terp_list_group_nnumbers(nlisted, g);
        if (lane < n)
            s->number[32 * g + lane] =
                (uint16_t)unpack_bits(from + groups_at + s->begin[g],
                                      lane * s->width[g], s->width[g]);
    }
    for (unsigned w = threadIdx.x; w < TERP_TILE_NSYMBOLS / 32; w += NTHREADS) {
        uint32_t bits = has_bits ? 0 : ~0u;
        for (unsigned b = 4 * w; has_bits && b < 4 * w + 4; b++)
            bits |= b < bits_nbytes
                        ? (uint32_t)from[bits_at + b] << (8 * (b % 4))
                        : 0;
        const unsigned left = nescapes > 32 * w ? nescapes - 32 * w : 0;
        s->is_listed[w] = left < 32 ? bits & ((1u << left) - 1) : bits;
    }
    __syncthreads();
    if (warp == 0) {
        unsigned before = 0;
        for (unsigned first = 0; first < TERP_TILE_NSYMBOLS / 32; first += 32) {
            const unsigned own = (unsigned)__popc(s->is_listed[first + lane]);
            const unsigned sum = warp_inclusive_sum(own);
            s->nlisted_before[first + lane] = before + sum - own;
            before += __shfl_sync(FULL_WARP_MASK, sum, 31);
        }
        if (lane == 0)
            s->is_valid = before == nlisted;
    }
    __syncthreads();
    return s->is_valid;
}

/* The predictor's symbol for escape k of the tile: a listed code, or an
 * escape. */
static __device__ __forceinline__ unsigned
listed_symbol(const struct low_list_shared *s, unsigned k)
{
    const uint32_t bits = s->is_listed[k / 32];
    const unsigned nth = s->nlisted_before[k / 32] +
                         (unsigned)__popc(bits & ((1u << (k % 32)) - 1));

    return bits >> (k % 32) & 1
               ? terp_symbol_of_wide((int)unzigzag(s->number[nth]))
               : TERP_ESCAPE;
}
