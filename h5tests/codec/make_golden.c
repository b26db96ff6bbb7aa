/* make_golden DIR: writes this version's golden streams and their list to an
 * existing folder, and overwrites files of the same names. See
 * h5tests/support/golden.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "codec/format/frame.h"
#include "h5tests/support/fields.h"
#include "h5tests/support/golden.h"
#include "h5tests/support/modes.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

struct golden {
    const char *name;
    enum terp_field field;
    struct terp_chunk chunk;
    double bound; /* the bound is absolute unless a list below says otherwise */
};

/* Streams in every mode. */
static const struct golden goldens[] = {
    {"f32-1d", TERP_FIELD_ROUGH, {TERP_FLOAT32, false, false, 1, {701}}, 1e-3},
    {"f64-2d",
     TERP_FIELD_ROUGH,
     {TERP_FLOAT64, false, false, 2, {29, 31}},
     1e-4},
    {"f32-3d-tiles",
     TERP_FIELD_SMOOTH,
     {TERP_FLOAT32, false, false, 3, {33, 34, 35}},
     1e-4},
    {"f32-prefixes", /* coarse values of a spline's stream */
     TERP_FIELD_SMOOTH,
     {TERP_FLOAT32, false, false, 3, {33, 34, 35}},
     5e-4},
    {"f64-4d-big-endian",
     TERP_FIELD_STEPS,
     {TERP_FLOAT64, true, false, 4, {5, 6, 7, 5}},
     0.25},
    {"f32-stack",
     TERP_FIELD_ROUGH,
     {TERP_FLOAT32, false, true, 4, {7, 8, 8, 8}},
     1e-2},
    {"f32-specials",
     TERP_FIELD_GAPS,
     {TERP_FLOAT32, false, false, 3, {9, 10, 11}},
     1e-3},
    {"f64-coast",
     TERP_FIELD_COAST,
     {TERP_FLOAT64, false, false, 2, {40, 50}},
     1e-3},
    {"f32-months", /* the mask of specials repeats along a dimension */
     TERP_FIELD_COAST,
     {TERP_FLOAT32, false, false, 3, {6, 20, 24}},
     1e-3},
    {"f32-maps", /* means along the slowest dimension */
     TERP_FIELD_MAPS,
     {TERP_FLOAT32, false, false, 3, {24, 9, 14}},
     1e-3},
    {"f32-escapes",
     TERP_FIELD_SPIKES,
     {TERP_FLOAT32, false, false, 2, {37, 41}},
     1e-1},
    {"f32-domain", /* three rows without relation */
     TERP_FIELD_SMOOTH,
     {TERP_FLOAT32, false, false, 2, {3, 1501}},
     1e-3},
    {"f64-escapes",
     TERP_FIELD_SPIKES,
     {TERP_FLOAT64, false, false, 2, {37, 41}},
     1e-1},
    {"f32-fine", /* low bits, and exact quants of lorenzo */
     TERP_FIELD_FINE,
     {TERP_FLOAT32, false, false, 2, {37, 41}},
     1e-6},
    {"f64-rounded", /* exact quants on the values' grid */
     TERP_FIELD_ROUNDED,
     {TERP_FLOAT64, false, false, 2, {29, 31}},
     1e-9},
    {"f32-tails", /* tails of lorenzo's differences, and specials */
     TERP_FIELD_GAPS,
     {TERP_FLOAT32, false, false, 3, {7, 8, 9}},
     3e-6},
    {"f64-tails",
     TERP_FIELD_FINE,
     {TERP_FLOAT64, false, false, 2, {17, 31}},
     1e-12},
    {"f32-sines", /* long splines with blending */
     TERP_FIELD_SINES,
     {TERP_FLOAT32, false, false, 3, {17, 18, 19}},
     1e-4},
    {"f32-mean", /* noise that suits the mean of eight points */
     TERP_FIELD_NOISE,
     {TERP_FLOAT32, false, false, 2, {67, 71}},
     1e-1},
    {"f32-listed", /* some codes are listed, others are escapes */
     TERP_FIELD_SPIKES,
     {TERP_FLOAT32, false, false, 2, {67, 71}},
     12},
    {"f32-lossless", /* with specials */
     TERP_FIELD_COAST,
     {TERP_FLOAT32, false, false, 3, {7, 8, 9}},
     0},
    {"f32-remainders", /* lossless: remainders, shifts, no dimensions */
     TERP_FIELD_NOISE,
     {TERP_FLOAT32, false, false, 2, {37, 41}},
     0},
    {"f64-smooth", /* lossless: second differences */
     TERP_FIELD_SINES,
     {TERP_FLOAT64, false, false, 2, {37, 41}},
     0},
    {"f32-mirrors", /* references */
     TERP_FIELD_MIRRORS,
     {TERP_FLOAT32, false, false, 2, {37, 42}},
     0},
    {"f64-mirrors", /* references to values that differ in the last bits */
     TERP_FIELD_MIRRORS,
     {TERP_FLOAT64, true, false, 2, {37, 42}},
     0},
    {"f64-lossless", /* subnormal numbers: quants count all values */
     TERP_FIELD_DENORMALS,
     {TERP_FLOAT64, false, false, 2, {17, 31}},
     0},
};

/* The same under pointwise bounds. */
static const struct golden pointwise[] = {
    {"f32-pointwise", /* logarithms in float32, signs, specials */
     TERP_FIELD_GAPS,
     {TERP_FLOAT32, false, false, 3, {9, 10, 11}},
     1e-2},
    {"f64-pointwise", /* logarithms in float64 */
     TERP_FIELD_ROUGH,
     {TERP_FLOAT64, true, false, 2, {29, 31}},
     1e-7},
    {"f32-pointwise-rounded", /* rounded values without logarithms */
     TERP_FIELD_COAST,
     {TERP_FLOAT32, false, false, 2, {37, 41}},
     4e-7},
};

/* The same with a floor of a hundredth of the bound. */
static const struct golden floored[] = {
    {"f32-floor", /* values below the joint, and logarithms in float32 */
     TERP_FIELD_GAPS,
     {TERP_FLOAT32, false, false, 3, {9, 10, 11}},
     1e-2},
    {"f64-floor", /* logarithms in float64 */
     TERP_FIELD_ROUGH,
     {TERP_FLOAT64, true, false, 2, {29, 31}},
     1e-7},
};

/* Other types, also under absolute bounds. */
static const struct golden types[] = {
    {"i8", TERP_FIELD_ROUGH, {TERP_INT8, false, false, 2, {29, 31}}, 0},
    {"u16-bound",
     TERP_FIELD_ROUGH,
     {TERP_UINT16, true, false, 3, {9, 10, 11}},
     7},
    {"i32", TERP_FIELD_STEPS, {TERP_INT32, true, false, 2, {29, 31}}, 0},
    {"u32-wide", /* carried in float64 */
     TERP_FIELD_GAPS,
     {TERP_UINT32, false, true, 3, {5, 9, 11}},
     1},
    {"i64", TERP_FIELD_ROUGH, {TERP_INT64, false, false, 2, {29, 31}}, 0},
    {"u64-bits", /* carried as the bits of float64 */
     TERP_FIELD_GAPS,
     {TERP_UINT64, false, false, 2, {17, 31}},
     0},
    {"f16", TERP_FIELD_GAPS, {TERP_FLOAT16, false, false, 2, {29, 31}}, 1e-2},
    {"f16-lossless",
     TERP_FIELD_ROUGH,
     {TERP_FLOAT16, true, false, 2, {29, 31}},
     0},
    {"bf16",
     TERP_FIELD_ROUGH,
     {TERP_BFLOAT16, false, false, 3, {9, 10, 11}},
     1e-2},
    {"c64", TERP_FIELD_COAST, {TERP_COMPLEX64, true, false, 2, {29, 31}}, 1e-2},
    {"c128",
     TERP_FIELD_ROUGH,
     {TERP_COMPLEX128, false, true, 3, {5, 9, 11}},
     1e-3},
};

/* Streams that do not depend on the mode. */
static const struct golden plain[] = {
    {"f32-constant",
     TERP_FIELD_CONSTANT,
     {TERP_FLOAT32, false, false, 3, {64, 64, 64}},
     1e-3},
    {"f64-constant-specials",
     TERP_FIELD_GAPS,
     {TERP_FLOAT64, false, false, 2, {20, 20}},
     10},
    {"f32-copies",
     TERP_FIELD_PROFILE,
     {TERP_FLOAT32, false, false, 3, {19, 20, 30}},
     1e-3},
    {"f64-repeats", /* references under a bound above 0 */
     TERP_FIELD_MIRRORS,
     {TERP_FLOAT64, true, false, 2, {259, 254}},
     1e-3},
    {"f32-raw", TERP_FIELD_NOISE, {TERP_FLOAT32, false, false, 1, {50}}, 1e-30},
    {"bytes", TERP_FIELD_NOISE, {TERP_BYTES, false, false, 1, {99}}, 1},
};

/* Every type except bytes in every mode. A bound of an integer type is rounded
 * down, so all of these are lossless except the first. */
static const struct {
    const char *name;
    enum terp_bound_mode mode;
    double bound, floor;
} kinds[] = {
    {"absolute", TERP_BOUND_ABSOLUTE, 2, 0},
    {"relative", TERP_BOUND_RELATIVE, 1e-3, 0},
    {"pointwise", TERP_BOUND_POINTWISE, 1e-2, 0},
    {"floor", TERP_BOUND_POINTWISE, 1e-2, 1e-3},
    {"psnr", TERP_BOUND_PSNR, 60, 0},
    {"lossless", TERP_BOUND_ABSOLUTE, 0, 0},
};

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

static bool
make(const char *dir, const struct golden *golden,
     enum terp_bound_mode bound_mode, double floor,
     const struct terp_mode *mode, FILE *list)
{
    struct terp_params params = {.bound_mode = bound_mode,
                                 .bound = golden->bound,
                                 .floor = floor,
                                 .pipeline = mode->pipeline,
                                 .predictor = mode->predictor};
    const struct terp_chunk *chunk = &golden->chunk;
    uint64_t nbytes = terp_chunk_nbytes(chunk), stream_nbytes, got;
    uint64_t cap_nbytes = terp_encode_bound(chunk);
    uint8_t *values = malloc(nbytes), *stream = malloc(cap_nbytes);
    char name[TERP_GOLDEN_NAME_CAP];
    bool made = false;

    snprintf(name, sizeof name, "v%d-%s-%s.terp", TERP_FORMAT_VERSION,
             golden->name, mode->name);
    for (char *slash; (slash = strchr(name, '/')) != NULL;)
        *slash = '-';
    if (values != NULL && stream != NULL) {
        terp_field_make(golden->field, chunk, values);
        made =
            terp_encode(&params, chunk, values, stream, cap_nbytes,
                        &stream_nbytes, 1) == TERP_OK &&
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

static bool
make_kind(const char *dir, enum terp_type type, size_t kind,
          const struct terp_mode *mode, FILE *list)
{
    char name[TERP_GOLDEN_NAME_CAP];
    const struct golden golden = {name,
                                  TERP_FIELD_ROUGH,
                                  {type, false, false, 3, {7, 8, 9}},
                                  kinds[kind].bound};

    snprintf(name, sizeof name, "%s-%s", terp_type_name(type),
             kinds[kind].name);
    return make(dir, &golden, kinds[kind].mode, kinds[kind].floor, mode, list);
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
        for (int mode = 1; mode < TERP_NMODES; mode++)
            made &= make(argv[1], &goldens[i], TERP_BOUND_ABSOLUTE, 0,
                         &terp_mode[mode], list);
    for (size_t i = 0; i < COUNT(plain); i++)
        made &= make(argv[1], &plain[i], TERP_BOUND_ABSOLUTE, 0, &terp_mode[0],
                     list);
    for (size_t i = 0; i < COUNT(pointwise); i++)
        for (int mode = 1; mode < TERP_NMODES; mode++)
            made &= make(argv[1], &pointwise[i], TERP_BOUND_POINTWISE, 0,
                         &terp_mode[mode], list);
    for (size_t i = 0; i < COUNT(floored); i++)
        for (int mode = 1; mode < TERP_NMODES; mode++)
            made &= make(argv[1], &floored[i], TERP_BOUND_POINTWISE,
                         floored[i].bound / 100, &terp_mode[mode], list);
    for (size_t i = 0; i < COUNT(types); i++)
        for (int mode = 1; mode < TERP_NMODES; mode++)
            made &= make(argv[1], &types[i], TERP_BOUND_ABSOLUTE, 0,
                         &terp_mode[mode], list);
    for (int type = 0; terp_type_name((enum terp_type)type) != NULL; type++)
        for (size_t i = 0; type != TERP_BYTES && i < COUNT(kinds); i++)
            for (int mode = 1; mode < TERP_NMODES; mode++)
                made &= make_kind(argv[1], (enum terp_type)type, i,
                                  &terp_mode[mode], list);
    made &= fclose(list) == 0;
    return made ? EXIT_SUCCESS : EXIT_FAILURE;
}
