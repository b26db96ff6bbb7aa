/* Each call of the CUDA runtime fails once, and from some on the device is
 * lost: the engine notices, streams and values stay right, because the CPU
 * makes good what the device did not do, and the host's own use of CUDA sees no
 * error. On the emulator, which lets a test choose. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cases.h"
#include "cmocka_all.h"
#include "emulator_failures.h"
#include "fields.h"

/* cudaError_t, as CUDA numbers them. */
#define OUT_OF_MEMORY 2
#define NO_DEVICE 100
#define LAUNCH_FAILURE 719

/* Sequences of kernels that come again are captured, and then replayed. */
#define NTURNS 3

/* A device is lost at one call in so many. */
#define LOSS_STEP 5

static const struct terp_params params = {.bound_mode = TERP_BOUND_RELATIVE,
                                          .bound = 1e-3};

/* A chunk with what the CPU makes of it. */
struct sample {
    struct terp_chunk chunk;
    uint64_t chunk_nbytes;
    const void *values;
    struct terp_stream stream;
    uint8_t *decoded;
};

/* What a child found; it shares this memory with its parent. */
struct finding {
    bool is_right;
    int ndevice_calls;          /* of ours that the device did */
    uint64_t ncalls, nreleases; /* of the runtime */
    int last_error;
};

static struct sample sample;
static struct finding *finding;

/* Functions of the emulator in the library that the codec opens. */
static void *
find(const char *name)
{
    void *library = dlopen(getenv("TERP_CUDA_LIBRARY"), RTLD_NOW | RTLD_LOCAL);

    return library == NULL ? NULL : dlsym(library, name);
}

#define FIND(function, name)                         \
    do {                                             \
        void *symbol = find(name);                   \
        memcpy(&(function), &symbol, sizeof symbol); \
    } while (0)

static bool
encode_is_right(struct terp_run *run)
{
    void *dst = malloc(terp_encode_bound(&sample.chunk));
    uint64_t nbytes;

    bool is_right = terp_encode_batch(run, &params, &sample.chunk, 1,
                                      &sample.values, &dst, &nbytes) == TERP_OK;
    is_right = is_right && nbytes == sample.stream.nbytes &&
               memcmp(dst, sample.stream.bytes, nbytes) == 0;
    free(dst);
    return is_right;
}

static bool
decode_is_right(struct terp_run *run)
{
    const void *src = sample.stream.bytes;
    void *dst = malloc(sample.chunk_nbytes);
    enum terp_status status;

    bool is_right =
        terp_decode_batch(run, &sample.chunk, 1, &src, &sample.stream.nbytes,
                          &dst, &status) == TERP_OK;
    is_right = is_right && status == TERP_OK &&
               memcmp(dst, sample.decoded, sample.chunk_nbytes) == 0;
    free(dst);
    return is_right;
}

/* In a child, which has no engine yet. */
static void
use_device(uint64_t ncalls, int error, bool is_sticky)
{
    struct terp_run run = {
        .engine = TERP_ENGINE_CUDA, .memory = TERP_MEMORY_HOST, .nthreads = 1};
    void (*fail_after)(uint64_t, int, int);
    uint64_t (*count_calls)(void), (*count_releases)(void);
    int (*last_error)(void);

    FIND(fail_after, "emulator_fail_after");
    FIND(count_calls, "emulator_ncalls");
    FIND(count_releases, "emulator_nreleases");
    FIND(last_error, "cudaGetLastError");
    if (fail_after == NULL || count_calls == NULL || count_releases == NULL ||
        last_error == NULL)
        return;
    fail_after(ncalls, error, is_sticky);
    bool is_right = true;
    for (int turn = 0; turn < NTURNS; turn++) {
        is_right = encode_is_right(&run) && is_right;
        finding->ndevice_calls += run.used == TERP_ENGINE_CUDA;
        is_right =
            is_right && (run.reason == NULL) == (run.used == TERP_ENGINE_CUDA);
        is_right = decode_is_right(&run) && is_right;
        finding->ndevice_calls += run.used == TERP_ENGINE_CUDA;
    }
    finding->is_right = is_right;
    finding->ncalls = count_calls();
    finding->nreleases = count_releases();
    finding->last_error = last_error();
}

/* Lets a child's runtime fail after so many calls. */
static void
fail_in_child(uint64_t ncalls, int error, bool is_sticky)
{
    int status;

    *finding = (struct finding){0};
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        /* Not into cmocka, which would go on with its tests. */
        signal(SIGSEGV, SIG_DFL);
        signal(SIGFPE, SIG_DFL);
        use_device(ncalls, error, is_sticky);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (status != 0 || !finding->is_right || finding->last_error != 0)
        fail_msg("call %llu of the runtime fails with %d: exit status %d, %s, "
                 "error %d is left behind",
                 (unsigned long long)ncalls, error, status,
                 finding->is_right ? "right" : "wrong", finding->last_error);
}

/* Calls of the runtime while nothing fails. */
static struct finding
count_calls(void)
{
    fail_in_child(UINT32_MAX, OUT_OF_MEMORY, false);
    assert_int_equal(finding->ndevice_calls, 2 * NTURNS);
    assert_true(finding->ncalls > finding->nreleases);
    return *finding;
}

/* Those that only release may fail unnoticed. */
static void
call_of_the_runtime_fails_and_is_noticed(void **state)
{
    const struct finding all = count_calls();
    uint64_t nunnoticed = 0;

    (void)state;
    for (uint64_t i = 0; i < all.ncalls; i++) {
        fail_in_child(i, OUT_OF_MEMORY, false);
        nunnoticed += finding->ndevice_calls == 2 * NTURNS;
    }
    assert_int_equal(nunnoticed, all.nreleases);
}

static void
device_is_lost_at_a_call_and_the_cpu_goes_on(void **state)
{
    const struct finding all = count_calls();

    (void)state;
    for (uint64_t i = 0; i < all.ncalls; i += LOSS_STEP) {
        fail_in_child(i, LAUNCH_FAILURE, true);
        assert_true(finding->ndevice_calls < 2 * NTURNS);
    }
}

static void
machine_has_no_device_and_uses_the_cpu(void **state)
{
    (void)state;
    fail_in_child(0, NO_DEVICE, true);
    assert_int_equal(finding->ndevice_calls, 0);
}

static int
make_sample(void **state)
{
    static const uint64_t dims[] = {4, 6, 5};
    uint64_t nbytes;

    (void)state;
    finding = mmap(NULL, sizeof *finding, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(finding != MAP_FAILED);
    sample.chunk = terp_case_chunk(TERP_FLOAT32, 3, dims);
    sample.chunk_nbytes = terp_chunk_nbytes(&sample.chunk);
    uint8_t *values = terp_case_alloc(sample.chunk_nbytes);
    terp_field_make(TERP_FIELD_GAPS, &sample.chunk, values);
    sample.values = values;
    sample.stream = terp_case_encode(&params, &sample.chunk, values, 1);
    sample.decoded = terp_case_alloc(sample.chunk_nbytes);
    assert_int_equal(terp_decode(sample.stream.bytes, sample.stream.nbytes,
                                 sample.decoded, sample.chunk_nbytes, &nbytes,
                                 1),
                     TERP_OK);
    return 0;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(call_of_the_runtime_fails_and_is_noticed),
        cmocka_unit_test(device_is_lost_at_a_call_and_the_cpu_goes_on),
        cmocka_unit_test(machine_has_no_device_and_uses_the_cpu),
    };
    return cmocka_run_group_tests(tests, make_sample, NULL);
}
