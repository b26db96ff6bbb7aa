/* The CUDA engine's table of functions. */
#include "codec/compose/bounds.h"
#include "codec/compose/streams.h"
#include "codec/engine.h"
#include "codec/format/types.h"

#include "gpu/engine/again.cuh"
#include "gpu/engine/array.cuh"
#include "gpu/engine/parts.cuh"
#include "gpu/engine/psnr.cuh"
#include "gpu/engine/session.cuh"
#include "gpu/engine/within.cuh"

/* 1: codec/compose decides what streams are made of (doc/design/composition.md,
 * step 3); 0: this engine does. */
#ifndef CUDA_COMPOSES_ABOVE
#define CUDA_COMPOSES_ABOVE 1
#endif

/* Ends a session whose work has ended so. A failure that the composition has
 * taken for a lack of memory is the call's. */
static enum terp_status
end_session(struct terp_session *session, enum terp_status st)
{
    const enum terp_status failure = session->failure;

    cuda_engine_table.close(session);
    return failure != TERP_OK ? failure : st;
}

/* Encodes by the composition of both engines. */
static enum terp_status
encode_composed(struct terp_cuda_device *device,
                const struct terp_cuda_call *where,
                const struct terp_params *params,
                const struct terp_chunk *chunk, uint64_t nchunks,
                const void *const *src, void *const *dst,
                uint64_t *dst_nbytes_ret)
{
    const struct terp_coder coder = {&cuda_engine_table,
                                     cuda_session_open(device, where)};
    struct terp_batch batch = {};
    enum terp_status st = TERP_ERR_MEMORY;

    batch.source.chunk = chunk;
    batch.source.params = params;
    batch.source.n = nchunks;
    batch.source.src = src;
    batch.dst = dst;
    batch.nbytes = dst_nbytes_ret;
    if (coder.session != NULL)
        st = end_session(coder.session, terp_bounded_encode(&coder, &batch));
    for (uint64_t i = 0; i < nchunks; i++)
        if (terp_is_left(&batch, i))
            dst_nbytes_ret[i] = 0;
    return st;
}

static enum terp_status
encode(struct terp_cuda_device *device, const struct terp_cuda_call *where,
       const struct terp_params *params, const struct terp_chunk *chunk,
       uint64_t nchunks, const void *const *src, void *const *dst,
       uint64_t *dst_nbytes_ret)
{
    struct cuda_call call = {};
    struct terp_params known, carried;

    for (uint64_t i = 0; i < nchunks; i++)
        dst_nbytes_ret[i] = 0;
    if (terp_is_the_cpus(chunk->type, params))
        return TERP_OK;
    known = terp_params_of_type(chunk->type, params);
    if (CUDA_COMPOSES_ABOVE)
        return encode_composed(device, where, &known, chunk, nchunks, src, dst,
                               dst_nbytes_ret);
    if (terp_type_nparts(chunk->type) > 1)
        return cuda_parts_encode(device, where, &known, chunk, nchunks, src,
                                 dst, dst_nbytes_ret);
    call.chunk = chunk;
    call.params = &carried;
    call.caller_bound = known.bound;
    carried = terp_type_is_half(chunk->type)
                  ? terp_params_of_halves(chunk->type, &known)
                  : known;
    call.nchunks = nchunks;
    call.src = src;
    call.dst = dst;
    call.dst_nbytes = dst_nbytes_ret;
    call.allocator = where->allocator;
    return known.bound_mode == TERP_BOUND_PSNR
               ? cuda_psnr_encode(device, where, &call)
               : cuda_encode(device, where, &call);
}

/* Decodes by the composition of both engines. */
static enum terp_status
decode_composed(struct terp_cuda_device *device,
                const struct terp_cuda_call *where,
                const struct terp_chunk *chunk, uint64_t nchunks,
                const void *const *src, const uint64_t *src_nbytes,
                void *const *dst, enum terp_status *status_ret)
{
    const struct terp_coder coder = {&cuda_engine_table,
                                     cuda_session_open(device, where)};
    const uint64_t step = where->step > 1 ? where->step : 1;

    return coder.session == NULL
               ? TERP_ERR_MEMORY
               : end_session(coder.session,
                             terp_streams_decode(&coder, chunk, step, nchunks,
                                                 src, src_nbytes, dst,
                                                 status_ret));
}

static enum terp_status
decode(struct terp_cuda_device *device, const struct terp_cuda_call *where,
       const struct terp_chunk *chunk, uint64_t nchunks, const void *const *src,
       const uint64_t *src_nbytes, void *const *dst,
       enum terp_status *status_ret)
{
    struct cuda_call call = {};

    for (uint64_t i = 0; i < nchunks; i++)
        status_ret[i] = TERP_ERR_DEVICE;
    if (chunk->type == TERP_BYTES)
        return TERP_OK;
    if (CUDA_COMPOSES_ABOVE)
        return decode_composed(device, where, chunk, nchunks, src, src_nbytes,
                               dst, status_ret);
    if (terp_type_nparts(chunk->type) > 1)
        return cuda_parts_decode(device, where, chunk, nchunks, src, src_nbytes,
                                 dst, status_ret);
    call.chunk = chunk;
    call.nchunks = nchunks;
    call.src = src;
    call.src_nbytes = src_nbytes;
    call.dst = dst;
    call.status = status_ret;
    call.step = where->step;
    return cuda_decode_all(device, where, &call);
}

static void
trim(struct terp_cuda_device *device)
{
    cuda_device_do(device, [=](const struct cuda_visit &) {
        cuda_device_trim(device);
        return TERP_OK;
    });
}

static bool
is_lost(const struct terp_cuda_device *device)
{
    return device->is_lost;
}

static const struct terp_cuda_engine engine = {cuda_device_open,
                                               trim,
                                               cuda_device_close,
                                               is_lost,
                                               encode,
                                               decode,
                                               cuda_array_has,
                                               cuda_array_allocate,
                                               cuda_array_release,
                                               cuda_array_copy,
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
