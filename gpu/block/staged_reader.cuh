/* How a block of threads reads a short part of a stream, out of shared memory
 * alone. */
#pragma once

#include "gpu/block/expand.cuh"

/* Bytes of the stream that are staged at a time. */
#define STAGED_READER_NBYTES 8192

/* A reader of what is staged, which is at the same place in all threads. A
 * short index is staged as a whole, unless the stream ends before it does: so
 * to take its bytes is no more than to count them. */
struct staged_reader {
    const uint8_t *src; /* the stream */
    uint64_t end;
    const uint8_t *s_at; /* what comes next */
    unsigned left;       /* how much of it is staged */
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

/* The next `nbytes`. Where fewer are staged the reader underflows, and what it
 * returns must not be read. */
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

/* The next byte; where the reader underflows any other one of shared memory. */
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

/* Stages what stands from a place on. */
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

/* Goes on to a place that is not behind the end. Then a short index, and what
 * stands right before one, is staged. */
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

/* load_le by a loop rather than by eight loads: it takes less code. */
static __device__ __forceinline__ uint64_t
load_le_loop(const uint8_t *at, unsigned nbytes)
{
    uint64_t word = 0;

#pragma unroll 1
    for (unsigned i = 0; i < nbytes; i++)
        word |= (uint64_t)at[i] << (8 * i);
    return word;
}
