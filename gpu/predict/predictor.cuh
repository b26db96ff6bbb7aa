/* The sections of a stream (gpu/sections) call the predictor of a chunk through
 * this file alone. A new predictor adds its cases to the functions below; the
 * order in which its kernels run is in gpu/engine/sequence.cu. */
#pragma once

#include "gpu/predict/lorenzo_model.cuh"
#include "gpu/predict/lossless_model.cuh"
#include "gpu/predict/spline_model.cuh"

/* Threads that write or read a model: one for each level, and one for the bytes
 * before the levels. A power of two above TERP_MAX_LEVELS. */
#define MODEL_NTHREADS 64
static_assert(TERP_MAX_LEVELS < MODEL_NTHREADS,
              "Each level and the begin of the model have a thread.");

/* MODEL_NTHREADS threads call this function together; thread l writes its bytes
 * of the model. */
static __device__ inline void
predictor_write_model(const struct cuda_batch &batch,
                      const struct cuda_chunk &chunk, uint8_t *dst, int l)
{
    if (l == 0)
        dst[0] = (uint8_t)(chunk.model.step_slack_log2 |
                           chunk.model.wide << TERP_WIDE_SHIFT);
    switch (chunk.prediction) {
    case TERP_PREDICTION_SPLINE:
        spline_write_model(batch, chunk, dst + 1, l);
        break;
    case TERP_PREDICTION_LORENZO:
        lorenzo_write_model(chunk, dst + 1, l);
        break;
    case TERP_PREDICTION_LOSSLESS:
        lossless_write_model(batch, chunk, dst + 1, l);
        break;
    default:
        break;
    }
}

/* MODEL_NTHREADS threads call this function together; each reads its bytes of
 * the model. Returns false if they are not valid. */
static __device__ __forceinline__ bool
predictor_read_model(const struct cuda_batch &batch,
                     enum terp_prediction prediction, bool has_specials,
                     int nlevels, double bound, const uint8_t *src, int thread,
                     struct cuda_model *s_model)
{
    if (thread == 0) {
        const int step_slack_log2 = src[0] & TERP_STEP_SLACK;
        const int wide = src[0] >> TERP_WIDE_SHIFT;
        if (step_slack_log2 < TERP_MIN_STEP_SLACK_LOG2 ||
            step_slack_log2 > TERP_MAX_STEP_SLACK_LOG2 || wide > TERP_WIDE_MAX)
            return false;
        s_model->step_slack_log2 = step_slack_log2;
        s_model->wide = wide;
        s_model->step = terp_step_of(bound, step_slack_log2);
    }
    switch (prediction) {
    case TERP_PREDICTION_SPLINE:
        spline_read_model(batch, nlevels, src + 1, thread, s_model);
        return true;
    case TERP_PREDICTION_LORENZO:
        return lorenzo_read_model(batch, has_specials, bound, src + 1, thread,
                                  s_model);
    case TERP_PREDICTION_LOSSLESS:
        return lossless_read_model(batch, src + 1, thread, s_model);
    default:
        return false;
    }
}

/* Returns the number that the section of escapes stores for an escape.
 * `position` is its index in level order; for Lorenzo and lossless predictions
 * it is the index in C order. `raster` is always the index in C order. */
template <typename T>
static __device__ __forceinline__ uint64_t
predictor_escape_bits(const struct cuda_batch &batch,
                      const struct cuda_chunk &chunk, const value_grid<T> &grid,
                      uint64_t position, uint64_t raster)
{
    switch (chunk.prediction) {
    case TERP_PREDICTION_SPLINE:
        return spline_escape_bits(chunk, grid, raster);
    case TERP_PREDICTION_LORENZO:
        return lorenzo_escape_bits<T>(batch, chunk, position);
    case TERP_PREDICTION_LOSSLESS:
        return lossless_escape_bits<T>(batch, chunk, position);
    default:
        return 0;
    }
}
