/* Codes to bit planes and back, TCMS1-BIT1, eight codes at a time.
 * doc/format.md, "Stages"; codec/format/reduce.c does the same code by code. */
#ifndef TERP_GPU_BLOCK_PLANES_CUH
#define TERP_GPU_BLOCK_PLANES_CUH

#include "codec/format/reduce.h"
#include "gpu/engine/platform.cuh"

/* Turns eight codes, as bytes, the first one lowest, into a byte of each plane:
 * byte p is plane p's. */
static __device__ __forceinline__ uint64_t
planes_of_codes(uint64_t codes)
{
    uint64_t signs = codes >> 7 & UINT64_C(0x0101010101010101);
    uint64_t tcms = (codes << 1 & UINT64_C(0xFEFEFEFEFEFEFEFE)) ^ signs * 0xFF;
    return terp_transpose_8x8(tcms);
}

/* Turns four bytes of TCMS1 into codes whose sign bit is flipped: each is code
 * + 128. */
static __device__ __forceinline__ uint32_t
flipped_codes(uint32_t tcms)
{
    uint32_t sign = (tcms & 0x01010101) * 255;
    return (tcms >> 1 & 0x7F7F7F7F) ^ sign ^ 0x80808080;
}

#endif
