/* Batches: the choice of the engine, and what it leaves to the CPU, which may
 * be single chunks, or the whole call. */
#include <stdatomic.h>
#include <stdlib.h>

#include "codec/api/memory.h"
#include "codec/api/run.h"
#include "codec/api/stream.h"
#include "codec/format/base.h"

/* The device, where it should do this call. */
static const struct terp_device *
choose_device(struct terp_run *run, const struct terp_chunk *chunk,
              uint64_t nchunks, enum terp_status *st_ret)
{
    bool on_host = run->call.memory == TERP_MEMORY_HOST;
    uint64_t nbytes = UINT64_MAX;

    *st_ret = TERP_ERR_DEVICE;
    if (run->engine == TERP_ENGINE_CPU)
        return NULL;
    if (chunk->type == TERP_BYTES && on_host) {
        run->result.reason = "bytes are only copied";
        return NULL;
    }
    if (run->engine == TERP_ENGINE_AUTO && on_host) {
        mul_fits(terp_chunk_nbytes(chunk), nchunks, &nbytes);
        run->result.reason = terp_context_decline(run->context, nbytes);
        if (run->result.reason != NULL)
            return NULL;
    }
    return terp_run_device(run, st_ret);
}

/* Notes how the device's call ended. Returns whether it was done, or the CPU
 * can do it: chunks that are on the device need it to come to the host. */
static bool
note_call(struct terp_run *run, const struct terp_device *device,
          enum terp_status st)
{
    if (device == NULL)
        return run->call.memory == TERP_MEMORY_HOST;
    if (st == TERP_OK) {
        run->result.used = TERP_ENGINE_CUDA;
        run->result.device = device->name;
        return true;
    }
    return terp_run_note(run, device, st) != TERP_ERR_ARGUMENT &&
           (run->call.memory == TERP_MEMORY_HOST ||
            !device->engine->is_lost(device->opened));
}

/* One part from `src` to `dst`, of which one is on the device. */
static enum terp_status
copy(const struct terp_run *run, const void *src, void *dst, uint64_t nbytes)
{
    struct terp_run part = *run; /* a thread's own */

    return terp_memory_copy(&part, 1, &dst, &src, &nbytes);
}

/* ---- encoding ---- */

struct encode_batch {
    const struct terp_run *run;
    const struct terp_params *params;
    const struct terp_chunk *chunk;
    const void *const *src;
    void *const *dst;
    uint64_t *dst_nbytes; /* 0: left to the CPU */
    atomic_int status;    /* of a chunk that failed, or TERP_OK */
};

/* By way of host memory. */
static enum terp_status
encode_from_device(const struct encode_batch *batch, uint64_t i,
                   const struct terp_cpu_call *call)
{
    const struct terp_run *run = batch->run;
    uint64_t chunk_nbytes = terp_chunk_nbytes(batch->chunk);
    uint64_t cap_nbytes = terp_encode_bound(batch->chunk);
    void *src = terp_allocate(call->allocator, chunk_nbytes);
    void *dst = terp_allocate(call->allocator, cap_nbytes);
    enum terp_status st = TERP_ERR_MEMORY;

    if (src != NULL && dst != NULL)
        st = copy(run, batch->src[i], src, chunk_nbytes);
    if (st == TERP_OK)
        st = terp_stream_encode(call, batch->params, batch->chunk, src, dst,
                                &batch->dst_nbytes[i]);
    if (st == TERP_OK)
        st = copy(run, dst, batch->dst[i], batch->dst_nbytes[i]);
    terp_release(call->allocator, src);
    terp_release(call->allocator, dst);
    return st;
}

static void
encode_chunks(void *arg, uint64_t first, uint64_t end, int nthreads)
{
    struct encode_batch *batch = arg;
    const struct terp_cpu_call call = {nthreads, batch->run->cpu.allocator};

    for (uint64_t i = first; i < end; i++) {
        if (batch->dst_nbytes[i] != 0)
            continue;
        enum terp_status st =
            batch->run->call.memory == TERP_MEMORY_DEVICE
                ? encode_from_device(batch, i, &call)
                : terp_stream_encode(&call, batch->params, batch->chunk,
                                     batch->src[i], batch->dst[i],
                                     &batch->dst_nbytes[i]);
        if (st != TERP_OK)
            atomic_store(&batch->status, (int)st);
    }
}

enum terp_status
terp_run_encode(struct terp_run *run, const struct terp_params *params,
                const struct terp_chunk *chunk, uint64_t nchunks,
                const void *const *src, void *const *dst,
                uint64_t *dst_nbytes_ret)
{
    struct encode_batch batch = {run, params,         chunk,  src,
                                 dst, dst_nbytes_ret, TERP_OK};
    uint64_t nleft = nchunks;
    enum terp_status st = TERP_OK;

    run->result = (struct terp_run_result){.used = TERP_ENGINE_CPU};
    if (terp_chunk_nbytes(chunk) == 0) {
        run->result.reason = "terp_chunk is not valid";
        return TERP_ERR_ARGUMENT;
    }
    if (chunk->type != TERP_BYTES)
        st = terp_params_check(params, &run->result.reason);
    if (st != TERP_OK || nchunks == 0)
        return st;
    const struct terp_device *device = choose_device(run, chunk, nchunks, &st);
    if (device != NULL)
        st = device->engine->encode(device->opened, &run->call, params, chunk,
                                    nchunks, src, dst, dst_nbytes_ret);
    if (!note_call(run, device, st))
        return st;
    for (uint64_t i = 0; i < nchunks; i++) {
        if (st != TERP_OK)
            dst_nbytes_ret[i] = 0;
        nleft -= dst_nbytes_ret[i] != 0;
    }
    if (nleft > 0)
        terp_cpu_batch(encode_chunks, &batch, nchunks, run->cpu.nthreads);
    return (enum terp_status)batch.status;
}

/* ---- decoding ---- */

struct decode_batch {
    const struct terp_run *run;
    const struct terp_chunk *chunk;
    const void *const *src;
    const uint64_t *src_nbytes;
    void *const *dst;
    enum terp_status *status; /* TERP_ERR_DEVICE: left to the CPU */
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

static enum terp_status
decode_chunk(const struct decode_batch *batch, const void *src,
             uint64_t src_nbytes, void *dst, const struct terp_cpu_call *call)
{
    struct terp_frame frame;
    const uint8_t *body;
    uint64_t body_nbytes;
    enum terp_status st =
        terp_stream_open(src, src_nbytes, &frame, &body, &body_nbytes);

    if (st == TERP_OK && !chunks_are_alike(&frame.chunk, batch->chunk))
        st = TERP_ERR_ARGUMENT;
    return st == TERP_OK
               ? terp_stream_decode(call, &frame, body, body_nbytes, dst)
               : st;
}

/* By way of host memory. */
static enum terp_status
decode_to_device(const struct decode_batch *batch, uint64_t i,
                 const struct terp_cpu_call *call)
{
    const struct terp_run *run = batch->run;
    uint64_t chunk_nbytes = terp_chunk_nbytes(batch->chunk);
    uint64_t src_nbytes = batch->src_nbytes[i];
    void *src = terp_allocate(call->allocator, src_nbytes);
    void *dst = terp_allocate(call->allocator, chunk_nbytes);
    enum terp_status st = TERP_ERR_MEMORY;

    if (src != NULL && dst != NULL)
        st = copy(run, batch->src[i], src, src_nbytes);
    if (st == TERP_OK)
        st = decode_chunk(batch, src, src_nbytes, dst, call);
    if (st == TERP_OK)
        st = copy(run, dst, batch->dst[i], chunk_nbytes);
    terp_release(call->allocator, src);
    terp_release(call->allocator, dst);
    return st;
}

static void
decode_chunks(void *arg, uint64_t first, uint64_t end, int nthreads)
{
    const struct decode_batch *batch = arg;
    const struct terp_cpu_call call = {nthreads, batch->run->cpu.allocator};

    for (uint64_t i = first; i < end; i++)
        if (batch->status[i] == TERP_ERR_DEVICE)
            batch->status[i] =
                batch->run->call.memory == TERP_MEMORY_DEVICE
                    ? decode_to_device(batch, i, &call)
                    : decode_chunk(batch, batch->src[i], batch->src_nbytes[i],
                                   batch->dst[i], &call);
}

/* All that can be decoded; else what all have for a status. */
static enum terp_status
decode_all(struct terp_run *run, struct decode_batch *batch, uint64_t nchunks)
{
    enum terp_status st;
    uint64_t nleft = 0;

    run->result = (struct terp_run_result){.used = TERP_ENGINE_CPU};
    if (terp_chunk_nbytes(batch->chunk) == 0) {
        run->result.reason = "terp_chunk is not valid";
        return TERP_ERR_ARGUMENT;
    }
    if (nchunks == 0)
        return TERP_OK;
    const struct terp_device *device =
        choose_device(run, batch->chunk, nchunks, &st);
    if (device != NULL)
        st = device->engine->decode(device->opened, &run->call, batch->chunk,
                                    nchunks, batch->src, batch->src_nbytes,
                                    batch->dst, batch->status);
    if (!note_call(run, device, st))
        return st;
    for (uint64_t i = 0; i < nchunks; i++) {
        if (st != TERP_OK)
            batch->status[i] = TERP_ERR_DEVICE;
        nleft += batch->status[i] == TERP_ERR_DEVICE;
    }
    if (nleft > 0)
        terp_cpu_batch(decode_chunks, batch, nchunks, run->cpu.nthreads);
    return TERP_OK;
}

enum terp_status
terp_run_decode(struct terp_run *run, const struct terp_chunk *chunk,
                uint64_t nchunks, const void *const *src,
                const uint64_t *src_nbytes, void *const *dst,
                enum terp_status *status_ret)
{
    struct decode_batch batch = {run, chunk, src, src_nbytes, dst, status_ret};
    enum terp_status st = decode_all(run, &batch, nchunks);

    for (uint64_t i = 0; st != TERP_OK && i < nchunks; i++)
        status_ret[i] = st;
    for (uint64_t i = 0; st == TERP_OK && i < nchunks; i++)
        st = status_ret[i];
    return st;
}

/* ---- the API ---- */

enum terp_status
terp_encode_batch(const struct terp_run_options *options,
                  const struct terp_params *params,
                  const struct terp_chunk *chunk, uint64_t nchunks,
                  const void *const *src, void *const *dst,
                  uint64_t *dst_nbytes_ret, struct terp_run_result *result)
{
    struct terp_run run;
    enum terp_status st = terp_run_begin(options, result, &run);

    if (st == TERP_OK)
        st = terp_run_encode(&run, params, chunk, nchunks, src, dst,
                             dst_nbytes_ret);
    return terp_run_end(&run, st, result);
}

enum terp_status
terp_decode_batch(const struct terp_run_options *options,
                  const struct terp_chunk *chunk, uint64_t nchunks,
                  const void *const *src, const uint64_t *src_nbytes,
                  void *const *dst, enum terp_status *status_ret,
                  struct terp_run_result *result)
{
    struct terp_run run;
    enum terp_status st = terp_run_begin(options, result, &run);

    for (uint64_t i = 0; st != TERP_OK && i < nchunks; i++)
        status_ret[i] = st;
    if (st == TERP_OK)
        st = terp_run_decode(&run, chunk, nchunks, src, src_nbytes, dst,
                             status_ret);
    return terp_run_end(&run, st, result);
}
