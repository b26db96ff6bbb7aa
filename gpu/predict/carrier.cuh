/* What carries integers, as kernels see it: codec/model/carrier.h with the
 * chunk's state. */
#pragma once

#include "gpu/predict/values.cuh"

/* The bits of the float that stands for n. */
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

/* The integer that a float stands for, which is decoded. */
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
