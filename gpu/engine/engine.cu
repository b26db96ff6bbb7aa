/* The CUDA engine's calls and its table of functions. Chunks go through in
 * batches; while the kernels of one batch run, a call from host memory uploads
 * the next and downloads the last. doc/design/06-cuda-engine.md. */
#include <new>

#include "codec/engine.h"
#include "codec/model/lag_errors.h"
#include "gpu/engine/array.cuh"
#include "gpu/engine/batch.cuh"
#include "gpu/engine/chunks.cuh"
#include "gpu/engine/sequence.cuh"

/* Values of a batch that comes from host memory: enough to hide its launches,
 * few enough for several batches to follow each other. */
#define HOST_BATCH_NBYTES (UINT64_C(32) << 20)

/* Chunks of a batch from device memory at most: blockIdx.y. */
#define MAX_BATCH_NCHUNKS 32768

/* Slots of one call from host memory: upload, kernels, download. */
#define NSTEPS 3

/* What an encoder's kernels say of a chunk's domain. */
struct found_domain {
    enum terp_domain_verdict verdict;
    struct terp_chunk domain;
    bool is_constant;
    /* A flat chunk may have rows: what the search for them needs. */
    bool is_periodic;
    double min, max, step;
    uint64_t fills[TERP_NFILLS];
};

/* How a chunk is to be coded again. */
struct order {
    enum {
        NOT_AGAIN,
        INSTEAD,
        IF_SMALLER
    } how;
    struct terp_trial trial;
};

/* What is to be done. */
struct call {
    const struct terp_chunk *chunk;
    const struct terp_chunk *domain;  /* NULL: the chunk */
    const struct terp_params *params; /* NULL: decode */
    uint64_t nchunks;
    const void *const *src;
    const uint64_t *src_nbytes; /* decode */
    void *const *dst;
    uint64_t *dst_nbytes;       /* encode */
    struct found_domain *found; /* encode; NULL: not to be looked for */
    enum terp_status *status;   /* decode */
    bool host;
    uint64_t batch_nchunks; /* at most; later, what there was memory for */
};

/* A batch in a slot: chunks [first, first + n) of the call; none if n is 0. */
struct in_flight {
    struct cuda_slot *slot;
    uint64_t first, n;
};

/* ---- encoding ---- */

/* The checksum of a stream that is too short for cuda_seal. */
static cudaError_t
seal_short(const struct call *call, struct cuda_slot *slot, uint64_t i,
           uint8_t *dst, uint64_t nbytes)
{
    uint8_t *stream = slot->h_short + i * CUDA_SHORT_NBYTES;

    if (call->host) {
        terp_frame_seal(dst, nbytes);
        return cudaSuccess;
    }
    terp_frame_seal(stream, nbytes);
    return cudaMemcpyAsync(dst + TERP_FRAME_CHECKSUM_AT,
                           stream + TERP_FRAME_CHECKSUM_AT, 8,
                           cudaMemcpyHostToDevice, slot->stream);
}

static struct found_domain
domain_of(const struct call *call, const struct cuda_chunk *chunk)
{
    struct found_domain found = {
        (enum terp_domain_verdict)chunk->domain_verdict,
        terp_domain_split(call->chunk, chunk->domain_nslow),
        chunk->coding == TERP_CODING_CONSTANT,
        chunk->is_periodic,
        chunk->min,
        chunk->max,
        chunk->model.step,
        {}};

    memcpy(found.fills, chunk->fills, sizeof found.fills);
    return found;
}

/* Copies the streams to where they belong, and seals the short ones. */
static cudaError_t
finish_encode(const struct call *call, const struct in_flight *batch)
{
    struct cuda_slot *slot = batch->slot;
    cudaError_t error = cudaStreamSynchronize(slot->stream);
    bool is_sealed = false;

    for (uint64_t i = 0; error == cudaSuccess && i < batch->n; i++) {
        const struct cuda_chunk *chunk = &slot->batch.h_chunks[i];
        uint64_t at = batch->first + i;
        bool is_done = chunk->status == TERP_OK;
        call->dst_nbytes[at] = is_done ? chunk->stream_nbytes : 0;
        if (call->found != NULL)
            call->found[at] = domain_of(call, chunk);
        if (call->host && is_done)
            error = cudaMemcpyAsync(
                call->dst[at], slot->d_dst + i * slot->dst_stride,
                chunk->stream_nbytes, cudaMemcpyDeviceToHost, slot->stream);
    }
    if (error == cudaSuccess && call->host)
        error = cudaStreamSynchronize(slot->stream);
    for (uint64_t i = 0; error == cudaSuccess && i < batch->n; i++) {
        uint64_t at = batch->first + i, nbytes = call->dst_nbytes[at];
        if (nbytes == 0 || nbytes > CUDA_SHORT_NBYTES)
            continue;
        error = seal_short(call, slot, i, (uint8_t *)call->dst[at], nbytes);
        is_sealed = true;
    }
    return error == cudaSuccess && is_sealed
               ? cudaStreamSynchronize(slot->stream)
               : error;
}

/* ---- decoding ---- */

/* A byte of a stream's frame; -1 where it is too short, or lies in device
 * memory, which nobody has seen. */
static int
peek_frame(const struct call *call, uint64_t at, uint64_t byte)
{
    const uint8_t *src = (const uint8_t *)call->src[at];

    return call->host && call->src_nbytes[at] > byte ? src[byte] : -1;
}

/* A stream that is longer than a stored chunk is none of ours; a stored one in
 * host memory, and one of another domain, need not be uploaded. */
static bool
is_not_for_batch(const struct call *call, uint64_t at)
{
    const int flags = peek_frame(call, at, TERP_FRAME_PREDICTION_AT);

    return call->src_nbytes[at] > terp_encode_bound(call->chunk) ||
           peek_frame(call, at, TERP_FRAME_CODING_AT) == TERP_CODING_RAW ||
           (flags >= 0 && call->domain == NULL && flags & TERP_FRAME_DOMAIN);
}

/* Whether a batch's streams may be ratio ones, for which kernels are launched
 * that others do without. Those in device memory are taken to be like those
 * before. */
static bool
may_have_ratio(const struct call *call, const struct in_flight *batch)
{
    bool found = !call->host && batch->slot->saw_ratio;

    for (uint64_t i = 0; !found && i < batch->n; i++)
        found = peek_frame(call, batch->first + i, TERP_FRAME_CODING_AT) ==
                TERP_CODING_RATIO;
    return found;
}

/* A chunk's status; of a short stream the checksum has not been verified. */
static enum terp_status
decoded_status(const struct call *call, const struct cuda_slot *slot,
               const struct in_flight *batch, uint64_t i)
{
    enum terp_status st = slot->batch.h_chunks[i].status;
    uint64_t nbytes = call->src_nbytes[batch->first + i];

    if (st != TERP_ERR_DEVICE && nbytes <= CUDA_SHORT_NBYTES &&
        terp_frame_verify(slot->h_short + i * CUDA_SHORT_NBYTES, nbytes) !=
            TERP_OK)
        st = TERP_ERR_CHECKSUM;
    return st;
}

/* What a slot's kernels say of the streams. */
static bool
has_ratio(const struct in_flight *batch)
{
    const struct cuda_chunk *chunks = batch->slot->batch.h_chunks;

    for (uint64_t i = 0; i < batch->n; i++)
        if (chunks[i].coding == TERP_CODING_RATIO)
            return true;
    return false;
}

static cudaError_t
start(struct terp_cuda_device *device, const struct call *call,
      struct in_flight *batch);

/* Waits for the batch. Ratio streams that were not expected have been refused:
 * all is done again. */
static cudaError_t
await_decode(struct terp_cuda_device *device, const struct call *call,
             struct in_flight *batch)
{
    struct cuda_slot *slot = batch->slot;

    cudaError_t error = cudaStreamSynchronize(slot->stream);
    if (error != cudaSuccess || call->host)
        return error;
    slot->saw_ratio = has_ratio(batch);
    if (!slot->saw_ratio || slot->batch.coding == TERP_CODING_RATIO)
        return error;
    error = start(device, call, batch);
    return error == cudaSuccess ? cudaStreamSynchronize(slot->stream) : error;
}

static cudaError_t
finish_decode(struct terp_cuda_device *device, const struct call *call,
              struct in_flight *batch)
{
    struct cuda_slot *slot = batch->slot;
    cudaError_t error = await_decode(device, call, batch);
    uint64_t chunk_nbytes = terp_chunk_nbytes(call->chunk);
    bool is_copied = false;

    for (uint64_t i = 0; error == cudaSuccess && i < batch->n; i++) {
        const struct cuda_chunk *chunk = &slot->batch.h_chunks[i];
        enum terp_status st = decoded_status(call, slot, batch, i);
        uint64_t at = batch->first + i;
        call->status[at] = st;
        if (st != TERP_OK || (!call->host && chunk->coding != TERP_CODING_RAW))
            continue;
        const uint8_t *from = call->host
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

/* Fills in the states; from host memory also uploads what is to be coded. */
static cudaError_t
upload(const struct call *call, const struct in_flight *batch)
{
    struct cuda_slot *slot = batch->slot;
    cudaError_t error = cudaSuccess;

    for (uint64_t i = 0; error == cudaSuccess && i < batch->n; i++) {
        struct cuda_chunk *chunk = &slot->batch.h_chunks[i];
        uint64_t at = batch->first + i;
        uint64_t nbytes = terp_chunk_nbytes(call->chunk);
        uint8_t *d_src = slot->d_src + i * slot->src_stride;
        cuda_chunk_ask(chunk);
        chunk->src = call->host ? d_src : call->src[at];
        chunk->original = chunk->src;
        chunk->dst =
            call->host ? slot->d_dst + i * slot->dst_stride : call->dst[at];
        if (slot->batch.decode) {
            chunk->src_nbytes = nbytes = call->src_nbytes[at];
            if (is_not_for_batch(call, at))
                chunk->status = chunk->checksum_status = TERP_ERR_DEVICE;
        }
        if (call->host && chunk->status == TERP_OK)
            error = cudaMemcpyAsync(d_src, call->src[at], nbytes,
                                    cudaMemcpyHostToDevice, slot->stream);
    }
    return error;
}

static cudaError_t
start(struct terp_cuda_device *device, const struct call *call,
      struct in_flight *batch)
{
    struct cuda_request request = {
        call->chunk,  call->domain,
        call->params, batch->n,
        call->host,   call->params == NULL && may_have_ratio(call, batch)};

    cudaError_t error = cuda_slot_prepare(device, batch->slot, &request);
    if (error == cudaSuccess)
        error = upload(call, batch);
    return error == cudaSuccess ? cuda_sequence_run(device, batch->slot)
                                : error;
}

static cudaError_t
finish(struct terp_cuda_device *device, const struct call *call,
       struct in_flight *batch)
{
    cudaError_t error = call->params != NULL
                            ? finish_encode(call, batch)
                            : finish_decode(device, call, batch);
    batch->n = 0;
    return error;
}

/* Slots in turn: each takes the next batch once its last is finished. `*at` is
 * the one that an error is of. */
static cudaError_t
run_batches(struct terp_cuda_device *device, const struct call *call,
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

/* Memory for all batches of the call, which has fewer chunks a batch then if
 * there is not enough. */
static cudaError_t
reserve(struct terp_cuda_device *device, struct cuda_slot *slot,
        struct call *call)
{
    struct cuda_request request = {call->chunk,  call->domain,
                                   call->params, call->batch_nchunks,
                                   call->host,   call->params == NULL};
    cudaError_t error = cuda_slot_reserve(device, slot, &request);

    call->batch_nchunks = request.nchunks;
    return error;
}

/* More slots for a call from host memory, as far as there are idle ones, and
 * memory for batches as large as the first slot's. */
static int
take_more(struct terp_cuda_device *device, const struct call *call,
          struct in_flight *batches)
{
    int n = 1;

    while (call->host && n < NSTEPS &&
           (uint64_t)n * call->batch_nchunks < call->nchunks &&
           (batches[n].slot = cuda_slot_take(device, true)) != NULL) {
        struct call same = *call;
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

/* With call->batch_nchunks at most in a batch. */
static enum terp_status
try_call(struct terp_cuda_device *device, const struct terp_cuda_call *where,
         const struct cuda_visit *visit, struct call *call)
{
    const char *what = call->params != NULL ? "encoding" : "decoding";
    struct in_flight batches[NSTEPS] = {};
    int n = 1, at = 0;

    batches[0].slot = cuda_slot_take(device, false);
    cudaError_t error = reserve(device, batches[0].slot, call);
    enum terp_status st =
        cuda_device_judge(device, batches[0].slot, what, error);
    if (st == TERP_OK)
        st = cuda_slot_follow(device, visit, batches[0].slot, where);
    if (st == TERP_OK) {
        n = take_more(device, call, batches);
        error = run_batches(device, call, batches, n, &at);
        st = cuda_device_judge(device, batches[at].slot, what, error);
    }
    for (int i = 0; i < n; i++) {
        if (batches[i].n > 0) { /* given up: nothing may still write */
            cudaStreamSynchronize(batches[i].slot->side);
            cudaStreamSynchronize(batches[i].slot->stream);
        }
        cuda_slot_give(device, batches[i].slot);
    }
    return st;
}

static enum terp_status
do_call(struct terp_cuda_device *device, const struct terp_cuda_call *where,
        struct call *call)
{
    call->host = where->memory == TERP_MEMORY_HOST;
    call->batch_nchunks = min_u64(call->nchunks, MAX_BATCH_NCHUNKS);
    if (call->host)
        call->batch_nchunks =
            min_u64(call->batch_nchunks,
                    HOST_BATCH_NBYTES / terp_chunk_nbytes(call->chunk) + 1);
    return cuda_device_do(device, [=](const struct cuda_visit &visit) {
        enum terp_status st;
        bool is_trimmed = false;
        /* For want of memory, smaller batches; then without what others keep.
         */
        while ((st = try_call(device, where, &visit, call)) ==
               TERP_ERR_MEMORY) {
            if (call->batch_nchunks > 1)
                call->batch_nchunks /= 2;
            else if (is_trimmed || !cuda_device_trim(device))
                break;
            else
                is_trimmed = true;
        }
        return st;
    });
}

/* ---- coding again, in another domain or another way ---- */

/* Values that are tried at once, at most, but for one chunk. */
#define TRIAL_NBYTES (UINT64_C(256) << 20)

/* Some chunks of a call, as a call. */
struct part {
    struct call call;
    struct terp_params params;
    uint64_t n;
    uint64_t *at; /* which */
    const void **src;
    uint64_t *src_nbytes;
    void **dst;
    uint64_t *dst_nbytes;
    enum terp_status *status;
};

static void
free_part(struct part *part)
{
    delete[] part->at;
    delete[] part->src;
    delete[] part->src_nbytes;
    delete[] part->dst;
    delete[] part->dst_nbytes;
    delete[] part->status;
}

/* With room for all chunks of `call`, to be coded as `trial` says. */
static bool
make_part(const struct call *call, const struct terp_trial *trial,
          struct part *part)
{
    const size_t n = (size_t)call->nchunks;

    *part = {};
    part->call = *call;
    part->call.found = NULL;
    if (!terp_shapes_are_equal(&trial->domain, call->chunk))
        part->call.domain = &trial->domain;
    if (call->params != NULL) {
        part->params = *call->params;
        part->params.predictor = trial->predictor;
        part->params.pipeline = trial->pipeline;
        part->call.params = &part->params;
    }
    part->at = new (std::nothrow) uint64_t[n];
    part->call.src = part->src = new (std::nothrow) const void *[n];
    part->call.src_nbytes = part->src_nbytes = new (std::nothrow) uint64_t[n];
    part->call.dst = part->dst = new (std::nothrow) void *[n];
    part->call.dst_nbytes = part->dst_nbytes = new (std::nothrow) uint64_t[n];
    part->call.status = part->status = new (std::nothrow) enum terp_status[n];
    return part->at != NULL && part->src != NULL && part->src_nbytes != NULL &&
           part->dst != NULL && part->dst_nbytes != NULL &&
           part->status != NULL;
}

static void
add_to_part(const struct call *call, uint64_t i, struct part *part)
{
    part->at[part->n] = i;
    part->src[part->n] = call->src[i];
    part->src_nbytes[part->n] = call->params == NULL ? call->src_nbytes[i] : 0;
    part->dst[part->n] = call->dst[i];
    part->call.nchunks = ++part->n;
}

static enum terp_status
copy(struct terp_cuda_device *device, const struct terp_cuda_call *where,
     uint64_t n, void *const *dst, const void *const *src,
     const uint64_t *nbytes)
{
    if (where->memory == TERP_MEMORY_DEVICE)
        return cuda_array_copy(device, where, n, dst, src, nbytes);
    for (uint64_t i = 0; i < n; i++)
        memcpy(dst[i], src[i], nbytes[i]);
    return TERP_OK;
}

/* Codes the chunks of a part where the smaller stream of two is to be kept. */
static enum terp_status
encode_trial(struct terp_cuda_device *device,
             const struct terp_cuda_call *where, const struct call *call,
             struct part *part)
{
    const uint64_t stride = (terp_encode_bound(call->chunk) + 15) / 16 * 16;
    void *memory = NULL;
    enum terp_status st = TERP_OK;

    if (call->host)
        memory = malloc(part->n * stride);
    else
        cuda_array_allocate(device, part->n * stride, &memory);
    for (uint64_t i = 0; i < part->n; i++)
        part->dst[i] = (uint8_t *)memory + i * stride;
    if (memory != NULL)
        st = do_call(device, where, &part->call);
    for (uint64_t i = 0; st == TERP_OK && i < part->n; i++) {
        uint64_t at = part->at[i], own_nbytes = call->dst_nbytes[at];
        /* Without memory, or what the CPU is to do in one domain, it does in
         * both. */
        if (memory == NULL || part->dst_nbytes[i] == 0) {
            call->dst_nbytes[at] = 0;
        } else if (own_nbytes != 0 && part->dst_nbytes[i] < own_nbytes) {
            const void *from = part->dst[i];
            st = copy(device, where, 1, &call->dst[at], &from,
                      &part->dst_nbytes[i]);
            call->dst_nbytes[at] = part->dst_nbytes[i];
        }
    }
    if (call->host)
        free(memory);
    else if (memory != NULL)
        cuda_array_release(device, memory);
    return st;
}

static bool
orders_are_equal(const struct order *a, const struct order *b)
{
    return a->how == b->how && a->trial.predictor == b->trial.predictor &&
           a->trial.pipeline == b->trial.pipeline &&
           terp_shapes_are_equal(&a->trial.domain, &b->trial.domain);
}

/* All chunks from the first on that have the same order, as many as one trial
 * holds. Their orders are taken back. */
static enum terp_status
code_part(struct terp_cuda_device *device, const struct terp_cuda_call *where,
          const struct call *call, struct order *orders, uint64_t first)
{
    const struct order like = orders[first];
    const uint64_t most =
        like.how == INSTEAD ? UINT64_MAX
                            : TRIAL_NBYTES / terp_chunk_nbytes(call->chunk) + 1;
    struct part part;
    enum terp_status st = TERP_ERR_MEMORY;

    if (make_part(call, &like.trial, &part)) {
        for (uint64_t i = first; i < call->nchunks && part.n < most; i++)
            if (orders_are_equal(&orders[i], &like)) {
                add_to_part(call, i, &part);
                orders[i].how = NOT_AGAIN;
            }
        st = like.how == IF_SMALLER ? encode_trial(device, where, call, &part)
                                    : do_call(device, where, &part.call);
        for (uint64_t i = 0; st == TERP_OK && i < part.n; i++)
            if (call->params == NULL)
                call->status[part.at[i]] = part.status[i];
            else if (like.how == INSTEAD)
                call->dst_nbytes[part.at[i]] = part.dst_nbytes[i];
    }
    free_part(&part);
    return st;
}

static enum terp_status
code_again(struct terp_cuda_device *device, const struct terp_cuda_call *where,
           const struct call *call, struct order *orders)
{
    enum terp_status st = TERP_OK;

    for (uint64_t i = 0; st == TERP_OK && i < call->nchunks; i++)
        if (orders[i].how != NOT_AGAIN)
            st = code_part(device, where, call, orders, i);
    return st;
}

/* A flat chunk, on the host. */
struct flat_chunk {
    const void *values;
    uint64_t nvalues;
    const struct found_domain *found;
};

template <typename T>
static void
flat_errors(void *arg, uint64_t lag, struct terp_lag_errors *errors_ret)
{
    const struct flat_chunk *flat = (const struct flat_chunk *)arg;
    typename value_traits<T>::WORD fills[TERP_NFILLS];

    for (int i = 0; i < TERP_NFILLS; i++)
        fills[i] = (typename value_traits<T>::WORD)flat->found->fills[i];
    for (uint64_t i = 0; i < TERP_DOMAIN_NSAMPLES; i++)
        errors_ret[i] =
            lag_errors_of((const T *)flat->values, flat->nvalues, fills,
                          terp_domain_sample_at(flat->nvalues, i), lag,
                          1 / flat->found->step);
}

template <typename T>
static void
swap_values(T *values, uint64_t n)
{
    uint8_t *bytes = (uint8_t *)values;

    for (uint64_t i = 0; i < n; i++, bytes += sizeof(T))
        for (size_t k = 0; k < sizeof(T) / 2; k++) {
            const uint8_t byte = bytes[k];
            bytes[k] = bytes[sizeof(T) - 1 - k];
            bytes[sizeof(T) - 1 - k] = byte;
        }
}

/* Searches for rows of a flat chunk, as the CPU engine does. */
static enum terp_status
find_rows(struct terp_cuda_device *device, const struct terp_cuda_call *where,
          const struct call *call, uint64_t i)
{
    const bool wide = call->chunk->type == TERP_FLOAT64;
    struct found_domain *found = &call->found[i];
    uint64_t nbytes = terp_chunk_nbytes(call->chunk);
    struct flat_chunk flat = {call->src[i], nbytes / (wide ? 8 : 4), found};
    void *values = NULL;
    enum terp_status st = TERP_OK;

    if (!call->host || call->chunk->big_endian) {
        values = malloc(nbytes);
        if (values == NULL)
            return TERP_ERR_MEMORY;
        st = copy(device, where, 1, &values, &flat.values, &nbytes);
        flat.values = values;
    }
    if (call->chunk->big_endian && wide)
        swap_values((double *)values, flat.nvalues);
    else if (call->chunk->big_endian)
        swap_values((float *)values, flat.nvalues);
    if (st == TERP_OK)
        st = terp_domain_find(
            call->chunk,
            terp_price_of_anchor(found->min, found->max, found->step),
            wide ? flat_errors<double> : flat_errors<float>, &flat,
            &found->domain, &found->verdict);
    free(values);
    return st;
}

/* The order of a chunk that was coded in its own shape, in one round of trials.
 * False if no later one has any. */
static bool
order_of_round(const struct call *call, const struct found_domain *found,
               int round, struct order *order_ret)
{
    const uint64_t nvalues = terp_chunk_nbytes(call->chunk) /
                             (call->chunk->type == TERP_FLOAT64 ? 8 : 4);
    struct terp_trial trials[TERP_MAX_NTRIALS];
    const int n = terp_trials_make(
        call->params, call->chunk,
        terp_domain_is_open(call->chunk, nvalues, call->params), &found->domain,
        found->verdict, trials);
    const bool is_instead = found->verdict == TERP_DOMAIN_TAKE &&
                            call->params->effort != TERP_EFFORT_BEST;

    order_ret->how = NOT_AGAIN;
    if (found->is_constant || round >= n)
        return false;
    if (is_instead || round > 0) {
        order_ret->how = is_instead ? INSTEAD : IF_SMALLER;
        order_ret->trial = trials[round];
    }
    return true;
}

/* Codes the chunks anew for which another domain was found, or whose caller
 * wants all to be tried. */
static enum terp_status
encode_again(struct terp_cuda_device *device,
             const struct terp_cuda_call *where, const struct call *call)
{
    struct order *orders =
        new (std::nothrow) struct order[(size_t)call->nchunks]();
    enum terp_status st = orders == NULL ? TERP_ERR_MEMORY : TERP_OK;
    bool more = true;

    for (uint64_t i = 0; st == TERP_OK && i < call->nchunks; i++)
        if (call->dst_nbytes[i] != 0 && call->found[i].is_periodic)
            st = find_rows(device, where, call, i);
    for (int round = 0; st == TERP_OK && more; round++) {
        more = false;
        for (uint64_t i = 0; i < call->nchunks; i++)
            /* What is left to the CPU needs no more. */
            if (call->dst_nbytes[i] != 0)
                more |=
                    order_of_round(call, &call->found[i], round, &orders[i]);
        st = code_again(device, where, call, orders);
    }
    delete[] orders;
    return st;
}

/* To decode a stream in the domain that its frame tells, if it is otherwise
 * like the call's. */
static struct order
order_of_frame(const struct call *call, const uint8_t *bytes, uint64_t nbytes)
{
    const struct terp_chunk *chunk = call->chunk;
    struct order order = {};
    struct terp_frame frame;
    int frame_nbytes;

    if (terp_frame_read(bytes, nbytes, &frame, &frame_nbytes) == TERP_OK &&
        frame.chunk.type == chunk->type &&
        frame.chunk.big_endian == chunk->big_endian &&
        terp_shapes_are_equal(&frame.chunk, chunk) &&
        !terp_shapes_are_equal(&frame.domain, chunk)) {
        order.how = INSTEAD;
        order.trial.domain = frame.domain;
    }
    return order;
}

/* Decodes what was left because it has another domain. */
static enum terp_status
decode_again(struct terp_cuda_device *device,
             const struct terp_cuda_call *where, const struct call *call)
{
    const size_t n = (size_t)call->nchunks;
    const struct terp_trial own = {*call->chunk, TERP_PREDICTOR_AUTO,
                                   TERP_PIPELINE_AUTO};
    struct order *orders = new (std::nothrow) struct order[n]();
    uint8_t *frames = new (std::nothrow) uint8_t[n * TERP_FRAME_MAX_NBYTES];
    struct part left;
    enum terp_status st = TERP_ERR_MEMORY;

    if (make_part(call, &own, &left) && orders != NULL && frames != NULL) {
        for (uint64_t i = 0; i < call->nchunks; i++) {
            if (call->status[i] != TERP_ERR_DEVICE || call->src_nbytes[i] == 0)
                continue;
            add_to_part(call, i, &left);
            left.dst[left.n - 1] = frames + i * TERP_FRAME_MAX_NBYTES;
            left.src_nbytes[left.n - 1] =
                min_u64(call->src_nbytes[i], TERP_FRAME_MAX_NBYTES);
        }
        st = copy(device, where, left.n, left.dst, left.src, left.src_nbytes);
        for (uint64_t i = 0; st == TERP_OK && i < left.n; i++)
            orders[left.at[i]] = order_of_frame(
                call, (const uint8_t *)left.dst[i], left.src_nbytes[i]);
        if (st == TERP_OK)
            st = code_again(device, where, call, orders);
    }
    free_part(&left);
    delete[] frames;
    delete[] orders;
    return st;
}

/* ---- the table of functions ---- */

static enum terp_status
encode(struct terp_cuda_device *device, const struct terp_cuda_call *where,
       const struct terp_params *params, const struct terp_chunk *chunk,
       uint64_t nchunks, const void *const *src, void *const *dst,
       uint64_t *dst_nbytes_ret)
{
    struct call call = {};

    for (uint64_t i = 0; i < nchunks; i++)
        dst_nbytes_ret[i] = 0;
    if (chunk->type == TERP_BYTES)
        return TERP_OK;
    call.chunk = chunk;
    call.params = params;
    call.nchunks = nchunks;
    call.src = src;
    call.dst = dst;
    call.dst_nbytes = dst_nbytes_ret;
    call.found = new (std::nothrow) struct found_domain[(size_t)nchunks]();
    if (call.found == NULL)
        return TERP_ERR_MEMORY;
    enum terp_status st = do_call(device, where, &call);
    if (st == TERP_OK)
        st = encode_again(device, where, &call);
    delete[] call.found;
    return st;
}

static enum terp_status
decode(struct terp_cuda_device *device, const struct terp_cuda_call *where,
       const struct terp_chunk *chunk, uint64_t nchunks, const void *const *src,
       const uint64_t *src_nbytes, void *const *dst,
       enum terp_status *status_ret)
{
    struct call call = {};

    for (uint64_t i = 0; i < nchunks; i++)
        status_ret[i] = TERP_ERR_DEVICE;
    if (chunk->type == TERP_BYTES)
        return TERP_OK;
    call.chunk = chunk;
    call.nchunks = nchunks;
    call.src = src;
    call.src_nbytes = src_nbytes;
    call.dst = dst;
    call.status = status_ret;
    enum terp_status st = do_call(device, where, &call);
    for (uint64_t i = 0; st == TERP_OK && i < nchunks; i++)
        if (status_ret[i] == TERP_ERR_DEVICE)
            return decode_again(device, where, &call);
    return st;
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
