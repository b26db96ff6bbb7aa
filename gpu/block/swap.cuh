/* Reverses the byte order of a word. */
#pragma once

#include "gpu/engine/platform.cuh"

static __device__ __forceinline__ uint8_t
swapped(uint8_t byte)
{
    return byte;
}

static __device__ __forceinline__ uint16_t
swapped(uint16_t word)
{
    return (uint16_t)(word << 8 | word >> 8);
}

static __device__ __forceinline__ uint32_t
swapped(uint32_t word)
{
    return __byte_perm(word, 0, 0x0123);
}

static __device__ __forceinline__ uint64_t
swapped(uint64_t word)
{
    return (uint64_t)swapped((uint32_t)word) << 32 |
           swapped((uint32_t)(word >> 32));
}
