/* Batches of chunks, coded by the codec and moved by the block's storage. No
 * function of HDF5 is called here. */
#include "filter/h5/batch.h"

#include <stdlib.h>

/* Values of a batch on the device: enough to fill it. */
#ifndef TERP_H5_DEVICE_BATCH_NBYTES
#define TERP_H5_DEVICE_BATCH_NBYTES (UINT64_C(256) << 20)
#endif

#define NCHUNKS_PER_THREAD 8

/* Of streams on the device (terp_encode_batch). */
#define STREAM_ALIGNMENT 16

void
terp_h5_batch_free(struct terp_h5_batch *batch)
{
    terp_memory_free(batch->run, batch->chunks);
    terp_memory_free(batch->run, batch->streams);
    if (batch->host_streams != batch->streams)
        free(batch->host_streams);
    free(batch->host_chunk);
    free((void *)batch->chunk);
    free((void *)batch->stream);
    free((void *)batch->host_stream);
    free(batch->stream_nbytes);
    free(batch->number);
    free(batch->status);
}

/* Memory of the run for `n` chunks and their streams. */
static enum terp_status
make_room(struct terp_h5_batch *batch, uint64_t n)
{
    void *chunks = NULL, *streams = NULL;
    uint64_t nbytes;

    if (!mul_fits(n, batch->stream_stride, &nbytes))
        return TERP_ERR_MEMORY;
    enum terp_status st = terp_memory_make(batch->run, nbytes, &chunks);
    if (st == TERP_OK)
        st = terp_memory_make(batch->run, nbytes, &streams);
    if (st != TERP_OK) {
        terp_memory_free(batch->run, chunks);
        return st;
    }
    batch->cap_nchunks = n;
    batch->chunks = chunks;
    batch->streams = streams;
    return TERP_OK;
}

/* What the host has. */
static enum terp_status
make_host_room(struct terp_h5_batch *batch)
{
    uint64_t n = batch->cap_nchunks;
    bool on_host = batch->run->call.memory == TERP_MEMORY_HOST;

    batch->host_streams =
        on_host ? batch->streams : malloc(n * batch->stream_stride);
    batch->host_chunk = on_host ? NULL : malloc(batch->chunk_nbytes);
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
                   uint64_t nbytes, struct terp_h5_batch *batch)
{
    enum terp_status st = TERP_ERR_MEMORY;

    memset(batch, 0, sizeof *batch);
    batch->run = run;
    batch->chunk_nbytes = terp_chunk_nbytes(&block->cd.chunk);
    batch->stream_stride =
        div_up(terp_encode_bound(&block->cd.chunk), STREAM_ALIGNMENT) *
        STREAM_ALIGNMENT;
    for (uint64_t n = min_u64(terp_array_nchunks(&block->array),
                              nbytes / batch->chunk_nbytes + 1);
         st == TERP_ERR_MEMORY && n > 0; n /= 2)
        st = make_room(batch, n);
    return st == TERP_OK ? make_host_room(batch) : st;
}

void
terp_h5_batch_take(struct terp_h5_batch *batch, uint64_t i, uint64_t number,
                   uint64_t j)
{
    batch->number[j] = number;
    batch->chunk[j] = batch->chunks + i * batch->chunk_nbytes;
    batch->stream[j] = batch->streams + i * batch->stream_stride;
    batch->host_stream[j] = batch->host_streams + i * batch->stream_stride;
}

enum terp_status
terp_h5_batch_encode(struct terp_h5_batch *batch,
                     const struct terp_h5_block *block,
                     const struct terp_params *params, uint64_t first,
                     uint64_t n, const void *values)
{
    struct terp_run *run = batch->run;

    /* One thread does them one by one, in memory that stays in its cache. */
    const uint64_t step =
        run->engine == TERP_ENGINE_CPU && run->cpu.nthreads == 1 ? 1 : n;
    enum terp_status st = TERP_OK;

    for (uint64_t i = 0; st == TERP_OK && i < n; i += step) {
        for (uint64_t j = 0; j < step; j++)
            terp_h5_batch_take(batch, i + j, first + i + j, i + j);
        st = terp_array_gather(run, &block->array, first + i, step, values,
                               batch->chunks);
        if (st == TERP_OK)
            st = terp_run_encode(run, params, &block->cd.chunk, step,
                                 (const void *const *)batch->chunk,
                                 &batch->stream[i], &batch->stream_nbytes[i]);
    }
    if (st == TERP_OK && run->call.memory == TERP_MEMORY_DEVICE)
        st = terp_memory_copy(run, n, batch->host_stream,
                              (const void *const *)batch->stream,
                              batch->stream_nbytes);
    return st;
}

/* Where in the dataset chunk `number` of the block begins. */
static void
find_place(const struct terp_h5_block *block, uint64_t number,
           hsize_t *place_ret)
{
    for (int d = block->rank - 1; d >= 0; d--) {
        uint64_t nchunks = div_up(block->count[d], block->chunk[d]);
        place_ret[d] = block->offset[d] + number % nchunks * block->chunk[d];
        number /= nchunks;
    }
}

enum terp_status
terp_h5_batch_store(const struct terp_h5_batch *batch,
                    const struct terp_h5_block *block, uint64_t n)
{
    hsize_t place[H5S_MAX_RANK];
    enum terp_status st = TERP_OK;

    for (uint64_t i = 0; st == TERP_OK && i < n; i++) {
        find_place(block, batch->number[i], place);
        st = block->storage->store(block, place, batch->host_stream[i],
                                   batch->stream_nbytes[i]);
    }
    return st;
}

/* A chunk that HDF5 has to read. */
static enum terp_status
read_chunk(const struct terp_h5_block *block, struct terp_h5_batch *batch,
           uint64_t number, void *chunk)
{
    hsize_t place[H5S_MAX_RANK] = {0}, count[H5S_MAX_RANK] = {0};
    bool on_host = batch->run->call.memory == TERP_MEMORY_HOST;
    void *on_its_way = on_host ? chunk : batch->host_chunk;
    const void *from = on_its_way;

    find_place(block, number, place);
    for (int d = 0; d < block->rank; d++)
        count[d] = min_u64(block->chunk[d], block->dims[d] - place[d]);
    enum terp_status st =
        block->storage->read(block, place, count, block->chunk, on_its_way);
    return st != TERP_OK || on_host
               ? st
               : terp_memory_copy(batch->run, 1, &chunk, &from,
                                  &batch->chunk_nbytes);
}

/* Decodes the first `n` streams that the batch has taken. */
static enum terp_status
decode_taken(const struct terp_h5_block *block, struct terp_h5_batch *batch,
             uint64_t n)
{
    struct terp_run *run = batch->run;
    enum terp_status st = TERP_OK;

    if (run->call.memory == TERP_MEMORY_DEVICE)
        st = terp_memory_copy(run, n, batch->stream,
                              (const void *const *)batch->host_stream,
                              batch->stream_nbytes);
    if (st != TERP_OK)
        return st;
    (void)terp_run_decode(run, &block->cd.chunk, 1, n,
                          (const void *const *)batch->stream,
                          batch->stream_nbytes, batch->chunk, batch->status);
    for (uint64_t i = 0; st == TERP_OK && i < n; i++) {
        st = batch->status[i];
        /* A stream that only the filter makes something of. */
        if (st == TERP_ERR_ARGUMENT)
            st = read_chunk(block, batch, batch->number[i], batch->chunk[i]);
    }
    return st;
}

enum terp_status
terp_h5_batch_read(struct terp_h5_batch *batch,
                   const struct terp_h5_block *block, uint64_t first,
                   uint64_t n, void *values)
{
    hsize_t place[H5S_MAX_RANK];
    enum terp_status st = TERP_OK;
    uint64_t ntaken = 0;

    for (uint64_t i = 0; st == TERP_OK && i < n; i++) {
        terp_h5_batch_take(batch, i, first + i, ntaken);
        find_place(block, first + i, place);
        st = block->storage->fetch(block, place, batch->host_stream[ntaken],
                                   batch->stream_stride,
                                   &batch->stream_nbytes[ntaken]);
        if (st == TERP_OK && batch->stream_nbytes[ntaken] == 0)
            st = read_chunk(block, batch, first + i, batch->chunk[ntaken]);
        else
            ntaken++;
    }
    if (st == TERP_OK)
        st = decode_taken(block, batch, ntaken);
    return st == TERP_OK ? terp_array_scatter(batch->run, &block->array, first,
                                              n, batch->chunks, values)
                         : st;
}

/* Values that are worth being in memory at a time. Threads of the CPU share as
 * many chunks as are needed to end about the same time: more memory only takes
 * time to get. */
static uint64_t
batch_nbytes(const struct terp_run *run, const struct terp_h5_block *block)
{
    if (run->call.memory == TERP_MEMORY_DEVICE)
        return TERP_H5_DEVICE_BATCH_NBYTES;
    if (run->engine != TERP_ENGINE_CPU)
        return TERP_H5_BATCH_NBYTES;
    return min_u64(TERP_H5_BATCH_NBYTES,
                   NCHUNKS_PER_THREAD * (uint64_t)run->cpu.nthreads *
                       terp_chunk_nbytes(&block->cd.chunk));
}

enum terp_status
terp_h5_batch_move(struct terp_run *run, const struct terp_h5_block *block,
                   const struct terp_params *params, const void *src, void *dst)
{
    uint64_t nchunks = terp_array_nchunks(&block->array), n;
    struct terp_params used = params != NULL ? *params : block->cd.params;
    struct terp_h5_batch batch;

    terp_cd_copy_fills(&block->cd, &used);
    enum terp_status st =
        terp_h5_batch_make(run, block, batch_nbytes(run, block), &batch);
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
