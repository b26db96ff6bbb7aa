/* What sampled values of a chunk have in common, and which exact quants lorenzo
 * has by that: as the CPU's common_bits. */
#pragma once

#include <limits.h>

#include "codec/model/code_widths.h"
#include "codec/model/difference_widths.h"
#include "gpu/predict/values.cuh"

/* The lowest of all samples. */
struct common_bits {
    int exponent; /* of the last bit that is set; INT_MAX: there is no sample */
    int nzeros;   /* behind that */
};

/* By a block of any number of threads. */
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

/* The same. */
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
