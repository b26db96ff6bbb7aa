#include "bench/cuda_bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NWARM_UPS 5
#define MIN_REPS 20
#define MAX_REPS 200
#define ENOUGH_S 0.25

void
bench_fail(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    exit(EXIT_FAILURE);
}

void
bench_check(const char *what, cudaError_t error)
{
    if (error != cudaSuccess)
        bench_fail(what, cudaGetErrorString(error));
}

void *
bench_alloc(enum terp_memory memory, uint64_t nbytes)
{
    void *at = NULL;

    if (memory == TERP_MEMORY_DEVICE)
        bench_check("cudaMalloc", cudaMalloc(&at, nbytes));
    else if ((at = malloc(nbytes)) == NULL)
        bench_fail("malloc", "no memory");
    else
        memset(at, 0xA5, nbytes); /* touches all pages, so that no page fault is
                                   * timed */
    return at;
}

void
bench_free(enum terp_memory memory, void *at)
{
    if (memory == TERP_MEMORY_DEVICE)
        bench_check("cudaFree", cudaFree(at));
    else
        free(at);
}

/* ---- fields ---- */

struct bench_field
bench_field_read(const char *path)
{
    const char *name = strrchr(path, '_');
    struct bench_field field;
    unsigned long long extent = 0, other[2];

    if (name == NULL ||
        sscanf(name, "_%llux%llux%llu.f32", &extent, &other[0], &other[1]) != 3)
        bench_fail(path, "its name tells no cube");
    uint64_t nvalues = extent * extent * extent;
    field.extent = extent;
    field.values = (float *)malloc(nvalues * sizeof *field.values);
    FILE *file = fopen(path, "rb");
    if (field.values == NULL || file == NULL ||
        fread(field.values, sizeof *field.values, nvalues, file) != nvalues)
        bench_fail(path, "cannot be read");
    fclose(file);
    return field;
}

/* Cuts cube `index` out of the field. */
static void
cut(const struct bench_field *field, enum terp_type type, uint64_t extent,
    uint64_t index, void *to)
{
    uint64_t n = field->extent / extent, at = 0;
    uint64_t x0 = index % n * extent, y0 = index / n % n * extent;
    uint64_t z0 = index / n / n % n * extent;

    for (uint64_t z = z0; z < z0 + extent; z++) {
        for (uint64_t y = y0; y < y0 + extent; y++) {
            const float *row =
                field->values + (z * field->extent + y) * field->extent + x0;
            for (uint64_t x = 0; x < extent; x++, at++) {
                if (type == TERP_FLOAT64)
                    ((double *)to)[at] = (double)row[x];
                else if (type == TERP_INT16)
                    ((int16_t *)to)[at] = (int16_t)row[x];
                else if (type == TERP_INT32)
                    ((int32_t *)to)[at] = (int32_t)row[x];
                else if (type == TERP_COMPLEX64)
                    ((float2 *)to)[at] =
                        make_float2(row[x], row[extent - 1 - x]);
                else
                    ((float *)to)[at] = row[x];
            }
        }
    }
}

/* ---- chunks ---- */

struct bench_chunks
bench_chunks_alloc(const struct terp_chunk *chunk, uint64_t nchunks,
                   uint64_t nsets, enum terp_memory memory)
{
    struct bench_chunks chunks = {};
    uint64_t nitems = nchunks * nsets;

    chunks.chunk = *chunk;
    chunks.params.bound_mode = TERP_BOUND_RELATIVE;
    chunks.params.bound = 1e-3;
    chunks.memory = memory;
    chunks.step = 1;
    chunks.nsets = nsets;
    chunks.nchunks = nchunks;
    chunks.chunk_nbytes = terp_chunk_nbytes(chunk);
    chunks.values = (void **)calloc(nitems, sizeof(void *));
    chunks.streams = (void **)calloc(nitems, sizeof(void *));
    chunks.decoded = (void **)calloc(nitems, sizeof(void *));
    chunks.stream_nbytes = (uint64_t *)calloc(nitems, sizeof(uint64_t));
    chunks.status =
        (enum terp_status *)calloc(nitems, sizeof(enum terp_status));
    if (chunks.values == NULL || chunks.streams == NULL ||
        chunks.decoded == NULL || chunks.stream_nbytes == NULL ||
        chunks.status == NULL)
        bench_fail("malloc", "no memory");
    for (uint64_t i = 0; i < nitems; i++) {
        chunks.values[i] = bench_alloc(memory, chunks.chunk_nbytes);
        chunks.streams[i] = bench_alloc(memory, terp_encode_bound(chunk));
        chunks.decoded[i] = bench_alloc(memory, chunks.chunk_nbytes);
    }
    return chunks;
}

struct bench_chunks
bench_chunks_make(const struct bench_field *field, enum terp_type type,
                  uint64_t extent, uint64_t nchunks, uint64_t nsets,
                  enum terp_memory memory)
{
    const uint64_t dims[] = {extent, extent, extent};
    struct terp_chunk chunk;

    if (extent > field->extent)
        bench_fail("field", "is smaller than the chunk");
    if (terp_chunk_make(type, 3, dims, &chunk) != TERP_OK)
        bench_fail("chunk", "is none");
    struct bench_chunks chunks =
        bench_chunks_alloc(&chunk, nchunks, nsets, memory);
    void *values = bench_alloc(TERP_MEMORY_HOST, chunks.chunk_nbytes);
    for (uint64_t i = 0; i < nchunks * nsets; i++) {
        cut(field, type, extent, i, values);
        bench_check("cudaMemcpy",
                    cudaMemcpy(chunks.values[i], values, chunks.chunk_nbytes,
                               cudaMemcpyDefault));
    }
    bench_free(TERP_MEMORY_HOST, values);
    return chunks;
}

void
bench_chunks_free(struct bench_chunks *chunks)
{
    for (uint64_t i = 0; i < chunks->nchunks * chunks->nsets; i++) {
        bench_free(chunks->memory, chunks->values[i]);
        bench_free(chunks->memory, chunks->streams[i]);
        bench_free(chunks->memory, chunks->decoded[i]);
    }
    free(chunks->values);
    free(chunks->streams);
    free(chunks->decoded);
    free(chunks->stream_nbytes);
    free(chunks->status);
}

static void
check_call(const char *what, const struct terp_run_result *result,
           enum terp_engine_kind engine, enum terp_status st)
{
    if (st != TERP_OK && result->reason == NULL)
        bench_fail(what, terp_status_text(st));
    if (st != TERP_OK || result->used != engine)
        bench_fail(what, result->reason);
}

void
bench_encode(struct bench_chunks *chunks, uint64_t set,
             enum terp_engine_kind engine)
{
    struct terp_run_options options = {};
    struct terp_run_result result = {};
    uint64_t first = set * chunks->nchunks;

    options.engine = engine;
    options.memory = chunks->memory;
    enum terp_status st = terp_encode_batch(
        &options, &chunks->params, &chunks->chunk, chunks->nchunks,
        chunks->values + first, chunks->streams + first,
        chunks->stream_nbytes + first, &result);
    check_call("encoding", &result, engine, st);
}

void
bench_decode(struct bench_chunks *chunks, uint64_t set,
             enum terp_engine_kind engine)
{
    struct terp_run_options options = {};
    struct terp_run_result result = {};
    uint64_t first = set * chunks->nchunks;

    options.engine = engine;
    options.memory = chunks->memory;
    enum terp_status st = terp_decode_coarse_batch(
        &options, &chunks->chunk, chunks->step, chunks->nchunks,
        chunks->streams + first, chunks->stream_nbytes + first,
        chunks->decoded + first, chunks->status + first, &result);
    check_call("decoding", &result, engine, st);
}

static bool
is_right(const struct bench_chunks *chunks, uint64_t item)
{
    uint64_t nbytes = chunks->chunk_nbytes, got = 0, decoded_nbytes;
    uint64_t cap_nbytes = terp_encode_bound(&chunks->chunk);
    int nthreads = (int)sysconf(_SC_NPROCESSORS_ONLN);
    uint8_t *values = (uint8_t *)malloc(nbytes);
    uint8_t *decoded = (uint8_t *)malloc(nbytes);
    uint8_t *stream = (uint8_t *)malloc(cap_nbytes);
    uint8_t *expected = (uint8_t *)malloc(cap_nbytes);

    if (values == NULL || decoded == NULL || stream == NULL || expected == NULL)
        bench_fail("malloc", "no memory");
    bench_check("cudaMemcpy", cudaMemcpy(values, chunks->values[item], nbytes,
                                         cudaMemcpyDefault));
    bench_check("cudaMemcpy",
                cudaMemcpy(stream, chunks->streams[item],
                           chunks->stream_nbytes[item], cudaMemcpyDefault));
    bool right = terp_encode(&chunks->params, &chunks->chunk, values, expected,
                             cap_nbytes, &got, nthreads) == TERP_OK &&
                 got == chunks->stream_nbytes[item] &&
                 memcmp(stream, expected, got) == 0 &&
                 terp_decode(expected, got, decoded, nbytes, &decoded_nbytes,
                             nthreads) == TERP_OK;
    bench_check("cudaMemcpy", cudaMemcpy(values, chunks->decoded[item], nbytes,
                                         cudaMemcpyDefault));
    right = right && memcmp(values, decoded, nbytes) == 0;
    free(values);
    free(decoded);
    free(stream);
    free(expected);
    return right;
}

bool
bench_is_right(const struct bench_chunks *chunks)
{
    return is_right(chunks, 0) && is_right(chunks, chunks->nchunks - 1);
}

double
bench_ratio(const struct bench_chunks *chunks)
{
    uint64_t nitems = chunks->nchunks * chunks->nsets;
    uint64_t stream_nbytes = 0, chunk_nbytes = 0;

    for (uint64_t i = 0; i < nitems; i++) {
        stream_nbytes += chunks->stream_nbytes[i];
        if (chunks->stream_nbytes[i] > 0)
            chunk_nbytes += chunks->chunk_nbytes;
    }
    return (double)chunk_nbytes / (double)stream_nbytes;
}

/* ---- times ---- */

double
bench_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int
bench_nreps(int nreps)
{
    const char *text = getenv("TERP_BENCH_REPS");
    int most = text != NULL ? atoi(text) : 0;

    return most > 0 && most < nreps ? most : nreps;
}

static int
compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct bench_times
bench_time(void (*function)(void *arg, uint64_t i), void *arg)
{
    double s[MAX_REPS], sum = 0;
    int least = bench_nreps(MIN_REPS), most = bench_nreps(MAX_REPS);
    struct bench_times times;
    uint64_t i = 0;
    int n = 0;

    while (i < NWARM_UPS && i < (uint64_t)least)
        function(arg, i++);
    while (n < least || (n < most && sum < ENOUGH_S)) {
        double start = bench_now();
        function(arg, i++);
        s[n] = bench_now() - start;
        sum += s[n++];
    }
    qsort(s, (size_t)n, sizeof *s, compare_doubles);
    times.n = n;
    times.median_s = (s[(n - 1) / 2] + s[n / 2]) / 2;
    times.min_s = s[0];
    return times;
}
