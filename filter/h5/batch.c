/* Lets the codec code batches of chunks, and the block's storage move their
 * streams. No function of HDF5 is called here. */
#include "filter/h5/batch.h"

#include <stdatomic.h>
#include <stdlib.h>

/* Bounds the values of a batch in device memory: enough chunks to occupy the
 * whole device. The call takes about twice as much device memory, for values
 * and streams (terp_h5.h names 512 MiB); tests set a small value. */
#ifndef TERP_H5_DEVICE_BATCH_NBYTES
#define TERP_H5_DEVICE_BATCH_NBYTES (UINT64_C(256) << 20)
#endif

/* Chunks of a batch for each CPU thread: several, so that threads whose chunks
 * take different times end at about the same time. Only streams are kept for
 * all of them, and pages that a stream does not reach take no memory.
 * batch_nbytes also bounds their bytes. */
#define NCHUNKS_PER_THREAD 16

/* The alignment that terp_encode_batch requires of streams on the device. */
#define STREAM_ALIGNMENT 16

void
terp_h5_batch_free(struct terp_h5_batch *batch)
{
    if (batch->pinned.at == NULL) {
        terp_memory_free(batch->run, batch->chunks);
        terp_memory_free(batch->run, batch->streams);
    }
    terp_memory_unpin(&batch->pinned);
    if (batch->host_streams != batch->streams)
        terp_release(batch->run->cpu.allocator, batch->host_streams);
    terp_release(batch->run->cpu.allocator, batch->host_chunk);
    free((void *)batch->chunk);
    free((void *)batch->stream);
    free((void *)batch->host_stream);
    free(batch->stream_nbytes);
    free(batch->number);
    free(batch->status);
}

/* Allocates memory of the run for `n` streams, and for the values of at most
 * `nvalued` of these chunks. */
static enum terp_status
allocate_run_memory(struct terp_h5_batch *batch, uint64_t n, uint64_t nvalued)
{
    void *chunks = NULL, *streams = NULL;
    uint64_t nbytes;

    if (!mul_fits(n, batch->stream_stride, &nbytes))
        return TERP_ERR_MEMORY;
    nvalued = min_u64(n, nvalued);
    const uint64_t values_nbytes = nvalued * batch->stream_stride;
    enum terp_status st = TERP_OK;
    if (values_nbytes <= UINT64_MAX - nbytes &&
        terp_memory_pin(batch->run, values_nbytes + nbytes, &batch->pinned)) {
        chunks = batch->pinned.at;
        streams = (uint8_t *)chunks + values_nbytes;
    } else {
        st = terp_memory_make(batch->run, values_nbytes, &chunks);
        if (st == TERP_OK)
            st = terp_memory_make(batch->run, nbytes, &streams);
    }
    if (st != TERP_OK) {
        terp_memory_free(batch->run, chunks);
        return st;
    }
    batch->cap_nchunks = n;
    batch->cap_nvalued = nvalued;
    batch->chunks = chunks;
    batch->streams = streams;
    return TERP_OK;
}

/* Allocates the batch's memory on the host. */
static enum terp_status
allocate_host_memory(struct terp_h5_batch *batch)
{
    const struct terp_allocator *allocator = batch->run->cpu.allocator;
    uint64_t n = batch->cap_nchunks;
    bool on_host = batch->run->call.memory == TERP_MEMORY_HOST;

    batch->host_streams =
        on_host ? batch->streams
                : terp_allocate(allocator, n * batch->stream_stride);
    batch->host_chunk =
        on_host ? NULL : terp_allocate(allocator, batch->chunk_nbytes);
    batch->chunk = (void **)calloc(n, sizeof *batch->chunk);
    batch->stream = (void **)calloc(n, sizeof *batch->stream);
    batch->host_stream = (void **)calloc(n, sizeof *batch->host_stream);
    batch->stream_nbytes = calloc(n, sizeof *batch->stream_nbytes);
    batch->number = calloc(n, sizeof *batch->number);
    batch->status = calloc(n, sizeof *batch->status);
    return batch->host_streams == NULL ||
                   (!on_host && batch->host_chunk == NULL) ||
                   batch->chunk == NULL || batch->stream == NULL ||
                   batch->host_stream == NULL || batch->stream_nbytes == NULL ||
                   batch->number == NULL || batch->status == NULL
               ? TERP_ERR_MEMORY
               : TERP_OK;
}

enum terp_status
terp_h5_batch_make(struct terp_run *run, const struct terp_h5_block *block,
                   uint64_t nbytes, uint64_t max_nvalued,
                   struct terp_h5_batch *batch)
{
    enum terp_status st = TERP_ERR_MEMORY;

    memset(batch, 0, sizeof *batch);
    batch->run = run;
    batch->chunk_nbytes = terp_chunk_nbytes(&block->cd.chunk);
    batch->stream_stride =
        div_up(terp_encode_bound(&block->cd.chunk), STREAM_ALIGNMENT) *
        STREAM_ALIGNMENT;
    /* The rest of the budget is for the codec's working memory. */
    if (nbytes != UINT64_MAX)
        nbytes = min_u64(nbytes, run->budget->limit_nbytes / 8);
    uint64_t n = nbytes / batch->chunk_nbytes;
    for (n = min_u64(terp_array_nchunks(&block->array), n > 0 ? n : 1);
         st == TERP_ERR_MEMORY && n > 0; n /= 2)
        st = allocate_run_memory(batch, n, max_nvalued);
    return st == TERP_OK ? allocate_host_memory(batch) : st;
}

void
terp_h5_batch_take(struct terp_h5_batch *batch, uint64_t i, uint64_t number,
                   uint64_t j)
{
    batch->number[j] = number;
    batch->chunk[j] =
        batch->chunks + i % batch->cap_nvalued * batch->chunk_nbytes;
    batch->stream[j] = batch->streams + i * batch->stream_stride;
    batch->host_stream[j] = batch->host_streams + i * batch->stream_stride;
}

/* ---- coding ---- */

/* A batch that is encoded from `src` or decoded to `dst`. */
struct coding {
    struct terp_h5_batch *batch;
    const struct terp_h5_block *block;
    const struct terp_params *params;
    const void *src;
    void *dst;
    atomic_int failed; /* a status */
    _Atomic(const char *) reason;
};

/* Whether each CPU thread codes one chunk after another. Chunks are then in
 * host memory, because terp_run_begin refuses device memory on the CPU. */
static bool
is_one_by_one(const struct terp_run *run)
{
    return run->engine == TERP_ENGINE_CPU;
}

/* Encodes `n` gathered chunks of the batch from chunk i on. */
static enum terp_status
encode_gathered(const struct coding *coding, struct terp_run *run, uint64_t i,
                uint64_t n)
{
    struct terp_h5_batch *batch = coding->batch;

    return terp_run_encode(run, coding->params, &coding->block->cd.chunk, n,
                           (const void *const *)batch->chunk + i,
                           batch->stream + i, batch->stream_nbytes + i);
}

static enum terp_status
gather(const struct coding *coding, struct terp_run *run, uint64_t i,
       uint64_t n)
{
    struct terp_h5_batch *batch = coding->batch;

    return terp_array_gather(run, &coding->block->array, batch->number[i], n,
                             coding->src, batch->chunk[i]);
}

/* Encodes `n` chunks of the batch from chunk i on; without `src` they were
 * gathered before. */
static enum terp_status
encode_taken(const struct coding *coding, struct terp_run *run, uint64_t i,
             uint64_t n)
{
    const enum terp_status st =
        coding->src == NULL ? TERP_OK : gather(coding, run, i, n);

    return st == TERP_OK ? encode_gathered(coding, run, i, n) : st;
}

/* Decodes `n` chunks of the batch from chunk i on. A stream that fails leaves
 * its error in the chunk's status. */
static void
decode_taken(const struct coding *coding, struct terp_run *run, uint64_t i,
             uint64_t n)
{
    struct terp_h5_batch *batch = coding->batch;

    (void)terp_run_decode(run, &coding->block->cd.chunk, NULL, 1, n,
                          (const void *const *)batch->stream + i,
                          batch->stream_nbytes + i, batch->chunk + i,
                          batch->status + i);
}

static enum terp_status
scatter(const struct coding *coding, struct terp_run *run, uint64_t number,
        uint64_t n, const void *chunks)
{
    return terp_array_scatter(run, &coding->block->array, number, n, chunks,
                              coding->dst);
}

/* The chunks of one thread, in memory of its own. */
static void
code_one_by_one(void *arg, struct terp_cpu_batch_part part)
{
    struct coding *coding = arg;
    struct terp_h5_batch *batch = coding->batch;
    struct terp_run run;
    enum terp_status st = TERP_OK;

    terp_run_branch(batch->run, &run);
    run.cpu.nthreads = part.nthreads;
    for (uint64_t i = part.first; st == TERP_OK && i < part.end; i++) {
        batch->chunk[i] =
            batch->chunks + (uint64_t)part.thread * batch->chunk_nbytes;
        if (coding->dst == NULL) {
            st = encode_taken(coding, &run, i, 1);
            continue;
        }
        decode_taken(coding, &run, i, 1);
        if (batch->status[i] == TERP_OK)
            st = scatter(coding, &run, batch->number[i], 1, batch->chunk[i]);
    }
    if (st != TERP_OK) {
        atomic_store(&coding->failed, (int)st);
        atomic_store(&coding->reason, run.result.reason);
    }
}

static enum terp_status
code_by_threads(struct coding *coding, uint64_t n)
{
    struct terp_run *run = coding->batch->run;

    run->result = (struct terp_run_result){.used = TERP_ENGINE_CPU};
    terp_run_share(run, code_one_by_one, coding, n);
    run->result.reason = coding->reason;
    return (enum terp_status)coding->failed;
}

enum terp_status
terp_h5_batch_encode(struct terp_h5_batch *batch,
                     const struct terp_h5_block *block,
                     const struct terp_params *params, uint64_t first,
                     uint64_t n, const void *values)
{
    struct terp_run *run = batch->run;
    struct coding coding = {.batch = batch,
                            .block = block,
                            .params = params,
                            .src = values,
                            .failed = TERP_OK};

    for (uint64_t i = 0; i < n; i++)
        terp_h5_batch_take(batch, i, first + i, i);
    enum terp_status st = is_one_by_one(run) ? code_by_threads(&coding, n)
                                             : encode_taken(&coding, run, 0, n);
    if (st == TERP_OK && run->call.memory == TERP_MEMORY_DEVICE)
        st = terp_memory_copy(run, n, batch->host_stream,
                              (const void *const *)batch->stream,
                              batch->stream_nbytes);
    return st;
}

bool
terp_h5_batch_takes_slices(const struct terp_h5_batch *batch,
                           const struct terp_h5_block *block, int dim)
{
    return !is_one_by_one(batch->run) &&
           batch->run->call.memory == TERP_MEMORY_HOST &&
           batch->cap_nvalued >= terp_array_nchunks(&block->array) &&
           terp_array_has_slices(&block->array, dim);
}

void
terp_h5_batch_take_slice(struct terp_h5_batch *batch,
                         const struct terp_h5_block *block, int dim,
                         uint64_t begin, uint64_t end, const void *values)
{
    terp_array_gather_slice(&block->array, dim, begin, end, values,
                            batch->chunks);
}

void
terp_h5_batch_unpin(struct terp_h5_batch *batch, uint64_t n)
{
    uint64_t nbytes = 0;

    for (uint64_t i = 0; i < n; i++)
        nbytes += batch->stream_nbytes[i];
    uint8_t *streams = batch->pinned.at == NULL
                           ? NULL
                           : terp_allocate(batch->run->cpu.allocator, nbytes);
    if (streams == NULL)
        return;
    batch->host_streams = streams;
    for (uint64_t i = 0; i < n; i++) {
        memcpy(streams, batch->host_stream[i], batch->stream_nbytes[i]);
        batch->host_stream[i] = streams;
        streams += batch->stream_nbytes[i];
    }
    terp_memory_unpin(&batch->pinned);
    batch->pinned.at = NULL;
    batch->chunks = batch->streams = NULL;
}

/* ---- storing ---- */

/* The first value of the block's chunk `number`, in the dataset. */
static void
find_offset(const struct terp_h5_block *block, uint64_t number,
            hsize_t *offset_ret)
{
    for (int d = block->rank - 1; d >= 0; d--) {
        uint64_t nchunks = div_up(block->count[d], block->chunk[d]);
        offset_ret[d] = block->offset[d] + number % nchunks * block->chunk[d];
        number /= nchunks;
    }
}

enum terp_status
terp_h5_batch_store(const struct terp_h5_batch *batch,
                    const struct terp_h5_block *block, uint64_t n)
{
    hsize_t offset[H5S_MAX_RANK];
    enum terp_status st = TERP_OK;

    for (uint64_t i = 0; st == TERP_OK && i < n; i++) {
        find_offset(block, batch->number[i], offset);
        st = block->storage->store(block, offset, batch->host_stream[i],
                                   batch->stream_nbytes[i]);
    }
    return st;
}

/* ---- reading ---- */

/* Lets HDF5 read a chunk to `chunk`; and scatters it to the values at once
 * where chunks are coded one by one. */
static enum terp_status
read_chunk(const struct coding *coding, uint64_t number, void *chunk)
{
    const struct terp_h5_block *block = coding->block;
    struct terp_run *run = coding->batch->run;
    hsize_t offset[H5S_MAX_RANK] = {0}, count[H5S_MAX_RANK] = {0};
    bool on_host = run->call.memory == TERP_MEMORY_HOST;
    void *read_to = on_host ? chunk : coding->batch->host_chunk;
    const void *from = read_to;

    find_offset(block, number, offset);
    for (int d = 0; d < block->rank; d++)
        count[d] = min_u64(block->chunk[d], block->dims[d] - offset[d]);
    enum terp_status st =
        block->storage->read(block, offset, count, block->chunk, read_to);
    if (st == TERP_OK && !on_host)
        st = terp_memory_copy(run, 1, &chunk, &from,
                              &coding->batch->chunk_nbytes);
    if (st == TERP_OK && is_one_by_one(run))
        st = scatter(coding, run, number, 1, chunk);
    return st;
}

/* Fetches the streams of chunks [first, first + n), and reads chunks without a
 * stream. */
static enum terp_status
fetch_streams(const struct coding *coding, uint64_t first, uint64_t n,
              uint64_t *ntaken_ret)
{
    struct terp_h5_batch *batch = coding->batch;
    hsize_t offset[H5S_MAX_RANK];
    enum terp_status st = TERP_OK;
    uint64_t ntaken = 0;

    for (uint64_t i = 0; st == TERP_OK && i < n; i++) {
        terp_h5_batch_take(batch, i, first + i, ntaken);
        find_offset(coding->block, first + i, offset);
        st = coding->block->storage->fetch(
            coding->block, offset, batch->host_stream[ntaken],
            batch->stream_stride, &batch->stream_nbytes[ntaken]);
        if (st == TERP_OK && batch->stream_nbytes[ntaken] == 0)
            st = read_chunk(coding, first + i, batch->chunk[ntaken]);
        else
            ntaken++;
    }
    *ntaken_ret = ntaken;
    return st;
}

/* Decodes the streams of the batch's first `n` chunks, without HDF5. */
static enum terp_status
decode_streams(struct coding *coding, uint64_t n)
{
    struct terp_h5_batch *batch = coding->batch;
    struct terp_run *run = batch->run;
    enum terp_status st = TERP_OK;

    if (n > 0 && run->call.memory == TERP_MEMORY_DEVICE)
        st = terp_memory_copy(run, n, batch->stream,
                              (const void *const *)batch->host_stream,
                              batch->stream_nbytes);
    if (st != TERP_OK)
        return st;
    if (is_one_by_one(run))
        return code_by_threads(coding, n);
    if (n > 0)
        decode_taken(coding, run, 0, n);
    return TERP_OK;
}

/* Lets HDF5 read the chunks whose streams only the filter can decode. */
static enum terp_status
read_others(const struct coding *coding, uint64_t n)
{
    const struct terp_h5_batch *batch = coding->batch;
    enum terp_status st = TERP_OK;

    for (uint64_t i = 0; st == TERP_OK && i < n; i++) {
        st = batch->status[i];
        if (st != TERP_ERR_ARGUMENT)
            continue;
        st = terp_h5_block_check_size(coding->block, batch->host_stream[i],
                                      batch->stream_nbytes[i]);
        if (st == TERP_OK)
            st = read_chunk(coding, batch->number[i], batch->chunk[i]);
    }
    return st;
}

static enum terp_status
read_batch(struct terp_h5_batch *batch, const struct terp_h5_block *block,
           uint64_t first, uint64_t n, void *values)
{
    struct coding coding = {
        .batch = batch, .block = block, .dst = values, .failed = TERP_OK};
    uint64_t ntaken;

    enum terp_status st = fetch_streams(&coding, first, n, &ntaken);
    if (st == TERP_OK)
        st = decode_streams(&coding, ntaken);
    if (st == TERP_OK)
        st = read_others(&coding, ntaken);
    return st == TERP_OK && !is_one_by_one(batch->run)
               ? scatter(&coding, batch->run, first, n, batch->chunks)
               : st;
}

/* ---- two batches ---- */

/* The values of a batch move between the caller's memory and pinned memory
 * while the device codes another batch. */
struct turns {
    struct terp_h5_batch batch[2];
    struct coding coding[2];
    uint64_t first[2], n[2], ntaken[2]; /* of each batch; n is 0: none */
    struct terp_run mover;              /* for the threads that move values */
    struct terp_run pair; /* for two threads, one for each batch */
    int coded;            /* which batch the device codes */
    enum terp_status st[2];
};

static void
code_turn(struct turns *turns, int i)
{
    struct coding *coding = &turns->coding[i];

    if (turns->n[i] == 0)
        return;
    turns->st[i] =
        coding->dst == NULL
            ? encode_gathered(coding, coding->batch->run, 0, turns->n[i])
            : decode_streams(coding, turns->ntaken[i]);
}

static void
move_turn(struct turns *turns, int i)
{
    struct coding *coding = &turns->coding[i];

    if (turns->n[i] == 0)
        return;
    turns->st[i] = coding->dst == NULL
                       ? gather(coding, &turns->mover, 0, turns->n[i])
                       : scatter(coding, &turns->mover, turns->first[i],
                                 turns->n[i], coding->batch->chunks);
}

/* Part 0: the device codes a batch; part 1: the values of the other move. */
static void
do_parts(void *arg, struct terp_cpu_batch_part part)
{
    struct turns *turns = arg;

    for (uint64_t i = part.first; i < part.end; i++)
        if (i == 0)
            code_turn(turns, turns->coded);
        else
            move_turn(turns, !turns->coded);
}

/* Begins batch `i` with the next chunks, at most its capacity. */
static enum terp_status
begin_turn(struct turns *turns, int i, uint64_t first, uint64_t nchunks)
{
    const struct coding *coding = &turns->coding[i];

    turns->first[i] = first;
    turns->n[i] = min_u64(coding->batch->cap_nchunks, nchunks - first);
    if (coding->dst != NULL)
        return fetch_streams(coding, first, turns->n[i], &turns->ntaken[i]);
    for (uint64_t j = 0; j < turns->n[i]; j++)
        terp_h5_batch_take(coding->batch, j, first + j, j);
    return TERP_OK;
}

static enum terp_status
take_turns(struct turns *turns, uint64_t nchunks)
{
    const bool reads = turns->coding[0].dst != NULL;
    enum terp_status st = TERP_OK;
    uint64_t next = 0;

    for (int now = 0;; now = !now) {
        st = begin_turn(turns, now, next, nchunks);
        if (st != TERP_OK)
            return st;
        next += turns->n[now];
        turns->coded = reads ? now : !now;
        terp_run_share(&turns->pair, do_parts, turns, 2);
        st = turns->st[0] != TERP_OK ? turns->st[0] : turns->st[1];
        if (st == TERP_OK)
            st = reads ? read_others(&turns->coding[now], turns->ntaken[now])
                       : terp_h5_batch_store(&turns->batch[!now],
                                             turns->coding[0].block,
                                             turns->n[!now]);
        turns->n[!now] = 0;
        if (st != TERP_OK || turns->n[now] == 0)
            return st;
    }
}

static enum terp_status
move_by_turns(struct terp_run *run, const struct terp_h5_block *block,
              const struct terp_params *params, const void *src, void *dst)
{
    const uint64_t nbytes = TERP_H5_BATCH_NBYTES / 2;
    struct turns turns = {.coded = 0};
    enum terp_status st = TERP_OK;

    terp_run_branch(run, &turns.pair);
    turns.pair.cpu.nthreads = 2;
    terp_run_branch(run, &turns.mover);
    turns.mover.cpu.nthreads--; /* one waits for the device */
    for (int i = 0; i < 2; i++) {
        turns.coding[i] = (struct coding){.batch = &turns.batch[i],
                                          .block = block,
                                          .params = params,
                                          .src = src,
                                          .dst = dst,
                                          .failed = TERP_OK};
        if (st == TERP_OK)
            st = terp_h5_batch_make(run, block, nbytes, UINT64_MAX,
                                    &turns.batch[i]);
    }
    if (st == TERP_OK)
        st = take_turns(&turns, terp_array_nchunks(&block->array));
    for (int i = 0; i < 2; i++)
        if (turns.batch[i].run != NULL)
            terp_h5_batch_free(&turns.batch[i]);
    return st;
}

uint64_t
terp_h5_batch_nbytes(const struct terp_run *run,
                     const struct terp_h5_block *block)
{
    if (run->call.memory == TERP_MEMORY_DEVICE)
        return TERP_H5_DEVICE_BATCH_NBYTES;
    if (run->engine != TERP_ENGINE_CPU)
        return TERP_H5_BATCH_NBYTES;
    const uint64_t limit = 2 * TERP_H5_BATCH_NBYTES;
    const uint64_t one_a_thread =
        (uint64_t)run->cpu.nthreads * terp_chunk_nbytes(&block->cd.chunk);
    return one_a_thread > limit ? limit
                                : one_a_thread * min_u64(NCHUNKS_PER_THREAD,
                                                         limit / one_a_thread);
}

enum terp_status
terp_h5_batch_move(struct terp_run *run, const struct terp_h5_block *block,
                   const struct terp_params *params, const void *src, void *dst)
{
    uint64_t nchunks = terp_array_nchunks(&block->array), n;
    struct terp_params used =
        params != NULL ? *params : terp_cd_new_params(&block->cd);
    struct terp_h5_batch batch;

    terp_cd_copy_fills(&block->cd, &used);
    if (run->engine != TERP_ENGINE_CPU &&
        run->call.memory == TERP_MEMORY_HOST && run->cpu.nthreads > 1)
        return move_by_turns(run, block, &used, src, dst);
    enum terp_status st = terp_h5_batch_make(
        run, block, terp_h5_batch_nbytes(run, block),
        is_one_by_one(run) ? (uint64_t)run->cpu.nthreads : UINT64_MAX, &batch);
    for (uint64_t first = 0; st == TERP_OK && first < nchunks; first += n) {
        n = min_u64(batch.cap_nchunks, nchunks - first);
        if (src == NULL) {
            st = read_batch(&batch, block, first, n, dst);
            continue;
        }
        st = terp_h5_batch_encode(&batch, block, &used, first, n, src);
        if (st == TERP_OK)
            st = terp_h5_batch_store(&batch, block, n);
    }
    terp_h5_batch_free(&batch);
    return st;
}
