/* What an encoder writes before a stream's payload, be the stream short or
 * long: frame, model, codebooks. */
#ifndef TERP_GPU_SECTIONS_HEAD_CUH
#define TERP_GPU_SECTIONS_HEAD_CUH

#include "codec/format/sections.h"
#include "gpu/block/put_bits.cuh"
#include "gpu/block/reduce.cuh"
#include "gpu/entropy/codebooks.cuh"
#include "gpu/predict/predictor.cuh"

static __device__ __forceinline__ bool
frame_has_bound(const struct cuda_chunk &chunk)
{
    return chunk.coding != TERP_CODING_RAW &&
           chunk.coding != TERP_CODING_CONSTANT;
}

/* Byte `i` of a coded stream's frame, but for the checksum. */
static __device__ __forceinline__ uint8_t
frame_byte(const struct cuda_batch &batch, const struct cuda_chunk &chunk,
           unsigned i)
{
    const unsigned bound_at =
        (unsigned)batch.frame_nbytes - (unsigned)sizeof chunk.bound;

    if (i == TERP_FRAME_CODING_AT)
        return (uint8_t)chunk.coding;
    if (i == TERP_FRAME_PREDICTION_AT)
        return (uint8_t)((int)chunk.prediction |
                         (chunk.has_specials ? TERP_FRAME_SPECIALS : 0) |
                         (batch.has_domain && frame_has_bound(chunk)
                              ? TERP_FRAME_DOMAIN
                              : 0) |
                         (batch.form != CUDA_VALUES && frame_has_bound(chunk)
                              ? TERP_FRAME_POINTWISE
                              : 0));
    return i < bound_at
               ? batch.frame[i]
               : (uint8_t)(double_bits(chunk.bound) >> (8 * (i - bound_at)));
}

/* One thread writes the frame of any stream. Returns where it ends. */
static __device__ uint64_t
write_frame(const struct cuda_batch &batch, const struct cuda_chunk &chunk,
            uint8_t *dst)
{
    const uint64_t end =
        frame_has_bound(chunk) ? batch.frame_nbytes : batch.dims_end;

#pragma unroll 1
    for (unsigned i = 0; i < end; i++)
        dst[i] = frame_byte(batch, chunk, i);
    return end;
}

/* Thread i of MODEL_NTHREADS writes its part of what is between the frame and
 * the section of special values, into the stream at `dst`. */
static __device__ __forceinline__ void
write_model(const struct cuda_batch &batch, const struct cuda_chunk &chunk,
            uint8_t *dst, int i)
{
    if (i == 0 && batch.form != CUDA_VALUES) {
        struct writer writer = {dst + batch.frame_nbytes, dst + batch.model_at,
                                false};
        terp_pointwise_write_head(&writer, &chunk.head);
    }
    predictor_write_model(batch, chunk, dst + batch.model_at, i);
}

/* ---- codebooks ---- */

/* A bit map has a bit for each entry of the dictionary: it is in use. */
#define USED_ENTRIES_NWORDS ((TERP_NENTRIES + 31) / 32)

/* How many entries below entry `end` are in use. */
static __device__ __forceinline__ unsigned
count_used(const uint32_t used[USED_ENTRIES_NWORDS], unsigned end)
{
    unsigned n = 0;

#pragma unroll
    for (unsigned i = 0; i < USED_ENTRIES_NWORDS; i++)
        if (32 * i < end)
            n += (unsigned)__popc(
                used[i] &
                (end >= 32 * i + 32 ? UINT32_MAX : bits_below(end % 32)));
    return n;
}

/* Writes how many entries are in use, and which. A thread has an entry. */
static __device__ __forceinline__ void
write_palette(const uint32_t used[USED_ENTRIES_NWORDS], uint8_t *dst)
{
    const unsigned entry = threadIdx.x;

    if (entry < TERP_NENTRIES && (used[entry / 32] >> (entry % 32) & 1))
        dst[1 + count_used(used, entry)] = (uint8_t)entry;
    if (entry == 0)
        dst[0] = (uint8_t)count_used(used, TERP_NENTRIES);
}

/* Bytes of the codebooks of a chunk in which `nnonzero` tiles are not zero. */
static __device__ __forceinline__ uint64_t
books_nbytes(enum terp_coding coding, const uint32_t used[USED_ENTRIES_NWORDS],
             unsigned nnonzero, const struct cuda_custom_codebook *book)
{
    if (terp_coding_selects_entries(coding)) {
        unsigned nused = count_used(used, TERP_NENTRIES);
        return 1 + nused + packed_nbytes(nnonzero, bit_width(nused - 1));
    }
    return coding == TERP_CODING_CUSTOM
               ? 4 + packed_nbytes((uint64_t)book->high - book->low + 2, 4)
               : 0;
}

/* NTHREADS threads write the chunk's own codebook: the lengths of its
 * codewords, two a byte, the escape's first. */
template <unsigned NTHREADS>
static __device__ void
write_custom(const struct cuda_custom_codebook *book, uint8_t *dst)
{
    unsigned low = book->low, n = book->high - low + 2u;

    if (threadIdx.x == 0) {
        store_le(dst, low, 2);
        store_le(dst + 2, book->high, 2);
    }
#pragma unroll 1
    for (unsigned i = 2 * threadIdx.x; i < n; i += 2 * NTHREADS) {
        unsigned even = i == 0 ? TERP_ESCAPE : low + i - 1;
        unsigned nbits = terp_codeword_nbits(book->codeword[even]);
        if (i + 1 < n)
            nbits |= terp_codeword_nbits(book->codeword[low + i]) << 4;
        dst[4 + i / 2] = (uint8_t)nbits;
    }
}

#endif
