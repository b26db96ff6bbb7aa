/* Codes batches: chooses the engine, and codes on the CPU the chunks that the
 * device has left, or the whole batch. */
#include <stdatomic.h>
#include <stdlib.h>

#include "codec/api/calls.h"
#include "codec/api/memory.h"
#include "codec/api/run.h"
#include "codec/compose/stream.h"
#include "codec/format/base.h"
#include "codec/format/types.h"
#include "codec/model/bound.h"
#include "codec/model/coarse.h"

/* Returns the device if it should do this call, else NULL with the status in
 * *st_ret and the reason in the run's result. `params` are an encoder's; NULL:
 * the call decodes, or only copies bytes. */
static const struct terp_device *
choose_device(struct terp_run *run, const struct terp_params *params,
              const struct terp_chunk *chunk, uint64_t nchunks, bool is_coarse,
              enum terp_status *st_ret)
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
    if (is_coarse && on_host && run->engine == TERP_ENGINE_AUTO) {
        run->result.reason = "the CPU decodes no more than it has to";
        return NULL;
    }
    if (params != NULL && terp_is_the_cpus(chunk->type, params) && on_host) {
        run->result.reason = "a PSNR above 640 dB is encoded on the CPU";
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

/* Records the result of the device's call. Returns whether the batch is done or
 * the CPU can do the rest. If chunks are in device memory, the CPU can only do
 * so while the device still works, because chunks must be copied to the host.
 */
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

/* Copies one block from `src` to `dst`, one of which is in device memory. */
static enum terp_status
copy(const struct terp_run *run, const void *src, void *dst, uint64_t nbytes)
{
    struct terp_run branch;

    terp_run_branch(run, &branch);
    return terp_memory_copy(&branch, 1, &dst, &src, &nbytes);
}

/* ---- a batch, in either direction ---- */

struct batch {
    const struct terp_run *run;
    const struct terp_chunk *chunk;
    bool encodes; /* or decodes */
    const void *const *src;
    void *const *dst;
    /* encode; NULL: the batch is decoded */
    const struct terp_params *params;
    struct terp_params own; /* a copy of the checked params */
    /* the params without limits, if checks_limits */
    struct terp_params of_device;
    /* the CPU checks the limits of streams that the device has encoded */
    bool checks_limits;
    uint64_t *dst_nbytes; /* 0: left to the CPU */
    atomic_int failed;    /* the status of a chunk that failed, or TERP_OK */
    /* decode */
    const uint64_t *src_nbytes;
    /* of the only stream, if it has been read; else NULL */
    const struct terp_read_frame *frame;
    uint64_t step;            /* in each dimension; 1: all values */
    enum terp_status *status; /* TERP_ERR_DEVICE: left to the CPU */
};

static bool
is_left(const struct batch *batch, uint64_t i)
{
    return batch->encodes ? batch->dst_nbytes[i] == 0
                          : batch->status[i] == TERP_ERR_DEVICE;
}

/* Codes chunk i in host memory. `src_nbytes` is the size of its stream, when
 * decoding. If the device has encoded the chunk already, makes the stream keep
 * the limits. */
static enum terp_status
code_chunk(const struct batch *batch, uint64_t i, const void *src,
           uint64_t src_nbytes, void *dst, const struct terp_cpu_call *call)
{
    struct terp_open_stream stream;

    if (batch->encodes && !is_left(batch, i))
        return terp_stream_keep_limits(call, batch->params, batch->chunk, src,
                                       dst, &batch->dst_nbytes[i]);
    if (batch->encodes)
        return terp_stream_encode(call, batch->params, batch->chunk, src, dst,
                                  &batch->dst_nbytes[i]);
    enum terp_status st =
        batch->frame != NULL
            ? terp_stream_open_behind(batch->frame, src, src_nbytes,
                                      batch->step, &stream)
            : terp_stream_open(src, src_nbytes, batch->step, &stream);
    if (st == TERP_OK &&
        !terp_chunks_are_alike(&stream.frame.chunk, batch->chunk))
        st = TERP_ERR_ARGUMENT;
    return st == TERP_OK ? terp_stream_decode(call, &stream, batch->step, dst)
                         : st;
}

/* Copies the needed bytes of stream i from the device to `src`, and sets
 * *nbytes to their number: with a step, a prefix of the stream may suffice. */
static enum terp_status
fetch_stream(const struct batch *batch, uint64_t i, uint8_t *src,
             uint64_t *nbytes)
{
    const uint8_t *from = batch->src[i];
    const uint64_t head_nbytes = min_u64(*nbytes, TERP_STREAM_HEAD_NBYTES);
    uint64_t needed_nbytes = UINT64_MAX;
    enum terp_status st = copy(batch->run, from, src, head_nbytes);

    if (st != TERP_OK)
        return st;
    (void)terp_coarse_nbytes(src, head_nbytes, batch->step, &needed_nbytes);
    *nbytes = min_u64(*nbytes, needed_nbytes);
    return *nbytes <= head_nbytes
               ? TERP_OK
               : copy(batch->run, from + head_nbytes, src + head_nbytes,
                      *nbytes - head_nbytes);
}

/* Codes chunk i on the CPU if values and stream are in device memory: copies
 * the input to the host and the output back. */
static enum terp_status
code_on_host(const struct batch *batch, uint64_t i,
             const struct terp_cpu_call *call)
{
    const bool encode = batch->encodes;
    const struct terp_chunk wanted =
        terp_coarse_chunk_of(batch->chunk, batch->step);
    uint64_t chunk_nbytes = terp_chunk_nbytes(&wanted);
    uint64_t src_nbytes = encode ? chunk_nbytes : batch->src_nbytes[i];
    void *src = terp_allocate(call->allocator, src_nbytes);
    void *dst =
        terp_allocate(call->allocator,
                      encode ? terp_encode_bound(batch->chunk) : chunk_nbytes);
    enum terp_status st = TERP_ERR_MEMORY;

    if (src != NULL && dst != NULL)
        st = batch->step > 1 ? fetch_stream(batch, i, src, &src_nbytes)
                             : copy(batch->run, batch->src[i], src, src_nbytes);
    if (st == TERP_OK)
        st = code_chunk(batch, i, src, src_nbytes, dst, call);
    if (st == TERP_OK)
        st = copy(batch->run, dst, batch->dst[i],
                  encode ? batch->dst_nbytes[i] : chunk_nbytes);
    terp_release(call->allocator, src);
    terp_release(call->allocator, dst);
    return st;
}

static void
code_chunks(void *arg, struct terp_cpu_batch_part part)
{
    struct batch *batch = arg;
    const struct terp_cpu_call call = {batch->run->cpu.engine, part.nthreads,
                                       batch->run->cpu.allocator};

    for (uint64_t i = part.first; i < part.end; i++) {
        if (!batch->checks_limits && !is_left(batch, i))
            continue;
        enum terp_status st =
            batch->run->call.memory == TERP_MEMORY_DEVICE
                ? code_on_host(batch, i, &call)
                : code_chunk(batch, i, batch->src[i],
                             batch->src_nbytes == NULL ? 0
                                                       : batch->src_nbytes[i],
                             batch->dst[i], &call);
        st = terp_budget_status(batch->run->budget, st);
        if (!batch->encodes)
            batch->status[i] = st;
        else if (st != TERP_OK)
            atomic_store(&batch->failed, (int)st);
    }
}

/* The parameters for the device. For chunks in host memory they have no limits,
 * because the CPU checks the limits. */
static const struct terp_params *
params_of_device(struct batch *batch)
{
    if (batch->params == NULL || batch->run->call.memory != TERP_MEMORY_HOST ||
        !terp_params_have_limits(batch->chunk->type, batch->params))
        return batch->params;
    batch->checks_limits = true;
    const struct terp_params known =
        terp_params_of_type(batch->chunk->type, batch->params);
    batch->of_device = terp_params_without_limits(&known);
    return &batch->of_device;
}

/* Codes the batch on the device, on the CPU, or on both. If the result is an
 * error, nothing was coded, or, when encoding, not all chunks. */
static enum terp_status
code_batch(struct terp_run *run, struct batch *batch, uint64_t nchunks)
{
    const bool encode = batch->encodes;
    const struct terp_chunk *chunk = batch->chunk;
    enum terp_status st = TERP_OK;
    uint64_t nleft = 0;

    run->result = (struct terp_run_result){.used = TERP_ENGINE_CPU};
    if (terp_chunk_nbytes(chunk) == 0) {
        run->result.reason = "terp_chunk: the type, rank or dims are not valid";
        return TERP_ERR_ARGUMENT;
    }
    if (!terp_step_is_valid(batch->step)) {
        run->result.reason = "the step must be a power of two, at least 1";
        return TERP_ERR_ARGUMENT;
    }
    if (encode && chunk->type != TERP_BYTES) {
        st = terp_do_check_params(batch->params, &run->result.reason);
        if (st == TERP_OK && terp_params_copy(batch->params, &batch->own))
            batch->params = &batch->own;
    }
    if (st == TERP_OK)
        st = terp_budget_check(terp_chunk_nbytes(chunk));
    if (st != TERP_OK || nchunks == 0)
        return st;
    const struct terp_params *params = params_of_device(batch);
    const struct terp_device *device =
        choose_device(run, chunk->type == TERP_BYTES ? NULL : params, chunk,
                      nchunks, batch->step > 1, &st);
    run->call.step = batch->step;
    if (device != NULL && encode)
        st = device->engine->encode(device->opened, &run->call, params, chunk,
                                    nchunks, batch->src, batch->dst,
                                    batch->dst_nbytes);
    else if (device != NULL)
        st = device->engine->decode(device->opened, &run->call, chunk, nchunks,
                                    batch->src, batch->src_nbytes, batch->dst,
                                    batch->status);
    if (!note_call(run, device, st))
        return st;
    for (uint64_t i = 0; i < nchunks; i++) {
        if (st != TERP_OK && encode)
            batch->dst_nbytes[i] = 0;
        else if (st != TERP_OK)
            batch->status[i] = TERP_ERR_DEVICE;
        nleft += is_left(batch, i);
    }
    if (nleft > 0 || batch->checks_limits)
        terp_run_share(run, code_chunks, batch, nchunks);
    return (enum terp_status)batch->failed;
}

enum terp_status
terp_do_run_encode(struct terp_run *run, const struct terp_params *params,
                   const struct terp_chunk *chunk, uint64_t nchunks,
                   const void *const *src, void *const *dst,
                   uint64_t *dst_nbytes_ret)
{
    struct batch batch = {.run = run,
                          .chunk = chunk,
                          .src = src,
                          .dst = dst,
                          .encodes = true,
                          .params = params,
                          .dst_nbytes = dst_nbytes_ret,
                          .failed = TERP_OK,
                          .step = 1};

    return code_batch(run, &batch, nchunks);
}

enum terp_status
terp_do_run_decode(struct terp_run *run, const struct terp_chunk *chunk,
                   const struct terp_read_frame *frame, uint64_t step,
                   uint64_t nchunks, const void *const *src,
                   const uint64_t *src_nbytes, void *const *dst,
                   enum terp_status *status_ret)
{
    struct batch batch = {.run = run,
                          .chunk = chunk,
                          .src = src,
                          .dst = dst,
                          .src_nbytes = src_nbytes,
                          .frame = frame,
                          .step = step,
                          .status = status_ret};
    enum terp_status st = code_batch(run, &batch, nchunks);

    for (uint64_t i = 0; st != TERP_OK && i < nchunks; i++)
        status_ret[i] = st;
    for (uint64_t i = 0; st == TERP_OK && i < nchunks; i++)
        st = status_ret[i];
    return st;
}
