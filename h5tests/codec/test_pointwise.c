/* Pointwise bounds: |x - x'| <= e |x| for every finite value. Zeros and signs
 * stay the same. The check uses exact arithmetic. */
#include <stdio.h>
#include <stdlib.h>

#define TERP_VALUE_NBYTES 8
#include "codec/model/logarithm.h"
#include "cpu/predict/pointwise.h"
#include "h5tests/support/cases.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/fields.h"
#include "h5tests/support/values.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Bounds for logarithms in float32, in float64, and for rounded values. From
 * 1e-7 on float32 has no precision to give up. */
static const double bounds[] = {0.999, 0.5,  0.1,  1e-2,  1e-3,  1e-4,  1e-5,
                                1e-6,  1e-7, 1e-9, 1e-12, 1e-13, 1e-14, 1e-15};

static const struct terp_chunk shapes[] = {
    {TERP_FLOAT32, false, false, 1, {1}},
    {TERP_FLOAT32, false, false, 1, {700}},
    {TERP_FLOAT64, true, false, 2, {21, 33}},
    {TERP_FLOAT32, false, false, 3, {9, 10, 11}},
    {TERP_FLOAT64, false, false, 3, {9, 10, 11}},
    {TERP_FLOAT32, true, true, 4, {3, 7, 6, 5}},
};

static void
check(const char *what, double bound, double floor,
      const struct terp_mode *mode, const struct terp_chunk *chunk,
      const uint8_t *values)
{
    const struct terp_params params = {.bound_mode = TERP_BOUND_POINTWISE,
                                       .bound = bound,
                                       .pipeline = mode->pipeline,
                                       .predictor = mode->predictor,
                                       .floor = floor};
    char name[128];

    snprintf(name, sizeof name, "%s, float%d, rank %d, %g, floor %g, %s", what,
             8 * value_nbytes(chunk->type), chunk->rank, bound, floor,
             mode->name);
    terp_case_check(name, &params, chunk, values);
}

/* Floors: subnormal, the smallest with a valid joint, and up to nearly
 * infinite. */
static const double floors[] = {0x1p-1074, 1e-300, 1e-44, 1e-38, 1e-30, 1e-7,
                                1e-3,      0.1,    1,     1e3,   1e35,  1e300};

/* All modes under all bounds; floors take turns. */
static void
check_all(const char *what, const struct terp_chunk *chunk,
          const uint8_t *values)
{
    static unsigned turn;

    for (size_t b = 0; b < COUNT(bounds); b++) {
        for (int m = 0; m < TERP_NMODES; m++)
            if (terp_case_taken(5))
                check(what, bounds[b], 0, &terp_mode[m], chunk, values);
        for (size_t f = 0; f < COUNT(floors); f++, turn++)
            if (terp_case_taken(5))
                check(what, bounds[b], floors[f],
                      &terp_mode[turn % TERP_NMODES], chunk, values);
    }
}

static void
every_field_keeps_the_bound(void **state)
{
    (void)state;
    for (size_t s = 0; s < COUNT(shapes); s++)
        for (int f = 0; f < TERP_NFIELDS; f++) {
            uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&shapes[s]));
            terp_field_make((enum terp_field)f, &shapes[s], values);
            check_all(terp_field_name[f], &shapes[s], values);
            free(values);
        }
}

/* The bits of value number `i`. */
typedef uint64_t
make_bits(enum terp_type type, uint64_t i);

static uint64_t
any_bits(enum terp_type type, uint64_t i)
{
    (void)type;
    return terp_field_mix(i);
}

/* Around the smallest normal number. */
static uint64_t
tiny_bits(enum terp_type type, uint64_t i)
{
    const int nbits = type == TERP_FLOAT32 ? 26 : 55;
    const uint64_t sign = terp_field_mix(i) >> 63;

    return (terp_field_mix(i) & ((UINT64_C(1) << nbits) - 1)) |
           sign << (type == TERP_FLOAT32 ? 31 : 63);
}

/* Up to the largest number, with infinities and NaN. */
static uint64_t
huge_bits(enum terp_type type, uint64_t i)
{
    return terp_field_mix(i) | (type == TERP_FLOAT32 ? UINT64_C(0xFD) << 23
                                                     : UINT64_C(0x7FD) << 52);
}

/* One magnitude, or a few adjacent ones, with both signs. */
static uint64_t
alike_bits(enum terp_type type, uint64_t i)
{
    const uint64_t sign = terp_field_mix(i) >> 63;
    const double magnitude = 1.7 + 1e-15 * (double)(i / 64 % 7);

    return value_to_bits(type, sign ? -magnitude : magnitude);
}

/* Zeros of both signs, and values between them. */
static uint64_t
zero_bits(enum terp_type type, uint64_t i)
{
    const uint64_t word = terp_field_mix(i);

    return word % 3 == 0   ? 0
           : word % 3 == 1 ? value_to_bits(type, -0.0)
                           : value_to_bits(type, (double)(i % 50) + 0.5);
}

/* A random walk over many magnitudes, with alternating signs. */
static uint64_t
walk_bits(enum terp_type type, uint64_t i)
{
    const uint64_t period = 120;
    const uint64_t step =
        i % period < period / 2 ? i % period : period - i % period;
    double value = 1;

    for (uint64_t n = 0; n < step; n++)
        value *= 1.618;
    value += (double)(terp_field_mix(i) % 1024) / 4096 * value;
    return value_to_bits(type, i / 300 % 2 ? -value : value);
}

static void
any_bits_keep_the_bound(void **state)
{
    static const struct {
        const char *name;
        make_bits *make;
    } contents[] = {{"any bits", any_bits}, {"tiny", tiny_bits},
                    {"huge", huge_bits},    {"alike", alike_bits},
                    {"zeros", zero_bits},   {"walk", walk_bits}};

    (void)state;
    for (size_t s = 0; s < COUNT(shapes); s++)
        for (size_t c = 0; c < COUNT(contents); c++) {
            const struct terp_chunk *chunk = &shapes[s];
            uint8_t *values = terp_case_alloc(terp_chunk_nbytes(chunk));
            for (uint64_t i = 0; i < chunk_nvalues(chunk); i++)
                value_put(chunk, values, i,
                          contents[c].make(chunk->type, 1000 * s + i));
            check_all(contents[c].name, chunk, values);
            free(values);
        }
}

/* A fill value keeps its bits and does not affect other values. */
static void
fill_values_are_kept(void **state)
{
    (void)state;
    for (size_t s = 1; s < COUNT(shapes); s++) {
        const struct terp_chunk *chunk = &shapes[s];
        const uint64_t fill = value_to_bits(chunk->type, -9999);
        uint8_t *values = terp_case_alloc(terp_chunk_nbytes(chunk));
        for (uint64_t i = 0; i < chunk_nvalues(chunk); i++)
            value_put(chunk, values, i,
                      i % 7 < 3 ? fill : walk_bits(chunk->type, i));
        for (size_t b = 0; b < COUNT(bounds); b++) {
            struct terp_params params = {.bound_mode = TERP_BOUND_POINTWISE,
                                         .bound = bounds[b],
                                         .has_fill = true,
                                         .fill_bits = fill};
            terp_case_check("fill", &params, chunk, values);
            params.floor = 1e4;
            terp_case_check("fill and floor", &params, chunk, values);
        }
        free(values);
    }
}

/* Threads and the byte order in memory do not matter. */
static void
bytes_do_not_depend_on_threads(void **state)
{
    const uint64_t dims[] = {70, 80, 90};
    const struct terp_chunk chunk = terp_case_chunk(TERP_FLOAT32, 3, dims);
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));
    uint8_t *decoded = terp_case_alloc(terp_chunk_nbytes(&chunk));
    uint8_t *again = terp_case_alloc(terp_chunk_nbytes(&chunk));

    (void)state;
    terp_field_make(TERP_FIELD_ROUGH, &chunk, values);
    for (size_t b = 0; b < 18; b++) {
        const struct terp_params params = {.bound_mode = TERP_BOUND_POINTWISE,
                                           .bound = bounds[b % 9],
                                           .floor = b < 9 ? 0 : 1e-3};
        struct terp_stream one = terp_case_encode(&params, &chunk, values, 1);
        struct terp_stream three = terp_case_encode(&params, &chunk, values, 3);
        uint64_t nbytes;
        assert_int_equal(one.nbytes, three.nbytes);
        assert_memory_equal(one.bytes, three.bytes, one.nbytes);
        assert_int_equal(terp_decode(one.bytes, one.nbytes, decoded,
                                     terp_chunk_nbytes(&chunk), &nbytes, 1),
                         TERP_OK);
        assert_int_equal(terp_decode(one.bytes, one.nbytes, again,
                                     terp_chunk_nbytes(&chunk), &nbytes, 3),
                         TERP_OK);
        assert_memory_equal(decoded, again, nbytes);
        free(one.bytes);
        free(three.bytes);
    }
    free(values);
    free(decoded);
    free(again);
}

static void
bounds_that_are_none_are_refused(void **state)
{
    static const double none[] = {0, -0.5, 1, 1.5, INFINITY, NAN};

    (void)state;
    for (size_t i = 0; i < COUNT(none); i++) {
        const struct terp_params params = {.bound_mode = TERP_BOUND_POINTWISE,
                                           .bound = none[i]};
        const char *reason = NULL;
        assert_int_equal(terp_params_check(&params, &reason), TERP_ERR_BOUND);
        assert_non_null(reason);
    }
}

static void
floors_that_are_none_are_refused(void **state)
{
    static const struct terp_params wrong[] = {
        {.bound_mode = TERP_BOUND_POINTWISE, .bound = 0.1, .floor = -1},
        {.bound_mode = TERP_BOUND_POINTWISE, .bound = 0.1, .floor = INFINITY},
        {.bound_mode = TERP_BOUND_POINTWISE, .bound = 0.1, .floor = NAN},
        {.bound_mode = TERP_BOUND_RELATIVE, .bound = 0.1, .floor = 1},
        {.bound_mode = TERP_BOUND_ABSOLUTE, .bound = 0, .floor = 1},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(wrong); i++) {
        const char *reason = NULL;
        assert_int_equal(terp_params_check(&wrong[i], &reason), TERP_ERR_BOUND);
        assert_non_null(reason);
    }
}

/* What a stream says of its bound. */
static struct terp_info
info_with_floor(double bound, double floor)
{
    const struct terp_chunk chunk = {TERP_FLOAT32, false, false, 1, {700}};
    const struct terp_params params = {
        .bound_mode = TERP_BOUND_POINTWISE, .bound = bound, .floor = floor};
    struct terp_info info = {.size = sizeof info};
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));

    terp_field_make(TERP_FIELD_ROUGH, &chunk, values); /* up to about 1 */
    struct terp_stream stream = terp_case_encode(&params, &chunk, values, 1);
    assert_int_equal(terp_inspect(stream.bytes, stream.nbytes, &info), TERP_OK);
    free(stream.bytes);
    free(values);
    return info;
}

static void
floors_are_told_by_the_stream(void **state)
{
    (void)state;
    const struct terp_info joined = info_with_floor(1e-2, 1e-4);
    assert_true(joined.pointwise_bound == 1e-2 && joined.floor == 1e-4);
    /* For all values the floor is the bound. */
    const struct terp_info all = info_with_floor(1e-2, 1);
    assert_true(all.pointwise_bound == 0 && all.floor == 0 && all.bound == 1);
    /* Floors below the smallest float32. */
    const struct terp_info none = info_with_floor(1e-2, 1e-60);
    assert_true(none.pointwise_bound == 1e-2 && none.floor == 0);
}

/* ---- the margin for rounding ---- */

/* A value, and what a decoder makes of its logarithm when the quantizer's error
 * is `part` of the bound, up or down. */
static bool
is_kept(double value, enum terp_type type, struct terp_pointwise how,
        double part, double e)
{
    const double off = part * how.bound;
    float k, m;
    double got;

    if (how.form == TERP_POINTWISE_LOG_F32 && type == TERP_FLOAT32) {
        terp_split_f32_in_f32((float)value, how.center, &k, &m);
        const float y = terp_log_f32(k, m, (float)how.offset) + (float)off;
        got = (double)terp_f32_of_log(y, how.center);
    } else if (how.form == TERP_POINTWISE_LOG_F32) {
        terp_split_f64_in_f32(value, how.center, &k, &m);
        const float y = terp_log_f32(k, m, (float)how.offset) + (float)off;
        got = terp_f64_of_log_in_f32(y, how.center);
    } else if (type == TERP_FLOAT32) {
        const double y = terp_log_of_f64(value, how.center, how.offset) + off;
        got = (double)terp_f32_of_log_in_f64(y, how.center);
    } else {
        const double y = terp_log_of_f64(value, how.center, how.offset) + off;
        got = terp_f64_of_log(y, how.center);
    }
    return is_within_pointwise(value, got, e);
}

/* How many of some values of the exponents in a chunk exceed their bound. */
static uint64_t
count_lost(enum terp_type type, double e, int nexponents, bool with_margin)
{
    const int mantissa_nbits = type == TERP_FLOAT32 ? 23 : 52;
    const int bias = type == TERP_FLOAT32 ? 127 : 1023;
    const uint64_t first = (uint64_t)(bias + 5) << mantissa_nbits;
    const struct terp_magnitudes magnitudes = {
        first, first + ((uint64_t)nexponents << mantissa_nbits) - 1, true,
        false};
    struct terp_pointwise how =
        terp_pointwise_of(e, magnitudes, value_nbytes(type));
    uint64_t nlost = 0;

    assert_int_not_equal(how.form, TERP_POINTWISE_ROUNDED);
    if (!with_margin)
        how.bound = terp_pointwise_half_width(e);
    for (uint64_t i = 0; i < UINT64_C(1) << 18; i++) {
        const uint64_t bits =
            first + terp_field_mix(i) % (magnitudes.max_bits - first + 1);
        const double value = value_of_bits(type, bits);
        nlost += !is_kept(value, type, how, 1, e);
        nlost += !is_kept(value, type, how, -1, e);
    }
    return nlost;
}

/* With the margin no value exceeds its bound; without it some would, so the
 * test can notice a missing margin. */
static void
margin_is_what_keeps_the_bound(void **state)
{
    (void)state;
    for (int type = TERP_FLOAT32; type <= TERP_FLOAT64; type++)
        for (int nexponents = 1; nexponents <= 60; nexponents += 59) {
            double e = 0.25;
            for (int i = 0; i < 19; i++) {
                assert_int_equal(
                    count_lost((enum terp_type)type, e, nexponents, true), 0);
                assert_int_not_equal(
                    count_lost((enum terp_type)type, e, nexponents, false), 0);
                e /= 1.9;
            }
        }
}

/* All mantissas of float32, with the margin, in a chunk of one exponent and in
 * a chunk of all exponents. Under a sanitizer only some mantissas. */
static void
every_mantissa_keeps_the_bound(void **state)
{
    static const uint32_t ranges[][2] = {{127u << 23, (128u << 23) - 1},
                                         {2u << 23, (255u << 23) - 1}};
    const uint32_t step = 1 + terp_case_fewer() / 16;

    (void)state;
    for (size_t r = 0; r < COUNT(ranges); r++)
        for (uint32_t field = 2; field < 255; field += r == 0 ? 253 : 63) {
            const struct terp_magnitudes magnitudes = {
                ranges[r][0], ranges[r][1], true, false};
            const struct terp_pointwise how =
                terp_pointwise_of(1e-3, magnitudes, 4);
            uint64_t nlost = 0;
            for (uint32_t m = field % step; m < 1u << 23; m += step) {
                const uint32_t bits = (r == 0 ? 127 : field) << 23 | m;
                const double value = value_of_bits(TERP_FLOAT32, bits);
                nlost += !is_kept(value, TERP_FLOAT32, how, 1, 1e-3);
                nlost += !is_kept(value, TERP_FLOAT32, how, -1, 1e-3);
            }
            assert_int_equal(nlost, 0);
        }
}

/* The same with a floor, by calling the stages: values around the joint, up to
 * 2^span below and above it. */
static uint64_t
count_lost_with_floor(enum terp_type type, double e, double floor, int span,
                      bool with_margin)
{
    enum {
        NVALUES = 1 << 16
    };
    static uint8_t values[8 * NVALUES], coded[8 * NVALUES], got[8 * NVALUES];
    const bool big_endian = TERP_HOST_IS_BIG_ENDIAN; /* as stages get it */
    const struct terp_chunk line = {type, big_endian, false, 1, {NVALUES}};
    const struct cpu_pointwise_stages *stages = type == TERP_FLOAT32
                                                    ? &terp_cpu_pointwise_f32
                                                    : &terp_cpu_pointwise_f64;
    const uint64_t no_fill = UINT64_C(1) << (type == TERP_FLOAT32 ? 31 : 63);
    const struct cpu_fills fills = {{no_fill, no_fill, no_fill}};
    const double joint = floor / e;
    struct terp_magnitudes magnitudes;
    uint64_t nlost = 0;

    for (uint64_t i = 0; i < NVALUES; i++) {
        const uint64_t word = terp_field_mix(i);
        const double m = 1 + (double)(word >> 12) * 0x1p-52;
        const int power = (int)(i % (2 * (uint64_t)span + 1)) - span;
        value_put(&line, values, i,
                  value_to_bits(type, (word & 1 ? -m : m) * joint *
                                          terp_power_of_two(power)));
    }
    stages->magnitudes(values, NVALUES, &fills, &magnitudes);
    struct terp_pointwise how =
        terp_pointwise_floored_of(e, floor, magnitudes, value_nbytes(type));
    assert_int_not_equal(how.form, TERP_POINTWISE_ROUNDED);
    if (!with_margin)
        how.bound = terp_pointwise_width_of_floor(e);
    const struct terp_pointwise_head head = {how.form,   how.signs, e,
                                             how.center, floor,     how.shift};
    const enum terp_type coded_type = terp_pointwise_type(how.form, type);
    const struct terp_chunk coded_line = {
        coded_type, big_endian, false, 1, {NVALUES}};
    for (int part = -1; part <= 1; part += 2) {
        stages->code_floored[how.form](values, NVALUES, &fills, &how, coded);
        for (uint64_t i = 0; i < NVALUES; i++) {
            const double y =
                value_of_bits(coded_type, value_bits(&coded_line, coded, i));
            value_put(&coded_line, coded, i,
                      value_to_bits(coded_type, y + part * how.bound));
        }
        stages->decode_floored[how.form](coded, NVALUES, &head, got);
        for (uint64_t i = 0; i < NVALUES; i++) {
            const double x = value_of_bits(type, value_bits(&line, values, i));
            const double y = value_of_bits(type, value_bits(&line, got, i));
            nlost += !is_within(x, y, floor) && !is_within_pointwise(x, y, e);
        }
    }
    return nlost;
}

static void
margin_keeps_the_bound_with_a_floor(void **state)
{
    static const double of_f32[] = {0x1p-123, 1e-20, 1, 1e20};
    static const double of_f64[] = {0x1p-1018, 1e-200, 1, 1e200};

    (void)state;
    for (int type = TERP_FLOAT32; type <= TERP_FLOAT64; type++)
        for (int span = 0; span <= 20; span += 10)
            for (size_t j = 0; j < COUNT(of_f32); j++) {
                const double joint =
                    type == TERP_FLOAT32 ? of_f32[j] : of_f64[j];
                double e = 0.9;
                for (int i = 0; i < 21; i++) {
                    assert_int_equal(count_lost_with_floor((enum terp_type)type,
                                                           e, joint * e, span,
                                                           true),
                                     0);
                    e /= 1.9;
                }
            }
    /* Without the margin some values exceed the bound. */
    assert_int_not_equal(
        count_lost_with_floor(TERP_FLOAT32, 1e-3, 1e-3, 10, false), 0);
    assert_int_not_equal(
        count_lost_with_floor(TERP_FLOAT64, 1e-6, 1e-6, 10, false), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_keeps_the_bound),
        cmocka_unit_test(any_bits_keep_the_bound),
        cmocka_unit_test(fill_values_are_kept),
        cmocka_unit_test(bytes_do_not_depend_on_threads),
        cmocka_unit_test(bounds_that_are_none_are_refused),
        cmocka_unit_test(floors_that_are_none_are_refused),
        cmocka_unit_test(floors_are_told_by_the_stream),
        cmocka_unit_test(margin_is_what_keeps_the_bound),
        cmocka_unit_test(margin_keeps_the_bound_with_a_floor),
        cmocka_unit_test(every_mantissa_keeps_the_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
