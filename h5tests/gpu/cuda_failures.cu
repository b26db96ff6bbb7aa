/* What a host application notices of the engine, and devices that fail, on a
 * machine with a working device. The CPU takes over with the same bytes, and
 * the host's own use of CUDA is not disturbed.
 *
 * Each case runs in a process of its own, because a failed device stays closed.
 * A kernel of the host that writes to an invalid address simulates a lost
 * device: from then on every CUDA call of the process fails. */
#include <cuda.h>
#include <cuda_runtime.h>

#include <atomic>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "codec/format/frame.h"
#include "h5tests/support/fields.h"

#define SMALL 24
#define LARGE 160
#define NTHREADS 8
#define NTURNS 60

/* A chunk with the CPU's results for it. */
struct sample {
    struct terp_chunk chunk;
    struct terp_params params;
    uint64_t chunk_nbytes, stream_nbytes;
    uint8_t *values, *stream, *decoded;
};

static struct sample small, large;

static void
stop(const char *what, const char *why)
{
    printf("  %s: %s\n", what, why);
    fflush(stdout);
    _exit(EXIT_FAILURE); /* also from within exit */
}

static void
check_cuda(const char *what, cudaError_t error)
{
    if (error != cudaSuccess)
        stop(what, cudaGetErrorString(error));
}

static void
check_status(const char *what, enum terp_status st)
{
    if (st != TERP_OK)
        stop(what, terp_status_text(st));
}

static uint8_t *
alloc_host(uint64_t nbytes)
{
    void *at = malloc(nbytes);
    if (at == NULL)
        stop("malloc", "no memory");
    return (uint8_t *)at;
}

static void
make_sample(struct sample *sample, uint64_t extent)
{
    const uint64_t dims[] = {extent, extent, extent};
    uint64_t got;

    check_status("making a chunk",
                 terp_chunk_make(TERP_FLOAT32, 3, dims, &sample->chunk));
    sample->params.bound_mode = TERP_BOUND_RELATIVE;
    sample->params.bound = 1e-3;
    sample->chunk_nbytes = terp_chunk_nbytes(&sample->chunk);
    uint64_t cap_nbytes = terp_encode_bound(&sample->chunk);
    sample->values = alloc_host(sample->chunk_nbytes);
    sample->stream = alloc_host(cap_nbytes);
    sample->decoded = alloc_host(sample->chunk_nbytes);
    terp_field_make(TERP_FIELD_ROUGH, &sample->chunk, sample->values);
    check_status("encoding on the CPU",
                 terp_encode(&sample->params, &sample->chunk, sample->values,
                             sample->stream, cap_nbytes, &sample->stream_nbytes,
                             1));
    check_status("decoding on the CPU",
                 terp_decode(sample->stream, sample->stream_nbytes,
                             sample->decoded, sample->chunk_nbytes, &got, 1));
}

/* ---- calls that must be right with any engine ---- */

static struct terp_run_options
ask_for_device(enum terp_memory memory)
{
    struct terp_run_options options = {};

    options.engine = TERP_ENGINE_CUDA;
    options.memory = memory;
    options.nthreads = 2;
    return options;
}

static bool
is_right(const struct sample *sample, struct terp_run_result *result)
{
    const struct terp_run_options options = ask_for_device(TERP_MEMORY_HOST);
    const void *src = sample->values;
    void *stream = malloc(terp_encode_bound(&sample->chunk));
    void *values = malloc(sample->chunk_nbytes);
    enum terp_status st = TERP_ERR_MEMORY;
    uint64_t nbytes = 0;

    bool right = stream != NULL && values != NULL &&
                 terp_encode_batch(&options, &sample->params, &sample->chunk, 1,
                                   &src, &stream, &nbytes, result) == TERP_OK &&
                 nbytes == sample->stream_nbytes &&
                 memcmp(stream, sample->stream, nbytes) == 0;
    src = stream;
    right = right &&
            terp_decode_batch(&options, &sample->chunk, 1, &src, &nbytes,
                              &values, &st, result) == TERP_OK &&
            memcmp(values, sample->decoded, sample->chunk_nbytes) == 0;
    free(stream);
    free(values);
    return right;
}

static void
expect(const struct sample *sample, enum terp_engine_kind engine)
{
    struct terp_run_result result = {};

    if (!is_right(sample, &result))
        stop("a call", "is wrong");
    if (result.used != engine)
        stop("used the wrong engine",
             result.reason != NULL ? result.reason : "CUDA");
    if ((result.reason == NULL) != (engine == TERP_ENGINE_CUDA))
        stop("a call", "gives no reason, or one too many");
    if (engine == TERP_ENGINE_CPU) {
        printf("  the CPU, because: %s\n", result.reason);
        fflush(stdout);
    }
}

/* Chunks in device memory need a working device. */
static void
expect_refusal(void)
{
    const struct terp_run_options options = ask_for_device(TERP_MEMORY_DEVICE);
    const void *src = small.values;
    void *dst = small.stream;
    uint64_t nbytes;

    if (terp_encode_batch(&options, &small.params, &small.chunk, 1, &src, &dst,
                          &nbytes, NULL) != TERP_ERR_DEVICE)
        stop("memory of the device", "is not refused");
}

/* ---- the host's own use of the device ---- */

static __global__ void
add_one(unsigned *d_number)
{
    *d_number += 1;
}

static void
run_kernel(void (*kernel)(unsigned *), unsigned *d_number)
{
    void *arguments[] = {&d_number};

    check_cuda("launch", cudaLaunchKernel((const void *)kernel, dim3(1),
                                          dim3(1), arguments, 0, NULL));
}

static void
check_host_works(void)
{
    unsigned *d_number, number = 41;

    check_cuda("the host's last error", cudaGetLastError());
    check_cuda("cudaMalloc", cudaMalloc((void **)&d_number, sizeof number));
    check_cuda("cudaMemcpy", cudaMemcpy(d_number, &number, sizeof number,
                                        cudaMemcpyHostToDevice));
    run_kernel(add_one, d_number);
    check_cuda("cudaMemcpy", cudaMemcpy(&number, d_number, sizeof number,
                                        cudaMemcpyDeviceToHost));
    check_cuda("cudaFree", cudaFree(d_number));
    if (number != 42)
        stop("the host's kernel", "has a wrong result");
}

static void
lose_device(void)
{
    run_kernel(add_one, (unsigned *)64);
    if (cudaDeviceSynchronize() == cudaSuccess)
        stop("losing the device", "it is still there");
}

#define MAX_NPIECES 4096

static void *pieces[MAX_NPIECES];
static int npieces;

/* Takes nearly all of the device's memory. */
static void
fill_memory(void)
{
    size_t nbytes, total_nbytes;

    check_cuda("cudaMemGetInfo", cudaMemGetInfo(&nbytes, &total_nbytes));
    for (; nbytes >= 1 << 16; nbytes /= 2)
        while (npieces < MAX_NPIECES &&
               cudaMalloc(&pieces[npieces], nbytes) == cudaSuccess)
            npieces++;
    cudaGetLastError();
}

static void
empty_memory(void)
{
    while (npieces > 0)
        check_cuda("cudaFree", cudaFree(pieces[--npieces]));
}

/* ---- cases ---- */

static void
works(void)
{
    expect(&small, TERP_ENGINE_CUDA);
    expect(&large, TERP_ENGINE_CUDA);
    check_host_works();
}

/* A function of the driver, in the version of CUDA `version` / 1000. */
template <typename Function>
static Function *
find_driver(const char *name, unsigned version)
{
    cudaDriverEntryPointQueryResult result;
    void *found = NULL;

    check_cuda(name, cudaGetDriverEntryPointByVersion(
                         name, &found, version, cudaEnableDefault, &result));
    if (found == NULL)
        stop(name, "the driver has none");
    return (Function *)found;
}

typedef CUresult
get_current_function(CUcontext *context_ret);
typedef CUresult
set_current_function(CUcontext context);
typedef CUresult
create_function(CUcontext *context_ret, unsigned flags, CUdevice device);

static CUcontext
current_context(void)
{
    CUcontext context;

    find_driver<get_current_function>("cuCtxGetCurrent", 4000)(&context);
    return context;
}

static void *
call_without_context(void *arg)
{
    (void)arg;
    expect(&small, TERP_ENGINE_CUDA);
    if (current_context() != NULL)
        stop("a thread without a context", "has one now");
    return NULL;
}

static void
thread_without_a_context(void)
{
    pthread_t thread;

    for (int i = 0; i < 3; i++) {
        if (pthread_create(&thread, NULL, call_without_context, NULL) != 0)
            stop("pthread_create", "there is no thread");
        pthread_join(thread, NULL);
    }
    call_without_context(NULL);
    check_host_works();
}

/* The device is opened while the host's own context is current. That context is
 * destroyed before the next use of the device. */
static void
context_of_the_host(void)
{
    CUcontext own = NULL;

    check_cuda("cudaFree", cudaFree(NULL));
    CUcontext before = current_context();
    if (find_driver<create_function>("cuCtxCreate", 3020)(&own, 0, 0) !=
        CUDA_SUCCESS)
        stop("cuCtxCreate", "failed");
    expect(&small, TERP_ENGINE_CUDA);
    if (current_context() != own)
        stop("the context of the host", "is no longer current");
    find_driver<set_current_function>("cuCtxDestroy", 4000)(own);
    find_driver<set_current_function>("cuCtxSetCurrent", 4000)(before);
    expect(&small, TERP_ENGINE_CUDA);
    expect(&large, TERP_ENGINE_CUDA);
    check_host_works();
}

static void
device_and_flags_of_the_host(void)
{
    int device[2];
    unsigned flags[2];

    expect(&small, TERP_ENGINE_CUDA);
    for (int i = 0; i < 2; i++) {
        check_cuda("cudaGetDevice", cudaGetDevice(&device[i]));
        check_cuda("cudaGetDeviceFlags", cudaGetDeviceFlags(&flags[i]));
        check_host_works();
        for (int turn = 0; turn < 3; turn++) /* the second call makes a graph */
            expect(&large, TERP_ENGINE_CUDA);
    }
    printf("  device %d, then %d; flags %x, then %x\n", device[0], device[1],
           flags[0], flags[1]);
    if (device[0] != device[1] || flags[0] != flags[1])
        stop("the device or its flags", "are others than before");
}

/* An error that the host has not read yet stays for the host. */
static void
error_of_the_host(void)
{
    void *at;

    if (cudaMalloc(&at, (size_t)1 << 50) != cudaErrorMemoryAllocation)
        stop("cudaMalloc", "gives what is not there");
    expect(&small, TERP_ENGINE_CUDA);
    if (cudaGetLastError() != cudaErrorMemoryAllocation)
        stop("the host's last error", "is another than before");
    check_host_works();
}

static __global__ void
spin(long long ncycles)
{
    for (long long begin = clock64(); clock64() - begin < ncycles;)
        ;
}

static __global__ void
write_to(uint32_t *d_to, const uint32_t *d_from, uint64_t nwords)
{
    for (uint64_t i = threadIdx.x; i < nwords; i += blockDim.x)
        d_to[i] = d_from[i];
}

/* The stream writes the values late. 0: the legacy default stream. */
static void
check_follows(cudaStream_t stream)
{
    struct terp_run_options options = ask_for_device(TERP_MEMORY_DEVICE);
    struct terp_run_result result = {};
    uint8_t *d_from, *d_to;
    void *d_stream;
    uint64_t nbytes;

    check_cuda("cudaMalloc", cudaMalloc((void **)&d_from, small.chunk_nbytes));
    check_cuda("cudaMalloc", cudaMalloc((void **)&d_to, small.chunk_nbytes));
    check_cuda("cudaMalloc",
               cudaMalloc(&d_stream, terp_encode_bound(&small.chunk)));
    check_cuda("cudaMemcpy",
               cudaMemcpy(d_from, small.values, small.chunk_nbytes,
                          cudaMemcpyHostToDevice));
    check_cuda("cudaMemset", cudaMemset(d_to, 0, small.chunk_nbytes));
    check_cuda("cudaDeviceSynchronize", cudaDeviceSynchronize());
    spin<<<1, 1, 0, stream>>>(200000000);
    write_to<<<1, 256, 0, stream>>>((uint32_t *)d_to, (uint32_t *)d_from,
                                    small.chunk_nbytes / 4);
    const void *src = d_to;
    options.has_stream = true;
    options.stream = stream;
    check_status("encoding",
                 terp_encode_batch(&options, &small.params, &small.chunk, 1,
                                   &src, &d_stream, &nbytes, &result));
    uint8_t *bytes = alloc_host(terp_encode_bound(&small.chunk));
    check_cuda("cudaMemcpy",
               cudaMemcpy(bytes, d_stream, nbytes, cudaMemcpyDeviceToHost));
    if (nbytes != small.stream_nbytes ||
        memcmp(bytes, small.stream, nbytes) != 0)
        stop("the call", "has begun before what is in the stream");
    if (result.used != TERP_ENGINE_CUDA)
        stop("the device was not used", result.reason);
    check_cuda("cudaFree", cudaFree(d_from));
    check_cuda("cudaFree", cudaFree(d_to));
    check_cuda("cudaFree", cudaFree(d_stream));
    free(bytes);
}

static void
stream_of_the_host(void)
{
    cudaStream_t stream;

    expect(&small, TERP_ENGINE_CUDA);
    check_cuda("cudaStreamCreate",
               cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    check_follows(stream);
    check_follows(NULL);
    check_follows(cudaStreamPerThread);
    check_cuda("cudaStreamDestroy", cudaStreamDestroy(stream));
}

static void
no_library(void)
{
    setenv("TERP_CUDA_LIBRARY", "/nonexistent/libterp_cuda.so", 1);
    expect(&small, TERP_ENGINE_CPU);
    expect_refusal();
}

static void
no_device(void)
{
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    expect(&small, TERP_ENGINE_CPU);
    expect(&large, TERP_ENGINE_CPU);
    expect_refusal();
}

static void
memory_full_from_the_start(void)
{
    fill_memory();
    expect(&large, TERP_ENGINE_CPU);
    check_cuda("the host's last error", cudaGetLastError());
    empty_memory();
    expect(&large, TERP_ENGINE_CUDA);
    check_host_works();
}

/* The CPU takes over only as long as memory is short. Memory that the engine
 * keeps from before may suffice for the small chunk. */
static void
memory_full_for_a_while(void)
{
    struct terp_run_result result = {};

    expect(&small, TERP_ENGINE_CUDA);
    fill_memory();
    expect(&large, TERP_ENGINE_CPU);
    if (!is_right(&small, &result))
        stop("a small chunk", "is wrong");
    check_cuda("the host's last error", cudaGetLastError());
    empty_memory();
    expect(&large, TERP_ENGINE_CUDA);
    expect(&small, TERP_ENGINE_CUDA);
    check_host_works();
}

/* In host memory that the device maps, the CPU takes over too. */
static void
device_memory_while_all_is_full(void)
{
    const struct terp_run_options options = ask_for_device(TERP_MEMORY_DEVICE);
    struct terp_run_result result = {};
    uint8_t *stream = alloc_host(large.stream_nbytes);
    void *d_values, *d_stream;
    uint64_t nbytes;

    check_cuda("cudaMalloc", cudaMalloc(&d_values, large.chunk_nbytes));
    check_cuda("cudaMalloc",
               cudaMalloc(&d_stream, terp_encode_bound(&large.chunk)));
    check_cuda("cudaMemcpy",
               cudaMemcpy(d_values, large.values, large.chunk_nbytes,
                          cudaMemcpyHostToDevice));
    expect(&small, TERP_ENGINE_CUDA);
    fill_memory();
    const void *src = d_values;
    check_status("encoding",
                 terp_encode_batch(&options, &large.params, &large.chunk, 1,
                                   &src, &d_stream, &nbytes, &result));
    printf("  by the %s: %s\n", result.used == TERP_ENGINE_CPU ? "CPU" : "GPU",
           result.reason != NULL ? result.reason : "-");
    check_cuda("cudaMemcpy", cudaMemcpy(stream, d_stream, large.stream_nbytes,
                                        cudaMemcpyDeviceToHost));
    if (nbytes != large.stream_nbytes ||
        memcmp(stream, large.stream, nbytes) != 0)
        stop("a stream", "is wrong");
    check_cuda("the host's last error", cudaGetLastError());
}

/* Everything on the device is gone, and others can use it again. */
static void
reset_by_the_host(void)
{
    expect(&small, TERP_ENGINE_CUDA);
    check_host_works(); /* otherwise the host's runtime has nothing to reset */
    check_cuda("cudaDeviceReset", cudaDeviceReset());
    expect(&small, TERP_ENGINE_CPU);
    check_host_works();
    expect(&small, TERP_ENGINE_CPU);
    expect_refusal();
    check_host_works();
}

/* A context of another caller, which opens the device again. */
static void
context_made_after_a_reset(void)
{
    struct terp_context_options options = {};
    struct terp_run_options run = ask_for_device(TERP_MEMORY_HOST);
    struct terp_run_result result = {};
    const void *src = small.values;
    void *stream = alloc_host(terp_encode_bound(&small.chunk));
    uint64_t nbytes;

    expect(&small, TERP_ENGINE_CUDA);
    check_host_works(); /* otherwise the host's runtime has nothing to reset */
    check_cuda("cudaDeviceReset", cudaDeviceReset());
    options.device = -1;
    check_status("a context", terp_context_make(&options, &run.context));
    check_status("encoding",
                 terp_encode_batch(&run, &small.params, &small.chunk, 1, &src,
                                   &stream, &nbytes, &result));
    if (result.used != TERP_ENGINE_CUDA)
        stop("the device was not opened again", result.reason);
    if (nbytes != small.stream_nbytes ||
        memcmp(stream, small.stream, nbytes) != 0)
        stop("a stream", "is wrong");
    terp_context_destroy(run.context);
    expect(&small, TERP_ENGINE_CPU);
    check_host_works();
}

static void
lost_before_the_first_call(void)
{
    lose_device();
    expect(&small, TERP_ENGINE_CPU);
    expect_refusal();
}

static void
lost_between_calls(void)
{
    expect(&small, TERP_ENGINE_CUDA);
    lose_device();
    expect(&small, TERP_ENGINE_CPU);
    expect(&large, TERP_ENGINE_CPU);
    expect_refusal();
}

static __global__ void
trap(unsigned *d_number)
{
    (void)d_number;
    __trap();
}

/* The host's kernel fails while the engine's kernels run. */
static void
trap_beside_calls(void)
{
    expect(&small, TERP_ENGINE_CUDA);
    run_kernel(trap, NULL);
    expect(&small, TERP_ENGINE_CPU);
    for (int i = 0; i < 20; i++)
        expect(&small, TERP_ENGINE_CPU);
    expect_refusal();
}

static std::atomic_int nwrong, ncuda, ncpu;

static void *
call_again_and_again(void *arg)
{
    (void)arg;
    for (int i = 0; i < NTURNS; i++) {
        struct terp_run_result result = {};
        if (!is_right(&small, &result))
            nwrong++;
        (result.used == TERP_ENGINE_CUDA ? ncuda : ncpu)++;
    }
    return NULL;
}

static void
lost_while_threads_call(void)
{
    pthread_t threads[NTHREADS];

    expect(&small, TERP_ENGINE_CUDA);
    for (pthread_t &thread : threads)
        if (pthread_create(&thread, NULL, call_again_and_again, NULL) != 0)
            stop("pthread_create", "no thread");
    while (ncuda < NTHREADS)
        usleep(100);
    lose_device();
    for (pthread_t &thread : threads)
        pthread_join(thread, NULL);
    printf("  %d calls ended on the device, %d on the CPU, %d wrong\n",
           (int)ncuda, (int)ncpu, (int)nwrong);
    if (nwrong > 0 || ncpu == 0)
        stop("calls", "are wrong, or none was left to the CPU");
}

static void
forked_child(void)
{
    expect(&small, TERP_ENGINE_CUDA);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        expect(&small, TERP_ENGINE_CPU);
        fflush(stdout);
        _exit(EXIT_SUCCESS);
    }
    int status;
    if (waitpid(child, &status, 0) != child || status != 0)
        stop("the forked process", "failed");
    expect(&small, TERP_ENGINE_CUDA);
    check_host_works();
}

static void
expect_cpu(void)
{
    expect(&small, TERP_ENGINE_CPU);
}

static void
process_that_ends(void)
{
    if (atexit(expect_cpu) != 0)
        stop("atexit", "failed");
    expect(&small, TERP_ENGINE_CUDA);
}

/* Changed bits with a corrected checksum, in device memory. */
static void
damaged_streams(void)
{
    const struct terp_run_options options = ask_for_device(TERP_MEMORY_DEVICE);
    struct terp_run_result result = {};
    uint8_t *damaged = alloc_host(small.stream_nbytes);
    void *d_stream, *d_values;
    int nbad = 0;

    check_cuda("cudaMalloc", cudaMalloc(&d_stream, small.stream_nbytes));
    check_cuda("cudaMalloc", cudaMalloc(&d_values, small.chunk_nbytes));
    for (uint64_t i = 0; i < 400; i++) {
        uint64_t random = terp_field_mix(i);
        const void *src = d_stream;
        enum terp_status st;
        memcpy(damaged, small.stream, small.stream_nbytes);
        damaged[20 + random % (small.stream_nbytes - 20)] ^=
            (uint8_t)(1 << random / 65536 % 8);
        terp_frame_seal(damaged, small.stream_nbytes);
        check_cuda("cudaMemcpy",
                   cudaMemcpy(d_stream, damaged, small.stream_nbytes,
                              cudaMemcpyHostToDevice));
        (void)terp_decode_batch(&options, &small.chunk, 1, &src,
                                &small.stream_nbytes, &d_values, &st, &result);
        if (result.used != TERP_ENGINE_CUDA)
            stop("a damaged stream ended the use of the device", result.reason);
        nbad += st != TERP_OK;
        check_cuda("the host's last error", cudaGetLastError());
    }
    printf("  %d of 400 streams are refused\n", nbad);
    if (nbad == 0)
        stop("damage", "is never seen");
    check_host_works();
    expect(&small, TERP_ENGINE_CUDA);
}

struct test_case {
    const char *name;
    void (*run)(void);
};

static const struct test_case cases[] = {
    {"works", works},
    {"thread without a context", thread_without_a_context},
    {"context of the host", context_of_the_host},
    {"device and flags of the host", device_and_flags_of_the_host},
    {"error of the host", error_of_the_host},
    {"stream of the host", stream_of_the_host},
    {"no library", no_library},
    {"no device", no_device},
    {"memory full from the start", memory_full_from_the_start},
    {"memory full for a while", memory_full_for_a_while},
    {"device memory while all is full", device_memory_while_all_is_full},
    {"reset by the host", reset_by_the_host},
    {"context made after a reset", context_made_after_a_reset},
    {"device lost before the first call", lost_before_the_first_call},
    {"device lost between calls", lost_between_calls},
    {"device lost while 8 threads call", lost_while_threads_call},
    {"trap beside calls", trap_beside_calls},
    {"forked child", forked_child},
    {"process that ends", process_that_ends},
    {"damaged streams", damaged_streams},
};

int
main(void)
{
    int nfailed = 0;

    make_sample(&small, SMALL);
    make_sample(&large, LARGE);
    for (const test_case &one : cases) {
        int status = 0;
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            alarm(60);
            one.run();
            exit(EXIT_SUCCESS);
        }
        bool passed =
            child > 0 && waitpid(child, &status, 0) == child && status == 0;
        printf("%s: %s\n", passed ? "ok" : "FAILED", one.name);
        if (!passed && WIFSIGNALED(status))
            printf("  signal %d\n", WTERMSIG(status));
        nfailed += !passed;
    }
    return nfailed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
