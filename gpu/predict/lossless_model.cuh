/* The part of a stream that depends on the lossless prediction, besides its
 * sections: its model, and its escapes, which are differences. */
#pragma once

#include "gpu/sections/valid_points.cuh"

/* Returns the number of bytes of the center in the model at `src`, which begins
 * with the byte of dimensions. */
static __device__ __forceinline__ unsigned
lossless_center_nbytes(const uint8_t *src, int value_nbytes)
{
    return src[1] & TERP_LOSSLESS_CENTER ? (unsigned)value_nbytes : 0;
}

static __device__ __forceinline__ void
lossless_write_model(const struct cuda_batch &batch,
                     const struct cuda_chunk &chunk, uint8_t *dst, int thread)
{
    const struct cuda_lossless &model = chunk.model.lossless;
    const bool has_center = model.center != 0;

    if (thread > 0)
        return;
    dst[0] = (uint8_t)model.dims;
    dst[1] = (uint8_t)(model.form | (has_center ? TERP_LOSSLESS_CENTER : 0));
    dst[2] = chunk.model.exact.nzeros;
    store_le(dst + 3, (uint64_t)chunk.model.exact.exponent, 2);
    if (has_center)
        store_le(dst + TERP_LOSSLESS_MODEL_NBYTES, (uint64_t)model.center,
                 batch.value_nbytes);
}

/* Returns false if the model is not valid. */
static __device__ __forceinline__ bool
lossless_read_model(const struct cuda_batch &batch, const uint8_t *src,
                    int thread, struct cuda_model *s_model)
{
    const unsigned center_nbytes =
        lossless_center_nbytes(src, batch.value_nbytes);

    if (thread > 0)
        return true;
    s_model->exact.significand = 1;
    s_model->exact.nzeros = src[2];
    s_model->exact.exponent = (int16_t)load_le(src + 3, 2);
    s_model->lossless.dims = src[0];
    s_model->lossless.form =
        (enum terp_lossless_form)(src[1] & TERP_LOSSLESS_FORM);
    s_model->lossless.center =
        (int64_t)load_le(src + TERP_LOSSLESS_MODEL_NBYTES, (int)center_nbytes);
    return (src[1] & ~(TERP_LOSSLESS_FORM | TERP_LOSSLESS_CENTER)) == 0 &&
           s_model->lossless.form < TERP_LOSSLESS_NFORMS &&
           terp_lossless_dims_are_valid(src[0]) &&
           terp_exact_is_valid(s_model->exact, batch.value_nbytes) &&
           s_model->wide == 0;
}

template <typename T>
static __device__ __forceinline__ uint64_t
lossless_escape_bits(const struct cuda_batch &batch,
                     const struct cuda_chunk &chunk, uint64_t position)
{
    const word_of<T> *differences =
        region<word_of<T>>(batch, batch.at.differences);
    const uint64_t number =
        number_of_valid(valid_points_of(batch, chunk), position);

    return zigzag((int64_t)(int_of<T>)differences[number]);
}
