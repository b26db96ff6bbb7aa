/* Floor 3: a difference of lorenzo's integers. */
#ifndef TERP_CUDA_LORENZO_CUH
#define TERP_CUDA_LORENZO_CUH

#include "cuda_state.cuh"

/* Bit i of a mask. */
static __device__ __forceinline__ bool
is_set(const uint32_t *mask, uint64_t i)
{
    return mask[i / 32] >> (i % 32) & 1;
}

/* Along which dimensions the integers that an encoder leaves are still to be
 * subtracted. Where points are special, it has subtracted them along the
 * dimensions above 0, and special ones repeat the integer before them. */
static __device__ __forceinline__ unsigned
dims_to_subtract(const struct cuda_chunk &chunk)
{
    return chunk.nspecials > 0 ? chunk.lorenzo_dims & 1 : chunk.lorenzo_dims;
}

/* The difference at `at` along all dimensions of `dims`: of the 2^n points
 * one before it in some of them, each added or taken by turns. Dimensions in
 * which it is the first are left out, there is nothing before it. */
template <typename W>
static __device__ __forceinline__ W
lorenzo_difference(const W *at, unsigned dims, const uint64_t *stride)
{
    W sum = 0;

    for (unsigned set = 0; set < TERP_NCLASSES; set++) {
        if ((set & ~dims) != 0)
            continue;
        const W *from = at;
        for (int d = 0; d < TERP_NDIMS; d++)
            from -= set >> d & 1 ? stride[d] : 0;
        sum += __popc(set) % 2 == 1 ? (W)0 - *from : *from;
    }
    return sum;
}

#endif
