/* Measures ratio, error and speed of the codec alone, without HDF5: cuts a raw
 * field into equal chunks, and passes them to terp_encode and terp_decode.
 * Prints a line of CSV; a chunk's time is the best of its repetitions. With
 * --batch, all chunks go through one call of terp_encode_batch and
 * terp_decode_batch, by one thread and by several in turn; times are medians.
 * With --step, also decodes every 2nd value of each dimension, every 4th and so
 * on, and prints a line for each step. */
#include <argp.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "codec/api/terp.h"

struct options {
    const char *path;
    double relative;
    bool pointwise; /* the bound is relative to each value, not to the field's
                     * range */
    uint64_t chunk; /* extent in every dimension; 0: the whole field */
    int nthreads, nrepeats;
    bool batch;
    bool cpu_time;
    uint64_t max_step;
    enum terp_type type;
    struct terp_params params;
    int ndims;
    uint64_t dims[TERP_MAX_RANK];
};

struct field {
    uint8_t *values;
    uint64_t nvalues;
    int value_nbytes;
    double min, max;
};

struct totals {
    uint64_t nchunks, stream_nbytes, index_nbytes, nescapes, nspecials;
    uint64_t ntiles, ntiles_zero, nlorenzo;
    double encode_s, decode_s, max_error, square_error;
};

static const struct argp_option option_table[] = {
    {"rel", 'r', "X", 0, "bound, relative to the field's range [1e-3]", 0},
    {"pwr", 'w', "X", 0, "bound, relative to each value", 0},
    {"chunk", 'c', "N", 0, "chunks of N in every dimension [whole]", 0},
    {"pipeline", 'p', "NAME", 0, "auto, huffman, speed or ratio [ratio]", 0},
    {"predictor", 'd', "NAME", 0, "auto, spline or lorenzo [auto]", 0},
    {"threads", 't', "N", 0, "threads [1]", 0},
    {"repeat", 'n', "N", 0, "repetitions [1]", 0},
    {"batch", 'b', NULL, 0, "all chunks in one call, beside one thread", 0},
    {"cpu-time", 'u', NULL, 0, "CPU time, for a machine that others use", 0},
    {"step", 's', "N", 0, "decode every 2nd, 4th and so on to N-th value", 0},
    {0}};

static bool
is_name(const char *name, const char *text)
{
    return name != NULL && strcmp(name, text) == 0;
}

static void
set_pipeline(struct options *options, struct argp_state *state, const char *arg)
{
    for (int i = 0; i < TERP_NPIPELINES; i++)
        if (is_name(terp_pipeline_name((enum terp_pipeline)i), arg)) {
            options->params.pipeline = (enum terp_pipeline)i;
            return;
        }
    argp_error(state, "there is no pipeline '%s'", arg);
}

static void
set_predictor(struct options *options, struct argp_state *state,
              const char *arg)
{
    for (int i = 0; i < TERP_NPREDICTORS; i++)
        if (is_name(terp_predictor_name((enum terp_predictor)i), arg)) {
            options->params.predictor = (enum terp_predictor)i;
            return;
        }
    argp_error(state, "there is no predictor '%s'", arg);
}

static error_t
parse_option(int key, char *arg, struct argp_state *state)
{
    struct options *options = state->input;

    switch (key) {
    case 'r':
        options->relative = strtod(arg, NULL);
        return 0;
    case 'w':
        options->relative = strtod(arg, NULL);
        options->pointwise = true;
        return 0;
    case 'c':
        options->chunk = strtoull(arg, NULL, 10);
        return 0;
    case 'p':
        set_pipeline(options, state, arg);
        return 0;
    case 'd':
        set_predictor(options, state, arg);
        return 0;
    case 't':
        options->nthreads = atoi(arg);
        return 0;
    case 'n':
        options->nrepeats = atoi(arg);
        if (options->nrepeats < 1)
            argp_error(state, "no repetitions: '%s'", arg);
        return 0;
    case 'b':
        options->batch = true;
        return 0;
    case 'u':
        options->cpu_time = true;
        return 0;
    case 's':
        options->max_step = strtoull(arg, NULL, 10);
        if (options->max_step < 1)
            argp_error(state, "no step: '%s'", arg);
        return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num > 0)
            return ARGP_ERR_UNKNOWN;
        options->path = arg;
        return 0;
    case ARGP_KEY_END:
        if (state->arg_num < 1)
            argp_usage(state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Reads dims and type from a name like pres_256x256x256.f32. */
static bool
parse_name(struct options *options)
{
    const char *at = strrchr(options->path, '_');
    const char *dot = strrchr(options->path, '.');
    char *end;

    if (at == NULL || dot == NULL)
        return false;
    options->type = strcmp(dot, ".f64") == 0 ? TERP_FLOAT64 : TERP_FLOAT32;
    do {
        options->dims[options->ndims++] = strtoull(at + 1, &end, 10);
        at = end;
    } while (*end == 'x' && options->ndims < TERP_MAX_RANK);
    return end == dot;
}

static double
value_at(const void *values, int value_nbytes, uint64_t i)
{
    return value_nbytes == 8 ? ((const double *)values)[i]
                             : (double)((const float *)values)[i];
}

static bool
read_field(const struct options *options, struct field *field)
{
    FILE *file = fopen(options->path, "rb");

    field->value_nbytes = options->type == TERP_FLOAT64 ? 8 : 4;
    field->nvalues = 1;
    for (int d = 0; d < options->ndims; d++)
        field->nvalues *= options->dims[d];
    uint8_t *values = malloc(field->nvalues * (uint64_t)field->value_nbytes);
    bool complete = file != NULL && values != NULL &&
                    fread(values, (size_t)field->value_nbytes, field->nvalues,
                          file) == field->nvalues;
    if (file != NULL)
        fclose(file);
    field->values = values;
    field->min = INFINITY;
    field->max = -INFINITY;
    for (uint64_t i = 0; complete && i < field->nvalues; i++) {
        double value = value_at(values, field->value_nbytes, i);
        field->min = fmin(field->min, value);
        field->max = fmax(field->max, value);
    }
    if (!complete)
        free(values);
    return complete;
}

static double
seconds(const struct options *options)
{
    struct timespec now;

    if (options->cpu_time)
        return (double)clock() / CLOCKS_PER_SEC;
    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Copies chunk `index` out of the field; dims are padded at the front. */
static void
cut_chunk(const struct field *field, const uint64_t dims[TERP_MAX_RANK],
          const uint64_t extent[TERP_MAX_RANK], uint64_t index, uint8_t *to)
{
    uint64_t low[TERP_MAX_RANK];
    uint64_t nbytes = extent[3] * (uint64_t)field->value_nbytes;

    for (int d = TERP_MAX_RANK - 1; d >= 0; d--) {
        uint64_t nchunks = dims[d] / extent[d];
        low[d] = index % nchunks * extent[d];
        index /= nchunks;
    }
    for (uint64_t w = low[0]; w < low[0] + extent[0]; w++)
        for (uint64_t z = low[1]; z < low[1] + extent[1]; z++)
            for (uint64_t y = low[2]; y < low[2] + extent[2]; y++) {
                uint64_t at =
                    ((w * dims[1] + z) * dims[2] + y) * dims[3] + low[3];
                memcpy(to, field->values + at * (uint64_t)field->value_nbytes,
                       nbytes);
                to += nbytes;
            }
}

static bool
run_chunk(const struct options *options, const struct terp_chunk *chunk,
          const uint8_t *values, uint8_t *stream, uint8_t *decoded,
          struct totals *totals)
{
    uint64_t cap = terp_encode_bound(chunk), nbytes = 0, chunk_nbytes = 0;
    double encode_s = INFINITY, decode_s = INFINITY;
    int value_nbytes = chunk->type == TERP_FLOAT64 ? 8 : 4;
    struct terp_info info = {.size = sizeof info};

    for (int i = 0; i < options->nrepeats; i++) {
        double start = seconds(options);
        if (terp_encode(&options->params, chunk, values, stream, cap, &nbytes,
                        options->nthreads) != TERP_OK)
            return false;
        double middle = seconds(options);
        if (terp_decode(stream, nbytes, decoded, terp_chunk_nbytes(chunk),
                        &chunk_nbytes, options->nthreads) != TERP_OK)
            return false;
        encode_s = fmin(encode_s, middle - start);
        decode_s = fmin(decode_s, seconds(options) - middle);
    }
    if (terp_inspect(stream, nbytes, &info) != TERP_OK)
        return false;
    totals->nchunks++;
    totals->stream_nbytes += nbytes;
    totals->encode_s += encode_s;
    totals->decode_s += decode_s;
    totals->index_nbytes += info.index_nbytes;
    totals->nescapes += info.nescapes;
    totals->nspecials += info.nspecials;
    totals->ntiles += info.ntiles;
    totals->ntiles_zero += info.ntiles_zero;
    totals->nlorenzo += strcmp(info.predictor, "lorenzo") == 0;
    for (uint64_t i = 0; i < chunk_nbytes / (uint64_t)value_nbytes; i++) {
        double value = value_at(values, value_nbytes, i);
        double error = fabs(value - value_at(decoded, value_nbytes, i));
        double unit = options->pointwise && error > 0 ? fabs(value) : 1;
        totals->max_error = fmax(totals->max_error, error / unit);
        totals->square_error += error * error;
    }
    return true;
}

/* The cutting of a field into chunks; dims are padded at the front. */
struct cut {
    uint64_t dims[TERP_MAX_RANK], extent[TERP_MAX_RANK];
    uint64_t nchunks;
    struct terp_chunk chunk;
};

static bool
make_cut(const struct options *options, struct cut *cut)
{
    *cut = (struct cut){.dims = {1, 1, 1, 1}, .nchunks = 1};
    memcpy(cut->dims + TERP_MAX_RANK - options->ndims, options->dims,
           (size_t)options->ndims * sizeof cut->dims[0]);
    for (int d = 0; d < TERP_MAX_RANK; d++) {
        cut->extent[d] = options->chunk == 0 || options->chunk > cut->dims[d]
                             ? cut->dims[d]
                             : options->chunk;
        cut->nchunks *= cut->dims[d] / cut->extent[d];
    }
    return terp_chunk_make(options->type, TERP_MAX_RANK, cut->extent,
                           &cut->chunk) == TERP_OK;
}

static bool
run_field(const struct options *options, const struct field *field,
          struct totals *totals)
{
    struct cut cut;

    if (!make_cut(options, &cut))
        return false;
    uint64_t nbytes = terp_chunk_nbytes(&cut.chunk);
    uint8_t *values = malloc(nbytes), *decoded = malloc(nbytes);
    uint8_t *stream = malloc(terp_encode_bound(&cut.chunk));
    bool good = values != NULL && decoded != NULL && stream != NULL;
    for (uint64_t i = 0; good && i < cut.nchunks; i++) {
        cut_chunk(field, cut.dims, cut.extent, i, values);
        good = run_chunk(options, &cut.chunk, values, stream, decoded, totals);
    }
    free(values);
    free(decoded);
    free(stream);
    return good;
}

static void
print_line(const struct options *options, const struct field *field,
           const struct totals *t)
{
    double nbytes = (double)(field->nvalues * (uint64_t)field->value_nbytes);
    const char *name = strrchr(options->path, '/');

    puts("field,rel_bound,chunk,threads,ratio,max_error_over_bound,psnr_db,"
         "encode_mb_per_s,decode_mb_per_s,index_share,escapes,specials,"
         "zero_tile_share,chunks,lorenzo_chunks");
    printf("%s,%g,%llu,%d,%.2f,%.6f,%.2f,%.0f,%.0f,%.4f,%llu,%llu,%.3f,%llu,"
           "%llu\n",
           name == NULL ? options->path : name + 1, options->relative,
           (unsigned long long)options->chunk, options->nthreads,
           nbytes / (double)t->stream_nbytes,
           t->max_error / options->params.bound,
           20 * log10((field->max - field->min) /
                      sqrt(t->square_error / (double)field->nvalues)),
           nbytes / t->encode_s / 1e6, nbytes / t->decode_s / 1e6,
           (double)t->index_nbytes / (double)t->stream_nbytes,
           (unsigned long long)t->nescapes, (unsigned long long)t->nspecials,
           t->ntiles == 0 ? 0 : (double)t->ntiles_zero / (double)t->ntiles,
           (unsigned long long)t->nchunks, (unsigned long long)t->nlorenzo);
}

/* ---- every step-th value ---- */

#define MAX_NSTEPS 64

/* Totals of all chunks for each step 2^i. */
struct coarse {
    double decode_s[MAX_NSTEPS];
    uint64_t stream_nbytes[MAX_NSTEPS];
};

static bool
run_coarse_chunk(const struct options *options, const struct terp_chunk *chunk,
                 const uint8_t *values, uint8_t *stream, uint8_t *decoded,
                 struct coarse *coarse)
{
    uint64_t nbytes, needed_nbytes, got;
    double best[MAX_NSTEPS];

    if (terp_encode(&options->params, chunk, values, stream,
                    terp_encode_bound(chunk), &nbytes,
                    options->nthreads) != TERP_OK)
        return false;
    for (int r = 0; r < options->nrepeats; r++)
        for (int i = 0; i < MAX_NSTEPS && UINT64_C(1) << i <= options->max_step;
             i++) {
            double start = seconds(options);
            if (terp_decode_coarse(stream, nbytes, UINT64_C(1) << i, decoded,
                                   terp_chunk_nbytes(chunk), &got,
                                   options->nthreads) != TERP_OK)
                return false;
            best[i] =
                fmin(r == 0 ? INFINITY : best[i], seconds(options) - start);
        }
    for (int i = 0; i < MAX_NSTEPS && UINT64_C(1) << i <= options->max_step;
         i++) {
        if (terp_coarse_nbytes(stream, nbytes, UINT64_C(1) << i,
                               &needed_nbytes) != TERP_OK)
            return false;
        coarse->decode_s[i] += best[i];
        coarse->stream_nbytes[i] +=
            needed_nbytes < nbytes ? needed_nbytes : nbytes;
    }
    return true;
}

static void
print_coarse(const struct options *options, const struct coarse *coarse)
{
    const char *name = strrchr(options->path, '/');

    puts("field,rel_bound,chunk,threads,step,decode_ms,of_all,stream_bytes,"
         "of_all");
    for (int i = 0; i < MAX_NSTEPS && UINT64_C(1) << i <= options->max_step;
         i++)
        printf("%s,%g,%llu,%d,%llu,%.3f,%.4f,%llu,%.4f\n",
               name == NULL ? options->path : name + 1, options->relative,
               (unsigned long long)options->chunk, options->nthreads, 1ULL << i,
               1e3 * coarse->decode_s[i],
               coarse->decode_s[i] / coarse->decode_s[0],
               (unsigned long long)coarse->stream_nbytes[i],
               (double)coarse->stream_nbytes[i] /
                   (double)coarse->stream_nbytes[0]);
}

static bool
run_coarse(const struct options *options, const struct field *field)
{
    struct coarse coarse = {{0}, {0}};
    struct cut cut;

    if (!make_cut(options, &cut))
        return false;
    uint64_t nbytes = terp_chunk_nbytes(&cut.chunk);
    uint8_t *values = malloc(nbytes), *decoded = malloc(nbytes);
    uint8_t *stream = malloc(terp_encode_bound(&cut.chunk));
    bool good = values != NULL && decoded != NULL && stream != NULL;
    for (uint64_t i = 0; good && i < cut.nchunks; i++) {
        cut_chunk(field, cut.dims, cut.extent, i, values);
        good = run_coarse_chunk(options, &cut.chunk, values, stream, decoded,
                                &coarse);
    }
    if (good)
        print_coarse(options, &coarse);
    free(values);
    free(decoded);
    free(stream);
    return good;
}

/* ---- batches ---- */

struct batch {
    struct cut cut;
    /* Per chunk, in one block of memory: values, streams, decoded values. */
    uint8_t *memory;
    void **values, **streams, **decoded;
    uint64_t *stream_nbytes;
    enum terp_status *status;
};

/* The times of one repetition, by one thread [0] and by several [1]. */
struct times {
    double encode_s[2], decode_s[2];
};

static void
free_batch(struct batch *batch)
{
    free(batch->memory);
    free(batch->values);
    free(batch->streams);
    free(batch->decoded);
    free(batch->stream_nbytes);
    free(batch->status);
}

static bool
make_batch(const struct options *options, const struct field *field,
           struct batch *batch)
{
    struct cut *cut = &batch->cut;

    if (!make_cut(options, cut))
        return false;
    uint64_t n = cut->nchunks, nbytes = terp_chunk_nbytes(&cut->chunk);
    uint64_t cap_nbytes = (terp_encode_bound(&cut->chunk) + 63) / 64 * 64;
    batch->memory = malloc(n * (2 * nbytes + cap_nbytes));
    batch->values = malloc(n * sizeof *batch->values);
    batch->streams = malloc(n * sizeof *batch->streams);
    batch->decoded = malloc(n * sizeof *batch->decoded);
    batch->stream_nbytes = malloc(n * sizeof *batch->stream_nbytes);
    batch->status = malloc(n * sizeof *batch->status);
    if (batch->memory == NULL || batch->values == NULL ||
        batch->streams == NULL || batch->decoded == NULL ||
        batch->stream_nbytes == NULL || batch->status == NULL)
        return false;
    for (uint64_t i = 0; i < n; i++) {
        batch->values[i] = batch->memory + i * nbytes;
        batch->decoded[i] = batch->memory + (n + i) * nbytes;
        batch->streams[i] = batch->memory + 2 * n * nbytes + i * cap_nbytes;
        cut_chunk(field, cut->dims, cut->extent, i, batch->values[i]);
    }
    return true;
}

static bool
run_batch(const struct options *options, struct batch *batch, int nthreads,
          double *encode_s_ret, double *decode_s_ret)
{
    const struct terp_run_options run = {.size = sizeof run,
                                         .nthreads = nthreads};
    double start = seconds(options);

    if (terp_encode_batch(&run, &options->params, &batch->cut.chunk,
                          batch->cut.nchunks,
                          (const void *const *)batch->values, batch->streams,
                          batch->stream_nbytes, NULL) != TERP_OK)
        return false;
    double middle = seconds(options);
    if (terp_decode_batch(&run, &batch->cut.chunk, batch->cut.nchunks,
                          (const void *const *)batch->streams,
                          batch->stream_nbytes, batch->decoded, batch->status,
                          NULL) != TERP_OK)
        return false;
    *encode_s_ret = middle - start;
    *decode_s_ret = seconds(options) - middle;
    return true;
}

static int
compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of one member of `n` structs times; `first` is the member of
 * times[0]. */
static double
median(const double *first, int n, double *scratch)
{
    for (int i = 0; i < n; i++)
        scratch[i] = first[(size_t)i * (sizeof(struct times) / sizeof *first)];
    qsort(scratch, (size_t)n, sizeof *scratch, compare_doubles);
    return scratch[n / 2];
}

static void
print_batch(const struct options *options, const struct batch *batch,
            const struct times *times, double *scratch)
{
    const char *name = strrchr(options->path, '/');
    double nbytes =
        (double)(terp_chunk_nbytes(&batch->cut.chunk) * batch->cut.nchunks);
    uint64_t stream_nbytes = 0;
    double encode_s[2], decode_s[2];

    for (uint64_t i = 0; i < batch->cut.nchunks; i++)
        stream_nbytes += batch->stream_nbytes[i];
    for (int k = 0; k < 2; k++) {
        encode_s[k] = median(&times->encode_s[k], options->nrepeats, scratch);
        decode_s[k] = median(&times->decode_s[k], options->nrepeats, scratch);
    }
    puts("field,rel_bound,chunk,chunks,ratio,threads,encode_mb_per_s_1,"
         "encode_mb_per_s,encode_speedup,decode_mb_per_s_1,decode_mb_per_s,"
         "decode_speedup");
    printf("%s,%g,%llu,%llu,%.2f,%d,%.0f,%.0f,%.2f,%.0f,%.0f,%.2f\n",
           name == NULL ? options->path : name + 1, options->relative,
           (unsigned long long)options->chunk,
           (unsigned long long)batch->cut.nchunks,
           nbytes / (double)stream_nbytes, options->nthreads,
           nbytes / encode_s[0] / 1e6, nbytes / encode_s[1] / 1e6,
           encode_s[0] / encode_s[1], nbytes / decode_s[0] / 1e6,
           nbytes / decode_s[1] / 1e6, decode_s[0] / decode_s[1]);
}

static bool
run_batches(const struct options *options, const struct field *field)
{
    struct batch batch = {.memory = NULL};
    size_t n = (size_t)options->nrepeats;
    struct times *times = malloc(n * sizeof *times);
    double *scratch = malloc(n * sizeof *scratch), ignored;
    bool good = times != NULL && scratch != NULL &&
                make_batch(options, field, &batch) &&
                run_batch(options, &batch, 1, &ignored, &ignored);

    for (size_t i = 0; good && i < n; i++)
        for (int k = 0; good && k < 2; k++)
            good = run_batch(options, &batch, k == 0 ? 1 : options->nthreads,
                             &times[i].encode_s[k], &times[i].decode_s[k]);
    if (good)
        print_batch(options, &batch, times, scratch);
    free_batch(&batch);
    free(scratch);
    free(times);
    return good;
}

/* Keeps freed memory in the process: otherwise the system clears pages for
 * every chunk, which takes as long as some stages. */
static void
keep_memory(void)
{
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, 1 << 25);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
#endif
}

int
main(int argc, char **argv)
{
    static const struct argp argp = {
        option_table,
        parse_option,
        "FIELD_NxNxN.f32|f64",
        "Measure terp's codec on a raw field whose name tells its dims and "
        "type. Chunks that would be cut short at an edge are left out.",
        NULL,
        NULL,
        NULL};
    struct options options = {.relative = 1e-3, .nthreads = 1, .nrepeats = 1};
    struct field field;
    struct totals totals = {0};

    keep_memory();
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    if (!parse_name(&options) || !read_field(&options, &field)) {
        fprintf(stderr, "%s: cannot read a field from it\n", options.path);
        return EXIT_FAILURE;
    }
    options.params.bound_mode =
        options.pointwise ? TERP_BOUND_POINTWISE : TERP_BOUND_ABSOLUTE;
    options.params.bound =
        options.relative * (options.pointwise ? 1 : field.max - field.min);
    bool ran = options.max_step > 0 ? run_coarse(&options, &field)
               : options.batch      ? run_batches(&options, &field)
                                    : run_field(&options, &field, &totals);
    free(field.values);
    if (!ran) {
        fprintf(stderr, "%s: the codec failed\n", options.path);
        return EXIT_FAILURE;
    }
    if (options.batch || options.max_step > 0)
        return EXIT_SUCCESS;
    print_line(&options, &field, &totals);
    /* Quotients of errors and values are rounded. */
    return totals.max_error <= options.params.bound * (1 + DBL_EPSILON)
               ? EXIT_SUCCESS
               : EXIT_FAILURE;
}
