/* A reader by which a block of threads reads a short section of a stream from
 * shared memory. */
#pragma once

#include "gpu/block/expand.cuh"

/* Bytes of the stream that are staged at a time. advance_to stages anew unless
 * half of them are left, so a section of up to half as many bytes is staged
 * completely. */
#define STAGED_READER_NBYTES 8192

/* A position in the bytes that are staged, equal in all threads. A short index
 * is staged completely, unless the stream ends before the index does. To take
 * bytes of it therefore needs no more than counting them. */
struct staged_reader {
    const uint8_t *src; /* the whole stream */
    uint64_t end;
    const uint8_t *s_at; /* the next byte */
    unsigned left;       /* staged bytes from s_at on */
    uint64_t staged_end;
    bool underflow;
};

static __device__ __forceinline__ uint64_t
position_of(const struct staged_reader &reader)
{
    return reader.staged_end - reader.left;
}

static __device__ __forceinline__ uint64_t
position_of(const struct block_reader &reader)
{
    return reader.at;
}

/* Returns the next `nbytes` bytes and moves the reader past them. If fewer
 * bytes are staged, the reader underflows and the bytes returned must not be
 * used. */
static __device__ __forceinline__ const uint8_t *
take_bytes(struct staged_reader *reader, unsigned nbytes)
{
    const uint8_t *s_at = reader->s_at;
    const unsigned taken = nbytes <= reader->left ? nbytes : 0;

    reader->underflow |= taken < nbytes;
    reader->s_at += taken;
    reader->left -= taken;
    return s_at;
}

/* Returns the next byte. If the reader underflows, the result is any byte of
 * shared memory. */
static __device__ __forceinline__ unsigned
take_byte(struct staged_reader *reader)
{
    return *take_bytes(reader, 1);
}

static __device__ __forceinline__ unsigned
take_byte(struct block_reader *reader)
{
    return (unsigned)take_le(reader, 1);
}

/* Moves the reader to `at` and stages the bytes from there on. */
template <unsigned NTHREADS>
static __device__ __forceinline__ void
stage_at(struct staged_reader *reader, uint64_t at, uint8_t *s_staged)
{
    struct block_reader block = {};

    block.src = reader->src;
    block.at = at;
    block.end = reader->end;
    stage_bytes<NTHREADS>(&block, s_staged, STAGED_READER_NBYTES);
    reader->s_at = block.s_staged;
    reader->left = (unsigned)(block.staged_end - at);
    reader->staged_end = block.staged_end;
}

/* Moves the reader forward to `at`, which must not be beyond the end. Stages
 * anew if fewer than half of STAGED_READER_NBYTES are staged from there on. A
 * short index and the bytes before it are then staged. */
template <unsigned NTHREADS>
static __device__ __forceinline__ void
advance_to(struct staged_reader *reader, uint64_t at, uint8_t *s_staged)
{
    const bool staged = reader->staged_end == reader->end ||
                        at + STAGED_READER_NBYTES / 2 <= reader->staged_end;
    const unsigned passed = (unsigned)(at - position_of(*reader));

    if (!staged || at > reader->staged_end) {
        stage_at<NTHREADS>(reader, at, s_staged);
        return;
    }
    reader->s_at += passed;
    reader->left -= passed;
}

/* Does what load_le does, by a loop instead of eight loads, since a loop has
 * less code. */
static __device__ __forceinline__ uint64_t
load_le_loop(const uint8_t *at, unsigned nbytes)
{
    uint64_t word = 0;

#pragma unroll 1
    for (unsigned i = 0; i < nbytes; i++)
        word |= (uint64_t)at[i] << (8 * i);
    return word;
}
