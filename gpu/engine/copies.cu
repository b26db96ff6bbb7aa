/* Finds along which dimensions a chunk's values are copies, and codes what is
 * left of it: what codec/compose/copies.c does, in the same order. */
#include "gpu/engine/copies.cuh"

#include <string.h>

#include "codec/format/copies.h"
#include "codec/format/types.h"
#include "codec/model/value.h"
#include "gpu/engine/join.cuh"
#include "gpu/engine/places.cuh"
#include "gpu/predict/repeats.cuh"
#include "gpu/predict/values.cuh"

static const struct terp_cuda_call on_device = {TERP_MEMORY_DEVICE, false, NULL,
                                                0, NULL};

/* A chunk, and the memory in which it is coded again. */
struct job {
    struct terp_cuda_device *device;
    const struct terp_cuda_call *where;
    const struct cuda_call *call;
    uint64_t i;
    const struct terp_chunk *chunk;
    struct terp_chunk left;
    unsigned dims;
    struct cuda_block block;
    uint8_t *memory;
    uint64_t values_at; /* of a chunk on the host */
    uint64_t left_at, stream_at, spread_at, sealed_at, differs_at;
    uint64_t stream_nbytes; /* of what is left; 0: it is the CPU's */
};

static bool
is_on_host(const struct job *job)
{
    return job->where->memory == TERP_MEMORY_HOST;
}

static const void *
values_of(const struct job *job)
{
    return is_on_host(job) ? job->memory + job->values_at
                           : job->call->src[job->i];
}

/* What is left is at most half the chunk. */
static enum terp_status
make_memory(struct job *job)
{
    const uint64_t nbytes = terp_chunk_nbytes(job->chunk);
    uint64_t at = 0;

    job->values_at = place_take(&at, is_on_host(job) ? nbytes : 0);
    job->left_at = place_take(&at, nbytes / 2);
    job->stream_at = place_take(&at, terp_encode_bound(job->chunk));
    job->spread_at = place_take(&at, sizeof(struct cuda_spread));
    job->sealed_at = place_take(&at, sizeof(struct cuda_sealed));
    job->differs_at = place_take(&at, sizeof(unsigned));
    const enum terp_status st = cuda_block_take(job->device, at, &job->block);
    job->memory = job->block.at;
    return st;
}

/* ---- what is left ---- */

static cudaError_t
find_dims(const struct job *job, unsigned *differs, cudaStream_t stream)
{
    unsigned *d_differs = (unsigned *)(job->memory + job->differs_at);
    struct cuda_spread_shape shape = {
        terp_value_nbytes(job->chunk->type), {1, 1, 1, 1}, {0, 0, 0, 0}};
    cudaError_t error = cudaSuccess;

    for (int d = 0; d < job->chunk->rank; d++)
        shape.dims[d] = terp_extent_of(job->chunk, d);
    if (is_on_host(job))
        error = cudaMemcpyAsync(
            job->memory + job->values_at, job->call->src[job->i],
            terp_chunk_nbytes(job->chunk), cudaMemcpyHostToDevice, stream);
    if (error == cudaSuccess)
        error = cudaMemsetAsync(d_differs, 0, sizeof *d_differs, stream);
    if (error == cudaSuccess)
        error = cuda_copies_find(values_of(job), &shape, d_differs, stream);
    return error == cudaSuccess
               ? cudaMemcpyAsync(differs, d_differs, sizeof *differs,
                                 cudaMemcpyDeviceToHost, stream)
               : error;
}

static enum terp_status
find_left(struct job *job)
{
    unsigned differs;
    const enum terp_status st =
        cuda_slot_do(job->device, job->where, "looking for copies",
                     [=, &differs](cudaStream_t stream) {
                         return find_dims(job, &differs, stream);
                     });

    job->dims = 0;
    for (int d = 0; st == TERP_OK && d < job->chunk->rank; d++)
        if (terp_extent_of(job->chunk, d) > 1 && (differs >> d & 1) == 0)
            job->dims |= 1u << d;
    job->left = terp_copies_chunk(job->chunk, job->dims);
    return st;
}

/* The first point along all of some dimensions. */
static enum terp_status
take_left(const struct job *job)
{
    struct cuda_spread_shape shape = {
        terp_value_nbytes(job->chunk->type), {1, 1, 1, 1}, {0, 0, 0, 0}};
    const struct cuda_spread spread = {values_of(job),
                                       job->memory + job->left_at};
    struct cuda_spread *d_spread =
        (struct cuda_spread *)(job->memory + job->spread_at);
    uint64_t stride = 1;

    for (int d = 0, k = 0; d < job->chunk->rank; d++) {
        if ((job->dims >> d & 1) == 0) {
            shape.dims[k] = terp_extent_of(job->chunk, d);
            shape.stride[k++] = stride;
        }
        stride *= terp_extent_of(job->chunk, d);
    }
    return cuda_slot_do(
        job->device, &on_device, "leaving copies out",
        [=, &spread, &shape](cudaStream_t stream) {
            const cudaError_t error =
                cudaMemcpyAsync(d_spread, &spread, sizeof spread,
                                cudaMemcpyHostToDevice, stream);
            return error == cudaSuccess
                       ? cuda_copies_spread(d_spread, 1, &shape, stream)
                       : error;
        });
}

/* It has the bound and the fill values that the whole has. */
static enum terp_status
encode_left(struct job *job, cuda_encode_function *encode)
{
    const struct cuda_found_domain *found = &job->call->found[job->i];
    const uint64_t none =
        terp_slot_of_fill(false, 0, terp_value_nbytes(job->chunk->type));
    struct terp_params own = *job->call->params;
    const void *src = job->memory + job->left_at;
    void *dst = job->memory + job->stream_at;
    struct cuda_call call = {};

    own.bound_mode = TERP_BOUND_ABSOLUTE;
    own.bound = found->bound;
    own.has_fill = found->fills[0] != none;
    own.fill_bits = found->fills[0];
    own.has_missing = found->fills[1] != none;
    own.missing_bits = found->fills[1];
    call.chunk = &job->left;
    call.params = &own;
    call.caller_bound = own.bound;
    call.is_part = true;
    call.nchunks = 1;
    call.src = &src;
    call.dst = &dst;
    call.dst_nbytes = &job->stream_nbytes;
    call.allocator = job->call->allocator;
    return encode(job->device, &on_device, &call);
}

/* ---- the stream ---- */

/* Keeps the stream if it is shorter; what is left may not have become so. */
static cudaError_t
write_stream(const struct job *job, cudaStream_t stream)
{
    const uint8_t *left = job->memory + job->stream_at;
    uint64_t *nbytes = &job->call->dst_nbytes[job->i];
    struct terp_frame frame = {};
    uint8_t head[TERP_FRAME_RAW_MAX_NBYTES + 1 + TERP_PART_NKEPT];

    frame.chunk = *job->chunk;
    frame.coding = TERP_CODING_COPIES;
    uint8_t *at = head + terp_frame_write(&frame, head);
    *at++ = (uint8_t)job->dims;
    if ((uint64_t)(at - head) + job->stream_nbytes >= *nbytes)
        return cudaSuccess;
    cudaError_t error =
        cudaMemcpyAsync(at, left + TERP_FRAME_CODING_AT, TERP_PART_NKEPT,
                        cudaMemcpyDeviceToHost, stream);
    if (error == cudaSuccess)
        error = cudaStreamSynchronize(stream);
    if (error != cudaSuccess || *at == TERP_CODING_RAW)
        return error;
    const uint64_t common = terp_part_common_nbytes(&job->left);
    at += TERP_PART_NKEPT;
    const struct cuda_piece pieces[] = {
        {head, (uint64_t)(at - head)},
        {left + common, job->stream_nbytes - common}};
    *nbytes = pieces[0].nbytes + pieces[1].nbytes;
    return cuda_stream_join(
        job->call->dst[job->i], is_on_host(job), pieces, 2,
        (struct cuda_sealed *)(job->memory + job->sealed_at), stream);
}

enum terp_status
cuda_copies_encode(struct terp_cuda_device *device,
                   const struct terp_cuda_call *where,
                   const struct cuda_call *call, uint64_t i,
                   cuda_encode_function *encode)
{
    struct job job = {};

    job.device = device;
    job.where = where;
    job.call = call;
    job.i = i;
    job.chunk = call->chunk;
    enum terp_status st = make_memory(&job);
    if (st == TERP_OK)
        st = find_left(&job);
    if (st == TERP_OK && job.dims != 0)
        st = take_left(&job);
    if (st == TERP_OK && job.dims != 0)
        st = encode_left(&job, encode);
    if (st != TERP_OK || job.stream_nbytes == 0)
        call->dst_nbytes[i] = 0;
    else
        st = cuda_slot_do(
            device, &on_device, "writing copies",
            [&](cudaStream_t stream) { return write_stream(&job, stream); });
    if (job.memory != NULL)
        cuda_block_give(device, job.block);
    return st == TERP_ERR_MEMORY ? TERP_OK : st;
}
