/* Pieces of a mask: 16 bits each. */
#pragma once

#include "gpu/engine/platform.cuh"

/* Piece `i` of a bit map of values; bits behind the last value are 0. */
static __device__ __forceinline__ unsigned
piece_of(const uint16_t *bits, uint64_t i, uint64_t nvalues)
{
    if (i * 16 >= nvalues)
        return 0;
    uint64_t left = nvalues - i * 16;
    return left >= 16 ? bits[i] : bits[i] & ((1u << left) - 1);
}

/* Piece `i` of the bit map's mask delta: its differences from itself `distance`
 * values before. Distance 0: the bit map itself. */
static __device__ __forceinline__ unsigned
mask_delta_piece(const uint16_t *bits, uint64_t i, uint64_t nvalues,
                 uint64_t distance)
{
    uint64_t nwords = distance / 16, left = nvalues - i * 16;
    unsigned piece = piece_of(bits, i, nvalues),
             shift = (unsigned)(distance % 16);

    if (distance == 0 || i < nwords || i * 16 >= nvalues)
        return piece;
    piece ^= (unsigned)bits[i - nwords] << shift;
    if (shift > 0 && i > nwords)
        piece ^= (unsigned)bits[i - nwords - 1] >> (16 - shift);
    return piece & (left >= 16 ? 0xFFFF : (1u << left) - 1);
}

/* Return the piece of the mask delta before or behind piece `i`, which is
 * `own`. Most threads get it from their neighbour: thread by thread, a warp has
 * 32 consecutive pieces. All threads of the warp call them together. */
static __device__ __forceinline__ unsigned
piece_before(const uint16_t *bits, uint64_t i, unsigned own, uint64_t nvalues,
             uint64_t distance)
{
    const unsigned before = __shfl_up_sync(FULL_WARP_MASK, own, 1);

    if (threadIdx.x % 32 > 0)
        return before;
    return i == 0 ? 0 : mask_delta_piece(bits, i - 1, nvalues, distance);
}

static __device__ __forceinline__ unsigned
piece_behind(const uint16_t *bits, uint64_t i, unsigned own, uint64_t nvalues,
             uint64_t distance)
{
    const unsigned behind = __shfl_down_sync(FULL_WARP_MASK, own, 1);

    return threadIdx.x % 32 < 31
               ? behind
               : mask_delta_piece(bits, i + 1, nvalues, distance);
}
