/* The floats that carry integers: wraps codec/model/carrier.h with the state of
 * a chunk. */
#pragma once

#include "gpu/predict/values.cuh"

/* Returns the bits of the float that carries n. */
template <typename C>
static __device__ __forceinline__ word_of<C>
carried_of_number(enum cuda_form form, int64_t n)
{
    if constexpr (sizeof(C) == 4)
        return bits_of((float)n);
    else
        return form == CUDA_INTS_F64 ? bits_of((double)n)
                                     : terp_bits_of_integer(n);
}

/* Returns the integer that a decoded float carries. */
template <typename C>
static __device__ __forceinline__ uint64_t
integer_of_carried(const struct cuda_batch &batch,
                   const struct cuda_chunk &chunk, uint64_t bits)
{
    const int64_t low = chunk.limits.low, high = chunk.limits.high;
    int64_t n;

    if constexpr (sizeof(C) == 4)
        n = terp_integer_of_f32(value_of_bits((uint32_t)bits), (float)low,
                                (float)high);
    else
        n = batch.form == CUDA_INTS_F64
                ? terp_integer_of_f64(value_of_bits(bits), (double)low,
                                      (double)high)
                : terp_integer_of_bits(bits, low, high);
    return chunk.carrier.offset + chunk.carrier.scale * (uint64_t)n;
}
