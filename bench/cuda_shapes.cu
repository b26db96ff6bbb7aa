/* Measures the speed of the CUDA engine on a chunk of any shape in device
 * memory: one synchronous call of the public interface. bench/README.md
 * describes the output. */
#include <cuda_profiler_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/cuda_bench.h"

#define MAX_DIMS 8

struct field {
    struct terp_chunk chunk;
    char name[64], shape[128];
    void *values;
};

/* Reads a file whose name ends in _DIMxDIM....f32 or .f64. */
static struct field
read_field(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    const char *shape = strrchr(name, '_'), *end = strrchr(name, '.');
    uint64_t dims[MAX_DIMS];
    struct field field = {};
    int ndims = 0;

    if (shape == NULL || end == NULL || shape > end ||
        shape - name >= (int)sizeof field.name ||
        end - shape >= (int)sizeof field.shape)
        bench_fail(path, "its name tells no shape");
    memcpy(field.name, name, (size_t)(shape - name));
    memcpy(field.shape, shape + 1, (size_t)(end - shape - 1));
    for (const char *at = shape; at < end && ndims < MAX_DIMS; ndims++) {
        char *next;
        dims[ndims] = strtoull(at + 1, &next, 10);
        at = next;
    }
    enum terp_type type =
        strcmp(end, ".f64") == 0 ? TERP_FLOAT64 : TERP_FLOAT32;
    if (terp_chunk_make(type, ndims, dims, &field.chunk) != TERP_OK)
        bench_fail(path, "its name tells no shape");
    uint64_t nbytes = terp_chunk_nbytes(&field.chunk);
    field.values = bench_alloc(TERP_MEMORY_HOST, nbytes);
    FILE *file = fopen(path, "rb");
    if (file == NULL || fread(field.values, 1, nbytes, file) != nbytes)
        bench_fail(path, "cannot be read");
    fclose(file);
    return field;
}

static void
time_encode(void *arg, uint64_t i)
{
    (void)i;
    bench_encode((struct bench_chunks *)arg, 0, TERP_ENGINE_CUDA);
}

static void
time_decode(void *arg, uint64_t i)
{
    (void)i;
    bench_decode((struct bench_chunks *)arg, 0, TERP_ENGINE_CUDA);
}

/* Whether a value is left out of the range, and comes back bit for bit. */
template <typename T>
static bool
is_special(T value, bool has_fill, T fill)
{
    return !isfinite(value) || (has_fill && value == fill);
}

template <typename T>
static uint64_t
bits_of(T value)
{
    uint64_t bits = 0;

    memcpy(&bits, &value, sizeof value);
    return bits;
}

/* The largest error over the bound, which is relative to the range, or infinity
 * where a value that must come back bit for bit did not. */
template <typename T>
static double
error_over_bound(const T *values, const T *decoded, uint64_t n, bool has_fill,
                 T fill, double bound)
{
    double min = (double)INFINITY, max = -min, error = 0;

    for (uint64_t i = 0; i < n; i++) {
        if (bound == 0 || is_special(values[i], has_fill, fill)) {
            if (bits_of(values[i]) != bits_of(decoded[i]))
                return (double)INFINITY;
        } else {
            min = fmin(min, (double)values[i]);
            max = fmax(max, (double)values[i]);
            error = fmax(error, fabs((double)decoded[i] - (double)values[i]));
        }
    }
    return bound > 0 && max > min ? error / (bound * (max - min)) : 0;
}

static double
check(const struct field *field, const struct bench_chunks *chunks)
{
    const struct terp_params *params = &chunks->params;
    const bool is_double = chunks->chunk.type == TERP_FLOAT64;
    const uint64_t n = chunks->chunk_nbytes / (is_double ? 8 : 4);
    void *decoded = bench_alloc(TERP_MEMORY_HOST, chunks->chunk_nbytes);
    double error;

    bench_check("cudaMemcpy",
                cudaMemcpy(decoded, chunks->decoded[0], chunks->chunk_nbytes,
                           cudaMemcpyDefault));
    if (is_double) {
        double fill;
        memcpy(&fill, &params->fill_bits, sizeof fill);
        error = error_over_bound((const double *)field->values,
                                 (const double *)decoded, n, params->has_fill,
                                 fill, params->bound);
    } else {
        float fill;
        memcpy(&fill, &params->fill_bits, sizeof fill);
        error = error_over_bound((const float *)field->values,
                                 (const float *)decoded, n, params->has_fill,
                                 fill, params->bound);
    }
    bench_free(TERP_MEMORY_HOST, decoded);
    return error;
}

/* Prints a line, and returns whether the values kept their bound. */
static bool
measure(const struct field *field, struct bench_chunks *chunks,
        const char *pipeline)
{
    const double nbytes = (double)chunks->chunk_nbytes;
    struct bench_times encode = bench_time(time_encode, chunks);
    struct bench_times decode = bench_time(time_decode, chunks);
    double error = check(field, chunks);

    printf("%s,%s,%s,%s,%s,%.3f,%.1f,%.1f,%.1f,%.1f,%.4f\n", field->name,
           terp_type_name(chunks->chunk.type), field->shape,
           chunks->params.bound > 0 ? "1e-3" : "lossless", pipeline,
           bench_ratio(chunks), encode.median_s * 1e6,
           nbytes / encode.median_s / 1e9, decode.median_s * 1e6,
           nbytes / decode.median_s / 1e9, error);
    fflush(stdout);
    return error <= 1;
}

static const struct {
    const char *name;
    enum terp_pipeline pipeline;
} pipelines[] = {{"ratio", TERP_PIPELINE_RATIO},
                 {"huffman", TERP_PIPELINE_HUFFMAN},
                 {"speed", TERP_PIPELINE_SPEED}};

static void
set_bound(struct bench_chunks *chunks, double bound)
{
    chunks->params.bound = bound;
    chunks->params.bound_mode =
        bound > 0 ? TERP_BOUND_RELATIVE : TERP_BOUND_ABSOLUTE;
}

static void
set_fill(struct terp_params *params, enum terp_type type, double fill)
{
    const float narrow = (float)fill;

    params->has_fill = true;
    if (type == TERP_FLOAT64)
        memcpy(&params->fill_bits, &fill, sizeof fill);
    else
        memcpy(&params->fill_bits, &narrow, sizeof narrow);
}

/* Runs the same call twice under the profiler, since clocks may be cold in the
 * first run. Before that, runs it once without the profiler. */
static void
run_profile(struct bench_chunks *chunks, const char *pipeline, double bound)
{
    set_bound(chunks, bound);
    for (const auto &p : pipelines)
        if (strcmp(p.name, pipeline) == 0)
            chunks->params.pipeline = p.pipeline;
    for (int i = 0; i < 3; i++) {
        bench_encode(chunks, 0, TERP_ENGINE_CUDA);
        bench_decode(chunks, 0, TERP_ENGINE_CUDA);
        if (i == 0)
            bench_check("cudaProfilerStart", cudaProfilerStart());
    }
}

int
main(int argc, char **argv)
{
    const bool profiles = argc == 5 && strcmp(argv[2], "profile") == 0;
    bool kept = true;

    if (argc != 2 && argc != 3 && !profiles) {
        fputs("usage: cuda_shapes FIELD_DIMxDIM....f32|f64 [FILL_VALUE]\n"
              "       cuda_shapes FIELD_DIMxDIM....f32|f64 profile PIPELINE "
              "BOUND\n",
              stderr);
        return EXIT_FAILURE;
    }
    struct field field = read_field(argv[1]);
    struct bench_chunks chunks =
        bench_chunks_alloc(&field.chunk, 1, 1, TERP_MEMORY_DEVICE);
    bench_check("cudaMemcpy",
                cudaMemcpy(chunks.values[0], field.values, chunks.chunk_nbytes,
                           cudaMemcpyDefault));
    if (argc == 3)
        set_fill(&chunks.params, field.chunk.type, strtod(argv[2], NULL));
    if (profiles) {
        run_profile(&chunks, argv[3], strtod(argv[4], NULL));
    } else {
        puts("field,type,shape,bound,pipeline,ratio,compress_us,"
             "compress_gb_per_s,decompress_us,decompress_gb_per_s,"
             "max_err_over_bound");
        for (double bound : {1e-3, 0.}) {
            set_bound(&chunks, bound);
            for (const auto &p : pipelines) {
                chunks.params.pipeline = p.pipeline;
                kept = measure(&field, &chunks, p.name) && kept;
            }
        }
    }
    bench_chunks_free(&chunks);
    bench_free(TERP_MEMORY_HOST, field.values);
    return kept ? EXIT_SUCCESS : EXIT_FAILURE;
}
