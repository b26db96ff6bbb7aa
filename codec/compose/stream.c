/* Writes and reads one stream: opens and closes the engine's session, and
 * verifies what is read. */
#include "codec/compose/stream.h"

#include "codec/compose/bounds.h"
#include "codec/compose/decode.h"
#include "codec/compose/limits.h"
#include "codec/model/bound.h"

static enum terp_status
keep_limits(const struct terp_coder *coder, const struct terp_batch *batch)
{
    return terp_params_have_limits(batch->source.chunk->type,
                                   batch->source.params)
               ? terp_limits_keep(coder, batch)
               : TERP_OK;
}

static enum terp_status
encode(const struct terp_coder *coder, const struct terp_batch *batch)
{
    const enum terp_status st = terp_bounded_encode(coder, batch);

    return st == TERP_OK && batch->source.chunk->type != TERP_BYTES
               ? keep_limits(coder, batch)
               : st;
}

enum terp_status
terp_stream_encode(const struct terp_cpu_call *call,
                   const struct terp_params *params,
                   const struct terp_chunk *chunk, const void *src,
                   uint8_t *dst, uint64_t *dst_nbytes_ret)
{
    struct terp_params known;
    void *const to[] = {dst};
    const struct terp_batch batch = {
        {.chunk = chunk, .params = &known, .n = 1, .src = &src},
        to,
        dst_nbytes_ret};

    if (chunk->type != TERP_BYTES)
        known = terp_params_of_type(chunk->type, params);
    const struct terp_coder coder = terp_coder_open(
        call, chunk->type == TERP_BYTES ? 0 : terp_chunk_nvalues(chunk));
    const enum terp_status st = encode(&coder, &batch);
    terp_coder_close(&coder);
    return st;
}

enum terp_status
terp_stream_keep_limits(const struct terp_cpu_call *call,
                        const struct terp_params *params,
                        const struct terp_chunk *chunk, const void *src,
                        uint8_t *dst, uint64_t *dst_nbytes)
{
    const struct terp_params known = terp_params_of_type(chunk->type, params);
    void *const to[] = {dst};
    const struct terp_batch batch = {
        {.chunk = chunk, .params = &known, .n = 1, .src = &src},
        to,
        dst_nbytes};
    const struct terp_coder coder =
        terp_coder_open(call, terp_chunk_nvalues(chunk));
    const enum terp_status st = keep_limits(&coder, &batch);

    terp_coder_close(&coder);
    return st;
}

enum terp_status
terp_stream_open_behind(const struct terp_read_frame *frame, const uint8_t *src,
                        uint64_t src_nbytes, uint64_t step,
                        struct terp_open_stream *stream_ret)
{
    const struct terp_prefix *prefix = terp_prefix_of(&frame->frame, step);
    enum terp_status st;

    if (prefix == NULL) {
        st = terp_frame_verify(src, src_nbytes);
    } else {
        st = terp_frame_verify_prefix(src, src_nbytes, prefix, frame->nbytes);
        src_nbytes = prefix->nbytes;
    }
    stream_ret->frame = frame->frame;
    stream_ret->body = src + frame->nbytes;
    stream_ret->body_nbytes = src_nbytes - (uint64_t)frame->nbytes;
    stream_ret->whole = src;
    return st;
}

enum terp_status
terp_stream_open(const uint8_t *src, uint64_t src_nbytes, uint64_t step,
                 struct terp_open_stream *stream_ret)
{
    struct terp_read_frame frame;
    const enum terp_status st =
        terp_frame_read(src, src_nbytes, &frame.frame, &frame.nbytes);

    return st == TERP_OK ? terp_stream_open_behind(&frame, src, src_nbytes,
                                                   step, stream_ret)
                         : st;
}

enum terp_status
terp_stream_decode(const struct terp_cpu_call *call,
                   const struct terp_open_stream *stream, uint64_t step,
                   void *dst)
{
    struct terp_coarse coarse;

    /* Stored values are only copied, which needs no threads. */
    terp_coarse_make(&stream->frame, step, &coarse);
    const struct terp_coder coder = terp_coder_open(
        call, stream->frame.coding == TERP_CODING_RAW ? 0 : coarse.nvalues);
    const enum terp_status st = terp_chunk_decode(&coder, stream, step, dst);
    terp_coder_close(&coder);
    return st;
}
