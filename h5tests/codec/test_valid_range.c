/* Limits of decoded values beside the bound: a valid range, and kept signs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/model/bound.h"
#include "h5tests/support/cases.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/fields.h"
#include "h5tests/support/values.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct terp_chunk shapes[] = {
    {TERP_FLOAT32, false, false, 1, {1}},
    {TERP_FLOAT32, false, false, 1, {3000}},
    {TERP_FLOAT64, true, false, 2, {51, 63}},
    {TERP_FLOAT32, false, false, 3, {17, 18, 19}},
    {TERP_FLOAT64, false, true, 4, {3, 9, 10, 11}},
    {TERP_FLOAT16, false, false, 2, {40, 50}},
    {TERP_BFLOAT16, true, false, 2, {40, 50}},
};

static const struct terp_params bounds[] = {
    {.bound_mode = TERP_BOUND_RELATIVE, .bound = 0.1},
    {.bound_mode = TERP_BOUND_RELATIVE, .bound = 1e-2},
    {.bound_mode = TERP_BOUND_RELATIVE, .bound = 1e-3},
    {.bound_mode = TERP_BOUND_RELATIVE, .bound = 1e-5},
    {.bound_mode = TERP_BOUND_ABSOLUTE, .bound = 0.02},
    {.bound_mode = TERP_BOUND_POINTWISE, .bound = 0.3},
    {.bound_mode = TERP_BOUND_POINTWISE, .bound = 1e-3},
    {.bound_mode = TERP_BOUND_POINTWISE, .bound = 1e-7},
    {.bound_mode = TERP_BOUND_POINTWISE, .bound = 1e-2, .floor = 0.05},
    {.bound_mode = TERP_BOUND_PSNR, .bound = 50},
};

/* Raises values from -1 to 1 and clips them: smooth ones stay at both ends for
 * long. */
enum content {
    WHOLE,
    FROM_ZERO,
    BETWEEN,
    BELOW_ZERO,
    NCONTENTS
};

static double
shaped(enum content content, double value)
{
    const double between = value < 0 ? 0 : value > 0.5 ? 0.5 : value;

    return content == FROM_ZERO    ? (value < 0 ? 0 : value * value)
           : content == BETWEEN    ? 2 * between
           : content == BELOW_ZERO ? (value > 0 ? 0 : value)
                                   : value;
}

/* Rounds to the nearest value of a 16-bit type. */
static uint64_t
bits_of_value(enum terp_type type, double value)
{
    const float narrow = (float)value;
    uint32_t word;

    if (type == TERP_FLOAT64)
        return double_bits(value);
    memcpy(&word, &narrow, sizeof word);
    return terp_type_is_half(type) ? terp_half_of_f32_bits(type, word) : word;
}

static void
make_values(enum terp_field field, enum content content,
            const struct terp_chunk *chunk, uint8_t *values)
{
    terp_field_make(field, chunk, values);
    for (uint64_t i = 0; i < chunk_nvalues(chunk); i++) {
        const double value =
            value_of_bits(chunk->type, value_bits(chunk, values, i));
        if (isfinite(value))
            value_put(chunk, values, i,
                      bits_of_value(chunk->type, shaped(content, value)));
    }
}

static void
find_range(const struct terp_chunk *chunk, const uint8_t *values, double *min,
           double *max)
{
    *min = INFINITY;
    *max = -INFINITY;
    for (uint64_t i = 0; i < chunk_nvalues(chunk); i++) {
        const double value =
            value_of_bits(chunk->type, value_bits(chunk, values, i));
        if (!isfinite(value))
            continue;
        *min = value < *min ? value : *min;
        *max = value > *max ? value : *max;
    }
}

/* Fails if a decoded value exceeds a limit that its original keeps. */
static void
check_limits(const char *name, const struct terp_params *params,
             const struct terp_chunk *chunk, const uint8_t *values,
             const uint8_t *decoded)
{
    double min, max;

    find_range(chunk, values, &min, &max);
    const bool of_values = params->keep_sign == TERP_KEEP_SIGN_OF_VALUES;
    const bool of_chunk = params->keep_sign == TERP_KEEP_SIGN_OF_CHUNK;
    for (uint64_t i = 0; i < chunk_nvalues(chunk); i++) {
        const double x =
            value_of_bits(chunk->type, value_bits(chunk, values, i));
        const double y =
            value_of_bits(chunk->type, value_bits(chunk, decoded, i));
        bool passes = params->has_valid_range &&
                      ((x >= params->valid_min && y < params->valid_min) ||
                       (x <= params->valid_max && y > params->valid_max));
        if (of_values || (of_chunk && min >= 0))
            passes |= x >= 0 && y < 0;
        if (of_values || (of_chunk && max <= 0))
            passes |= x <= 0 && y > 0;
        if (passes)
            fail_msg("%s: value %llu, %.17g, decodes to %.17g", name,
                     (unsigned long long)i, x, y);
    }
}

/* Returns the size of the stream. *free_nbytes_ret is the size of the same
 * chunk without limits. */
static uint64_t
check(const char *name, const struct terp_params *params,
      const struct terp_chunk *chunk, const uint8_t *values,
      uint64_t *free_nbytes_ret)
{
    const uint64_t nbytes = terp_chunk_nbytes(chunk);
    struct terp_params without = *params;
    uint8_t *decoded = terp_case_alloc(nbytes);
    uint64_t got;

    without.size = 0;
    struct terp_stream free_stream =
        terp_case_encode(&without, chunk, values, 1);
    struct terp_stream stream = terp_case_encode(params, chunk, values, 1);
    assert_int_equal(
        terp_decode(stream.bytes, stream.nbytes, decoded, nbytes, &got, 1),
        TERP_OK);
    check_limits(name, params, chunk, values, decoded);
    if (params->bound_mode != TERP_BOUND_PSNR)
        terp_case_compare(name, params, chunk, values, decoded,
                          terp_case_bound(params, chunk, values));
    *free_nbytes_ret = free_stream.nbytes;
    free(free_stream.bytes);
    free(stream.bytes);
    free(decoded);
    return stream.nbytes;
}

static struct terp_params
with_limits(const struct terp_params *bound, const struct terp_mode *mode,
            enum terp_keep_sign keep_sign, double min, double max)
{
    struct terp_params params = *bound;

    params.size = sizeof params;
    params.pipeline = mode->pipeline;
    params.predictor = mode->predictor;
    params.keep_sign = keep_sign;
    params.has_valid_range = min < max;
    params.valid_min = min;
    params.valid_max = max;
    return params;
}

static void
check_contents(const struct terp_chunk *chunk, enum terp_field field,
               enum content content, const struct terp_params *bound,
               const struct terp_mode *mode)
{
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(chunk));
    double min, max;
    uint64_t free_nbytes;

    make_values(field, content, chunk, values);
    find_range(chunk, values, &min, &max);
    const double ranges[][2] = {
        {min, max},      {min, INFINITY},          {-INFINITY, max},
        {0.25, 0.75},    {max + 1, max + 2},       {INFINITY, -INFINITY},
        {-0.375, 1.125}, {min / 2, max / 2 + 0.1},
    };
    for (size_t r = 0; r < COUNT(ranges); r++)
        for (int k = 0; k < TERP_NKEEP_SIGNS; k++) {
            char name[160];
            if (!terp_case_taken(7))
                continue;
            const struct terp_params params =
                with_limits(bound, mode, (enum terp_keep_sign)k, ranges[r][0],
                            ranges[r][1]);
            snprintf(name, sizeof name,
                     "%s %d, %s, rank %d, bound %d of %g, %s, from %g to %g, "
                     "signs %d",
                     terp_field_name[field], (int)content,
                     terp_type_name(chunk->type), chunk->rank,
                     (int)bound->bound_mode, bound->bound, mode->name,
                     ranges[r][0], ranges[r][1], k);
            check(name, &params, chunk, values, &free_nbytes);
        }
    free(values);
}

static void
values_keep_their_limits(void **state)
{
    static const enum terp_field fields[] = {
        TERP_FIELD_CONSTANT, TERP_FIELD_RAMP,   TERP_FIELD_SMOOTH,
        TERP_FIELD_ROUGH,    TERP_FIELD_NOISE,  TERP_FIELD_SPIKES,
        TERP_FIELD_STEPS,    TERP_FIELD_GAPS,   TERP_FIELD_COAST,
        TERP_FIELD_MAPS,     TERP_FIELD_MIRRORS};

    (void)state;
    for (size_t s = 0; s < COUNT(shapes); s++)
        for (size_t f = 0; f < COUNT(fields); f++)
            for (int c = 0; c < NCONTENTS; c++)
                for (size_t b = 0; b < COUNT(bounds); b++)
                    for (int m = 0; m < TERP_NMODES; m++)
                        if (terp_case_taken(11))
                            check_contents(&shapes[s], fields[f],
                                           (enum content)c, &bounds[b],
                                           &terp_mode[m]);
}

static void
integers_keep_their_limits(void **state)
{
    static const enum terp_type types[] = {TERP_INT8, TERP_INT32, TERP_INT64,
                                           TERP_UINT8, TERP_UINT16};

    (void)state;
    for (size_t t = 0; t < COUNT(types); t++) {
        const struct terp_chunk chunk = {types[t], t % 2, false, 2, {40, 50}};
        const struct terp_params params = {.size = sizeof params,
                                           .bound_mode = TERP_BOUND_ABSOLUTE,
                                           .bound = 5,
                                           .keep_sign = TERP_KEEP_SIGN_OF_CHUNK,
                                           .has_valid_range = true,
                                           .valid_min = 20,
                                           .valid_max = 100};
        uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));
        uint8_t *decoded = terp_case_alloc(terp_chunk_nbytes(&chunk));
        uint64_t got;
        for (uint64_t i = 0; i < chunk_nvalues(&chunk); i++) {
            const uint64_t wave = i % 240 < 120 ? i % 240 : 239 - i % 240;
            value_put(&chunk, values, i,
                      wave < 20    ? 20
                      : wave > 100 ? 100
                                   : wave + terp_field_mix(i) % 3);
        }
        struct terp_stream stream =
            terp_case_encode(&params, &chunk, values, 1);
        assert_int_equal(terp_decode(stream.bytes, stream.nbytes, decoded,
                                     terp_chunk_nbytes(&chunk), &got, 1),
                         TERP_OK);
        for (uint64_t i = 0; i < chunk_nvalues(&chunk); i++) {
            const int x = (int)value_bits(&chunk, values, i);
            const int y = (int)value_bits(&chunk, decoded, i);
            assert_in_range(y, x - 5, x + 5);
            assert_false(y < 20 || (x <= 100 && y > 100));
        }
        /* The bound is large enough to change some values. */
        assert_memory_not_equal(values, decoded, terp_chunk_nbytes(&chunk));
        free(stream.bytes);
        free(values);
        free(decoded);
    }
}

/* Values far from zero give the same bytes with and without limits. Near zero
 * limits cost little of the stream's size. */
static void
limits_cost_little(void **state)
{
    const struct terp_chunk chunk = {
        TERP_FLOAT32, false, false, 3, {64, 64, 64}};
    const struct terp_params bound = {.bound_mode = TERP_BOUND_RELATIVE,
                                      .bound = 1e-2};
    const struct terp_params params = with_limits(
        &bound, &terp_mode[0], TERP_KEEP_SIGN_OF_CHUNK, INFINITY, -INFINITY);
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));
    uint64_t free_nbytes, nbytes;

    (void)state;
    make_values(TERP_FIELD_ROUGH, FROM_ZERO, &chunk, values);
    nbytes = check("rough from zero", &params, &chunk, values, &free_nbytes);
    assert_true(nbytes > free_nbytes); /* limits made a difference */
    assert_true(nbytes < 2 * free_nbytes);
    for (uint64_t i = 0; i < chunk_nvalues(&chunk); i++)
        value_put(
            &chunk, values, i,
            bits_of_value(
                chunk.type,
                3 + value_of_bits(chunk.type, value_bits(&chunk, values, i))));
    struct terp_params without = params;
    without.size = 0;
    struct terp_stream kept = terp_case_encode(&params, &chunk, values, 1);
    struct terp_stream same = terp_case_encode(&without, &chunk, values, 1);
    assert_int_equal(kept.nbytes, same.nbytes);
    assert_memory_equal(kept.bytes, same.bytes, same.nbytes);
    free(kept.bytes);
    free(same.bytes);
    free(values);
}

static void
threads_do_not_change_streams(void **state)
{
    const struct terp_chunk chunk = {
        TERP_FLOAT32, false, false, 3, {64, 64, 64}};
    const struct terp_params bound = {.bound_mode = TERP_BOUND_RELATIVE,
                                      .bound = 1e-2};
    const struct terp_params params =
        with_limits(&bound, &terp_mode[0], TERP_KEEP_SIGN_OF_VALUES, 0, 0.25);
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));

    (void)state;
    make_values(TERP_FIELD_ROUGH, FROM_ZERO, &chunk, values);
    terp_case_check_threads(&params, &chunk, values);
    free(values);
}

/* Fill values do not count as negative, not even detected ones. */
static void
fill_values_do_not_count(void **state)
{
    const struct terp_chunk chunk = {TERP_FLOAT32, false, false, 2, {64, 64}};
    const struct terp_params bound = {.bound_mode = TERP_BOUND_ABSOLUTE,
                                      .bound = 0.05};
    struct terp_params params = with_limits(
        &bound, &terp_mode[0], TERP_KEEP_SIGN_OF_CHUNK, INFINITY, -INFINITY);
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));
    uint8_t *decoded = terp_case_alloc(terp_chunk_nbytes(&chunk));
    uint64_t got;

    (void)state;
    make_values(TERP_FIELD_SMOOTH, FROM_ZERO, &chunk, values);
    for (uint64_t i = 0; i < 64 * 64; i += 5)
        value_put(&chunk, values, i, bits_of_value(chunk.type, -9999));
    for (int told = 0; told < 2; told++) {
        params.has_fill = told;
        params.fill_bits = bits_of_value(chunk.type, -9999);
        struct terp_stream stream =
            terp_case_encode(&params, &chunk, values, 1);
        assert_int_equal(terp_decode(stream.bytes, stream.nbytes, decoded,
                                     terp_chunk_nbytes(&chunk), &got, 1),
                         TERP_OK);
        for (uint64_t i = 0; i < 64 * 64; i++) {
            const double y =
                value_of_bits(chunk.type, value_bits(&chunk, decoded, i));
            assert_true(i % 5 == 0 ? y == -9999 : y >= 0);
        }
        free(stream.bytes);
    }
    free(values);
    free(decoded);
}

static void
wrong_limits_are_refused(void **state)
{
    struct terp_params params = {.size = sizeof params,
                                 .bound_mode = TERP_BOUND_ABSOLUTE,
                                 .bound = 1,
                                 .has_valid_range = true,
                                 .valid_min = 1,
                                 .valid_max = 0};
    const char *reason;

    (void)state;
    assert_int_equal(terp_params_check(&params, &reason), TERP_ERR_ARGUMENT);
    assert_non_null(strstr(reason, "valid_min"));
    params.valid_max = NAN;
    assert_int_equal(terp_params_check(&params, &reason), TERP_ERR_ARGUMENT);
    params.valid_max = INFINITY;
    assert_int_equal(terp_params_check(&params, &reason), TERP_OK);
    params.keep_sign = TERP_NKEEP_SIGNS;
    assert_int_equal(terp_params_check(&params, &reason), TERP_ERR_ARGUMENT);
    assert_non_null(strstr(reason, "keep_sign"));
    params.size--;
    assert_int_equal(terp_params_check(&params, &reason), TERP_ERR_ARGUMENT);
    assert_non_null(strstr(reason, "size"));
    /* The struct of version 1.0 ends before this member. */
    params.size = offsetof(struct terp_params, keep_sign);
    assert_int_equal(terp_params_check(&params, &reason), TERP_OK);
    params.size = 0;
    assert_int_equal(terp_params_check(&params, &reason), TERP_OK);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_keep_their_limits),
        cmocka_unit_test(integers_keep_their_limits),
        cmocka_unit_test(limits_cost_little),
        cmocka_unit_test(threads_do_not_change_streams),
        cmocka_unit_test(fill_values_do_not_count),
        cmocka_unit_test(wrong_limits_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
