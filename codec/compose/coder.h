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
 * stored. */
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

/* ---- sizes ---- */

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
