/* The part of a stream that depends on Lorenzo: its model, and its escapes,
 * which are integers. */
#pragma once

#include "gpu/predict/lorenzo.cuh"
#include "gpu/predict/values.cuh"

static __device__ __forceinline__ void
lorenzo_write_model(const struct cuda_chunk &chunk, uint8_t *dst, int thread)
{
    if (thread > 0)
        return;
    *dst++ = (uint8_t)coded_dims(chunk);
    if (is_exact(chunk)) {
        terp_exact_store(chunk.model.exact, dst);
        dst += TERP_EXACT_NBYTES;
    }
    if (chunk.model.tail_nbits > 0)
        *dst = (uint8_t)chunk.model.tail_nbits;
}

/* Returns the number of bits of tails according to the model at `src`, which
 * begins with the byte of dimensions; 0: no tails. */
static __device__ __forceinline__ int
lorenzo_tail_nbits(const uint8_t *src)
{
    return *src & TERP_LORENZO_TAILS
               ? src[1 + (*src & TERP_LORENZO_EXACT ? TERP_EXACT_NBYTES : 0)]
               : 0;
}

static __device__ __forceinline__ bool
lorenzo_read_model(const struct cuda_batch &batch, bool has_specials,
                   double bound, const uint8_t *src, int thread,
                   struct cuda_model *s_model)
{
    if (thread > 0)
        return true;
    s_model->lorenzo_dims = *src;
    s_model->tail_nbits = lorenzo_tail_nbits(src);
    return terp_lorenzo_dims_are_valid(batch.d_layout, *src, has_specials) &&
           ((*src & TERP_LORENZO_EXACT) == 0
                ? !is_zero_bound(bound)
                : terp_exact_load(src + 1, batch.value_nbytes,
                                  &s_model->exact)) &&
           ((*src & TERP_LORENZO_TAILS) == 0 ||
            terp_tail_nbits_are_valid(s_model->tail_nbits, s_model->wide,
                                      batch.value_nbytes));
}

/* Returns the difference that escapes at index `position` in C order. Not
 * inlined, so that its callers need fewer registers. */
template <typename W>
static __device__ __attribute__((noinline)) W
lorenzo_raw(const struct terp_layout *layout, const struct cuda_chunk &chunk,
            const W *levels, uint64_t position)
{
    const int means_dim = means_dim_of(chunk, layout);
    unsigned dims = dims_to_subtract(chunk, means_dim);
    uint64_t left = position, stride[TERP_NDIMS], inner = 1, i = 0;

    for (int d = 0; d < TERP_NDIMS; d++) {
        stride[d] = inner;
        inner *= layout->dims[d];
        uint64_t at = split(&left, layout->dims[d]);
        if (at == 0)
            dims &= ~(1u << d);
        if (d > 0 && d == means_dim)
            i = at;
    }
    const W raw = lorenzo_difference(levels + position, dims, stride);
    return i == 0 ? raw
                  : raw - lorenzo_mean<W, true>(levels + position, dims, layout,
                                                means_dim, i);
}

template <typename T>
static __device__ __forceinline__ uint64_t
lorenzo_escape_bits(const struct cuda_batch &batch,
                    const struct cuda_chunk &chunk, uint64_t position)
{
    const word_of<T> difference =
        lorenzo_raw(batch.d_layout, chunk,
                    region<const word_of<T>>(batch, batch.at.work), position);

    return zigzag((int64_t)(int_of<T>)difference);
}
