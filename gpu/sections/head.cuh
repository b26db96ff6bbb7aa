/* Writes frame, model, table of prefixes and codebooks, for streams of small
 * and of large chunks. */
#pragma once

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

/* Byte `i` of a stream's frame, without the checksum. */
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
                         (cuda_form_is_pointwise(batch.form) &&
                                  frame_has_bound(chunk)
                              ? TERP_FRAME_POINTWISE
                              : 0) |
                         (cuda_prefixes_nbytes(batch, chunk) > 0
                              ? TERP_FRAME_PREFIXES
                              : 0));
    return i < bound_at
               ? batch.frame[i]
               : (uint8_t)(double_bits(chunk.bound) >> (8 * (i - bound_at)));
}

/* One thread writes the frame of a stream of any coding. Returns where it
 * ends. */
static __device__ inline uint64_t
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

/* One thread notes that a chunk has no stream: the caller stores it. */
static __device__ __forceinline__ void
set_raw(const struct cuda_batch &batch, struct cuda_chunk &chunk)
{
    chunk.coding = TERP_CODING_RAW;
    chunk.prediction = TERP_PREDICTION_NONE;
    chunk.has_specials = false;
    chunk.status = TERP_OK;
    chunk.stream_nbytes = batch.raw_nbytes;
}

/* One thread writes the carrier's head, if the type has a carrier. Returns
 * where it ends. */
static __device__ __forceinline__ uint8_t *
write_carrier_head(const struct cuda_batch &batch,
                   const struct cuda_chunk &chunk, uint8_t *dst)
{
    const unsigned nbytes =
        batch.carrier_head_nbytes + cuda_scale_nbytes(batch, chunk);
    struct writer writer = {dst, dst + nbytes, false};

    if (cuda_form_is_of_integers(batch.form)) {
        terp_carrier_write_head(&writer, batch.chunk.type, &chunk.carrier);
    } else if (nbytes > 0) {
        dst[0] = TERP_CARRIER_FLOATS;
        store_le(dst + 1, double_bits(chunk.carrier_bound), 8);
    }
    return dst + nbytes;
}

/* One thread writes the value of a constant chunk. */
static __device__ __forceinline__ void
write_constant(const struct cuda_batch &batch, const struct cuda_chunk &chunk,
               uint8_t *dst)
{
    store_le(write_carrier_head(batch, chunk, dst + batch.dims_end),
             chunk.constant_bits, batch.carrier_nbytes);
}

/* Writes all between the bound and the section of special values to the stream
 * at `dst`: table of prefixes (as zeros), heads, model. Threads 0 to
 * MODEL_NTHREADS - 1 call it, and each writes some of the bytes. */
static __device__ __forceinline__ void
write_model(const struct cuda_batch &batch, const struct cuda_chunk &chunk,
            uint8_t *dst, int i)
{
    const unsigned table_nbytes = cuda_prefixes_nbytes(batch, chunk);

    if (i == 0)
        memset(dst + batch.frame_nbytes, 0, table_nbytes);
    dst += table_nbytes;
    uint8_t *head = dst + batch.frame_nbytes;
    uint8_t *model = dst + batch.model_at + cuda_scale_nbytes(batch, chunk);
    if (i == 0)
        head = write_carrier_head(batch, chunk, head);
    if (i == 0 && cuda_form_is_pointwise(batch.form)) {
        struct writer writer = {head, model, false};
        terp_pointwise_write_head(&writer, &chunk.head);
    }
    predictor_write_model(batch, chunk, model, i);
}

/* ---- prefixes ---- */

/* Whether a complete stream has a table of prefixes. */
static __device__ __forceinline__ bool
stream_has_prefixes(const uint8_t *stream)
{
    return (stream[TERP_FRAME_PREDICTION_AT] & TERP_FRAME_PREFIXES) != 0;
}

/* Whether a stream with a table of prefixes is so short that it loses the
 * table. */
static __device__ __forceinline__ bool
prefixes_are_dropped(uint64_t stream_nbytes)
{
    return stream_nbytes <
           TERP_PREFIXES_MIN_STREAM_NBYTES + TERP_PREFIXES_NBYTES;
}

/* Removes the table of prefixes: NTHREADS threads move all bytes behind it.
 * Ends with a barrier. Returns the stream's new length. */
template <unsigned NTHREADS>
static __device__ uint64_t
drop_prefixes(uint8_t *stream, uint64_t frame_nbytes, uint64_t stream_nbytes)
{
    constexpr unsigned N = TERP_PREFIXES_MIN_STREAM_NBYTES / NTHREADS + 1;
    const uint64_t end = stream_nbytes - TERP_PREFIXES_NBYTES;
    const uint64_t first = frame_nbytes + threadIdx.x;
    uint8_t bytes[N];

#pragma unroll
    for (unsigned k = 0; k < N; k++)
        if (first + k * NTHREADS < end)
            bytes[k] = stream[first + k * NTHREADS + TERP_PREFIXES_NBYTES];
    __syncthreads();
#pragma unroll
    for (unsigned k = 0; k < N; k++)
        if (first + k * NTHREADS < end)
            stream[first + k * NTHREADS] = bytes[k];
    if (threadIdx.x == 0)
        stream[TERP_FRAME_PREDICTION_AT] &= (uint8_t)~TERP_FRAME_PREFIXES;
    __syncthreads();
    return end;
}

/* Writes the table of prefixes, a word of 32 bits a thread. */
static __device__ __forceinline__ void
write_prefixes(const struct terp_prefix prefix[TERP_NPREFIXES], uint8_t *table)
{
    static_assert(sizeof *prefix == TERP_PREFIX_NBYTES,
                  "Prefixes in the state must have the stream's layout.");
    if (threadIdx.x < TERP_PREFIXES_NBYTES / 4)
        store_le(table + 4 * threadIdx.x,
                 ((const uint32_t *)prefix)[threadIdx.x], 4);
}

/* ---- codebooks ---- */

/* Words of a bit map with a bit for each entry of the dictionary: the entry is
 * in use. */
#define USED_ENTRIES_NWORDS ((TERP_NENTRIES + 31) / 32)

/* The number of entries in use below entry `end`. */
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

/* Writes the number of entries in use, and the entries. A thread has an
 * entry. */
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

/* NTHREADS threads write the codebook of a chunk with coding custom: the range
 * of symbols, and the lengths of codewords, two a byte, the escape's first. */
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
