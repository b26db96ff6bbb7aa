/* Compresses chunks in one call of the installed codec, and fails unless they
 * come back within the bound; with the argument "cuda", also unless the CUDA
 * engine did the work. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <terp/terp.h>

#define NCHUNKS 4
#define NVALUES 4096
#define BOUND 1e-3

static float values[NCHUNKS][NVALUES], decoded[NCHUNKS][NVALUES];

static int
fail(const char *what, enum terp_status st)
{
    fprintf(stderr, "%s: %s\n", what, terp_status_text(st));
    return 1;
}

int
main(int argc, char **argv)
{
    const uint64_t dims[] = {NVALUES};
    struct terp_params params = {.size = sizeof params,
                                 .bound_mode = TERP_BOUND_ABSOLUTE,
                                 .bound = BOUND};
    struct terp_context_options shared = {
        .size = sizeof shared, .nthreads = 2, .device = -1};
    struct terp_run_options run = {.size = sizeof run,
                                   .engine = TERP_ENGINE_CUDA};
    struct terp_run_result result = {.size = sizeof result};
    struct terp_chunk chunk;
    const void *src[NCHUNKS];
    void *streams[NCHUNKS], *dst[NCHUNKS];
    uint64_t nbytes[NCHUNKS];
    enum terp_status status[NCHUNKS];

    enum terp_status st = terp_context_make(&shared, &run.context);
    if (st != TERP_OK)
        return fail("terp_context_make", st);
    st = terp_chunk_make(TERP_FLOAT32, 1, dims, &chunk);
    if (st != TERP_OK)
        return fail("terp_chunk_make", st);
    for (int c = 0; c < NCHUNKS; c++) {
        for (int i = 0; i < NVALUES; i++)
            values[c][i] = (float)(i % 256 + c) / 256;
        src[c] = values[c];
        dst[c] = decoded[c];
        streams[c] = malloc(terp_encode_bound(&chunk));
        if (streams[c] == NULL)
            return fail("malloc", TERP_ERR_MEMORY);
    }
    st = terp_encode_batch(&run, &params, &chunk, NCHUNKS, src, streams, nbytes,
                           &result);
    if (st != TERP_OK)
        return fail("terp_encode_batch", st);
    st = terp_decode_batch(&run, &chunk, NCHUNKS, (const void *const *)streams,
                           nbytes, dst, status, &result);
    if (st != TERP_OK)
        return fail("terp_decode_batch", st);
    for (int c = 0; c < NCHUNKS; c++) {
        for (int i = 0; i < NVALUES; i++)
            if (!(fabs((double)values[c][i] - (double)decoded[c][i]) <= BOUND))
                return fail("the bound", TERP_ERR_CORRUPT);
        if (nbytes[c] >= sizeof values[c])
            return fail("compression", TERP_ERR_CORRUPT);
        free(streams[c]);
    }
    if (result.used != TERP_ENGINE_CUDA)
        printf("cpu: %s\n", result.reason);
    if (argc > 1 && strcmp(argv[1], "cuda") == 0 &&
        result.used != TERP_ENGINE_CUDA)
        return fail("the engine", TERP_ERR_DEVICE);
    terp_context_destroy(run.context);
    return 0;
}
