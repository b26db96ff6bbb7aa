/* Shared by the stage of escapes and the stages that decode tiles and splines:
 * the list of escapes, and how to read an escape. */
#pragma once

#include "codec/format/sections.h"
#include "gpu/predict/values.cuh"

/* The most ranges of a chunk whose escapes one block handles, with a thread a
 * range: 256 ranges are 262144 values, a chunk of 64^3. Larger chunks take two
 * launches, to sum ranges and to move escapes. Tests use 0. */
#ifndef CUDA_SINGLE_BLOCK_MAX_NRANGES
#define CUDA_SINGLE_BLOCK_MAX_NRANGES 256
#endif

/* The most escapes that are listed. If one block handles a chunk's escapes and
 * the chunk has at most this many, the kernels that decode tiles list their
 * positions in tile order in the region `tune`, in any sequence;
 * CUDA_PROGRESS_LISTED counts them. The block then needs no search for escapes,
 * and has a thread for each. Otherwise escapes are counted in ranges. */
#define CUDA_MAX_NLISTED 512
static_assert(CUDA_MAX_NLISTED <= CUDA_LEVEL_NCOSTS,
              "The region `tune` holds one level's costs at least.");

static __device__ __forceinline__ bool
escapes_are_listed(const struct cuda_batch &batch,
                   const struct cuda_chunk &chunk)
{
    return batch.nranges <= CUDA_SINGLE_BLOCK_MAX_NRANGES &&
           chunk.nescapes <= CUDA_MAX_NLISTED;
}

/* Bytes of an escape in the section. */
static __device__ __forceinline__ unsigned
escape_nbytes(const struct cuda_chunk &chunk, unsigned value_nbytes)
{
    return (unsigned)terp_escape_nbytes((int)chunk.number_nbytes,
                                        (int)value_nbytes);
}

/* decode: the value of escape `nth` of the section, as it goes to `work`. T is
 * float or double; `step` is that of a level with ratio 1, for splines. */
template <typename T>
static __device__ __forceinline__ word_of<T>
read_escape(const struct cuda_chunk &chunk, T step, uint64_t nth)
{
    const unsigned nbytes = escape_nbytes(chunk, sizeof(T));
    const uint8_t *at = (const uint8_t *)chunk.src + chunk.escapes_end -
                        (chunk.nescapes - nth) * nbytes;
    uint64_t bits = 0;
#pragma unroll 1 /* escapes are rare, and this is inlined often */
    for (unsigned i = 0; i < nbytes; i++)
        bits |= (uint64_t)at[i] << (8 * i);
    const int_of<T> number = (int_of<T>)unzigzag(bits);

    if (chunk.number_nbytes == 0)
        return (word_of<T>)bits;
    return !terp_prediction_has_grid(chunk.prediction)
               ? (word_of<T>)number
               : bits_of((T)chunk.model.reference + (T)number * step);
}

static __device__ __forceinline__ uint64_t *
listed_escapes(const struct cuda_batch &batch)
{
    return region<uint64_t>(batch, batch.at.tune);
}
