/* Streams that depend on rare choices of the encoder. A wrong choice would only
 * change the size, and a round trip could not notice. So each case keeps its
 * bound, and a digest checks that its stream has not changed. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/format/base.h"
#include "codec/format/coding.h"
#include "codec/format/frame.h"
#include "h5tests/support/cases.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/fields.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Changes a field before encoding. */
typedef void
changer(const struct terp_chunk *chunk, uint8_t *values);

static void
put(const struct terp_chunk *chunk, uint8_t *values, uint64_t i, double value)
{
    const float narrow = (float)value;

    if (chunk->type == TERP_FLOAT32)
        memcpy(values + 4 * i, &narrow, 4);
    else
        memcpy(values + 8 * i, &value, 8);
}

static uint64_t
nvalues_of(const struct terp_chunk *chunk)
{
    return terp_chunk_nbytes(chunk) / (chunk->type == TERP_FLOAT32 ? 4 : 8);
}

static void
as_it_is(const struct terp_chunk *chunk, uint8_t *values)
{
    (void)chunk;
    (void)values;
}

#define FILL -1e20
#define MISSING 12345

/* Two fill values, in runs and alone, with both signs. */
static void
with_fills(const struct terp_chunk *chunk, uint8_t *values)
{
    for (uint64_t i = 0; i < nvalues_of(chunk); i++)
        if (terp_field_mix(i / 7) % 5 == 0 || i % 97 == 3)
            put(chunk, values, i, i / 7 % 3 == 0 ? MISSING : FILL);
}

/* Negative except in the first row, so differences between rows are as large as
 * the values. */
static void
with_a_row_of_signs(const struct terp_chunk *chunk, uint8_t *values)
{
    const uint64_t row = chunk->dims[chunk->rank - 1];

    for (uint64_t i = 0; i < nvalues_of(chunk); i++)
        put(chunk, values, i, (i < row ? 1 : -1) * (1 + (double)(i % 17)));
}

/* Positive except in every fourth row. */
static void
with_rows_of_signs(const struct terp_chunk *chunk, uint8_t *values)
{
    const uint64_t row = chunk->dims[chunk->rank - 1];

    for (uint64_t i = 0; i < nvalues_of(chunk); i++)
        put(chunk, values, i,
            (i / row % 4 == 1 ? -1 : 1) * (2 + (double)(i % 23)));
}

/* The second half is constant, so its differences have no low bits. */
static void
with_a_still_half(const struct terp_chunk *chunk, uint8_t *values)
{
    for (uint64_t i = nvalues_of(chunk) / 2; i < nvalues_of(chunk); i++)
        put(chunk, values, i, 0.5);
}

/* Magnitudes of float64; the least is 0. */
static void
without_signs(const struct terp_chunk *chunk, uint8_t *values)
{
    for (uint64_t i = 0; i < nvalues_of(chunk); i++)
        values[8 * i + 7] &= 0x7f;
    memset(values, 0, 8);
}

static const struct {
    const char *name;
    struct terp_chunk chunk;
    enum terp_field field;
    changer *change;
    struct terp_params params;
    uint64_t digest;
} cases[] = {
    {"fills",
     {TERP_FLOAT32, false, false, 2, {61, 131}},
     TERP_FIELD_ROUGH,
     with_fills,
     {.bound_mode = TERP_BOUND_RELATIVE, .bound = 1e-3},
     UINT64_C(0x639f009246f3216b)},
    {"fills and logarithms",
     {TERP_FLOAT32, false, false, 2, {61, 131}},
     TERP_FIELD_ROUGH,
     with_fills,
     {.bound_mode = TERP_BOUND_POINTWISE, .bound = 1e-2},
     UINT64_C(0xf944b273c8531db7)},
    {"fills and wide logarithms",
     {TERP_FLOAT64, false, false, 1, {5003}},
     TERP_FIELD_FINE,
     with_fills,
     {.bound_mode = TERP_BOUND_POINTWISE, .bound = 1e-7},
     UINT64_C(0xa987e311fde04005)},
    {"fills and rounded bits",
     {TERP_FLOAT64, false, false, 1, {5003}},
     TERP_FIELD_FINE,
     with_fills,
     {.bound_mode = TERP_BOUND_POINTWISE, .bound = 1e-14},
     UINT64_C(0x4e8805c70c431205)},
    {"fills and a floor",
     {TERP_FLOAT32, true, false, 3, {11, 13, 40}},
     TERP_FIELD_ROUGH,
     with_fills,
     {.bound_mode = TERP_BOUND_POINTWISE, .bound = 1e-2, .floor = 1e-4},
     UINT64_C(0x4a2a37a1de93b05e)},
    {"a floor in haste",
     {TERP_FLOAT64, false, false, 2, {61, 131}},
     TERP_FIELD_GAPS,
     as_it_is,
     {.bound_mode = TERP_BOUND_POINTWISE,
      .bound = 1e-3,
      .floor = 1e-3,
      .effort = TERP_EFFORT_FAST},
     UINT64_C(0x5491391d868b702e)},
    {"fills, all bits",
     {TERP_FLOAT64, false, false, 2, {61, 131}},
     TERP_FIELD_FINE,
     with_fills,
     {.bound_mode = TERP_BOUND_ABSOLUTE},
     UINT64_C(0x6df7670da1dab2d4)},
    {"fills, all bits of float32",
     {TERP_FLOAT32, false, false, 2, {61, 131}},
     TERP_FIELD_ROUGH,
     with_fills,
     {.bound_mode = TERP_BOUND_ABSOLUTE},
     UINT64_C(0x457a261afb6a8f2c)},
    {"a row of signs",
     {TERP_FLOAT32, false, false, 2, {5, 300}},
     TERP_FIELD_CONSTANT,
     with_a_row_of_signs,
     {.bound_mode = TERP_BOUND_POINTWISE, .bound = 0.05},
     UINT64_C(0x35fe8a06cb5eff78)},
    {"rows of signs",
     {TERP_FLOAT32, false, false, 3, {5, 40, 21}},
     TERP_FIELD_CONSTANT,
     with_rows_of_signs,
     {.bound_mode = TERP_BOUND_POINTWISE, .bound = 0.05},
     UINT64_C(0x927e425f054559aa)},
    {"maps of signs",
     {TERP_FLOAT64, false, true, 4, {5, 4, 10, 70}},
     TERP_FIELD_MAPS,
     as_it_is,
     {.bound_mode = TERP_BOUND_POINTWISE, .bound = 0.05},
     UINT64_C(0x352768dc3a20e4ae)},
    {"still half of tails",
     {TERP_FLOAT64, false, false, 2, {100, 100}},
     TERP_FIELD_FINE,
     with_a_still_half,
     {.bound_mode = TERP_BOUND_RELATIVE,
      .bound = 1e-12,
      .predictor = TERP_PREDICTOR_LORENZO,
      .effort = TERP_EFFORT_FAST},
     UINT64_C(0x120f3bdd9065cbf1)},
    {"still half of tails of float32",
     {TERP_FLOAT32, false, false, 1, {9000}},
     TERP_FIELD_NOISE,
     with_a_still_half,
     {.bound_mode = TERP_BOUND_RELATIVE,
      .bound = 1e-7,
      .predictor = TERP_PREDICTOR_LORENZO,
      .effort = TERP_EFFORT_FAST},
     UINT64_C(0xd9ac689b85b6e963)},
    {"prefixes of reduced tiles",
     {TERP_FLOAT32, false, false, 3, {64, 64, 80}},
     TERP_FIELD_ROUGH,
     as_it_is,
     {.bound_mode = TERP_BOUND_RELATIVE, .bound = 0.02},
     UINT64_C(0xcd450cb9c358ae71)},
    {"mirrors above 0",
     {TERP_FLOAT64, false, false, 2, {220, 300}},
     TERP_FIELD_MIRRORS,
     without_signs,
     {.bound_mode = TERP_BOUND_RELATIVE, .bound = 1e-4},
     UINT64_C(0x7ac355ca8fc9f6b7)},
    {"splines where lorenzo would have tails",
     {TERP_FLOAT64, false, false, 1, {5003}},
     TERP_FIELD_SINES,
     as_it_is,
     {.bound_mode = TERP_BOUND_RELATIVE, .bound = 1e-8},
     UINT64_C(0x8b798a10b4572907)},
};

/* Adds words to a digest, in the same byte order on every machine. */
static uint64_t
digest_of(const uint8_t *bytes, uint64_t nbytes)
{
    uint64_t digest = nbytes;

    for (uint64_t i = 0; i < nbytes; i++)
        digest = terp_field_digest(digest, bytes[i]);
    return digest;
}

static void
rare_streams_are_as_ever(void **state)
{
    int nothers = 0;

    (void)state;
    for (size_t c = 0; c < COUNT(cases); c++) {
        const struct terp_chunk *chunk = &cases[c].chunk;
        uint8_t *values = terp_case_alloc(terp_chunk_nbytes(chunk));
        struct terp_params params = cases[c].params;
        uint64_t digest = 0;

        terp_field_make(cases[c].field, chunk, values);
        cases[c].change(chunk, values);
        if (cases[c].change == with_fills) {
            const float fill = (float)FILL, missing = (float)MISSING;
            uint32_t bits;
            params.has_fill = params.has_missing = true;
            params.fill_bits = double_bits(FILL);
            params.missing_bits = double_bits(MISSING);
            if (chunk->type == TERP_FLOAT32) {
                memcpy(&bits, &fill, sizeof bits);
                params.fill_bits = bits;
                memcpy(&bits, &missing, sizeof bits);
                params.missing_bits = bits;
            }
        }
        for (int mode = 0; mode < 2; mode++) {
            params.pipeline =
                mode == 0 ? TERP_PIPELINE_RATIO : TERP_PIPELINE_HUFFMAN;
            terp_case_check(cases[c].name, &params, chunk, values);
            struct terp_stream stream =
                terp_case_encode(&params, chunk, values, 1);
            digest ^= digest_of(stream.bytes, stream.nbytes) + (uint64_t)mode;
            free(stream.bytes);
        }
        if (digest != cases[c].digest) {
            fprintf(stderr, "%s: 0x%016" PRIx64 "\n", cases[c].name, digest);
            nothers++;
        }
        free(values);
    }
    assert_int_equal(nothers, 0);
}

/* The highest effort tries every prediction and pipeline, except where the
 * caller has chosen one. */
static void
all_effort_keeps_the_pipeline_that_is_asked_for(void **state)
{
    static const enum terp_pipeline pipelines[] = {TERP_PIPELINE_HUFFMAN,
                                                   TERP_PIPELINE_RATIO};
    const struct terp_chunk chunk = {
        TERP_FLOAT32, false, false, 3, {11, 23, 40}};
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));
    uint64_t least_nbytes = UINT64_MAX;
    struct terp_params params = {.bound_mode = TERP_BOUND_RELATIVE,
                                 .bound = 1e-3,
                                 .effort = TERP_EFFORT_BEST};

    (void)state;
    terp_field_make(TERP_FIELD_ROUGH, &chunk, values);
    for (size_t i = 0; i < COUNT(pipelines); i++) {
        params.pipeline = pipelines[i];
        const uint64_t nbytes =
            terp_case_check("all effort", &params, &chunk, values);
        struct terp_stream stream =
            terp_case_encode(&params, &chunk, values, 1);
        assert_int_equal(stream.bytes[TERP_FRAME_CODING_AT],
                         terp_coding_of(pipelines[i]));
        least_nbytes = nbytes < least_nbytes ? nbytes : least_nbytes;
        free(stream.bytes);
    }
    params.pipeline = TERP_PIPELINE_AUTO;
    assert_int_equal(terp_case_check("all effort", &params, &chunk, values),
                     least_nbytes);
    free(values);
}

/* Runs of one value each, all adjacent. A writer that searched for the end of
 * each run would exceed the test's time limit. */
static void
fills_by_turns_take_no_longer(void **state)
{
    const struct terp_chunk chunk = {TERP_FLOAT32, false, false, 1, {1 << 23}};
    const struct terp_params params = {.bound_mode = TERP_BOUND_ABSOLUTE,
                                       .bound = 1e-3,
                                       .has_fill = true,
                                       .fill_bits = 0xC479C000, /* -999 */
                                       .has_missing = true};
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));

    (void)state;
    for (uint64_t i = 0; i < nvalues_of(&chunk); i++)
        put(&chunk, values, i, i % 2 ? -999 : 0);
    put(&chunk, values, 1 << 22, 1.5);
    terp_case_check("fills by turns", &params, &chunk, values);
    free(values);
}

static uint64_t
nbytes_by(enum terp_predictor predictor, const struct terp_chunk *chunk,
          const uint8_t *values)
{
    const struct terp_params params = {.bound_mode = TERP_BOUND_RELATIVE,
                                       .bound = 1e-2,
                                       .predictor = predictor};

    return terp_case_check("by a predictor", &params, chunk, values);
}

/* Each plane has a scale of its own, like levels of the atmosphere. The
 * estimate of splines is then too high. */
static void
planes_of_other_scales_are_coded_by_both_predictors(void **state)
{
    const struct terp_chunk chunk = {
        TERP_FLOAT32, false, false, 3, {26, 72, 96}};
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));
    const uint64_t plane_nvalues = chunk.dims[1] * chunk.dims[2];
    float value, scale = 1;

    (void)state;
    terp_field_make(TERP_FIELD_INTEGERS, &chunk, values);
    for (uint64_t i = 0; i < nvalues_of(&chunk); i++) {
        memcpy(&value, values + 4 * i, 4);
        put(&chunk, values, i, value * scale);
        if ((i + 1) % plane_nvalues == 0)
            scale *= 0.75f;
    }
    const uint64_t of_splines =
        nbytes_by(TERP_PREDICTOR_SPLINE, &chunk, values);
    assert_true(of_splines < nbytes_by(TERP_PREDICTOR_LORENZO, &chunk, values));
    assert_int_equal(nbytes_by(TERP_PREDICTOR_AUTO, &chunk, values),
                     of_splines);
    free(values);
}

/* Labels, or subnormal numbers: their structure is lost under a bound. */
static void
make_exact(enum terp_type type, const struct terp_chunk *chunk, uint8_t *values)
{
    if (type == TERP_FLOAT32)
        terp_field_make(TERP_FIELD_DENORMALS, chunk, values);
    for (uint64_t i = 0; type == TERP_INT32 && i < (1 << 17); i++) {
        const uint32_t label =
            (uint32_t)(terp_field_mix(i / 3) % 300 * 7919 % 100003);
        memcpy(values + 4 * i, &label, 4);
    }
}

static void
no_stream_under_a_bound_exceeds_the_lossless_one(void **state)
{
    static const struct {
        const char *name;
        enum terp_type type;
        struct terp_params params;
    } kinds[] = {
        {"labels", TERP_INT32, {.bound_mode = TERP_BOUND_ABSOLUTE, .bound = 2}},
        {"subnormal",
         TERP_FLOAT32,
         {.bound_mode = TERP_BOUND_RELATIVE, .bound = 1e-6}},
    };
    const struct terp_params lossless = {.bound_mode = TERP_BOUND_ABSOLUTE};

    (void)state;
    for (int kind = 0; kind < (int)COUNT(kinds); kind++) {
        const struct terp_chunk chunk = {
            kinds[kind].type, false, false, 2, {256, 512}};
        uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));
        make_exact(kinds[kind].type, &chunk, values);
        const uint64_t least =
            terp_case_check(kinds[kind].name, &lossless, &chunk, values);
        assert_true(least < terp_chunk_nbytes(&chunk) * 9 / 10);
        assert_true(terp_case_check(kinds[kind].name, &kinds[kind].params,
                                    &chunk, values) <= least);
        free(values);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rare_streams_are_as_ever),
        cmocka_unit_test(fills_by_turns_take_no_longer),
        cmocka_unit_test(all_effort_keeps_the_pipeline_that_is_asked_for),
        cmocka_unit_test(planes_of_other_scales_are_coded_by_both_predictors),
        cmocka_unit_test(no_stream_under_a_bound_exceeds_the_lossless_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
