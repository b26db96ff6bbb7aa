/* A tile of a speed stream to symbols: bit planes of codes that are bytes,
 * TCMS1-BIT1-RRE1 of codec/format/reduce.h backwards. */
#ifndef TERP_GPU_ENTROPY_DECODE_PLANES_CUH
#define TERP_GPU_ENTROPY_DECODE_PLANES_CUH

#include "gpu/block/expand_partition.cuh"
#include "gpu/block/planes.cuh"
#include "gpu/entropy/decode_bits.cuh"

#define PLANE_MAX_NBYTES (TERP_TILE_NSYMBOLS / 8)
struct planes_shared {
    __align__(16) uint8_t staged[TERP_CODEWORDS_MAX_NBYTES + 16];
    uint64_t planes[PLANE_MAX_NBYTES];
    uint64_t bitmap[PLANE_MAX_NBYTES / 8];
    uint64_t above[PLANE_MAX_NBYTES / 64];
};

/* The flipped codes 2i and 2i + 1 of four as symbols, the first lowest. */
static __device__ __forceinline__ uint32_t
two_symbols(uint32_t flipped, int i)
{
    const uint32_t zero = TERP_RADIUS - 128;
    return __byte_perm(flipped, 0, i == 0 ? 0x4140 : 0x4342) +
           (zero << 16 | zero);
}

/* A bit for each of four flipped codes: it is an escape, which is 0 when
 * flipped. The condition holds when there is any. */
static __device__ __forceinline__ unsigned
find_escapes(uint32_t flipped)
{
    unsigned found = 0;

    if (((flipped - 0x01010101) & ~flipped & 0x80808080) != 0)
        for (int i = 0; i < 4; i++)
            found |= (unsigned)((flipped >> (8 * i) & 255) == 0) << i;
    return found;
}

/* Decodes a tile: a thread makes eight symbols at a time. False where the bytes
 * are not exactly that many codes. */
template <unsigned NTHREADS>
static __device__ bool
decode_planes(const struct cuda_batch &batch, struct cuda_chunk &chunk,
              struct planes_shared &s, tile_scan<NTHREADS> &s_scan,
              uint64_t tile, const uint8_t *src, unsigned nbytes,
              uint16_t *symbols, unsigned nsymbols)
{
    static_assert(TERP_SPEED_ESCAPE == -128,
                  "The escape is the least code of a byte.");
    const unsigned plane_nbytes = (nsymbols + 7) / 8;
    const uint8_t *planes = (const uint8_t *)s.planes;
    struct block_reader reader = {};

    reader.src = src;
    reader.end = nbytes;
    stage_bytes<NTHREADS>(&reader, s.staged, sizeof s.staged);
    expand_bitmap<NTHREADS>(&reader, (uint8_t *)s.bitmap, plane_nbytes,
                            (uint8_t *)s.above);
    if (!reader.underflow)
        expand_rre1<NTHREADS, PLANE_MAX_NBYTES / NTHREADS>(
            &reader, (const uint8_t *)s.bitmap, (uint8_t *)s.planes,
            8 * plane_nbytes, s_scan);
    if (reader.underflow || reader.at != reader.end)
        return false;
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < plane_nbytes; i += NTHREADS) {
        uint64_t word = 0;
#pragma unroll
        for (unsigned p = 0; p < 8; p++)
            word |= (uint64_t)planes[(7 - p) * plane_nbytes + i] << (8 * p);
        word = terp_transpose_8x8(word);
        uint32_t low = flipped_codes((uint32_t)word);
        uint32_t high = flipped_codes((uint32_t)(word >> 32));
        uint32_t two[4] = {two_symbols(low, 0), two_symbols(low, 1),
                           two_symbols(high, 0), two_symbols(high, 1)};
        unsigned escapes = find_escapes(low) | find_escapes(high) << 4;
        if (escapes != 0) {
#pragma unroll
            for (int j = 0; j < 8; j++)
                if (escapes >> j & 1)
                    two[j / 2] &= j % 2 == 0 ? 0xFFFF0000 : 0xFFFF;
            escapes &= (1u << group_of_eight(nsymbols, i)) - 1;
        }
        ((uint4 *)symbols)[i] = make_uint4(two[0], two[1], two[2], two[3]);
        if (escapes != 0)
            note_escapes_of_tile(batch, chunk,
                                 tile * TERP_TILE_NSYMBOLS + 8 * i, escapes);
    }
    return true;
}

#endif
