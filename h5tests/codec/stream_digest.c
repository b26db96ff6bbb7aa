/* stream_digest [--threads N] [--every N] [--environment NAME] [--expect FILE]
 *
 * Prints the XXH3-64 digests of streams and of their decoded values, for chunks
 * of all kinds in all modes. A line describes the data and the mode, so two
 * builds or two numbers of threads agree if they print the same lines.
 *
 * --expect prints only the lines that differ from FILE, and fails if there are
 * any. --every N runs one line in N. --environment runs the codec in that
 * floating-point environment. Exits with 77 if the machine lacks the
 * instructions that TERP_CPU names, or the environment NAME. Needs no test
 * framework. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "codec/api/processor.h"
#include "h5tests/support/environment.h"
#include "h5tests/support/few.h"
#include "h5tests/support/fields.h"
#include "h5tests/support/modes.h"
#include "h5tests/support/tables.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct terp_chunk chunks[] = {
    {TERP_FLOAT64, false, false, 1, {2}},
    {TERP_FLOAT32, false, false, 1, {5003}},
    {TERP_FLOAT32, false, false, 2, {61, 131}},
    {TERP_FLOAT64, true, false, 2, {3, 3001}},
    {TERP_FLOAT32, true, false, 3, {7, 1, 13}},
    {TERP_FLOAT32, false, false, 3, {33, 35, 37}},
    {TERP_FLOAT64, false, false, 3, {32, 32, 32}},
    {TERP_FLOAT32, false, false, 4, {9, 11, 13, 15}},
    {TERP_FLOAT32, false, true, 4, {5, 15, 15, 15}},
    {TERP_FLOAT32, false, true, 2, {100, 30}},
};

struct bound {
    enum terp_bound_mode mode;
    double bound;
    double floor;
};

static const struct bound bounds[] = {
    {TERP_BOUND_RELATIVE, 1e-2, 0},    {TERP_BOUND_RELATIVE, 1e-3, 0},
    {TERP_BOUND_RELATIVE, 1e-5, 0},    {TERP_BOUND_ABSOLUTE, 0.5, 0},
    {TERP_BOUND_ABSOLUTE, 0x1p-23, 0},
};

/* Modes whose streams are of version 1: all but the last one, `speed`. */
#define NMODES (TERP_NMODES - 1)

/* These follow all others, because the earlier lines of the file must not
 * change. */
static const struct bound pointwise[] = {
    {TERP_BOUND_POINTWISE, 1e-2, 0}, {TERP_BOUND_POINTWISE, 1e-4, 0},
    {TERP_BOUND_POINTWISE, 1e-5, 0}, {TERP_BOUND_POINTWISE, 1e-7, 0},
    {TERP_BOUND_POINTWISE, 0.5, 0},
};

static const struct bound floored[] = {{TERP_BOUND_POINTWISE, 1e-2, 1e-3},
                                       {TERP_BOUND_POINTWISE, 1e-4, 1e-5},
                                       {TERP_BOUND_POINTWISE, 1e-6, 1e-8},
                                       {TERP_BOUND_POINTWISE, 0.5, 1e-30}};

static const struct bound psnrs[] = {{TERP_BOUND_PSNR, 30, 0},
                                     {TERP_BOUND_PSNR, 60, 0},
                                     {TERP_BOUND_PSNR, 100, 0}};
/* Other types. Each chunk is coded under all of these bounds. */
static const enum terp_type types[] = {
    TERP_INT8,    TERP_INT16,    TERP_INT32,     TERP_INT64,
    TERP_UINT8,   TERP_UINT16,   TERP_UINT32,    TERP_UINT64,
    TERP_FLOAT16, TERP_BFLOAT16, TERP_COMPLEX64, TERP_COMPLEX128};

static const struct bound type_bounds[] = {{TERP_BOUND_ABSOLUTE, 0, 0},
                                           {TERP_BOUND_ABSOLUTE, 3, 0},
                                           {TERP_BOUND_RELATIVE, 1e-3, 0},
                                           {TERP_BOUND_POINTWISE, 1e-2, 0}};

static const char *const bound_names[TERP_NBOUND_MODES] = {
    [TERP_BOUND_ABSOLUTE] = "abs",
    [TERP_BOUND_RELATIVE] = "rel",
    [TERP_BOUND_POINTWISE] = "pwr",
    [TERP_BOUND_PSNR] = "psnr"};

#define LINE_CAP 160

static const char *
dims_text(const struct terp_chunk *chunk, char text[static 64])
{
    size_t at = 0;
    for (int i = 0; i < chunk->rank; i++)
        at += (size_t)snprintf(text + at, 64 - at, "%s%" PRIu64,
                               i == 0 ? "" : "x", chunk->dims[i]);
    return text;
}

/* Writes one line without its end. Returns false if the codec fails. */
static bool
digest(enum terp_field field, const struct terp_chunk *chunk,
       const struct terp_params *params, const char *mode,
       const uint8_t *values, int nthreads, enum test_environment environment,
       char line[static LINE_CAP])
{
    uint64_t nbytes = terp_chunk_nbytes(chunk), stream_nbytes, got;
    uint64_t cap_nbytes = terp_encode_bound(chunk);
    uint8_t *stream = malloc(cap_nbytes), *decoded = malloc(nbytes);
    char dims[64], floor[32] = "";
    enum terp_status st = TERP_ERR_MEMORY;

    test_environment_set(environment);
    if (stream != NULL && decoded != NULL)
        st = terp_encode(params, chunk, values, stream, cap_nbytes,
                         &stream_nbytes, nthreads);
    if (st == TERP_OK)
        st =
            terp_decode(stream, stream_nbytes, decoded, nbytes, &got, nthreads);
    test_environment_set(TEST_ENVIRONMENT_DEFAULT);
    if (params->floor > 0)
        snprintf(floor, sizeof floor, " floor %g", params->floor);
    if (st == TERP_OK)
        snprintf(line, LINE_CAP,
                 "%s %s%s%s %s %s %g%s %s: %016" PRIx64 " %" PRIu64
                 " %016" PRIx64,
                 terp_field_name[field], terp_type_name(chunk->type),
                 chunk->big_endian ? " big-endian" : "",
                 chunk->stack ? " stack" : "", dims_text(chunk, dims),
                 bound_names[params->bound_mode], params->bound, floor, mode,
                 XXH3_64bits(stream, stream_nbytes), stream_nbytes,
                 XXH3_64bits(decoded, nbytes));
    else
        fprintf(stderr, "stream_digest: %s\n", terp_status_text(st));
    free(stream);
    free(decoded);
    return st == TERP_OK;
}

struct run {
    int nthreads;
    unsigned every;
    enum test_environment environment;
    unsigned long nlines; /* lines so far */
    FILE *expected;       /* NULL: print all lines */
    bool same;
    int format; /* of params; lines of version 1 are those of terp 1.0 */
};

/* Prints the next line, or compares it with that of run->expected. Returns
 * false if the codec fails. */
static bool
report(struct run *run, enum terp_field field, const struct terp_chunk *chunk,
       const struct terp_params *params, const char *mode,
       const uint8_t *values)
{
    char line[LINE_CAP], wanted[LINE_CAP + 1] = "";
    struct terp_params known = *params;

    known.size = sizeof known;
    known.format = run->format;
    if (run->expected != NULL &&
        fgets(wanted, sizeof wanted, run->expected) != NULL)
        wanted[strcspn(wanted, "\n")] = '\0';
    if (run->nlines++ % run->every != 0)
        return true;
    if (!digest(field, chunk, &known, mode, values, run->nthreads,
                run->environment, line))
        return false;
    if (run->expected == NULL) {
        puts(line);
    } else if (strcmp(line, wanted) != 0) {
        printf("got      %s\nexpected %s\n", line, wanted);
        run->same = false;
    }
    return true;
}

static bool
digest_types(struct run *run)
{
    for (size_t t = 0; t < COUNT(types); t++)
        for (int field = 0; field < TERP_NFIELDS; field++) {
            const struct terp_chunk chunk = {
                types[t], t % 2 > 0, false, 3, {7, 35, 37}};
            uint8_t *values = malloc(terp_chunk_nbytes(&chunk));
            if (values == NULL)
                return false;
            terp_field_make((enum terp_field)field, &chunk, values);
            for (size_t b = 0; b < COUNT(type_bounds); b++) {
                const size_t mode = (b + (size_t)field) % NMODES;
                struct terp_params params = {
                    .bound_mode = type_bounds[b].mode,
                    .bound = type_bounds[b].bound,
                    .pipeline = terp_mode[mode].pipeline,
                    .predictor = terp_mode[mode].predictor};
                if (!report(run, (enum terp_field)field, &chunk, &params,
                            terp_mode[mode].name, values))
                    return false;
            }
            free(values);
        }
    return true;
}

/* Codes each field in `nmodes` of the modes. Modes and bounds take turns. */
static bool
digest_all(const struct bound *turns, size_t nturns, int nmodes,
           struct run *run)
{
    size_t turn = 0;

    for (size_t c = 0; c < COUNT(chunks); c++)
        for (int field = 0; field < TERP_NFIELDS; field++) {
            uint8_t *values = malloc(terp_chunk_nbytes(&chunks[c]));
            if (values == NULL)
                return false;
            terp_field_make((enum terp_field)field, &chunks[c], values);
            for (int i = 0; i < nmodes; i++, turn++) {
                const struct terp_mode *mode = &terp_mode[turn % NMODES];
                size_t b = turn % nturns;
                struct terp_params params = {.bound_mode = turns[b].mode,
                                             .bound = turns[b].bound,
                                             .pipeline = mode->pipeline,
                                             .predictor = mode->predictor,
                                             .floor = turns[b].floor};
                if (!report(run, (enum terp_field)field, &chunks[c], &params,
                            mode->name, values))
                    return false;
            }
            free(values);
        }
    return true;
}

/* Fields for splines that reach far: one for long splines, one for the mean. */
static bool
digest_far(struct run *run, enum terp_field field)
{
    static const struct terp_chunk far_chunks[] = {
        {TERP_FLOAT32, false, false, 1, {20011}},
        {TERP_FLOAT64, true, false, 2, {83, 121}},
        {TERP_FLOAT32, false, false, 3, {27, 31, 29}},
        {TERP_FLOAT64, false, true, 4, {2, 27, 31, 29}},
        {TERP_FLOAT32, false, false, 4, {13, 12, 14, 15}},
    };
    static const double far_bounds[] = {1e-3, 1e-4, 1e-6};

    for (size_t c = 0; c < COUNT(far_chunks); c++) {
        uint8_t *values = malloc(terp_chunk_nbytes(&far_chunks[c]));
        if (values == NULL)
            return false;
        terp_field_make(field, &far_chunks[c], values);
        for (size_t b = 0; b < COUNT(far_bounds); b++) {
            const struct terp_mode *mode = &terp_mode[(3 * c + b) % NMODES];
            struct terp_params params = {.bound_mode = TERP_BOUND_RELATIVE,
                                         .bound = far_bounds[b],
                                         .pipeline = mode->pipeline,
                                         .predictor = TERP_PREDICTOR_SPLINE};
            if (!report(run, field, &far_chunks[c], &params, mode->name,
                        values))
                return false;
        }
        free(values);
    }
    return true;
}

/* Codes each field of each chunk once, lossless. */
static bool
digest_lossless(struct run *run)
{
    size_t turn = 0;

    for (size_t c = 0; c < COUNT(chunks); c++)
        for (int field = 0; field < TERP_NNAMED_FIELDS; field++, turn++) {
            const struct terp_mode *mode = &terp_mode[turn % NMODES];
            const struct terp_params params = {
                .bound_mode = TERP_BOUND_ABSOLUTE, .pipeline = mode->pipeline};
            uint8_t *values = malloc(terp_chunk_nbytes(&chunks[c]));
            if (values == NULL)
                return false;
            terp_field_make((enum terp_field)field, &chunks[c], values);
            const bool made = report(run, (enum terp_field)field, &chunks[c],
                                     &params, mode->name, values);
            free(values);
            if (!made)
                return false;
        }
    return true;
}

/* Chunks of few different values, which streams of version 2 code by ranks. */
static bool
digest_few(struct run *run)
{
    static const enum terp_type few_types[] = {
        TERP_FLOAT32,  TERP_FLOAT64,   TERP_INT16,
        TERP_INT32,    TERP_UINT64,    TERP_FLOAT16,
        TERP_BFLOAT16, TERP_COMPLEX64, TERP_COMPLEX128};
    static const uint64_t nlevels[] = {2, 50, 900};

    for (size_t t = 0; t < COUNT(few_types); t++)
        for (size_t n = 0; n < COUNT(nlevels); n++) {
            const struct terp_chunk chunk = {
                few_types[t], t % 2 > 0, n == 2, 3, {13, 35, 37}};
            const struct terp_mode *mode = &terp_mode[t % NMODES];
            const struct terp_params params = {
                .bound_mode = TERP_BOUND_ABSOLUTE, .pipeline = mode->pipeline};
            char name[32];
            uint8_t *values = malloc(terp_chunk_nbytes(&chunk));
            if (values == NULL)
                return false;
            few_make(&chunk, nlevels[n], values);
            snprintf(name, sizeof name, "%s, %d levels", mode->name,
                     (int)nlevels[n]);
            const bool made =
                report(run, TERP_FIELD_STEPS, &chunk, &params, name, values);
            free(values);
            if (!made)
                return false;
        }
    return true;
}

static void
table_of(const struct terp_chunk *chunk, uint64_t n, uint8_t *values)
{
    (void)n;
    table_make(chunk, values);
}

/* Chunks that become streams of grids or of columns, of version 2. */
static const struct {
    const char *name;
    void (*make)(const struct terp_chunk *chunk, uint64_t n, uint8_t *values);
    uint64_t n;
    struct terp_chunk chunk;
    double bound;
} structured[] = {
    {"decimals", decimals_make, 0, {TERP_FLOAT32, false, false, 1, {20011}}, 0},
    {"decimals", decimals_make, 29, {TERP_FLOAT64, true, false, 1, {5003}}, 0},
    {"decimals",
     decimals_make,
     97,
     {TERP_FLOAT64, false, true, 3, {17, 35, 37}},
     0},
    {"decimals",
     decimals_make,
     0,
     {TERP_COMPLEX64, false, false, 2, {61, 90}},
     0},
    {"times", times_make, 5, {TERP_FLOAT64, false, false, 1, {20011}}, 0},
    {"times", times_make, 1, {TERP_FLOAT64, true, false, 1, {5003}}, 0},
    {"table", table_of, 0, {TERP_FLOAT32, true, false, 2, {3001, 4}}, 0},
    {"table", table_of, 0, {TERP_INT16, false, false, 3, {61, 70, 5}}, 0},
    {"table", table_of, 0, {TERP_FLOAT64, false, false, 2, {3001, 4}}, 1e-3},
    {"table", table_of, 0, {TERP_FLOAT16, false, false, 2, {3001, 4}}, 1e-2},
};

static bool
digest_structured(struct run *run)
{
    for (size_t i = 0; i < COUNT(structured); i++) {
        const struct terp_chunk *chunk = &structured[i].chunk;
        const struct terp_params params = {.bound_mode = TERP_BOUND_ABSOLUTE,
                                           .bound = structured[i].bound};
        uint8_t *values = malloc(terp_chunk_nbytes(chunk));
        if (values == NULL)
            return false;
        structured[i].make(chunk, structured[i].n, values);
        const bool made = report(run, TERP_FIELD_STEPS, chunk, &params,
                                 structured[i].name, values);
        free(values);
        if (!made)
            return false;
    }
    return true;
}

/* Digests streams of the pipeline `speed`, of all types and chunks. */
static bool
digest_speed(struct run *run)
{
    for (size_t t = 0; t < COUNT(types) + COUNT(chunks); t++) {
        struct terp_chunk chunk =
            chunks[t < COUNT(types) ? 5 : t - COUNT(types)];
        struct terp_params params = {.bound_mode = TERP_BOUND_ABSOLUTE,
                                     .bound = t % 3 == 0 ? 0 : 0.01,
                                     .pipeline = TERP_PIPELINE_SPEED};
        if (t < COUNT(types))
            chunk.type = types[t];
        uint8_t *values = malloc(terp_chunk_nbytes(&chunk));
        if (values == NULL)
            return false;
        const enum terp_field field =
            t % 2 == 0 ? TERP_FIELD_GAPS : TERP_FIELD_SMOOTH;
        terp_field_make(field, &chunk, values);
        const bool made = report(run, field, &chunk, &params, "speed", values);
        free(values);
        if (!made)
            return false;
    }
    return true;
}

/* Returns TEST_NENVIRONMENTS for an unknown name. */
static enum test_environment
environment_of(const char *name)
{
    int environment = 0;

    while (environment < TEST_NENVIRONMENTS &&
           strcmp(test_environment_name[environment], name) != 0)
        environment++;
    return (enum test_environment)environment;
}

int
main(int argc, char **argv)
{
    struct run run = {.nthreads = 1, .every = 1, .same = true, .format = 1};

    if (terp_processor_reason() != NULL) {
        fprintf(stderr, "skipped: %s\n", terp_processor_reason());
        return 77;
    }
    for (int i = 1; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--threads") == 0 && atoi(value) > 0) {
            run.nthreads = atoi(value);
        } else if (strcmp(argv[i], "--every") == 0 && atoi(value) > 0) {
            run.every = (unsigned)atoi(value);
        } else if (strcmp(argv[i], "--environment") == 0 &&
                   environment_of(value) < TEST_NENVIRONMENTS) {
            run.environment = environment_of(value);
        } else if (strcmp(argv[i], "--expect") == 0) {
            run.expected = fopen(value, "r");
            if (run.expected == NULL) {
                perror(value);
                return EXIT_FAILURE;
            }
        } else {
            fputs("usage: stream_digest [--threads N] [--every N] "
                  "[--environment NAME] [--expect FILE]\n",
                  stderr);
            if (run.expected != NULL)
                fclose(run.expected);
            return EXIT_FAILURE;
        }
    }
    const bool has_environment = test_environment_set(run.environment);
    test_environment_set(TEST_ENVIRONMENT_DEFAULT);
    if (!has_environment) {
        fputs("skipped: there is no such environment here\n", stderr);
        return 77;
    }
    bool made = digest_all(bounds, COUNT(bounds), NMODES, &run) &&
                digest_all(pointwise, COUNT(pointwise), NMODES, &run) &&
                digest_all(floored, COUNT(floored), 1, &run) &&
                digest_all(psnrs, COUNT(psnrs), 1, &run) &&
                digest_types(&run) && digest_far(&run, TERP_FIELD_SINES) &&
                digest_far(&run, TERP_FIELD_NOISE) && digest_lossless(&run);
    run.format = 2;
    made = made && digest_few(&run) && digest_structured(&run) &&
           digest_speed(&run);
    if (made && run.expected != NULL && fgetc(run.expected) != EOF) {
        puts("more lines are expected");
        run.same = false;
    }
    if (run.expected != NULL)
        fclose(run.expected);
    return made && run.same ? EXIT_SUCCESS : EXIT_FAILURE;
}
