/* Runs tests of terp.h on the CUDA engine as well. A test linked with
 * --wrap=terp_encode and --wrap=terp_decode calls the functions here, which run
 * both engines; any difference ends the program.
 *
 * TERP_CUDA_LIBRARY names the engine: the emulated one, or libterp_cuda.so on a
 * machine with a GPU. TERP_TEST_EVERY=n runs one call in n on the device,
 * because the emulator is slow; terp_case_is_drawn chooses the calls. With
 * TERP_TEST_NANS=any all NaN are equal: in damaged streams arithmetic may make
 * NaN, whose bits depend on the machine. */
#define _DEFAULT_SOURCE /* for MAP_ANONYMOUS */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "codec/format/types.h"
#include "codec/model/bound.h"
#include "h5tests/support/cases.h"
#include "h5tests/support/values.h"

/* The linker's --wrap gives these names. */
enum terp_status
__real_terp_encode(const struct terp_params *, const struct terp_chunk *,
                   const void *, void *, uint64_t, uint64_t *, int);
enum terp_status
__real_terp_decode(const void *, uint64_t, void *, uint64_t, uint64_t *, int);
enum terp_status
__wrap_terp_encode(const struct terp_params *, const struct terp_chunk *,
                   const void *, void *, uint64_t, uint64_t *, int);
enum terp_status
__wrap_terp_decode(const void *, uint64_t, void *, uint64_t, uint64_t *, int);

/* cmocka's checks work in the main thread only, and any thread may come
 * here. */
static void
stop(const struct terp_chunk *chunk, const struct terp_params *params,
     const char *problem)
{
    fprintf(stderr,
            "%s: %s, %s%srank %d, %" PRIu64 "x%" PRIu64 "x%" PRIu64 "x%" PRIu64,
            problem, terp_type_name(chunk->type),
            chunk->big_endian ? "big-endian, " : "",
            chunk->stack ? "stack, " : "", chunk->rank, chunk->dims[0],
            chunk->dims[1], chunk->dims[2], chunk->dims[3]);
    if (params != NULL)
        fprintf(stderr, ", %s %a, pipeline %d, predictor %d%s",
                terp_bound_mode_name(params->bound_mode), params->bound,
                (int)params->pipeline, (int)params->predictor,
                params->has_fill ? ", fill" : "");
    fputc('\n', stderr);
    abort();
}

static bool
is_chosen(void)
{
    static atomic_uint_fast64_t ncalls;
    const char *every = getenv("TERP_TEST_EVERY");
    uint64_t n = every == NULL ? 1 : strtoull(every, NULL, 10);

    return n > 0 && terp_case_is_drawn(ncalls++, n);
}

/* Not malloc, because some tests count and limit the codec's allocations. */
static void *
take_memory(uint64_t nbytes)
{
    void *bytes = mmap(NULL, nbytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (bytes == MAP_FAILED)
        abort();
    return bytes;
}

/* The device must run all calls that are not left to the CPU. */
static void
check_use(const struct terp_run_result *result, const struct terp_chunk *chunk,
          const struct terp_params *params)
{
    const bool is_the_cpus =
        params != NULL && terp_is_the_cpus(chunk->type, params);

    if (result->used != TERP_ENGINE_CUDA && !is_the_cpus)
        stop(chunk, params, result->reason);
}

static void
compare_encoders(const struct terp_params *params,
                 const struct terp_chunk *chunk, const void *src,
                 const uint8_t *expected, uint64_t expected_nbytes)
{
    const struct terp_run_options options = {.engine = TERP_ENGINE_CUDA};
    struct terp_run_result result = {.size = sizeof result};
    void *dst = take_memory(terp_encode_bound(chunk));
    uint64_t nbytes = 0, at = 0;
    char problem[128];

    if (terp_encode_batch(&options, params, chunk, 1, &src, &dst, &nbytes,
                          &result) != TERP_OK)
        stop(chunk, params, "the device does not encode");
    check_use(&result, chunk, params);
    while (at < nbytes && at < expected_nbytes &&
           ((const uint8_t *)dst)[at] == expected[at])
        at++;
    if (at < nbytes || at < expected_nbytes) {
        snprintf(problem, sizeof problem,
                 "streams of %" PRIu64 " (CPU) and %" PRIu64
                 " bytes (CUDA) differ from byte %" PRIu64,
                 expected_nbytes, nbytes, at);
        stop(chunk, params, problem);
    }
    munmap(dst, terp_encode_bound(chunk));
}

/* Chunks larger than the caller's buffer stay with the CPU, because a damaged
 * frame may announce any size. */
static bool
is_nan(enum terp_type type, uint64_t bits)
{
    double value = value_of_bits(type, bits);

    return value != value;
}

static void
compare_decoders(const void *src, uint64_t src_nbytes, uint64_t readable_nbytes,
                 int nthreads)
{
    /* A stream without a readable frame is always refused. */
    struct terp_chunk chunk = {.type = TERP_FLOAT32, .rank = 1, .dims = {1}};
    const struct terp_run_options options = {.engine = TERP_ENGINE_CUDA};
    struct terp_run_result result = {.size = sizeof result};
    enum terp_status cuda_st;
    uint64_t nbytes, got;
    const char *nans = getenv("TERP_TEST_NANS");
    bool any_nan = nans != NULL && strcmp(nans, "any") == 0;
    char problem[128];

    (void)terp_decoded_chunk(src, src_nbytes, &chunk);
    nbytes = terp_chunk_nbytes(&chunk);
    if (chunk.type == TERP_BYTES || nbytes > readable_nbytes)
        return;
    uint8_t *expected = take_memory(nbytes);
    void *dst = take_memory(nbytes);
    enum terp_status st =
        __real_terp_decode(src, src_nbytes, expected, nbytes, &got, nthreads);
    memset(dst, 0x5A, nbytes);
    (void)terp_decode_batch(&options, &chunk, 1, &src, &src_nbytes, &dst,
                            &cuda_st, &result);
    check_use(&result, &chunk, NULL);
    if (st != cuda_st) {
        snprintf(problem, sizeof problem, "\"%s\" (CPU) or \"%s\" (CUDA)",
                 terp_status_text(st), terp_status_text(cuda_st));
        stop(&chunk, NULL, problem);
    }
    /* Complex values have twice as many. */
    struct terp_chunk part = terp_chunk_of_part(&chunk);
    part.big_endian = chunk.big_endian;
    const bool is_plain = terp_type_is_plain(part.type);
    const uint64_t nparts = nbytes / (uint64_t)value_nbytes(part.type);
    if (st == TERP_OK && !is_plain && memcmp(expected, dst, nbytes) != 0)
        stop(&chunk, NULL, "values differ");
    for (uint64_t i = 0; st == TERP_OK && is_plain && i < nparts; i++) {
        uint64_t cpu = value_bits(&part, expected, i);
        uint64_t cuda = value_bits(&part, dst, i);
        if (cpu == cuda ||
            (any_nan && is_nan(part.type, cpu) && is_nan(part.type, cuda)))
            continue;
        snprintf(problem, sizeof problem,
                 "value %" PRIu64 " is decoded to %" PRIx64
                 " (CPU) and %" PRIx64 " (CUDA)",
                 i, cpu, cuda);
        stop(&chunk, NULL, problem);
    }
    munmap(expected, nbytes);
    munmap(dst, nbytes);
}

enum terp_status
__wrap_terp_encode(const struct terp_params *params,
                   const struct terp_chunk *chunk, const void *src, void *dst,
                   uint64_t dst_cap_nbytes, uint64_t *dst_nbytes_ret,
                   int nthreads)
{
    enum terp_status st = __real_terp_encode(
        params, chunk, src, dst, dst_cap_nbytes, dst_nbytes_ret, nthreads);

    if (st == TERP_OK && chunk->type != TERP_BYTES && is_chosen())
        compare_encoders(params, chunk, src, dst, *dst_nbytes_ret);
    return st;
}

enum terp_status
__wrap_terp_decode(const void *src, uint64_t src_nbytes, void *dst,
                   uint64_t dst_cap_nbytes, uint64_t *dst_nbytes_ret,
                   int nthreads)
{
    if (nthreads > 0 && is_chosen())
        compare_decoders(src, src_nbytes, dst_cap_nbytes, nthreads);
    return __real_terp_decode(src, src_nbytes, dst, dst_cap_nbytes,
                              dst_nbytes_ret, nthreads);
}
