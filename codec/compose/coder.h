/* What codec/compose works with: an engine at work for one call, and chunks
 * that become streams. */
#pragma once

#include <string.h>

#include "codec/engine.h"

TERP_C_BEGIN

struct terp_coder {
    const struct terp_engine *engine;
    struct terp_session *session;
};

/* Chunks, and where their streams go: dst[i] holds terp_encode_bound.
 * nbytes[i] is 0 where a chunk has no stream that is smaller than the chunk
 * stored, and TERP_LEFT_NBYTES where it is left to the CPU: a chunk of which
 * one attempt is left is left as a whole. */
struct terp_batch {
    struct terp_source source;
    void *const *dst;
    uint64_t *nbytes;
};

/* Begins and ends the work of an engine, for a chunk of so many values. */
static inline struct terp_coder
terp_coder_open(const struct terp_cpu_call *call, uint64_t nvalues)
{
    const struct terp_coder coder = {call->engine,
                                     call->engine->open(call, nvalues)};
    return coder;
}

static inline void
terp_coder_close(const struct terp_coder *coder)
{
    coder->engine->close(coder->session);
}

/* ---- memory of the engine ---- */

static inline void *
terp_coder_allocate(const struct terp_coder *coder, uint64_t nbytes)
{
    return coder->engine->allocate(coder->session, nbytes);
}

static inline void
terp_coder_release(const struct terp_coder *coder, void *at)
{
    if (at != NULL)
        coder->engine->release(coder->session, at);
}

/* ---- one chunk or stream ---- */

static inline enum terp_status
terp_coder_copy(const struct terp_coder *coder, void *dst, const void *src,
                uint64_t nbytes)
{
    return coder->engine->copy(coder->session, 1, &dst, &src, &nbytes);
}

static inline enum terp_status
terp_coder_decode(const struct terp_coder *coder,
                  const struct terp_open_stream *stream, uint64_t step,
                  void *dst)
{
    enum terp_status status;
    const enum terp_status st =
        coder->engine->decode(coder->session, step, 1, stream, &dst, &status);

    return st == TERP_OK ? status : st;
}

/* ---- sizes ---- */

static inline bool
terp_is_left(const struct terp_batch *batch, uint64_t i)
{
    return batch->nbytes[i] == TERP_LEFT_NBYTES;
}

/* What an attempt at chunk i besides its own stream ends with: a device for
 * which memory is short leaves the chunk to the CPU. */
static inline enum terp_status
terp_leave_if_short(const struct terp_coder *coder,
                    const struct terp_batch *batch, uint64_t i,
                    enum terp_status st)
{
    if (st != TERP_ERR_MEMORY || !coder->engine->is_device)
        return st;
    batch->nbytes[i] = TERP_LEFT_NBYTES;
    return TERP_OK;
}

/* Values of chunks for which a device has memory at once, unless it is one. */
#define TERP_PORTION_NBYTES (UINT64_C(256) << 20)

/* How many such chunks a device encodes or measures at once. */
static inline uint64_t
terp_portion_nchunks(const struct terp_chunk *chunk)
{
    return TERP_PORTION_NBYTES / terp_chunk_nbytes(chunk) + 1;
}

static inline uint64_t
terp_chunk_nvalues(const struct terp_chunk *chunk)
{
    return terp_chunk_nbytes(chunk) / (uint64_t)terp_value_nbytes(chunk->type);
}

/* Of a chunk that is stored. */
static inline uint64_t
terp_stored_nbytes(const struct terp_chunk *chunk)
{
    struct terp_frame raw;

    memset(&raw, 0, sizeof raw);
    raw.chunk = *chunk;
    return (uint64_t)terp_frame_nbytes(&raw) + terp_chunk_nbytes(chunk);
}

/* The stream's size, or that of the chunk stored. */
static inline uint64_t
terp_least_nbytes(const struct terp_batch *batch, uint64_t i)
{
    return batch->nbytes[i] != 0 ? batch->nbytes[i]
                                 : terp_stored_nbytes(batch->source.chunk);
}

TERP_C_END
