/* Large chunks on a machine with a GPU. The device's streams equal the CPU's,
 * and both decode them to the same bits. `cuda_large [EXTENT]`: cubes of
 * EXTENT^3 float32 and (3/4 EXTENT)^3 float64 values in host memory, and lines
 * of 8 and 16 EXTENT^3 + 4095 float32 values in device memory. EXTENT is 512 by
 * default, so that the last line has more than 2^31 values. */
#include <cuda_runtime.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "h5tests/gpu/cuda_program.h"
#include "h5tests/support/fields.h"
#include "h5tests/support/modes.h"

#define TABLE_NVALUES 65536
#define MAX_NTHREADS 64

static double wave[TABLE_NVALUES];
static int nthreads;

static uint8_t *
alloc_host(uint64_t nbytes)
{
    void *at = malloc(nbytes);
    if (at == NULL)
        stop("malloc", "no memory");
    return (uint8_t *)at;
}

static uint8_t *
alloc_device(uint64_t nbytes)
{
    void *at;
    check_cuda("cudaMalloc", cudaMalloc(&at, nbytes));
    return (uint8_t *)at;
}

/* ---- contents: smooth, with noise, outliers, and some NaN ---- */

static void
fill_wave(void)
{
    for (int i = 0; i < TABLE_NVALUES; i++) {
        double u = 2.0 * i / TABLE_NVALUES;
        wave[i] = u < 1 ? 4 * u * (1 - u) : -4 * (u - 1) * (2 - u);
    }
}

static double
value_at(uint64_t i, uint64_t nx, uint64_t ny)
{
    uint64_t x = i % nx, y = i / nx % ny, z = i / nx / ny;
    uint64_t random = terp_field_mix(i);
    double noise = (double)(random >> 40) * (1.0 / (1 << 24)) - 0.5;

    if (random % 1000003 == 0)
        return __builtin_nan("");
    return wave[(x * 331 + y * 173) % TABLE_NVALUES] +
           0.5 * wave[(x * 7 + y * 29 + z * 97) % TABLE_NVALUES] +
           1e-3 * noise + (random % 99991 == 0 ? 1 : 0);
}

struct slice {
    pthread_t thread;
    const struct terp_chunk *chunk;
    uint8_t *values;
    uint64_t first, end;
};

static void *
fill_slice(void *arg)
{
    const struct slice *slice = (const struct slice *)arg;
    const struct terp_chunk *chunk = slice->chunk;
    uint64_t nx = chunk->dims[chunk->rank - 1];
    uint64_t ny = chunk->rank > 1 ? chunk->dims[chunk->rank - 2] : 1;

    for (uint64_t i = slice->first; i < slice->end; i++) {
        if (chunk->type == TERP_FLOAT32)
            ((float *)slice->values)[i] = (float)value_at(i, nx, ny);
        else
            ((double *)slice->values)[i] = value_at(i, nx, ny);
    }
    return NULL;
}

static void
fill(const struct terp_chunk *chunk, uint8_t *values)
{
    struct slice slices[MAX_NTHREADS];
    uint64_t nvalues =
        terp_chunk_nbytes(chunk) / (chunk->type == TERP_FLOAT32 ? 4 : 8);

    for (int i = 0; i < nthreads; i++) {
        uint64_t first = nvalues / (uint64_t)nthreads * (uint64_t)i;
        slices[i].chunk = chunk;
        slices[i].values = values;
        slices[i].first = first;
        slices[i].end =
            i + 1 == nthreads ? nvalues : first + nvalues / (uint64_t)nthreads;
        if (pthread_create(&slices[i].thread, NULL, fill_slice, &slices[i]) !=
            0)
            stop("pthread_create", "no thread");
    }
    for (int i = 0; i < nthreads; i++)
        pthread_join(slices[i].thread, NULL);
}

/* ---- the device ---- */

/* The engine must not leave the chunk to the CPU, so its device memory must
 * have grown to more than the chunk. */
static void
check_use(const struct terp_run_result *result, uint64_t free_before_nbytes,
          uint64_t chunk_nbytes)
{
    size_t free_nbytes, total_nbytes;

    if (result->used != TERP_ENGINE_CUDA)
        stop("the device was not used", result->reason);
    check_cuda("cudaMemGetInfo", cudaMemGetInfo(&free_nbytes, &total_nbytes));
    if (free_before_nbytes < free_nbytes + chunk_nbytes)
        stop("the device was not used", "it has no memory of the engine's");
}

/* The buffers of a case; h_: in host memory. */
struct buffers {
    enum terp_memory memory;
    uint64_t free_before_nbytes; /* of device memory */
    uint8_t *h_values, *h_expected, *h_got;
    void *values, *stream; /* of calls on the device */
};

static struct terp_run_options
run_on_device(enum terp_memory memory)
{
    struct terp_run_options options = {};

    options.engine = TERP_ENGINE_CUDA;
    options.memory = memory;
    return options;
}

/* Returns the seconds that the device took. */
static double
compare_streams(const struct terp_params *params,
                const struct terp_chunk *chunk, const struct buffers *b,
                uint64_t stream_nbytes)
{
    const struct terp_run_options options = run_on_device(b->memory);
    struct terp_run_result result = {};
    const void *src = b->values;
    void *dst = b->stream;
    uint64_t nbytes;

    double begin = now();
    check_status("encoding", terp_encode_batch(&options, params, chunk, 1, &src,
                                               &dst, &nbytes, &result));
    double seconds = now() - begin;
    check_use(&result, b->free_before_nbytes, terp_chunk_nbytes(chunk));
    if (nbytes != stream_nbytes)
        stop("encoding", "the streams have not the same length");
    check_cuda("cudaMemcpy",
               cudaMemcpy(b->h_got, b->stream, nbytes, cudaMemcpyDefault));
    if (memcmp(b->h_got, b->h_expected, nbytes) != 0)
        stop("encoding", "the streams differ");
    return seconds;
}

static double
compare_values(const struct terp_chunk *chunk, const struct buffers *b,
               uint64_t stream_nbytes)
{
    const struct terp_run_options options = run_on_device(b->memory);
    struct terp_run_result result = {};
    uint64_t nbytes = terp_chunk_nbytes(chunk);
    const void *src = b->stream;
    void *dst = b->values;
    enum terp_status st;

    double begin = now();
    check_status("decoding",
                 terp_decode_batch(&options, chunk, 1, &src, &stream_nbytes,
                                   &dst, &st, &result));
    double seconds = now() - begin;
    check_use(&result, b->free_before_nbytes, nbytes);
    check_cuda("cudaMemcpy",
               cudaMemcpy(b->h_got, b->values, nbytes, cudaMemcpyDefault));
    if (memcmp(b->h_got, b->h_values, nbytes) != 0)
        stop("decoding", "the values differ");
    return seconds;
}

static void
check_mode(const struct terp_mode *mode, enum terp_bound_mode bound_mode,
           const struct terp_chunk *chunk, struct buffers *b)
{
    struct terp_params params = {};
    uint64_t nbytes = terp_chunk_nbytes(chunk), stream_nbytes, got;

    params.bound_mode = bound_mode;
    params.bound = 1e-4;
    params.pipeline = mode->pipeline;
    params.predictor = mode->predictor;
    fill(chunk, b->h_values);
    check_cuda("cudaMemcpy",
               cudaMemcpy(b->values, b->h_values, nbytes, cudaMemcpyDefault));
    double begin = now();
    check_status("encoding on the CPU",
                 terp_encode(&params, chunk, b->h_values, b->h_expected,
                             terp_encode_bound(chunk), &stream_nbytes,
                             nthreads));
    double cpu_encode_s = now() - begin;
    double encode_s = compare_streams(&params, chunk, b, stream_nbytes);

    begin = now();
    check_status("decoding on the CPU",
                 terp_decode(b->h_expected, stream_nbytes, b->h_values, nbytes,
                             &got, nthreads));
    double cpu_decode_s = now() - begin;
    double decode_s = compare_values(chunk, b, stream_nbytes);
    printf(
        "ok: %s %llu bytes, %s, mode %d: ratio %.2f, CPU (%d threads) %.2f and "
        "%.2f s, device %.3f and %.3f s\n",
        chunk->type == TERP_FLOAT32 ? "float32" : "float64",
        (unsigned long long)nbytes, mode->name, (int)bound_mode,
        (double)nbytes / (double)stream_nbytes, nthreads, cpu_encode_s,
        cpu_decode_s, encode_s, decode_s);
    fflush(stdout);
}

static void
check_chunk(const struct terp_chunk *chunk, enum terp_memory memory,
            enum terp_bound_mode bound_mode, int first_mode, int nmodes,
            uint64_t free_before_nbytes)
{
    uint64_t nbytes = terp_chunk_nbytes(chunk);
    uint64_t cap_nbytes = terp_encode_bound(chunk);
    bool on_device = memory == TERP_MEMORY_DEVICE;
    struct buffers b = {memory,
                        free_before_nbytes,
                        alloc_host(nbytes),
                        alloc_host(cap_nbytes),
                        alloc_host(cap_nbytes),
                        NULL,
                        NULL};

    b.values = on_device ? alloc_device(nbytes) : alloc_host(nbytes);
    b.stream = on_device ? alloc_device(cap_nbytes) : alloc_host(cap_nbytes);
    if (on_device)
        b.free_before_nbytes -= nbytes + cap_nbytes;
    for (int i = 0; i < nmodes; i++)
        check_mode(&terp_mode[first_mode + i], bound_mode, chunk, &b);
    if (on_device) {
        check_cuda("cudaFree", cudaFree(b.values));
        check_cuda("cudaFree", cudaFree(b.stream));
    } else {
        free(b.values);
        free(b.stream);
    }
    free(b.h_values);
    free(b.h_expected);
    free(b.h_got);
}

static struct terp_chunk
make_chunk(enum terp_type type, int rank, uint64_t extent)
{
    const uint64_t dims[] = {extent, extent, extent};
    struct terp_chunk chunk;

    check_status("making a chunk", terp_chunk_make(type, rank, dims, &chunk));
    return chunk;
}

int
main(int argc, char **argv)
{
    uint64_t extent = argc > 1 ? strtoull(argv[1], NULL, 10) : 512;
    long ncores = sysconf(_SC_NPROCESSORS_ONLN);
    size_t free_nbytes, total_nbytes;

    if (extent < 4)
        stop(argv[1], "no extent");
    nthreads = ncores < MAX_NTHREADS ? (int)ncores : MAX_NTHREADS;
    fill_wave();
    check_cuda("cudaMemGetInfo", cudaMemGetInfo(&free_nbytes, &total_nbytes));
    struct terp_chunk doubles = make_chunk(TERP_FLOAT64, 3, extent / 4 * 3);
    struct terp_chunk cube = make_chunk(TERP_FLOAT32, 3, extent);
    struct terp_chunk line =
        make_chunk(TERP_FLOAT32, 1, 8 * extent * extent * extent + 4095);
    struct terp_chunk long_line =
        make_chunk(TERP_FLOAT32, 1, 16 * extent * extent * extent + 4095);
    const enum terp_bound_mode of_range = TERP_BOUND_RELATIVE,
                               of_each = TERP_BOUND_POINTWISE;
    check_chunk(&doubles, TERP_MEMORY_HOST, of_range, 0, TERP_NMODES,
                free_nbytes);
    check_chunk(&cube, TERP_MEMORY_HOST, of_range, 0, TERP_NMODES, free_nbytes);
    /* Logarithms with signs. */
    check_chunk(&doubles, TERP_MEMORY_HOST, of_each, 1, 1, free_nbytes);
    check_chunk(&cube, TERP_MEMORY_HOST, of_each, 0, 2, free_nbytes);
    /* With the default pipeline, and with another one, because a lane has too
     * little memory for so many values and their contexts. */
    check_chunk(&line, TERP_MEMORY_DEVICE, of_range, 0, 1, free_nbytes);
    check_chunk(&long_line, TERP_MEMORY_DEVICE, of_range, 1, 1, free_nbytes);
    return EXIT_SUCCESS;
}
