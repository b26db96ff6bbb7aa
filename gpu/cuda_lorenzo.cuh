/* Floor 3: a difference of lorenzo's integers. */
#ifndef TERP_CUDA_LORENZO_CUH
#define TERP_CUDA_LORENZO_CUH

#include "cuda_state.cuh"

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
