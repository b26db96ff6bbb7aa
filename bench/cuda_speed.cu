/* Measures the speed of the CUDA engine for its users: the wall-clock time of
 * one synchronous call of the public interface. Prints CSV; README.md describes
 * the lines. */
#include <cuda_profiler_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/cuda_bench.h"

/* Calls with one small chunk alternate between this many sets. */
#define NSETS 8

struct pipeline {
    const char *name;
    enum terp_pipeline pipeline;
};

static const struct pipeline pipelines[] = {
    {"ratio", TERP_PIPELINE_RATIO},
    {"huffman", TERP_PIPELINE_HUFFMAN},
};

static const char *const predictor_names[] = {"auto", "spline", "lorenzo"};

/* The number of chunks in a large batch. */
static uint64_t
batch_nchunks(void)
{
    const char *text = getenv("TERP_BENCH_CHUNKS");

    return text != NULL ? strtoull(text, NULL, 10) : 512;
}

/* A timed call. */
struct call {
    struct bench_chunks *chunks;
    enum terp_engine_kind engine;
};

static void
time_encode(void *arg, uint64_t i)
{
    const struct call *call = (const struct call *)arg;

    bench_encode(call->chunks, i % call->chunks->nsets, call->engine);
}

static void
time_decode(void *arg, uint64_t i)
{
    const struct call *call = (const struct call *)arg;

    bench_decode(call->chunks, i % call->chunks->nsets, call->engine);
}

static void
print_head(void)
{
    puts("what,engine,memory,type,extent,chunks,pipeline,predictor,direction,"
         "reps,median_us,min_us,gb_per_s,ratio");
}

static const char *what = "terp";

static void
print_terp(const struct bench_chunks *chunks, enum terp_engine_kind engine,
           const char *direction, const struct bench_times *times)
{
    const char *pipeline =
        chunks->params.pipeline == TERP_PIPELINE_SPEED ? "speed" : "auto";

    for (const struct pipeline &p : pipelines)
        if (p.pipeline == chunks->params.pipeline)
            pipeline = p.name;
    printf("%s,%s,%s,%s,%llu,%llu,%s,%s,%s,%d,%.1f,%.1f,%.2f,%.2f\n", what,
           engine == TERP_ENGINE_CUDA ? "cuda" : "cpu",
           chunks->memory == TERP_MEMORY_DEVICE ? "device" : "host",
           terp_type_name(chunks->chunk.type),
           (unsigned long long)chunks->chunk.dims[0],
           (unsigned long long)chunks->nchunks, pipeline,
           predictor_names[chunks->params.predictor], direction, times->n,
           times->median_s * 1e6, times->min_s * 1e6,
           (double)(chunks->chunk_nbytes * chunks->nchunks) / times->median_s /
               1e9,
           bench_ratio(chunks));
    fflush(stdout);
}

static int nwrong;

/* Prints two lines, for encoding and decoding. They also tell whether the
 * results are right: the speed of a wrong result means nothing. */
static void
measure(struct bench_chunks *chunks, enum terp_engine_kind engine)
{
    struct call call = {chunks, engine};

    struct bench_times encode = bench_time(time_encode, &call);
    struct bench_times decode = bench_time(time_decode, &call);
    print_terp(chunks, engine, "compress", &encode);
    print_terp(chunks, engine, "decompress", &decode);
    if (engine == TERP_ENGINE_CUDA && !bench_is_right(chunks)) {
        fputs("wrong: the CPU has other bytes for the last two lines\n",
              stderr);
        nwrong++;
    }
}

static void
measure_all(struct bench_chunks *chunks)
{
    for (const struct pipeline &p : pipelines) {
        chunks->params.pipeline = p.pipeline;
        measure(chunks, TERP_ENGINE_CUDA);
    }
}

/* ---- data on the device ---- */

struct copy {
    void *dst, *src;
    uint64_t nbytes;
};

static void
time_copy(void *arg, uint64_t i)
{
    const struct copy *copy = (const struct copy *)arg;

    (void)i;
    bench_check("cudaMemcpy", cudaMemcpy(copy->dst, copy->src, copy->nbytes,
                                         cudaMemcpyDefault));
    bench_check("cudaMemcpy", cudaDeviceSynchronize());
}

/* Counts each byte once, although the memory reads and writes it. */
static void
print_copy(const char *memory, const char *direction, uint64_t extent,
           uint64_t nbytes, const struct bench_times *times)
{
    printf("copy,,%s,float32,%llu,1,,,%s,%d,%.1f,%.1f,%.2f,\n", memory,
           (unsigned long long)extent, direction, times->n,
           times->median_s * 1e6, times->min_s * 1e6,
           (double)nbytes / times->median_s / 1e9);
    fflush(stdout);
}

static void
run_ceiling(const struct bench_field *field)
{
    uint64_t nbytes = field->extent * field->extent * field->extent * 4;
    struct copy copy = {bench_alloc(TERP_MEMORY_DEVICE, nbytes),
                        bench_alloc(TERP_MEMORY_DEVICE, nbytes), nbytes};

    bench_check("cudaMemcpy", cudaMemcpy(copy.src, field->values, nbytes,
                                         cudaMemcpyHostToDevice));
    struct bench_times times = bench_time(time_copy, &copy);
    print_copy("device", "device to device", field->extent, nbytes, &times);
    bench_free(TERP_MEMORY_DEVICE, copy.dst);
    bench_free(TERP_MEMORY_DEVICE, copy.src);
}

static void
run_device(const struct bench_field *field)
{
    uint64_t whole = field->extent;

    run_ceiling(field);
    for (uint64_t extent = whole; extent >= whole / 4; extent /= 2) {
        uint64_t nsets = extent <= whole / 4 ? NSETS : 1;
        struct bench_chunks chunks = bench_chunks_make(
            field, TERP_FLOAT32, extent, 1, nsets, TERP_MEMORY_DEVICE);
        measure_all(&chunks);
        if (extent == whole) {
            chunks.params.predictor = TERP_PREDICTOR_LORENZO;
            measure_all(&chunks);
        }
        bench_chunks_free(&chunks);
    }
    struct bench_chunks doubles = bench_chunks_make(
        field, TERP_FLOAT64, whole / 4 * 3, 1, 1, TERP_MEMORY_DEVICE);
    measure_all(&doubles);
    bench_chunks_free(&doubles);
}

/* Measures one small chunk, and a batch of small chunks. */
static void
run_small(const struct bench_field *field)
{
    const uint64_t extent = field->extent / 8;

    for (uint64_t nchunks : {(uint64_t)1, batch_nchunks()}) {
        struct bench_chunks chunks =
            bench_chunks_make(field, TERP_FLOAT32, extent, nchunks,
                              nchunks == 1 ? NSETS : 1, TERP_MEMORY_DEVICE);
        measure_all(&chunks);
        bench_chunks_free(&chunks);
    }
}

/* ---- bounds relative to each value, data on the device ---- */

static void
measure_pointwise(const struct bench_field *field, uint64_t extent,
                  uint64_t nchunks)
{
    static const enum terp_pipeline wanted[] = {TERP_PIPELINE_HUFFMAN,
                                                TERP_PIPELINE_RATIO};
    struct bench_chunks chunks = bench_chunks_make(
        field, TERP_FLOAT32, extent, nchunks,
        nchunks == 1 && extent <= field->extent / 4 ? NSETS : 1,
        TERP_MEMORY_DEVICE);

    chunks.params.bound_mode = TERP_BOUND_POINTWISE;
    for (enum terp_pipeline pipeline : wanted) {
        chunks.params.pipeline = pipeline;
        measure(&chunks, TERP_ENGINE_CUDA);
    }
    bench_chunks_free(&chunks);
}

/* Measures a field of one sign, such as a density, and a field of both signs,
 * whose logarithms are rough where it crosses zero. */
static void
run_pointwise(const struct bench_field *field)
{
    const uint64_t whole = field->extent, nvalues = whole * whole * whole;
    struct bench_field density = {
        (float *)bench_alloc(TERP_MEMORY_HOST, nvalues * sizeof(float)), whole};

    for (uint64_t i = 0; i < nvalues; i++)
        density.values[i] = expf(field->values[i]);
    for (const struct bench_field *one :
         {(const struct bench_field *)&density, field}) {
        what = one == field ? "pwr of both signs" : "pwr";
        measure_pointwise(one, whole, 1);
        measure_pointwise(one, whole / 8, 1);
        measure_pointwise(one, whole / 8, batch_nchunks());
    }
    what = "terp";
    bench_free(TERP_MEMORY_HOST, density.values);
}

/* ---- every bit, data on the device ---- */

static void
measure_lossless(const struct bench_field *field, enum terp_type type,
                 uint64_t extent, uint64_t nchunks, enum terp_memory memory)
{
    struct bench_chunks chunks =
        bench_chunks_make(field, type, extent, nchunks, 1, memory);

    chunks.params.bound_mode = TERP_BOUND_ABSOLUTE;
    chunks.params.bound = 0;
    chunks.params.pipeline = TERP_PIPELINE_RATIO;
    if (memory == TERP_MEMORY_DEVICE) {
        measure(&chunks, TERP_ENGINE_CUDA);
        chunks.params.pipeline = TERP_PIPELINE_HUFFMAN;
        measure(&chunks, TERP_ENGINE_CUDA);
    } else {
        measure(&chunks, TERP_ENGINE_CPU);
    }
    bench_chunks_free(&chunks);
}

static void
run_lossless(const struct bench_field *field)
{
    const uint64_t whole = field->extent;

    what = "lossless";
    measure_lossless(field, TERP_FLOAT32, whole, 1, TERP_MEMORY_DEVICE);
    measure_lossless(field, TERP_FLOAT64, whole / 4 * 3, 1, TERP_MEMORY_DEVICE);
    measure_lossless(field, TERP_FLOAT32, whole / 8, 1, TERP_MEMORY_DEVICE);
    measure_lossless(field, TERP_FLOAT32, whole / 8, batch_nchunks(),
                     TERP_MEMORY_DEVICE);
    measure_lossless(field, TERP_FLOAT32, whole / 2, 1, TERP_MEMORY_HOST);
    what = "terp";
}

/* ---- the pipeline speed, data on the device ---- */

/* Measures chunks under a bound relative to the range, the same absolute bound,
 * and without loss. */
static void
measure_speed(const struct bench_field *field, double range,
              enum terp_type type, uint64_t extent, uint64_t nchunks)
{
    static const char *const names[] = {"speed relative", "speed, absolute",
                                        "speed lossless"};
    const double bounds[] = {1e-3, 1e-3 * range, 0};

    for (int i = 0; i < 3; i++) {
        struct bench_chunks chunks = bench_chunks_make(
            field, type, extent, nchunks,
            nchunks == 1 && extent <= field->extent / 4 ? NSETS : 1,
            TERP_MEMORY_DEVICE);
        what = names[i];
        chunks.params.pipeline = TERP_PIPELINE_SPEED;
        chunks.params.bound_mode =
            i == 0 ? TERP_BOUND_RELATIVE : TERP_BOUND_ABSOLUTE;
        chunks.params.bound = bounds[i];
        measure(&chunks, TERP_ENGINE_CUDA);
        bench_chunks_free(&chunks);
    }
    what = "terp";
}

static void
run_speed(const struct bench_field *field)
{
    const uint64_t whole = field->extent, n = whole * whole * whole;
    float min = field->values[0], max = min;

    for (uint64_t i = 0; i < n; i++) {
        min = fminf(min, field->values[i]);
        max = fmaxf(max, field->values[i]);
    }
    const double range = (double)max - (double)min;
    measure_speed(field, range, TERP_FLOAT32, whole, 1);
    measure_speed(field, range, TERP_FLOAT32, whole - 3, 1);
    measure_speed(field, range, TERP_FLOAT32, whole / 8, 1);
    measure_speed(field, range, TERP_FLOAT32, whole / 8, batch_nchunks());
    measure_speed(field, range, TERP_FLOAT64, whole / 4 * 3, 1);
}

/* ---- integers, data on the device ---- */

/* Maps a field's values to all 16-bit integers. */
static struct bench_field
integers_of(const struct bench_field *field)
{
    const uint64_t n = field->extent * field->extent * field->extent;
    struct bench_field integers = {
        (float *)bench_alloc(TERP_MEMORY_HOST, n * sizeof(float)),
        field->extent};
    float min = field->values[0], max = min;

    for (uint64_t i = 0; i < n; i++) {
        min = fminf(min, field->values[i]);
        max = fmaxf(max, field->values[i]);
    }
    for (uint64_t i = 0; i < n; i++)
        integers.values[i] =
            floorf((field->values[i] - min) / (max - min) * 65535) - 32768;
    return integers;
}

/* Measures the same numbers in each integer type, lossless and with errors of
 * up to 16. Effort is FAST: with so few different values some repeat by chance,
 * and the search for references would leave such chunks to the CPU. */
static void
run_integers(const struct bench_field *field)
{
    static const enum terp_type types[] = {TERP_FLOAT32, TERP_INT16,
                                           TERP_INT32};
    struct bench_field integers = integers_of(field);

    for (enum terp_type type : types)
        for (double bound : {0., 16.})
            for (int is_batch = 0; is_batch < 2; is_batch++) {
                struct bench_chunks chunks = bench_chunks_make(
                    &integers, type,
                    is_batch ? field->extent / 8 : field->extent,
                    is_batch ? batch_nchunks() : 1, 1, TERP_MEMORY_DEVICE);
                what = bound > 0 ? "integers bound 16" : "integers lossless";
                chunks.params.bound_mode = TERP_BOUND_ABSOLUTE;
                chunks.params.bound = bound;
                chunks.params.pipeline = TERP_PIPELINE_RATIO;
                chunks.params.effort = TERP_EFFORT_FAST;
                measure(&chunks, TERP_ENGINE_CUDA);
                bench_chunks_free(&chunks);
            }
    bench_free(TERP_MEMORY_HOST, integers.values);
    what = "terp";
}

/* ---- tight bounds, data on the device ---- */

/* Codes are wide under tight bounds: low bits, tails, listed codes. */
static void
run_tight(const struct bench_field *field)
{
    static const struct {
        const char *name;
        double bound;
    } bounds[] = {{"bound 1e-5", 1e-5}, {"bound 1e-6", 1e-6}};
    const uint64_t whole = field->extent;
    const struct {
        uint64_t extent, nchunks, nsets;
    } sizes[] = {
        {whole, 1, 1}, {whole / 8, batch_nchunks(), 1}, {whole / 8, 1, NSETS}};

    for (const auto &bound : bounds) {
        what = bound.name;
        for (const auto &size : sizes) {
            struct bench_chunks chunks =
                bench_chunks_make(field, TERP_FLOAT32, size.extent,
                                  size.nchunks, size.nsets, TERP_MEMORY_DEVICE);
            chunks.params.bound = bound.bound;
            measure_all(&chunks);
            bench_chunks_free(&chunks);
        }
    }
    what = "terp";
}

/* ---- complex values, and bounds that are searched for, on the device ---- */

/* GB/s count both parts. */
static void
run_complex(const struct bench_field *field)
{
    const uint64_t whole = field->extent;
    const struct {
        uint64_t extent, nchunks;
    } sizes[] = {{whole / 2, 1}, {whole / 8, 1}, {whole / 8, batch_nchunks()}};

    for (const auto &size : sizes) {
        struct bench_chunks chunks =
            bench_chunks_make(field, TERP_COMPLEX64, size.extent, size.nchunks,
                              1, TERP_MEMORY_DEVICE);
        measure_all(&chunks);
        bench_chunks_free(&chunks);
    }
}

static void
run_psnr(const struct bench_field *field)
{
    const uint64_t whole = field->extent;
    const struct {
        uint64_t extent, nchunks;
    } sizes[] = {{whole, 1}, {whole / 8, 1}, {whole / 8, batch_nchunks()}};

    what = "psnr 60";
    for (const auto &size : sizes) {
        struct bench_chunks chunks =
            bench_chunks_make(field, TERP_FLOAT32, size.extent, size.nchunks, 1,
                              TERP_MEMORY_DEVICE);
        chunks.params.bound_mode = TERP_BOUND_PSNR;
        chunks.params.bound = 60;
        measure_all(&chunks);
        bench_chunks_free(&chunks);
    }
    what = "terp";
}

/* ---- every step-th value, data on the device ---- */

static void
measure_steps(const struct bench_field *field, uint64_t extent,
              uint64_t nchunks, enum terp_bound_mode mode,
              enum terp_predictor predictor)
{
    struct bench_chunks chunks = bench_chunks_make(
        field, TERP_FLOAT32, extent, nchunks, 1, TERP_MEMORY_DEVICE);
    struct call call = {&chunks, TERP_ENGINE_CUDA};
    char direction[32];

    chunks.params.bound_mode = mode;
    chunks.params.predictor = predictor;
    chunks.params.pipeline = TERP_PIPELINE_HUFFMAN;
    bench_encode(&chunks, 0, TERP_ENGINE_CUDA);
    for (chunks.step = 1; chunks.step <= 8; chunks.step *= 2) {
        struct bench_times times = bench_time(time_decode, &call);
        snprintf(direction, sizeof direction, "step %d", (int)chunks.step);
        print_terp(&chunks, TERP_ENGINE_CUDA, direction, &times);
    }
    bench_chunks_free(&chunks);
}

/* GB/s count all values. Large areas of the second field are missing. */
static void
run_coarse(const struct bench_field *field)
{
    const uint64_t whole = field->extent, nvalues = whole * whole * whole;
    struct bench_field gaps = {
        (float *)bench_alloc(TERP_MEMORY_HOST, nvalues * sizeof(float)), whole};
    const struct {
        uint64_t extent, nchunks;
    } sizes[] = {{whole, 1}, {whole / 2, 1}, {whole / 8, batch_nchunks()}};
    float max = 0;

    for (uint64_t i = 0; i < nvalues; i++)
        max = fmaxf(max, field->values[i]);
    for (uint64_t i = 0; i < nvalues; i++)
        gaps.values[i] = field->values[i] > max / 2 ? NAN : field->values[i];
    for (const auto &size : sizes) {
        what = "terp";
        measure_steps(field, size.extent, size.nchunks, TERP_BOUND_RELATIVE,
                      TERP_PREDICTOR_AUTO);
        what = "special values";
        measure_steps(&gaps, size.extent, size.nchunks, TERP_BOUND_RELATIVE,
                      TERP_PREDICTOR_AUTO);
        what = "pwr of both signs";
        measure_steps(field, size.extent, size.nchunks, TERP_BOUND_POINTWISE,
                      TERP_PREDICTOR_AUTO);
        what = "terp";
        measure_steps(field, size.extent, size.nchunks, TERP_BOUND_RELATIVE,
                      TERP_PREDICTOR_LORENZO);
    }
    bench_free(TERP_MEMORY_HOST, gaps.values);
}

/* ---- data on the host ---- */

/* Measures the copies of such a call alone, from memory like HDF5's. */
struct transfer {
    void *h_values, *h_stream, *d_values;
    uint64_t values_nbytes, stream_nbytes;
};

static void
time_compress_copies(void *arg, uint64_t i)
{
    const struct transfer *t = (const struct transfer *)arg;

    (void)i;
    bench_check("cudaMemcpy",
                cudaMemcpy(t->d_values, t->h_values, t->values_nbytes,
                           cudaMemcpyHostToDevice));
    bench_check("cudaMemcpy",
                cudaMemcpy(t->h_stream, t->d_values, t->stream_nbytes,
                           cudaMemcpyDeviceToHost));
}

static void
time_decompress_copies(void *arg, uint64_t i)
{
    const struct transfer *t = (const struct transfer *)arg;

    (void)i;
    bench_check("cudaMemcpy",
                cudaMemcpy(t->d_values, t->h_stream, t->stream_nbytes,
                           cudaMemcpyHostToDevice));
    bench_check("cudaMemcpy",
                cudaMemcpy(t->h_values, t->d_values, t->values_nbytes,
                           cudaMemcpyDeviceToHost));
}

static void *
alloc_host(bool pinned, uint64_t nbytes)
{
    void *at;

    if (!pinned)
        return bench_alloc(TERP_MEMORY_HOST, nbytes);
    bench_check("cudaMallocHost", cudaMallocHost(&at, nbytes));
    memset(at, 0xA5, nbytes);
    return at;
}

static void
free_host(bool pinned, void *at)
{
    if (pinned)
        bench_check("cudaFreeHost", cudaFreeHost(at));
    else
        bench_free(TERP_MEMORY_HOST, at);
}

static void
measure_transfer(uint64_t extent, uint64_t stream_nbytes, bool pinned)
{
    uint64_t nbytes = extent * extent * extent * 4;
    const char *memory = pinned ? "pinned" : "pageable";
    struct transfer t = {alloc_host(pinned, nbytes), alloc_host(pinned, nbytes),
                         bench_alloc(TERP_MEMORY_DEVICE, nbytes), nbytes,
                         stream_nbytes};

    struct bench_times times = bench_time(time_compress_copies, &t);
    print_copy(memory, "compress", extent, nbytes, &times);
    times = bench_time(time_decompress_copies, &t);
    print_copy(memory, "decompress", extent, nbytes, &times);
    free_host(pinned, t.h_values);
    free_host(pinned, t.h_stream);
    bench_free(TERP_MEMORY_DEVICE, t.d_values);
}

static void
run_host(const struct bench_field *field)
{
    for (uint64_t extent = field->extent; extent >= field->extent / 8;
         extent /= 2) {
        struct bench_chunks chunks = bench_chunks_make(
            field, TERP_FLOAT32, extent, 1, 1, TERP_MEMORY_HOST);
        chunks.params.pipeline = TERP_PIPELINE_HUFFMAN;
        measure(&chunks, TERP_ENGINE_CUDA);
        uint64_t stream_nbytes = chunks.stream_nbytes[0];
        bench_chunks_free(&chunks);
        measure_transfer(extent, stream_nbytes, false);
        measure_transfer(extent, stream_nbytes, true);
    }
}

/* ---- from which size on the device is faster ---- */

static void
run_crossover(const struct bench_field *field)
{
    static const uint64_t extents[] = {16, 24, 32, 40, 48, 64, 96, 128, 256};

    for (uint64_t extent : extents) {
        if (extent > field->extent)
            continue;
        struct bench_chunks chunks = bench_chunks_make(
            field, TERP_FLOAT32, extent, 1, 1, TERP_MEMORY_HOST);
        measure(&chunks, TERP_ENGINE_CPU);
        measure(&chunks, TERP_ENGINE_CUDA);
        bench_chunks_free(&chunks);
    }
}

/* ---- for a profiler ---- */

/* Runs the same call twice, since the first may have cold clocks; before both,
 * once untimed. */
static void
run_profile(const struct bench_field *field, const char *pipeline,
            uint64_t extent, uint64_t nchunks)
{
    struct bench_chunks chunks = bench_chunks_make(
        field, TERP_FLOAT32, extent, nchunks, 1, TERP_MEMORY_DEVICE);

    for (const struct pipeline &p : pipelines)
        if (strcmp(p.name, pipeline) == 0)
            chunks.params.pipeline = p.pipeline;
    if (strcmp(pipeline, "speed") == 0)
        chunks.params.pipeline = TERP_PIPELINE_SPEED;
    for (int i = 0; i < 3; i++) {
        bench_encode(&chunks, 0, TERP_ENGINE_CUDA);
        bench_decode(&chunks, 0, TERP_ENGINE_CUDA);
        if (i == 0)
            bench_check("cudaProfilerStart", cudaProfilerStart());
    }
    bench_chunks_free(&chunks);
}

static int
usage(void)
{
    fputs("usage: cuda_speed FIELD_NxNxN.f32 [device] [small] [pointwise] "
          "[lossless] [speed] [tight] [complex] [psnr] [coarse] [integers] "
          "[host] [crossover]\n"
          "       cuda_speed FIELD_NxNxN.f32 profile PIPELINE EXTENT NCHUNKS\n",
          stderr);
    return EXIT_FAILURE;
}

int
main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(const struct bench_field *);
    } parts[] = {{"device", run_device},       {"small", run_small},
                 {"pointwise", run_pointwise}, {"lossless", run_lossless},
                 {"speed", run_speed},         {"tight", run_tight},
                 {"complex", run_complex},     {"psnr", run_psnr},
                 {"coarse", run_coarse},       {"integers", run_integers},
                 {"host", run_host},           {"crossover", run_crossover}};

    if (argc < 2)
        return usage();
    struct bench_field field = bench_field_read(argv[1]);
    if (argc == 6 && strcmp(argv[2], "profile") == 0) {
        run_profile(&field, argv[3], strtoull(argv[4], NULL, 10),
                    strtoull(argv[5], NULL, 10));
        return EXIT_SUCCESS;
    }
    print_head();
    for (const auto &part : parts) {
        bool wanted = argc == 2;
        for (int i = 2; i < argc; i++)
            wanted = wanted || strcmp(argv[i], part.name) == 0;
        if (wanted)
            part.run(&field);
    }
    free(field.values);
    return nwrong == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
