/* Runs a call of the CUDA engine in batches. A call from host memory uploads
 * the next batch and downloads the last one while the kernels of a batch run.
 * doc/design/10-cuda-engine.md. */
#include "gpu/engine/call.cuh"

#include "codec/format/types.h"
#include "codec/model/coarse.h"
#include "gpu/engine/batch.cuh"
#include "gpu/engine/chunks.cuh"
#include "gpu/engine/sequence.cuh"

/* Bytes of values in a batch from host memory; a batch ends with the chunk that
 * exceeds them. Larger batches lose less of their time to launches. Smaller
 * batches let a call have several, so that copies overlap with kernels. */
#define HOST_BATCH_NBYTES (UINT64_C(32) << 20)

/* The most chunks of a batch. A chunk is a row of blocks, blockIdx.y, and CUDA
 * limits gridDim.y to 65535. */
#define MAX_BATCH_NCHUNKS 32768

/* The most slots of one call from host memory: one uploads, one runs kernels,
 * one downloads. It leaves one of CUDA_NSLOTS to other threads. */
#define NSTEPS 3

/* The batch in a slot: chunks [first, first + n) of the call; no batch if n is
 * 0. */
struct in_flight {
    struct cuda_slot *slot;
    uint64_t first, n;
};

/* ---- encoding ---- */

/* Writes the checksum of a stream of up to CUDA_SHORT_NBYTES, which the device
 * does not seal. */
static cudaError_t
seal_short(const struct cuda_call *call, struct cuda_slot *slot, uint64_t i,
           uint8_t *dst, uint64_t nbytes)
{
    uint8_t *stream = slot->h_short + i * CUDA_SHORT_NBYTES;

    if (call->dst_on_host) {
        terp_frame_seal(dst, nbytes);
        return cudaSuccess;
    }
    terp_frame_seal(stream, nbytes);
    return cudaMemcpyAsync(dst + TERP_FRAME_CHECKSUM_AT,
                           stream + TERP_FRAME_CHECKSUM_AT, 8,
                           cudaMemcpyHostToDevice, slot->stream);
}

static struct cuda_found_domain
domain_of(const struct cuda_call *call, const struct cuda_chunk *chunk)
{
    const uint64_t nvalues = terp_chunk_nvalues(call->chunk);
    struct cuda_found_domain found = {};

    found.verdict = (enum terp_domain_verdict)chunk->facts.domain_verdict;
    found.domain = terp_domain_split(call->chunk, chunk->facts.domain_nslow);
    found.is_constant = chunk->coding == TERP_CODING_CONSTANT;
    found.is_raw = chunk->coding == TERP_CODING_RAW;
    found.huffman_may_be_smaller = terp_huffman_may_be_smaller(
        call->params, chunk->prediction, chunk->stream_nbytes, nvalues);
    found.lorenzo_may_be_smaller = terp_lorenzo_may_be_smaller(
        call->params, chunk->prediction,
        terp_costs_are_close(chunk->spline_cost, chunk->lorenzo_cost, nvalues));
    found.splines_may_be_smaller = terp_splines_may_be_smaller(
        call->params, chunk->prediction, chunk->facts.may_be_splines,
        terp_splines_are_close(chunk->spline_cost, chunk->lorenzo_cost,
                               chunk->stream_nbytes, nvalues));
    found.device = chunk->facts;
    found.min = chunk->min;
    found.max = chunk->max;
    found.step = chunk->model.step;
    found.form = call->form;
    found.bound = chunk->bound;
    found.bound_range = chunk->bound_range;
    memcpy(found.fills, chunk->fills, sizeof found.fills);
    if (call->form != CUDA_VALUES) {
        found.form = chunk->form;
        found.how = chunk->how;
        found.carrier = chunk->carrier;
    }
    return found;
}

/* Waits for the kernels, copies streams to host memory, and seals short ones.
 */
static cudaError_t
finish_encode(const struct cuda_call *call, const struct in_flight *batch)
{
    struct cuda_slot *slot = batch->slot;
    cudaError_t error = cudaStreamSynchronize(slot->stream);
    bool is_sealed = false;

    for (uint64_t i = 0; error == cudaSuccess && i < batch->n; i++) {
        const struct cuda_chunk *chunk = &slot->batch.h_chunks[i];
        uint64_t at = batch->first + i;
        const bool is_done = chunk->status == TERP_OK;
        const bool is_raw = chunk->coding == TERP_CODING_RAW;
        call->dst_nbytes[at] = is_done ? chunk->stream_nbytes : 0;
        if (call->found != NULL)
            call->found[at] = domain_of(call, chunk);
        if (call->dst_on_host && is_done && !is_raw)
            error = cudaMemcpyAsync(
                call->dst[at], slot->d_dst + i * slot->dst_stride,
                chunk->stream_nbytes, cudaMemcpyDeviceToHost, slot->stream);
    }
    if (error == cudaSuccess && call->dst_on_host)
        error = cudaStreamSynchronize(slot->stream);
    for (uint64_t i = 0; error == cudaSuccess && i < batch->n; i++) {
        uint64_t at = batch->first + i, nbytes = call->dst_nbytes[at];
        if (call->is_part || nbytes == 0 || nbytes > CUDA_SHORT_NBYTES ||
            slot->batch.h_chunks[i].coding == TERP_CODING_RAW)
            continue;
        error = seal_short(call, slot, i, (uint8_t *)call->dst[at], nbytes);
        is_sealed = true;
    }
    return error == cudaSuccess && is_sealed
               ? cudaStreamSynchronize(slot->stream)
               : error;
}

/* ---- decoding ---- */

/* A byte of a stream's frame; -1 if the stream is too short, or lies in device
 * memory, which the host cannot read. */
static int
peek_frame(const struct cuda_call *call, uint64_t at, uint64_t byte)
{
    const uint8_t *src = (const uint8_t *)call->src[at];

    return call->src_on_host && call->src_nbytes[at] > byte ? src[byte] : -1;
}

/* Whether a stream is left out of the batch: one that is longer than a raw
 * stream is not valid; and, if the host can read its frame, a raw stream and
 * one of another domain or form, which then need no upload. */
static bool
is_not_for_batch(const struct cuda_call *call, uint64_t at)
{
    const int flags = peek_frame(call, at, TERP_FRAME_PREDICTION_AT);

    return call->src_nbytes[at] > terp_encode_bound(call->chunk) ||
           peek_frame(call, at, TERP_FRAME_CODING_AT) == TERP_CODING_RAW ||
           (flags >= 0 && call->domain == NULL && flags & TERP_FRAME_DOMAIN) ||
           (flags >= 0 && !cuda_form_is_pointwise(call->form) &&
            flags & TERP_FRAME_POINTWISE);
}

/* Bytes of a coded stream's frame, without a table of prefixes. */
static uint64_t
frame_nbytes_of(const struct cuda_call *call)
{
    struct terp_frame frame = {};

    frame.chunk = *call->chunk;
    frame.domain = call->domain != NULL ? *call->domain : *call->chunk;
    frame.coding = TERP_CODING_HUFFMAN;
    return (uint64_t)terp_frame_nbytes(&frame);
}

/* The offset of a coded stream's model, behind the frame and all heads. */
static uint64_t
model_at(const struct cuda_call *call, uint64_t at, uint64_t frame_nbytes)
{
    const int head = peek_frame(call, at, frame_nbytes);

    return frame_nbytes + cuda_carrier_head_nbytes(call->chunk->type) +
           (cuda_form_is_of_integers(call->form) && head >= 0
                ? cuda_scale_nbytes_of_head((unsigned)head)
                : 0) +
           cuda_form_head_nbytes(call->form);
}

/* The kinds of streams that may occur in a batch. For streams in device memory
 * the kinds of the slot's last batch are expected. */
static struct cuda_stream_kinds
expected_kinds(const struct cuda_call *call, const struct in_flight *batch)
{
    const uint64_t frame_nbytes = frame_nbytes_of(call);
    struct cuda_stream_kinds kinds = {};

    if (!call->src_on_host)
        return batch->slot->last_kinds;
    for (uint64_t i = 0; i < batch->n; i++) {
        const uint64_t at = batch->first + i;
        const int coding = peek_frame(call, at, TERP_FRAME_CODING_AT);
        const int prediction = peek_frame(call, at, TERP_FRAME_PREDICTION_AT);
        kinds.ratio |= coding == TERP_CODING_RATIO;
        const uint64_t table_nbytes =
            prediction >= 0 && prediction & TERP_FRAME_PREFIXES
                ? TERP_PREFIXES_NBYTES
                : 0;
        kinds.low_bits |=
            coding >= TERP_CODING_HUFFMAN &&
            peek_frame(call, at,
                       model_at(call, at, frame_nbytes + table_nbytes)) >>
                TERP_WIDE_SHIFT > 0;
        kinds.lossless |=
            prediction >= 0 && (prediction & TERP_FRAME_PREDICTION) ==
                                   (int)TERP_PREDICTION_LOSSLESS;
    }
    return kinds;
}

/* A chunk's status. Verifies the checksum of a short stream, which the device
 * has not verified. */
static enum terp_status
decoded_status(const struct cuda_call *call, const struct cuda_slot *slot,
               const struct in_flight *batch, uint64_t i)
{
    enum terp_status st = slot->batch.h_chunks[i].status;
    uint64_t nbytes = call->src_nbytes[batch->first + i];

    if (st != TERP_ERR_DEVICE && !call->is_part &&
        nbytes <= CUDA_SHORT_NBYTES &&
        terp_frame_verify(slot->h_short + i * CUDA_SHORT_NBYTES, nbytes) !=
            TERP_OK)
        st = TERP_ERR_CHECKSUM;
    return st;
}

/* The kinds of streams that the kernels have found in a batch. */
static struct cuda_stream_kinds
kinds_of_batch(const struct in_flight *batch)
{
    const struct cuda_chunk *chunks = batch->slot->batch.h_chunks;
    struct cuda_stream_kinds kinds = {};

    for (uint64_t i = 0; i < batch->n; i++) {
        kinds.ratio |= chunks[i].coding == TERP_CODING_RATIO;
        kinds.low_bits |= chunks[i].model.wide > 0;
        kinds.lossless |= chunks[i].prediction == TERP_PREDICTION_LOSSLESS;
    }
    return kinds;
}

static cudaError_t
start(struct terp_cuda_device *device, const struct cuda_call *call,
      struct in_flight *batch);

/* Waits for the batch. If it had streams of a kind that was not expected, which
 * the kernels refused, decodes the whole batch again. */
static cudaError_t
await_decode(struct terp_cuda_device *device, const struct cuda_call *call,
             struct in_flight *batch)
{
    struct cuda_slot *slot = batch->slot;

    cudaError_t error = cudaStreamSynchronize(slot->stream);
    if (error != cudaSuccess || call->src_on_host)
        return error;
    slot->last_kinds = kinds_of_batch(batch);
    if ((!slot->last_kinds.ratio || slot->batch.coding == TERP_CODING_RATIO) &&
        (!slot->last_kinds.low_bits || slot->batch.may_have_low_bits) &&
        (!slot->last_kinds.lossless || slot->batch.may_be_lossless))
        return error;
    error = start(device, call, batch);
    return error == cudaSuccess ? cudaStreamSynchronize(slot->stream) : error;
}

static cudaError_t
finish_decode(struct terp_cuda_device *device, const struct cuda_call *call,
              struct in_flight *batch)
{
    struct cuda_slot *slot = batch->slot;
    cudaError_t error = await_decode(device, call, batch);
    const bool is_coarse = call->step > 1;
    const struct terp_chunk wanted =
        terp_coarse_chunk_of(call->chunk, is_coarse ? call->step : 1);
    uint64_t chunk_nbytes = terp_chunk_nbytes(&wanted);
    bool is_copied = false;

    for (uint64_t i = 0; error == cudaSuccess && i < batch->n; i++) {
        const struct cuda_chunk *chunk = &slot->batch.h_chunks[i];
        enum terp_status st = decoded_status(call, slot, batch, i);
        uint64_t at = batch->first + i;
        /* The CPU decodes a bad stream again: with a step it reads only the
         * levels needed, so its status may differ. */
        if (is_coarse && st != TERP_OK)
            st = TERP_ERR_DEVICE;
        call->status[at] = st;
        if (st != TERP_OK || (!call->dst_on_host &&
                              (is_coarse || chunk->coding != TERP_CODING_RAW)))
            continue;
        const uint8_t *from = call->dst_on_host
                                  ? slot->d_dst + i * slot->dst_stride
                                  : (const uint8_t *)call->src[at] +
                                        call->src_nbytes[at] - chunk_nbytes;
        error = cudaMemcpyAsync(call->dst[at], from, chunk_nbytes,
                                cudaMemcpyDefault, slot->stream);
        is_copied = true;
    }
    return error == cudaSuccess && is_copied
               ? cudaStreamSynchronize(slot->stream)
               : error;
}

/* ---- batches ---- */

/* Sets a chunk's pointers to own values, carrier and coded values: each array
 * is the one before it unless the batch has a region for it. */
static void
place_values(const struct cuda_slot *slot, uint64_t i, struct cuda_chunk *chunk)
{
    const struct cuda_batch &batch = slot->batch;
    uint8_t *scratch = batch.d_scratch + i * batch.at.stride;

    if (batch.decoding.wanted_step > 0) {
        chunk->original = chunk->dst;
        chunk->dst = scratch + batch.at.unwanted;
    }
    chunk->values = batch.decodes ? chunk->dst : (void *)chunk->src;
    void *carried = batch.carrier_head_nbytes > 0 ? scratch + batch.at.carried
                                                  : chunk->values;
    if (!batch.decodes)
        chunk->src = carried;
    else if (batch.value_nbytes != batch.carrier_nbytes)
        chunk->dst = scratch + batch.at.coded_values;
    else
        chunk->dst = carried;
}

/* Fills in the host's members of the states. If the caller's memory is the
 * host's, also uploads values or streams. */
static cudaError_t
upload(const struct cuda_call *call, const struct in_flight *batch)
{
    struct cuda_slot *slot = batch->slot;
    cudaError_t error = cudaSuccess;

    for (uint64_t i = 0; error == cudaSuccess && i < batch->n; i++) {
        struct cuda_chunk *chunk = &slot->batch.h_chunks[i];
        uint64_t at = batch->first + i;
        uint64_t nbytes = terp_chunk_nbytes(call->chunk);
        uint8_t *d_src = slot->d_src + i * slot->src_stride;
        cuda_chunk_clear(chunk);
        chunk->src = call->src_on_host ? d_src : call->src[at];
        chunk->original = chunk->src;
        chunk->dst = call->dst_on_host || call->measures
                         ? slot->d_dst + i * slot->dst_stride
                         : call->dst[at];
        place_values(slot, i, chunk);
        if (call->bounds != NULL)
            chunk->bound = call->bounds[at];
        if (slot->batch.decodes) {
            nbytes = call->src_nbytes[at];
            if (call->src_on_host)
                nbytes = cuda_read_nbytes(
                    slot->batch, (const uint8_t *)call->src[at], nbytes);
            chunk->src_nbytes = nbytes;
            if (nbytes == 0 || is_not_for_batch(call, at))
                chunk->status = chunk->checksum_status = TERP_ERR_DEVICE;
        }
        if (call->src_on_host && chunk->status == TERP_OK)
            error = cudaMemcpyAsync(d_src, call->src[at], nbytes,
                                    cudaMemcpyHostToDevice, slot->stream);
    }
    return error;
}

static cudaError_t
start(struct terp_cuda_device *device, const struct cuda_call *call,
      struct in_flight *batch)
{
    struct cuda_request request = {call, batch->n, {}};

    if (call->params == NULL)
        request.expects = expected_kinds(call, batch);
    cudaError_t error = cuda_slot_prepare(device, batch->slot, &request);
    if (error == cudaSuccess)
        error = upload(call, batch);
    return error == cudaSuccess ? cuda_sequence_run(device, batch->slot,
                                                    batch->n == call->nchunks)
                                : error;
}

static cudaError_t
finish(struct terp_cuda_device *device, const struct cuda_call *call,
       struct in_flight *batch)
{
    cudaError_t error = call->params != NULL
                            ? finish_encode(call, batch)
                            : finish_decode(device, call, batch);
    batch->n = 0;
    return error;
}

/* Runs all batches. The slots take turns: each finishes its batch and starts
 * the next. After an error, *at is the slot that had it. */
static cudaError_t
run_batches(struct terp_cuda_device *device, const struct cuda_call *call,
            struct in_flight *batches, int nbatches, int *at)
{
    cudaError_t error = cudaSuccess;
    uint64_t next = 0;

    for (*at = 0;; *at = (*at + 1) % nbatches) {
        struct in_flight *batch = &batches[*at];
        if (batch->n > 0)
            error = finish(device, call, batch);
        else if (next == call->nchunks)
            return cudaSuccess;
        if (error == cudaSuccess && next < call->nchunks) {
            batch->first = next;
            batch->n = min_u64(call->batch_nchunks, call->nchunks - next);
            next += batch->n;
            error = start(device, call, batch);
        }
        if (error != cudaSuccess)
            return error;
    }
}

/* Gives a slot memory for any batch of the call. Lowers batch_nchunks if there
 * is too little. */
static cudaError_t
reserve(struct terp_cuda_device *device, struct cuda_slot *slot,
        struct cuda_call *call)
{
    struct cuda_request request = {
        call, call->batch_nchunks, {true, true, true}};
    cudaError_t error = cuda_slot_reserve(device, slot, &request);

    call->batch_nchunks = request.nchunks;
    return error;
}

/* Takes more slots for a call from host memory, while slots are free and have
 * memory for batches as large as the first slot's. Returns the number of all
 * slots. */
static int
take_more(struct terp_cuda_device *device, const struct cuda_call *call,
          struct in_flight *batches)
{
    int n = 1;

    while (call->host && n < NSTEPS &&
           (uint64_t)n * call->batch_nchunks < call->nchunks &&
           (batches[n].slot = cuda_slot_take(device, true)) != NULL) {
        struct cuda_call same = *call;
        if (reserve(device, batches[n].slot, &same) != cudaSuccess ||
            same.batch_nchunks < call->batch_nchunks) {
            cudaGetLastError();
            cuda_slot_give(device, batches[n].slot);
            break;
        }
        n++;
    }
    return n;
}

/* Runs the call in batches of at most call->batch_nchunks chunks. The session's
 * slot is the first one. */
static enum terp_status
try_call(struct terp_session *session, struct cuda_call *call)
{
    struct terp_cuda_device *device = session->device;
    const char *action = call->params != NULL ? "encoding" : "decoding";
    struct in_flight batches[NSTEPS] = {};
    int n = 1, at = 0;

    batches[0].slot = session->slot;
    cudaError_t error = reserve(device, batches[0].slot, call);
    if (error == cudaSuccess) {
        n = take_more(device, call, batches);
        error = run_batches(device, call, batches, n, &at);
    }
    enum terp_status st =
        cuda_device_judge(device, batches[at].slot, action, error);
    for (int i = 0; i < n; i++) {
        if (batches[i].n > 0) /* not finished: wait until nothing writes */
            cuda_slot_await(batches[i].slot);
        if (i > 0)
            cuda_slot_give(device, batches[i].slot);
    }
    return st;
}

enum terp_status
cuda_call_do(struct terp_session *session, struct cuda_call *call)
{
    enum terp_status st = TERP_OK;
    bool is_trimmed = false;

    call->host = call->src_on_host || call->dst_on_host;
    call->batch_nchunks = min_u64(call->nchunks, MAX_BATCH_NCHUNKS);
    if (call->host) {
        call->batch_nchunks =
            min_u64(call->batch_nchunks,
                    HOST_BATCH_NBYTES / terp_chunk_nbytes(call->chunk) + 1);
        /* Further slots do not wait for the session's stream. */
        st = cuda_session_await(session);
    }
    if (st != TERP_OK)
        return st;
    /* If memory is short, try smaller batches, then release the memory of free
     * slots. */
    while ((st = try_call(session, call)) == TERP_ERR_MEMORY) {
        if (call->batch_nchunks > 1)
            call->batch_nchunks /= 2;
        else if (is_trimmed || !cuda_session_trim(session))
            break;
        else
            is_trimmed = true;
    }
    const enum terp_status ended = cuda_session_await(session);
    return st == TERP_OK ? ended : st;
}
