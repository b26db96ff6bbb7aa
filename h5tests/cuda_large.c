/* Chunks of gigabytes, for machines with a GPU: with both_engines.c, streams
 * and values of both engines are compared. Takes minutes. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "fields.h"
#include "modes.h"

#define MAX_NTHREADS 64

struct large_case {
    struct terp_chunk chunk;
    int nmodes; /* of terp_mode, from the first on */
};

/* The last has more values than 31 bits can count. */
static const struct large_case cases[] = {
    {{TERP_FLOAT32, false, false, 3, {512, 512, 512}}, TERP_NMODES},
    {{TERP_FLOAT64, false, false, 3, {384, 384, 384}}, TERP_NMODES},
    {{TERP_FLOAT32, false, false, 1, {(UINT64_C(1) << 31) + 3}}, 1},
};

static void *
alloc(uint64_t nbytes)
{
    void *bytes = malloc(nbytes);

    if (bytes == NULL) {
        fprintf(stderr, "no memory for %" PRIu64 " bytes\n", nbytes);
        exit(EXIT_FAILURE);
    }
    return bytes;
}

static void
check(enum terp_status st, const char *what)
{
    if (st == TERP_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, terp_status_text(st));
    exit(EXIT_FAILURE);
}

static void
run(const struct large_case *large, int nthreads)
{
    const struct terp_chunk *chunk = &large->chunk;
    uint64_t nbytes = terp_chunk_nbytes(chunk), got;
    uint64_t cap_nbytes = terp_encode_bound(chunk);
    uint8_t *values = alloc(nbytes), *stream = alloc(cap_nbytes);

    for (int mode = 0; mode < large->nmodes; mode++) {
        struct terp_params params = {.bound_mode = TERP_BOUND_RELATIVE,
                                     .bound = 1e-3,
                                     .pipeline = terp_mode[mode].pipeline,
                                     .predictor = terp_mode[mode].predictor};
        uint64_t stream_nbytes;
        terp_field_make(TERP_FIELD_ROUGH, chunk, values);
        check(terp_encode(&params, chunk, values, stream, cap_nbytes,
                          &stream_nbytes, nthreads),
              "encoding");
        check(
            terp_decode(stream, stream_nbytes, values, nbytes, &got, nthreads),
            "decoding");
        printf("float%d, %" PRIu64 " bytes, %s: the same %" PRIu64
               " bytes, and the same values\n",
               chunk->type == TERP_FLOAT64 ? 64 : 32, nbytes,
               terp_mode[mode].name, stream_nbytes);
        fflush(stdout);
    }
    free(values);
    free(stream);
}

int
main(void)
{
    long nthreads = sysconf(_SC_NPROCESSORS_ONLN);

    if (nthreads < 1)
        nthreads = 1;
    if (nthreads > MAX_NTHREADS)
        nthreads = MAX_NTHREADS;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        run(&cases[i], (int)nthreads);
    return EXIT_SUCCESS;
}
