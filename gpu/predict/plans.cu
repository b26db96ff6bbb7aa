/* Tells the host the plans of a batch's chunks (struct cuda_plans). */
#include "gpu/predict/march.cuh"

#define NTHREADS 256

/* Returns how level 1 of a chunk is made if its shape allows marching: bits of
 * enum cuda_march. */
template <typename T>
static __device__ unsigned
marches_of(const struct cuda_batch &batch, const struct cuda_chunk &chunk)
{
    const bool is_even = batch.decodes ? values_are_even<true>(chunk)
                                       : values_are_even<false>(chunk);
    const unsigned uneven = is_even ? 0 : CUDA_UNEVEN;

    if (plan_marches_linear(chunk, 1))
        return CUDA_MARCH_LINEAR;
    if (plan_marches_blended(chunk, 1))
        return uneven | CUDA_MARCH_BLENDED;
    if (!plan_marches<T>(chunk, 1))
        return level_is_long(chunk, 1) ? CUDA_LONG_STEPS : CUDA_STEPS;
    switch (chunk.model.plan[1].spline) {
    case TERP_SPLINE_CUBIC:
        return uneven | CUDA_MARCH_CUBIC;
    case TERP_SPLINE_NATURAL:
        return uneven | CUDA_MARCH_NATURAL;
    default:
        return uneven | CUDA_MARCH_LONG;
    }
}

/* Grid: 1 block, which looks at all chunks. Other threads write to s_plans
 * between the two barriers. */
template <typename T>
static __global__ void
__launch_bounds__(NTHREADS) tell_plans(const struct cuda_batch batch)
{
    begin_kernel();
    __shared__ struct cuda_plans s_plans;
    volatile struct cuda_plans *h_plans = batch.h_plans;

    if (threadIdx.x == 0)
        s_plans = {};
    __syncthreads();
    for (unsigned c = threadIdx.x; c < (unsigned)batch.nchunks; c += NTHREADS) {
        const struct cuda_chunk &chunk = batch.d_chunks[c];
        if (is_predicted_by(chunk, TERP_PREDICTION_LORENZO))
            atomicOr(&s_plans.lorenzo, 1u);
        if (!chunk_applies(chunk))
            continue;
        unsigned of_long = 0, of_other = 0;
        for (int l = 1; l <= batch.d_layout->nlevels; l++)
            if (level_is_long(chunk, l))
                of_long |= cuda_level_bit(l);
            else
                of_other |= cuda_level_bit(l);
        atomicOr(&s_plans.splines, 1u);
        atomicOr(&s_plans.long_levels, of_long);
        atomicOr(&s_plans.other_levels, of_other);
        if (batch.d_layout->nlevels > 0)
            atomicOr(&s_plans.marches, marches_of<T>(batch, chunk));
    }
    __syncthreads();
    if (threadIdx.x != 0)
        return;
    h_plans->lorenzo = s_plans.lorenzo;
    h_plans->splines = s_plans.splines;
    h_plans->long_levels = s_plans.long_levels;
    h_plans->other_levels = s_plans.other_levels;
    h_plans->marches = s_plans.marches;
    __threadfence_system();
    h_plans->is_known = 1;
}

cudaError_t
cuda_plans_tell(const struct cuda_batch *batch, cudaStream_t stream)
{
    return launch(batch->value_nbytes == 4 ? tell_plans<float>
                                           : tell_plans<double>,
                  dim3(1), dim3(NTHREADS), 0, stream, *batch);
}
