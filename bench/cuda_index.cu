/* Compares three forms of an index of tiles, which Noordsij et al.,
 * "Parallelization of variable rate decompression through metadata", PDP 2020,
 * describe: an offset per tile; a length per tile; and the hybrid, an offset
 * per partition and lengths within it. Each form indexes the tiles of terp's
 * streams, before reduction and without zero tiles. Prints CSV: the bytes of
 * each index, and the times in which the device finds the tiles and decodes
 * them. "terp" is the index of the stream itself, a hybrid with a width of
 * lengths per partition; its time includes all sections before the tiles:
 * model, codebooks and so on. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/cuda_stages.cuh"
#include "codec/format/bytes.h"

#define PARTITION TERP_PARTITION_NTILES /* tiles; a power of two below 33 */
#define NTHREADS 256
#define PADDING 16 /* readable bytes after arrays that are read by words */

static const uint64_t extents[] = {64, 128, 256, 512};

/* The begins and the lengths of the non-zero tiles. */
struct tiles {
    uint64_t n, end;
    uint64_t *begin;       /* and one more, the end */
    unsigned least, width; /* of lengths: the least, and the bits of the
                            * excess */
    unsigned offset_nbytes;
};

/* An index in device memory. Reading it writes d_begin and d_nbytes. */
struct index {
    const struct tiles *tiles;
    uint64_t nbytes;
    uint8_t *d_bytes;
    uint64_t *d_begin;
    uint32_t *d_nbytes;
    uint64_t *d_sums; /* of blocks; only for lengths */
};

/* ---- reading an index on the device ---- */

/* Reads `nbits` (at most 56) from bit `at` on. */
static __device__ __forceinline__ uint64_t
bits_from(const uint8_t *bytes, uint64_t at, unsigned nbits)
{
    const uint32_t *words = (const uint32_t *)bytes + at / 32;
    unsigned shift = (unsigned)(at % 32);
    uint64_t low = words[0] | (uint64_t)words[1] << 32;

    low = low >> shift | (shift == 0 ? 0 : (uint64_t)words[2] << (64 - shift));
    return low & (((uint64_t)1 << nbits) - 1);
}

/* Grid: a thread per tile. */
static __global__ void
read_offsets(const uint8_t *d_bytes, unsigned offset_nbytes, uint64_t n,
             uint64_t end, uint64_t *d_begin, uint32_t *d_nbytes)
{
    begin_kernel();
    uint64_t i = (uint64_t)blockIdx.x * NTHREADS + threadIdx.x;
    unsigned nbits = 8 * offset_nbytes;

    if (i >= n)
        return;
    uint64_t begin = bits_from(d_bytes, i * nbits, nbits);
    uint64_t next =
        i + 1 < n ? bits_from(d_bytes, (i + 1) * nbits, nbits) : end;
    d_begin[i] = begin;
    d_nbytes[i] = (uint32_t)(next - begin);
}

/* Inclusive sums over groups of `width` lanes. */
static __device__ __forceinline__ uint64_t
scan_lanes(uint64_t value, unsigned width)
{
    unsigned lane = threadIdx.x % width;

    for (unsigned step = 1; step < width; step *= 2) {
        uint64_t below = __shfl_up_sync(0xFFFFFFFF, value, step);
        value += lane >= step ? below : 0;
    }
    return value;
}

/* Exclusive sum over the block; `*all_ret` is the sum of all threads. */
static __device__ uint64_t
scan_block(uint64_t value, uint64_t *all_ret)
{
    __shared__ uint64_t s_warps[NTHREADS / 32];
    unsigned warp = threadIdx.x / 32;
    uint64_t sum = scan_lanes(value, 32), before = 0, all = 0;

    if (threadIdx.x % 32 == 31)
        s_warps[warp] = sum;
    __syncthreads();
    for (unsigned w = 0; w < NTHREADS / 32; w++) {
        before += w < warp ? s_warps[w] : 0;
        all += s_warps[w];
    }
    __syncthreads();
    *all_ret = all;
    return before + sum - value;
}

static __device__ __forceinline__ uint64_t
length_of(const uint8_t *d_bytes, unsigned width, unsigned least, uint64_t i,
          uint64_t n)
{
    return i < n ? bits_from(d_bytes, i * width, width) + least : 0;
}

/* Grid: a thread per length. Writes each block's sum. */
static __global__ void
sum_lengths(const uint8_t *d_bytes, unsigned width, unsigned least, uint64_t n,
            uint64_t *d_sums)
{
    begin_kernel();
    uint64_t i = (uint64_t)blockIdx.x * NTHREADS + threadIdx.x, all;

    (void)scan_block(length_of(d_bytes, width, least, i, n), &all);
    if (threadIdx.x == 0)
        d_sums[blockIdx.x] = all;
}

/* Grid: one block. Replaces each of `nsums` sums by the sum of those before
 * it. */
static __global__ void
scan_sums(uint64_t *d_sums, uint64_t nsums)
{
    begin_kernel();
    uint64_t before = 0, all;

    for (uint64_t first = 0; first < nsums; first += NTHREADS) {
        uint64_t i = first + threadIdx.x;
        uint64_t sum = scan_block(i < nsums ? d_sums[i] : 0, &all);
        if (i < nsums)
            d_sums[i] = before + sum;
        before += all;
    }
}

/* Grid: a thread per tile. */
static __global__ void
read_lengths(const uint8_t *d_bytes, unsigned width, unsigned least, uint64_t n,
             const uint64_t *d_sums, uint64_t *d_begin, uint32_t *d_nbytes)
{
    begin_kernel();
    uint64_t i = (uint64_t)blockIdx.x * NTHREADS + threadIdx.x, all;
    uint64_t length = length_of(d_bytes, width, least, i, n);
    uint64_t before = scan_block(length, &all);

    if (i < n) {
        d_begin[i] = d_sums[blockIdx.x] + before;
        d_nbytes[i] = (uint32_t)length;
    }
}

/* Grid: a thread per tile. A partition has an offset, and lengths of all its
 * tiles but the last, which ends where the next partition begins. */
static __global__ void
read_hybrid(const uint8_t *d_bytes, unsigned offset_nbytes, unsigned width,
            unsigned least, uint64_t n, uint64_t end, uint64_t *d_begin,
            uint32_t *d_nbytes)
{
    begin_kernel();
    uint64_t i = (uint64_t)blockIdx.x * NTHREADS + threadIdx.x;
    uint64_t p = i / PARTITION, npartitions = (n + PARTITION - 1) / PARTITION;
    unsigned at = (unsigned)(i % PARTITION), nbits = 8 * offset_nbytes;
    const uint8_t *d_lengths =
        d_bytes + (npartitions * offset_nbytes + PADDING + 3) / 4 * 4;
    uint64_t length = 0, offset = 0, next = end;

    if (i < n) {
        offset = bits_from(d_bytes, p * nbits, nbits);
        if (p + 1 < npartitions)
            next = bits_from(d_bytes, (p + 1) * nbits, nbits);
        if (at < PARTITION - 1 && i + 1 < n)
            length = bits_from(d_lengths, (i - p) * width, width) + least;
    }
    uint64_t begin = offset + scan_lanes(length, PARTITION) - length;
    if (i < n) {
        d_begin[i] = begin;
        d_nbytes[i] = (uint32_t)(length != 0 ? length : next - begin);
    }
}

/* ---- launches ---- */

static unsigned
nblocks(uint64_t n)
{
    return (unsigned)((n + NTHREADS - 1) / NTHREADS);
}

static void
launch_offsets(const void *arg, cudaStream_t stream)
{
    const struct index *x = (const struct index *)arg;
    const struct tiles *t = x->tiles;

    bench_check("offsets", launch(read_offsets, dim3(nblocks(t->n)), NTHREADS,
                                  0, stream, x->d_bytes, t->offset_nbytes, t->n,
                                  t->end, x->d_begin, x->d_nbytes));
}

static void
launch_lengths(const void *arg, cudaStream_t stream)
{
    const struct index *x = (const struct index *)arg;
    const struct tiles *t = x->tiles;

    bench_check("lengths",
                launch(sum_lengths, dim3(nblocks(t->n)), NTHREADS, 0, stream,
                       x->d_bytes, t->width, t->least, t->n, x->d_sums));
    bench_check("lengths", launch(scan_sums, dim3(1), NTHREADS, 0, stream,
                                  x->d_sums, (uint64_t)nblocks(t->n)));
    bench_check("lengths", launch(read_lengths, dim3(nblocks(t->n)), NTHREADS,
                                  0, stream, x->d_bytes, t->width, t->least,
                                  t->n, x->d_sums, x->d_begin, x->d_nbytes));
}

static void
launch_hybrid(const void *arg, cudaStream_t stream)
{
    const struct index *x = (const struct index *)arg;
    const struct tiles *t = x->tiles;

    bench_check("hybrid",
                launch(read_hybrid, dim3(nblocks(t->n)), NTHREADS, 0, stream,
                       x->d_bytes, t->offset_nbytes, t->width, t->least, t->n,
                       t->end, x->d_begin, x->d_nbytes));
}

/* ---- making an index on the host ---- */

static void
make_offsets(const struct tiles *tiles, struct index *index, uint8_t *bytes)
{
    for (uint64_t i = 0; i < tiles->n; i++)
        store_le(bytes + i * tiles->offset_nbytes, tiles->begin[i],
                 (int)tiles->offset_nbytes);
    index->nbytes = tiles->n * tiles->offset_nbytes;
}

static void
pack_length(const struct tiles *tiles, uint8_t *bytes, uint64_t at, uint64_t i)
{
    pack_bits(bytes, at * tiles->width, (int)tiles->width,
              tiles->begin[i + 1] - tiles->begin[i] - tiles->least);
}

static void
make_lengths(const struct tiles *tiles, struct index *index, uint8_t *bytes)
{
    for (uint64_t i = 0; i < tiles->n; i++)
        pack_length(tiles, bytes, i, i);
    index->nbytes = packed_nbytes(tiles->n, (int)tiles->width);
}

static void
make_hybrid(const struct tiles *tiles, struct index *index, uint8_t *bytes)
{
    uint64_t npartitions = div_up(tiles->n, PARTITION);
    uint64_t offsets_nbytes = npartitions * tiles->offset_nbytes;
    uint8_t *lengths = bytes + (offsets_nbytes + PADDING + 3) / 4 * 4;

    for (uint64_t p = 0; p < npartitions; p++)
        store_le(bytes + p * tiles->offset_nbytes, tiles->begin[p * PARTITION],
                 (int)tiles->offset_nbytes);
    for (uint64_t i = 0; i < tiles->n; i++)
        if (i % PARTITION != PARTITION - 1 && i + 1 < tiles->n)
            pack_length(tiles, lengths, i - i / PARTITION, i);
    uint64_t nlengths = tiles->n - npartitions; /* without each last tile */
    index->nbytes = offsets_nbytes + packed_nbytes(nlengths, (int)tiles->width);
}

struct form {
    const char *name;
    void (*make)(const struct tiles *tiles, struct index *index,
                 uint8_t *bytes);
    void (*launches)(const void *arg, cudaStream_t stream);
};

static const struct form forms[] = {
    {"offsets", make_offsets, launch_offsets},
    {"lengths", make_lengths, launch_lengths},
    {"hybrid", make_hybrid, launch_hybrid},
};

/* ---- the tiles of a stream ---- */

static struct tiles
find_tiles(const struct bench_stages *stages)
{
    const struct cuda_batch *batch = stages->batch;
    uint8_t *nonzero = (uint8_t *)bench_stages_region(stages, batch->at.nonzero,
                                                      batch->ntiles);
    uint16_t *nbytes = (uint16_t *)bench_stages_region(
        stages, batch->at.nbytes, batch->ntiles * sizeof *nbytes);
    struct tiles tiles = {};
    uint64_t most = 0;

    tiles.begin = (uint64_t *)bench_alloc(
        TERP_MEMORY_HOST, (batch->ntiles + 1) * sizeof *tiles.begin);
    tiles.begin[0] = 0;
    tiles.least = UINT16_MAX;
    for (uint64_t i = 0; i < batch->ntiles; i++) {
        if (nonzero[i] == 0)
            continue;
        tiles.begin[tiles.n + 1] = tiles.begin[tiles.n] + nbytes[i];
        tiles.n++;
        tiles.least = nbytes[i] < tiles.least ? nbytes[i] : tiles.least;
        most = nbytes[i] > most ? nbytes[i] : most;
    }
    tiles.end = tiles.begin[tiles.n];
    tiles.width = (unsigned)bit_width(tiles.n > 0 ? most - tiles.least : 0);
    tiles.offset_nbytes = (unsigned)div_up((uint64_t)bit_width(tiles.end), 8);
    free(nonzero);
    free(nbytes);
    return tiles;
}

static void
check_index(const struct index *index, const char *name)
{
    const struct tiles *tiles = index->tiles;
    uint64_t *begin =
        (uint64_t *)bench_alloc(TERP_MEMORY_HOST, tiles->n * sizeof *begin);
    uint32_t *nbytes =
        (uint32_t *)bench_alloc(TERP_MEMORY_HOST, tiles->n * sizeof *nbytes);

    bench_check("cudaMemcpy",
                cudaMemcpy(begin, index->d_begin, tiles->n * sizeof *begin,
                           cudaMemcpyDeviceToHost));
    bench_check("cudaMemcpy",
                cudaMemcpy(nbytes, index->d_nbytes, tiles->n * sizeof *nbytes,
                           cudaMemcpyDeviceToHost));
    for (uint64_t i = 0; i < tiles->n; i++)
        if (begin[i] != tiles->begin[i] ||
            begin[i] + nbytes[i] != tiles->begin[i + 1])
            bench_fail(name, "finds a tile in a wrong place");
    free(begin);
    free(nbytes);
}

/* ---- a chunk ---- */

struct chunk_times {
    const struct bench_chunks *chunks;
    const char *pipeline;
    uint64_t ntiles;
    double tiles_s; /* to decode tiles whose places are known */
};

static void
print_form(const struct chunk_times *times, const char *form, uint64_t nbytes,
           double seconds)
{
    const struct bench_chunks *chunks = times->chunks;

    printf("%llu,%s,%llu,%s,%llu,%.3f,%.2f,%.2f,%.1f\n",
           (unsigned long long)chunks->chunk.dims[0], times->pipeline,
           (unsigned long long)times->ntiles, form, (unsigned long long)nbytes,
           100.0 * (double)nbytes / (double)chunks->stream_nbytes[0],
           seconds * 1e6, times->tiles_s * 1e6,
           (double)chunks->chunk_nbytes / (seconds + times->tiles_s) / 1e9);
    fflush(stdout);
}

static void
measure_form(const struct bench_stages *stages, const struct tiles *tiles,
             const struct form *form, const struct chunk_times *times)
{
    uint64_t room_nbytes = 8 * tiles->n + 8 * PADDING;
    uint8_t *bytes = (uint8_t *)calloc(1, room_nbytes);
    struct index index = {tiles, 0, NULL, NULL, NULL, NULL};

    if (bytes == NULL)
        bench_fail("calloc", "no memory");
    form->make(tiles, &index, bytes);
    index.d_bytes = (uint8_t *)bench_alloc(TERP_MEMORY_DEVICE, room_nbytes);
    index.d_begin = (uint64_t *)bench_alloc(TERP_MEMORY_DEVICE, 8 * tiles->n);
    index.d_nbytes = (uint32_t *)bench_alloc(TERP_MEMORY_DEVICE, 4 * tiles->n);
    index.d_sums = (uint64_t *)bench_alloc(TERP_MEMORY_DEVICE,
                                           8 * (uint64_t)nblocks(tiles->n));
    bench_check("cudaMemcpy", cudaMemcpy(index.d_bytes, bytes, room_nbytes,
                                         cudaMemcpyHostToDevice));
    double seconds = bench_stages_time(stages, form->launches, &index);
    check_index(&index, form->name);
    print_form(times, form->name, index.nbytes, seconds);
    bench_free(TERP_MEMORY_DEVICE, index.d_bytes);
    bench_free(TERP_MEMORY_DEVICE, index.d_begin);
    bench_free(TERP_MEMORY_DEVICE, index.d_nbytes);
    bench_free(TERP_MEMORY_DEVICE, index.d_sums);
    free(bytes);
}

/* The bytes of the stream's own index. */
static uint64_t
inspect(const struct bench_chunks *chunks)
{
    uint64_t nbytes = chunks->stream_nbytes[0];
    void *stream = bench_alloc(TERP_MEMORY_HOST, nbytes);
    struct terp_info info = {};

    bench_check("cudaMemcpy", cudaMemcpy(stream, chunks->streams[0], nbytes,
                                         cudaMemcpyDeviceToHost));
    if (terp_inspect(stream, nbytes, &info) != TERP_OK)
        bench_fail("stream", "is none");
    free(stream);
    return info.index_nbytes;
}

static void
measure_chunk(struct bench_chunks *chunks, enum terp_pipeline pipeline,
              const char *name)
{
    static bench_stage *const before[] = {cuda_verify, NULL};
    static bench_stage *const index[] = {cuda_model_read, NULL};
    static bench_stage *const decode[] = {cuda_tiles_decode, NULL};
    struct chunk_times times = {chunks, name, 0, 0};

    chunks->params.pipeline = pipeline;
    bench_encode(chunks, 0, TERP_ENGINE_CUDA);
    struct bench_stages stages = bench_stages_begin(chunks, true);
    bench_stages_run(&stages, before);
    double index_s = bench_stages_time_all(&stages, index);
    bench_stages_run(&stages, index);
    times.tiles_s = bench_stages_time_all(&stages, decode);
    struct tiles tiles = find_tiles(&stages);
    times.ntiles = tiles.n;
    for (const struct form &form : forms)
        if (tiles.n > 0)
            measure_form(&stages, &tiles, &form, &times);
    print_form(&times, "terp", inspect(chunks), index_s);
    free(tiles.begin);
    bench_stages_end(&stages);
}

int
main(int argc, char **argv)
{
    if (argc != 2)
        bench_fail("usage", "cuda_index FIELD_NxNxN.f32");
    struct bench_field field = bench_field_read(argv[1]);
    puts("extent,pipeline,tiles,form,index_bytes,percent_of_stream,index_us,"
         "tiles_us,gb_per_s");
    for (uint64_t extent : extents) {
        if (extent > field.extent)
            continue;
        struct bench_chunks chunks = bench_chunks_make(
            &field, TERP_FLOAT32, extent, 1, 1, TERP_MEMORY_DEVICE);
        measure_chunk(&chunks, TERP_PIPELINE_HUFFMAN, "huffman");
        bench_chunks_free(&chunks);
    }
    free(field.values);
    return EXIT_SUCCESS;
}
