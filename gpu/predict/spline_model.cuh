/* The part of a stream that depends on splines: their model, and their escapes.
 */
#pragma once

#include "gpu/predict/values.cuh"

/* Thread 0 writes the reference value, thread l the plan of level l. */
static __device__ __forceinline__ void
spline_write_model(const struct cuda_batch &batch,
                   const struct cuda_chunk &chunk, uint8_t *dst, int l)
{
    const int nlevels = batch.d_layout->nlevels;

    if (l == 0)
        store_le(dst,
                 batch.value_nbytes == 8
                     ? double_bits(chunk.model.reference)
                     : (uint64_t)__float_as_uint((float)chunk.model.reference),
                 batch.value_nbytes);
    else if (l <= nlevels)
        terp_plan_store(&chunk.model.plan[l],
                        dst + batch.value_nbytes +
                            TERP_PLAN_NBYTES * (nlevels - l));
}

/* Thread 0 reads the reference value; thread t reads the plan of level nlevels
 * - t. */
static __device__ __forceinline__ void
spline_read_model(const struct cuda_batch &batch, int nlevels,
                  const uint8_t *src, int thread, struct cuda_model *s_model)
{
    if (thread == 0)
        s_model->reference =
            batch.value_nbytes == 8
                ? double_of_bits(load_le(src, 8))
                : (double)__uint_as_float((unsigned)load_le(src, 4));
    if (thread < nlevels)
        terp_plan_load(src + batch.value_nbytes + TERP_PLAN_NBYTES * thread,
                       &s_model->plan[nlevels - thread]);
}

/* Returns the grid number of an escape, or its raw value if the chunk stores
 * escapes as raw values. `raster` is its index in C order. */
template <typename T>
static __device__ __forceinline__ uint64_t
spline_escape_bits(const struct cuda_chunk &chunk, const value_grid<T> &grid,
                   uint64_t raster)
{
    const T value = ((const T *)chunk.src)[raster];
    const grid_point<T> point = find_on_grid(grid, value);

    return chunk.number_nbytes > 0 ? zigzag((int64_t)point.nsteps)
                                   : bits_of(point.fits ? point.value : value);
}
