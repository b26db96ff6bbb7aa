/* The working state that all of codec/compose shares: an engine's session for
 * one call, and batches of chunks that become streams. */
#pragma once

#include <stdlib.h>
#include <string.h>

#include "codec/engine.h"
#include "codec/model/bound.h"

TERP_C_BEGIN

struct terp_coder {
    const struct terp_engine *engine;
    struct terp_session *session;
};

/* Chunks and the places of their streams. dst[i] holds terp_encode_bound bytes.
 * nbytes[i] is the size of chunk i's stream; 0: no stream is smaller than the
 * stored chunk; TERP_LEFT_NBYTES: the chunk is left to the CPU. If a device
 * leaves one attempt at a chunk to the CPU, the CPU encodes the whole chunk. */
struct terp_batch {
    struct terp_source source;
    void *const *dst;
    uint64_t *nbytes;
};

/* Encodes the chunks of a batch. */
typedef enum terp_status
terp_batch_encoder(const struct terp_coder *coder,
                   const struct terp_batch *batch);

/* Returns the parameters of some values of a chunk that are coded apart: they
 * have the bound and the fill values of the whole chunk. */
static inline struct terp_params
terp_params_of_rest(const struct terp_params *params,
                    const struct terp_facts *facts)
{
    struct terp_params own = terp_params_under(params, facts->bound);

    own.has_fill = facts->has_fill[0];
    own.fill_bits = facts->fill_bits[0];
    own.has_missing = facts->has_fill[1];
    own.missing_bits = facts->fill_bits[1];
    return own;
}

/* Opens and closes an engine's session for chunks of `nvalues` values each. */
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

/* Zeroed host memory for n items of `nbytes`, never for none: malloc(0) may be
 * NULL. */
static inline void *
terp_items_allocate(uint64_t n, size_t nbytes)
{
    return n <= SIZE_MAX ? calloc(n > 0 ? (size_t)n : 1, nbytes) : NULL;
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

/* The bytes of a block of an array of blocks, each aligned to 16 bytes. */
static inline uint64_t
terp_aligned_nbytes(uint64_t nbytes)
{
    return (nbytes + 15) / 16 * 16;
}

static inline bool
terp_is_left(const struct terp_batch *batch, uint64_t i)
{
    return batch->nbytes[i] == TERP_LEFT_NBYTES;
}

/* Turns the status of an extra attempt at chunk i into the batch's status: a
 * device that lacks memory for the attempt leaves chunk i to the CPU. */
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

/* Bounds the values that a device encodes or measures at once, and so the
 * memory that a call takes from the device beside the caller's. A chunk larger
 * than this is a portion of its own. */
#define TERP_PORTION_NBYTES (UINT64_C(256) << 20)

/* The number of chunks in a portion of TERP_PORTION_NBYTES; at least 1. */
static inline uint64_t
terp_portion_nchunks(const struct terp_chunk *chunk)
{
    return TERP_PORTION_NBYTES / terp_chunk_nbytes(chunk) + 1;
}

/* The stream's size if the chunk is stored raw. */
static inline uint64_t
terp_stored_nbytes(const struct terp_chunk *chunk)
{
    struct terp_frame raw;

    memset(&raw, 0, sizeof raw);
    raw.chunk = *chunk;
    return (uint64_t)terp_frame_nbytes(&raw) + terp_chunk_nbytes(chunk);
}

/* The size of chunk i's stream, or of the stored chunk while it has no stream.
 */
static inline uint64_t
terp_least_nbytes(const struct terp_batch *batch, uint64_t i)
{
    return batch->nbytes[i] != 0 ? batch->nbytes[i]
                                 : terp_stored_nbytes(batch->source.chunk);
}

TERP_C_END
