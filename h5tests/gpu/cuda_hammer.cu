/* Threads that use one context at the same time: `cuda_hammer [THREADS
 * [SECONDS]]`, by default 8 and 10. Each thread makes random calls of the kinds
 * below, with one to four chunks in host or device memory. Every stream and
 * value must have the CPU's bytes. */
#include <cuda_runtime.h>

#include <atomic>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "h5tests/gpu/cuda_program.h"
#include "h5tests/support/fields.h"
#include "h5tests/support/modes.h"

#define MAX_NTHREADS 64
#define MAX_NCHUNKS 4
#define NFIELDS 4
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct terp_chunk chunks[] = {
    {TERP_FLOAT32, false, false, 3, {64, 64, 64, 0}},
    {TERP_FLOAT64, false, false, 3, {40, 41, 43, 0}},
    {TERP_FLOAT32, false, false, 3, {96, 33, 70, 0}},
    {TERP_FLOAT32, true, false, 2, {301, 203, 0, 0}},
    {TERP_FLOAT64, false, false, 1, {100003, 0, 0, 0}},
    {TERP_FLOAT32, false, true, 4, {7, 16, 16, 16}},
    {TERP_FLOAT64, false, false, 4, {9, 10, 11, 12}},
    {TERP_FLOAT32, false, false, 3, {5, 6, 7, 0}},
};

static const enum terp_field contents[NFIELDS] = {
    TERP_FIELD_SMOOTH, TERP_FIELD_ROUGH, TERP_FIELD_GAPS, TERP_FIELD_NOISE};

/* A chunk in a mode, with the CPU's results; d_: in device memory. */
struct sample {
    struct terp_params params;
    const struct terp_chunk *chunk;
    uint64_t chunk_nbytes, stream_nbytes;
    uint8_t *values, *stream, *decoded;
    void *d_values, *d_stream;
};

static struct sample samples[COUNT(chunks)][TERP_NMODES][NFIELDS];
static std::atomic_uint_fast64_t ncalls, nchunks_done;
static double deadline;

/* The engine's device, if TERP_DEVICE names it by number. */
static void
use_device(void)
{
    const char *device = getenv("TERP_DEVICE");

    if (device != NULL)
        check_cuda("cudaSetDevice", cudaSetDevice(atoi(device)));
}

static void *
alloc(enum terp_memory memory, uint64_t nbytes)
{
    void *at = NULL;

    if (memory == TERP_MEMORY_DEVICE)
        check_cuda("cudaMalloc", cudaMalloc(&at, nbytes));
    else if ((at = malloc(nbytes)) == NULL)
        stop("malloc", "no memory");
    return at;
}

static void
copy(void *dst, const void *src, uint64_t nbytes)
{
    check_cuda("cudaMemcpy", cudaMemcpy(dst, src, nbytes, cudaMemcpyDefault));
}

static void
make_sample(struct sample *sample, const struct terp_chunk *chunk, int mode,
            enum terp_field field)
{
    uint64_t cap_nbytes = terp_encode_bound(chunk), got;

    sample->chunk = chunk;
    sample->chunk_nbytes = terp_chunk_nbytes(chunk);
    sample->params.bound_mode = TERP_BOUND_RELATIVE;
    sample->params.bound = 1e-3;
    sample->params.pipeline = terp_mode[mode].pipeline;
    sample->params.predictor = terp_mode[mode].predictor;
    sample->values = (uint8_t *)alloc(TERP_MEMORY_HOST, sample->chunk_nbytes);
    sample->stream = (uint8_t *)alloc(TERP_MEMORY_HOST, cap_nbytes);
    sample->decoded = (uint8_t *)alloc(TERP_MEMORY_HOST, sample->chunk_nbytes);
    terp_field_make(field, chunk, sample->values);
    if (terp_encode(&sample->params, chunk, sample->values, sample->stream,
                    cap_nbytes, &sample->stream_nbytes, 1) != TERP_OK ||
        terp_decode(sample->stream, sample->stream_nbytes, sample->decoded,
                    sample->chunk_nbytes, &got, 1) != TERP_OK)
        stop("the CPU", "does not code a chunk");
    sample->d_values = alloc(TERP_MEMORY_DEVICE, sample->chunk_nbytes);
    sample->d_stream = alloc(TERP_MEMORY_DEVICE, cap_nbytes);
    copy(sample->d_values, sample->values, sample->chunk_nbytes);
    copy(sample->d_stream, sample->stream, sample->stream_nbytes);
}

static void
make_samples(void)
{
    for (size_t c = 0; c < COUNT(chunks); c++)
        for (int mode = 0; mode < TERP_NMODES; mode++)
            for (int f = 0; f < NFIELDS; f++)
                make_sample(&samples[c][mode][f], &chunks[c], mode,
                            contents[f]);
}

/* The chunks of a call, all of one shape and mode. */
struct call {
    struct terp_run_options options;
    struct terp_run_result result;
    const struct sample *sample[MAX_NCHUNKS];
    const void *src[MAX_NCHUNKS];
    void *dst[MAX_NCHUNKS];
    uint64_t nchunks;
};

static void
check_bytes(const struct call *call, uint64_t i, const uint8_t *expected,
            uint64_t nbytes)
{
    uint8_t *got = (uint8_t *)alloc(TERP_MEMORY_HOST, nbytes);

    copy(got, call->dst[i], nbytes);
    if (memcmp(got, expected, nbytes) != 0)
        stop("a call", "gives other bytes than the CPU");
    free(got);
}

static void
check_use(const struct call *call, enum terp_status st)
{
    if (st != TERP_OK)
        stop("a call", terp_status_text(st));
    if (call->result.used != TERP_ENGINE_CUDA)
        stop("the device was not used", call->result.reason);
}

static void
encode(struct call *call)
{
    uint64_t nbytes[MAX_NCHUNKS];

    enum terp_status st = terp_encode_batch(
        &call->options, &call->sample[0]->params, call->sample[0]->chunk,
        call->nchunks, call->src, call->dst, nbytes, &call->result);
    check_use(call, st);
    for (uint64_t i = 0; i < call->nchunks; i++) {
        if (nbytes[i] != call->sample[i]->stream_nbytes)
            stop("a stream", "has another length than the CPU's");
        check_bytes(call, i, call->sample[i]->stream, nbytes[i]);
    }
}

static void
decode(struct call *call)
{
    uint64_t nbytes[MAX_NCHUNKS];
    enum terp_status status[MAX_NCHUNKS];

    for (uint64_t i = 0; i < call->nchunks; i++)
        nbytes[i] = call->sample[i]->stream_nbytes;
    enum terp_status st =
        terp_decode_batch(&call->options, call->sample[0]->chunk, call->nchunks,
                          call->src, nbytes, call->dst, status, &call->result);
    check_use(call, st);
    for (uint64_t i = 0; i < call->nchunks; i++)
        check_bytes(call, i, call->sample[i]->decoded,
                    call->sample[i]->chunk_nbytes);
}

static void
do_call(uint64_t random)
{
    const struct sample *fields =
        samples[random % COUNT(chunks)][random / 64 % TERP_NMODES];
    bool on_device = random >> 20 & 1, is_encode = random >> 21 & 1;
    enum terp_memory memory = on_device ? TERP_MEMORY_DEVICE : TERP_MEMORY_HOST;
    struct call call = {};

    call.options.engine = TERP_ENGINE_CUDA;
    call.options.memory = memory;
    call.nchunks = 1 + (random >> 24) % MAX_NCHUNKS;
    for (uint64_t i = 0; i < call.nchunks; i++) {
        const struct sample *sample = &fields[((random >> 32) + i) % NFIELDS];
        call.sample[i] = sample;
        if (is_encode)
            call.src[i] = on_device ? sample->d_values : sample->values;
        else
            call.src[i] = on_device ? sample->d_stream : sample->stream;
        call.dst[i] = alloc(memory, terp_encode_bound(sample->chunk));
    }
    if (is_encode)
        encode(&call);
    else
        decode(&call);
    for (uint64_t i = 0; i < call.nchunks; i++) {
        if (on_device)
            check_cuda("cudaFree", cudaFree(call.dst[i]));
        else
            free(call.dst[i]);
    }
    nchunks_done += call.nchunks;
}

static void *
hammer(void *arg)
{
    (void)arg;
    use_device();
    while (now() < deadline)
        do_call(terp_field_mix(ncalls++));
    return NULL;
}

int
main(int argc, char **argv)
{
    int nthreads = argc > 1 ? atoi(argv[1]) : 8;
    double seconds = argc > 2 ? atof(argv[2]) : 10;
    pthread_t threads[MAX_NTHREADS];

    if (nthreads < 1 || nthreads > MAX_NTHREADS)
        stop("threads", "too many or too few");
    use_device();
    make_samples();
    deadline = now() + seconds;
    for (int i = 0; i < nthreads; i++)
        if (pthread_create(&threads[i], NULL, hammer, NULL) != 0)
            stop("pthread_create", "no thread");
    for (int i = 0; i < nthreads; i++)
        pthread_join(threads[i], NULL);
    printf("ok: %d threads, %llu calls, %llu chunks\n", nthreads,
           (unsigned long long)ncalls, (unsigned long long)nchunks_done);
    return EXIT_SUCCESS;
}
