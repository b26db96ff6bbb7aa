/* Blocks of datasets by direct chunk I/O, in batches of chunks.
 *
 * The functions of HDF5 are those of the program's own library: this file is
 * for programs, not for the plugin. */
#include "terp_h5.h"

#include <stdlib.h>

#include "array.h"
#include "cd_values.h"
#include "h5z_terp.h"

/* Chunks of a batch: enough for many threads to share, few enough to be of no
 * weight beside what the program itself has in memory. */
#ifndef TERP_H5_BATCH_NBYTES
#define TERP_H5_BATCH_NBYTES (UINT64_C(64) << 20)
#endif

_Static_assert(TERP_ARRAY_MAX_RANK >= H5S_MAX_RANK, "any dataset's rank");

/* A part of a dataset, and how it is stored. */
struct block {
    hid_t dataset, type, space, dcpl;
    int rank;
    hsize_t dims[H5S_MAX_RANK]; /* of the dataset */
    hsize_t offset[H5S_MAX_RANK], count[H5S_MAX_RANK];
    hsize_t chunk[H5S_MAX_RANK]; /* dims of the chunks, where there are any */
    bool is_chunked;
    bool is_whole;      /* made of whole chunks */
    const char *reason; /* why HDF5 has to move the values; NULL: it need not */
    /* Where it need not: */
    struct terp_cd cd;
    struct terp_array array;
};

/* ---- what the dataset is ---- */

static enum terp_status
read_extent(struct block *block, const hsize_t *offset, const hsize_t *count)
{
    block->rank = H5Sget_simple_extent_ndims(block->space);
    if (block->rank < 0 ||
        H5Sget_simple_extent_dims(block->space, block->dims, NULL) < 0)
        return TERP_ERR_HDF5;
    for (int d = 0; d < block->rank; d++) {
        hsize_t begin = offset == NULL ? 0 : offset[d];
        if (begin > block->dims[d])
            return TERP_ERR_ARGUMENT;
        hsize_t room = block->dims[d] - begin;
        block->offset[d] = begin;
        block->count[d] = count == NULL ? room : count[d];
        if (block->count[d] > room)
            return TERP_ERR_ARGUMENT;
    }
    return TERP_OK;
}

static bool
is_empty(const struct block *block)
{
    for (int d = 0; d < block->rank; d++)
        if (block->count[d] == 0)
            return true;
    return false;
}

/* Where values beyond the dataset's end come from: as HDF5 does it. */
static enum terp_status
read_padding(const struct block *block, uint8_t *pad_ret)
{
    H5D_fill_value_t status;
    H5D_fill_time_t when;

    memset(pad_ret, 0, sizeof block->array.pad);
    if (H5Pfill_value_defined(block->dcpl, &status) < 0 ||
        H5Pget_fill_time(block->dcpl, &when) < 0)
        return TERP_ERR_HDF5;
    if (status == H5D_FILL_VALUE_UNDEFINED || when == H5D_FILL_TIME_NEVER)
        return TERP_OK;
    return H5Pget_fill_value(block->dcpl, block->type, pad_ret) < 0
               ? TERP_ERR_HDF5
               : TERP_OK;
}

/* Why the chunks are not streams of terp, as far as the dataset tells. */
static const char *
reason_of_filters(struct block *block)
{
    unsigned words[TERP_CD_MAX_NWORDS], flags, options;
    size_t nwords = TERP_CD_MAX_NWORDS;

    int nfilters = H5Pget_nfilters(block->dcpl);
    if (nfilters < 1 || H5Pget_filter2(block->dcpl, 0, &flags, &nwords, words,
                                       0, NULL, NULL) != H5Z_FILTER_TERP)
        return "the dataset's first filter is not terp";
    if (nfilters > 1)
        return "the dataset has other filters beside terp";
    if (H5Pget_chunk_opts(block->dcpl, &options) < 0 ||
        (options & H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS) != 0)
        return "the dataset's partial chunks are not filtered";
    nwords = min_u64(nwords, TERP_CD_MAX_NWORDS);
    if (terp_cd_parse(nwords, words, &block->cd, NULL) != TERP_OK ||
        !block->cd.persisted || block->cd.pass != TERP_PASS_NO)
        return "the dataset's values pass through terp as they are";
    return NULL;
}

/* The block as the codec sees it, and the reason why it cannot. */
static enum terp_status
read_chunks(struct block *block)
{
    struct terp_array *array = &block->array;

    if (H5Pget_layout(block->dcpl) != H5D_CHUNKED) {
        block->reason = "the dataset has no chunks";
        return TERP_OK;
    }
    block->is_chunked = true;
    if (H5Pget_chunk(block->dcpl, block->rank, block->chunk) != block->rank)
        return TERP_ERR_HDF5;
    block->is_whole = true;
    array->rank = block->rank;
    for (int d = 0; d < block->rank; d++) {
        hsize_t end = block->offset[d] + block->count[d];
        if (block->offset[d] % block->chunk[d] != 0 ||
            (block->count[d] % block->chunk[d] != 0 && end != block->dims[d]))
            block->is_whole = false;
        array->dims[d] = block->count[d];
        array->chunk[d] = block->chunk[d];
    }
    block->reason = reason_of_filters(block);
    if (block->reason != NULL)
        return TERP_OK;
    if (!block->is_whole) {
        block->reason = "the block is not made of whole chunks";
        return TERP_OK;
    }
    array->value_nbytes = block->cd.chunk.type == TERP_FLOAT32 ? 4 : 8;
    if (array->value_nbytes != H5Tget_size(block->type) ||
        terp_chunk_nbytes(&block->cd.chunk) !=
            terp_array_chunk_nvalues(array) * array->value_nbytes) {
        block->reason = "the cd_values are of another dataset";
        return TERP_OK;
    }
    return read_padding(block, array->pad);
}

static void
close_block(struct block *block)
{
    if (block->dcpl >= 0)
        H5Pclose(block->dcpl);
    if (block->space >= 0)
        H5Sclose(block->space);
    if (block->type >= 0)
        H5Tclose(block->type);
}

/* Must be closed, whatever the result. */
static enum terp_status
open_block(hid_t dataset, const hsize_t *offset, const hsize_t *count,
           struct block *block)
{
    memset(block, 0, sizeof *block);
    block->dataset = dataset;
    block->type = H5Dget_type(dataset);
    block->space = block->type < 0 ? -1 : H5Dget_space(dataset);
    block->dcpl = block->space < 0 ? -1 : H5Dget_create_plist(dataset);
    if (block->dcpl < 0)
        return TERP_ERR_HDF5;
    enum terp_status st = read_extent(block, offset, count);
    if (st != TERP_OK || is_empty(block))
        return st;
    return read_chunks(block);
}

/* ---- what HDF5 moves ---- */

/* A selection of `count` values from `offset` on, and a memory space whose
 * first `count` values of `memory_dims` are selected. */
static enum terp_status
select_values(const struct block *block, const hsize_t *offset,
              const hsize_t *count, const hsize_t *memory_dims,
              hid_t *memory_ret)
{
    static const hsize_t start[H5S_MAX_RANK];

    *memory_ret = H5Screate_simple(block->rank, memory_dims, NULL);
    if (*memory_ret < 0)
        return TERP_ERR_HDF5;
    if (H5Sselect_hyperslab(block->space, H5S_SELECT_SET, offset, NULL, count,
                            NULL) < 0 ||
        H5Sselect_hyperslab(*memory_ret, H5S_SELECT_SET, start, NULL, count,
                            NULL) < 0) {
        H5Sclose(*memory_ret);
        return TERP_ERR_HDF5;
    }
    return TERP_OK;
}

/* All of the block. */
static enum terp_status
write_by_hdf5(const struct block *block, const void *values)
{
    hid_t memory = H5S_ALL, space = H5S_ALL;
    enum terp_status st = TERP_OK;

    if (block->rank > 0) {
        st = select_values(block, block->offset, block->count, block->count,
                           &memory);
        space = block->space;
    }
    if (st != TERP_OK)
        return st;
    if (H5Dwrite(block->dataset, block->type, memory, space, H5P_DEFAULT,
                 values) < 0)
        st = TERP_ERR_HDF5;
    if (memory != H5S_ALL)
        H5Sclose(memory);
    return st;
}

/* `count` values from `offset` on, into an array of `dims`. */
static enum terp_status
read_by_hdf5(const struct block *block, const hsize_t *offset,
             const hsize_t *count, const hsize_t *dims, void *values)
{
    hid_t memory = H5S_ALL, space = H5S_ALL;
    enum terp_status st = TERP_OK;

    if (block->rank > 0) {
        st = select_values(block, offset, count, dims, &memory);
        space = block->space;
    }
    if (st != TERP_OK)
        return st;
    if (H5Dread(block->dataset, block->type, memory, space, H5P_DEFAULT,
                values) < 0)
        st = TERP_ERR_HDF5;
    if (memory != H5S_ALL)
        H5Sclose(memory);
    return st;
}

/* ---- batches of chunks ---- */

/* Room for `cap_nchunks` chunks and their streams. */
struct batch {
    uint64_t cap_nchunks, chunk_nbytes, stream_cap_nbytes;
    uint8_t *chunks, *streams;
    /* Of those that are coded: */
    void **chunk, **stream;
    uint64_t *stream_nbytes, *number;
    enum terp_status *status;
};

static void
free_batch(struct batch *batch)
{
    free(batch->chunks);
    free(batch->streams);
    free((void *)batch->chunk);
    free((void *)batch->stream);
    free(batch->stream_nbytes);
    free(batch->number);
    free(batch->status);
}

/* Must be freed, whatever the result. */
static enum terp_status
make_batch(const struct block *block, struct batch *batch)
{
    uint64_t nchunks = terp_array_nchunks(&block->array), nbytes;

    memset(batch, 0, sizeof *batch);
    batch->chunk_nbytes = terp_chunk_nbytes(&block->cd.chunk);
    batch->stream_cap_nbytes = terp_encode_bound(&block->cd.chunk);
    uint64_t n =
        min_u64(nchunks, TERP_H5_BATCH_NBYTES / batch->chunk_nbytes + 1);
    if (n == 0 || !mul_fits(n, batch->stream_cap_nbytes, &nbytes))
        return TERP_ERR_MEMORY;
    batch->cap_nchunks = n;
    batch->chunks = malloc(nbytes);
    batch->streams = malloc(nbytes);
    batch->chunk = (void **)calloc(n, sizeof *batch->chunk);
    batch->stream = (void **)calloc(n, sizeof *batch->stream);
    batch->stream_nbytes = calloc(n, sizeof *batch->stream_nbytes);
    batch->number = calloc(n, sizeof *batch->number);
    batch->status = calloc(n, sizeof *batch->status);
    return batch->chunks == NULL || batch->streams == NULL ||
                   batch->chunk == NULL || batch->stream == NULL ||
                   batch->stream_nbytes == NULL || batch->number == NULL ||
                   batch->status == NULL
               ? TERP_ERR_MEMORY
               : TERP_OK;
}

/* Where in the dataset chunk `number` of the block begins. */
static void
find_place(const struct block *block, uint64_t number, hsize_t *place_ret)
{
    for (int d = block->rank - 1; d >= 0; d--) {
        uint64_t nchunks = div_up(block->count[d], block->chunk[d]);
        place_ret[d] = block->offset[d] + number % nchunks * block->chunk[d];
        number /= nchunks;
    }
}

static enum terp_status
write_batch(struct terp_run *run, const struct block *block,
            const struct terp_params *params, struct batch *batch,
            uint64_t first, uint64_t n, const void *values)
{
    hsize_t place[H5S_MAX_RANK];

    terp_array_gather(&block->array, first, n, values, batch->chunks);
    for (uint64_t i = 0; i < n; i++) {
        batch->chunk[i] = batch->chunks + i * batch->chunk_nbytes;
        batch->stream[i] = batch->streams + i * batch->stream_cap_nbytes;
    }
    enum terp_status st = terp_encode_batch(
        run, params, &block->cd.chunk, n, (const void *const *)batch->chunk,
        batch->stream, batch->stream_nbytes);
    for (uint64_t i = 0; st == TERP_OK && i < n; i++) {
        find_place(block, first + i, place);
        if (H5Dwrite_chunk(block->dataset, H5P_DEFAULT, 0, place,
                           batch->stream_nbytes[i], batch->stream[i]) < 0)
            st = TERP_ERR_HDF5;
    }
    return st;
}

/* The stream of a chunk; *nbytes_ret is 0 where HDF5 has to read it. */
static enum terp_status
read_stream(const struct block *block, uint64_t number, void *stream,
            uint64_t stream_cap_nbytes, uint64_t *nbytes_ret)
{
    hsize_t place[H5S_MAX_RANK], nbytes = 0;
    uint32_t skipped;
    herr_t known;

    *nbytes_ret = 0;
    find_place(block, number, place);
    /* Of a chunk that was never written it says 0, or fails. */
    H5E_BEGIN_TRY
    {
        known = H5Dget_chunk_storage_size(block->dataset, place, &nbytes);
    }
    H5E_END_TRY
    if (known < 0 || nbytes == 0 || nbytes > stream_cap_nbytes)
        return TERP_OK;
    if (H5Dread_chunk(block->dataset, H5P_DEFAULT, place, &skipped, stream) < 0)
        return TERP_ERR_HDF5;
    *nbytes_ret = skipped == 0 ? nbytes : 0;
    return TERP_OK;
}

/* A chunk that HDF5 has to read. */
static enum terp_status
read_chunk(const struct block *block, uint64_t number, void *chunk)
{
    hsize_t place[H5S_MAX_RANK], count[H5S_MAX_RANK];

    find_place(block, number, place);
    for (int d = 0; d < block->rank; d++)
        count[d] = min_u64(block->chunk[d], block->dims[d] - place[d]);
    return read_by_hdf5(block, place, count, block->chunk, chunk);
}

static enum terp_status
read_batch(struct terp_run *run, const struct block *block, struct batch *batch,
           uint64_t first, uint64_t n, void *values)
{
    enum terp_status st = TERP_OK;
    uint64_t nstreams = 0;

    for (uint64_t i = 0; st == TERP_OK && i < n; i++) {
        uint8_t *chunk = batch->chunks + i * batch->chunk_nbytes;
        uint8_t *stream = batch->streams + i * batch->stream_cap_nbytes;
        st = read_stream(block, first + i, stream, batch->stream_cap_nbytes,
                         &batch->stream_nbytes[nstreams]);
        if (st == TERP_OK && batch->stream_nbytes[nstreams] == 0) {
            st = read_chunk(block, first + i, chunk);
        } else {
            batch->chunk[nstreams] = chunk;
            batch->stream[nstreams] = stream;
            batch->number[nstreams++] = first + i;
        }
    }
    if (st != TERP_OK)
        return st;
    (void)terp_decode_batch(run, &block->cd.chunk, nstreams,
                            (const void *const *)batch->stream,
                            batch->stream_nbytes, batch->chunk, batch->status);
    for (uint64_t i = 0; st == TERP_OK && i < nstreams; i++) {
        st = batch->status[i];
        /* A stream that only the filter makes something of. */
        if (st == TERP_ERR_ARGUMENT)
            st = read_chunk(block, batch->number[i], batch->chunk[i]);
    }
    if (st == TERP_OK)
        terp_array_scatter(&block->array, first, n, batch->chunks, values);
    return st;
}

/* ---- entry points ---- */

static enum terp_status
begin_run(struct terp_run *run)
{
    run->used = TERP_ENGINE_CPU;
    run->reason = NULL;
    return run->nthreads < 1 || (run->engine == TERP_ENGINE_CPU &&
                                 run->memory == TERP_MEMORY_DEVICE)
               ? TERP_ERR_ARGUMENT
               : TERP_OK;
}

static enum terp_status
write_chunks(struct terp_run *run, const struct block *block,
             const struct terp_params *params, const void *values)
{
    uint64_t nchunks = terp_array_nchunks(&block->array);
    struct terp_params used = block->cd.params;
    struct batch batch;

    if (params != NULL) {
        used = *params;
        used.has_fill = block->cd.params.has_fill;
        used.fill_bits = block->cd.params.fill_bits;
    }
    enum terp_status st = make_batch(block, &batch);
    for (uint64_t first = 0; st == TERP_OK && first < nchunks;
         first += batch.cap_nchunks)
        st = write_batch(run, block, &used, &batch, first,
                         min_u64(batch.cap_nchunks, nchunks - first), values);
    free_batch(&batch);
    return st;
}

static enum terp_status
read_chunks_of(struct terp_run *run, const struct block *block, void *values)
{
    uint64_t nchunks = terp_array_nchunks(&block->array);
    struct batch batch;

    enum terp_status st = make_batch(block, &batch);
    for (uint64_t first = 0; st == TERP_OK && first < nchunks;
         first += batch.cap_nchunks)
        st = read_batch(run, block, &batch, first,
                        min_u64(batch.cap_nchunks, nchunks - first), values);
    free_batch(&batch);
    return st;
}

enum terp_status
terp_h5_write(struct terp_run *run, hid_t dataset, const hsize_t *offset,
              const hsize_t *count, const struct terp_params *params,
              const void *values)
{
    struct block block;
    enum terp_status st = begin_run(run);

    if (st != TERP_OK)
        return st;
    st = open_block(dataset, offset, count, &block);
    if (st == TERP_OK && !is_empty(&block)) {
        run->reason = block.reason;
        if ((block.is_chunked && !block.is_whole) ||
            (params != NULL && block.reason != NULL))
            st = TERP_ERR_ARGUMENT;
        else if (block.reason != NULL)
            st = write_by_hdf5(&block, values);
        else
            st = write_chunks(run, &block, params, values);
    }
    close_block(&block);
    return st;
}

enum terp_status
terp_h5_read(struct terp_run *run, hid_t dataset, const hsize_t *offset,
             const hsize_t *count, void *values)
{
    struct block block;
    enum terp_status st = begin_run(run);

    if (st != TERP_OK)
        return st;
    st = open_block(dataset, offset, count, &block);
    if (st == TERP_OK && !is_empty(&block)) {
        run->reason = block.reason;
        st = block.reason != NULL
                 ? read_by_hdf5(&block, block.offset, block.count, block.count,
                                values)
                 : read_chunks_of(run, &block, values);
    }
    close_block(&block);
    return st;
}
