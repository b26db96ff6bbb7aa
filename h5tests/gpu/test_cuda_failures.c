/* CUDA calls fail once, or the device is lost from one call on. Streams and
 * values stay right, because the CPU does the device's remaining work, and the
 * host's own use of CUDA sees no error. Runs on the emulator, where a test
 * chooses the failure. */
#define _DEFAULT_SOURCE /* for MAP_ANONYMOUS */
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "codec/api/memory.h"
#include "h5tests/emulator/emulator_failures.h"
#include "h5tests/support/cases.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/fields.h"

/* Values of cudaError_t. */
#define OUT_OF_MEMORY 2
#define NO_DEVICE 100
#define LAUNCH_FAILURE 719

/* The engine turns repeated sequences of kernels into graphs. */
#define NTURNS 3

/* One call in FAILURE_STEP fails, and one in LOSS_STEP loses the device, chosen
 * by the date. */
#define FAILURE_STEP 7
#define LOSS_STEP 11

/* Buffers that a caller allocates on the device: array, chunk, stream. */
#define NMEMORIES 3

static const struct terp_run_options on_host = {.engine = TERP_ENGINE_CUDA},
                                     on_device = {.engine = TERP_ENGINE_CUDA,
                                                  .memory = TERP_MEMORY_DEVICE};

static const struct terp_params params = {.bound_mode = TERP_BOUND_RELATIVE,
                                          .bound = 1e-3};

/* A chunk with the CPU's results. */
struct sample {
    struct terp_chunk chunk;
    uint64_t chunk_nbytes;
    const void *values;
    struct terp_stream stream;
    uint8_t *decoded;
};

/* The results of a child, in memory that it shares with its parent. */
struct finding {
    bool is_right;
    int ndevice_calls;          /* terp's calls that the device ran */
    uint64_t ncalls, nreleases; /* calls of the runtime */
    int last_error;
};

static struct sample sample;
static struct finding *finding;

/* The emulator's functions in the library that the codec opens. */
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
encode_is_right(struct terp_run_result *result)
{
    void *dst = malloc(terp_encode_bound(&sample.chunk));
    uint64_t nbytes;

    bool is_right =
        terp_encode_batch(&on_host, &params, &sample.chunk, 1, &sample.values,
                          &dst, &nbytes, result) == TERP_OK;
    is_right = is_right && nbytes == sample.stream.nbytes &&
               memcmp(dst, sample.stream.bytes, nbytes) == 0;
    free(dst);
    return is_right;
}

static bool
decode_is_right(struct terp_run_result *result)
{
    const void *src = sample.stream.bytes;
    void *dst = malloc(sample.chunk_nbytes);
    enum terp_status status;

    bool is_right = terp_decode_batch(&on_host, &sample.chunk, 1, &src,
                                      &sample.stream.nbytes, &dst, &status,
                                      result) == TERP_OK;
    is_right = is_right && status == TERP_OK &&
               memcmp(dst, sample.decoded, sample.chunk_nbytes) == 0;
    free(dst);
    return is_right;
}

/* What a child runs. Returns false if a result is wrong. */
typedef bool
act_function(void);

static bool
codes_in_host_memory(void)
{
    struct terp_run_result result = {.size = sizeof result};
    bool is_right = true;

    for (int turn = 0; turn < NTURNS; turn++) {
        is_right = encode_is_right(&result) && is_right;
        finding->ndevice_calls += result.used == TERP_ENGINE_CUDA;
        is_right = is_right &&
                   (result.reason == NULL) == (result.used == TERP_ENGINE_CUDA);
        is_right = decode_is_right(&result) && is_right;
        finding->ndevice_calls += result.used == TERP_ENGINE_CUDA;
    }
    return is_right;
}

/* From an array on the device to a stream on the host, like terp_h5_write. */
static enum terp_status
encode_from_device(struct terp_run *run, void **d_memory, void *stream,
                   uint64_t *nbytes_ret)
{
    struct terp_array array = {.rank = sample.chunk.rank, .value_nbytes = 4};
    uint64_t cap_nbytes = terp_encode_bound(&sample.chunk);

    for (int d = 0; d < array.rank; d++)
        array.dims[d] = array.chunk[d] = sample.chunk.dims[d];
    terp_array_make_dense(&array);
    enum terp_status st = TERP_OK;
    for (int i = 0; st == TERP_OK && i < NMEMORIES; i++)
        st = terp_memory_make(run, cap_nbytes, &d_memory[i]);
    if (st == TERP_OK)
        st = terp_memory_copy(run, 1, &d_memory[0], &sample.values,
                              &sample.chunk_nbytes);
    if (st == TERP_OK)
        st = terp_array_gather(run, &array, 0, 1, d_memory[0], d_memory[1]);
    if (st == TERP_OK)
        st = terp_run_encode(run, &params, &sample.chunk, 1,
                             (const void *const *)&d_memory[1], &d_memory[2],
                             nbytes_ret);
    return st != TERP_OK ? st
                         : terp_memory_copy(run, 1, &stream,
                                            (const void *const *)&d_memory[2],
                                            nbytes_ret);
}

/* If memory or a copy fails, the CPU cannot take over, and the error is
 * reported. */
static bool
codes_in_device_memory(void)
{
    struct terp_run run;
    void *d_memory[NMEMORIES] = {NULL},
         *stream = malloc(sample.chunk_nbytes + 64);
    uint64_t nbytes = 0;

    enum terp_status st = terp_run_begin(&on_device, NULL, &run);
    if (st == TERP_OK)
        st = encode_from_device(&run, d_memory, stream, &nbytes);
    bool is_right = st == TERP_ERR_MEMORY ||
                    (st == TERP_ERR_DEVICE && run.result.reason != NULL);
    if (st == TERP_OK) {
        finding->ndevice_calls += run.result.used == TERP_ENGINE_CUDA;
        is_right = nbytes == sample.stream.nbytes &&
                   memcmp(stream, sample.stream.bytes, nbytes) == 0;
    }
    for (int i = 0; i < NMEMORIES; i++)
        terp_memory_free(&run, d_memory[i]);
    free(stream);
    return is_right;
}

/* Runs in a child, which has no engine yet. */
static void
use_device(act_function *act, uint64_t ncalls, int error, bool is_sticky)
{
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
    finding->is_right = act();
    finding->ncalls = count_calls();
    finding->nreleases = count_releases();
    finding->last_error = last_error();
}

/* Makes a child's runtime fail after so many calls. */
static void
fail_in_child(act_function *act, uint64_t ncalls, int error, bool is_sticky)
{
    int status;

    *finding = (struct finding){0};
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        /* Does not return to cmocka, which would continue with its tests. */
        signal(SIGSEGV, SIG_DFL);
        signal(SIGFPE, SIG_DFL);
        use_device(act, ncalls, error, is_sticky);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (status != 0 || !finding->is_right || finding->last_error != 0)
        fail_msg("call %llu of the runtime fails with %d: exit status %d, %s, "
                 "error %d is left behind",
                 (unsigned long long)ncalls, error, status,
                 finding->is_right ? "right" : "wrong", finding->last_error);
}

/* The number of runtime calls without a failure. */
static struct finding
count_calls(act_function *act, int ndevice_calls)
{
    fail_in_child(act, UINT32_MAX, OUT_OF_MEMORY, false);
    assert_int_equal(finding->ndevice_calls, ndevice_calls);
    assert_true(finding->ncalls > finding->nreleases);
    return *finding;
}

/* Unless the device could not be opened, the device runs all calls but at most
 * one: the call in which CUDA failed. */
static void
call_of_cuda_fails_and_the_next_is_the_devices_again(void **state)
{
    const struct finding all = count_calls(codes_in_host_memory, 2 * NTURNS);
    uint64_t n = 0, nkept = 0;

    (void)state;
    for (uint64_t i = 0; i < all.ncalls; i++) {
        if (!terp_case_is_drawn(i, FAILURE_STEP))
            continue;
        n++;
        fail_in_child(codes_in_host_memory, i, OUT_OF_MEMORY, false);
        nkept += finding->ndevice_calls >= 2 * NTURNS - 1;
    }
    assert_in_range(nkept, n / 4, n);
}

static void
device_is_lost_at_a_call_and_the_cpu_goes_on(void **state)
{
    const struct finding all = count_calls(codes_in_host_memory, 2 * NTURNS);

    (void)state;
    for (uint64_t i = 0; i < all.ncalls; i++)
        if (terp_case_is_drawn(i, LOSS_STEP))
            fail_in_child(codes_in_host_memory, i, LAUNCH_FAILURE, true);
}

static void
call_for_device_memory_fails_and_that_is_said(void **state)
{
    const struct finding all = count_calls(codes_in_device_memory, 1);

    (void)state;
    for (uint64_t i = 0; i < all.ncalls; i++) {
        if (terp_case_is_drawn(i, FAILURE_STEP))
            fail_in_child(codes_in_device_memory, i, OUT_OF_MEMORY, false);
        if (terp_case_is_drawn(all.ncalls + i, FAILURE_STEP * LOSS_STEP))
            fail_in_child(codes_in_device_memory, i, LAUNCH_FAILURE, true);
    }
}

static void
machine_has_no_device_and_uses_the_cpu(void **state)
{
    (void)state;
    fail_in_child(codes_in_host_memory, 0, NO_DEVICE, true);
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
        cmocka_unit_test(call_of_cuda_fails_and_the_next_is_the_devices_again),
        cmocka_unit_test(device_is_lost_at_a_call_and_the_cpu_goes_on),
        cmocka_unit_test(call_for_device_memory_fails_and_that_is_said),
        cmocka_unit_test(machine_has_no_device_and_uses_the_cpu),
    };
    return cmocka_run_group_tests(tests, make_sample, NULL);
}
