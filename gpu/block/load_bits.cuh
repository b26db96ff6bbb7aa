/* Loads numbers of some bits from a stream in device memory, by whole words. */
#pragma once

#include "codec/format/bits.h"
#include "gpu/engine/platform.cuh"

/* The aligned words of a stream from those of `bytes` on. */
struct packed_words {
    const uint8_t *bytes;
    const uint32_t *words;
    unsigned skew_nbits; /* from the first word to the first byte */
    unsigned nwords;     /* whole words before the stream's end, at most 2^31 */
    const uint8_t *end;
};

static __device__ __forceinline__ struct packed_words
packed_words_at(const uint8_t *bytes, const uint8_t *end)
{
    const unsigned skew = (unsigned)((uintptr_t)bytes % sizeof(uint32_t));

    return {bytes, (const uint32_t *)(bytes - skew), 8 * skew,
            (unsigned)min_u64((uint64_t)(end - bytes + skew) / sizeof(uint32_t),
                              UINT32_C(1) << 31),
            end};
}

/* Returns the same number as load_bits, as a W, which holds it. It loads whole
 * words, up to three bytes before `bytes`, and nothing behind the stream. */
template <typename W>
static __device__ __forceinline__ W
load_number(const struct packed_words &from, unsigned first_bit, int nbits)
{
    const unsigned bit = from.skew_nbits + first_bit, i = bit / 32;
    const unsigned nwords = sizeof(W) == 4 ? 2 : 3;

    if (i + nwords > from.nwords)
        return (W)load_bits(from.bytes, first_bit, nbits);
    const uint32_t low =
        __funnelshift_r(from.words[i], from.words[i + 1], bit % 32);
    W number = low;
    if constexpr (sizeof(W) == 8)
        if (nbits > 32)
            number |= (W)__funnelshift_r(from.words[i + 1], from.words[i + 2],
                                         bit % 32)
                      << 32;
    return nbits == 8 * (int)sizeof(W) ? number
                                       : number & (((W)1 << nbits) - 1);
}

/* Numbers that follow each other. */
struct bit_stream {
    struct packed_words from;
    unsigned i;    /* the next word */
    uint64_t bits; /* that were loaded */
    int nbits;     /* how many */
};

/* Loads the next word; bytes behind the stream are 0. */
static __device__ __forceinline__ void
load_word(struct bit_stream *stream)
{
    const struct packed_words &from = stream->from;
    uint32_t word = 0;

    if (stream->i < from.nwords)
        word = from.words[stream->i];
    else
        for (const uint8_t *at = (const uint8_t *)(from.words + stream->i);
             at < from.end; at++)
            word |= (uint32_t)*at
                    << 8 * (at - (const uint8_t *)from.words) % 32;
    stream->i++;
    stream->bits |= (uint64_t)word << stream->nbits;
    stream->nbits += 32;
}

/* The numbers from bit `first_bit` behind `bytes` on. */
static __device__ __forceinline__ struct bit_stream
bit_stream_at(const uint8_t *bytes, unsigned first_bit, const uint8_t *end)
{
    struct bit_stream stream = {packed_words_at(bytes, end), 0, 0, 0};
    const unsigned bit = stream.from.skew_nbits + first_bit;

    stream.i = bit / 32;
    load_word(&stream);
    stream.bits >>= bit % 32;
    stream.nbits -= (int)(bit % 32);
    return stream;
}

/* Takes up to 32 bits. */
static __device__ __forceinline__ uint32_t
take_bits(struct bit_stream *stream, int nbits)
{
    if (stream->nbits < nbits)
        load_word(stream);
    const uint32_t number =
        (uint32_t)(stream->bits & ((UINT64_C(1) << nbits) - 1));
    stream->bits >>= nbits;
    stream->nbits -= nbits;
    return number;
}

/* Takes a number of at most the bits of a W. */
template <typename W>
static __device__ __forceinline__ W
take_number(struct bit_stream *stream, int nbits)
{
    W number = take_bits(stream, min(nbits, 32));

    if constexpr (sizeof(W) == 8)
        if (nbits > 32)
            number |= (W)take_bits(stream, nbits - 32) << 32;
    return number;
}
