/* Random chunks through both engines. The device's streams have the CPU's
 * bytes, both engines decode them to the same values, and both report the same
 * error for a damaged stream.
 *
 *   cuda_random SEED NCASES NTHREADS SECONDS   runs cases of a seed, until
 * either
 *                                              limit is reached
 *   cuda_random CASE                           repeats a case
 *
 * Like a simulation that uses terp, the threads also use CUDA: they synchronize
 * the device, copy, allocate and free memory. */
#include <cuda_runtime.h>

#include <atomic>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/format/base.h"
#include "h5tests/gpu/cuda_program.h"
#include "h5tests/support/fields.h"
#include "h5tests/support/modes.h"
#include "h5tests/support/values.h"

#define MAX_NTHREADS 64
#define MAX_NCHUNKS 6
#define MAX_EXTENT 200
#define MAX_NSHOWN 20

/* A case follows from its number alone. */
struct random_case {
    uint64_t number;
    struct terp_chunk chunk;
    struct terp_params params;
    uint64_t nchunks;
    enum terp_field field; /* of the first chunk */
    bool on_device;
    bool is_damaged;
    bool has_own_fill; /* the fill value is one of the first chunk's values */
};

/* The buffers of one chunk of a case; d_: of the call on the device, in the
 * memory that the case chooses. */
struct item {
    uint8_t *values, *stream, *decoded;
    uint64_t stream_nbytes;
    void *d_values, *d_stream, *d_decoded;
};

static std::atomic_uint_fast64_t next_case, ncalls, nchunks_done, nwrong, ncpu;
static uint64_t seed, ncases;
static double deadline;

/* The case that each thread runs. A fault of the device affects all threads, so
 * the message names all cases. */
static std::atomic_uint_fast64_t running[MAX_NTHREADS];

/* ---- cases ---- */

/* The next random number, below n. */
static uint64_t
draw(uint64_t *random, uint64_t n)
{
    *random = terp_field_mix(*random + UINT64_C(0x9E3779B97F4A7C15));
    return *random % n;
}

static void
draw_shape(uint64_t *random, struct terp_chunk *chunk)
{
    static const uint64_t most_nvalues[] = {2000000, 200000, 200000, 20000};
    uint64_t most = most_nvalues[draw(random, 4)], nvalues = 1;

    chunk->type = draw(random, 3) == 0 ? TERP_FLOAT64 : TERP_FLOAT32;
    chunk->rank = 1 + (int)draw(random, TERP_MAX_RANK);
    for (int d = 0; d < chunk->rank; d++) {
        uint64_t left = most / nvalues;
        if (chunk->rank > 1 && left > MAX_EXTENT)
            left = MAX_EXTENT;
        chunk->dims[d] = 1 + draw(random, left > 0 ? left : 1);
        if (draw(random, 8) == 0 && left >= 64)
            chunk->dims[d] = UINT64_C(1) << draw(random, 7);
        nvalues *= chunk->dims[d];
    }
    chunk->stack = chunk->rank > 1 && draw(random, 6) == 0;
    chunk->big_endian = draw(random, 6) == 0;
    if (draw(random, 40) == 0) {
        chunk->type = TERP_BYTES;
        chunk->rank = 1;
        chunk->stack = chunk->big_endian = false;
    }
}

/* A bound: absolute ones are 0 in one case of three, pointwise ones have a
 * floor in one case of three; in one case of twelve a PSNR. */
static void
draw_bound(uint64_t *random, struct terp_params *params)
{
    static const enum terp_bound_mode modes[] = {
        TERP_BOUND_ABSOLUTE, TERP_BOUND_RELATIVE, TERP_BOUND_POINTWISE};

    if (draw(random, 12) == 0) {
        params->bound_mode = TERP_BOUND_PSNR;
        params->bound = 15 + (double)draw(random, 130);
        return;
    }
    params->bound_mode = modes[draw(random, 3)];
    params->bound = params->bound_mode == TERP_BOUND_POINTWISE ? 0.5 : 1;
    for (uint64_t i = draw(random, 24); i > 0; i--)
        params->bound *= 0.5;
    if (params->bound_mode == TERP_BOUND_ABSOLUTE && draw(random, 3) == 0)
        params->bound = 0;
    if (params->bound_mode != TERP_BOUND_POINTWISE || draw(random, 3) > 0)
        return;
    params->floor = params->bound;
    for (uint64_t i = draw(random, 24); i > 0; i--)
        params->floor *= 0.5;
}

/* In one case of four, limits that equal some of the values. */
static void
draw_limits(uint64_t *random, struct terp_params *params)
{
    params->size = sizeof *params;
    if (draw(random, 4) != 0)
        return;
    params->keep_sign =
        (enum terp_keep_sign)draw(random, TERP_KEEP_SIGN_OF_VALUES + 1);
    params->has_valid_range = draw(random, 2) == 0;
    params->valid_min = draw(random, 3) == 0 ? -HUGE_VAL : -0.5;
    params->valid_max = draw(random, 3) == 0 ? HUGE_VAL : 0.75;
}

/* Integers; in one case of two under a bound of some units. */
static void
make_integers(uint64_t *random, struct random_case *c)
{
    const int ntypes = TERP_UINT64 - TERP_INT8 + 1;

    c->chunk.type =
        (enum terp_type)(TERP_INT8 + (int)draw(random, (uint64_t)ntypes));
    if (draw(random, 2) == 0) {
        c->params.bound_mode = TERP_BOUND_ABSOLUTE;
        c->params.bound = (double)(1 + draw(random, 300));
        c->params.floor = 0;
    }
}

static struct random_case
make_case(uint64_t number)
{
    struct random_case c = {};
    uint64_t random = number;

    c.number = number;
    draw_shape(&random, &c.chunk);
    draw_bound(&random, &c.params);
    const struct terp_mode *mode = &terp_mode[draw(&random, TERP_NMODES)];
    c.params.pipeline = mode->pipeline;
    c.params.predictor = mode->predictor;
    c.params.has_fill = draw(&random, 3) == 0;
    const bool is_zero_fill = draw(&random, 2) == 0;
    c.params.has_missing = draw(&random, 6) == 0;
    c.nchunks = draw(&random, 4) == 0 ? 1 + draw(&random, MAX_NCHUNKS) : 1;
    c.field = (enum terp_field)draw(&random, TERP_NNAMED_FIELDS);
    c.on_device = draw(&random, 2) == 0;
    c.is_damaged = draw(&random, 5) == 0;
    if (c.chunk.type == TERP_FLOAT32 && draw(&random, 5) == 0)
        c.chunk.type = draw(&random, 2) == 0 ? TERP_FLOAT16 : TERP_BFLOAT16;
    else if (c.chunk.type != TERP_BYTES && draw(&random, 3) == 0)
        make_integers(&random, &c);
    else if (c.chunk.type != TERP_BYTES && draw(&random, 4) == 0)
        c.chunk.type =
            c.chunk.type == TERP_FLOAT32 ? TERP_COMPLEX64 : TERP_COMPLEX128;
    c.params.fill_bits =
        is_zero_fill ? 0 : value_to_bits(c.chunk.type, -999.25);
    c.params.missing_bits = value_to_bits(c.chunk.type, 1e20);
    c.has_own_fill = c.params.has_fill && c.chunk.type != TERP_BYTES &&
                     draw(&random, 2) == 0;
    draw_limits(&random, &c.params);
    return c;
}

/* ---- reports ---- */

static void
print_case(const struct random_case *c)
{
    printf("case %llu, type %d, rank %d, %llu x %llu x %llu x %llu, pipeline "
           "%d, predictor %d, mode %d, bound %g, floor %g, %llu chunks, %s\n",
           (unsigned long long)c->number, (int)c->chunk.type, c->chunk.rank,
           (unsigned long long)c->chunk.dims[0],
           (unsigned long long)c->chunk.dims[1],
           (unsigned long long)c->chunk.dims[2],
           (unsigned long long)c->chunk.dims[3], (int)c->params.pipeline,
           (int)c->params.predictor, (int)c->params.bound_mode, c->params.bound,
           c->params.floor, (unsigned long long)c->nchunks,
           c->on_device ? "device memory" : "host memory");
    fflush(stdout);
}

static void
print_running(void)
{
    for (uint64_t number : running)
        if (number != 0) {
            const struct random_case c = make_case(number);
            printf("was running: ");
            print_case(&c);
        }
}

static void
complain(const struct random_case *c, const char *what)
{
    if (nwrong++ < MAX_NSHOWN) {
        printf("WRONG: %s: ", what);
        print_case(c);
    }
}

/* ---- memory ---- */

static uint8_t *
take_host(uint64_t nbytes)
{
    void *at = malloc(nbytes);

    if (at == NULL)
        stop("malloc", "there is no memory");
    return (uint8_t *)at;
}

static void *
take(bool on_device, uint64_t nbytes)
{
    void *at;

    if (!on_device)
        return take_host(nbytes);
    check_cuda("cudaMalloc", cudaMalloc(&at, nbytes));
    return at;
}

static void
give(bool on_device, void *at)
{
    if (on_device)
        check_cuda("cudaFree", cudaFree(at));
    else
        free(at);
}

/* ---- the checks of a case ---- */

static bool
holds(const void *at, const uint8_t *expected, uint64_t nbytes)
{
    uint8_t *got = take_host(nbytes);

    check_cuda("cudaMemcpy", cudaMemcpy(got, at, nbytes, cudaMemcpyDefault));
    bool equal = memcmp(got, expected, nbytes) == 0;
    free(got);
    return equal;
}

static void
make_item(struct random_case *c, uint64_t i, struct item *item)
{
    uint64_t nbytes = terp_chunk_nbytes(&c->chunk);
    uint64_t cap_nbytes = terp_encode_bound(&c->chunk), got;
    struct terp_chunk shape = c->chunk;

    item->values = take_host(nbytes + 8);
    item->stream = take_host(cap_nbytes);
    item->decoded = take_host(nbytes);
    if (shape.type == TERP_BYTES) {
        for (uint64_t at = 0; at < nbytes; at++)
            item->values[at] = (uint8_t)terp_field_mix(at * i + c->number);
    } else
        terp_field_make((enum terp_field)((c->field + i) % TERP_NNAMED_FIELDS),
                        &shape, item->values);
    if (i == 0 && c->has_own_fill)
        c->params.fill_bits = value_bits(&c->chunk, item->values,
                                         c->number % chunk_nvalues(&c->chunk));
    if (terp_encode(&c->params, &c->chunk, item->values, item->stream,
                    cap_nbytes, &item->stream_nbytes, 1) != TERP_OK ||
        terp_decode(item->stream, item->stream_nbytes, item->decoded, nbytes,
                    &got, 1) != TERP_OK)
        stop("the CPU", "does not code a chunk");
    item->d_values = take(c->on_device, nbytes);
    item->d_stream = take(c->on_device, cap_nbytes);
    item->d_decoded = take(c->on_device, nbytes);
    check_cuda("cudaMemcpy", cudaMemcpy(item->d_values, item->values, nbytes,
                                        cudaMemcpyDefault));
    check_cuda("cudaDeviceSynchronize", cudaDeviceSynchronize());
}

static void
free_item(const struct random_case *c, struct item *item)
{
    free(item->values);
    free(item->stream);
    free(item->decoded);
    give(c->on_device, item->d_values);
    give(c->on_device, item->d_stream);
    give(c->on_device, item->d_decoded);
}

static void
note_use(const struct terp_run_result *result)
{
    ncalls++;
    ncpu += result->used != TERP_ENGINE_CUDA;
}

static struct terp_run_options
options_of(bool on_device)
{
    struct terp_run_options options = {};

    options.engine = TERP_ENGINE_CUDA;
    options.memory = on_device ? TERP_MEMORY_DEVICE : TERP_MEMORY_HOST;
    return options;
}

static void
check_encode(const struct random_case *c, const struct item *items)
{
    const struct terp_run_options options = options_of(c->on_device);
    struct terp_run_result result = {};
    const void *src[MAX_NCHUNKS];
    void *dst[MAX_NCHUNKS];
    uint64_t nbytes[MAX_NCHUNKS];

    for (uint64_t i = 0; i < c->nchunks; i++) {
        src[i] = items[i].d_values;
        dst[i] = items[i].d_stream;
    }
    enum terp_status st = terp_encode_batch(
        &options, &c->params, &c->chunk, c->nchunks, src, dst, nbytes, &result);
    note_use(&result);
    for (uint64_t i = 0; i < c->nchunks; i++)
        if (st != TERP_OK || nbytes[i] != items[i].stream_nbytes ||
            !holds(dst[i], items[i].stream, nbytes[i])) {
            complain(c, st == TERP_OK           ? "bytes of a stream"
                        : result.reason != NULL ? result.reason
                                                : terp_status_text(st));
            return;
        }
}

static void
check_decode(const struct random_case *c, const struct item *items)
{
    const struct terp_run_options options = options_of(c->on_device);
    struct terp_run_result result = {};
    uint64_t chunk_nbytes = terp_chunk_nbytes(&c->chunk);
    const void *src[MAX_NCHUNKS];
    void *dst[MAX_NCHUNKS];
    uint64_t nbytes[MAX_NCHUNKS];
    enum terp_status status[MAX_NCHUNKS];

    for (uint64_t i = 0; i < c->nchunks; i++) {
        src[i] = items[i].d_stream;
        dst[i] = items[i].d_decoded;
        nbytes[i] = items[i].stream_nbytes;
        check_cuda("cudaMemcpy", cudaMemcpy(items[i].d_stream, items[i].stream,
                                            nbytes[i], cudaMemcpyDefault));
    }
    check_cuda("cudaDeviceSynchronize", cudaDeviceSynchronize());
    enum terp_status st = terp_decode_batch(&options, &c->chunk, c->nchunks,
                                            src, nbytes, dst, status, &result);
    note_use(&result);
    for (uint64_t i = 0; i < c->nchunks; i++)
        if (st != TERP_OK || !holds(dst[i], items[i].decoded, chunk_nbytes)) {
            complain(c, st == TERP_OK           ? "values of a chunk"
                        : result.reason != NULL ? result.reason
                                                : terp_status_text(st));
            return;
        }
}

/* Changes one bit, or cuts the end. */
static void
check_damaged(const struct random_case *c, const struct item *item)
{
    const struct terp_run_options options = options_of(false);
    struct terp_run_result result = {};
    uint64_t chunk_nbytes = terp_chunk_nbytes(&c->chunk);
    uint64_t nbytes = item->stream_nbytes, random = c->number;
    uint8_t *damaged = take_host(nbytes);
    void *by_cpu = take_host(chunk_nbytes), *by_cuda = take_host(chunk_nbytes);
    const void *src = damaged;
    enum terp_status cpu_st, cuda_st;

    memcpy(damaged, item->stream, nbytes);
    if (draw(&random, 2) == 0)
        nbytes = draw(&random, nbytes);
    else
        damaged[draw(&random, nbytes)] ^= (uint8_t)(1 << draw(&random, 8));
    (void)terp_decode_batch(NULL, &c->chunk, 1, &src, &nbytes, &by_cpu, &cpu_st,
                            NULL);
    (void)terp_decode_batch(&options, &c->chunk, 1, &src, &nbytes, &by_cuda,
                            &cuda_st, &result);
    note_use(&result);
    if (cpu_st != cuda_st ||
        (cpu_st == TERP_OK && memcmp(by_cpu, by_cuda, chunk_nbytes) != 0))
        complain(c, "the engines differ on a damaged stream");
    free(damaged);
    free(by_cpu);
    free(by_cuda);
}

static void
run_case(uint64_t number)
{
    struct random_case c = make_case(number);
    struct item items[MAX_NCHUNKS];

    for (uint64_t i = 0; i < c.nchunks; i++)
        make_item(&c, i, &items[i]);
    check_encode(&c, items);
    check_decode(&c, items);
    if (c.is_damaged)
        check_damaged(&c, &items[0]);
    for (uint64_t i = 0; i < c.nchunks; i++)
        free_item(&c, &items[i]);
    if (cudaGetLastError() != cudaSuccess)
        complain(&c, "an error of CUDA is left behind");
    nchunks_done += c.nchunks;
}

static void *
run_cases(void *arg)
{
    std::atomic_uint_fast64_t *mine = (std::atomic_uint_fast64_t *)arg;

    for (;;) {
        uint64_t at = next_case++;
        if (at >= ncases || now() > deadline)
            return NULL;
        *mine = terp_field_mix(seed + at);
        run_case(*mine);
        *mine = 0;
    }
}

int
main(int argc, char **argv)
{
    pthread_t threads[MAX_NTHREADS];

    tell_more = print_running;
    if (argc == 2) {
        run_case(strtoull(argv[1], NULL, 10));
        return nwrong == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    int nthreads = argc > 3 ? atoi(argv[3]) : 1;
    if (argc != 5 || nthreads < 1 || nthreads > MAX_NTHREADS)
        stop("usage", "cuda_random SEED NCASES NTHREADS SECONDS, or CASE");
    seed = strtoull(argv[1], NULL, 10);
    ncases = strtoull(argv[2], NULL, 10);
    deadline = now() + atof(argv[4]);
    for (int i = 0; i < nthreads; i++)
        if (pthread_create(&threads[i], NULL, run_cases, &running[i]) != 0)
            stop("pthread_create", "there is no thread");
    for (int i = 0; i < nthreads; i++)
        pthread_join(threads[i], NULL);
    printf("%s: seed %llu, %d threads, %llu calls, %llu chunks, %llu calls by "
           "the CPU, %llu wrong\n",
           nwrong == 0 ? "ok" : "FAILED", (unsigned long long)seed, nthreads,
           (unsigned long long)ncalls, (unsigned long long)nchunks_done,
           (unsigned long long)ncpu, (unsigned long long)nwrong);
    return nwrong == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
