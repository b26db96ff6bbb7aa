/* exhaustive [--chunks N] [--count N] [--threads N] [--only MODE]
 *
 * Encodes and decodes every float32 pattern through the public functions under
 * bounds of every mode, and checks each value in exact arithmetic. Each bound
 * gets all 2^32 patterns twice: as runs of consecutive patterns, and as combs,
 * chunks of all magnitudes and both signs. Pipelines and predictors take turns.
 * Then come combs of float64: COUNT random mantissas (default 128) for each
 * exponent and sign.
 *
 * --chunks N tries N of the 4096 chunks, evenly spread. --only names a mode, or
 * "lossless", or "floor". Prints a line for each bound, and fails at the first
 * value that exceeds its bound. Needs no test framework. */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "h5tests/support/exhaustive.h"
#include "h5tests/support/fields.h"
#include "h5tests/support/modes.h"

#define MAX_NTHREADS 256

/* The state that threads share while they go through the chunks. */
struct pass {
    const struct exhaustive_case *how;
    enum exhaustive_layout layout;
    uint64_t nchunks, first, step; /* chunks first, first + step and so on */
    uint64_t seed;
    atomic_uint_fast64_t next;
    atomic_bool failed;
};

/* The absolute bound for all values of the chunk. */
static double
bound_of(const struct pass *pass, const struct terp_chunk *chunk,
         const uint8_t *values)
{
    double min = INFINITY, max = -INFINITY;

    for (uint64_t i = 0; i < chunk->dims[0]; i++) {
        const uint64_t bits = value_bits(chunk, values, i);
        if (!bits_are_finite(chunk->type, bits))
            continue;
        const double value = value_of_bits(chunk->type, bits);
        min = value < min ? value : min;
        max = value > max ? value : max;
    }
    return exhaustive_bound(pass->how, min, max);
}

/* Encodes and decodes chunk c. Returns false, with a message, if a value
 * exceeds its bound. */
static bool
try_chunk(const struct pass *pass, uint64_t c, uint8_t *values,
          uint8_t *decoded, uint8_t *stream)
{
    const struct terp_mode *mode =
        &terp_mode[(c / pass->step + pass->seed) % TERP_NMODES];
    struct terp_params params = {.bound_mode = pass->how->bound_mode,
                                 .bound = pass->how->bound,
                                 .floor = pass->how->floor};
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
        value_put(&chunk, values, i,
                  exhaustive_pattern(pass->layout, c, i,
                                     terp_field_mix(c * WIDE_NVALUES + i)));
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
        if (exhaustive_is_kept(pass->how, chunk.type, bits, got_bits, bound))
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
do_pass(struct pass *pass, int nthreads)
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
    printf("%-9s %-14s bound %g", pass->how->mode,
           exhaustive_layout_names[pass->layout], pass->how->bound);
    if (pass->how->floor > 0)
        printf(", floor %g", pass->how->floor);
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
    for (int k = 0; kept && k < EXHAUSTIVE_NCASES; k++)
        for (int layout = RUNS; kept && layout < NLAYOUTS; layout++) {
            struct pass pass = {.how = &exhaustive_cases[k],
                                .layout = (enum exhaustive_layout)layout,
                                .nchunks = NCHUNKS,
                                .step = NCHUNKS / nchunks,
                                .seed = (uint64_t)k};
            pass.first = pass.seed * 2741 % pass.step; /* in any chunk */
            if (layout == WIDE) {
                pass.first = 0;
                pass.nchunks = div_up(count, MANTISSAS_PER_CHUNK);
                pass.step = 1;
            }
            if (only == NULL || strcmp(only, pass.how->mode) == 0)
                kept = do_pass(&pass, nthreads);
        }
    return kept ? EXIT_SUCCESS : EXIT_FAILURE;
}
