/* Finds the zero bits that all sampled values of a chunk have in common, and
 * the exact quants that Lorenzo can then use. The CPU engine finds the same. */
#pragma once

#include <limits.h>

#include "codec/model/code_widths.h"
#include "codec/model/difference_widths.h"
#include "gpu/predict/values.cuh"

/* The minima over all samples. */
struct common_bits {
    int exponent; /* of the last set bit; INT_MAX: no samples */
    int nzeros;   /* zero bits at the end of the mantissa */
};

/* Finds the common bits of the samples. A block with any number of threads
 * calls it; a thread takes every blockDim.x-th sample. Threads combine their
 * minima in *s_common by atomics. Begins and ends with a barrier. */
template <typename T>
static __device__ __forceinline__ struct common_bits
find_common_bits(const struct cuda_batch &batch, const struct cuda_chunk &chunk,
                 const fill_words<T> &fills, struct common_bits *s_common)
{
    const T *values = (const T *)chunk.src;
    struct common_bits own = {INT_MAX, terp_mantissa_nbits(sizeof(T))};

    if (threadIdx.x == 0)
        *s_common = own;
    __syncthreads();
    for (unsigned i = threadIdx.x; i < TERP_COMMON_BITS_NSAMPLES;
         i += blockDim.x) {
        const T value = values[terp_common_bits_sample_at(batch.nvalues, i)];
        int nzeros;
        if (value == 0 || is_special(value, fills))
            continue;
        own.exponent = min(own.exponent, last_bit_of(value, &nzeros));
        own.nzeros = min(own.nzeros, nzeros);
    }
    atomicMin(&s_common->exponent, own.exponent);
    atomicMin(&s_common->nzeros, own.nzeros);
    __syncthreads();
    return s_common->exponent < INT_MAX ? *s_common : common_bits{0, 0};
}

/* Finds the exact quants of a chunk. A block calls it as find_common_bits. */
template <typename T>
static __device__ __forceinline__ struct terp_exact
find_exact(const struct cuda_batch &batch, const struct cuda_chunk &chunk,
           const fill_words<T> &fills, struct common_bits *s_common)
{
    const struct common_bits common =
        find_common_bits<T>(batch, chunk, fills, s_common);

    return terp_exact_of(chunk.bound, chunk.min, chunk.max, sizeof(T),
                         common.exponent, common.nzeros);
}
