/* make_golden DIR: writes golden streams of the format's newest version and
 * their list to an existing folder, and overwrites files of the same names.
 * Streams of earlier versions stand in the folders of earlier releases. See
 * h5tests/support/golden.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "codec/format/frame.h"
#include "h5tests/support/few.h"
#include "h5tests/support/fields.h"
#include "h5tests/support/golden.h"
#include "h5tests/support/tables.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* What values a chunk has. */
enum kind {
    ROUGH,
    GAPS,
    STEPS,
    FEW,
    DECIMALS,
    EXCEPTIONS,
    TIMES,
    TABLE,
    TABLES
};

struct golden {
    const char *name;
    enum kind kind;
    struct terp_chunk chunk;
    enum terp_coding coding; /* of the stream */
    double bound;            /* absolute */
};

/* Shapes in which each type that a coding allows is written. */
static const struct terp_chunk speed_shape = {
    TERP_FLOAT32, false, false, 3, {4, 9, 33}};
static const struct terp_chunk few_shape = {
    TERP_FLOAT32, false, false, 2, {41, 100}};
static const struct terp_chunk table_shape = {
    TERP_FLOAT32, false, false, 2, {701, 4}};

static const struct golden goldens[] = {
    {"speed-line",
     ROUGH,
     {TERP_FLOAT32, false, false, 1, {4501}},
     TERP_CODING_SPEED,
     1e-2},
    {"speed-plane",
     ROUGH,
     {TERP_FLOAT64, true, false, 2, {67, 71}},
     TERP_CODING_SPEED,
     1e-3},
    {"speed-stack",
     ROUGH,
     {TERP_FLOAT32, false, true, 4, {3, 5, 9, 33}},
     TERP_CODING_SPEED,
     1e-2},
    {"speed-exceptions",
     GAPS,
     {TERP_FLOAT32, false, false, 3, {5, 17, 65}},
     TERP_CODING_SPEED,
     1e-3},
    {"speed-steps",
     STEPS,
     {TERP_INT16, false, false, 2, {31, 65}},
     TERP_CODING_SPEED,
     2},
    {"ranks-stack",
     FEW,
     {TERP_FLOAT32, false, true, 3, {7, 20, 30}},
     TERP_CODING_RANKS,
     0},
    {"grid-f32",
     DECIMALS,
     {TERP_FLOAT32, false, false, 3, {17, 35, 11}},
     TERP_CODING_GRID,
     0},
    {"grid-f32-exceptions",
     EXCEPTIONS,
     {TERP_FLOAT32, true, false, 1, {5003}},
     TERP_CODING_GRID,
     0},
    {"grid-f64",
     DECIMALS,
     {TERP_FLOAT64, true, true, 3, {17, 35, 11}},
     TERP_CODING_GRID,
     0},
    {"grid-f64-exceptions",
     EXCEPTIONS,
     {TERP_FLOAT64, false, false, 2, {50, 101}},
     TERP_CODING_GRID,
     0},
    {"grid-drift",
     TIMES,
     {TERP_FLOAT64, false, false, 1, {5003}},
     TERP_CODING_GRID,
     0},
    {"grid-c64",
     DECIMALS,
     {TERP_COMPLEX64, false, false, 1, {5003}},
     TERP_CODING_PARTS,
     0},
    {"grid-c128",
     EXCEPTIONS,
     {TERP_COMPLEX128, true, false, 2, {61, 90}},
     TERP_CODING_PARTS,
     0},
    {"columns-16",
     TABLE,
     {TERP_INT16, true, false, 2, {401, 16}},
     TERP_CODING_COLUMNS,
     0},
    {"columns-4d",
     TABLE,
     {TERP_FLOAT32, false, false, 4, {3, 5, 37, 4}},
     TERP_CODING_COLUMNS,
     0},
    {"columns-f64",
     TABLE,
     {TERP_FLOAT64, true, false, 2, {3001, 4}},
     TERP_CODING_COLUMNS,
     1e-3},
    {"columns-bound", /* groups under the bound */
     TABLE,
     {TERP_FLOAT32, false, false, 2, {3001, 4}},
     TERP_CODING_COLUMNS,
     1e-2},
    {"columns-copies", /* copies of a table */
     TABLES,
     {TERP_FLOAT32, true, false, 3, {3, 2001, 4}},
     TERP_CODING_COPIES,
     1e-10},
};

/* Fills the chunk with equal tables, one behind the other. */
static void
tables_make(const struct terp_chunk *chunk, uint8_t *values)
{
    const struct terp_chunk one = {chunk->type,
                                   chunk->big_endian,
                                   false,
                                   2,
                                   {chunk->dims[1], chunk->dims[2]}};
    const uint64_t nbytes = terp_chunk_nbytes(&one);

    table_make(&one, values);
    for (uint64_t i = 1; i < chunk->dims[0]; i++)
        memcpy(values + i * nbytes, values, nbytes);
}

static void
values_make(enum kind kind, const struct terp_chunk *chunk, uint8_t *values)
{
    switch (kind) {
    case FEW:
        few_make(chunk, 150, values);
        break;
    case DECIMALS:
    case EXCEPTIONS:
        decimals_make(chunk, kind == DECIMALS ? 0 : 29, values);
        break;
    case TIMES:
        times_make(chunk, 5, values);
        break;
    case TABLE:
        table_make(chunk, values);
        break;
    case TABLES:
        tables_make(chunk, values);
        break;
    default:
        terp_field_make(kind == GAPS    ? TERP_FIELD_GAPS
                        : kind == STEPS ? TERP_FIELD_STEPS
                                        : TERP_FIELD_ROUGH,
                        chunk, values);
    }
}

static bool
write_file(const char *dir, const char *name, const void *bytes,
           uint64_t nbytes)
{
    char path[4096];
    int n = snprintf(path, sizeof path, "%s/%s", dir, name);
    if (n < 0 || (size_t)n >= sizeof path)
        return false;
    FILE *file = fopen(path, "wb");
    if (file == NULL)
        return false;
    bool written = fwrite(bytes, 1, nbytes, file) == nbytes;
    return fclose(file) == 0 && written;
}

/* Encodes and writes a stream of the newest version. */
static bool
make(const char *dir, const struct golden *golden, FILE *list)
{
    const struct terp_params params = {
        .size = sizeof params,
        .bound_mode = TERP_BOUND_ABSOLUTE,
        .bound = golden->bound,
        .pipeline = strncmp(golden->name, "speed", 5) == 0
                        ? TERP_PIPELINE_SPEED
                        : TERP_PIPELINE_AUTO};
    const struct terp_chunk *chunk = &golden->chunk;
    uint64_t nbytes = terp_chunk_nbytes(chunk), stream_nbytes, got;
    uint64_t cap_nbytes = terp_encode_bound(chunk);
    uint8_t *values = malloc(nbytes), *stream = malloc(cap_nbytes);
    char name[TERP_GOLDEN_NAME_CAP];
    bool made = false;

    snprintf(name, sizeof name, "v%d-%s.terp", TERP_FORMAT_VERSION,
             golden->name);
    if (values != NULL && stream != NULL) {
        values_make(golden->kind, chunk, values);
        made =
            terp_encode(&params, chunk, values, stream, cap_nbytes,
                        &stream_nbytes, 1) == TERP_OK &&
            stream[TERP_FRAME_VERSION_AT] == TERP_FORMAT_VERSION &&
            stream[TERP_FRAME_CODING_AT] == golden->coding &&
            terp_decode(stream, stream_nbytes, values, nbytes, &got, 1) ==
                TERP_OK &&
            write_file(dir, name, stream, stream_nbytes) &&
            fprintf(list, "%s %" PRIu64 " %" PRIu64 " %016" PRIx64 "\n", name,
                    stream_nbytes, nbytes, XXH3_64bits(values, nbytes)) > 0;
    }
    if (!made)
        fprintf(stderr, "make_golden: cannot make %s/%s\n", dir, name);
    free(values);
    free(stream);
    return made;
}

/* Makes a stream of values of a type, in a shape, little-endian or big-endian.
 * Complex values give a stream of parts. */
static bool
make_type(const char *dir, const char *coding_name, enum kind kind,
          enum terp_type type, const struct terp_chunk *shape,
          enum terp_coding coding, double bound, FILE *list)
{
    char name[TERP_GOLDEN_NAME_CAP];
    struct golden golden = {name, kind, *shape, coding, bound};

    golden.chunk.type = type;
    golden.chunk.big_endian = type % 2 == 1;
    if (terp_type_nparts(type) > 1)
        golden.coding = TERP_CODING_PARTS;
    snprintf(name, sizeof name, "%s-%s%s", coding_name, terp_type_name(type),
             bound > 0 ? "-bound" : "");
    return make(dir, &golden, list);
}

static bool
make_types(const char *dir, enum terp_type type, FILE *list)
{
    bool made = make_type(dir, "speed", STEPS, type, &speed_shape,
                          TERP_CODING_SPEED, 0, list);

    made &=
        make_type(dir, "speed", STEPS, type, &speed_shape, TERP_CODING_SPEED,
                  terp_type_is_integer(type) ? 2 : 1e-2, list);
    if (terp_value_nbytes(type) > 1)
        made &= make_type(dir, "ranks", FEW, type, &few_shape,
                          TERP_CODING_RANKS, 0, list);
    /* Two types are left out, because the encoder does not choose columns for
     * them. In float64 the noise of the table leaves nothing to save. In
     * bfloat16 the table has few different values, and ranks of the whole chunk
     * save as much. */
    if (terp_type_of_part(type) != TERP_FLOAT64 && type != TERP_BFLOAT16)
        made &= make_type(dir, "columns", TABLE, type, &table_shape,
                          TERP_CODING_COLUMNS, 0, list);
    return made;
}

int
main(int argc, char **argv)
{
    char path[4096];
    bool made = true;

    if (argc != 2) {
        fputs("usage: make_golden DIR\n", stderr);
        return EXIT_FAILURE;
    }
    int n = snprintf(path, sizeof path, "%s/%s", argv[1], TERP_GOLDEN_LIST);
    FILE *list = n > 0 && (size_t)n < sizeof path ? fopen(path, "w") : NULL;
    if (list == NULL) {
        perror(argv[1]);
        return EXIT_FAILURE;
    }
    for (size_t i = 0; i < COUNT(goldens); i++)
        made &= make(argv[1], &goldens[i], list);
    for (int type = 0; terp_type_name((enum terp_type)type) != NULL; type++)
        if (type != TERP_BYTES)
            made &= make_types(argv[1], (enum terp_type)type, list);
    made &= fclose(list) == 0;
    return made ? EXIT_SUCCESS : EXIT_FAILURE;
}
