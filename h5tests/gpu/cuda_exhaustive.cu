/* cuda_exhaustive [CHUNKS] [WIDE]
 *
 * The cases of h5tests/codec/exhaustive.c on a machine with a GPU: all float32
 * patterns, twice, under bounds of every mode, through the device's encoder and
 * decoder. The device also checks each value in exact arithmetic. Then WIDE
 * chunks of float64 for each bound (default 2400: 10^10 values in all). CHUNKS
 * limits the 4096 chunks of float32. Pipelines and predictors take turns.
 * Prints a line for each bound, and fails at the first value that exceeds its
 * bound. */
#include <cuda_runtime.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "h5tests/gpu/cuda_program.h"
#include "h5tests/support/exhaustive.h"
#include "h5tests/support/modes.h"

#define BATCH_NCHUNKS 64
#define NTHREADS 1024
#define NONE UINT64_MAX

static uint8_t *
alloc_device(uint64_t nbytes)
{
    void *at;
    check_cuda("cudaMalloc", cudaMalloc(&at, nbytes));
    return (uint8_t *)at;
}

/* The chunks of a call: `first`, `first` + `step` and so on. */
struct batch {
    struct exhaustive_case how;
    enum exhaustive_layout layout;
    uint64_t first, step, nvalues;
};

static __device__ __forceinline__ uint64_t
load_bits(const uint8_t *values, uint64_t i, bool wide)
{
    return wide ? ((const uint64_t *)values)[i]
                : (uint64_t)((const uint32_t *)values)[i];
}

/* terp_field_mix for the device. */
static __device__ __forceinline__ uint64_t
mix(uint64_t counter)
{
    uint64_t word = counter * UINT64_C(0x9E3779B97F4A7C15);

    word = (word ^ word >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    word = (word ^ word >> 27) * UINT64_C(0x94D049BB133111EB);
    return word ^ word >> 31;
}

/* Grid: x blocks that share a chunk, y chunks. */
static __global__ void
__launch_bounds__(NTHREADS) fill(const struct batch batch, uint8_t *values)
{
    const bool wide = batch.layout == WIDE;
    const uint64_t c = batch.first + blockIdx.y * batch.step;
    const uint64_t at = blockIdx.y * batch.nvalues;

    for (uint64_t i = blockIdx.x * (uint64_t)NTHREADS + threadIdx.x;
         i < batch.nvalues; i += (uint64_t)gridDim.x * NTHREADS) {
        const uint64_t bits =
            exhaustive_pattern(batch.layout, c, i, mix(c * WIDE_NVALUES + i));
        if (wide)
            ((uint64_t *)values)[at + i] = bits;
        else
            ((uint32_t *)values)[at + i] = (uint32_t)bits;
    }
}

/* The least and the largest finite value, from all threads. As integers, the
 * values have the same order. */
static __device__ void
find_range(const uint8_t *values, uint64_t nvalues, bool wide, double *min_ret,
           double *max_ret)
{
    __shared__ double s_min[NTHREADS], s_max[NTHREADS];
    const enum terp_type type = wide ? TERP_FLOAT64 : TERP_FLOAT32;
    const double infinity = double_of_bits(UINT64_C(0x7FF) << 52);
    double min = infinity, max = -infinity;

    for (uint64_t i = threadIdx.x; i < nvalues; i += NTHREADS) {
        const uint64_t bits = load_bits(values, i, wide);
        if (!bits_are_finite(type, bits))
            continue;
        const double value = value_of_bits(type, bits);
        min = value < min ? value : min;
        max = value > max ? value : max;
    }
    s_min[threadIdx.x] = min;
    s_max[threadIdx.x] = max;
    __syncthreads();
    for (unsigned n = NTHREADS / 2; n > 0; n /= 2) {
        if (threadIdx.x < n) {
            const unsigned other = threadIdx.x + n;
            if (s_min[other] < s_min[threadIdx.x])
                s_min[threadIdx.x] = s_min[other];
            if (s_max[other] > s_max[threadIdx.x])
                s_max[threadIdx.x] = s_max[other];
        }
        __syncthreads();
    }
    *min_ret = s_min[0];
    *max_ret = s_max[0];
}

/* Grid: x 1, y chunks. `*bad` becomes the position of a value that exceeds its
 * bound. */
static __global__ void
__launch_bounds__(NTHREADS)
    check(const struct batch batch, const uint8_t *values, const uint8_t *got,
          unsigned long long *bad)
{
    const bool wide = batch.layout == WIDE;
    const enum terp_type type = wide ? TERP_FLOAT64 : TERP_FLOAT32;
    const uint64_t at = blockIdx.y * batch.nvalues;
    const uint64_t offset = at * (wide ? 8 : 4);
    double min = 0, max = 0;

    if (batch.how.bound_mode == TERP_BOUND_RELATIVE)
        find_range(values + offset, batch.nvalues, wide, &min, &max);
    const double bound = exhaustive_bound(&batch.how, min, max);
    for (uint64_t i = threadIdx.x; i < batch.nvalues; i += NTHREADS)
        if (!exhaustive_is_kept(&batch.how, type,
                                load_bits(values + offset, i, wide),
                                load_bits(got + offset, i, wide), bound))
            *bad = at + i;
}

struct buffers {
    uint8_t *values, *decoded, *streams;
    uint64_t stream_stride;
    unsigned long long *bad; /* managed memory */
};

/* The position of a value that exceeds its bound, or NONE. */
static uint64_t
find_bad(const struct batch *batch, uint64_t nchunks, const struct buffers *b)
{
    *b->bad = NONE;
    check<<<dim3(1, (unsigned)nchunks), NTHREADS>>>(*batch, b->values,
                                                    b->decoded, b->bad);
    check_cuda("checking", cudaDeviceSynchronize());
    return *b->bad;
}

/* Encodes, decodes and checks the chunks of a batch. Returns false if a value
 * exceeds its bound. */
static bool
try_batch(const struct batch *batch, uint64_t nchunks,
          const struct terp_mode *mode, const struct buffers *b)
{
    struct terp_params params = {};
    struct terp_chunk chunk = {};
    struct terp_run_options options = {};
    struct terp_run_result result = {};
    const void *src[BATCH_NCHUNKS];
    void *stream[BATCH_NCHUNKS], *dst[BATCH_NCHUNKS];
    uint64_t nbytes[BATCH_NCHUNKS];
    enum terp_status status[BATCH_NCHUNKS];

    params.bound_mode = batch->how.bound_mode;
    params.bound = batch->how.bound;
    params.floor = batch->how.floor;
    params.pipeline = mode->pipeline;
    params.predictor = mode->predictor;
    params.effort = TERP_EFFORT_FAST; /* the device must run all of it */
    chunk.type = batch->layout == WIDE ? TERP_FLOAT64 : TERP_FLOAT32;
    chunk.rank = 1;
    chunk.dims[0] = batch->nvalues;
    const uint64_t chunk_nbytes = terp_chunk_nbytes(&chunk);
    options.engine = TERP_ENGINE_CUDA;
    options.memory = TERP_MEMORY_DEVICE;
    for (uint64_t i = 0; i < nchunks; i++) {
        src[i] = b->values + i * chunk_nbytes;
        dst[i] = b->decoded + i * chunk_nbytes;
        stream[i] = b->streams + i * b->stream_stride;
    }
    fill<<<dim3(16, (unsigned)nchunks), NTHREADS>>>(*batch, b->values);
    check_cuda("filling", cudaDeviceSynchronize());
    enum terp_status st = terp_encode_batch(&options, &params, &chunk, nchunks,
                                            src, stream, nbytes, &result);
    if (st == TERP_OK && result.used == TERP_ENGINE_CUDA)
        st = terp_decode_batch(&options, &chunk, nchunks,
                               (const void *const *)stream, nbytes, dst, status,
                               &result);
    if (st != TERP_OK || result.used != TERP_ENGINE_CUDA)
        stop(terp_status_text(st), result.reason);
    const uint64_t at = find_bad(batch, nchunks, b);
    if (at == NONE)
        return true;
    const int value_nbytes = batch->layout == WIDE ? 8 : 4;
    uint64_t bits[2] = {0, 0};
    check_cuda("cudaMemcpy", cudaMemcpy(&bits[0], b->values + at * value_nbytes,
                                        value_nbytes, cudaMemcpyDefault));
    check_cuda("cudaMemcpy",
               cudaMemcpy(&bits[1], b->decoded + at * value_nbytes,
                          value_nbytes, cudaMemcpyDefault));
    printf(
        "chunk %llu, %s: %a became %a\n",
        (unsigned long long)(batch->first + at / batch->nvalues * batch->step),
        mode->name, value_of_bits(chunk.type, bits[0]),
        value_of_bits(chunk.type, bits[1]));
    return false;
}

/* Tests the check itself: it finds a changed bit under the bound 0. */
static bool
finds_a_bit(const struct buffers *b)
{
    const uint64_t place = 3 * CHUNK_NVALUES - 1;
    struct batch batch = {};
    uint32_t bits;

    batch.how = exhaustive_cases[EXHAUSTIVE_NCASES - 1];
    batch.layout = COMBS;
    batch.step = 1;
    batch.nvalues = CHUNK_NVALUES;
    if (!try_batch(&batch, 4, &terp_mode[0], b))
        return false;
    check_cuda("cudaMemcpy",
               cudaMemcpy(&bits, b->decoded + 4 * place, 4, cudaMemcpyDefault));
    bits ^= 1;
    check_cuda("cudaMemcpy",
               cudaMemcpy(b->decoded + 4 * place, &bits, 4, cudaMemcpyDefault));
    const bool found = find_bad(&batch, 4, b) == place;
    if (!found)
        puts("FAILED: the check finds no other bit");
    return found;
}

static bool
do_pass(int k, enum exhaustive_layout layout, uint64_t nchunks, uint64_t step,
        const struct buffers *b)
{
    struct batch batch = {};
    const double begin = now();
    bool kept = true;

    batch.how = exhaustive_cases[k];
    batch.layout = layout;
    batch.step = step;
    batch.nvalues = layout == WIDE ? WIDE_NVALUES : CHUNK_NVALUES;
    for (uint64_t done = 0; kept && done < nchunks; done += BATCH_NCHUNKS) {
        batch.first = (uint64_t)k * 2741 % step + done * step;
        kept = try_batch(
            &batch,
            nchunks - done < BATCH_NCHUNKS ? nchunks - done : BATCH_NCHUNKS,
            &terp_mode[(done / BATCH_NCHUNKS + (uint64_t)k) % TERP_NMODES], b);
    }
    printf("%-9s %-14s bound %g, floor %g: %s, %llu values, %.1f s\n",
           batch.how.mode, exhaustive_layout_names[layout], batch.how.bound,
           batch.how.floor, kept ? "kept" : "FAILED",
           (unsigned long long)(nchunks * batch.nvalues), now() - begin);
    fflush(stdout);
    return kept;
}

int
main(int argc, char **argv)
{
    const uint64_t nchunks =
        argc > 1 ? strtoull(argv[1], NULL, 10) : (uint64_t)NCHUNKS;
    const uint64_t nwide = argc > 2 ? strtoull(argv[2], NULL, 10) : 2400;
    const uint64_t nbytes = 4 * BATCH_NCHUNKS * CHUNK_NVALUES;
    struct buffers b = {};
    bool kept = true;

    if (nchunks < 1 || nchunks > NCHUNKS) {
        fputs("usage: cuda_exhaustive [CHUNKS] [WIDE]\n", stderr);
        return EXIT_FAILURE;
    }
    static_assert(8 * WIDE_NVALUES <= 4 * CHUNK_NVALUES, "room for either");
    b.stream_stride = 4 * CHUNK_NVALUES + 64;
    b.values = alloc_device(nbytes);
    b.decoded = alloc_device(nbytes);
    b.streams = alloc_device(b.stream_stride * BATCH_NCHUNKS);
    check_cuda("cudaMallocManaged", cudaMallocManaged((void **)&b.bad, 8));
    kept = finds_a_bit(&b);
    for (int k = 0; kept && k < EXHAUSTIVE_NCASES; k++)
        kept = do_pass(k, RUNS, nchunks, NCHUNKS / nchunks, &b) &&
               do_pass(k, COMBS, nchunks, NCHUNKS / nchunks, &b) &&
               do_pass(k, WIDE, nwide, 1, &b);
    return kept ? EXIT_SUCCESS : EXIT_FAILURE;
}
