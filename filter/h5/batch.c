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
    terp_memory_free(batch->run, batch->chunks);
    terp_memory_free(batch->run, batch->streams);
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
    enum terp_status st =
        terp_memory_make(batch->run, nvalued * batch->stream_stride, &chunks);
    if (st == TERP_OK)
        st = terp_memory_make(batch->run, nbytes, &streams);
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

/* Encodes `n` chunks of the batch from chunk i on. */
static enum terp_status
encode_taken(const struct coding *coding, struct terp_run *run, uint64_t i,
             uint64_t n)
{
    struct terp_h5_batch *batch = coding->batch;
    const struct terp_h5_block *block = coding->block;
    const enum terp_status st = terp_array_gather(
        run, &block->array, batch->number[i], n, coding->src, batch->chunk[i]);

    return st == TERP_OK
               ? terp_run_encode(run, coding->params, &block->cd.chunk, n,
                                 (const void *const *)batch->chunk + i,
                                 batch->stream + i, batch->stream_nbytes + i)
               : st;
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

/* Decodes the streams of the batch's first `n` chunks. */
static enum terp_status
decode_streams(struct coding *coding, uint64_t n)
{
    struct terp_h5_batch *batch = coding->batch;
    struct terp_run *run = batch->run;
    enum terp_status st = TERP_OK;

    if (run->call.memory == TERP_MEMORY_DEVICE)
        st = terp_memory_copy(run, n, batch->stream,
                              (const void *const *)batch->host_stream,
                              batch->stream_nbytes);
    if (st != TERP_OK)
        return st;
    if (is_one_by_one(run))
        st = code_by_threads(coding, n);
    else
        decode_taken(coding, run, 0, n);
    for (uint64_t i = 0; st == TERP_OK && i < n; i++) {
        st = batch->status[i];
        /* A stream that only the filter can decode: HDF5 calls it. */
        if (st == TERP_ERR_ARGUMENT) {
            st = terp_h5_block_check_size(coding->block, batch->host_stream[i],
                                          batch->stream_nbytes[i]);
            if (st == TERP_OK)
                st = read_chunk(coding, batch->number[i], batch->chunk[i]);
        }
    }
    return st;
}

enum terp_status
terp_h5_batch_read(struct terp_h5_batch *batch,
                   const struct terp_h5_block *block, uint64_t first,
                   uint64_t n, void *values)
{
    struct coding coding = {
        .batch = batch, .block = block, .dst = values, .failed = TERP_OK};
    hsize_t offset[H5S_MAX_RANK];
    enum terp_status st = TERP_OK;
    uint64_t ntaken = 0;

    for (uint64_t i = 0; st == TERP_OK && i < n; i++) {
        terp_h5_batch_take(batch, i, first + i, ntaken);
        find_offset(block, first + i, offset);
        st = block->storage->fetch(block, offset, batch->host_stream[ntaken],
                                   batch->stream_stride,
                                   &batch->stream_nbytes[ntaken]);
        if (st == TERP_OK && batch->stream_nbytes[ntaken] == 0)
            st = read_chunk(&coding, first + i, batch->chunk[ntaken]);
        else
            ntaken++;
    }
    if (st == TERP_OK)
        st = decode_streams(&coding, ntaken);
    return st == TERP_OK && !is_one_by_one(batch->run)
               ? scatter(&coding, batch->run, first, n, batch->chunks)
               : st;
}

/* Bytes of values of a batch. CPU threads get the same number of chunks each,
 * and enough of them to end at about the same time; the values of only one
 * chunk for each thread are in memory. */
static uint64_t
batch_nbytes(const struct terp_run *run, const struct terp_h5_block *block)
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
    struct terp_params used = params != NULL ? *params : block->cd.params;
    struct terp_h5_batch batch;

    terp_cd_copy_fills(&block->cd, &used);
    enum terp_status st = terp_h5_batch_make(
        run, block, batch_nbytes(run, block),
        is_one_by_one(run) ? (uint64_t)run->cpu.nthreads : UINT64_MAX, &batch);
    for (uint64_t first = 0; st == TERP_OK && first < nchunks; first += n) {
        n = min_u64(batch.cap_nchunks, nchunks - first);
        if (src == NULL) {
            st = terp_h5_batch_read(&batch, block, first, n, dst);
            continue;
        }
        st = terp_h5_batch_encode(&batch, block, &used, first, n, src);
        if (st == TERP_OK)
            st = terp_h5_batch_store(&batch, block, n);
    }
    terp_h5_batch_free(&batch);
    return st;
}
