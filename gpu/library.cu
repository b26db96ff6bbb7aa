/* The shared object libterp_cuda.so links codec/compose and the CUDA engine. It
 * codes batches of complete streams, so the codec, which opens it at run time,
 * needs only the few functions of struct terp_cuda_engine. */
#include "codec/compose/bounds.h"
#include "codec/compose/streams.h"
#include "codec/format/types.h"
#include "gpu/engine/array.cuh"
#include "gpu/engine/engine.cuh"
#include "gpu/engine/pieces.cuh"
#include "gpu/engine/pinned.cuh"
#include "gpu/engine/session.cuh"

/* Encodes a batch. codec/compose decides what each stream consists of. */
static enum terp_status
encode(struct terp_cuda_device *device, const struct terp_cuda_call *where,
       const struct terp_params *params, const struct terp_chunk *chunk,
       uint64_t nchunks, const void *const *src, void *const *dst,
       uint64_t *dst_nbytes_ret)
{
    struct terp_batch batch = {};

    for (uint64_t i = 0; i < nchunks; i++)
        dst_nbytes_ret[i] = 0;
    if (terp_is_the_cpus(chunk->type, params))
        return TERP_OK;
    const struct terp_params known = terp_params_of_type(chunk->type, params);
    struct terp_coder coder = {&cuda_engine_table, NULL};
    enum terp_status st = cuda_session_open(device, where, &coder.session);
    if (st != TERP_OK)
        return st;
    batch.source.chunk = chunk;
    batch.source.params = &known;
    batch.source.n = nchunks;
    batch.source.src = src;
    batch.dst = dst;
    batch.nbytes = dst_nbytes_ret;
    st = cuda_session_close(coder.session, terp_bounded_encode(&coder, &batch));
    for (uint64_t i = 0; i < nchunks; i++)
        if (terp_is_left(&batch, i))
            dst_nbytes_ret[i] = 0;
    return st;
}

static enum terp_status
decode(struct terp_cuda_device *device, const struct terp_cuda_call *where,
       const struct terp_chunk *chunk, uint64_t nchunks, const void *const *src,
       const uint64_t *src_nbytes, void *const *dst,
       enum terp_status *status_ret)
{
    const uint64_t step = where->step > 1 ? where->step : 1;

    for (uint64_t i = 0; i < nchunks; i++)
        status_ret[i] = TERP_ERR_DEVICE;
    if (chunk->type == TERP_BYTES)
        return TERP_OK;
    struct terp_coder coder = {&cuda_engine_table, NULL};
    const enum terp_status st =
        cuda_session_open(device, where, &coder.session);
    return st != TERP_OK
               ? st
               : cuda_session_close(
                     coder.session,
                     terp_streams_decode(&coder, chunk, step, nchunks, src,
                                         src_nbytes, dst, status_ret));
}

static void
trim(struct terp_cuda_device *device)
{
    cuda_device_do(device, [=](const struct cuda_visit &) {
        cuda_device_trim(device);
        return TERP_OK;
    });
    cuda_pinned_trim(device);
}

static void
close(struct terp_cuda_device *device)
{
    if (device != NULL)
        cuda_pinned_trim(device);
    cuda_device_close(device);
}

static bool
is_lost(const struct terp_cuda_device *device)
{
    return device->is_lost;
}

static const struct terp_cuda_engine engine = {cuda_device_open,
                                               trim,
                                               close,
                                               is_lost,
                                               encode,
                                               decode,
                                               cuda_array_has,
                                               cuda_array_allocate,
                                               cuda_array_release,
                                               cuda_pinned_allocate,
                                               cuda_pinned_release,
                                               cuda_pieces_copy_all,
                                               cuda_array_move,
                                               cuda_reason};

#define EXPORT __attribute__((visibility("default")))

extern "C" EXPORT enum terp_status
terp_cuda_open(unsigned abi, const struct terp_cuda_engine **engine_ret)
{
    if (abi != TERP_CUDA_ABI)
        return TERP_ERR_ARGUMENT;
    *engine_ret = &engine;
    return TERP_OK;
}
