/* Entry points: checks, frame, and the stored form of what no engine can
 * compress. */
#include "terp.h"

#include "base.h"
#include "engine.h"

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

enum terp_status
terp_encode(const struct terp_params *params, const struct terp_chunk *chunk,
            const void *src, void *dst, uint64_t dst_cap_nbytes,
            uint64_t *dst_nbytes_ret, int nthreads)
{
    uint64_t src_nbytes = terp_chunk_nbytes(chunk);

    if (src_nbytes == 0 || nthreads < 1)
        return TERP_ERR_ARGUMENT;
    if (dst_cap_nbytes < terp_encode_bound(chunk))
        return TERP_ERR_CAPACITY;
    if (chunk->type == TERP_BYTES) {
        store_raw(chunk, src, src_nbytes, dst, dst_nbytes_ret);
        return TERP_OK;
    }
    if (!is_bound(params->bound))
        return TERP_ERR_BOUND;
    enum terp_status st = terp_cpu_engine.encode(params, chunk, src, dst,
                                                 dst_nbytes_ret, nthreads);
    if (st == TERP_ERR_CAPACITY) {
        store_raw(chunk, src, src_nbytes, dst, dst_nbytes_ret);
        st = TERP_OK;
    }
    return st;
}

enum terp_status
terp_decoded_nbytes(const void *src, uint64_t src_nbytes, uint64_t *nbytes_ret)
{
    struct terp_frame frame;
    int frame_nbytes;
    enum terp_status st =
        terp_frame_read(src, src_nbytes, &frame, &frame_nbytes);

    if (st == TERP_OK)
        *nbytes_ret = terp_chunk_nbytes(&frame.chunk);
    return st;
}

enum terp_status
terp_decode(const void *src, uint64_t src_nbytes, void *dst,
            uint64_t dst_cap_nbytes, uint64_t *dst_nbytes_ret, int nthreads)
{
    struct terp_frame frame;
    int frame_nbytes;

    if (nthreads < 1)
        return TERP_ERR_ARGUMENT;
    enum terp_status st =
        terp_frame_read(src, src_nbytes, &frame, &frame_nbytes);
    if (st == TERP_OK)
        st = terp_frame_verify(src, src_nbytes);
    if (st != TERP_OK)
        return st;
    uint64_t dst_nbytes = terp_chunk_nbytes(&frame.chunk);
    const uint8_t *body = (const uint8_t *)src + frame_nbytes;
    uint64_t body_nbytes = src_nbytes - (uint64_t)frame_nbytes;
    if (dst_nbytes > dst_cap_nbytes)
        return TERP_ERR_CAPACITY;
    if (frame.coding == TERP_CODING_RAW) {
        if (body_nbytes != dst_nbytes)
            return TERP_ERR_CORRUPT;
        memcpy(dst, body, dst_nbytes);
    } else {
        st = terp_cpu_engine.decode(&frame, body, body_nbytes, dst, nthreads);
    }
    if (st == TERP_OK)
        *dst_nbytes_ret = dst_nbytes;
    return st;
}
