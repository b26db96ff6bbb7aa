/* Types other than float32 and float64: bounds, exact values, extremes, and
 * damaged streams. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "codec/format/frame.h"
#include "codec/model/carrier.h"
#include "h5tests/support/cases.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/fields.h"
#include "h5tests/support/values.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct terp_chunk shapes[] = {
    {TERP_BYTES, false, false, 1, {1}},
    {TERP_BYTES, true, false, 1, {700}},
    {TERP_BYTES, false, false, 2, {21, 33}},
    {TERP_BYTES, true, false, 3, {9, 10, 11}},
    {TERP_BYTES, false, true, 4, {3, 7, 6, 5}},
};

struct bound {
    enum terp_bound_mode mode;
    double bound;
};

static const struct bound bounds[] = {
    {TERP_BOUND_ABSOLUTE, 0},    {TERP_BOUND_ABSOLUTE, 0.9},
    {TERP_BOUND_ABSOLUTE, 1},    {TERP_BOUND_ABSOLUTE, 2.9},
    {TERP_BOUND_ABSOLUTE, 1000}, {TERP_BOUND_ABSOLUTE, 1e30},
    {TERP_BOUND_RELATIVE, 1e-2}, {TERP_BOUND_POINTWISE, 1e-2},
};

static struct terp_chunk
chunk_of(enum terp_type type, const struct terp_chunk *shape)
{
    struct terp_chunk chunk = *shape;
    chunk.type = type;
    return chunk;
}

static struct terp_params
params_of(struct bound bound, const struct terp_mode *mode)
{
    return (struct terp_params){.bound_mode = bound.mode,
                                .bound = bound.bound,
                                .pipeline = mode->pipeline,
                                .predictor = mode->predictor};
}

/* Encodes, inspects and decodes. The caller frees the values. */
static uint8_t *
code(const struct terp_params *params, const struct terp_chunk *chunk,
     const uint8_t *values, struct terp_info *info)
{
    const uint64_t nbytes = terp_chunk_nbytes(chunk);
    uint8_t *decoded = terp_case_alloc(nbytes);
    struct terp_stream stream = terp_case_encode(params, chunk, values, 1);
    uint64_t got;

    *info = (struct terp_info){.size = sizeof *info};
    assert_int_equal(terp_inspect(stream.bytes, stream.nbytes, info), TERP_OK);
    assert_int_equal(info->chunk.type, chunk->type);
    assert_int_equal(info->chunk.big_endian, chunk->big_endian);
    assert_int_equal(info->chunk_nbytes, nbytes);
    assert_int_equal(
        terp_decode(stream.bytes, stream.nbytes, decoded, nbytes, &got, 1),
        TERP_OK);
    assert_int_equal(got, nbytes);
    free(stream.bytes);
    return decoded;
}

/* ---- integers ---- */

static uint64_t
integer_at(const struct terp_chunk *chunk, const uint8_t *values, uint64_t i)
{
    return terp_integer_of_word(chunk->type, value_bits(chunk, values, i));
}

/* |x - y|, which may need 64 bits. */
static uint64_t
distance(enum terp_type type, uint64_t x, uint64_t y)
{
    const bool above =
        terp_type_is_signed(type) ? (int64_t)x > (int64_t)y : x > y;
    return above ? x - y : y - x;
}

static void
check_integers(const char *what, const struct terp_params *params,
               const struct terp_chunk *chunk, const uint8_t *values)
{
    struct terp_info info;
    uint8_t *decoded = code(params, chunk, values, &info);
    const double bound =
        params->bound_mode == TERP_BOUND_ABSOLUTE && params->bound >= 1
            ? params->bound
            : 0;

    assert_true(info.bound <= bound);
    assert_true(info.pointwise_bound == 0);
    for (uint64_t i = 0; i < chunk_nvalues(chunk); i++) {
        const uint64_t x = integer_at(chunk, values, i);
        const uint64_t y = integer_at(chunk, decoded, i);
        const bool exact = params->has_fill &&
                           value_bits(chunk, values, i) == params->fill_bits;
        if ((double)distance(chunk->type, x, y) > (exact ? 0 : bound))
            fail_msg("%s, %s, bound %g: value %" PRIu64 ": %" PRIx64
                     " became %" PRIx64,
                     what, terp_type_name(chunk->type), params->bound, i, x, y);
    }
    free(decoded);
}

static void
integers_keep_every_bound(void **state)
{
    (void)state;
    for (int type = TERP_INT8; type <= TERP_UINT64; type++)
        for (size_t s = 0; s < COUNT(shapes); s++)
            for (int f = 0; f < TERP_NFIELDS; f++) {
                const struct terp_chunk chunk =
                    chunk_of((enum terp_type)type, &shapes[s]);
                uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));
                terp_field_make((enum terp_field)f, &chunk, values);
                for (size_t b = 0; b < COUNT(bounds); b++) {
                    const struct terp_params params = params_of(
                        bounds[b],
                        &terp_mode[(s + b + (size_t)f) % TERP_NMODES]);
                    if (terp_case_taken(1))
                        check_integers(terp_field_name[f], &params, &chunk,
                                       values);
                }
                free(values);
            }
}

/* Integers by number, as words; the type takes its low bits. */
typedef uint64_t
make_integer(enum terp_type type, uint64_t i);

static uint64_t
any_integer(enum terp_type type, uint64_t i)
{
    (void)type;
    return terp_field_mix(i);
}

static uint64_t
extreme_integer(enum terp_type type, uint64_t i)
{
    const uint64_t lowest = terp_lowest_integer(type);
    const uint64_t all[] = {lowest, lowest + terp_integer_range(type), 0,
                            UINT64_MAX, 1};
    return all[terp_field_mix(i) % COUNT(all)];
}

static uint64_t
highest_integer(enum terp_type type, uint64_t i)
{
    (void)i;
    return terp_lowest_integer(type) + terp_integer_range(type);
}

/* A narrow range at the top of the type. */
static uint64_t
high_integer(enum terp_type type, uint64_t i)
{
    return highest_integer(type, i) - terp_field_mix(i) % 100;
}

/* Multiples of 7, plus an odd number. */
static uint64_t
scaled_integer(enum terp_type type, uint64_t i)
{
    return terp_lowest_integer(type) + 3 + terp_field_mix(i) % 30 * 7;
}

/* Two values whose distance exceeds a scale of 63 bits. */
static uint64_t
far_integer(enum terp_type type, uint64_t i)
{
    return terp_field_mix(i) % 2 ? highest_integer(type, i)
                                 : terp_lowest_integer(type);
}

/* Close values in a range of 60 bits. */
static uint64_t
wide_integer(enum terp_type type, uint64_t i)
{
    (void)type;
    return ((i * i) << 40) + terp_field_mix(i) % 1000;
}

static make_integer *const integer_makers[] = {
    any_integer,    extreme_integer, highest_integer, high_integer,
    scaled_integer, far_integer,     wide_integer};

static void
integers_of_any_range_come_back(void **state)
{
    static const uint64_t dims[] = {1003};
    static const struct bound some[] = {{TERP_BOUND_ABSOLUTE, 0},
                                        {TERP_BOUND_ABSOLUTE, 3},
                                        {TERP_BOUND_ABSOLUTE, 1e10},
                                        {TERP_BOUND_RELATIVE, 1e-3}};

    (void)state;
    for (int t = TERP_INT8; t <= TERP_UINT64; t++)
        for (size_t m = 0; m < COUNT(integer_makers); m++) {
            const enum terp_type type = (enum terp_type)t;
            const struct terp_chunk chunk = terp_case_chunk(type, 1, dims);
            uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));
            for (uint64_t i = 0; i < dims[0]; i++)
                value_put(&chunk, values, i, integer_makers[m](type, i));
            for (size_t b = 0; b < COUNT(some); b++)
                for (uint64_t fill = 0; fill < 3; fill++) {
                    struct terp_params params = params_of(
                        some[b], &terp_mode[(fill + b) % TERP_NMODES]);
                    params.has_fill = fill > 0;
                    params.fill_bits = value_bits(&chunk, values, 5 * fill);
                    check_integers("a range", &params, &chunk, values);
                }
            free(values);
        }
}

/* An outlier does not count if it is a known fill value. */
static void
fill_values_do_not_widen_integers(void **state)
{
    static const uint64_t dims[] = {64, 64};
    const struct terp_chunk chunk = terp_case_chunk(TERP_INT32, 2, dims);
    struct terp_params params = {.bound_mode = TERP_BOUND_ABSOLUTE,
                                 .has_fill = true,
                                 .fill_bits = 0x80000000};
    uint8_t values[4 * 64 * 64];

    (void)state;
    for (uint64_t i = 0; i < 64 * 64; i++)
        value_put(&chunk, values, i,
                  i % 64 < 20 ? params.fill_bits : 1000000 + i % 64);
    struct terp_stream stream = terp_case_encode(&params, &chunk, values, 1);
    assert_true(stream.nbytes < 300);
    free(stream.bytes);
    check_integers("fill", &params, &chunk, values);
}

/* A common divisor of the values costs nothing. */
static void
scaled_integers_are_as_small_as_they_would_be_unscaled(void **state)
{
    static const uint64_t dims[] = {5000};
    const struct terp_chunk chunk = terp_case_chunk(TERP_INT64, 1, dims);
    const struct terp_params params = {.bound_mode = TERP_BOUND_ABSOLUTE};
    uint8_t values[8 * 5000];
    uint64_t nbytes[2];

    (void)state;
    for (int scaled = 0; scaled < 2; scaled++) {
        for (uint64_t i = 0; i < dims[0]; i++) {
            const uint64_t value = i + terp_field_mix(i) % 50;
            value_put(&chunk, values, i,
                      scaled ? value * 1000000007 + 17 : value);
        }
        struct terp_stream stream =
            terp_case_encode(&params, &chunk, values, 1);
        nbytes[scaled] = stream.nbytes;
        free(stream.bytes);
    }
    assert_true(nbytes[1] <= nbytes[0] + 4);
}

/* Waves take more bits than symbols have. The estimate of splines is then too
 * high, so they are tried, too. */
static void
smooth_integers_take_the_better_predictor(void **state)
{
    static const uint64_t dims[] = {260, 270};
    static const double lengths[] = {3, 12};
    const struct terp_chunk chunk = terp_case_chunk(TERP_INT32, 2, dims);
    static uint8_t values[4 * 260 * 270];

    (void)state;
    for (size_t l = 0; l < COUNT(lengths); l++) {
        struct terp_params params = {.bound_mode = TERP_BOUND_ABSOLUTE};
        uint64_t nbytes[TERP_PREDICTOR_LORENZO + 1];
        for (uint64_t i = 0; i < dims[0] * dims[1]; i++) {
            const double x = (double)(i % dims[1]) / lengths[l];
            const double y = (double)(i / dims[1]) / lengths[l];
            const double wave = sin(x) * cos(y / 1.3) + sin((x + 2 * y) / 2.1);
            value_put(&chunk, values, i,
                      (uint32_t)(int32_t)floor(wave * 0x1p22));
        }
        for (int p = 0; p <= TERP_PREDICTOR_LORENZO; p++) {
            params.predictor = (enum terp_predictor)p;
            struct terp_stream stream =
                terp_case_encode(&params, &chunk, values, 1);
            nbytes[p] = stream.nbytes;
            free(stream.bytes);
        }
        assert_int_equal(nbytes[TERP_PREDICTOR_AUTO],
                         min_u64(nbytes[TERP_PREDICTOR_SPLINE],
                                 nbytes[TERP_PREDICTOR_LORENZO]));
        params.predictor = TERP_PREDICTOR_AUTO;
        check_integers("waves", &params, &chunk, values);
    }
}

/* ---- 16-bit floats ---- */

static const enum terp_type halves[] = {TERP_FLOAT16, TERP_BFLOAT16};

static void
halves_convert_and_keep_their_order(void **state)
{
    (void)state;
    assert_true(value_of_bits(TERP_FLOAT16, 0x0001) == 0x1p-24);
    assert_true(value_of_bits(TERP_FLOAT16, 0x83FF) == -0x3FFp-24);
    assert_true(value_of_bits(TERP_FLOAT16, 0x0400) == 0x1p-14);
    assert_true(value_of_bits(TERP_FLOAT16, 0x7BFF) == 65504);
    assert_true(value_of_bits(TERP_BFLOAT16, 0xBF80) == -1);
    assert_int_equal(terp_half_of_f32_bits(TERP_FLOAT16, 0xFF800000), 0xFBFF);
    assert_int_equal(terp_half_of_f32_bits(TERP_FLOAT16, 0xFFC00000), 0x7BFF);
    assert_int_equal(terp_half_of_f32_bits(TERP_BFLOAT16, 0x7FC00000), 0x7F7F);
    for (size_t t = 0; t < COUNT(halves); t++)
        for (unsigned bits = 0; bits < 1 << 16; bits++) {
            const uint16_t half = (uint16_t)bits;
            const uint32_t wide = terp_f32_bits_of_half(halves[t], half);
            assert_int_equal(terp_half_in_order(terp_half_in_order(half)),
                             half);
            if (!terp_half_is_finite(halves[t], bits))
                continue;
            assert_int_equal(terp_half_of_f32_bits(halves[t], wide), half);
            if ((bits & 0x7FFF) > 0)
                assert_true((value_of_bits(halves[t], bits) <
                             value_of_bits(halves[t], bits ^ 0x8000)) ==
                            ((int16_t)terp_half_in_order(half) <
                             (int16_t)terp_half_in_order(half ^ 0x8000)));
        }
}

/* The value of the type nearest to any float32 that is at most `bound` from
 * `value`. Rounding is monotone, so checking both ends suffices. */
static void
check_half(enum terp_type type, double value, double bound, double promised)
{
    for (int side = -1; side <= 1; side += 2) {
        float coded = (float)(value + side * bound);
        if (fabs((double)coded - value) > bound)
            coded = nextafterf(coded, (float)value);
        uint32_t bits;
        memcpy(&bits, &coded, sizeof bits);
        const double rounded =
            value_of_bits(type, terp_half_of_f32_bits(type, bits));
        if (fabs(rounded - value) > promised)
            fail_msg("%s: %a became %a, then %a, bound %a",
                     terp_type_name(type), value, (double)coded, rounded,
                     promised);
    }
}

/* All values of the type under bounds of all magnitudes, with one common
 * range. */
static void
rounded_halves_keep_every_bound(void **state)
{
    static const double factors[] = {1,    1.01,  1.25, 1.49,     1.5,
                                     1.51, 1.874, 1.99, 1.9999999};

    (void)state;
    for (size_t t = 0; t < COUNT(halves); t++) {
        const enum terp_type type = halves[t];
        const int least = type == TERP_FLOAT16 ? -26 : -134;
        const int most = type == TERP_FLOAT16 ? 17 : 120;
        const unsigned infinity = type == TERP_FLOAT16 ? TERP_FLOAT16_INFINITY
                                                       : TERP_BFLOAT16_INFINITY;
        const double max = value_of_bits(type, infinity - 1);
        for (int e = least; e < most; e += type == TERP_FLOAT16 ? 1 : 5)
            for (size_t f = 0; f < COUNT(factors); f++) {
                const double bound = ldexp(factors[f], e);
                const double of_coded = terp_half_bound_of(type, bound, 0, max);
                assert_true(of_coded <= bound);
                for (unsigned bits = 0; bits < infinity; bits++)
                    check_half(type, value_of_bits(type, bits), of_coded,
                               bound);
            }
    }
}

/* Values of one binade, or of slightly more than two, need not lose as much
 * precision. */
static void
rounded_halves_of_few_binades_keep_every_bound(void **state)
{
    static const double factors[] = {0.3, 0.5, 0.8, 1.01, 1.28, 1.6, 2.4, 7.7};

    (void)state;
    for (size_t t = 0; t < COUNT(halves); t++) {
        const enum terp_type type = halves[t];
        const unsigned binade = 1u << terp_half_mantissa_nbits(type);
        const unsigned step = type == TERP_FLOAT16 ? 2 * binade : 20 * binade;
        for (unsigned first = 17; first < 28 * binade; first += step + 1)
            for (unsigned n = binade / 3; n < 3 * binade; n += binade - 50)
                for (size_t f = 0; f < COUNT(factors); f++) {
                    const double min = value_of_bits(type, first);
                    const double max = value_of_bits(type, first + n);
                    const double bound =
                        factors[f] * (max - value_of_bits(type, first + n - 1));
                    const double of_coded =
                        terp_half_bound_of(type, bound, min, max);
                    assert_true(of_coded <= bound);
                    assert_true(terp_half_bound_of(type, bound, 0, max) <=
                                of_coded);
                    for (unsigned bits = first; bits <= first + n; bits++)
                        check_half(type, value_of_bits(type, bits), of_coded,
                                   bound);
                }
    }
}

static void
rounded_halves_keep_pointwise_bounds(void **state)
{
    static const double all[] = {0.001, 0.008, 0.0078125, 0.01,
                                 0.1,   0.5,   0.999};

    (void)state;
    for (size_t t = 0; t < COUNT(halves); t++)
        for (size_t b = 0; b < COUNT(all); b++) {
            const enum terp_type type = halves[t];
            const struct terp_params params = {
                .bound_mode = TERP_BOUND_POINTWISE, .bound = all[b]};
            const double bound = terp_half_pointwise_bound_of(type, all[b]);
            if (terp_half_is_exact(type, &params))
                continue;
            for (unsigned bits = 1u << terp_half_mantissa_nbits(type);
                 terp_half_is_finite(type, bits); bits++) {
                const double value = value_of_bits(type, bits);
                check_half(type, value, bound * value, all[b] * value);
            }
        }
}

/* Special values come back unchanged, and all others within the bound. */
static void
check_halves(const char *what, const struct terp_params *params,
             const struct terp_chunk *chunk, const uint8_t *values)
{
    struct terp_info info;
    uint8_t *decoded = code(params, chunk, values, &info);
    double min = INFINITY, max = -INFINITY;

    for (uint64_t i = 0; i < chunk_nvalues(chunk); i++) {
        const uint64_t bits = value_bits(chunk, values, i);
        if (!terp_half_is_finite(chunk->type, (unsigned)bits))
            continue;
        min = fmin(min, value_of_bits(chunk->type, bits));
        max = fmax(max, value_of_bits(chunk->type, bits));
    }
    for (uint64_t i = 0; i < chunk_nvalues(chunk); i++) {
        const uint64_t bits = value_bits(chunk, values, i);
        const uint64_t got = value_bits(chunk, decoded, i);
        const double value = value_of_bits(chunk->type, bits);
        const double bound = params->bound_mode == TERP_BOUND_ABSOLUTE
                                 ? params->bound
                             : params->bound_mode == TERP_BOUND_RELATIVE
                                 ? params->bound * (max - min)
                                 : params->bound * fabs(value);
        const double error = fabs(value_of_bits(chunk->type, got) - value);
        if (bits != got && (!terp_half_is_finite(chunk->type, (unsigned)bits) ||
                            !terp_half_is_finite(chunk->type, (unsigned)got) ||
                            error > bound || params->bound == 0))
            fail_msg("%s, %s, bound %g: value %" PRIu64 ": %a became %a", what,
                     terp_type_name(chunk->type), params->bound, i, value,
                     value_of_bits(chunk->type, got));
    }
    free(decoded);
}

static const struct bound float_bounds[] = {
    {TERP_BOUND_ABSOLUTE, 0},     {TERP_BOUND_ABSOLUTE, 1e-9},
    {TERP_BOUND_ABSOLUTE, 1e-2},  {TERP_BOUND_ABSOLUTE, 1},
    {TERP_BOUND_RELATIVE, 1e-1},  {TERP_BOUND_RELATIVE, 1e-3},
    {TERP_BOUND_POINTWISE, 1e-4}, {TERP_BOUND_POINTWISE, 1e-2},
    {TERP_BOUND_POINTWISE, 0.9}};

static void
halves_keep_every_bound(void **state)
{
    static const struct terp_chunk all = {
        TERP_BYTES, true, false, 2, {256, 256}};

    (void)state;
    for (size_t t = 0; t < COUNT(halves); t++)
        for (size_t s = 0; s <= COUNT(shapes); s++)
            for (int f = 0; f < (s < COUNT(shapes) ? TERP_NFIELDS : 1); f++) {
                const struct terp_chunk chunk =
                    chunk_of(halves[t], s < COUNT(shapes) ? &shapes[s] : &all);
                uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));
                if (s < COUNT(shapes))
                    terp_field_make((enum terp_field)f, &chunk, values);
                else /* all bits */
                    for (uint64_t i = 0; i < 1 << 16; i++)
                        value_put(&chunk, values, i, i);
                for (size_t b = 0; b < COUNT(float_bounds); b++) {
                    const struct terp_params params = params_of(
                        float_bounds[b],
                        &terp_mode[(s + b + (size_t)f) % TERP_NMODES]);
                    check_halves(terp_field_name[f], &params, &chunk, values);
                }
                free(values);
            }
}

/* ---- complex values ---- */

static double
part_at(const struct terp_chunk *chunk, const uint8_t *values, uint64_t i)
{
    return value_of_bits(terp_type_of_part(chunk->type),
                         value_bits(chunk, values, i));
}

static double
range_of_parts(const struct terp_chunk *chunk, const uint8_t *values,
               uint64_t first)
{
    double min = INFINITY, max = -INFINITY;

    for (uint64_t i = first; i < chunk_nvalues(chunk); i += 2) {
        const double value = part_at(chunk, values, i);
        min = isfinite(value) ? fmin(min, value) : min;
        max = isfinite(value) ? fmax(max, value) : max;
    }
    return max > min ? max - min : 0;
}

static double
difference(double x, double y)
{
    return isfinite(x) && isfinite(y) ? y - x : 0;
}

static void
check_complex(const char *what, const struct terp_params *params,
              const struct terp_chunk *chunk, const uint8_t *values)
{
    const enum terp_type part = terp_type_of_part(chunk->type);
    struct terp_info info;
    uint8_t *decoded = code(params, chunk, values, &info);
    const double range = fmax(range_of_parts(chunk, values, 0),
                              range_of_parts(chunk, values, 1));

    for (uint64_t i = 0; i < chunk_nvalues(chunk); i += 2) {
        double x[2], y[2];
        for (uint64_t k = 0; k < 2; k++) {
            const uint64_t bits = value_bits(chunk, values, i + k);
            const uint64_t got = value_bits(chunk, decoded, i + k);
            x[k] = part_at(chunk, values, i + k);
            y[k] = part_at(chunk, decoded, i + k);
            assert_true(bits == got ||
                        (params->bound > 0 && bits_are_finite(part, bits) &&
                         bits_are_finite(part, got)));
        }
        const double error =
            hypot(difference(x[0], y[0]), difference(x[1], y[1]));
        const double bound =
            params->bound_mode == TERP_BOUND_ABSOLUTE ? params->bound
            : params->bound_mode == TERP_BOUND_RELATIVE
                ? params->bound * range
                : params->bound * hypot(isfinite(x[0]) ? x[0] : 0,
                                        isfinite(x[1]) ? x[1] : 0);
        if (error > bound * (1 + 0x1p-50))
            fail_msg("%s, %s: value %" PRIu64 ": %a + %ai became %a + %ai, "
                     "bound %g",
                     what, terp_type_name(chunk->type), i / 2, x[0], x[1], y[0],
                     y[1], bound);
    }
    free(decoded);
}

static void
complex_values_keep_every_bound(void **state)
{
    (void)state;
    for (int type = TERP_COMPLEX64; type <= TERP_COMPLEX128; type++)
        for (size_t s = 0; s < COUNT(shapes); s++)
            for (int f = 0; f < TERP_NFIELDS; f++) {
                if (f == TERP_FIELD_HUGE)
                    continue; /* errors too small for a double to show */
                const struct terp_chunk chunk =
                    chunk_of((enum terp_type)type, &shapes[s]);
                uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));
                terp_field_make((enum terp_field)f, &chunk, values);
                for (size_t b = 0; b < COUNT(float_bounds); b++) {
                    const struct terp_params params = params_of(
                        float_bounds[b],
                        &terp_mode[(s + b + (size_t)f) % TERP_NMODES]);
                    check_complex(terp_field_name[f], &params, &chunk, values);
                }
                free(values);
            }
}

/* A complex stream costs no more than the streams of both parts. */
static void
complex_values_are_as_small_as_their_parts(void **state)
{
    static const uint64_t dims[] = {20, 30, 40};
    const struct terp_chunk chunk = terp_case_chunk(TERP_COMPLEX64, 3, dims);
    const struct terp_chunk part = terp_case_chunk(TERP_FLOAT32, 3, dims);
    struct terp_params params = {.bound_mode = TERP_BOUND_ABSOLUTE,
                                 .bound = 1e-3};
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));
    uint8_t *parts = terp_case_alloc(terp_chunk_nbytes(&part));
    uint64_t nbytes = 0;

    (void)state;
    terp_field_make(TERP_FIELD_ROUGH, &chunk, values);
    struct terp_stream both = terp_case_encode(&params, &chunk, values, 1);
    params.bound = terp_part_bound_of(params.bound);
    for (uint64_t k = 0; k < 2; k++) {
        for (uint64_t i = 0; i < chunk_nvalues(&part); i++)
            value_put(&part, parts, i, value_bits(&chunk, values, 2 * i + k));
        struct terp_stream one = terp_case_encode(&params, &part, parts, 1);
        nbytes += one.nbytes;
        free(one.bytes);
    }
    assert_true(both.nbytes <= nbytes);
    free(both.bytes);
    free(values);
    free(parts);
}

/* ---- all types ---- */

static const enum terp_type last_type = TERP_COMPLEX128;

static void
threads_make_the_same_streams_of_all_types(void **state)
{
    static const uint64_t dims[] = {7, 300, 200};

    (void)state;
    for (int type = TERP_INT8; type <= (int)last_type; type++) {
        const struct terp_params params = {.bound_mode = TERP_BOUND_ABSOLUTE,
                                           .bound = 2};
        const struct terp_chunk chunk =
            terp_case_chunk((enum terp_type)type, 3, dims);
        uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));
        terp_field_make(TERP_FIELD_ROUGH, &chunk, values);
        terp_case_check_threads(&params, &chunk, values);
        free(values);
    }
}

static void
check_alike(const struct terp_params *a, const struct terp_params *b,
            const struct terp_chunk *chunk, const uint8_t *values)
{
    struct terp_stream one = terp_case_encode(a, chunk, values, 1);
    struct terp_stream other = terp_case_encode(b, chunk, values, 1);

    assert_int_equal(one.nbytes, other.nbytes);
    assert_memory_equal(one.bytes, other.bytes, one.nbytes);
    free(one.bytes);
    free(other.bytes);
}

/* Floor and PSNR exist for float32 and float64. For other types a tighter bound
 * replaces them. */
static void
floors_and_psnr_mean_tighter_bounds(void **state)
{
    static const uint64_t dims[] = {7, 30, 20};

    (void)state;
    for (int type = TERP_INT8; type <= (int)last_type; type++) {
        const struct terp_params pointwise = {
            .bound_mode = TERP_BOUND_POINTWISE, .bound = 0.1};
        const struct terp_params psnr = {.bound_mode = TERP_BOUND_PSNR,
                                         .bound = 40};
        const struct terp_params lossless = {.bound_mode = TERP_BOUND_ABSOLUTE};
        const struct terp_chunk chunk =
            terp_case_chunk((enum terp_type)type, 3, dims);
        uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));
        struct terp_params floored = pointwise;
        floored.floor = 1;
        terp_field_make(TERP_FIELD_ROUGH, &chunk, values);
        check_alike(&floored, &pointwise, &chunk, values);
        check_alike(&psnr, &lossless, &chunk, values);
        free(values);
    }
}

/* Both fill values come back, and neither affects the range. */
static void
second_fill_values_come_back(void **state)
{
    static const uint64_t dims[] = {7, 30, 20};

    (void)state;
    for (int type = TERP_INT8; type <= (int)last_type; type++) {
        const struct terp_chunk chunk =
            terp_case_chunk((enum terp_type)type, 3, dims);
        const uint64_t nbytes = terp_chunk_nbytes(&chunk);
        const uint64_t part_nbytes =
            (uint64_t)terp_part_nbytes((enum terp_type)type);
        const uint64_t nparts = nbytes / part_nbytes;
        /* Finite values of any type. */
        const uint64_t fill = 0x71 & UINT64_MAX >> (64 - 8 * part_nbytes);
        const uint64_t missing = UINT64_C(0x3B) << 8 * (part_nbytes - 1);
        const struct terp_params params = {.bound_mode = TERP_BOUND_ABSOLUTE,
                                           .bound = 5,
                                           .has_fill = true,
                                           .fill_bits = fill,
                                           .has_missing = true,
                                           .missing_bits = missing};
        uint8_t *values = terp_case_alloc(nbytes);
        struct terp_info info;
        terp_field_make(TERP_FIELD_ROUGH, &chunk, values);
        for (uint64_t i = 0; i < nparts; i++)
            if (i % 9 < 2)
                store_le(values + i * part_nbytes, i % 9 == 0 ? fill : missing,
                         (int)part_nbytes);
        uint8_t *decoded = code(&params, &chunk, values, &info);
        for (uint64_t i = 0; i < nparts; i++)
            if (i % 9 < 2)
                assert_memory_equal(decoded + i * part_nbytes,
                                    values + i * part_nbytes, part_nbytes);
        free(decoded);
        free(values);
    }
}

/* Each byte of a stream gets other values, with a corrected checksum. Decoding
 * ends, with or without an error, and stays in its memory. */
static void
damaged_streams_of_all_types_are_read_safely(void **state)
{
    static const uint64_t dims[] = {9, 20};
    static const uint8_t flips[] = {0x01, 0x03, 0x10, 0x80, 0xFF};

    (void)state;
    for (int type = TERP_INT8; type <= (int)last_type; type++)
        for (int f = TERP_FIELD_CONSTANT; f < TERP_NFIELDS; f++) {
            const struct terp_params params = {
                .bound_mode = TERP_BOUND_ABSOLUTE, .bound = 1};
            const struct terp_chunk chunk =
                terp_case_chunk((enum terp_type)type, 2, dims);
            const uint64_t nbytes = terp_chunk_nbytes(&chunk);
            uint8_t *values = terp_case_alloc(nbytes);
            terp_field_make((enum terp_field)f, &chunk, values);
            struct terp_stream stream =
                terp_case_encode(&params, &chunk, values, 1);
            for (uint64_t at = 5; at < min_u64(stream.nbytes, 64); at++)
                for (size_t flip = 0; flip < COUNT(flips); flip++) {
                    struct terp_info info = {.size = sizeof info};
                    uint64_t got;
                    stream.bytes[at] ^= flips[flip];
                    terp_frame_seal(stream.bytes, stream.nbytes);
                    if (terp_decode(stream.bytes, stream.nbytes, values, nbytes,
                                    &got, 1) == TERP_OK)
                        assert_int_equal(
                            terp_inspect(stream.bytes, stream.nbytes, &info),
                            TERP_OK);
                    stream.bytes[at] ^= flips[flip];
                }
            free(stream.bytes);
            free(values);
        }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_keep_every_bound),
        cmocka_unit_test(integers_of_any_range_come_back),
        cmocka_unit_test(fill_values_do_not_widen_integers),
        cmocka_unit_test(
            scaled_integers_are_as_small_as_they_would_be_unscaled),
        cmocka_unit_test(smooth_integers_take_the_better_predictor),
        cmocka_unit_test(halves_convert_and_keep_their_order),
        cmocka_unit_test(rounded_halves_keep_every_bound),
        cmocka_unit_test(rounded_halves_of_few_binades_keep_every_bound),
        cmocka_unit_test(rounded_halves_keep_pointwise_bounds),
        cmocka_unit_test(halves_keep_every_bound),
        cmocka_unit_test(complex_values_keep_every_bound),
        cmocka_unit_test(complex_values_are_as_small_as_their_parts),
        cmocka_unit_test(threads_make_the_same_streams_of_all_types),
        cmocka_unit_test(floors_and_psnr_mean_tighter_bounds),
        cmocka_unit_test(second_fill_values_come_back),
        cmocka_unit_test(damaged_streams_of_all_types_are_read_safely),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
