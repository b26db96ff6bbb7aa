/* Entry points: checks, choice of the engine, frame, and the stored form of
 * what the CPU engine cannot compress. */
#include "codec/api/terp.h"

#include <stdatomic.h>

#include "codec/api/loader.h"
#include "codec/api/memory.h"
#include "codec/engine.h"
#include "codec/format/base.h"

/* ---- one stream on the CPU ---- */

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
check_encode(const struct terp_params *params, const struct terp_chunk *chunk,
             int nthreads)
{
    if (terp_chunk_nbytes(chunk) == 0 || nthreads < 1)
        return TERP_ERR_ARGUMENT;
    return chunk->type == TERP_BYTES || is_bound(params->bound)
               ? TERP_OK
               : TERP_ERR_BOUND;
}

/* Arguments were checked, and `dst` is large enough. */
static enum terp_status
encode_stream(const struct terp_params *params, const struct terp_chunk *chunk,
              const void *src, uint8_t *dst, uint64_t *dst_nbytes_ret,
              int nthreads)
{
    enum terp_status st = TERP_ERR_CAPACITY;

    if (chunk->type != TERP_BYTES)
        st = terp_cpu_encode(params, chunk, src, dst, dst_nbytes_ret, nthreads);
    if (st != TERP_ERR_CAPACITY)
        return st;
    store_raw(chunk, src, terp_chunk_nbytes(chunk), dst, dst_nbytes_ret);
    return TERP_OK;
}

/* The frame of an intact stream, and its body. */
static enum terp_status
open_stream(const uint8_t *src, uint64_t src_nbytes, struct terp_frame *frame,
            const uint8_t **body_ret, uint64_t *body_nbytes_ret)
{
    int frame_nbytes;
    enum terp_status st =
        terp_frame_read(src, src_nbytes, frame, &frame_nbytes);

    if (st == TERP_OK)
        st = terp_frame_verify(src, src_nbytes);
    if (st != TERP_OK)
        return st;
    *body_ret = src + frame_nbytes;
    *body_nbytes_ret = src_nbytes - (uint64_t)frame_nbytes;
    return TERP_OK;
}

static enum terp_status
decode_body(const struct terp_frame *frame, const uint8_t *body,
            uint64_t body_nbytes, void *dst, int nthreads)
{
    uint64_t dst_nbytes = terp_chunk_nbytes(&frame->chunk);

    if (frame->coding != TERP_CODING_RAW)
        return terp_cpu_decode(frame, body, body_nbytes, dst, nthreads);
    if (body_nbytes != dst_nbytes)
        return TERP_ERR_CORRUPT;
    memcpy(dst, body, dst_nbytes);
    return TERP_OK;
}

enum terp_status
terp_encode(const struct terp_params *params, const struct terp_chunk *chunk,
            const void *src, void *dst, uint64_t dst_cap_nbytes,
            uint64_t *dst_nbytes_ret, int nthreads)
{
    enum terp_status st = check_encode(params, chunk, nthreads);

    if (st != TERP_ERR_ARGUMENT && dst_cap_nbytes < terp_encode_bound(chunk))
        return TERP_ERR_CAPACITY;
    return st != TERP_OK ? st
                         : encode_stream(params, chunk, src, dst,
                                         dst_nbytes_ret, nthreads);
}

enum terp_status
terp_decoded_chunk(const void *src, uint64_t src_nbytes,
                   struct terp_chunk *chunk_ret)
{
    struct terp_frame frame;
    int frame_nbytes;
    enum terp_status st =
        terp_frame_read(src, src_nbytes, &frame, &frame_nbytes);

    if (st == TERP_OK)
        *chunk_ret = frame.chunk;
    return st;
}

enum terp_status
terp_decoded_nbytes(const void *src, uint64_t src_nbytes, uint64_t *nbytes_ret)
{
    struct terp_chunk chunk;
    enum terp_status st = terp_decoded_chunk(src, src_nbytes, &chunk);

    if (st == TERP_OK)
        *nbytes_ret = terp_chunk_nbytes(&chunk);
    return st;
}

enum terp_status
terp_decode(const void *src, uint64_t src_nbytes, void *dst,
            uint64_t dst_cap_nbytes, uint64_t *dst_nbytes_ret, int nthreads)
{
    struct terp_frame frame;
    const uint8_t *body;
    uint64_t body_nbytes;

    if (nthreads < 1)
        return TERP_ERR_ARGUMENT;
    enum terp_status st =
        open_stream(src, src_nbytes, &frame, &body, &body_nbytes);
    if (st != TERP_OK)
        return st;
    uint64_t dst_nbytes = terp_chunk_nbytes(&frame.chunk);
    if (dst_nbytes > dst_cap_nbytes)
        return TERP_ERR_CAPACITY;
    st = decode_body(&frame, body, body_nbytes, dst, nthreads);
    if (st == TERP_OK)
        *dst_nbytes_ret = dst_nbytes;
    return st;
}

/* ---- batches ---- */

struct encode_batch {
    const struct terp_params *params;
    const struct terp_chunk *chunk;
    const void *const *src;
    void *const *dst;
    uint64_t *dst_nbytes;
    atomic_int status; /* of a chunk that failed, or TERP_OK */
};

static void
encode_chunks(void *arg, uint64_t first, uint64_t end, int nthreads)
{
    struct encode_batch *batch = arg;

    for (uint64_t i = first; i < end; i++) {
        enum terp_status st =
            encode_stream(batch->params, batch->chunk, batch->src[i],
                          batch->dst[i], &batch->dst_nbytes[i], nthreads);
        if (st != TERP_OK)
            atomic_store(&batch->status, (int)st);
    }
}

struct decode_batch {
    const struct terp_chunk *chunk;
    const void *const *src;
    const uint64_t *src_nbytes;
    void *const *dst;
    enum terp_status *status;
};

static bool
chunks_are_alike(const struct terp_chunk *a, const struct terp_chunk *b)
{
    bool alike = a->type == b->type && a->big_endian == b->big_endian &&
                 a->stack == b->stack && a->rank == b->rank;

    for (int i = 0; alike && i < a->rank; i++)
        alike = a->dims[i] == b->dims[i];
    return alike;
}

static void
decode_chunks(void *arg, uint64_t first, uint64_t end, int nthreads)
{
    struct decode_batch *batch = arg;
    struct terp_frame frame;
    const uint8_t *body;
    uint64_t body_nbytes;

    for (uint64_t i = first; i < end; i++) {
        enum terp_status st = open_stream(batch->src[i], batch->src_nbytes[i],
                                          &frame, &body, &body_nbytes);
        if (st == TERP_OK && !chunks_are_alike(&frame.chunk, batch->chunk))
            st = TERP_ERR_ARGUMENT;
        if (st == TERP_OK)
            st =
                decode_body(&frame, body, body_nbytes, batch->dst[i], nthreads);
        batch->status[i] = st;
    }
}

/* The device's engine, where it should do this call. */
static const struct terp_cuda_engine *
choose_device(struct terp_run *run, const struct terp_chunk *chunk,
              uint64_t nchunks)
{
    uint64_t nbytes = UINT64_MAX;

    if (run->engine == TERP_ENGINE_CPU)
        return NULL;
    if (chunk->type == TERP_BYTES && run->memory == TERP_MEMORY_HOST) {
        run->reason = "bytes are only copied";
        return NULL;
    }
    if (run->engine == TERP_ENGINE_AUTO && run->memory == TERP_MEMORY_HOST) {
        mul_fits(terp_chunk_nbytes(chunk), nchunks, &nbytes);
        run->reason = terp_cuda_decline(nbytes);
        if (run->reason != NULL)
            return NULL;
    }
    return terp_cuda_get(&run->reason);
}

/* Notes how the call ran, and whether the CPU has to do it. */
static bool
device_did(struct terp_run *run, const struct terp_cuda_engine *device,
           enum terp_status st)
{
    if (st != TERP_ERR_DEVICE) {
        run->used = TERP_ENGINE_CUDA;
        run->device = device->device;
        return true;
    }
    run->reason = terp_cuda_fail(device->reason());
    return false;
}

enum terp_status
terp_encode_batch(struct terp_run *run, const struct terp_params *params,
                  const struct terp_chunk *chunk, uint64_t nchunks,
                  const void *const *src, void *const *dst,
                  uint64_t *dst_nbytes_ret)
{
    struct encode_batch batch = {params, chunk,          src,
                                 dst,    dst_nbytes_ret, TERP_OK};
    enum terp_status st = terp_run_begin(run);

    if (st == TERP_OK)
        st = check_encode(params, chunk, run->nthreads);
    if (st != TERP_OK || nchunks == 0)
        return st;
    const struct terp_cuda_engine *device = choose_device(run, chunk, nchunks);
    if (device != NULL) {
        st = device->encode(params, chunk, run->memory, nchunks, src, dst,
                            dst_nbytes_ret);
        if (device_did(run, device, st))
            return st;
    }
    if (run->memory == TERP_MEMORY_DEVICE)
        return TERP_ERR_DEVICE;
    terp_cpu_batch(encode_chunks, &batch, nchunks, run->nthreads);
    return (enum terp_status)batch.status;
}

static enum terp_status
decode_on_device(struct terp_run *run, struct decode_batch *batch,
                 uint64_t nchunks)
{
    const struct terp_cuda_engine *device =
        choose_device(run, batch->chunk, nchunks);

    if (device == NULL)
        return TERP_ERR_DEVICE;
    enum terp_status st =
        device->decode(batch->chunk, run->memory, nchunks, batch->src,
                       batch->src_nbytes, batch->dst, batch->status);
    return device_did(run, device, st) ? st : TERP_ERR_DEVICE;
}

enum terp_status
terp_decode_batch(struct terp_run *run, const struct terp_chunk *chunk,
                  uint64_t nchunks, const void *const *src,
                  const uint64_t *src_nbytes, void *const *dst,
                  enum terp_status *status_ret)
{
    struct decode_batch batch = {chunk, src, src_nbytes, dst, status_ret};
    enum terp_status st = terp_run_begin(run);

    if (terp_chunk_nbytes(chunk) == 0)
        st = TERP_ERR_ARGUMENT;
    if (st == TERP_OK && nchunks > 0)
        st = decode_on_device(run, &batch, nchunks);
    if (st == TERP_ERR_DEVICE && run->memory == TERP_MEMORY_HOST) {
        terp_cpu_batch(decode_chunks, &batch, nchunks, run->nthreads);
        st = TERP_OK;
    }
    for (uint64_t i = 0; st != TERP_OK && i < nchunks; i++)
        status_ret[i] = st;
    for (uint64_t i = 0; st == TERP_OK && i < nchunks; i++)
        st = status_ret[i];
    return st;
}
