/* Host memory that the CUDA engine takes in proportion to chunks, for trials
 * and searches, comes from the caller's allocator, and TERP_MAX_MEMORY counts
 * it. TERP_CUDA_LIBRARY names the engine. */
#define _POSIX_C_SOURCE 200112L /* for setenv */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "h5tests/support/cases.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/fields.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Calls that need such memory. */
static const struct {
    struct terp_chunk chunk;
    bool is_flat; /* coded as one dimension */
    enum terp_field field;
    struct terp_params params;
    bool takes_chunk; /* at least a chunk's bytes; else nothing */
} cases[] = {
    /* The search for rows in chunks of one dimension, of swapped values, of
     * carriers, and of logarithms. */
    {{TERP_FLOAT32, true, false, 3, {16, 20, 24}},
     true,
     TERP_FIELD_SMOOTH,
     {.bound_mode = TERP_BOUND_RELATIVE, .bound = 1e-3},
     true},
    {{TERP_INT32, false, false, 3, {16, 20, 24}},
     true,
     TERP_FIELD_SMOOTH,
     {.bound_mode = TERP_BOUND_ABSOLUTE, .bound = 1},
     true},
    {{TERP_FLOAT32, false, false, 3, {16, 20, 24}},
     true,
     TERP_FIELD_SMOOTH,
     {.bound_mode = TERP_BOUND_POINTWISE, .bound = 1e-3},
     true},
    /* Two streams, of which the smaller one is kept, parts, and the search for
     * a PSNR need device memory only. */
    {{TERP_FLOAT32, false, false, 3, {10, 11, 12}},
     false,
     TERP_FIELD_ROUGH,
     {.bound_mode = TERP_BOUND_RELATIVE,
      .bound = 1e-3,
      .effort = TERP_EFFORT_BEST},
     false},
    {{TERP_COMPLEX64, false, false, 2, {20, 30}},
     false,
     TERP_FIELD_ROUGH,
     {.bound_mode = TERP_BOUND_ABSOLUTE,
      .bound = 1e-3,
      .effort = TERP_EFFORT_BEST},
     false},
    {{TERP_FLOAT64, false, false, 2, {20, 30}},
     false,
     TERP_FIELD_ROUGH,
     {.bound_mode = TERP_BOUND_PSNR, .bound = 60},
     false},
};

/* The blocks of an allocator. Only the caller's thread uses it. */
struct given {
    uint64_t nbytes, peak_nbytes, largest_nbytes;
};

/* The size of a block is stored before it. */
#define HEAD_NBYTES 64

static void *
allocate(void *arg, size_t nbytes)
{
    struct given *given = arg;
    uint8_t *block =
        aligned_alloc(HEAD_NBYTES, (nbytes / HEAD_NBYTES + 2) * HEAD_NBYTES);

    if (block == NULL)
        return NULL;
    memcpy(block, &nbytes, sizeof nbytes);
    given->nbytes += nbytes;
    if (given->nbytes > given->peak_nbytes)
        given->peak_nbytes = given->nbytes;
    if (nbytes > given->largest_nbytes)
        given->largest_nbytes = nbytes;
    return block + HEAD_NBYTES;
}

static void
release(void *arg, void *at)
{
    struct given *given = arg;
    uint8_t *block = (uint8_t *)at - HEAD_NBYTES;
    size_t nbytes;

    memcpy(&nbytes, block, sizeof nbytes);
    given->nbytes -= nbytes;
    free(block);
}

/* Encodes case i on the device. Compares the stream with the CPU's. */
static enum terp_status
encode(size_t i, struct given *given, struct terp_run_result *result)
{
    struct terp_chunk chunk = cases[i].chunk;
    const struct terp_context_options context_options = {
        .size = sizeof context_options,
        .device = -1,
        .allocate = allocate,
        .release = release,
        .allocator_arg = given};
    struct terp_run_options options = {.size = sizeof options,
                                       .engine = TERP_ENGINE_CUDA};
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));
    uint8_t *stream = terp_case_alloc(terp_encode_bound(&chunk));
    const void *src = values;
    void *dst = stream;
    uint64_t nbytes;

    *given = (struct given){0};
    *result = (struct terp_run_result){.size = sizeof *result};
    terp_field_make(cases[i].field, &chunk, values);
    if (cases[i].is_flat) {
        chunk.dims[0] *= chunk.dims[1] * chunk.dims[2];
        chunk.rank = 1;
    }
    assert_int_equal(terp_context_make(&context_options, &options.context),
                     TERP_OK);
    const enum terp_status st = terp_encode_batch(
        &options, &cases[i].params, &chunk, 1, &src, &dst, &nbytes, result);
    terp_context_destroy(options.context);
    assert_int_equal(given->nbytes, 0);
    if (st == TERP_OK) {
        assert_int_equal(unsetenv("TERP_MAX_MEMORY"), 0);
        const struct terp_stream of_cpu =
            terp_case_encode(&cases[i].params, &chunk, values, 1);
        assert_int_equal(nbytes, of_cpu.nbytes);
        assert_memory_equal(stream, of_cpu.bytes, nbytes);
        free(of_cpu.bytes);
    }
    free(values);
    free(stream);
    return st;
}

static void
memory_of_trials_is_the_callers(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct terp_run_result result;
        struct given given;
        assert_int_equal(encode(i, &given, &result), TERP_OK);
        assert_int_equal(result.used, TERP_ENGINE_CUDA);
        if (cases[i].takes_chunk)
            assert_in_range(given.largest_nbytes,
                            terp_chunk_nbytes(&cases[i].chunk), UINT64_MAX);
        else
            assert_int_equal(given.largest_nbytes, 0);
    }
}

/* With memory for the chunk only, and with more. */
static void
limit_is_kept(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        for (uint64_t factor = 1; factor <= 8; factor *= 2) {
            const uint64_t limit = factor * terp_chunk_nbytes(&cases[i].chunk);
            struct terp_run_result result;
            struct given given;
            char text[32];
            snprintf(text, sizeof text, "%" PRIu64, limit);
            assert_int_equal(setenv("TERP_MAX_MEMORY", text, 1), 0);
            const enum terp_status st = encode(i, &given, &result);
            assert_int_equal(unsetenv("TERP_MAX_MEMORY"), 0);
            assert_true(st == TERP_OK || st == TERP_ERR_LIMIT);
            assert_true(given.peak_nbytes <= limit);
        }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_of_trials_is_the_callers),
        cmocka_unit_test(limit_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
