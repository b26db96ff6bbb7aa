/* Codes to bit planes and back, TCMS1-BIT1. doc/format.md, "Stages";
 * the same as in codec/format/reduce.c. */
#ifndef TERP_GPU_BLOCK_PLANES_CUH
#define TERP_GPU_BLOCK_PLANES_CUH

#include "gpu/engine/platform.cuh"

/* Transposes the 8x8 bit matrix whose rows are the bytes of a word (Warren,
 * Hacker's Delight, 7-3). Its own inverse. */
static __device__ __forceinline__ uint64_t
transpose_8x8(uint64_t m)
{
    uint64_t swap = (m ^ m >> 7) & UINT64_C(0x00AA00AA00AA00AA);
    m ^= swap ^ swap << 7;
    swap = (m ^ m >> 14) & UINT64_C(0x0000CCCC0000CCCC);
    m ^= swap ^ swap << 14;
    swap = (m ^ m >> 28) & UINT64_C(0x00000000F0F0F0F0);
    return m ^ swap ^ swap << 28;
}

/* Eight codes as bytes, the first lowest, to a byte of each plane: that of
 * plane p in byte p. */
static __device__ __forceinline__ uint64_t
planes_of_codes(uint64_t codes)
{
    uint64_t signs = codes >> 7 & UINT64_C(0x0101010101010101);
    uint64_t tcms = (codes << 1 & UINT64_C(0xFEFEFEFEFEFEFEFE)) ^ signs * 0xFF;
    return transpose_8x8(tcms);
}

/* Four bytes of TCMS1 to codes, each with its sign bit flipped: code + 128. */
static __device__ __forceinline__ uint32_t
flipped_codes(uint32_t tcms)
{
    uint32_t sign = (tcms & 0x01010101) * 255;
    return (tcms >> 1 & 0x7F7F7F7F) ^ sign ^ 0x80808080;
}

#endif
