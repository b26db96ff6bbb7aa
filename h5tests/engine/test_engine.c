/* When the codec uses the CUDA engine, and what happens if the engine fails.
 * The engine is a fake. A process loads the engine once, so each test runs in a
 * child of its own; the parent never uses the engine. */
#define _GNU_SOURCE /* for setenv and usleep */
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "codec/engine.h"
#include "h5tests/engine/fake_cuda_engine.h"
#include "h5tests/support/cases.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/fields.h"
#include "h5tests/support/values.h"

#define NCHUNKS 3

/* Ends a child that waits for a lock for ever. */
#define MAX_SECONDS 60

/* cmocka's checks work only in the parent. */
#define CHECK(condition)                                                    \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            _exit(1);                                                       \
        }                                                                   \
    } while (0)

static const struct terp_params params = {.bound_mode = TERP_BOUND_RELATIVE,
                                          .bound = 1e-3};

#define CONST(pointers) ((const void *const *)(pointers))

/* Some chunks, and their streams by the CPU engine. */
static struct terp_chunk chunk;
static uint64_t chunk_nbytes;
static void *values[NCHUNKS], *decoded[NCHUNKS], *streams[NCHUNKS];
static uint64_t stream_nbytes[NCHUNKS];

static int
make_chunks(void **state)
{
    static const uint64_t dims[] = {10, 11, 12};
    uint64_t got;

    (void)state;
    chunk = terp_case_chunk(TERP_FLOAT32, 3, dims);
    chunk_nbytes = terp_chunk_nbytes(&chunk);
    for (int i = 0; i < NCHUNKS; i++) {
        uint8_t *bytes = terp_case_alloc(chunk_nbytes);
        terp_field_make((enum terp_field)(TERP_FIELD_RAMP + i), &chunk, bytes);
        struct terp_stream stream = terp_case_encode(&params, &chunk, bytes, 1);
        uint8_t *back = terp_case_alloc(chunk_nbytes);
        assert_int_equal(terp_decode(stream.bytes, stream.nbytes, back,
                                     chunk_nbytes, &got, 1),
                         TERP_OK);
        values[i] = bytes;
        decoded[i] = back;
        streams[i] = stream.bytes;
        stream_nbytes[i] = stream.nbytes;
    }
    return 0;
}

static int
free_chunks(void **state)
{
    (void)state;
    for (int i = 0; i < NCHUNKS; i++) {
        free(values[i]);
        free(decoded[i]);
        free(streams[i]);
    }
    return 0;
}

/* Exit code of a child that ends in its exit handler. */
#define HANDLED 7

static void
run_in_child_to(int expected, void (*scenario)(void))
{
    int status;

    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(MAX_SECONDS);
        scenario();
        exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), expected);
}

static void
run_in_child(void (*scenario)(void))
{
    run_in_child_to(0, scenario);
}

/* Chooses the engine that this process will find. */
static struct fake_cuda *
take_fake(void)
{
    const char *path = getenv("TEST_FAKE_CUDA");

    struct fake_cuda *fake = fake_cuda_take(path);

    CHECK(fake != NULL);
    setenv("TERP_CUDA_LIBRARY", path, 1);
    return fake;
}

/* The first process of a PID namespace has the same id as the first of
 * another. */
pid_t
getpid(void)
{
    return 1;
}

/* Encodes all chunks. The streams must be those of the CPU. */
static struct terp_run_result
encode_by(const struct terp_run_options *run)
{
    struct terp_run_result result = {.size = sizeof result};
    uint64_t nbytes[NCHUNKS];
    void *dst[NCHUNKS];

    for (int i = 0; i < NCHUNKS; i++)
        CHECK((dst[i] = malloc(terp_encode_bound(&chunk))) != NULL);
    CHECK(terp_encode_batch(run, &params, &chunk, NCHUNKS, CONST(values), dst,
                            nbytes, &result) == TERP_OK);
    for (int i = 0; i < NCHUNKS; i++) {
        CHECK(nbytes[i] == stream_nbytes[i]);
        CHECK(memcmp(dst[i], streams[i], nbytes[i]) == 0);
        free(dst[i]);
    }
    return result;
}

static struct terp_run_result
decode_by(const struct terp_run_options *run)
{
    struct terp_run_result result = {.size = sizeof result};
    enum terp_status status[NCHUNKS];
    void *dst[NCHUNKS];

    for (int i = 0; i < NCHUNKS; i++)
        CHECK((dst[i] = malloc(chunk_nbytes)) != NULL);
    CHECK(terp_decode_batch(run, &chunk, NCHUNKS, CONST(streams), stream_nbytes,
                            dst, status, &result) == TERP_OK);
    for (int i = 0; i < NCHUNKS; i++) {
        CHECK(status[i] == TERP_OK);
        CHECK(memcmp(dst[i], decoded[i], chunk_nbytes) == 0);
        free(dst[i]);
    }
    return result;
}

static struct terp_run_result
encode_all(enum terp_engine_kind engine, enum terp_memory memory)
{
    const struct terp_run_options run = {.engine = engine, .memory = memory};

    return encode_by(&run);
}

static struct terp_run_result
decode_all(enum terp_engine_kind engine, enum terp_memory memory)
{
    const struct terp_run_options run = {.engine = engine, .memory = memory};

    return decode_by(&run);
}

static void
check_cpu(struct terp_run_result run, const char *reason)
{
    CHECK(run.used == TERP_ENGINE_CPU && run.device == NULL);
    CHECK(run.reason != NULL);
    if (strstr(run.reason, reason) == NULL) {
        fprintf(stderr, "\"%s\" is not in \"%s\"\n", reason, run.reason);
        _exit(1);
    }
}

static void
check_cuda(struct terp_run_result run)
{
    CHECK(run.used == TERP_ENGINE_CUDA);
    CHECK(run.device != NULL && strncmp(run.device, "fake ", 5) == 0);
    CHECK(run.reason == NULL);
}

/* ---- opening ---- */

static void
without_library(void)
{
    setenv("TERP_CUDA_LIBRARY", "/nowhere/libterp_cuda.so", 1);
    for (int turn = 0; turn < 2; turn++) {
        check_cpu(encode_all(TERP_ENGINE_CUDA, TERP_MEMORY_HOST), "/nowhere/");
        check_cpu(decode_all(TERP_ENGINE_CUDA, TERP_MEMORY_HOST), "/nowhere/");
    }
}

static void
with_any_library(void)
{
    setenv("TERP_CUDA_LIBRARY", "libm.so.6", 1);
    check_cpu(decode_all(TERP_ENGINE_CUDA, TERP_MEMORY_HOST),
              "is not an engine of terp");
}

static void
with_another_version(void)
{
    struct fake_cuda *fake = take_fake();

    fake->library_status = TERP_ERR_ARGUMENT;
    check_cpu(encode_all(TERP_ENGINE_CUDA, TERP_MEMORY_HOST),
              "of another version");
    CHECK(fake->nencodes == 0);
}

static void
without_device(void)
{
    struct fake_cuda *fake = take_fake();

    fake->open_status = TERP_ERR_DEVICE;
    check_cpu(encode_all(TERP_ENGINE_CUDA, TERP_MEMORY_HOST), "switched off");
    fake->open_status = TERP_OK;
    check_cpu(encode_all(TERP_ENGINE_CUDA, TERP_MEMORY_HOST), "switched off");
    CHECK(fake->nopens == 1);
    CHECK(fake->nencodes == 0);
}

static void
with_device(void)
{
    struct fake_cuda *fake = take_fake();

    check_cuda(encode_all(TERP_ENGINE_CUDA, TERP_MEMORY_HOST));
    check_cuda(decode_all(TERP_ENGINE_CUDA, TERP_MEMORY_HOST));
    check_cuda(encode_all(TERP_ENGINE_CUDA, TERP_MEMORY_DEVICE));
    check_cuda(decode_all(TERP_ENGINE_AUTO, TERP_MEMORY_DEVICE));
    CHECK(fake->nopens == 1 && fake->nencodes == 2 && fake->ndecodes == 2);
}

static void
when_not_asked_for(void)
{
    struct fake_cuda *fake = take_fake();

    struct terp_run_result run = encode_all(TERP_ENGINE_CPU, TERP_MEMORY_HOST);
    CHECK(run.used == TERP_ENGINE_CPU && run.reason == NULL);
    CHECK(fake->nopens == 0);
}

static void
library_that_is_missing_leaves_all_to_the_cpu(void **state)
{
    (void)state;
    run_in_child(without_library);
}

static void
library_that_is_no_engine_is_not_used(void **state)
{
    (void)state;
    run_in_child(with_any_library);
}

static void
engine_of_another_version_is_not_used(void **state)
{
    (void)state;
    run_in_child(with_another_version);
}

static void
device_that_cannot_be_opened_is_not_tried_again(void **state)
{
    (void)state;
    run_in_child(without_device);
}

static void
device_that_works_does_the_batches(void **state)
{
    (void)state;
    run_in_child(with_device);
}

static void
engine_that_nobody_asks_for_is_not_opened(void **state)
{
    (void)state;
    run_in_child(when_not_asked_for);
}

/* ---- failures ---- */

static void
device_lost_in_encode(void)
{
    struct fake_cuda *fake = take_fake();

    check_cuda(encode_all(TERP_ENGINE_CUDA, TERP_MEMORY_HOST));
    fake->call_status = TERP_ERR_DEVICE;
    fake->is_lost = true;
    check_cpu(encode_all(TERP_ENGINE_CUDA, TERP_MEMORY_HOST), "told to fail");
    fake->call_status = TERP_OK;
    check_cpu(encode_all(TERP_ENGINE_CUDA, TERP_MEMORY_HOST), "told to fail");
    check_cpu(decode_all(TERP_ENGINE_CUDA, TERP_MEMORY_HOST), "told to fail");
    CHECK(fake->nencodes == 2 && fake->ndecodes == 0);
}

static void
device_lost_in_decode(void)
{
    struct fake_cuda *fake = take_fake();

    check_cuda(decode_all(TERP_ENGINE_CUDA, TERP_MEMORY_HOST));
    fake->call_status = TERP_ERR_DEVICE;
    fake->is_lost = true;
    check_cpu(decode_all(TERP_ENGINE_CUDA, TERP_MEMORY_HOST), "told to fail");
    fake->call_status = TERP_OK;
    check_cpu(encode_all(TERP_ENGINE_CUDA, TERP_MEMORY_HOST), "told to fail");
    CHECK(fake->nencodes == 0 && fake->ndecodes == 2);
}

static void
device_lost_with_its_memory(void)
{
    const struct terp_run_options run = {.engine = TERP_ENGINE_CUDA,
                                         .memory = TERP_MEMORY_DEVICE};
    struct fake_cuda *fake = take_fake();
    enum terp_status status[2];
    void *dst[2] = {malloc(chunk_nbytes), malloc(chunk_nbytes)};

    check_cuda(decode_all(TERP_ENGINE_CUDA, TERP_MEMORY_DEVICE));
    fake->is_lost = true;
    fake->call_status = TERP_ERR_DEVICE;
    CHECK(dst[0] != NULL && dst[1] != NULL);
    for (int turn = 0; turn < 2; turn++) {
        CHECK(terp_decode_batch(&run, &chunk, 2, CONST(streams), stream_nbytes,
                                dst, status, NULL) == TERP_ERR_DEVICE);
        CHECK(status[0] == TERP_ERR_DEVICE && status[1] == TERP_ERR_DEVICE);
    }
    CHECK(fake->ndecodes == 2 && fake->ncopies == 0);
    free(dst[0]);
    free(dst[1]);
}

static void
device_memory_without_device(void)
{
    struct fake_cuda *fake = take_fake();
    struct terp_run_options run = {.engine = TERP_ENGINE_CUDA,
                                   .memory = TERP_MEMORY_DEVICE};
    enum terp_status status[] = {TERP_OK, TERP_OK};
    void *dst[] = {NULL, NULL};
    uint64_t nbytes[2];

    fake->open_status = TERP_ERR_DEVICE;
    CHECK(terp_encode_batch(&run, &params, &chunk, 2, CONST(values), dst,
                            nbytes, NULL) == TERP_ERR_DEVICE);
    CHECK(terp_decode_batch(&run, &chunk, 2, CONST(streams), stream_nbytes, dst,
                            status, NULL) == TERP_ERR_DEVICE);
    CHECK(status[0] == TERP_ERR_DEVICE && status[1] == TERP_ERR_DEVICE);
    run.engine = TERP_ENGINE_CPU;
    CHECK(terp_encode_batch(&run, &params, &chunk, 2, CONST(values), dst,
                            nbytes, NULL) == TERP_ERR_ARGUMENT);
}

static void
device_says_that_a_stream_is_bad(void)
{
    struct fake_cuda *fake = take_fake();
    const struct terp_run_options run = {.engine = TERP_ENGINE_CUDA};
    struct terp_run_result result = {.size = sizeof result};
    enum terp_status status;
    void *dst = malloc(chunk_nbytes);

    CHECK(dst != NULL);
    fake->stream_status = TERP_ERR_CORRUPT;
    CHECK(terp_decode_batch(&run, &chunk, 1, CONST(streams), stream_nbytes,
                            &dst, &status, &result) == TERP_ERR_CORRUPT);
    CHECK(status == TERP_ERR_CORRUPT);
    CHECK(result.used == TERP_ENGINE_CUDA && fake->ndecodes == 1);
    fake->stream_status = TERP_OK;
    check_cuda(decode_all(TERP_ENGINE_CUDA, TERP_MEMORY_HOST));
    free(dst);
}

/* Every step-th value, from and to both memories, by the device, or by the CPU
 * if the device declines. */
static void
coarse_values_by_either(void)
{
    struct fake_cuda *fake = take_fake();
    struct terp_run_options run = {.engine = TERP_ENGINE_CUDA};
    struct terp_run_result result = {.size = sizeof result};
    uint8_t *want = malloc(chunk_nbytes), *got = malloc(chunk_nbytes);
    enum terp_status status;
    void *dst = got;
    uint64_t nbytes;

    CHECK(want != NULL && got != NULL);
    CHECK(terp_decode_coarse(streams[0], stream_nbytes[0], 4, want,
                             chunk_nbytes, &nbytes, 1) == TERP_OK);
    for (int turn = 0; turn < 4; turn++) {
        const bool on_device = turn % 2 == 1, is_left = turn >= 2;
        memset(got, 0xA5, chunk_nbytes);
        run.memory = on_device ? TERP_MEMORY_DEVICE : TERP_MEMORY_HOST;
        fake->stream_status = is_left ? TERP_ERR_DEVICE : TERP_OK;
        fake->ncopies = 0;
        CHECK(terp_decode_coarse_batch(&run, &chunk, 4, 1, CONST(streams),
                                       stream_nbytes, &dst, &status,
                                       &result) == TERP_OK);
        CHECK(status == TERP_OK && memcmp(got, want, nbytes) == 0);
        CHECK(result.used == TERP_ENGINE_CUDA);
        CHECK(fake->ndecodes == turn + 1);
        CHECK((fake->ncopies > 0) == (on_device && is_left));
    }
    fake->stream_status = TERP_OK;
    run.memory = TERP_MEMORY_HOST;
    run.engine = TERP_ENGINE_AUTO;
    CHECK(terp_decode_coarse_batch(&run, &chunk, 4, 1, CONST(streams),
                                   stream_nbytes, &dst, &status,
                                   &result) == TERP_OK);
    CHECK(status == TERP_OK && memcmp(got, want, nbytes) == 0);
    CHECK(result.used == TERP_ENGINE_CPU && result.device == NULL);
    CHECK(fake->ndecodes == 4);
    free(want);
    free(got);
}

static void
coarse_values_without_device(void)
{
    struct fake_cuda *fake = take_fake();
    const struct terp_run_options run = {.engine = TERP_ENGINE_CUDA,
                                         .memory = TERP_MEMORY_DEVICE};
    enum terp_status status = TERP_OK;
    void *dst = NULL;

    fake->open_status = TERP_ERR_DEVICE;
    CHECK(terp_decode_coarse_batch(&run, &chunk, 4, 1, CONST(streams),
                                   stream_nbytes, &dst, &status,
                                   NULL) == TERP_ERR_DEVICE);
    CHECK(status == TERP_ERR_DEVICE);
}

/* The number of blocks that are still allocated. */
static int nblocks;

static void *
allocate_one_of_few(void *arg, size_t nbytes)
{
    void *at = NULL;

    (void)arg;
    return nblocks-- > 0 && posix_memalign(&at, 64, nbytes) == 0 ? at : NULL;
}

static void
release(void *arg, void *memory)
{
    (void)arg;
    free(memory);
}

/* Data in device memory that the device leaves to the CPU goes through host
 * memory. A copy or an allocation may then fail. */
static void
coarse_values_that_fail_on_their_way(void)
{
    struct fake_cuda *fake = take_fake();
    const struct terp_context_options options = {.size = sizeof options,
                                                 .device = -1,
                                                 .allocate =
                                                     allocate_one_of_few,
                                                 .release = release};
    struct terp_run_options run = {.engine = TERP_ENGINE_CUDA,
                                   .memory = TERP_MEMORY_DEVICE};
    uint8_t *got = malloc(chunk_nbytes);
    enum terp_status status = TERP_ERR_DEVICE;
    void *dst = got;
    const int last = NCHUNKS - 1; /* longer than a frame's first read */
    int nfailed = 0;

    CHECK(got != NULL);
    CHECK(terp_context_make(&options, &run.context) == TERP_OK);
    fake->stream_status = TERP_ERR_DEVICE;
    fake->fail_status = TERP_ERR_DEVICE;
    for (int n = 2; status != TERP_OK; n++) {
        nblocks = INT_MAX;
        fake->ncalls = 0;
        fake->fail_at = n;
        (void)terp_decode_coarse_batch(
            &run, &chunk, 4, 1, CONST(streams + last), stream_nbytes + last,
            &dst, &status, NULL);
        CHECK(status == (fake->ncalls < n ? TERP_OK : TERP_ERR_DEVICE));
        nfailed += status != TERP_OK;
    }
    CHECK(nfailed == 3); /* the head, the rest, the values */
    fake->fail_at = 0;
    for (int n = 0; n < 2; n++) {
        nblocks = n;
        (void)terp_decode_coarse_batch(
            &run, &chunk, 4, 1, CONST(streams + last), stream_nbytes + last,
            &dst, &status, NULL);
        CHECK(status == TERP_ERR_MEMORY);
    }
    terp_context_destroy(run.context);
    free(got);
}

static void
coarse_values_come_from_either(void **state)
{
    (void)state;
    run_in_child(coarse_values_by_either);
    run_in_child(coarse_values_without_device);
    run_in_child(coarse_values_that_fail_on_their_way);
}

static void
device_that_is_lost_is_not_used_again(void **state)
{
    (void)state;
    run_in_child(device_lost_in_encode);
    run_in_child(device_lost_in_decode);
    run_in_child(device_lost_with_its_memory);
}

static void
device_memory_without_a_device_is_an_error(void **state)
{
    (void)state;
    run_in_child(device_memory_without_device);
}

static void
bad_stream_is_told_and_ends_nothing(void **state)
{
    (void)state;
    run_in_child(device_says_that_a_stream_is_bad);
}

/* Once, in both kinds of memory. */
static void
fail_once(enum terp_memory memory, enum terp_status status)
{
    struct fake_cuda *fake = take_fake();

    check_cuda(encode_all(TERP_ENGINE_CUDA, memory));
    fake->call_status = status;
    check_cpu(encode_all(TERP_ENGINE_CUDA, memory), "told to fail");
    check_cpu(decode_all(TERP_ENGINE_CUDA, memory), "told to fail");
    fake->call_status = TERP_OK;
    check_cuda(encode_all(TERP_ENGINE_CUDA, memory));
    check_cuda(decode_all(TERP_ENGINE_CUDA, memory));
    CHECK(fake->nopens == 1 && fake->nencodes == 3 && fake->ndecodes == 2);
    CHECK((fake->ncopies > 0) == (memory == TERP_MEMORY_DEVICE));
}

static void
device_fails_once(void)
{
    fail_once(TERP_MEMORY_HOST, TERP_ERR_DEVICE);
}

static void
device_fails_once_with_its_memory(void)
{
    fail_once(TERP_MEMORY_DEVICE, TERP_ERR_DEVICE);
}

static void
device_lacks_memory_once(void)
{
    fail_once(TERP_MEMORY_HOST, TERP_ERR_MEMORY);
}

static void
device_lacks_memory_once_with_its_memory(void)
{
    fail_once(TERP_MEMORY_DEVICE, TERP_ERR_MEMORY);
}

/* Opened as soon as memory suffices. */
static void
device_without_memory_to_open(void)
{
    struct fake_cuda *fake = take_fake();

    fake->open_status = TERP_ERR_MEMORY;
    check_cpu(encode_all(TERP_ENGINE_CUDA, TERP_MEMORY_HOST), "memory");
    fake->open_status = TERP_OK;
    check_cuda(encode_all(TERP_ENGINE_CUDA, TERP_MEMORY_HOST));
    CHECK(fake->nopens == 2 && fake->nencodes == 1);
}

static void
device_leaves_chunks_on(enum terp_memory memory)
{
    struct fake_cuda *fake = take_fake();

    fake->leaves_odd_chunks = true;
    check_cuda(encode_all(TERP_ENGINE_CUDA, memory));
    check_cuda(decode_all(TERP_ENGINE_CUDA, memory));
    /* There and back, for one chunk in three. */
    CHECK(fake->ncopies == (memory == TERP_MEMORY_DEVICE ? 4 : 0));
}

static void
device_leaves_chunks_of_the_host(void)
{
    device_leaves_chunks_on(TERP_MEMORY_HOST);
}

static void
device_leaves_chunks_of_its_own(void)
{
    device_leaves_chunks_on(TERP_MEMORY_DEVICE);
}

/* Threads of the CPU copy chunks between device and host, and count their
 * memory in one budget. ThreadSanitizer would report a race. */
static void
device_fails_while_memory_is_counted(void)
{
    const struct terp_run_options run = {.engine = TERP_ENGINE_CUDA,
                                         .memory = TERP_MEMORY_DEVICE,
                                         .nthreads = NCHUNKS};
    struct fake_cuda *fake = take_fake();

    setenv("TERP_MAX_MEMORY", "1G", 1);
    fake->call_status = TERP_ERR_DEVICE;
    check_cpu(encode_by(&run), "told to fail");
    check_cpu(decode_by(&run), "told to fail");
}

/* Limits of chunk `i` that some values exceed within the bound. */
static struct terp_params
params_with_limits(int i)
{
    const float *chunk_values = values[i];
    struct terp_params limited = params;

    limited.size = sizeof limited;
    limited.keep_sign = TERP_KEEP_SIGN_OF_VALUES;
    limited.has_valid_range = true;
    limited.valid_min = limited.valid_max = chunk_values[0];
    for (uint64_t k = 1; k < chunk_nvalues(&chunk); k++) {
        limited.valid_min = fmin(limited.valid_min, chunk_values[k]);
        limited.valid_max = fmax(limited.valid_max, chunk_values[k]);
    }
    return limited;
}

/* Encodes all chunks within limits. Returns how many streams differ from those
 * without limits. */
static int
encode_within_limits(enum terp_memory memory)
{
    const struct terp_run_options run = {.engine = TERP_ENGINE_CUDA,
                                         .memory = memory};
    struct terp_run_result result = {.size = sizeof result};
    uint64_t nbytes[NCHUNKS];
    void *dst[NCHUNKS];
    int nchanged = 0;

    for (int i = 0; i < NCHUNKS; i++)
        CHECK((dst[i] = malloc(terp_encode_bound(&chunk))) != NULL);
    for (int i = 0; i < NCHUNKS; i++) {
        const struct terp_params limited = params_with_limits(i);
        CHECK(terp_encode_batch(&run, &limited, &chunk, NCHUNKS, CONST(values),
                                dst, nbytes, &result) == TERP_OK);
        check_cuda(result);
        for (int k = 0; k < NCHUNKS; k++) {
            struct terp_stream stream =
                terp_case_encode(&limited, &chunk, values[k], 1);
            CHECK(nbytes[k] == stream.nbytes);
            CHECK(memcmp(dst[k], stream.bytes, nbytes[k]) == 0);
            nchanged += nbytes[k] != stream_nbytes[k] ||
                        memcmp(dst[k], streams[k], nbytes[k]) != 0;
            free(stream.bytes);
        }
    }
    for (int i = 0; i < NCHUNKS; i++)
        free(dst[i]);
    return nchanged;
}

static void
device_encodes_chunks_with_limits(void)
{
    struct fake_cuda *fake = take_fake();

    CHECK(encode_within_limits(TERP_MEMORY_HOST) > 0);
    CHECK(fake->nencodes == NCHUNKS && fake->ncopies == 0);
    fake->leaves_odd_chunks = true;
    CHECK(encode_within_limits(TERP_MEMORY_HOST) > 0);
}

/* The device encodes them, and the CPU corrects values that exceed a limit. */
static void
limits_are_kept_whoever_encodes(void **state)
{
    (void)state;
    run_in_child(device_encodes_chunks_with_limits);
}

static void
failure_of_one_call_is_made_good_for_that_call(void **state)
{
    (void)state;
    run_in_child(device_fails_once);
    run_in_child(device_fails_once_with_its_memory);
    run_in_child(device_lacks_memory_once);
    run_in_child(device_lacks_memory_once_with_its_memory);
    run_in_child(device_without_memory_to_open);
    run_in_child(device_fails_while_memory_is_counted);
}

static void
chunks_that_the_device_leaves_are_coded_by_the_cpu(void **state)
{
    (void)state;
    run_in_child(device_leaves_chunks_of_the_host);
    run_in_child(device_leaves_chunks_of_its_own);
}

/* ---- contexts ---- */

static void
with_contexts(void)
{
    struct terp_context_options shared = {.size = sizeof shared,
                                          .device = 1,
                                          .device_memory_limit_nbytes = 12345};
    struct fake_cuda *fake = take_fake();
    struct terp_run_options first = {.engine = TERP_ENGINE_CUDA,
                                     .memory = TERP_MEMORY_DEVICE,
                                     .has_stream = true,
                                     .stream = fake};
    struct terp_run_options other = {.engine = TERP_ENGINE_CUDA};

    setenv("TERP_DEVICE", "0", 1);
    CHECK(terp_context_make(&shared, &first.context) == TERP_OK);
    CHECK(terp_context_make(NULL, &other.context) == TERP_OK);
    CHECK(fake->nopens == 0);
    CHECK(strcmp(encode_by(&first).device, "fake 1") == 0);
    CHECK(fake->device == 1 && fake->memory_limit_nbytes == 12345);
    CHECK(fake->stream == fake);
    CHECK(strcmp(encode_by(&other).device, "fake 0") == 0);
    CHECK(fake->device == -1 && fake->memory_limit_nbytes == 0);
    CHECK(fake->stream == NULL);
    check_cuda(encode_all(TERP_ENGINE_CUDA, TERP_MEMORY_HOST));
    CHECK(fake->nopens == 3);
    /* A context that loses its device does not affect the others. */
    fake->call_status = TERP_ERR_DEVICE;
    fake->is_lost = true;
    check_cpu(encode_by(&other), "told to fail");
    fake->call_status = TERP_OK;
    fake->is_lost = false;
    check_cpu(encode_by(&other), "told to fail");
    check_cuda(encode_by(&first));
    check_cuda(decode_all(TERP_ENGINE_CUDA, TERP_MEMORY_HOST));
    terp_context_trim(first.context);
    terp_context_trim(other.context);
    terp_context_trim(NULL);
    CHECK(fake->ntrims == 2);
    terp_context_destroy(first.context);
    terp_context_destroy(other.context);
    CHECK(fake->ncloses == 2 && fake->nopens == 3);
}

static void
contexts_have_devices_of_their_own(void **state)
{
    (void)state;
    run_in_child(with_contexts);
}

/* ---- processes and threads ---- */

static void
in_forked_child_all_is_done_by_cpu(void)
{
    check_cpu(encode_all(TERP_ENGINE_CUDA, TERP_MEMORY_HOST), "forked");
    check_cpu(decode_all(TERP_ENGINE_CUDA, TERP_MEMORY_HOST), "forked");
}

static void
wait_for_child(pid_t child)
{
    int status;

    CHECK(child > 0);
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void
fork_after_use(void)
{
    struct terp_run_options run = {.engine = TERP_ENGINE_CUDA};
    struct fake_cuda *fake = take_fake();

    CHECK(terp_context_make(NULL, &run.context) == TERP_OK);
    check_cuda(encode_by(&run));
    check_cuda(encode_all(TERP_ENGINE_CUDA, TERP_MEMORY_HOST));
    pid_t child = fork();
    if (child == 0) {
        alarm(MAX_SECONDS);
        in_forked_child_all_is_done_by_cpu();
        check_cpu(encode_by(&run), "forked");
        terp_context_trim(run.context);
        terp_context_destroy(run.context);
        CHECK(fake->nencodes == 2 && fake->ndecodes == 0);
        CHECK(fake->ntrims == 0 && fake->ncloses == 0);
        exit(0);
    }
    wait_for_child(child);
    check_cuda(encode_all(TERP_ENGINE_CUDA, TERP_MEMORY_HOST));
    terp_context_destroy(run.context);
}

static void *
encode_in_thread(void *arg)
{
    struct terp_run_result *run = arg;

    *run = encode_all(TERP_ENGINE_CUDA, TERP_MEMORY_HOST);
    return NULL;
}

static void
fork_while_opening(void)
{
    struct fake_cuda *fake = take_fake();
    struct terp_run_result run;
    pthread_t thread;

    fake->hold = true;
    CHECK(pthread_create(&thread, NULL, encode_in_thread, &run) == 0);
    while (fake->nopens == 0)
        usleep(1000);
    pid_t child = fork();
    if (child == 0) {
        alarm(MAX_SECONDS);
        in_forked_child_all_is_done_by_cpu();
        _exit(0);
    }
    wait_for_child(child);
    fake->hold = false;
    CHECK(pthread_join(thread, NULL) == 0);
    check_cuda(run);
}

/* Registered before the engine is opened, like HDF5's exit handler. */
static void
encode_at_exit(void)
{
    check_cpu(encode_all(TERP_ENGINE_CUDA, TERP_MEMORY_HOST), "ending");
    _exit(HANDLED);
}

static void
exit_after_use(void)
{
    struct fake_cuda *fake = take_fake();

    CHECK(atexit(encode_at_exit) == 0);
    check_cuda(encode_all(TERP_ENGINE_CUDA, TERP_MEMORY_HOST));
    CHECK(fake->nencodes == 1);
}

static void
first_use_by_many_threads(void)
{
    enum {
        NTHREADS = 8
    };
    struct fake_cuda *fake = take_fake();
    struct terp_run_result runs[NTHREADS];
    pthread_t threads[NTHREADS];

    for (int i = 0; i < NTHREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, encode_in_thread, &runs[i]) ==
              0);
    for (int i = 0; i < NTHREADS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
        check_cuda(runs[i]);
    }
    CHECK(fake->nopens == 1 && fake->nencodes == NTHREADS);
}

static void *
encode_until_lost(void *arg)
{
    struct fake_cuda *fake = arg;

    for (int turn = 0; turn < 20; turn++) {
        struct terp_run_result run =
            encode_all(TERP_ENGINE_CUDA, TERP_MEMORY_HOST);
        CHECK((run.used == TERP_ENGINE_CUDA) == (run.reason == NULL));
        if (turn == 5) {
            fake->is_lost = true;
            fake->call_status = TERP_ERR_DEVICE;
        }
    }
    check_cpu(encode_all(TERP_ENGINE_CUDA, TERP_MEMORY_HOST), "");
    return NULL;
}

static void
loss_seen_by_many_threads(void)
{
    enum {
        NTHREADS = 8
    };
    struct fake_cuda *fake = take_fake();
    pthread_t threads[NTHREADS];

    for (int i = 0; i < NTHREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, encode_until_lost, fake) == 0);
    for (int i = 0; i < NTHREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    check_cpu(encode_all(TERP_ENGINE_CUDA, TERP_MEMORY_HOST), "told to fail");
}

static void
forked_child_uses_the_cpu(void **state)
{
    (void)state;
    run_in_child(fork_after_use);
    run_in_child(fork_while_opening);
}

static void
exit_handler_uses_the_cpu(void **state)
{
    (void)state;
    run_in_child_to(HANDLED, exit_after_use);
}

static void
threads_open_the_engine_once(void **state)
{
    (void)state;
    run_in_child(first_use_by_many_threads);
}

static void
threads_that_lose_the_device_go_on(void **state)
{
    (void)state;
    run_in_child(loss_seen_by_many_threads);
}

/* ---- the choice of an engine ---- */

/* Encodes so many bytes of zeros, which is fast. */
static struct terp_run_result
encode_zeros(uint64_t nbytes)
{
    const struct terp_run_options run = {.engine = TERP_ENGINE_AUTO};
    struct terp_run_result result = {.size = sizeof result};
    struct terp_chunk zeros = {TERP_FLOAT64, false, false, 1, {nbytes / 8}};
    void *src = calloc(nbytes, 1), *dst = malloc(terp_encode_bound(&zeros));
    const void *const read_only = src;
    uint64_t got;

    CHECK(src != NULL && dst != NULL);
    CHECK(terp_encode_batch(&run, &params, &zeros, 1, &read_only, &dst, &got,
                            &result) == TERP_OK);
    free(src);
    free(dst);
    return result;
}

static void
when_auto(void)
{
    const uint64_t enough = TERP_AUTO_MIN_NBYTES;
    struct fake_cuda *fake = take_fake();

    check_cpu(encode_zeros(enough - 8), "so few bytes");
    check_cpu(encode_zeros(enough), "worth opening");
    CHECK(fake->nopens == 0);
    for (int turn = 0; fake->nopens == 0; turn++) {
        CHECK(turn < 8);
        encode_zeros(UINT64_C(16) << 20);
    }
    check_cuda(encode_zeros(enough));
    check_cpu(encode_zeros(enough - 8), "so few bytes");
    fake->call_status = TERP_ERR_DEVICE;
    check_cpu(encode_zeros(enough), "told to fail");
}

static void
when_only_copied(void)
{
    struct terp_run_options run = {.engine = TERP_ENGINE_CUDA};
    struct terp_run_result result = {.size = sizeof result};
    struct terp_chunk bytes = {TERP_BYTES, false, false, 1, {chunk_nbytes}};
    struct fake_cuda *fake = take_fake();
    void *dst = malloc(terp_encode_bound(&bytes));
    uint64_t got;

    CHECK(dst != NULL);
    CHECK(terp_encode_batch(&run, &params, &bytes, 1, CONST(values), &dst, &got,
                            &result) == TERP_OK);
    check_cpu(result, "only copied");
    CHECK(fake->nopens == 0);
    /* For the device they go through host memory. */
    run.memory = TERP_MEMORY_DEVICE;
    CHECK(terp_encode_batch(&run, &params, &bytes, 1, CONST(values), &dst, &got,
                            NULL) == TERP_OK);
    CHECK(got > chunk_nbytes && fake->ncopies == 2);
    free(dst);
}

static void
when_the_cpus(void)
{
    const struct terp_params psnr = {.bound_mode = TERP_BOUND_PSNR,
                                     .bound = 700};
    struct terp_run_options run = {.engine = TERP_ENGINE_CUDA};
    struct terp_run_result result = {.size = sizeof result};
    struct fake_cuda *fake = take_fake();
    uint8_t *stream = malloc(terp_encode_bound(&chunk));
    void *dst = malloc(terp_encode_bound(&chunk));
    uint64_t nbytes, got;

    CHECK(stream != NULL && dst != NULL);
    CHECK(terp_encode(&psnr, &chunk, values[0], stream,
                      terp_encode_bound(&chunk), &nbytes, 1) == TERP_OK);
    CHECK(terp_encode_batch(&run, &psnr, &chunk, 1, CONST(values), &dst, &got,
                            &result) == TERP_OK);
    check_cpu(result, "PSNR");
    CHECK(got == nbytes && memcmp(stream, dst, nbytes) == 0);
    CHECK(fake->nopens == 0);
    /* For the device they go through host memory. */
    memset(dst, 0, nbytes);
    run.memory = TERP_MEMORY_DEVICE;
    CHECK(terp_encode_batch(&run, &psnr, &chunk, 1, CONST(values), &dst, &got,
                            NULL) == TERP_OK);
    CHECK(fake->ncopies == 2);
    CHECK(got == nbytes && memcmp(stream, dst, nbytes) == 0);
    free(stream);
    free(dst);
}

static void
auto_takes_the_device_where_it_pays(void **state)
{
    (void)state;
    run_in_child(when_auto);
}

static void
bytes_on_the_host_do_not_go_to_the_device(void **state)
{
    (void)state;
    run_in_child(when_only_copied);
}

static void
what_is_the_cpus_does_not_go_to_the_device(void **state)
{
    (void)state;
    run_in_child(when_the_cpus);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(library_that_is_missing_leaves_all_to_the_cpu),
        cmocka_unit_test(library_that_is_no_engine_is_not_used),
        cmocka_unit_test(engine_of_another_version_is_not_used),
        cmocka_unit_test(device_that_cannot_be_opened_is_not_tried_again),
        cmocka_unit_test(device_that_works_does_the_batches),
        cmocka_unit_test(engine_that_nobody_asks_for_is_not_opened),
        cmocka_unit_test(coarse_values_come_from_either),
        cmocka_unit_test(device_that_is_lost_is_not_used_again),
        cmocka_unit_test(failure_of_one_call_is_made_good_for_that_call),
        cmocka_unit_test(chunks_that_the_device_leaves_are_coded_by_the_cpu),
        cmocka_unit_test(limits_are_kept_whoever_encodes),
        cmocka_unit_test(contexts_have_devices_of_their_own),
        cmocka_unit_test(device_memory_without_a_device_is_an_error),
        cmocka_unit_test(bad_stream_is_told_and_ends_nothing),
        cmocka_unit_test(forked_child_uses_the_cpu),
        cmocka_unit_test(exit_handler_uses_the_cpu),
        cmocka_unit_test(threads_open_the_engine_once),
        cmocka_unit_test(threads_that_lose_the_device_go_on),
        cmocka_unit_test(auto_takes_the_device_where_it_pays),
        cmocka_unit_test(bytes_on_the_host_do_not_go_to_the_device),
        cmocka_unit_test(what_is_the_cpus_does_not_go_to_the_device),
    };
    return cmocka_run_group_tests(tests, make_chunks, free_chunks);
}
