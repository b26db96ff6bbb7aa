/* exhaustive [--chunks N] [--count N] [--threads N] [--only MODE]
 *
 * Encodes and decodes every float32 there is under bounds of every mode, and
 * checks each value in exact arithmetic: a proof by trial of what is shipped,
 * through the public functions. Each bound gets all 2^32 patterns twice: as
 * runs of patterns that follow each other, and as combs, chunks of all
 * magnitudes and of both signs. Pipelines and predictors take turns. Float64
 * follow: for each exponent and sign COUNT random mantissas (128 if not given),
 * in combs.
 *
 * --chunks N takes N of the 4096 chunks, spread evenly. --only names a mode,
 * or "lossless", or "floor". Prints a line for each bound, and fails at the
 * first value that loses its own. Needs no test framework. */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "h5tests/support/fields.h"
#include "h5tests/support/modes.h"
#include "h5tests/support/values.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Chunks of float32, which are all patterns together. */
#define CHUNK_NVALUES (UINT64_C(1) << 20)
#define NCHUNKS (UINT64_C(1) << 12)
_Static_assert(CHUNK_NVALUES *NCHUNKS == UINT64_C(1) << 32,
               "each pattern once");

/* Those of float64: so many values of each of 2048 exponents. */
#define MANTISSAS_PER_CHUNK 128
#define WIDE_NVALUES (UINT64_C(2048) * MANTISSAS_PER_CHUNK)

#define MAX_NTHREADS 256

static const struct {
    const char *mode;
    struct terp_params params;
} cases[] = {
    {"absolute", {.bound_mode = TERP_BOUND_ABSOLUTE, .bound = 1e-30}},
    {"absolute", {.bound_mode = TERP_BOUND_ABSOLUTE, .bound = 1e-3}},
    {"absolute", {.bound_mode = TERP_BOUND_ABSOLUTE, .bound = 1}},
    {"absolute", {.bound_mode = TERP_BOUND_ABSOLUTE, .bound = 1e10}},
    {"absolute", {.bound_mode = TERP_BOUND_ABSOLUTE, .bound = 1e37}},
    {"relative", {.bound_mode = TERP_BOUND_RELATIVE, .bound = 1e-1}},
    {"relative", {.bound_mode = TERP_BOUND_RELATIVE, .bound = 1e-3}},
    {"relative", {.bound_mode = TERP_BOUND_RELATIVE, .bound = 1e-5}},
    {"relative", {.bound_mode = TERP_BOUND_RELATIVE, .bound = 1e-7}},
    {"relative", {.bound_mode = TERP_BOUND_RELATIVE, .bound = 1e-12}},
    {"pointwise", {.bound_mode = TERP_BOUND_POINTWISE, .bound = 0.5}},
    {"pointwise", {.bound_mode = TERP_BOUND_POINTWISE, .bound = 1e-2}},
    {"pointwise", {.bound_mode = TERP_BOUND_POINTWISE, .bound = 1e-3}},
    {"pointwise", {.bound_mode = TERP_BOUND_POINTWISE, .bound = 1e-5}},
    {"pointwise", {.bound_mode = TERP_BOUND_POINTWISE, .bound = 1e-7}},
    {"floor",
     {.bound_mode = TERP_BOUND_POINTWISE, .bound = 0.5, .floor = 1e-30}},
    {"floor", {.bound_mode = TERP_BOUND_POINTWISE, .bound = 1e-2, .floor = 1}},
    {"floor",
     {.bound_mode = TERP_BOUND_POINTWISE, .bound = 1e-3, .floor = 1e-3}},
    {"floor",
     {.bound_mode = TERP_BOUND_POINTWISE, .bound = 1e-4, .floor = 1e-37}},
    {"floor",
     {.bound_mode = TERP_BOUND_POINTWISE, .bound = 1e-5, .floor = 1e10}},
    {"lossless", {.bound_mode = TERP_BOUND_ABSOLUTE, .bound = 0}},
};

enum layout {
    RUNS,
    COMBS,
    WIDE,
    NLAYOUTS
};
static const char *const layout_names[NLAYOUTS] = {
    "float32, runs", "float32, combs", "float64, combs"};

/* A pass over chunks, which threads share. */
struct pass {
    struct terp_params params;
    enum layout layout;
    uint64_t nchunks, first, step; /* chunks first, first + step and so on */
    uint64_t seed;
    atomic_uint_fast64_t next;
    atomic_bool failed;
};

static uint64_t
pattern(const struct pass *pass, uint64_t c, uint64_t i)
{
    if (pass->layout == RUNS)
        return c * CHUNK_NVALUES + i;
    if (pass->layout == COMBS)
        return i * NCHUNKS + c;
    const uint64_t word = terp_field_mix(c * WIDE_NVALUES + i);
    return i / MANTISSAS_PER_CHUNK << 52 | (word & 1) << 63 |
           (word >> 12 & ((UINT64_C(1) << 52) - 1));
}

/* The bound of all of a chunk's values, 0 of a pointwise one. */
static double
bound_of(const struct pass *pass, const struct terp_chunk *chunk,
         const uint8_t *values)
{
    double min = INFINITY, max = -INFINITY;

    if (pass->params.bound_mode == TERP_BOUND_ABSOLUTE)
        return pass->params.bound;
    if (pass->params.bound_mode == TERP_BOUND_POINTWISE)
        return pass->params.floor;
    for (uint64_t i = 0; i < chunk->dims[0]; i++) {
        const uint64_t bits = value_bits(chunk, values, i);
        if (!bits_are_finite(chunk->type, bits))
            continue;
        const double value = value_of_bits(chunk->type, bits);
        min = value < min ? value : min;
        max = value > max ? value : max;
    }
    const double bound = min / 2 < max / 2 && max / 2 - min / 2 > 0x1p1021
                             ? (max / 2 - min / 2) * pass->params.bound * 2
                             : (max - min) * pass->params.bound;
    return min > max ? 0 : bound < 0x1p1023 ? bound : 0x1p1023;
}

static bool
is_kept(const struct pass *pass, enum terp_type type, uint64_t bits,
        uint64_t got_bits, double bound)
{
    const struct terp_params *params = &pass->params;
    const double value = value_of_bits(type, bits);
    const double got = value_of_bits(type, got_bits);

    if (bits == got_bits)
        return true;
    if (!bits_are_finite(type, bits) || !bits_are_finite(type, got_bits) ||
        (params->bound_mode == TERP_BOUND_ABSOLUTE && params->bound == 0))
        return false;
    if (params->bound_mode == TERP_BOUND_POINTWISE &&
        is_within_pointwise(value, got, params->bound))
        return true;
    return bound > 0 && is_within(value, got, bound);
}

/* Codes chunk c; false, with a message, where a value has lost its bound. */
static bool
try_chunk(const struct pass *pass, uint64_t c, uint8_t *values,
          uint8_t *decoded, uint8_t *stream)
{
    const struct terp_mode *mode =
        &terp_mode[(c / pass->step + pass->seed) % TERP_NMODES];
    struct terp_params params = pass->params;
    const struct terp_chunk chunk = {
        pass->layout == WIDE ? TERP_FLOAT64 : TERP_FLOAT32,
        false,
        false,
        1,
        {pass->layout == WIDE ? WIDE_NVALUES : CHUNK_NVALUES}};
    const uint64_t nbytes = terp_chunk_nbytes(&chunk);
    uint64_t stream_nbytes, got;

    params.pipeline = mode->pipeline;
    params.predictor = mode->predictor;
    for (uint64_t i = 0; i < chunk.dims[0]; i++)
        value_put(&chunk, values, i, pattern(pass, c, i));
    enum terp_status st =
        terp_encode(&params, &chunk, values, stream, terp_encode_bound(&chunk),
                    &stream_nbytes, 1);
    if (st == TERP_OK)
        st = terp_decode(stream, stream_nbytes, decoded, nbytes, &got, 1);
    if (st != TERP_OK) {
        printf("chunk %" PRIu64 ": %s\n", c, terp_status_text(st));
        return false;
    }
    const double bound = bound_of(pass, &chunk, values);
    for (uint64_t i = 0; i < chunk.dims[0]; i++) {
        const uint64_t bits = value_bits(&chunk, values, i);
        const uint64_t got_bits = value_bits(&chunk, decoded, i);
        if (is_kept(pass, chunk.type, bits, got_bits, bound))
            continue;
        printf("chunk %" PRIu64 ", %s: %a became %a, bound %a\n", c, mode->name,
               value_of_bits(chunk.type, bits),
               value_of_bits(chunk.type, got_bits), bound);
        return false;
    }
    return true;
}

static void *
try_chunks(void *arg)
{
    struct pass *pass = arg;
    const struct terp_chunk largest = {
        TERP_FLOAT32, false, false, 1, {CHUNK_NVALUES}};
    const uint64_t nbytes = terp_chunk_nbytes(&largest);
    uint8_t *values = malloc(nbytes), *decoded = malloc(nbytes);
    uint8_t *stream = malloc(terp_encode_bound(&largest));

    _Static_assert(8 * WIDE_NVALUES <= 4 * CHUNK_NVALUES, "room for either");
    if (values == NULL || decoded == NULL || stream == NULL)
        atomic_store(&pass->failed, true);
    while (!atomic_load(&pass->failed)) {
        const uint64_t n = atomic_fetch_add(&pass->next, 1);
        const uint64_t c = pass->first + n * pass->step;
        if (c >= pass->nchunks)
            break;
        if (!try_chunk(pass, c, values, decoded, stream))
            atomic_store(&pass->failed, true);
    }
    free(values);
    free(decoded);
    free(stream);
    return NULL;
}

static bool
do_pass(struct pass *pass, const char *mode, int nthreads)
{
    pthread_t threads[MAX_NTHREADS];
    struct timespec start, end;
    int nstarted = 0;

    timespec_get(&start, TIME_UTC);
    while (nstarted < nthreads - 1 &&
           pthread_create(&threads[nstarted], NULL, try_chunks, pass) == 0)
        nstarted++;
    try_chunks(pass);
    for (int i = 0; i < nstarted; i++)
        pthread_join(threads[i], NULL);
    timespec_get(&end, TIME_UTC);
    printf("%-9s %-14s bound %g", mode, layout_names[pass->layout],
           pass->params.bound);
    if (pass->params.floor > 0)
        printf(", floor %g", pass->params.floor);
    printf(": %s, %" PRIu64 " values, %.0f s\n",
           atomic_load(&pass->failed) ? "FAILED" : "kept",
           div_up(pass->nchunks - pass->first, pass->step) *
               (pass->layout == WIDE ? WIDE_NVALUES : CHUNK_NVALUES),
           difftime(end.tv_sec, start.tv_sec));
    fflush(stdout);
    return !atomic_load(&pass->failed);
}

int
main(int argc, char **argv)
{
    uint64_t nchunks = NCHUNKS, count = MANTISSAS_PER_CHUNK;
    const char *only = NULL;
    int nthreads = 1;
    bool kept = true;

    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--chunks") == 0)
            nchunks = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--count") == 0)
            count = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--threads") == 0)
            nthreads = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--only") == 0)
            only = argv[i + 1];
        else
            nthreads = 0;
    }
    if (argc % 2 == 0 || nthreads < 1 || nthreads > MAX_NTHREADS ||
        nchunks < 1 || nchunks > NCHUNKS) {
        fputs("usage: exhaustive [--chunks N] [--count N] [--threads N] "
              "[--only MODE]\n",
              stderr);
        return EXIT_FAILURE;
    }
    for (size_t k = 0; kept && k < COUNT(cases); k++)
        for (int layout = RUNS; kept && layout < NLAYOUTS; layout++) {
            struct pass pass = {.params = cases[k].params,
                                .layout = (enum layout)layout,
                                .nchunks = NCHUNKS,
                                .step = NCHUNKS / nchunks,
                                .seed = k};
            pass.first = k * 2741 % pass.step; /* anywhere */
            if (layout == WIDE) {
                pass.first = 0;
                pass.nchunks = div_up(count, MANTISSAS_PER_CHUNK);
                pass.step = 1;
            }
            if (only == NULL || strcmp(only, cases[k].mode) == 0)
                kept = do_pass(&pass, cases[k].mode, nthreads);
        }
    return kept ? EXIT_SUCCESS : EXIT_FAILURE;
}
