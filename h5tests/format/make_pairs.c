/* make_pairs DIR: writes streams of all kinds to an existing folder: N.terp,
 * and N.values with the decoded values. Also writes `kinds`, which lists
 * properties of the format that the streams have; the document's examples,
 * huffman.terp, default.terp, exact.terp, listed.terp, tails.terp,
 * pointwise.terp, integers.terp, lossless.terp and floor.terp; and `lengths`,
 * the lengths of all words of the dictionary.
 *
 * make_pairs DIR FILE...: each file is a stream without a valid checksum.
 * Writes the checksum, decodes the stream and writes its values to FILE.values,
 * or writes no such file if the codec refuses the stream.
 *
 * make_pairs --try <STREAMS: does the same with many streams from standard
 * input, each after its length in four bytes. Prints a line for each: the
 * codec's error, or a hash of the values.
 *
 * Fails if the decoder of decoder/terp_decode.c disagrees with the codec. */
#include <stdio.h>
#include <stdlib.h>

#include "codebooks/codebooks.h"
#include "codec/format/frame.h"
#include "h5tests/format/inside.h"
#include "h5tests/support/fields.h"
#include "h5tests/support/modes.h"
#include "h5tests/support/reader.h"
#include "h5tests/support/tables.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* From less than a tile to several partitions. */
static const struct terp_chunk chunks[] = {
    {TERP_FLOAT64, false, false, 1, {2}},
    {TERP_FLOAT32, false, false, 1, {70001}},
    {TERP_FLOAT32, false, false, 2, {303, 509}},
    {TERP_FLOAT64, true, false, 2, {3, 3001}},
    {TERP_FLOAT32, true, false, 3, {7, 1, 13}},
    {TERP_FLOAT64, false, false, 3, {33, 35, 37}},
    {TERP_FLOAT32, false, false, 4, {9, 11, 13, 15}},
    {TERP_FLOAT32, false, true, 4, {5, 15, 15, 16}},
    {TERP_FLOAT64, false, true, 2, {100, 30}},
    {TERP_FLOAT32, false, true, 2, {99, 1}},
};

static const struct terp_chunk maps = {
    TERP_FLOAT64, true, false, 4, {21, 1, 13, 15}};

static const double bounds[] = {1e-1, 1e-3, 1e-5};

/* Bounds that need wide codes and tails, that only just keep values apart, and
 * that keep one value only. */
static const struct {
    struct terp_chunk chunk;
    enum terp_field field;
    enum terp_bound_mode mode;
    double bound;
} tight[] = {
    {{TERP_FLOAT32, true, false, 3, {23, 20, 11}},
     TERP_FIELD_PROFILE,
     TERP_BOUND_RELATIVE,
     1e-3},
    {{TERP_FLOAT64, false, false, 2, {71, 67}},
     TERP_FIELD_PROFILE,
     TERP_BOUND_RELATIVE,
     1e-5},
    {{TERP_FLOAT32, false, false, 2, {263, 251}},
     TERP_FIELD_MIRRORS,
     TERP_BOUND_RELATIVE,
     1e-3},
    {{TERP_FLOAT32, false, false, 3, {17, 35, 21}},
     TERP_FIELD_FINE,
     TERP_BOUND_RELATIVE,
     1e-5},
    {{TERP_FLOAT64, false, false, 3, {21, 35, 17}},
     TERP_FIELD_FINE,
     TERP_BOUND_RELATIVE,
     1e-6},
    {{TERP_FLOAT64, false, true, 4, {5, 13, 10, 9}},
     TERP_FIELD_ROUGH,
     TERP_BOUND_RELATIVE,
     1e-7},
    {{TERP_FLOAT64, true, false, 4, {6, 7, 9, 11}},
     TERP_FIELD_GAPS,
     TERP_BOUND_RELATIVE,
     1e-5},
    {{TERP_FLOAT32, false, false, 1, {5003}},
     TERP_FIELD_SMOOTH,
     TERP_BOUND_RELATIVE,
     1e-8},
    {{TERP_FLOAT32, false, false, 1, {5003}},
     TERP_FIELD_SMOOTH,
     TERP_BOUND_RELATIVE,
     3e-7},
    {{TERP_FLOAT32, false, false, 2, {61, 131}},
     TERP_FIELD_SMOOTH,
     TERP_BOUND_ABSOLUTE,
     1e-9},
    {{TERP_FLOAT64, false, false, 2, {1, 4353}},
     TERP_FIELD_SMOOTH,
     TERP_BOUND_RELATIVE,
     1e-12},
    {{TERP_FLOAT64, false, false, 1, {4097}},
     TERP_FIELD_SMOOTH,
     TERP_BOUND_ABSOLUTE,
     1e-300},
    {{TERP_FLOAT64, false, false, 2, {61, 131}},
     TERP_FIELD_INTEGERS,
     TERP_BOUND_ABSOLUTE,
     1e-9},
    {{TERP_FLOAT32, false, true, 4, {3, 9, 9, 16}},
     TERP_FIELD_ROUNDED,
     TERP_BOUND_ABSOLUTE,
     1e-9},
    {{TERP_FLOAT64, false, false, 3, {9, 20, 30}},
     TERP_FIELD_ROUNDED,
     TERP_BOUND_ABSOLUTE,
     1e-15},
    {{TERP_FLOAT32, false, false, 3, {24, 10, 15}},
     TERP_FIELD_MAPS,
     TERP_BOUND_RELATIVE,
     1e-7},
    {{TERP_FLOAT32, false, false, 1, {20000}},
     TERP_FIELD_SINES,
     TERP_BOUND_RELATIVE,
     1e-6},
    {{TERP_FLOAT64, false, false, 2, {83, 121}},
     TERP_FIELD_SINES,
     TERP_BOUND_RELATIVE,
     1e-4},
    {{TERP_FLOAT32, true, false, 3, {27, 31, 29}},
     TERP_FIELD_SINES,
     TERP_BOUND_RELATIVE,
     1e-4},
    {{TERP_FLOAT64, false, true, 4, {2, 27, 31, 29}},
     TERP_FIELD_SINES,
     TERP_BOUND_RELATIVE,
     1e-4},
    {{TERP_FLOAT32, false, false, 4, {13, 12, 14, 15}},
     TERP_FIELD_SINES,
     TERP_BOUND_RELATIVE,
     1e-4},
    {{TERP_FLOAT32, false, false, 1, {20000}},
     TERP_FIELD_NOISE,
     TERP_BOUND_RELATIVE,
     1e-2},
    {{TERP_FLOAT64, false, false, 2, {83, 121}},
     TERP_FIELD_NOISE,
     TERP_BOUND_RELATIVE,
     1e-2},
    {{TERP_FLOAT32, false, false, 3, {27, 31, 29}},
     TERP_FIELD_NOISE,
     TERP_BOUND_RELATIVE,
     1e-2},
    {{TERP_FLOAT64, false, false, 2, {50, 60}},
     TERP_FIELD_OUTLIERS,
     TERP_BOUND_ABSOLUTE,
     1e-6},
    {{TERP_FLOAT32, false, false, 2, {30, 61}},
     TERP_FIELD_HUGE,
     TERP_BOUND_RELATIVE,
     1e-7},
    {{TERP_FLOAT32, false, false, 2, {37, 41}},
     TERP_FIELD_NOISE,
     TERP_BOUND_RELATIVE,
     1e-5},
    {{TERP_FLOAT64, false, false, 3, {24, 10, 15}},
     TERP_FIELD_MAPS,
     TERP_BOUND_RELATIVE,
     1e-9},
    {{TERP_FLOAT32, true, true, 4, {3, 9, 9, 16}},
     TERP_FIELD_GAPS,
     TERP_BOUND_RELATIVE,
     1e-7},
    {{TERP_FLOAT64, false, false, 3, {9, 11, 13}},
     TERP_FIELD_FINE,
     TERP_BOUND_ABSOLUTE,
     1e-300},
    /* Lossless. */
    {{TERP_FLOAT32, false, false, 3, {9, 10, 11}},
     TERP_FIELD_GAPS,
     TERP_BOUND_ABSOLUTE,
     0},
    {{TERP_FLOAT64, true, false, 3, {9, 10, 11}},
     TERP_FIELD_GAPS,
     TERP_BOUND_ABSOLUTE,
     0},
    {{TERP_FLOAT32, true, false, 2, {37, 41}},
     TERP_FIELD_DENORMALS,
     TERP_BOUND_ABSOLUTE,
     0},
    {{TERP_FLOAT64, false, false, 2, {37, 41}},
     TERP_FIELD_DENORMALS,
     TERP_BOUND_ABSOLUTE,
     0},
    {{TERP_FLOAT32, false, true, 3, {5, 20, 30}},
     TERP_FIELD_FINE,
     TERP_BOUND_ABSOLUTE,
     0},
    {{TERP_FLOAT64, false, false, 2, {50, 60}},
     TERP_FIELD_ROUNDED,
     TERP_BOUND_ABSOLUTE,
     0},
    {{TERP_FLOAT32, false, false, 2, {30, 61}},
     TERP_FIELD_HUGE,
     TERP_BOUND_ABSOLUTE,
     0},
    {{TERP_FLOAT32, true, false, 3, {11, 12, 70}},
     TERP_FIELD_FINE,
     TERP_BOUND_ABSOLUTE,
     0},
    {{TERP_FLOAT64, false, true, 4, {2, 11, 12, 40}},
     TERP_FIELD_FINE,
     TERP_BOUND_ABSOLUTE,
     0},
    {{TERP_FLOAT64, false, false, 2, {70, 80}},
     TERP_FIELD_SINES,
     TERP_BOUND_ABSOLUTE,
     0},
    {{TERP_FLOAT32, false, false, 3, {7, 30, 31}},
     TERP_FIELD_COAST,
     TERP_BOUND_ABSOLUTE,
     0},
    {{TERP_FLOAT64, false, false, 1, {5000}},
     TERP_FIELD_OUTLIERS,
     TERP_BOUND_ABSOLUTE,
     0},
    {{TERP_FLOAT32, false, false, 2, {61, 60}},
     TERP_FIELD_NOISE,
     TERP_BOUND_ABSOLUTE,
     0},
    {{TERP_FLOAT32, true, false, 2, {61, 60}},
     TERP_FIELD_MIRRORS,
     TERP_BOUND_ABSOLUTE,
     0},
    {{TERP_FLOAT64, false, true, 3, {3, 21, 60}},
     TERP_FIELD_MIRRORS,
     TERP_BOUND_ABSOLUTE,
     0},
    {{TERP_UINT16, true, false, 2, {61, 60}},
     TERP_FIELD_MIRRORS,
     TERP_BOUND_ABSOLUTE,
     0},
    {{TERP_INT32, false, false, 2, {61, 60}},
     TERP_FIELD_MIRRORS,
     TERP_BOUND_ABSOLUTE,
     0},
    {{TERP_FLOAT32, false, false, 2, {8, 512}},
     TERP_FIELD_GRIDS,
     TERP_BOUND_ABSOLUTE,
     0},
    {{TERP_FLOAT64, false, false, 2, {8, 512}},
     TERP_FIELD_GRIDS,
     TERP_BOUND_ABSOLUTE,
     0},
    {{TERP_FLOAT32, false, false, 2, {30, 61}},
     TERP_FIELD_DECADES,
     TERP_BOUND_ABSOLUTE,
     0},
    {{TERP_FLOAT64, false, false, 2, {30, 61}},
     TERP_FIELD_DECADES,
     TERP_BOUND_ABSOLUTE,
     0},
    {{TERP_FLOAT32, false, false, 2, {61, 60}},
     TERP_FIELD_SPIKES,
     TERP_BOUND_ABSOLUTE,
     0},
    {{TERP_FLOAT32, false, false, 2, {31, 60}},
     TERP_FIELD_SINES,
     TERP_BOUND_ABSOLUTE,
     0},
    {{TERP_FLOAT16, false, false, 2, {61, 60}},
     TERP_FIELD_MIRRORS,
     TERP_BOUND_ABSOLUTE,
     0},
    {{TERP_FLOAT32, false, false, 3, {11, 12, 70}},
     TERP_FIELD_ROUGH,
     TERP_BOUND_POINTWISE,
     1e-2},
    {{TERP_FLOAT64, false, false, 3, {11, 12, 13}},
     TERP_FIELD_GAPS,
     TERP_BOUND_POINTWISE,
     1e-3},
    {{TERP_FLOAT32, false, false, 2, {30, 61}},
     TERP_FIELD_HUGE,
     TERP_BOUND_POINTWISE,
     1e-5},
    {{TERP_FLOAT64, false, true, 2, {30, 61}},
     TERP_FIELD_NOISE,
     TERP_BOUND_POINTWISE,
     1e-8},
    {{TERP_FLOAT32, true, false, 2, {31, 60}},
     TERP_FIELD_OUTLIERS,
     TERP_BOUND_POINTWISE,
     2e-7},
    {{TERP_FLOAT64, false, false, 1, {1500}},
     TERP_FIELD_FINE,
     TERP_BOUND_POINTWISE,
     1e-14},
    {{TERP_FLOAT64, false, false, 1, {1500}},
     TERP_FIELD_OUTLIERS,
     TERP_BOUND_POINTWISE,
     1e-9},
    /* Integers: few different values, bounds that give floats, and the bits of
     * float64. Then 16-bit floats and complex values. */
    {{TERP_INT8, false, false, 2, {31, 60}},
     TERP_FIELD_ROUGH,
     TERP_BOUND_RELATIVE,
     1e-2},
    {{TERP_UINT16, true, false, 3, {9, 10, 11}},
     TERP_FIELD_SMOOTH,
     TERP_BOUND_ABSOLUTE,
     4.5},
    {{TERP_INT32, true, false, 2, {31, 60}},
     TERP_FIELD_SPIKES,
     TERP_BOUND_ABSOLUTE,
     1},
    {{TERP_UINT32, false, true, 3, {5, 20, 30}},
     TERP_FIELD_GAPS,
     TERP_BOUND_ABSOLUTE,
     0},
    {{TERP_INT64, false, false, 2, {31, 60}},
     TERP_FIELD_STEPS,
     TERP_BOUND_ABSOLUTE,
     0},
    {{TERP_INT64, false, false, 2, {31, 60}},
     TERP_FIELD_GAPS,
     TERP_BOUND_ABSOLUTE,
     0},
    {{TERP_UINT64, true, false, 1, {1500}},
     TERP_FIELD_OUTLIERS,
     TERP_BOUND_POINTWISE,
     1e-3},
    {{TERP_UINT8, false, false, 2, {31, 60}},
     TERP_FIELD_CONSTANT,
     TERP_BOUND_ABSOLUTE,
     0},
    {{TERP_FLOAT16, false, false, 3, {9, 10, 11}},
     TERP_FIELD_GAPS,
     TERP_BOUND_ABSOLUTE,
     1e-2},
    {{TERP_FLOAT16, true, false, 2, {31, 60}},
     TERP_FIELD_ROUGH,
     TERP_BOUND_ABSOLUTE,
     0},
    {{TERP_FLOAT16, false, false, 2, {31, 60}},
     TERP_FIELD_OUTLIERS,
     TERP_BOUND_POINTWISE,
     1e-2},
    {{TERP_FLOAT16, false, false, 2, {31, 60}},
     TERP_FIELD_CONSTANT,
     TERP_BOUND_RELATIVE,
     1e-2},
    {{TERP_FLOAT16, false, false, 2, {31, 60}},
     TERP_FIELD_SPIKES,
     TERP_BOUND_RELATIVE,
     1e-1},
    {{TERP_BFLOAT16, true, false, 3, {9, 10, 11}},
     TERP_FIELD_COAST,
     TERP_BOUND_RELATIVE,
     1e-2},
    {{TERP_BFLOAT16, false, false, 2, {31, 60}},
     TERP_FIELD_GAPS,
     TERP_BOUND_ABSOLUTE,
     0},
    {{TERP_BFLOAT16, false, false, 1, {1500}},
     TERP_FIELD_HUGE,
     TERP_BOUND_POINTWISE,
     0.5},
    {{TERP_COMPLEX64, true, false, 3, {9, 10, 11}},
     TERP_FIELD_ROUGH,
     TERP_BOUND_RELATIVE,
     1e-3},
    {{TERP_COMPLEX64, false, false, 2, {31, 60}},
     TERP_FIELD_GAPS,
     TERP_BOUND_ABSOLUTE,
     0},
    {{TERP_COMPLEX128, false, false, 4, {3, 5, 6, 7}},
     TERP_FIELD_SMOOTH,
     TERP_BOUND_POINTWISE,
     1e-3},
    {{TERP_COMPLEX128, true, false, 1, {4000}},
     TERP_FIELD_MAPS,
     TERP_BOUND_ABSOLUTE,
     1e-2},
    {{TERP_COMPLEX64, false, false, 1, {40}},
     TERP_FIELD_NOISE,
     TERP_BOUND_ABSOLUTE,
     1e-30},
};

/* A pointwise bound with a floor. */
static const struct {
    struct terp_chunk chunk;
    enum terp_field field;
    double bound, floor;
} floored[] = {
    {{TERP_FLOAT32, false, false, 3, {11, 12, 13}},
     TERP_FIELD_ROUGH,
     1e-2,
     1e-4},
    {{TERP_FLOAT32, false, false, 2, {30, 61}}, TERP_FIELD_GAPS, 1e-5, 1e-6},
    {{TERP_FLOAT64, true, false, 2, {30, 61}}, TERP_FIELD_SPIKES, 1e-3, 1e-5},
    {{TERP_FLOAT64, false, false, 2, {30, 61}}, TERP_FIELD_NOISE, 1e-7, 1e-9},
};

static bool
write_bytes(const char *path, const void *bytes, uint64_t nbytes)
{
    FILE *file = fopen(path, "wb");
    if (file == NULL)
        return false;
    bool written = fwrite(bytes, 1, nbytes, file) == nbytes;
    return fclose(file) == 0 && written;
}

static bool
write_file(const char *dir, int number, const char *suffix, const void *bytes,
           uint64_t nbytes)
{
    char path[4096];
    int n = snprintf(path, sizeof path, "%s/%d.%s", dir, number, suffix);
    return n >= 0 && (size_t)n < sizeof path &&
           write_bytes(path, bytes, nbytes);
}

/* Writes `kinds`. */
static FILE *kinds;

static bool
make(const char *dir, int number, const struct terp_chunk *chunk,
     enum terp_field field, enum terp_bound_mode bound_mode, double bound,
     double floor, const struct terp_mode *mode)
{
    struct terp_params params = {.size = sizeof params,
                                 .bound_mode = bound_mode,
                                 .bound = bound,
                                 .floor = floor,
                                 .pipeline = mode->pipeline,
                                 .predictor = mode->predictor,
                                 .format = 1};
    uint64_t nbytes = terp_chunk_nbytes(chunk), stream_nbytes, got;
    uint64_t cap_nbytes = terp_encode_bound(chunk);
    uint8_t *values = malloc(nbytes), *stream = malloc(cap_nbytes);
    bool made = false, decoded = false;

    if (values != NULL && stream != NULL) {
        terp_field_make(field, chunk, values);
        made = terp_encode(&params, chunk, values, stream, cap_nbytes,
                           &stream_nbytes, 1) == TERP_OK &&
               terp_decode(stream, stream_nbytes, values, nbytes, &got, 1) ==
                   TERP_OK &&
               write_file(dir, number, "terp", stream, stream_nbytes) &&
               write_file(dir, number, "values", values, nbytes) &&
               reader_agrees(stream, stream_nbytes, nbytes, true, &decoded);
    }
    if (made) {
        reader_write_kinds(stream, stream_nbytes, kinds);
        /* The same as a stream of version 2, where there is one. */
        params.format = 0;
        terp_field_make(field, chunk, values);
        made = terp_encode(&params, chunk, values, stream, cap_nbytes,
                           &stream_nbytes, 1) == TERP_OK &&
               reader_agrees(stream, stream_nbytes, nbytes, true, &decoded);
    }
    if (made)
        reader_write_kinds(stream, stream_nbytes, kinds);
    free(values);
    free(stream);
    return made;
}

/* Tables, which no field is: both decoders agree. */
static bool
make_tables(void)
{
    static const struct terp_chunk tables[] = {
        {TERP_FLOAT32, true, false, 2, {2001, 3}},
        {TERP_UINT8, false, false, 2, {2001, 16}}};
    static uint8_t values[2001 * 16], stream[sizeof values + 64];
    const struct terp_params params = {.bound_mode = TERP_BOUND_ABSOLUTE};
    bool made = true;

    for (size_t t = 0; made && t < COUNT(tables); t++) {
        uint64_t nbytes;
        table_make(&tables[t], values);
        made = terp_encode(&params, &tables[t], values, stream, sizeof stream,
                           &nbytes, 1) == TERP_OK &&
               reader_agrees(stream, nbytes, sizeof values, true, &made) &&
               made;
        if (made)
            reader_write_kinds(stream, nbytes, kinds);
    }
    return made;
}

static bool
make_example(const char *path, const struct terp_chunk *chunk,
             const struct terp_params *params, const void *values)
{
    uint8_t stream[1024];
    uint64_t nbytes;

    return terp_encode(params, chunk, values, stream, sizeof stream, &nbytes,
                       1) == TERP_OK &&
           write_bytes(path, stream, nbytes);
}

/* The examples of doc/format.md. */
static bool
make_examples(const char *dir)
{
    const struct terp_chunk line = {TERP_FLOAT32, false, false, 1, {32}};
    const struct terp_chunk box = {TERP_FLOAT32, false, false, 3, {3, 8, 8}};
    const struct terp_chunk doubles = {TERP_FLOAT64, false, false, 1, {8}};
    struct terp_params params = {.bound_mode = TERP_BOUND_ABSOLUTE,
                                 .bound = 0.5};
    const float fill = -9999;
    float values[3 * 8 * 8];
    const struct terp_chunk integers = {TERP_INT16, false, false, 1, {32}};
    double wide[8];
    int16_t whole[32];
    uint32_t bits;
    char path[9][4096];

    snprintf(path[0], sizeof path[0], "%s/huffman.terp", dir);
    snprintf(path[1], sizeof path[1], "%s/default.terp", dir);
    snprintf(path[2], sizeof path[2], "%s/exact.terp", dir);
    snprintf(path[3], sizeof path[3], "%s/listed.terp", dir);
    snprintf(path[4], sizeof path[4], "%s/tails.terp", dir);
    snprintf(path[5], sizeof path[5], "%s/pointwise.terp", dir);
    snprintf(path[6], sizeof path[6], "%s/integers.terp", dir);
    snprintf(path[7], sizeof path[7], "%s/lossless.terp", dir);
    snprintf(path[8], sizeof path[8], "%s/floor.terp", dir);
    for (int i = 0; i < 32; i++)
        values[i] = (float)(i * i) / 8 + (i == 13 ? 9.0f : 0.0f);
    params.pipeline = TERP_PIPELINE_HUFFMAN;
    params.predictor = TERP_PREDICTOR_SPLINE;
    if (!make_example(path[0], &line, &params, values))
        return false;
    for (int n = 0; n < 3 * 8 * 8; n++) {
        int i = n / 64, j = n / 8 % 8, k = n % 8;
        values[n] =
            j + k > 10 ? fill : (float)(i * i + 2 * j * j + 3 * k * k) / 8;
    }
    memcpy(&bits, &fill, sizeof bits);
    params.pipeline = TERP_PIPELINE_AUTO;
    params.predictor = TERP_PREDICTOR_AUTO;
    params.has_fill = true;
    params.fill_bits = bits;
    if (!make_example(path[1], &box, &params, values))
        return false;
    for (int i = 0; i < 32; i++)
        values[i] = (float)(i * 506 % 509 * 2);
    params = (struct terp_params){.bound_mode = TERP_BOUND_ABSOLUTE,
                                  .bound = 0.25,
                                  .pipeline = TERP_PIPELINE_HUFFMAN,
                                  .predictor = TERP_PREDICTOR_LORENZO};
    if (!make_example(path[2], &line, &params, values))
        return false;
    for (int i = 0; i < 32; i++)
        values[i] = (float)(i == 13 ? 40002 : i * i % 7 * 2);
    if (!make_example(path[3], &line, &params, values))
        return false;
    for (int i = 0; i < 8; i++)
        wide[i] = i * 456420 % 1000003;
    if (!make_example(path[4], &doubles, &params, wide))
        return false;
    for (int i = 0; i < 32; i++)
        values[i] = (float)((i - 12) * (i - 12) * (i - 12)) / 4;
    params = (struct terp_params){.bound_mode = TERP_BOUND_POINTWISE,
                                  .bound = 0.125,
                                  .pipeline = TERP_PIPELINE_HUFFMAN,
                                  .predictor = TERP_PREDICTOR_LORENZO};
    if (!make_example(path[5], &line, &params, values))
        return false;
    for (int i = 0; i < 32; i++)
        whole[i] = (int16_t)(i == 7 ? -30000 : 300 + 3 * (i * i % 10));
    params = (struct terp_params){.bound_mode = TERP_BOUND_RELATIVE,
                                  .bound = 0.125,
                                  .pipeline = TERP_PIPELINE_HUFFMAN,
                                  .predictor = TERP_PREDICTOR_LORENZO,
                                  .has_fill = true,
                                  .fill_bits = (uint16_t)-30000};
    if (!make_example(path[6], &integers, &params, whole))
        return false;
    for (int i = 0; i < 32; i++)
        values[i] = (float)(i - 11) / 7;
    values[11] = -0.0f;
    params = (struct terp_params){.bound_mode = TERP_BOUND_ABSOLUTE,
                                  .pipeline = TERP_PIPELINE_HUFFMAN};
    if (!make_example(path[7], &line, &params, values))
        return false;
    for (int i = 0; i < 32; i++)
        values[i] = (float)((i - 12) * (i - 12) * (i - 12)) / 4;
    params = (struct terp_params){.bound_mode = TERP_BOUND_POINTWISE,
                                  .bound = 0.125,
                                  .floor = 0.5,
                                  .pipeline = TERP_PIPELINE_HUFFMAN,
                                  .predictor = TERP_PREDICTOR_LORENZO};
    return make_example(path[8], &line, &params, values);
}

/* All entries: first the words of symbols, then those of tokens. */
static bool
write_lengths(const char *dir)
{
    static uint8_t lengths[TERP_NENTRIES * (TERP_NSYMBOLS + TERP_NTOKENS)];
    uint8_t *at = lengths;
    char path[4096];

    for (int e = 0; e < TERP_NENTRIES; e++)
        for (int s = 0; s < TERP_NSYMBOLS; s++)
            *at++ = terp_entry_code_nbits[s][e];
    for (int e = 0; e < TERP_NENTRIES; e++)
        for (int t = 0; t < TERP_NTOKENS; t++)
            *at++ = terp_entry_token_nbits[t][e];
    snprintf(path, sizeof path, "%s/lengths", dir);
    return write_bytes(path, lengths, sizeof lengths);
}

/* Completes a stream and decodes it. Returns false if it cannot, or
 * if the two decoders disagree. */
static bool
decode_file(const char *path)
{
    static uint8_t stream[1 << 16], values[1 << 20];
    char to[4096];
    uint64_t got;
    bool decoded;
    FILE *file = fopen(path, "rb");

    if (file == NULL)
        return false;
    uint64_t nbytes = fread(stream, 1, sizeof stream, file);
    fclose(file);
    if (nbytes < TERP_FRAME_DIMS_AT)
        return true;
    terp_frame_seal(stream, nbytes);
    if (!reader_agrees(stream, nbytes, sizeof values, false, &decoded))
        return false;
    if (terp_decode(stream, nbytes, values, sizeof values, &got, 1) != TERP_OK)
        return true;
    snprintf(to, sizeof to, "%s.values", path);
    return write_bytes(to, values, got);
}

/* The 64-bit hash FNV-1a. */
static uint64_t
hash_of(const uint8_t *bytes, uint64_t nbytes)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (uint64_t i = 0; i < nbytes; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* Completes the streams on standard input and prints what each decodes to. */
static bool
try_streams(FILE *in)
{
    static uint8_t stream[1 << 20], values[1 << 21];
    uint8_t length[4];

    for (int i = 0; fread(length, 1, 4, in) == 4; i++) {
        const uint64_t nbytes = load_le(length, 4);
        uint64_t got;
        bool decoded;
        if (nbytes > sizeof stream || fread(stream, 1, nbytes, in) != nbytes)
            return false;
        if (nbytes >= TERP_FRAME_DIMS_AT)
            terp_frame_seal(stream, nbytes);
        /* Decodes a copy of exactly this size, so that a sanitizer detects
         * reads beyond it. */
        uint8_t *copy = malloc(nbytes + (nbytes == 0));
        if (copy == NULL)
            return false;
        memcpy(copy, stream, nbytes);
        if (!reader_agrees(copy, nbytes, sizeof values, false, &decoded)) {
            fprintf(stderr, "make_pairs: stream %d\n", i);
            free(copy);
            return false;
        }
        const enum terp_status st =
            terp_decode(copy, nbytes, values, sizeof values, &got, 1);
        if (st == TERP_OK)
            printf("%016llx\n", (unsigned long long)hash_of(values, got));
        else
            printf("%s\n", terp_status_text(st));
        free(copy);
    }
    return true;
}

static bool
make_pairs(const char *dir)
{
    int number = 0;
    bool made = true;

    /* In all modes, because few fields lead to means. */
    for (int mode = 0; made && mode < TERP_NMODES; mode++)
        made = make(dir, number++, &maps, TERP_FIELD_MAPS, TERP_BOUND_RELATIVE,
                    1e-3, 0, &terp_mode[mode]);
    for (size_t t = 0; t < COUNT(tight); t++)
        for (int mode = 0; made && mode < TERP_NMODES; mode++)
            made = make(dir, number++, &tight[t].chunk, tight[t].field,
                        tight[t].mode, tight[t].bound, 0, &terp_mode[mode]);
    /* Fields, bounds and modes take turns. Their numbers have no common factor,
     * so all combinations occur. */
    for (size_t c = 0; c < COUNT(chunks); c++)
        for (int mode = 0; made && mode < TERP_NMODES; mode++, number++)
            made = make(
                dir, number, &chunks[c],
                (enum terp_field)(number % TERP_NFIELDS), TERP_BOUND_RELATIVE,
                bounds[(size_t)number % COUNT(bounds)], 0, &terp_mode[mode]);
    for (size_t f = 0; f < COUNT(floored); f++)
        for (int mode = 0; made && mode < TERP_NMODES; mode++)
            made = make(dir, number++, &floored[f].chunk, floored[f].field,
                        TERP_BOUND_POINTWISE, floored[f].bound,
                        floored[f].floor, &terp_mode[mode]);
    if (!made)
        fprintf(stderr, "make_pairs: no pair before %d\n", number);
    return made;
}

int
main(int argc, char **argv)
{
    char path[4096];

    if (argc == 2 && strcmp(argv[1], "--try") == 0)
        return try_streams(stdin) ? EXIT_SUCCESS : EXIT_FAILURE;
    for (int i = 2; i < argc; i++)
        if (!decode_file(argv[i])) {
            fprintf(stderr, "make_pairs: cannot decode %s\n", argv[i]);
            return EXIT_FAILURE;
        }
    if (argc != 2) {
        if (argc > 2)
            return EXIT_SUCCESS;
        fputs("usage: make_pairs DIR [FILE...]\n"
              "       make_pairs --try <STREAMS\n",
              stderr);
        return EXIT_FAILURE;
    }
    snprintf(path, sizeof path, "%s/kinds", argv[1]);
    kinds = fopen(path, "w");
    if (kinds == NULL || !make_examples(argv[1]) || !write_lengths(argv[1])) {
        fputs("make_pairs: no examples\n", stderr);
        return EXIT_FAILURE;
    }
    const bool made = make_pairs(argv[1]) && make_tables();
    return fclose(kinds) == 0 && made ? EXIT_SUCCESS : EXIT_FAILURE;
}
