/* The CUDA engine. Chunks go through in waves; while one wave's
 * kernels run, a call from host memory uploads the next and downloads the
 * last. doc/design.md, "CUDA engine". */
#include <stdio.h>
#include <stdlib.h>

#include "codec/engine.h"
#include "gpu/engine/array.cuh"
#include "gpu/engine/chunks.cuh"

/* Values of a wave that comes from host memory: enough to hide its launches,
 * few enough for several waves to follow each other. */
#define HOST_WAVE_NBYTES (UINT64_C(32) << 20)

/* Chunks of a wave from device memory: blockIdx.y, and what fits the memory. */
#define MAX_WAVE_NCHUNKS 32768

/* Lanes of one call from host memory: upload, kernels, download. */
#define NSTEPS 3

static thread_local char reason[256];

static void
say(const char *what, cudaError_t error)
{
    snprintf(reason, sizeof reason, "%s: %s", what, cudaGetErrorString(error));
    cudaGetLastError(); /* not for the host to find */
}

/* A call on its way. */
struct job {
    const struct terp_chunk *chunk;
    const struct terp_params *params; /* NULL: decode */
    bool host;
    uint64_t nchunks;
    const void *const *src;
    const uint64_t *src_nbytes; /* decode */
    void *const *dst;
    uint64_t *dst_nbytes;     /* encode */
    enum terp_status *status; /* decode */
    uint64_t wave_nchunks;
};

/* A wave in a lane: chunks [first, first + n) of the job. */
struct flight {
    struct cuda_lane *lane;
    uint64_t first, n;
};

/* ---- sequences of kernels ---- */

typedef cudaError_t
stage_function(const struct cuda_batch *batch, cudaStream_t stream);

/* Where a stage runs: on the lane's stream; or on its other one, from here on
 * beside the stages that follow, up to a stage that joins, or that does so
 * where there may be ratio streams. */
enum {
    SIDE = 1,
    JOIN = 2,
    JOIN_RATIO = 4
};

struct step {
    stage_function *run;
    unsigned where;
};

static const struct step encode_steps[] = {{cuda_swap_src, 0},
                                           {cuda_scan, 0},
                                           {cuda_tune, 0},
                                           {cuda_lorenzo_quantize, SIDE},
                                           {cuda_spline_quantize, 0},
                                           {cuda_specials_write, JOIN | SIDE},
                                           {cuda_escapes_write, SIDE},
                                           {cuda_context_sort, 0},
                                           {cuda_tiles_encode, 0},
                                           {cuda_partitions_encode, JOIN},
                                           {cuda_stream_write, 0},
                                           {cuda_seal, 0},
                                           {NULL, 0}};

/* The stages bear with any bytes: they need not wait for the checksum. */
static const struct step decode_steps[] = {{cuda_verify, SIDE},
                                           {cuda_model_read, 0},
                                           {cuda_specials_mask, SIDE},
                                           {cuda_tile_index_read, 0},
                                           {cuda_tiles_decode, 0},
                                           {cuda_context_restore, JOIN_RATIO},
                                           {cuda_spline_begin, 0},
                                           {cuda_escapes_place, 0},
                                           {cuda_lorenzo_reconstruct, SIDE},
                                           {cuda_spline_reconstruct, 0},
                                           {cuda_specials_read, JOIN},
                                           {cuda_swap_dst, 0},
                                           {NULL, 0}};

static cudaError_t
let_wait(cudaStream_t waiting, cudaEvent_t event, cudaStream_t stream)
{
    cudaError_t error = cudaEventRecord(event, stream);
    return error == cudaSuccess ? cudaStreamWaitEvent(waiting, event, 0)
                                : error;
}

static cudaError_t
enqueue(const struct cuda_lane *lane, enum cuda_direction direction)
{
    bool decode = direction == CUDA_DECODE;
    const struct step *step = decode ? decode_steps : encode_steps;

    cudaError_t error = cuda_chunks_begin(lane, decode);
    for (; error == cudaSuccess && step->run != NULL; step++) {
        bool side = (step->where & SIDE) != 0;
        bool ratio = lane->batch.coding == TERP_CODING_RATIO;
        if (step->where & (ratio ? JOIN | JOIN_RATIO : JOIN))
            error = let_wait(lane->stream, lane->joined, lane->side);
        if (error == cudaSuccess && side)
            error = let_wait(lane->side, lane->forked, lane->stream);
        if (error == cudaSuccess)
            error = step->run(&lane->batch, side ? lane->side : lane->stream);
    }
    return error == cudaSuccess ? cuda_chunks_end(lane, decode) : error;
}

/* A batch that comes twice in a row becomes a graph. */
static cudaError_t
run_sequence(struct cuda_lane *lane, enum cuda_direction direction)
{
    struct cuda_sequence *sequence = &lane->sequence[direction];
    cudaGraph_t graph;

    /* Other padding would only cost a graph. */
    // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison,cert-*)
    int differs = memcmp(&sequence->batch, &lane->batch, sizeof lane->batch);
    bool same = differs == 0 && sequence->seen;
    if (same && sequence->graph != NULL)
        return cudaGraphLaunch(sequence->graph, lane->stream);
    if (sequence->graph != NULL)
        cudaGraphExecDestroy(sequence->graph);
    sequence->graph = NULL;
    sequence->seen = true;
    sequence->batch = lane->batch;
    if (!same)
        return enqueue(lane, direction);

    cudaError_t error =
        cudaStreamBeginCapture(lane->stream, cudaStreamCaptureModeThreadLocal);
    if (error != cudaSuccess)
        return error;
    cudaError_t recorded = enqueue(lane, direction);
    error = cudaStreamEndCapture(lane->stream, &graph);
    if (recorded != cudaSuccess || error != cudaSuccess)
        return recorded != cudaSuccess ? recorded : error;
    error = cudaGraphInstantiate(&sequence->graph, graph, 0);
    cudaGraphDestroy(graph);
    return error == cudaSuccess ? cudaGraphLaunch(sequence->graph, lane->stream)
                                : error;
}

/* ---- chunks that the device leaves to the CPU ---- */

/* By way of host memory where the caller's is the device's. */
static enum terp_status
encode_by_cpu(const struct job *job, uint64_t i)
{
    uint64_t chunk_nbytes = terp_chunk_nbytes(job->chunk);
    uint64_t cap_nbytes = terp_encode_bound(job->chunk);
    enum terp_status st = TERP_ERR_MEMORY;

    if (job->host)
        return terp_encode(job->params, job->chunk, job->src[i], job->dst[i],
                           cap_nbytes, &job->dst_nbytes[i], 1);
    void *src = malloc(chunk_nbytes), *dst = malloc(cap_nbytes);
    if (src != NULL && dst != NULL)
        st = cudaMemcpy(src, job->src[i], chunk_nbytes,
                        cudaMemcpyDeviceToHost) == cudaSuccess
                 ? terp_encode(job->params, job->chunk, src, dst, cap_nbytes,
                               &job->dst_nbytes[i], 1)
                 : TERP_ERR_DEVICE;
    if (st == TERP_OK && cudaMemcpy(job->dst[i], dst, job->dst_nbytes[i],
                                    cudaMemcpyHostToDevice) != cudaSuccess)
        st = TERP_ERR_DEVICE;
    free(src);
    free(dst);
    return st;
}

/* As a batch, so that a stream of another chunk is refused. */
static enum terp_status
decode_on_host(const struct job *job, const void *src, uint64_t src_nbytes,
               void *dst)
{
    struct terp_run run = {};
    enum terp_status st;

    run.engine = TERP_ENGINE_CPU;
    run.memory = TERP_MEMORY_HOST;
    run.nthreads = 1;
    (void)terp_decode_batch(&run, job->chunk, 1, &src, &src_nbytes, &dst, &st);
    return st;
}

/* What the frame and the contents of a stream are, where the device does not
 * look. */
static enum terp_status
decode_by_cpu(const struct job *job, uint64_t i)
{
    uint64_t chunk_nbytes = terp_chunk_nbytes(job->chunk);
    enum terp_status st = TERP_ERR_MEMORY;

    if (job->host)
        return decode_on_host(job, job->src[i], job->src_nbytes[i],
                              job->dst[i]);
    void *src = malloc(job->src_nbytes[i]), *dst = malloc(chunk_nbytes);
    if (src != NULL && dst != NULL)
        st = cudaMemcpy(src, job->src[i], job->src_nbytes[i],
                        cudaMemcpyDeviceToHost) == cudaSuccess
                 ? decode_on_host(job, src, job->src_nbytes[i], dst)
                 : TERP_ERR_DEVICE;
    if (st == TERP_OK && cudaMemcpy(job->dst[i], dst, chunk_nbytes,
                                    cudaMemcpyHostToDevice) != cudaSuccess)
        st = TERP_ERR_DEVICE;
    free(src);
    free(dst);
    return st;
}

/* ---- encoding ---- */

static cudaError_t
start_encode(const struct job *job, const struct flight *flight)
{
    struct cuda_lane *lane = flight->lane;
    uint64_t chunk_nbytes = terp_chunk_nbytes(job->chunk);
    cudaError_t error = cudaSuccess;
    for (uint64_t i = 0; error == cudaSuccess && i < flight->n; i++) {
        struct cuda_chunk *chunk = &lane->batch.h_chunks[i];
        cuda_chunk_ask(chunk);
        chunk->src = job->src[flight->first + i];
        chunk->dst = job->dst[flight->first + i];
        if (job->host) {
            error = cudaMemcpyAsync(lane->d_src + i * lane->src_stride,
                                    chunk->src, chunk_nbytes,
                                    cudaMemcpyHostToDevice, lane->stream);
            chunk->src = lane->d_src + i * lane->src_stride;
            chunk->dst = lane->d_dst + i * lane->dst_stride;
        }
        chunk->original = chunk->src;
    }
    return error == cudaSuccess ? run_sequence(lane, CUDA_ENCODE) : error;
}

/* The checksum of a stream that is too short for cuda_seal. */
static cudaError_t
seal_short(const struct job *job, struct cuda_lane *lane, uint64_t i,
           uint8_t *dst, uint64_t nbytes)
{
    uint8_t *stream = lane->h_short + i * CUDA_SHORT_NBYTES;

    if (job->host) {
        terp_frame_seal(dst, nbytes);
        return cudaSuccess;
    }
    terp_frame_seal(stream, nbytes);
    return cudaMemcpyAsync(dst + TERP_FRAME_CHECKSUM_AT,
                           stream + TERP_FRAME_CHECKSUM_AT, 8,
                           cudaMemcpyHostToDevice, lane->stream);
}

static cudaError_t
finish_encode(const struct job *job, const struct flight *flight,
              enum terp_status *st)
{
    struct cuda_lane *lane = flight->lane;
    cudaError_t error = cudaStreamSynchronize(lane->stream);
    bool is_sealed = false;

    for (uint64_t i = 0; error == cudaSuccess && i < flight->n; i++) {
        const struct cuda_chunk *chunk = &lane->batch.h_chunks[i];
        uint64_t at = flight->first + i;
        job->dst_nbytes[at] = chunk->stream_nbytes;
        if (job->host && chunk->status == TERP_OK)
            error = cudaMemcpyAsync(
                job->dst[at], lane->d_dst + i * lane->dst_stride,
                chunk->stream_nbytes, cudaMemcpyDeviceToHost, lane->stream);
    }
    if (error == cudaSuccess && job->host)
        error = cudaStreamSynchronize(lane->stream);
    for (uint64_t i = 0;
         error == cudaSuccess && *st == TERP_OK && i < flight->n; i++) {
        const struct cuda_chunk *chunk = &lane->batch.h_chunks[i];
        uint64_t at = flight->first + i;
        if (chunk->status != TERP_OK)
            *st = encode_by_cpu(job, at);
        else if (chunk->stream_nbytes <= CUDA_SHORT_NBYTES) {
            error = seal_short(job, lane, i, (uint8_t *)job->dst[at],
                               chunk->stream_nbytes);
            is_sealed = true;
        }
    }
    return error == cudaSuccess && is_sealed
               ? cudaStreamSynchronize(lane->stream)
               : error;
}

/* ---- decoding ---- */

/* A stream that is longer than a stored chunk is none of ours; a stored one in
 * host memory need not be uploaded. */
static bool
is_for_cpu(const struct job *job, uint64_t at)
{
    const uint8_t *src = (const uint8_t *)job->src[at];

    return job->src_nbytes[at] > terp_encode_bound(job->chunk) ||
           (job->host && job->src_nbytes[at] > TERP_FRAME_CODING_AT &&
            src[TERP_FRAME_CODING_AT] == TERP_CODING_RAW);
}

/* Whether a wave's streams may be ratio ones, for which kernels are launched
 * that others do without. In device memory nobody has seen them; they are
 * taken to be like those before. */
static bool
may_have_ratio(const struct job *job, const struct flight *flight)
{
    if (!job->host)
        return flight->lane->saw_ratio;
    for (uint64_t i = 0; i < flight->n; i++) {
        uint64_t at = flight->first + i;
        const uint8_t *src = (const uint8_t *)job->src[at];
        if (job->src_nbytes[at] > TERP_FRAME_CODING_AT &&
            src[TERP_FRAME_CODING_AT] == TERP_CODING_RATIO)
            return true;
    }
    return false;
}

static cudaError_t
start_decode(const struct job *job, const struct flight *flight)
{
    struct cuda_lane *lane = flight->lane;
    cudaError_t error = cudaSuccess;

    for (uint64_t i = 0; error == cudaSuccess && i < flight->n; i++) {
        struct cuda_chunk *chunk = &lane->batch.h_chunks[i];
        uint64_t at = flight->first + i;
        cuda_chunk_ask(chunk);
        chunk->src = job->src[at];
        chunk->src_nbytes = job->src_nbytes[at];
        chunk->dst = job->dst[at];
        if (is_for_cpu(job, at))
            chunk->status = chunk->checksum_status = TERP_ERR_DEVICE;
        if (!job->host)
            continue;
        chunk->src = lane->d_src + i * lane->src_stride;
        chunk->dst = lane->d_dst + i * lane->dst_stride;
        if (chunk->status == TERP_OK)
            error = cudaMemcpyAsync(lane->d_src + i * lane->src_stride,
                                    job->src[at], chunk->src_nbytes,
                                    cudaMemcpyHostToDevice, lane->stream);
    }
    return error == cudaSuccess ? run_sequence(lane, CUDA_DECODE) : error;
}

/* A chunk's status; of a short stream the checksum has not been verified. */
static enum terp_status
decoded_status(const struct job *job, const struct cuda_lane *lane,
               const struct flight *flight, uint64_t i)
{
    enum terp_status st = lane->batch.h_chunks[i].status;
    uint64_t nbytes = job->src_nbytes[flight->first + i];

    if (st != TERP_ERR_DEVICE && nbytes <= CUDA_SHORT_NBYTES &&
        terp_frame_verify(lane->h_short + i * CUDA_SHORT_NBYTES, nbytes) !=
            TERP_OK)
        st = TERP_ERR_CHECKSUM;
    return st;
}

/* What a lane's kernels say of the streams. */
static bool
has_ratio(const struct flight *flight)
{
    const struct cuda_chunk *chunks = flight->lane->batch.h_chunks;

    for (uint64_t i = 0; i < flight->n; i++)
        if (chunks[i].coding == TERP_CODING_RATIO)
            return true;
    return false;
}

static cudaError_t
start(const struct job *job, struct flight *flight);

/* Waits for the wave. Unexpected ratio streams have been refused: all is done
 * again. */
static cudaError_t
await_decode(const struct job *job, struct flight *flight)
{
    struct cuda_lane *lane = flight->lane;

    cudaError_t error = cudaStreamSynchronize(lane->stream);
    if (error != cudaSuccess || job->host)
        return error;
    lane->saw_ratio = has_ratio(flight);
    if (!lane->saw_ratio || lane->batch.coding == TERP_CODING_RATIO)
        return error;
    error = start(job, flight);
    return error == cudaSuccess ? cudaStreamSynchronize(lane->stream) : error;
}

static cudaError_t
finish_decode(const struct job *job, struct flight *flight)
{
    struct cuda_lane *lane = flight->lane;
    cudaError_t error = await_decode(job, flight);
    uint64_t chunk_nbytes = terp_chunk_nbytes(job->chunk);
    bool is_copied = false;

    for (uint64_t i = 0; error == cudaSuccess && i < flight->n; i++) {
        const struct cuda_chunk *chunk = &lane->batch.h_chunks[i];
        enum terp_status st = decoded_status(job, lane, flight, i);
        uint64_t at = flight->first + i;
        job->status[at] = st == TERP_ERR_DEVICE ? decode_by_cpu(job, at) : st;
        if (st != TERP_OK || (!job->host && chunk->coding != TERP_CODING_RAW))
            continue;
        const uint8_t *from = job->host
                                  ? lane->d_dst + i * lane->dst_stride
                                  : (const uint8_t *)job->src[at] +
                                        job->src_nbytes[at] - chunk_nbytes;
        error = cudaMemcpyAsync(job->dst[at], from, chunk_nbytes,
                                cudaMemcpyDefault, lane->stream);
        is_copied = true;
    }
    return error == cudaSuccess && is_copied
               ? cudaStreamSynchronize(lane->stream)
               : error;
}

/* ---- waves ---- */

static cudaError_t
start(const struct job *job, struct flight *flight)
{
    const bool decode = job->params == NULL;
    struct cuda_wave wave = {job->chunk, job->params, flight->n, job->host,
                             decode && may_have_ratio(job, flight)};

    cudaError_t error = cuda_lane_prepare(flight->lane, &wave);
    if (error != cudaSuccess)
        return error;
    return decode ? start_decode(job, flight) : start_encode(job, flight);
}

static cudaError_t
finish(const struct job *job, struct flight *flight, enum terp_status *st)
{
    cudaError_t error = job->params != NULL ? finish_encode(job, flight, st)
                                            : finish_decode(job, flight);
    flight->n = 0;
    return error;
}

/* Lanes in turn: each takes the next wave once its last is finished. */
static cudaError_t
fly(const struct job *job, struct flight *flights, int nflights,
    enum terp_status *st)
{
    cudaError_t error = cudaSuccess;
    uint64_t next = 0;

    for (int at = 0; error == cudaSuccess && *st == TERP_OK;
         at = (at + 1) % nflights) {
        struct flight *flight = &flights[at];
        if (flight->n > 0)
            error = finish(job, flight, st);
        else if (next == job->nchunks)
            break;
        if (error != cudaSuccess || *st != TERP_OK || next == job->nchunks)
            continue;
        flight->first = next;
        flight->n = min_u64(job->wave_nchunks, job->nchunks - next);
        next += flight->n;
        error = start(job, flight);
    }
    return error;
}

/* Chunks of a wave: all that fit, or from host memory enough for a wave. */
static uint64_t
choose_wave(const struct job *job)
{
    struct cuda_wave one = {job->chunk, job->params, 1, job->host,
                            job->params == NULL};
    uint64_t n = min_u64(job->nchunks, MAX_WAVE_NCHUNKS);

    if (job->host)
        n = min_u64(n, HOST_WAVE_NBYTES / terp_chunk_nbytes(job->chunk) + 1);
    return min_u64(n, cuda_wave_max_nbytes() / cuda_wave_nbytes(&one));
}

static enum terp_status
do_job(struct job *job)
{
    struct flight flights[NSTEPS] = {};
    enum terp_status st = TERP_OK;
    int nflights = 1, previous;

    job->wave_nchunks = choose_wave(job);
    if (job->wave_nchunks == 0 || job->chunk->type == TERP_BYTES) {
        /* Nothing that the device does, or more than it can hold. */
        snprintf(reason, sizeof reason, "it is not for the device");
        for (uint64_t i = 0; st == TERP_OK && i < job->nchunks; i++) {
            if (job->params != NULL)
                st = encode_by_cpu(job, i);
            else
                job->status[i] = decode_by_cpu(job, i);
        }
        return st;
    }
    cudaError_t error = cuda_context_enter(&previous);
    if (error != cudaSuccess) {
        say("the device cannot be used", error);
        return TERP_ERR_DEVICE;
    }
    flights[0].lane = cuda_lane_take(false);
    while (job->host && nflights < NSTEPS &&
           (uint64_t)nflights * job->wave_nchunks < job->nchunks &&
           (flights[nflights].lane = cuda_lane_take(true)) != NULL)
        nflights++;
    error = fly(job, flights, nflights, &st);
    if (error != cudaSuccess) {
        say(job->params != NULL ? "encoding" : "decoding", error);
        st = TERP_ERR_DEVICE;
    }
    for (int i = 0; i < nflights; i++) {
        if (flights[i].n > 0) { /* given up: nothing may still write */
            cudaStreamSynchronize(flights[i].lane->side);
            cudaStreamSynchronize(flights[i].lane->stream);
        }
        cuda_lane_give(flights[i].lane);
    }
    cudaGetLastError();
    cuda_context_leave(previous);
    return st;
}

/* ---- entry points ---- */

static enum terp_status
encode(const struct terp_params *params, const struct terp_chunk *chunk,
       enum terp_memory memory, uint64_t nchunks, const void *const *src,
       void *const *dst, uint64_t *dst_nbytes_ret)
{
    struct job job = {};

    job.chunk = chunk;
    job.params = params;
    job.host = memory == TERP_MEMORY_HOST;
    job.nchunks = nchunks;
    job.src = src;
    job.dst = dst;
    job.dst_nbytes = dst_nbytes_ret;
    return do_job(&job);
}

static enum terp_status
decode(const struct terp_chunk *chunk, enum terp_memory memory,
       uint64_t nchunks, const void *const *src, const uint64_t *src_nbytes,
       void *const *dst, enum terp_status *status_ret)
{
    struct job job = {};

    job.chunk = chunk;
    job.host = memory == TERP_MEMORY_HOST;
    job.nchunks = nchunks;
    job.src = src;
    job.src_nbytes = src_nbytes;
    job.dst = dst;
    job.status = status_ret;
    return do_job(&job);
}

static const char *
last_reason(void)
{
    return reason;
}

/* ---- the caller's memory ---- */

static enum terp_status
report(const char *what, cudaError_t error)
{
    if (error == cudaSuccess)
        return TERP_OK;
    say(what, error);
    return TERP_ERR_DEVICE;
}

static enum terp_status
allocate(uint64_t nbytes, void **at_ret)
{
    cudaError_t error = cuda_array_allocate(nbytes, at_ret);

    (void)report("allocating", error);
    return error == cudaSuccess                 ? TERP_OK
           : error == cudaErrorMemoryAllocation ? TERP_ERR_MEMORY
                                                : TERP_ERR_DEVICE;
}

static void
release(void *at)
{
    (void)report("releasing", cuda_array_release(at));
}

static enum terp_status
copy(uint64_t n, void *const *dst, const void *const *src,
     const uint64_t *nbytes)
{
    return report("copying", cuda_array_copy(n, dst, src, nbytes));
}

static enum terp_status
move(const struct terp_array *array, uint64_t first, uint64_t n,
     const void *src, void *dst, bool gather)
{
    return report("moving chunks",
                  cuda_array_move(array, first, n, src, dst, gather));
}

static struct terp_cuda_engine engine = {NULL,    encode, decode, allocate,
                                         release, copy,   move,   last_reason};

#define EXPORT __attribute__((visibility("default")))

extern "C" EXPORT enum terp_status
terp_cuda_open(unsigned abi, const struct terp_cuda_engine **engine_ret,
               const char **reason_ret)
{
    if (abi != TERP_CUDA_ABI) {
        *reason_ret = "the library is of another version";
        return TERP_ERR_ARGUMENT;
    }
    enum terp_status st = cuda_context_open(&engine.device, reason_ret);
    if (st == TERP_OK)
        *engine_ret = &engine;
    return st;
}
