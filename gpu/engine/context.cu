#include "gpu/engine/context.cuh"

#include <condition_variable>
#include <mutex>

#include <stdio.h>
#include <stdlib.h>

#include "gpu/engine/device.h"
#include "gpu/entropy/codebooks.cuh"
#include "gpu/entropy/contexts.cuh"
#include "gpu/entropy/decode_table.cuh"
#include "gpu/entropy/token_decode_table.cuh"

/* Threads that are served at once; others wait. */
#define NLANES 4

/* Of the device's memory, what waves of all lanes may take. */
#define MEMORY_SHARE 0.8

static struct {
    int device;
    char name[256 + sizeof " at 12345678:12:12.0"];
    uint64_t memory_nbytes;
    struct cuda_tables tables;
    struct cuda_lane lane[NLANES];
} context;

static std::mutex lanes_mutex;
static std::condition_variable lanes_free;

/* ---- opening ---- */

/* Copies a table to the device, for good. */
template <typename T>
static cudaError_t
upload(const T *table, uint64_t nitems, const T **d_table_ret)
{
    void *d_table;
    cudaError_t error = cudaMalloc(&d_table, nitems * sizeof *table);

    if (error == cudaSuccess)
        error = cudaMemcpy(d_table, table, nitems * sizeof *table,
                           cudaMemcpyHostToDevice);
    *d_table_ret = (const T *)d_table;
    return error;
}

static cudaError_t
make_tables(struct cuda_tables *tables)
{
    const uint64_t nwords = (uint64_t)TERP_NENTRIES * TERP_NSYMBOLS;
    const uint64_t ntoken_words = (uint64_t)TERP_NENTRIES * TERP_NTOKENS;
    uint32_t *words = (uint32_t *)malloc(nwords * sizeof *words);
    struct cuda_decode_table *books =
        (struct cuda_decode_table *)malloc(TERP_NENTRIES * sizeof *books);
    struct cuda_token_decode_table *token_books =
        (struct cuda_token_decode_table *)malloc(TERP_NENTRIES *
                                                 sizeof *token_books);
    cudaError_t error = cudaErrorMemoryAllocation;

    if (words != NULL && books != NULL && token_books != NULL) {
        cuda_codewords_fill(words);
        cuda_decode_tables_fill(books);
        error = upload(words, nwords, &tables->d_codewords);
        if (error == cudaSuccess)
            error = upload(books, TERP_NENTRIES, &tables->d_decode_tables);
        static_assert(TERP_NTOKENS <= TERP_NSYMBOLS, "there is room for them");
        cuda_token_codewords_fill(words);
        if (error == cudaSuccess)
            error = upload(words, ntoken_words, &tables->d_token_codewords);
        cuda_token_decode_tables_fill(token_books);
        if (error == cudaSuccess)
            error = upload(token_books, TERP_NENTRIES,
                           &tables->d_token_decode_tables);
    }
    free(words);
    free(books);
    free(token_books);
    if (error == cudaSuccess)
        error =
            upload(&terp_entry_cost[0][0],
                   (uint64_t)TERP_NROWS * TERP_ENTRY_STRIDE, &tables->d_cost);
    if (error == cudaSuccess)
        error = upload(&terp_entry_code_nbits[0][0],
                       (uint64_t)TERP_NSYMBOLS * TERP_ENTRY_STRIDE,
                       &tables->d_code_nbits);
    if (error == cudaSuccess)
        error = upload(&terp_entry_token_nbits[0][0],
                       (uint64_t)TERP_NTOKENS * TERP_ENTRY_STRIDE,
                       &tables->d_token_nbits);
    return error;
}

static cudaError_t
make_streams(struct cuda_lane *lane)
{
    const unsigned beside = cudaStreamNonBlocking,
                   untimed = cudaEventDisableTiming;

    cudaError_t error = cudaStreamCreateWithFlags(&lane->stream, beside);
    if (error == cudaSuccess)
        error = cudaStreamCreateWithFlags(&lane->side, beside);
    if (error == cudaSuccess)
        error = cudaEventCreateWithFlags(&lane->forked, untimed);
    return error == cudaSuccess
               ? cudaEventCreateWithFlags(&lane->joined, untimed)
               : error;
}

#ifdef __CUDACC__
static __global__ void
wait_only(void)
{
    begin_kernel();
}
#endif

/* Not those for a device before 9.0, even on a newer one. */
static cudaError_t
find_whether_kernels_wait(void)
{
#ifdef __CUDACC__
    cudaFuncAttributes attributes;
    cudaError_t error = cudaFuncGetAttributes(&attributes, wait_only);
    kernels_wait = error == cudaSuccess && attributes.ptxVersion >= 90;
    return error;
#else
    return cudaSuccess;
#endif
}

enum terp_status
cuda_context_open(const char **device_ret, const char **reason_ret)
{
    int ndevices, major, previous;
    size_t free_nbytes, total_nbytes;
    cudaDeviceProp properties;

    cudaError_t error = cudaGetDeviceCount(&ndevices);
    if (error == cudaSuccess && ndevices == 0)
        error = cudaErrorNoDevice;
    if (error != cudaSuccess)
        goto failed;
    context.device = cuda_device_choose(ndevices);
    error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor,
                                   context.device);
    if (error == cudaSuccess && major < 8) {
        *reason_ret = "the device is older than compute capability 8.0";
        return TERP_ERR_DEVICE;
    }
    if (error == cudaSuccess)
        error = cudaGetDeviceProperties(&properties, context.device);
    if (error != cudaSuccess)
        goto failed;
    /* By its place on the bus, since each process may count devices anew. */
    snprintf(context.name, sizeof context.name, "%s at %04x:%02x:%02x.0",
             properties.name, (unsigned)properties.pciDomainID,
             (unsigned)properties.pciBusID, (unsigned)properties.pciDeviceID);
    error = cuda_context_enter(&previous);
    if (error != cudaSuccess)
        goto failed;
    error = cudaMemGetInfo(&free_nbytes, &total_nbytes);
    if (error == cudaSuccess)
        error = make_tables(&context.tables);
    if (error == cudaSuccess)
        error = find_whether_kernels_wait();
    for (int i = 0; error == cudaSuccess && i < NLANES; i++)
        error = make_streams(&context.lane[i]);
    cuda_context_leave(previous);
    if (error != cudaSuccess)
        goto failed;
    context.memory_nbytes =
        (uint64_t)((double)free_nbytes * MEMORY_SHARE / NLANES);
    *device_ret = context.name;
    return TERP_OK;
failed:
    cudaGetLastError(); /* not for the host to find */
    *reason_ret = cudaGetErrorString(error);
    return TERP_ERR_DEVICE;
}

cudaError_t
cuda_context_enter(int *previous_ret)
{
    cudaError_t error = cudaGetDevice(previous_ret);
    if (error == cudaSuccess && *previous_ret != context.device)
        error = cudaSetDevice(context.device);
    return error;
}

void
cuda_context_leave(int previous)
{
    if (previous != context.device)
        cudaSetDevice(previous);
}

/* ---- lanes ---- */

struct cuda_lane *
cuda_lane_take(bool optional)
{
    std::unique_lock<std::mutex> lock(lanes_mutex);

    for (;;) {
        for (int i = 0; i < NLANES; i++) {
            if (!context.lane[i].busy) {
                context.lane[i].busy = true;
                return &context.lane[i];
            }
        }
        if (optional)
            return NULL;
        lanes_free.wait(lock);
    }
}

void
cuda_lane_give(struct cuda_lane *lane)
{
    std::lock_guard<std::mutex> lock(lanes_mutex);

    lane->busy = false;
    lanes_free.notify_one();
}

/* ---- memory of a wave ---- */

static uint64_t
aligned(uint64_t nbytes)
{
    return (nbytes + 255) / 256 * 256;
}

static uint64_t
take(uint64_t *at, uint64_t nbytes)
{
    uint64_t begin = *at;
    *at += aligned(nbytes);
    return begin;
}

static void
lay_out_regions(struct cuda_batch *batch, uint64_t nlattice, int nlevels)
{
    uint64_t value_nbytes = (uint64_t)batch->value_nbytes, at = 0;
    struct cuda_regions *regions = &batch->at;

    regions->ranges = take(&at, 8 * (batch->nranges + 1));
    regions->frequency = take(&at, 8 * TERP_NSYMBOLS);
    const bool ratio = batch->coding == TERP_CODING_RATIO;
    regions->context_counts =
        take(&at, ratio ? cuda_context_counts_nbytes(batch->ntiles) : 0);
    regions->zeroed_nbytes = at;
    regions->work = take(&at, batch->nvalues * value_nbytes);
    uint64_t staging_nbytes = batch->npartitions * CUDA_PARTITION_MAX_NBYTES;
    uint64_t tiles_nbytes = batch->npartitions * TERP_PARTITION_NTILES *
                            terp_tile_max_nbytes(batch->coding);
    uint64_t lattice_nbytes = nlattice * value_nbytes;
    regions->lattice = take(
        &at, lattice_nbytes > staging_nbytes ? lattice_nbytes : staging_nbytes);
    regions->symbols = take(&at, 2 * batch->nvalues);
    regions->coded = take(&at, ratio ? 2 * batch->nvalues : 0);
    regions->contexts = take(&at, ratio ? batch->nvalues : 0);
    regions->mask = take(&at, 8 * div_up(batch->nvalues, 64));
    regions->runs = take(&at, 8 * div_up(batch->nvalues, 64));
    regions->tune = take(&at, 8 * 3 * 256 * ((uint64_t)nlevels + 1));
    uint64_t sums_nbytes = batch->raw_nbytes / 16 + 64;
    regions->cost = take(&at, sums_nbytes + 4 * TERP_NENTRIES * batch->ntiles);
    regions->entry = take(&at, batch->ntiles);
    regions->nonzero = take(&at, batch->ntiles);
    regions->nbytes = take(&at, 2 * batch->ntiles);
    regions->begin = take(&at, 8 * (batch->npartitions + 1));
    regions->reduced = take(&at, batch->npartitions);
    regions->staging = take(&at, tiles_nbytes);
    regions->codebook = take(&at, 32 << 10);
    regions->swapped =
        take(&at, batch->chunk.big_endian ? batch->nvalues * value_nbytes : 0);
    regions->stride = at;
}

/* All of a batch but its pointers. */
static struct cuda_batch
describe(const struct cuda_wave *wave, const struct terp_layout *layout)
{
    struct terp_frame frame = {};
    struct cuda_batch batch;

    /* Compared byte by byte: padding too. */
    memset(&batch, 0, sizeof batch);
    batch.nchunks = (int)wave->nchunks;
    batch.chunk = *wave->chunk;
    batch.value_nbytes = wave->chunk->type == TERP_FLOAT32 ? 4 : 8;
    frame.chunk = *wave->chunk;
    frame.coding = TERP_CODING_RAW;
    batch.raw_nbytes =
        (uint64_t)terp_frame_nbytes(&frame) + terp_chunk_nbytes(wave->chunk);
    frame.coding = TERP_CODING_HUFFMAN;
    batch.frame_nbytes = (uint64_t)terp_frame_write(&frame, batch.frame);
    if (wave->params == NULL && wave->ratio)
        batch.coding = TERP_CODING_RATIO;
    if (wave->params != NULL) {
        batch.params = *wave->params;
        batch.coding = terp_coding_of(wave->params->pipeline);
        batch.max_code = terp_coding_max_code(batch.coding);
    }
    batch.nvalues = layout->nvalues;
    batch.ntiles = div_up(batch.nvalues, TERP_TILE_NSYMBOLS);
    batch.npartitions = div_up(batch.ntiles, TERP_PARTITION_NTILES);
    batch.nranges = div_up(batch.nvalues, CUDA_RANGE_NVALUES);
    lay_out_regions(&batch, layout->nlattice, layout->nlevels);
    return batch;
}

/* Places of what a wave keeps in device memory, from its begin. */
struct places {
    uint64_t layout, chunks, src, dst, scratch, end;
    uint64_t src_stride, dst_stride;
};

static struct places
place(const struct cuda_wave *wave, const struct cuda_batch *batch)
{
    struct places p = {};
    uint64_t at = 0, n = wave->nchunks;
    bool decode = wave->params == NULL;

    if (wave->host) {
        /* A stream is at most as long as the values and a frame. */
        uint64_t stream = aligned(terp_encode_bound(wave->chunk));
        uint64_t values = aligned(terp_chunk_nbytes(wave->chunk));
        p.src_stride = decode ? stream : values;
        p.dst_stride = decode ? values : stream;
    }
    p.layout = take(&at, sizeof(struct terp_layout));
    p.chunks = take(&at, n * sizeof(struct cuda_chunk));
    p.src = take(&at, n * p.src_stride);
    p.dst = take(&at, n * p.dst_stride);
    p.scratch = take(&at, n * batch->at.stride);
    p.end = at;
    return p;
}

uint64_t
cuda_wave_nbytes(const struct cuda_wave *wave)
{
    struct terp_layout layout;

    terp_layout_make(wave->chunk, &layout);
    struct cuda_batch batch = describe(wave, &layout);
    return place(wave, &batch).end;
}

uint64_t
cuda_wave_max_nbytes(void)
{
    return context.memory_nbytes;
}

/* Memory that grows is given up first: its contents are of no use. The new
 * may be where the old was, so that its address tells nothing. */
static cudaError_t
grow(struct cuda_lane *lane, uint64_t d_nbytes, uint64_t h_nbytes)
{
    cudaError_t error = cudaSuccess;

    if (lane->d_nbytes < d_nbytes) {
        for (int i = 0; i < CUDA_NDIRECTIONS; i++)
            lane->sequence[i].seen = false;
        lane->has_layout = false;
        cudaFree(lane->d_memory);
        lane->d_memory = NULL;
        lane->d_nbytes = 0;
        error = cudaMalloc((void **)&lane->d_memory, d_nbytes);
        if (error == cudaSuccess)
            lane->d_nbytes = d_nbytes;
    }
    if (error == cudaSuccess && lane->h_nbytes < h_nbytes) {
        lane->has_layout = false;
        cudaFreeHost(lane->h_memory);
        lane->h_memory = NULL;
        lane->h_nbytes = 0;
        error = cudaMallocHost((void **)&lane->h_memory, h_nbytes);
        if (error == cudaSuccess)
            lane->h_nbytes = h_nbytes;
    }
    return error;
}

cudaError_t
cuda_lane_prepare(struct cuda_lane *lane, const struct cuda_wave *wave)
{
    struct terp_layout layout;

    terp_layout_make(wave->chunk, &layout);
    struct cuda_batch batch = describe(wave, &layout);
    struct places p = place(wave, &batch);
    uint64_t h_layout_nbytes = aligned(sizeof layout), h_nbytes = 0;
    uint64_t h_chunks_at =
        (take(&h_nbytes, h_layout_nbytes),
         take(&h_nbytes, wave->nchunks * sizeof(struct cuda_chunk)));
    uint64_t h_short_at = take(&h_nbytes, wave->nchunks * CUDA_SHORT_NBYTES);

    cudaError_t error = grow(lane, p.end, h_nbytes);
    if (error != cudaSuccess)
        return error;
    batch.tables = context.tables;
    batch.h_layout = lane->h_layout = (struct terp_layout *)lane->h_memory;
    batch.d_layout = (const struct terp_layout *)(lane->d_memory + p.layout);
    batch.d_chunks = (struct cuda_chunk *)(lane->d_memory + p.chunks);
    batch.d_scratch = lane->d_memory + p.scratch;
    batch.h_chunks = (struct cuda_chunk *)(lane->h_memory + h_chunks_at);
    lane->h_short = lane->h_memory + h_short_at;
    lane->d_src = lane->d_memory + p.src;
    lane->d_dst = lane->d_memory + p.dst;
    lane->src_stride = p.src_stride;
    lane->dst_stride = p.dst_stride;
    /* Other padding would only cost a copy. */
    // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison,cert-*)
    bool equal = memcmp(lane->h_layout, &layout, sizeof layout) == 0;
    if (!lane->has_layout || !equal) {
        memcpy(lane->h_layout, &layout, sizeof layout);
        error = cudaMemcpyAsync(lane->d_memory + p.layout, lane->h_layout,
                                sizeof layout, cudaMemcpyHostToDevice,
                                lane->stream);
        lane->has_layout = error == cudaSuccess;
    }
    lane->batch = batch;
    return error;
}
