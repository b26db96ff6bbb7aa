/* The CUDA engine's contract (codec/engine.h) on the emulator: what a host
 * application notices, and the results of calls when memory is short, a CUDA
 * call fails or the device is lost. */
#include <cuda.h>
#include <stdlib.h>
#include <string.h>
#include <thread>

#include "gpu/engine/context.cuh"
#include "h5tests/emulator/emulator_failures.h"

extern "C" {
#include "h5tests/support/cases.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/fields.h"

terp_cuda_open_function terp_cuda_open;
}

#define NCHUNKS 6

/* After so many equal batches the engine makes a graph and launches it from
 * then on. */
#define NTURNS 3

/* One CUDA call in STEP fails, chosen by terp_case_is_drawn. Complex values
 * make more calls, so fewer of them fail: nleft_out is then larger. */
#define STEP (41 * nleft_out)
static uint64_t nleft_out = 1;

static const struct terp_cuda_call on_host = {TERP_MEMORY_HOST, false, NULL, 0,
                                              NULL};
static const struct terp_cuda_call on_device = {TERP_MEMORY_DEVICE, false, NULL,
                                                0, NULL};

static const struct terp_cuda_engine *engine;

/* Chunks with the CPU's results; d_: in device memory. */
static struct {
    struct terp_chunk chunk;
    struct terp_params params;
    uint64_t chunk_nbytes, cap_nbytes;
    const void *values[NCHUNKS];
    struct terp_stream stream[NCHUNKS];
    uint8_t *decoded[NCHUNKS];
} sample;

static struct terp_cuda_device *
open_device(uint64_t memory_limit_nbytes)
{
    const struct terp_cuda_options options = {-1, memory_limit_nbytes};
    struct terp_cuda_device *device = NULL;
    const char *name = NULL, *reason = NULL;

    if (engine->open(&options, &device, &name, &reason) != TERP_OK)
        fail_msg("the device is not opened: %s", reason);
    assert_string_equal(name, "emulator at 0000:4e:00.0");
    return device;
}

/* Memory of a call's chunks. The engine's caller owns device memory. */
static void *
take(const struct terp_cuda_call *call, const void *from, uint64_t nbytes)
{
    void *at;

    if (call->memory == TERP_MEMORY_HOST) {
        at = malloc(nbytes);
        assert_non_null(at);
    } else
        assert_int_equal(cudaMalloc(&at, nbytes), cudaSuccess);
    if (from != NULL)
        memcpy(at, from, nbytes);
    return at;
}

static void
give(const struct terp_cuda_call *call, void *at)
{
    if (call->memory == TERP_MEMORY_HOST)
        free(at);
    else
        assert_int_equal(cudaFree(at), cudaSuccess);
}

/* The result. With TERP_OK the streams must be the CPU's. */
static enum terp_status
encode(struct terp_cuda_device *device, const struct terp_cuda_call *call,
       uint64_t n)
{
    void *src[NCHUNKS], *dst[NCHUNKS];
    uint64_t nbytes[NCHUNKS];

    for (uint64_t i = 0; i < n; i++) {
        src[i] = take(call, sample.values[i], sample.chunk_nbytes);
        dst[i] = take(call, NULL, sample.cap_nbytes);
    }
    enum terp_status st = engine->encode(device, call, &sample.params,
                                         &sample.chunk, n, src, dst, nbytes);
    for (uint64_t i = 0; i < n; i++) {
        if (st == TERP_OK) {
            assert_int_equal(nbytes[i], sample.stream[i].nbytes);
            assert_memory_equal(dst[i], sample.stream[i].bytes, nbytes[i]);
        }
        give(call, src[i]);
        give(call, dst[i]);
    }
    return st;
}

static enum terp_status
decode(struct terp_cuda_device *device, const struct terp_cuda_call *call,
       uint64_t n)
{
    void *src[NCHUNKS], *dst[NCHUNKS];
    uint64_t nbytes[NCHUNKS];
    enum terp_status status[NCHUNKS];

    for (uint64_t i = 0; i < n; i++) {
        nbytes[i] = sample.stream[i].nbytes;
        src[i] = take(call, sample.stream[i].bytes, nbytes[i]);
        dst[i] = take(call, NULL, sample.chunk_nbytes);
    }
    enum terp_status st = engine->decode(device, call, &sample.chunk, n, src,
                                         nbytes, dst, status);
    for (uint64_t i = 0; i < n; i++) {
        if (st == TERP_OK) {
            assert_int_equal(status[i], TERP_OK);
            assert_memory_equal(dst[i], sample.decoded[i], sample.chunk_nbytes);
        }
        give(call, src[i]);
        give(call, dst[i]);
    }
    return st;
}

static void
expect_work(struct terp_cuda_device *device)
{
    assert_false(engine->is_lost(device));
    assert_int_equal(encode(device, &on_host, 1), TERP_OK);
    assert_int_equal(decode(device, &on_host, 1), TERP_OK);
    assert_int_equal(encode(device, &on_device, NCHUNKS), TERP_OK);
    assert_int_equal(decode(device, &on_device, NCHUNKS), TERP_OK);
    assert_int_equal(cudaPeekAtLastError(), cudaSuccess);
}

static void
expect_loss(struct terp_cuda_device *device)
{
    assert_int_equal(encode(device, &on_host, 1), TERP_ERR_DEVICE);
    assert_true(engine->is_lost(device));
    assert_non_null(strstr(engine->reason(), "lost"));
    assert_int_equal(decode(device, &on_host, 1), TERP_ERR_DEVICE);
}

static CUcontext
current_context(void)
{
    CUcontext context;

    assert_int_equal(cuCtxGetCurrent(&context), CUDA_SUCCESS);
    return context;
}

static uint64_t
free_nbytes(void)
{
    size_t nbytes, all_nbytes;

    assert_int_equal(cudaMemGetInfo(&nbytes, &all_nbytes), cudaSuccess);
    return nbytes;
}

/* ---- what a host application notices ---- */

static void
thread_without_a_context_stays_without_one(void **state)
{
    (void)state;
    std::thread([] {
        struct terp_cuda_device *device = open_device(0);
        assert_null(current_context());
        for (int turn = 0; turn < NTURNS; turn++) {
            assert_int_equal(encode(device, &on_host, 2), TERP_OK);
            assert_int_equal(decode(device, &on_host, 2), TERP_OK);
        }
        engine->trim(device);
        engine->close(device);
        assert_null(current_context());
    }).join();
}

/* The device is opened while the host's own context is current, which is then
 * destroyed. */
static void
context_of_the_host_stays_and_takes_nothing_with_it(void **state)
{
    (void)state;
    std::thread([] {
        CUcontext own;
        assert_int_equal(cuCtxCreate(&own, NULL, 0, 0), CUDA_SUCCESS);
        struct terp_cuda_device *device = open_device(0);
        assert_int_equal(encode(device, &on_host, 2), TERP_OK);
        assert_ptr_equal(current_context(), own);
        assert_int_equal(cuCtxDestroy(own), CUDA_SUCCESS);
        assert_null(current_context());
        expect_work(device);
        engine->close(device);
    }).join();
}

/* The context is the device's primary one, which the host may use too. */
static void
flags_of_the_context_stay_what_they_were(void **state)
{
    (void)state;
    std::thread([] {
        struct terp_cuda_device *device = open_device(0);
        CUcontext primary, popped;
        unsigned flags;
        assert_int_equal(cuDevicePrimaryCtxRetain(&primary, 0), CUDA_SUCCESS);
        for (int turn = 0; turn < NTURNS; turn++)
            assert_int_equal(encode(device, &on_host, 2), TERP_OK);
        assert_true(emulator_ngraphs() > 0);
        assert_int_equal(cuCtxPushCurrent(primary), CUDA_SUCCESS);
        assert_int_equal(cuCtxGetFlags(&flags), CUDA_SUCCESS);
        assert_int_equal(flags, 0);
        assert_int_equal(cuCtxPopCurrent(&popped), CUDA_SUCCESS);
        assert_int_equal(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
        engine->close(device);
    }).join();
}

static void
devices_that_are_open_do_not_share(void **state)
{
    (void)state;
    int64_t nlive = emulator_nlive();
    struct terp_cuda_device *first = open_device(0), *second = open_device(0);

    expect_work(first);
    expect_work(second);
    engine->close(first);
    expect_work(second);
    engine->close(second);
    engine->close(NULL);
    assert_int_equal(emulator_nlive(), nlive);
}

static void
table_is_the_same_and_of_one_version(void **state)
{
    const struct terp_cuda_engine *again = NULL, *none = NULL;

    (void)state;
    assert_int_equal(terp_cuda_open(TERP_CUDA_ABI, &again), TERP_OK);
    assert_ptr_equal(again, engine);
    assert_int_equal(terp_cuda_open(TERP_CUDA_ABI - 1, &none),
                     TERP_ERR_ARGUMENT);
    assert_null(none);
}

static void
bytes_and_stored_streams_are_left_to_the_cpu(void **state)
{
    const struct terp_chunk bytes = {TERP_BYTES, false, false, 1, {100}};
    struct terp_cuda_device *device = open_device(0);
    uint8_t text[100] = {1}, dst[200], *values;
    const void *src = text;
    void *to = dst;
    uint64_t nbytes = 7;
    enum terp_status status = TERP_OK;

    (void)state;
    assert_int_equal(engine->encode(device, &on_host, &sample.params, &bytes, 1,
                                    &src, &to, &nbytes),
                     TERP_OK);
    assert_int_equal(nbytes, 0);
    assert_int_equal(
        terp_encode(&sample.params, &bytes, text, dst, sizeof dst, &nbytes, 1),
        TERP_OK);
    src = dst;
    values = (uint8_t *)terp_case_alloc(sample.chunk_nbytes);
    to = values;
    assert_int_equal(engine->decode(device, &on_host, &bytes, 1, &src, &nbytes,
                                    &to, &status),
                     TERP_OK);
    assert_int_equal(status, TERP_ERR_DEVICE);
    /* A stored stream of other values, and one that is too long. */
    status = TERP_OK;
    assert_int_equal(engine->decode(device, &on_host, &sample.chunk, 1, &src,
                                    &nbytes, &to, &status),
                     TERP_OK);
    assert_int_equal(status, TERP_ERR_DEVICE);
    free(values);
    engine->close(device);
}

/* The last PSNR is too high for any double. */
static void
psnr_is_searched_for(void **state)
{
    static const double asked[] = {30, 60, 120, TERP_MAX_PSNR + 1};
    struct terp_cuda_device *device = open_device(0);
    const uint64_t cap_nbytes = terp_encode_bound(&sample.chunk);
    uint8_t *expected = (uint8_t *)terp_case_alloc(cap_nbytes);

    (void)state;
    for (int turn = 0; turn < 8; turn++) {
        if (!terp_case_taken(2))
            continue;
        const struct terp_cuda_call call = turn % 2 ? on_device : on_host;
        struct terp_params params = {};
        uint64_t nbytes = 7, expected_nbytes;
        params.bound_mode = TERP_BOUND_PSNR;
        params.bound = asked[turn / 2];
        void *src = take(&call, sample.values[0], sample.chunk_nbytes);
        void *dst = take(&call, NULL, cap_nbytes);
        const void *from = src;
        assert_int_equal(engine->encode(device, &call, &params, &sample.chunk,
                                        1, &from, &dst, &nbytes),
                         TERP_OK);
        assert_int_equal(terp_encode(&params, &sample.chunk, sample.values[0],
                                     expected, cap_nbytes, &expected_nbytes, 1),
                         TERP_OK);
        assert_int_equal(nbytes,
                         params.bound > TERP_MAX_PSNR ? 0 : expected_nbytes);
        assert_memory_equal(dst, expected, nbytes);
        give(&call, src);
        give(&call, dst);
    }
    free(expected);
    engine->close(device);
}

/* ---- the caller's stream ---- */

/* A stream that runs its work as late as possible. */
static void
check_follows(struct terp_cuda_device *device, cudaStream_t stream)
{
    const struct terp_cuda_call call = {TERP_MEMORY_DEVICE, true, stream, 0,
                                        NULL};
    void *src = take(&on_device, NULL, sample.chunk_nbytes);
    void *dst = take(&on_device, NULL, sample.cap_nbytes);
    void *copy = take(&on_device, NULL, sample.chunk_nbytes);
    const void *from = src;
    uint64_t nbytes;

    emulator_hold(stream);
    assert_int_equal(cudaMemcpyAsync(src, sample.values[0], sample.chunk_nbytes,
                                     cudaMemcpyHostToDevice, stream),
                     cudaSuccess);
    assert_memory_not_equal(src, sample.values[0], sample.chunk_nbytes);
    assert_int_equal(engine->encode(device, &call, &sample.params,
                                    &sample.chunk, 1, &from, &dst, &nbytes),
                     TERP_OK);
    assert_int_equal(nbytes, sample.stream[0].nbytes);
    assert_memory_equal(dst, sample.stream[0].bytes, nbytes);

    assert_int_equal(cudaMemsetAsync(src, 0x33, sample.chunk_nbytes, stream),
                     cudaSuccess);
    assert_int_equal(
        engine->copy(device, &call, 1, &copy, &from, &sample.chunk_nbytes),
        TERP_OK);
    assert_int_equal(*(uint8_t *)copy, 0x33);
    give(&on_device, src);
    give(&on_device, dst);
    give(&on_device, copy);
}

/* The device decodes every step-th value like the CPU; it leaves no chunk to
 * the CPU. */
static void
check_nth_values(struct terp_cuda_device *device, struct terp_cuda_call call,
                 const struct terp_chunk *chunk,
                 const struct terp_stream *stream)
{
    struct terp_chunk coarse;
    enum terp_status status;
    uint64_t got;

    assert_int_equal(terp_coarse_chunk(chunk, call.step, &coarse), TERP_OK);
    const uint64_t nbytes = terp_chunk_nbytes(&coarse);
    uint8_t *expected = (uint8_t *)terp_case_alloc(nbytes);
    assert_int_equal(terp_decode_coarse(stream->bytes, stream->nbytes,
                                        call.step, expected, nbytes, &got, 1),
                     TERP_OK);
    void *src = take(&call, stream->bytes, stream->nbytes);
    void *dst = take(&call, NULL, nbytes);
    assert_int_equal(engine->decode(device, &call, chunk, 1, &src,
                                    &stream->nbytes, &dst, &status),
                     TERP_OK);
    assert_int_equal(status, TERP_OK);
    assert_memory_equal(dst, expected, nbytes);
    give(&call, src);
    give(&call, dst);
    free(expected);
}

static void
every_nth_value_is_decoded(void **state)
{
    static const uint64_t dims[] = {24, 30, 36};
    static const enum terp_pipeline pipelines[] = {TERP_PIPELINE_RATIO,
                                                   TERP_PIPELINE_HUFFMAN};
    static const enum terp_type types[] = {
        TERP_FLOAT32, TERP_FLOAT64, TERP_FLOAT16, TERP_INT16, TERP_COMPLEX64};
    static const enum terp_field fields[] = {
        TERP_FIELD_ROUGH, TERP_FIELD_DECADES, TERP_FIELD_SMOOTH};
    struct terp_cuda_device *device = open_device(0);
    int nprefixes = 0; /* chunks decoded without the bytes behind the prefix */

    (void)state;
    for (int turn = 0; turn < 36; turn++) {
        struct terp_cuda_call call = turn % 2 ? on_device : on_host;
        struct terp_params params = {};
        const enum terp_type type = types[turn % 5];
        const struct terp_chunk chunk = terp_case_chunk(type, 3, dims);
        uint8_t *values = (uint8_t *)terp_case_alloc(terp_chunk_nbytes(&chunk));
        terp_field_make(fields[turn / 4 % 3], &chunk, values);
        params.bound_mode = TERP_BOUND_RELATIVE;
        params.bound = type == TERP_FLOAT16 ? 1e-2 : turn < 24 ? 1e-3 : 1e-6;
        params.pipeline = pipelines[(turn + turn / 12) % 2];
        params.predictor = TERP_PREDICTOR_SPLINE;
        struct terp_stream stream =
            terp_case_encode(&params, &chunk, values, 1);
        call.step = UINT64_C(2) << turn % 4;
        check_nth_values(device, call, &chunk, &stream);
        uint64_t needed_nbytes;
        (void)terp_coarse_nbytes(stream.bytes, stream.nbytes, call.step,
                                 &needed_nbytes);
        if (needed_nbytes < stream.nbytes) {
            stream.nbytes = needed_nbytes;
            check_nth_values(device, call, &chunk, &stream);
            nprefixes++;
        }
        free(stream.bytes);
        free(values);
    }
    assert_in_range(nprefixes, 12, 36);
    engine->close(device);
}

/* A chunk whose stream has sections that coarse decoding must adapt. */
struct nth_case {
    enum terp_field field;
    struct terp_chunk chunk;
    struct terp_params params;
    bool has_payloads; /* one value in five is a NaN, all different */
};

static struct terp_params
params_of(enum terp_bound_mode mode, double bound,
          enum terp_predictor predictor, enum terp_pipeline pipeline)
{
    struct terp_params params = {};

    params.bound_mode = mode;
    params.bound = bound;
    params.predictor = predictor;
    params.pipeline = pipeline;
    return params;
}

static void
every_nth_value_of_any_stream_is_decoded(void **state)
{
    const struct terp_chunk cube = {
        TERP_FLOAT32, false, false, 3, {26, 30, 35}};
    const struct terp_chunk plane = {TERP_FLOAT64, true, false, 2, {67, 130}};
    const struct terp_chunk bricks = {
        TERP_FLOAT32, false, true, 4, {5, 9, 12, 11}};
    const struct terp_chunk halves = {
        TERP_FLOAT16, true, false, 3, {9, 21, 33}};
    const struct terp_chunk complex = {
        TERP_COMPLEX128, true, true, 3, {7, 21, 33}};
    const struct terp_params spline = params_of(
        TERP_BOUND_RELATIVE, 1e-3, TERP_PREDICTOR_SPLINE, TERP_PIPELINE_RATIO);
    const struct terp_params signs =
        params_of(TERP_BOUND_POINTWISE, 1e-2, TERP_PREDICTOR_SPLINE,
                  TERP_PIPELINE_HUFFMAN);
    const struct terp_params lorenzo = params_of(
        TERP_BOUND_RELATIVE, 1e-3, TERP_PREDICTOR_LORENZO, TERP_PIPELINE_RATIO);
    const struct terp_params lossless = params_of(
        TERP_BOUND_ABSOLUTE, 0, TERP_PREDICTOR_AUTO, TERP_PIPELINE_HUFFMAN);
    const struct nth_case cases[] = {
        {TERP_FIELD_COAST, cube, spline, false},
        {TERP_FIELD_GAPS, plane, spline, false},
        {TERP_FIELD_ROUGH, cube, spline, true},
        {TERP_FIELD_COAST, bricks, spline, false},
        {TERP_FIELD_GAPS, halves, spline, true},
        {TERP_FIELD_SMOOTH, cube, signs, false},
        {TERP_FIELD_GAPS, plane, signs, true},
        {TERP_FIELD_NOISE, halves, signs, false},
        {TERP_FIELD_CONSTANT, cube, spline, false},
        {TERP_FIELD_CONSTANT, plane, spline, true},
        {TERP_FIELD_ROUGH, bricks, spline, false},
        {TERP_FIELD_ROUGH, plane, lorenzo, false},
        {TERP_FIELD_COAST, cube, lorenzo, true},
        {TERP_FIELD_ROUNDED, cube, lossless, false},
        {TERP_FIELD_FINE, halves, lossless, false},
        {TERP_FIELD_COAST, complex, spline, false},
        {TERP_FIELD_GAPS, complex, lorenzo, false},
        {TERP_FIELD_SMOOTH, complex, signs, false},
        {TERP_FIELD_CONSTANT, complex, spline, false},
    };
    struct terp_cuda_device *device = open_device(0);

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct nth_case &one = cases[i];
        const uint64_t nbytes = terp_chunk_nbytes(&one.chunk);
        const uint64_t size = (uint64_t)terp_value_nbytes(one.chunk.type);
        uint8_t *values = (uint8_t *)terp_case_alloc(nbytes);
        terp_field_make(one.field, &one.chunk, values);
        for (uint64_t k = 0; one.has_payloads && k < nbytes / size; k += 5) {
            const int last = one.chunk.big_endian ? 0 : (int)size - 1;
            uint8_t *value = values + k * size;
            value[last] = size == 2 ? 0x7E : 0x7F;
            value[last == 0 ? 1 : last - 1] = (uint8_t)(0xF0 | k % 16);
            value[size - 1 - (uint64_t)last] = (uint8_t)(k / 16);
        }
        struct terp_stream stream =
            terp_case_encode(&one.params, &one.chunk, values, 1);
        /* In host memory these need no work of the device. */
        const bool is_raw =
            stream.bytes[TERP_FRAME_CODING_AT] == TERP_CODING_RAW;
        for (uint64_t step = 2; step <= 16; step *= 2) {
            struct terp_cuda_call call =
                is_raw || (i + step / 2) % 2 ? on_device : on_host;
            call.step = step;
            check_nth_values(device, call, &one.chunk, &stream);
        }
        free(stream.bytes);
        free(values);
    }
    engine->close(device);
}

static void
call_begins_after_what_is_in_the_callers_stream(void **state)
{
    struct terp_cuda_device *device = open_device(0);
    cudaStream_t stream;

    (void)state;
    assert_int_equal(cudaStreamCreateWithFlags(&stream, 0), cudaSuccess);
    check_follows(device, stream);
    assert_int_equal(cudaStreamDestroy(stream), cudaSuccess);
    check_follows(device, NULL);
    engine->close(device);
}

static void
stream_may_be_of_another_context(void **state)
{
    (void)state;
    std::thread([] {
        struct terp_cuda_device *device = open_device(0);
        cudaStream_t stream;
        CUcontext own;
        assert_int_equal(cuCtxCreate(&own, NULL, 0, 0), CUDA_SUCCESS);
        assert_int_equal(cudaStreamCreateWithFlags(&stream, 0), cudaSuccess);
        check_follows(device, stream);
        assert_ptr_equal(current_context(), own);
        assert_int_equal(cudaStreamDestroy(stream), cudaSuccess);
        assert_int_equal(cuCtxDestroy(own), CUDA_SUCCESS);
        engine->close(device);
    }).join();
}

static void
stream_that_is_captured_is_refused(void **state)
{
    struct terp_cuda_device *device = open_device(0);
    cudaStream_t stream;
    cudaGraph_t graph;

    (void)state;
    assert_int_equal(cudaStreamCreateWithFlags(&stream, 0), cudaSuccess);
    assert_int_equal(
        cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal),
        cudaSuccess);
    const struct terp_cuda_call call = {TERP_MEMORY_DEVICE, true, stream, 0,
                                        NULL};
    assert_int_equal(encode(device, &call, 1), TERP_ERR_ARGUMENT);
    assert_int_equal(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    assert_int_equal(cudaGraphDestroy(graph), cudaSuccess);
    assert_int_equal(encode(device, &call, 1), TERP_OK);
    assert_int_equal(cudaStreamDestroy(stream), cudaSuccess);
    expect_work(device);
    engine->close(device);
}

/* ---- memory ---- */

/* Memory limits between the needs of one chunk and of all chunks. */
static void
little_memory_makes_smaller_batches(void **state)
{
    struct terp_cuda_device *device = open_device(0);

    (void)state;
    uint64_t open_nbytes = free_nbytes();
    assert_int_equal(encode(device, &on_device, 1), TERP_OK);
    uint64_t one_nbytes = open_nbytes - free_nbytes();
    engine->trim(device);
    assert_int_equal(encode(device, &on_device, NCHUNKS), TERP_OK);
    uint64_t all_nbytes = open_nbytes - free_nbytes();
    assert_true(all_nbytes > 3 * one_nbytes);

    uint64_t taken_nbytes =
        NCHUNKS * (sample.chunk_nbytes + sample.cap_nbytes + 512);
    uint64_t used_nbytes = (UINT64_C(140) << 30) - open_nbytes;
    engine->trim(device);
    emulator_limit_memory(used_nbytes + taken_nbytes + 3 * one_nbytes);
    assert_int_equal(encode(device, &on_device, NCHUNKS), TERP_OK);
    assert_true(open_nbytes - free_nbytes() <= 3 * one_nbytes);

    emulator_limit_memory(used_nbytes + taken_nbytes);
    engine->trim(device);
    assert_int_equal(encode(device, &on_device, NCHUNKS), TERP_ERR_MEMORY);
    assert_int_equal(decode(device, &on_host, 1), TERP_ERR_MEMORY);
    assert_int_equal(cudaPeekAtLastError(), cudaSuccess);
    emulator_limit_memory(UINT64_MAX);
    expect_work(device);
    engine->close(device);
}

/* Another slot, which was used while the first one was busy. */
static void
memory_that_idle_slots_keep_is_released(void **state)
{
    struct terp_cuda_device *device = open_device(0);

    (void)state;
    uint64_t open_nbytes = free_nbytes();
    struct cuda_slot *slot = cuda_slot_take(device, false);
    assert_int_equal(encode(device, &on_host, NCHUNKS), TERP_OK);
    cuda_slot_give(device, slot);
    uint64_t kept_nbytes = open_nbytes - free_nbytes();
    emulator_limit_memory((UINT64_C(140) << 30) - open_nbytes + kept_nbytes);
    assert_int_equal(encode(device, &on_host, NCHUNKS), TERP_OK);
    emulator_limit_memory(UINT64_MAX);
    expect_work(device);
    engine->close(device);
}

static void
trim_releases_what_calls_have_left(void **state)
{
    struct terp_cuda_device *device = open_device(0);
    uint64_t open_nbytes = free_nbytes();
    int64_t nlive = emulator_nlive();

    (void)state;
    for (int turn = 0; turn < NTURNS; turn++)
        expect_work(device);
    assert_true(free_nbytes() < open_nbytes);
    assert_true(emulator_nlive() > nlive);
    engine->trim(device);
    assert_int_equal(free_nbytes(), open_nbytes);
    assert_int_equal(emulator_nlive(), nlive);
    expect_work(device);
    engine->close(device);
}

static void
limit_of_memory_is_kept(void **state)
{
    struct terp_cuda_device *device = open_device(0);
    uint64_t open_nbytes = free_nbytes();

    (void)state;
    assert_int_equal(encode(device, &on_device, 1), TERP_OK);
    uint64_t one_nbytes = open_nbytes - free_nbytes();
    engine->close(device);

    device = open_device(2 * one_nbytes);
    open_nbytes = free_nbytes();
    assert_int_equal(encode(device, &on_device, NCHUNKS), TERP_OK);
    assert_true(open_nbytes - free_nbytes() <= 2 * one_nbytes);
    engine->close(device);

    device = open_device(one_nbytes / 2);
    assert_int_equal(encode(device, &on_device, NCHUNKS), TERP_ERR_MEMORY);
    assert_false(engine->is_lost(device));
    engine->close(device);
}

/* Some blocks are empty, and some are too large to be copied together.
 * Addresses have any alignment. All blocks exceed the pinned memory of one
 * transfer. */
static void
many_blocks_are_copied(void **state)
{
    enum {
        NBLOCKS = 3000
    };
    static void *to[NBLOCKS], *back[NBLOCKS];
    static uint64_t nbytes[NBLOCKS];
    struct terp_cuda_device *device = open_device(0);
    uint64_t at[NBLOCKS + 1] = {0};

    (void)state;
    for (int i = 0; i < NBLOCKS; i++) {
        nbytes[i] = i % 1000 == 999 ? 100000 : (uint64_t)i * 7919 % 4099;
        at[i + 1] = at[i] + nbytes[i] + (uint64_t)i % 3;
    }
    uint8_t *values = (uint8_t *)take(&on_host, NULL, at[NBLOCKS]);
    uint8_t *got = (uint8_t *)take(&on_host, NULL, at[NBLOCKS]);
    uint8_t *d_memory = (uint8_t *)take(&on_device, NULL, at[NBLOCKS] + 5);
    for (uint64_t i = 0; i < at[NBLOCKS]; i++)
        values[i] = (uint8_t)(i * 2654435761U >> 13);
    /* First through pinned memory, then without memory for lists. */
    for (const uint64_t limit : {UINT64_MAX, UINT64_C(1)}) {
        memset(got, 0, at[NBLOCKS]);
        for (int i = 0; i < NBLOCKS; i++) {
            to[i] = values + at[i];
            back[i] = d_memory + 5 + at[i];
        }
        engine->trim(device);
        emulator_limit_memory(limit);
        assert_int_equal(
            engine->copy(device, &on_device, NBLOCKS, back, to, nbytes),
            TERP_OK);
        for (int i = 0; i < NBLOCKS; i++)
            to[i] = got + at[i];
        assert_int_equal(
            engine->copy(device, &on_device, NBLOCKS, to, back, nbytes),
            TERP_OK);
        for (int i = 0; i < NBLOCKS; i++)
            assert_memory_equal(got + at[i], values + at[i], nbytes[i]);
    }
    emulator_limit_memory(UINT64_MAX);
    give(&on_device, d_memory);
    give(&on_host, values);
    give(&on_host, got);
    engine->close(device);
}

/* ---- failures ---- */

static void
graph_that_fails_is_launched_plainly(void **state)
{
    struct terp_cuda_device *device = open_device(0);

    (void)state;
    uint64_t ngraphs = emulator_ngraphs();
    emulator_fail_graphs(cudaErrorStreamCaptureUnsupported);
    for (int turn = 0; turn < NTURNS; turn++)
        expect_work(device);
    assert_int_equal(emulator_ngraphs(), ngraphs);
    emulator_fail_graphs(cudaSuccess);
    for (int turn = 0; turn < NTURNS; turn++) {
        assert_int_equal(encode(device, &on_host, 1), TERP_OK);
        assert_int_equal(decode(device, &on_host, 1), TERP_OK);
    }
    assert_int_equal(emulator_ngraphs() - ngraphs, 2 * (NTURNS - 1));
    engine->close(device);
}

/* Three rounds in both directions. Returns false if a round did not run on the
 * device. */
static bool
run_turns(struct terp_cuda_device *device)
{
    bool is_done = true;

    for (int turn = 0; turn < NTURNS; turn++) {
        is_done = encode(device, &on_host, 2) == TERP_OK && is_done;
        is_done = decode(device, &on_host, 2) == TERP_OK && is_done;
    }
    return is_done;
}

/* The number of CUDA calls in three rounds. */
static uint64_t
count_calls(void)
{
    struct terp_cuda_device *device = open_device(0);
    uint64_t before = emulator_ncalls();

    assert_true(run_turns(device));
    uint64_t ncalls = emulator_ncalls() - before;
    engine->close(device);
    return ncalls;
}

/* Fails once, so it is at most the failure of one call. */
static void
failure_of_a_call_leaves_the_device_open(void **state)
{
    static const int errors[] = {cudaErrorMemoryAllocation,
                                 cudaErrorInvalidConfiguration,
                                 cudaErrorStreamCaptureUnsupported};
    const uint64_t ncalls = count_calls();
    uint64_t ntried = 0, nfailed = 0;

    (void)state;
    for (int error : errors)
        for (uint64_t i = 0; i < ncalls; i++) {
            if (!terp_case_is_drawn((uint64_t)error * ncalls + i, STEP))
                continue;
            ntried++;
            struct terp_cuda_device *device = open_device(0);
            emulator_fail_after(i, error, false);
            nfailed += !run_turns(device);
            assert_int_equal(cudaPeekAtLastError(), cudaSuccess);
            emulator_fail_never();
            /* Entering the context may be the call that failed. */
            if (!engine->is_lost(device))
                expect_work(device);
            engine->close(device);
        }
    assert_in_range(nfailed, ntried / 6, ntried);
}

static void
lack_of_memory_once_is_made_good(void **state)
{
    const uint64_t ncalls = count_calls();
    uint64_t nfailed = 0;

    (void)state;
    for (uint64_t i = 0; i < ncalls; i++) {
        if (!terp_case_is_drawn(i, 11 * nleft_out))
            continue;
        struct terp_cuda_device *device = open_device(0);
        emulator_fail_after(i, cudaErrorMemoryAllocation, false);
        nfailed += !run_turns(device) && !engine->is_lost(device);
        emulator_fail_never();
        engine->close(device);
    }
    assert_int_equal(nfailed, 0);
}

static void
loss_of_the_device_is_for_good(void **state)
{
    const uint64_t ncalls = count_calls();

    (void)state;
    for (uint64_t i = 0; i < ncalls; i++) {
        if (!terp_case_is_drawn(i, STEP))
            continue;
        struct terp_cuda_device *device = open_device(0);
        emulator_fail_after(i, cudaErrorLaunchFailure, true);
        (void)run_turns(device);
        assert_int_equal(encode(device, &on_host, 1), TERP_ERR_DEVICE);
        emulator_fail_never();
        expect_loss(device);
        engine->trim(device);
        engine->close(device);
    }
}

static void
device_that_cannot_be_opened_leaves_nothing(void **state)
{
    const struct terp_cuda_options options = {-1, 0};
    int64_t nlive = emulator_nlive();
    uint64_t ncalls = emulator_ncalls();

    (void)state;
    engine->close(open_device(0));
    ncalls = emulator_ncalls() - ncalls;
    for (uint64_t i = 0; i < ncalls; i++) {
        struct terp_cuda_device *device = NULL;
        const char *name = NULL, *reason = NULL;
        emulator_fail_after(i, cudaErrorMemoryAllocation, false);
        enum terp_status st = engine->open(&options, &device, &name, &reason);
        assert_int_equal(cudaPeekAtLastError(), cudaSuccess);
        emulator_fail_never();
        if (st == TERP_OK) {
            engine->close(device);
            continue;
        }
        assert_int_equal(st, TERP_ERR_MEMORY);
        assert_non_null(reason);
        assert_null(device);
        assert_int_equal(emulator_nlive(), nlive);
    }
}

static void
reset_by_the_host_loses_the_device(void **state)
{
    struct terp_cuda_device *device = open_device(0);
    void *at;

    (void)state;
    expect_work(device);
    assert_int_equal(cudaDeviceReset(), cudaSuccess);
    expect_loss(device);
    engine->trim(device);
    engine->close(device);

    /* The host has used the device again since then. */
    device = open_device(0);
    expect_work(device);
    assert_int_equal(cudaDeviceReset(), cudaSuccess);
    assert_int_equal(cudaMalloc(&at, 1000), cudaSuccess);
    expect_loss(device);
    engine->close(device);
    assert_int_equal(cudaFree(at), cudaSuccess);

    device = open_device(0);
    expect_work(device);
    engine->close(device);
}

static void
make_samples(enum terp_type type)
{
    static const uint64_t dims[] = {4, 6, 5};
    uint64_t nbytes;

    sample.chunk = terp_case_chunk(type, 3, dims);
    sample.params.bound_mode = TERP_BOUND_RELATIVE;
    sample.params.bound = 1e-3;
    sample.chunk_nbytes = terp_chunk_nbytes(&sample.chunk);
    sample.cap_nbytes = terp_encode_bound(&sample.chunk);
    for (int i = 0; i < NCHUNKS; i++) {
        uint8_t *values = (uint8_t *)terp_case_alloc(sample.chunk_nbytes);
        terp_field_make(i % 2 == 0 ? TERP_FIELD_SMOOTH : TERP_FIELD_GAPS,
                        &sample.chunk, values);
        memcpy(values, &i, sizeof i);
        sample.values[i] = values;
        sample.stream[i] =
            terp_case_encode(&sample.params, &sample.chunk, values, 1);
        sample.decoded[i] = (uint8_t *)terp_case_alloc(sample.chunk_nbytes);
        assert_int_equal(terp_decode(sample.stream[i].bytes,
                                     sample.stream[i].nbytes, sample.decoded[i],
                                     sample.chunk_nbytes, &nbytes, 1),
                         TERP_OK);
    }
}

static int
begin_with(enum terp_type type)
{
    make_samples(type);
    return terp_cuda_open(TERP_CUDA_ABI, &engine) == TERP_OK ? 0 : -1;
}

static int
begin(void **state)
{
    (void)state;
    return begin_with(TERP_FLOAT32);
}

static int
begin_parts(void **state)
{
    (void)state;
    nleft_out = 8;
    return begin_with(TERP_COMPLEX64);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_is_the_same_and_of_one_version),
        cmocka_unit_test(thread_without_a_context_stays_without_one),
        cmocka_unit_test(context_of_the_host_stays_and_takes_nothing_with_it),
        cmocka_unit_test(flags_of_the_context_stay_what_they_were),
        cmocka_unit_test(devices_that_are_open_do_not_share),
        cmocka_unit_test(bytes_and_stored_streams_are_left_to_the_cpu),
        cmocka_unit_test(psnr_is_searched_for),
        cmocka_unit_test(every_nth_value_is_decoded),
        cmocka_unit_test(every_nth_value_of_any_stream_is_decoded),
        cmocka_unit_test(call_begins_after_what_is_in_the_callers_stream),
        cmocka_unit_test(stream_may_be_of_another_context),
        cmocka_unit_test(stream_that_is_captured_is_refused),
        cmocka_unit_test(little_memory_makes_smaller_batches),
        cmocka_unit_test(memory_that_idle_slots_keep_is_released),
        cmocka_unit_test(trim_releases_what_calls_have_left),
        cmocka_unit_test(limit_of_memory_is_kept),
        cmocka_unit_test(many_blocks_are_copied),
        cmocka_unit_test(graph_that_fails_is_launched_plainly),
        cmocka_unit_test(failure_of_a_call_leaves_the_device_open),
        cmocka_unit_test(lack_of_memory_once_is_made_good),
        cmocka_unit_test(loss_of_the_device_is_for_good),
        cmocka_unit_test(device_that_cannot_be_opened_leaves_nothing),
        cmocka_unit_test(reset_by_the_host_loses_the_device),
    };
    /* Complex values have buffers and steps of their own. */
    const struct CMUnitTest tests_of_parts[] = {
        cmocka_unit_test(call_begins_after_what_is_in_the_callers_stream),
        cmocka_unit_test(stream_that_is_captured_is_refused),
        cmocka_unit_test(trim_releases_what_calls_have_left),
        cmocka_unit_test(failure_of_a_call_leaves_the_device_open),
        cmocka_unit_test(lack_of_memory_once_is_made_good),
        cmocka_unit_test(loss_of_the_device_is_for_good),
        cmocka_unit_test(reset_by_the_host_loses_the_device),
    };
    const int nfailed = cmocka_run_group_tests(tests, begin, NULL);

    return nfailed + cmocka_run_group_tests(tests_of_parts, begin_parts, NULL);
}
