/* How decoded tiles tell the stage of escapes where escapes are. */
#ifndef TERP_GPU_SECTIONS_ESCAPES_CUH
#define TERP_GPU_SECTIONS_ESCAPES_CUH

#include "gpu/predict/values.cuh"

/* One block does all escapes of a chunk of so many ranges. */
#ifndef CUDA_ALONE_MAX_NRANGES
#define CUDA_ALONE_MAX_NRANGES 256
#endif

/* If it is to decode no more escapes than this, their places in tile order are
 * listed, in any order, in the region `tune`; progress tells how many are. Else
 * they are counted in ranges. */
#define CUDA_MAX_NLISTED 512
static_assert(CUDA_MAX_NLISTED <= 3 * 256, "one level's costs");

static __device__ __forceinline__ bool
escapes_are_listed(const struct cuda_batch &batch,
                   const struct cuda_chunk &chunk)
{
    return batch.nranges <= CUDA_ALONE_MAX_NRANGES &&
           chunk.nescapes <= CUDA_MAX_NLISTED;
}

/* Bytes of each in the section. */
static __device__ __forceinline__ unsigned
escape_nbytes(const struct cuda_chunk &chunk, unsigned value_nbytes)
{
    return chunk.number_nbytes == 0 ? value_nbytes : chunk.number_nbytes;
}

/* decode: word `nth` of the section; of splines `step` is that of ratio one. */
template <typename T>
static __device__ __forceinline__ word_of<T>
read_escape(const struct cuda_chunk &chunk, T step, uint64_t nth)
{
    const unsigned nbytes = escape_nbytes(chunk, sizeof(T));
    const uint8_t *at = (const uint8_t *)chunk.src + chunk.escapes_end -
                        (chunk.nescapes - nth) * nbytes;
    uint64_t bits = 0;
#pragma unroll 1 /* seldom done, and often inlined */
    for (unsigned i = 0; i < nbytes; i++)
        bits |= (uint64_t)at[i] << (8 * i);
    const int_of<T> number = (int_of<T>)unzigzag(bits);

    if (chunk.number_nbytes == 0)
        return (word_of<T>)bits;
    return chunk.prediction == TERP_PREDICTION_LORENZO
               ? (word_of<T>)number
               : bits_of((T)chunk.reference + (T)number * step);
}

static __device__ __forceinline__ uint64_t *
listed_escapes(const struct cuda_batch &batch)
{
    return region<uint64_t>(batch, blockIdx.y, batch.at.tune);
}

#endif
