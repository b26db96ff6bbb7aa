/* Floor 3: the CUDA engine. Chunks go through in waves; while one wave's
 * kernels run, a call from host memory uploads the next and downloads the
 * last. doc/design.md, "CUDA engine". */
#include <stdio.h>
#include <stdlib.h>

#include "cuda_context.cuh"
#include "engine.h"

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

/* Parts of a sequence that this wave has no use for are left out. */
enum {
    STAGE_SPLINE = 1,
    STAGE_LORENZO = 2,
    STAGE_SPECIALS = 4,
    STAGE_TILES = 8
};

/* What the host fills in of a chunk's state. */
#define HOST_NBYTES offsetof(struct cuda_chunk, min_key)
static_assert(HOST_NBYTES % 8 == 0 && sizeof(struct cuda_chunk) % 8 == 0,
              "a state is copied by words");

/* Grid: x blocks that share the zeroing, y chunks. States come from the host's
 * pinned memory. */
static __global__ void
begin_chunks(const struct cuda_batch batch, const struct cuda_chunk *h_chunks)
{
    begin_kernel();
    uint4 *zeroed = region<uint4>(batch, blockIdx.y, 0);
    uint64_t n = batch.at.zeroed_nbytes / sizeof *zeroed;

    if (blockIdx.x == 0) {
        const uint64_t *from = (const uint64_t *)&h_chunks[blockIdx.y];
        uint64_t *to = (uint64_t *)&batch.d_chunks[blockIdx.y];
        for (unsigned i = threadIdx.x; i < sizeof(struct cuda_chunk) / 8;
             i += blockDim.x)
            to[i] = i < HOST_NBYTES / 8 ? from[i] : 0;
    }
    for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n;
         i += (uint64_t)gridDim.x * blockDim.x)
        zeroed[i] = make_uint4(0, 0, 0, 0);
}

static cudaError_t
begin(const struct cuda_lane *lane)
{
    const struct cuda_batch *batch = &lane->batch;
    uint64_t nblocks = div_up(batch->at.zeroed_nbytes, 16 * 256);

    return launch(
        begin_chunks,
        dim3((unsigned)min_u64(nblocks, 1024), (unsigned)batch->nchunks), 256,
        0, lane->stream, *batch, lane->h_chunks);
}

/* A thread a chunk. What the host asks for goes to its pinned memory. */
static __global__ void
end_chunks(const struct cuda_batch batch, struct cuda_chunk *h_chunks)
{
    begin_kernel();
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < (unsigned)batch.nchunks) {
        const struct cuda_chunk &chunk = batch.d_chunks[i];
        h_chunks[i].status = chunk.checksum_status != TERP_OK
                                 ? chunk.checksum_status
                                 : chunk.status;
        h_chunks[i].stream_nbytes = chunk.stream_nbytes;
    }
}

static cudaError_t
end(const struct cuda_lane *lane)
{
    return launch(end_chunks,
                  dim3((unsigned)div_up((uint64_t)lane->batch.nchunks, 128)),
                  128, 0, lane->stream, lane->batch, lane->h_chunks);
}

typedef cudaError_t
stage_function(const struct cuda_batch *batch, cudaStream_t stream);

/* A stage and the parts of a sequence that have it; 0: all. */
struct step {
    stage_function *run;
    unsigned stages;
};

static const struct step encode_steps[] = {
    {cuda_swap_src, 0},
    {cuda_scan, 0},
    {cuda_tune, 0},
    {cuda_spline_quantize, STAGE_SPLINE},
    {cuda_lorenzo_quantize, STAGE_LORENZO},
    {cuda_specials_write, 0},
    {cuda_escapes_write, 0},
    {cuda_tiles_encode, 0},
    {cuda_stream_write, 0},
    {cuda_seal, 0},
    {NULL, 0}};

static const struct step decode_steps[] = {
    {cuda_model_read, 0},
    {cuda_tile_index_read, STAGE_TILES},
    {cuda_tiles_decode, STAGE_TILES},
    {cuda_escapes_place, STAGE_TILES},
    {cuda_spline_reconstruct, STAGE_SPLINE},
    {cuda_lorenzo_reconstruct, STAGE_LORENZO},
    {cuda_specials_read, STAGE_SPECIALS},
    {cuda_swap_dst, 0},
    {NULL, 0}};

/* Beside the stages of decoding, which bear with any bytes. */
static cudaError_t
fork_verify(const struct cuda_lane *lane)
{
    cudaError_t error = cudaEventRecord(lane->forked, lane->stream);
    if (error == cudaSuccess)
        error = cudaStreamWaitEvent(lane->side, lane->forked, 0);
    if (error == cudaSuccess)
        error = cuda_verify(&lane->batch, lane->side);
    return error == cudaSuccess ? cudaEventRecord(lane->joined, lane->side)
                                : error;
}

static cudaError_t
enqueue(const struct cuda_lane *lane, enum cuda_direction direction,
        unsigned stages)
{
    bool decode = direction == CUDA_DECODE;
    const struct step *step = decode ? decode_steps : encode_steps;

    cudaError_t error = begin(lane);
    if (error == cudaSuccess && decode)
        error = fork_verify(lane);
    for (; error == cudaSuccess && step->run != NULL; step++)
        if (step->stages == 0 || (step->stages & stages) != 0)
            error = step->run(&lane->batch, lane->stream);
    if (error == cudaSuccess && decode)
        error = cudaStreamWaitEvent(lane->stream, lane->joined, 0);
    return error == cudaSuccess ? end(lane) : error;
}

/* A batch that comes twice in a row becomes a graph. */
static cudaError_t
run_sequence(struct cuda_lane *lane, enum cuda_direction direction,
             unsigned stages)
{
    struct cuda_sequence *sequence = &lane->sequence[direction];
    cudaGraph_t graph;

    /* Other padding would only cost a graph. */
    // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison,cert-exp42-c)
    bool equal =
        memcmp(&sequence->batch, &lane->batch, sizeof lane->batch) == 0;
    bool same = equal && sequence->seen && sequence->stages == stages;
    if (same && sequence->graph != NULL)
        return cudaGraphLaunch(sequence->graph, lane->stream);
    if (sequence->graph != NULL)
        cudaGraphExecDestroy(sequence->graph);
    sequence->graph = NULL;
    sequence->seen = true;
    sequence->stages = stages;
    sequence->batch = lane->batch;
    if (!same)
        return enqueue(lane, direction, stages);

    cudaError_t error =
        cudaStreamBeginCapture(lane->stream, cudaStreamCaptureModeThreadLocal);
    if (error != cudaSuccess)
        return error;
    cudaError_t recorded = enqueue(lane, direction, stages);
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
    unsigned stages = job->params->predictor == TERP_PREDICTOR_SPLINE
                          ? STAGE_SPLINE
                      : job->params->predictor == TERP_PREDICTOR_LORENZO
                          ? STAGE_LORENZO
                          : STAGE_SPLINE | STAGE_LORENZO;

    for (uint64_t i = 0; error == cudaSuccess && i < flight->n; i++) {
        struct cuda_chunk *chunk = &lane->h_chunks[i];
        memset((void *)chunk, 0, HOST_NBYTES);
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
    return error == cudaSuccess ? run_sequence(lane, CUDA_ENCODE, stages)
                                : error;
}

/* The checksum of a stream that is too short for cuda_seal. */
static cudaError_t
seal_short(const struct job *job, struct cuda_lane *lane, uint64_t i,
           uint64_t nbytes)
{
    uint8_t stream[CUDA_SHORT_NBYTES];

    if (job->host) {
        terp_frame_seal((uint8_t *)job->dst[i], nbytes);
        return cudaSuccess;
    }
    cudaError_t error = cudaMemcpyAsync(stream, job->dst[i], nbytes,
                                        cudaMemcpyDeviceToHost, lane->stream);
    if (error == cudaSuccess)
        error = cudaStreamSynchronize(lane->stream);
    if (error != cudaSuccess)
        return error;
    terp_frame_seal(stream, nbytes);
    error = cudaMemcpyAsync(job->dst[i], stream, nbytes, cudaMemcpyHostToDevice,
                            lane->stream);
    return error == cudaSuccess ? cudaStreamSynchronize(lane->stream) : error;
}

static cudaError_t
finish_encode(const struct job *job, const struct flight *flight,
              enum terp_status *st)
{
    struct cuda_lane *lane = flight->lane;
    cudaError_t error = cudaStreamSynchronize(lane->stream);

    for (uint64_t i = 0; error == cudaSuccess && i < flight->n; i++) {
        const struct cuda_chunk *chunk = &lane->h_chunks[i];
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
        const struct cuda_chunk *chunk = &lane->h_chunks[i];
        if (chunk->status != TERP_OK)
            *st = encode_by_cpu(job, flight->first + i);
        else if (chunk->stream_nbytes <= CUDA_SHORT_NBYTES)
            error =
                seal_short(job, lane, flight->first + i, chunk->stream_nbytes);
    }
    return error;
}

/* ---- decoding ---- */

/* Grid: x 1, y chunks. A block of CUDA_HEAD_NBYTES threads copies a stream's
 * first bytes to the host's pinned memory. */
static __global__ void
copy_heads(const struct cuda_chunk *h_chunks, uint8_t *h_heads)
{
    begin_kernel();
    const struct cuda_chunk &chunk = h_chunks[blockIdx.y];

    if (threadIdx.x < chunk.src_nbytes)
        h_heads[blockIdx.y * CUDA_HEAD_NBYTES + threadIdx.x] =
            ((const uint8_t *)chunk.src)[threadIdx.x];
}

static cudaError_t
read_heads(struct cuda_lane *lane, uint64_t n)
{
    cudaError_t error =
        launch(copy_heads, dim3(1, (unsigned)n), CUDA_HEAD_NBYTES, 0,
               lane->stream, lane->h_chunks, lane->h_heads);
    return error == cudaSuccess ? cudaStreamSynchronize(lane->stream) : error;
}

static bool
same_chunk(const struct terp_chunk *a, const struct terp_chunk *b)
{
    bool same = a->type == b->type && a->big_endian == b->big_endian &&
                a->stack == b->stack && a->rank == b->rank;
    for (int i = 0; same && i < a->rank; i++)
        same = a->dims[i] == b->dims[i];
    return same;
}

/* Sets up a chunk by the frame in `head`, the stream's first bytes, in the
 * CPU's order of errors. Adds to `stages` what it will need. */
static void
read_frame(const struct job *job, const struct cuda_lane *lane,
           struct cuda_chunk *chunk, const uint8_t *head, unsigned *stages)
{
    struct terp_frame frame;
    int frame_nbytes;
    bool is_short = chunk->src_nbytes <= CUDA_SHORT_NBYTES;

    chunk->status =
        terp_frame_read(head, min_u64(chunk->src_nbytes, CUDA_HEAD_NBYTES),
                        &frame, &frame_nbytes);
    if (chunk->status == TERP_OK && is_short)
        chunk->status = terp_frame_verify(head, chunk->src_nbytes);
    if (chunk->status != TERP_OK)
        return;
    bool is_raw = frame.coding == TERP_CODING_RAW;
    if (!same_chunk(&frame.chunk, job->chunk) ||
        (is_raw &&
         (job->host || chunk->src_nbytes != lane->batch.raw_nbytes))) {
        /* The CPU tells what is wrong, or copies. */
        chunk->status = TERP_ERR_DEVICE;
        return;
    }
    chunk->coding = frame.coding;
    chunk->prediction = frame.prediction;
    chunk->has_specials = frame.has_specials;
    chunk->bound = frame.bound;
    if (frame.coding == TERP_CODING_CONSTANT || frame.has_specials)
        *stages |= STAGE_SPECIALS;
    if (frame.coding != TERP_CODING_CONSTANT && !is_raw)
        *stages |= STAGE_TILES |
                   (frame.prediction == TERP_PREDICTION_SPLINE ? STAGE_SPLINE
                                                               : STAGE_LORENZO);
}

static cudaError_t
start_decode(const struct job *job, const struct flight *flight)
{
    struct cuda_lane *lane = flight->lane;
    cudaError_t error = cudaSuccess;
    unsigned stages = 0;

    for (uint64_t i = 0; i < flight->n; i++) {
        struct cuda_chunk *chunk = &lane->h_chunks[i];
        memset((void *)chunk, 0, HOST_NBYTES);
        chunk->src = job->src[flight->first + i];
        chunk->src_nbytes = job->src_nbytes[flight->first + i];
        chunk->dst = job->host ? lane->d_dst + i * lane->dst_stride
                               : job->dst[flight->first + i];
    }
    if (!job->host)
        error = read_heads(lane, flight->n);
    if (error != cudaSuccess)
        return error;
    for (uint64_t i = 0; error == cudaSuccess && i < flight->n; i++) {
        struct cuda_chunk *chunk = &lane->h_chunks[i];
        read_frame(job, lane, chunk,
                   job->host ? (const uint8_t *)chunk->src
                             : lane->h_heads + i * CUDA_HEAD_NBYTES,
                   &stages);
        /* A stream that is longer than a stored chunk is none of ours. */
        if (chunk->src_nbytes > terp_encode_bound(job->chunk) &&
            chunk->status == TERP_OK)
            chunk->status = TERP_ERR_DEVICE;
        chunk->checksum_status = chunk->status;
        if (!job->host || chunk->status != TERP_OK)
            continue;
        error = cudaMemcpyAsync(lane->d_src + i * lane->src_stride, chunk->src,
                                chunk->src_nbytes, cudaMemcpyHostToDevice,
                                lane->stream);
        chunk->src = lane->d_src + i * lane->src_stride;
    }
    return error == cudaSuccess ? run_sequence(lane, CUDA_DECODE, stages)
                                : error;
}

static cudaError_t
finish_decode(const struct job *job, const struct flight *flight)
{
    struct cuda_lane *lane = flight->lane;
    cudaError_t error = cudaStreamSynchronize(lane->stream);
    uint64_t chunk_nbytes = terp_chunk_nbytes(job->chunk);
    bool is_copied = false;

    for (uint64_t i = 0; error == cudaSuccess && i < flight->n; i++) {
        const struct cuda_chunk *chunk = &lane->h_chunks[i];
        uint64_t at = flight->first + i;
        job->status[at] = chunk->status == TERP_ERR_DEVICE
                              ? decode_by_cpu(job, at)
                              : chunk->status;
        if (chunk->status != TERP_OK ||
            (!job->host && chunk->coding != TERP_CODING_RAW))
            continue;
        const uint8_t *from = job->host ? lane->d_dst + i * lane->dst_stride
                                        : (const uint8_t *)chunk->src +
                                              chunk->src_nbytes - chunk_nbytes;
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
    struct cuda_wave wave = {job->chunk, job->params, flight->n, job->host};

    cudaError_t error = cuda_lane_prepare(flight->lane, &wave);
    if (error != cudaSuccess)
        return error;
    return job->params != NULL ? start_encode(job, flight)
                               : start_decode(job, flight);
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
    struct cuda_wave one = {job->chunk, job->params, 1, job->host};
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
        /* Nothing to do for the device, or more than it can hold. */
        snprintf(reason, sizeof reason, "the chunk is too large");
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

static struct terp_cuda_engine engine = {NULL, encode, decode, last_reason};

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
