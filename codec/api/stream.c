/* Writes and reads one stream on the CPU: frame, checksum, body or stored form.
 */
#include "codec/api/stream.h"

#include "codec/api/processor.h"
#include "codec/api/psnr.h"
#include "codec/api/valid_range.h"
#include "codec/model/bound.h"
#include "codec/model/coarse.h"

static void
store_raw(const struct terp_chunk *chunk, const void *src, uint64_t src_nbytes,
          uint8_t *dst, uint64_t *dst_nbytes_ret)
{
    struct terp_frame frame = {.chunk = *chunk, .coding = TERP_CODING_RAW};
    int frame_nbytes = terp_frame_write(&frame, dst);

    memcpy(dst + frame_nbytes, src, src_nbytes);
    *dst_nbytes_ret = (uint64_t)frame_nbytes + src_nbytes;
    terp_frame_seal(dst, *dst_nbytes_ret);
}

static enum terp_status
encode(const struct terp_cpu_call *call, const struct terp_params *params,
       const struct terp_chunk *chunk, const void *src, uint8_t *dst,
       uint64_t *dst_nbytes_ret)
{
    enum terp_status st = TERP_ERR_CAPACITY;

    if (chunk->type != TERP_BYTES)
        st = terp_processor_engine()->encode(call, params, chunk, src, dst,
                                             dst_nbytes_ret);
    if (st != TERP_ERR_CAPACITY)
        return st;
    store_raw(chunk, src, terp_chunk_nbytes(chunk), dst, dst_nbytes_ret);
    return TERP_OK;
}

/* Logarithms predict some fields better than what a floor makes of them, and
 * keep its bound as well: the smaller stream counts. */
static enum terp_status
encode_with_floor(const struct terp_cpu_call *call,
                  const struct terp_params *params,
                  const struct terp_chunk *chunk, const void *src, uint8_t *dst,
                  uint64_t *dst_nbytes_ret)
{
    struct terp_params without = *params;
    uint64_t nbytes;
    enum terp_status st = encode(call, params, chunk, src, dst, dst_nbytes_ret);

    without.floor = 0;
    if (st != TERP_OK || params->effort == TERP_EFFORT_FAST)
        return st;
    uint8_t *other = terp_allocate(call->allocator, terp_encode_bound(chunk));
    if (other == NULL)
        return TERP_ERR_MEMORY;
    st = encode(call, &without, chunk, src, other, &nbytes);
    if (st == TERP_OK && nbytes < *dst_nbytes_ret) {
        memcpy(dst, other, nbytes);
        *dst_nbytes_ret = nbytes;
    }
    terp_release(call->allocator, other);
    return st;
}

/* Under any kind of bound. */
static enum terp_status
encode_under_bound(const struct terp_cpu_call *call,
                   const struct terp_params *params,
                   const struct terp_chunk *chunk, const void *src,
                   uint8_t *dst, uint64_t *dst_nbytes_ret)
{
    if (params->bound_mode == TERP_BOUND_PSNR)
        return terp_psnr_search(encode, call, params, chunk, src, dst,
                                dst_nbytes_ret);
    return (params->floor > 0 ? encode_with_floor : encode)(
        call, params, chunk, src, dst, dst_nbytes_ret);
}

enum terp_status
terp_stream_encode(const struct terp_cpu_call *call,
                   const struct terp_params *params,
                   const struct terp_chunk *chunk, const void *src,
                   uint8_t *dst, uint64_t *dst_nbytes_ret)
{
    if (chunk->type == TERP_BYTES)
        return encode(call, params, chunk, src, dst, dst_nbytes_ret);
    const struct terp_params known = terp_params_of_type(chunk->type, params);
    const enum terp_status st =
        encode_under_bound(call, &known, chunk, src, dst, dst_nbytes_ret);
    return st == TERP_OK ? terp_stream_keep_limits(call, &known, chunk, src,
                                                   dst, dst_nbytes_ret)
                         : st;
}

enum terp_status
terp_stream_keep_limits(const struct terp_cpu_call *call,
                        const struct terp_params *params,
                        const struct terp_chunk *chunk, const void *src,
                        uint8_t *dst, uint64_t *dst_nbytes)
{
    const struct terp_params known = terp_params_of_type(chunk->type, params);

    return terp_params_have_limits(chunk->type, &known)
               ? terp_limits_keep(encode_under_bound, call, &known, chunk, src,
                                  dst, dst_nbytes)
               : TERP_OK;
}

enum terp_status
terp_stream_open(const uint8_t *src, uint64_t src_nbytes, uint64_t step,
                 struct terp_stream *stream_ret)
{
    int frame_nbytes;
    enum terp_status st =
        terp_frame_read(src, src_nbytes, &stream_ret->frame, &frame_nbytes);

    if (st != TERP_OK)
        return st;
    const struct terp_prefix *prefix = terp_prefix_of(&stream_ret->frame, step);
    if (prefix == NULL) {
        st = terp_frame_verify(src, src_nbytes);
    } else {
        st = terp_frame_verify_prefix(src, src_nbytes, prefix, frame_nbytes);
        src_nbytes = prefix->nbytes;
    }
    stream_ret->body = src + frame_nbytes;
    stream_ret->body_nbytes = src_nbytes - (uint64_t)frame_nbytes;
    return st;
}

enum terp_status
terp_stream_decode(const struct terp_cpu_call *call,
                   const struct terp_stream *stream, uint64_t step, void *dst)
{
    return terp_processor_engine()->decode(call, &stream->frame, stream->body,
                                           stream->body_nbytes, step, dst);
}
