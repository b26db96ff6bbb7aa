/* Fetches the chunks that hold selected values, decodes only the levels that
 * hold them, and copies them out. No function of HDF5 is called here. */
#include "filter/h5/strided.h"

#include <stdlib.h>

#include "codec/format/types.h"

/* Chunks of a batch for each thread: several, so that threads whose chunks take
 * different times end at about the same time. allocate_memory bounds their
 * bytes. */
#define NCHUNKS_PER_THREAD 8

/* Upper limit of the step: the bit that is left where no distance between
 * selected values limits the step. */
#define MAX_STEP (UINT64_C(1) << 32)

/* The selected values in one chunk. */
struct wanted {
    hsize_t offset[H5S_MAX_RANK]; /* of the chunk, in the dataset */
    hsize_t to[H5S_MAX_RANK];     /* of the first value, in the result */
    hsize_t n[H5S_MAX_RANK];      /* values along each dimension */
};

/* One call, and the batch of chunks that it decodes at a time. */
struct reading {
    const struct terp_h5_block *block;
    const struct terp_h5_strided *strided;
    struct terp_run run; /* on the CPU, in host memory */
    uint64_t step;
    uint64_t chunk_nbytes; /* of the decoded levels of a chunk */
    uint64_t stream_cap_nbytes;
    uint64_t cap_nchunks, ntaken;
    struct wanted *wanted; /* [cap_nchunks] */
    void *streams, *chunks;
    void *whole; /* a chunk that HDF5 reads; NULL until the first one */
    void **stream, **chunk;
    uint64_t *stream_nbytes;
    enum terp_status *status;
    uint8_t *dst;
};

/* Whether the codec's chunk has the dims of HDF5's chunk, apart from dims of
 * 1. */
static bool
has_dims_of_chunks(const struct terp_h5_block *block)
{
    const struct terp_chunk *chunk = &block->cd.chunk;
    int i = 0;

    for (int d = 0; d < block->rank; d++) {
        if (block->chunk[d] == 1)
            continue;
        while (i < chunk->rank && chunk->dims[i] == 1)
            i++;
        if (i == chunk->rank || chunk->dims[i++] != block->chunk[d])
            return false;
    }
    return true;
}

static hsize_t
last_of(const struct terp_h5_strided *strided, int d)
{
    return strided->start[d] + (strided->count[d] - 1) * strided->stride[d];
}

uint64_t
terp_h5_strided_step(const struct terp_h5_block *block,
                     const struct terp_h5_strided *strided)
{
    uint64_t all = MAX_STEP;

    if (!has_dims_of_chunks(block))
        return 1;
    for (int d = 0; d < block->rank; d++) {
        const hsize_t chunk = block->chunk[d], start = strided->start[d];
        if (chunk == 1)
            continue;
        all |= start % chunk;
        if (strided->count[d] > 1)
            all |= strided->stride[d];
        if (last_of(strided, d) / chunk != start / chunk)
            all |= chunk;
    }
    return all & (0 - all); /* the lowest bit */
}

/* Finds the selected values in the chunk at `wanted->offset`; false: none. */
static bool
find_wanted(const struct terp_h5_block *block,
            const struct terp_h5_strided *strided, struct wanted *wanted)
{
    for (int d = 0; d < block->rank; d++) {
        const hsize_t start = strided->start[d], stride = strided->stride[d];
        const hsize_t begin = wanted->offset[d];
        const hsize_t end = begin + block->chunk[d];
        const hsize_t first = begin > start ? div_up(begin - start, stride) : 0;
        /* No underflow: no chunk ends before the first selected value. */
        const hsize_t stop =
            min_u64(div_up(end - start, stride), strided->count[d]);
        if (first >= stop)
            return false;
        wanted->to[d] = first;
        wanted->n[d] = stop - first;
    }
    return true;
}

/* Copies the selected values out of `values`, an array of every step-th value
 * of the chunk. */
static void
pick(const struct reading *reading, const struct wanted *wanted, uint64_t step,
     const uint8_t *values)
{
    const struct terp_h5_block *block = reading->block;
    const struct terp_h5_strided *strided = reading->strided;
    const uint64_t nbytes = block->array.value_nbytes;
    const int last = block->rank - 1;
    uint64_t nrows = 1;

    for (int d = 0; d < last; d++)
        nrows *= wanted->n[d];
    for (uint64_t row = 0; row < nrows; row++) {
        uint64_t left = row, from = 0, to = 0, from_size = 1, to_size = 1;
        for (int d = last; d >= 0; d--) {
            const uint64_t i = d == last ? 0 : left % wanted->n[d];
            left /= d == last ? 1 : wanted->n[d];
            from +=
                (strided->start[d] + (wanted->to[d] + i) * strided->stride[d] -
                 wanted->offset[d]) /
                step * from_size;
            to += (wanted->to[d] + i) * to_size;
            from_size *= div_up(block->chunk[d], step);
            to_size *= strided->count[d];
        }
        for (uint64_t i = 0; i < wanted->n[last]; i++)
            memcpy(reading->dst + (to + i) * nbytes,
                   values + (from + i * strided->stride[last] / step) * nbytes,
                   nbytes);
    }
}

/* Lets HDF5 read a whole chunk, and copies the selected values. */
static enum terp_status
read_whole(struct reading *reading, const struct wanted *wanted)
{
    const struct terp_h5_block *block = reading->block;
    hsize_t count[H5S_MAX_RANK];

    enum terp_status st = TERP_OK;
    if (reading->whole == NULL)
        st =
            terp_memory_make(&reading->run, terp_chunk_nbytes(&block->cd.chunk),
                             &reading->whole);
    if (st != TERP_OK)
        return st;
    for (int d = 0; d < block->rank; d++)
        count[d] = min_u64(block->chunk[d], block->dims[d] - wanted->offset[d]);
    st = block->storage->read(block, wanted->offset, count, block->chunk,
                              reading->whole);
    if (st == TERP_OK)
        pick(reading, wanted, 1, reading->whole);
    return st;
}

/* Lets HDF5 read a chunk whose stream only the filter can decode. */
static enum terp_status
read_by_filter(struct reading *reading, uint64_t i)
{
    const enum terp_status st = terp_h5_block_check_size(
        reading->block, reading->stream[i], reading->stream_nbytes[i]);

    return st == TERP_OK ? read_whole(reading, &reading->wanted[i]) : st;
}

static enum terp_status
decode_taken(struct reading *reading)
{
    enum terp_status st = TERP_OK;

    (void)terp_run_decode(
        &reading->run, &reading->block->cd.chunk, NULL, reading->step,
        reading->ntaken, (const void *const *)reading->stream,
        reading->stream_nbytes, reading->chunk, reading->status);
    for (uint64_t i = 0; st == TERP_OK && i < reading->ntaken; i++) {
        st = reading->status[i];
        if (st == TERP_OK)
            pick(reading, &reading->wanted[i], reading->step,
                 reading->chunk[i]);
        else if (st == TERP_ERR_ARGUMENT)
            st = read_by_filter(reading, i);
    }
    reading->ntaken = 0;
    return st;
}

static enum terp_status
take_chunk(struct reading *reading, const struct wanted *wanted)
{
    const struct terp_h5_block *block = reading->block;
    const uint64_t i = reading->ntaken;

    reading->wanted[i] = *wanted;
    reading->stream[i] =
        (uint8_t *)reading->streams + i * reading->stream_cap_nbytes;
    reading->chunk[i] = (uint8_t *)reading->chunks + i * reading->chunk_nbytes;
    enum terp_status st = block->storage->fetch(
        block, wanted->offset, reading->stream[i], reading->stream_cap_nbytes,
        &reading->stream_nbytes[i]);
    if (st != TERP_OK)
        return st;
    if (reading->stream_nbytes[i] == 0)
        return read_whole(reading, wanted);
    reading->ntaken++;
    return reading->ntaken < reading->cap_nchunks ? TERP_OK
                                                  : decode_taken(reading);
}

static uint64_t
nchunks_along(const struct reading *reading, int d)
{
    const hsize_t chunk = reading->block->chunk[d];

    return last_of(reading->strided, d) / chunk -
           reading->strided->start[d] / chunk + 1;
}

static enum terp_status
allocate_memory(struct reading *reading)
{
    const struct terp_chunk *chunk = &reading->block->cd.chunk;
    struct terp_chunk coarse;

    if (terp_coarse_chunk(chunk, reading->step, &coarse) != TERP_OK)
        return TERP_ERR_ARGUMENT;
    /* The rest of the budget is for the codec's working memory. */
    const uint64_t nbytes =
        min_u64(TERP_H5_BATCH_NBYTES, reading->run.budget->limit_nbytes / 8);
    const uint64_t n =
        min_u64(NCHUNKS_PER_THREAD * (uint64_t)reading->run.cpu.nthreads,
                nbytes / terp_chunk_nbytes(chunk) + 1);
    reading->cap_nchunks = n;
    /* Each chunk is aligned for values of any type. */
    reading->chunk_nbytes = div_up(terp_chunk_nbytes(&coarse), 16) * 16;
    reading->stream_cap_nbytes = terp_encode_bound(chunk);
    reading->wanted = calloc(n, sizeof *reading->wanted);
    enum terp_status st = terp_memory_make(
        &reading->run, n * reading->stream_cap_nbytes, &reading->streams);
    if (st == TERP_OK)
        st = terp_memory_make(&reading->run, n * reading->chunk_nbytes,
                              &reading->chunks);
    if (st != TERP_OK)
        return st;
    reading->stream = (void **)calloc(n, sizeof *reading->stream);
    reading->chunk = (void **)calloc(n, sizeof *reading->chunk);
    reading->stream_nbytes = calloc(n, sizeof *reading->stream_nbytes);
    reading->status = calloc(n, sizeof *reading->status);
    return reading->wanted == NULL || reading->stream == NULL ||
                   reading->chunk == NULL || reading->stream_nbytes == NULL ||
                   reading->status == NULL
               ? TERP_ERR_MEMORY
               : TERP_OK;
}

static void
free_memory(struct reading *reading)
{
    free(reading->wanted);
    terp_memory_free(&reading->run, reading->streams);
    terp_memory_free(&reading->run, reading->chunks);
    terp_memory_free(&reading->run, reading->whole);
    free((void *)reading->stream);
    free((void *)reading->chunk);
    free(reading->stream_nbytes);
    free(reading->status);
}

enum terp_status
terp_h5_strided_read(const struct terp_run *run,
                     const struct terp_h5_block *block,
                     const struct terp_h5_strided *strided, void *dst)
{
    struct reading reading = {.block = block,
                              .strided = strided,
                              .step = terp_h5_strided_step(block, strided),
                              .dst = dst};
    uint64_t nchunks = 1;
    struct wanted wanted;

    terp_run_branch(run, &reading.run);
    reading.run.engine = TERP_ENGINE_CPU;
    reading.run.call.memory = TERP_MEMORY_HOST;
    enum terp_status st = allocate_memory(&reading);
    for (int d = 0; d < block->rank; d++)
        nchunks *= nchunks_along(&reading, d);
    for (uint64_t i = 0; st == TERP_OK && i < nchunks; i++) {
        uint64_t left = i;
        for (int d = block->rank - 1; d >= 0; d--) {
            const uint64_t n = nchunks_along(&reading, d);
            wanted.offset[d] =
                (strided->start[d] / block->chunk[d] + left % n) *
                block->chunk[d];
            left /= n;
        }
        if (find_wanted(block, strided, &wanted))
            st = take_chunk(&reading, &wanted);
    }
    if (st == TERP_OK && reading.ntaken > 0)
        st = decode_taken(&reading);
    free_memory(&reading);
    return st;
}
