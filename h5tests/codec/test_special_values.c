/* NaN, infinities and fill values come back bit for bit. They affect neither
 * the value range nor the values beside them. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "h5tests/support/cases.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/fields.h"
#include "h5tests/support/values.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* The bits of one special value, for each type. */
struct special {
    const char *name;
    uint64_t bits[2];
};

static const struct special specials[] = {
    {"quiet NaN", {0x7FC00000, UINT64_C(0x7FF8000000000000)}},
    {"quiet NaN, payload", {0x7FD2D591, UINT64_C(0x7FFABCDEF0123456)}},
    {"negative NaN, payload", {0xFFC00001, UINT64_C(0xFFF8000000000001)}},
    {"signalling NaN", {0x7F800001, UINT64_C(0x7FF0000000000001)}},
    {"negative signalling NaN", {0xFFBFFFFF, UINT64_C(0xFFF7FFFFFFFFFFFF)}},
    {"infinity", {0x7F800000, UINT64_C(0x7FF0000000000000)}},
    {"negative infinity", {0xFF800000, UINT64_C(0xFFF0000000000000)}},
};

/* Positions of special values. */
enum place {
    PLACE_FIRST,
    PLACE_LAST,
    PLACE_ALTERNATING,
    PLACE_PAIRS, /* two of three: all runs are short, and few values are left */
    PLACE_SCATTERED,
    PLACE_BLOCKS,
    PLACE_ALL_BUT_ONE,
    PLACE_ALL,
    NPLACES
};

static bool
is_at(enum place place, uint64_t i, uint64_t nvalues)
{
    switch (place) {
    case PLACE_FIRST:
        return i == 0;
    case PLACE_LAST:
        return i == nvalues - 1;
    case PLACE_ALTERNATING:
        return i % 2 == 0;
    case PLACE_PAIRS:
        return i % 3 != 0;
    case PLACE_SCATTERED:
        return terp_field_mix(i) % 11 == 0;
    case PLACE_BLOCKS:
        return i / 37 % 3 == 0;
    case PLACE_ALL_BUT_ONE:
        return i != nvalues / 2;
    case PLACE_ALL:
    case NPLACES:
        break;
    }
    return true;
}

/* A smooth field around 10 with `bits` at some positions, or a mix of all
 * special values if NULL. */
static uint8_t *
make_values(const struct terp_chunk *chunk, enum place place,
            const uint64_t *bits)
{
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(chunk));
    uint64_t nvalues = chunk_nvalues(chunk);

    terp_field_make(TERP_FIELD_ROUGH, chunk, values);
    for (uint64_t i = 0; i < nvalues; i++) {
        double value = value_of_bits(chunk->type, value_bits(chunk, values, i));
        size_t which = terp_field_mix(i / 3) % COUNT(specials);
        uint64_t special =
            bits != NULL ? *bits : specials[which].bits[chunk->type];
        value_put(chunk, values, i,
                  is_at(place, i, nvalues)
                      ? special
                      : value_to_bits(chunk->type, 10 + value));
    }
    return values;
}

static const struct terp_chunk chunks[] = {
    {TERP_FLOAT32, false, false, 1, {1}},
    {TERP_FLOAT64, false, false, 1, {2}},
    {TERP_FLOAT32, false, false, 1, {1021}},
    {TERP_FLOAT64, false, false, 2, {33, 47}},
    {TERP_FLOAT32, false, false, 3, {13, 17, 11}},
    {TERP_FLOAT64, true, false, 3, {13, 17, 11}},
    {TERP_FLOAT32, true, true, 4, {5, 8, 8, 8}},
    {TERP_FLOAT64, false, false, 4, {5, 9, 6, 7}},
};

static void
check_modes(const char *what, const struct terp_params *base,
            const struct terp_chunk *chunk, enum place place,
            const uint64_t *bits)
{
    static const struct {
        enum terp_bound_mode mode;
        double bound, floor;
    } bounds[] = {
        {TERP_BOUND_RELATIVE, 1e-3, 0},  {TERP_BOUND_ABSOLUTE, 1e-5, 0},
        {TERP_BOUND_ABSOLUTE, 1e30, 0},  {TERP_BOUND_POINTWISE, 1e-3, 0},
        {TERP_BOUND_POINTWISE, 1e-6, 0}, {TERP_BOUND_POINTWISE, 1e-2, 1e-3}};
    uint8_t *values = make_values(chunk, place, bits);

    for (size_t b = 0; b < COUNT(bounds); b++)
        for (int mode = 0; mode < TERP_NMODES; mode++) {
            struct terp_params params = *base;
            char name[128];
            if (!terp_case_taken(5))
                continue;
            params.bound_mode = bounds[b].mode;
            params.bound = bounds[b].bound;
            params.floor = bounds[b].floor;
            params.pipeline = terp_mode[mode].pipeline;
            params.predictor = terp_mode[mode].predictor;
            snprintf(name, sizeof name, "%s at place %d, rank %d, %g, %s", what,
                     (int)place, chunk->rank, params.bound,
                     terp_mode[mode].name);
            terp_case_check(name, &params, chunk, values);
        }
    free(values);
}

static void
each_special_survives_at_each_place(void **state)
{
    const struct terp_params none = {0};

    (void)state;
    for (size_t c = 0; c < COUNT(chunks); c++)
        for (size_t s = 0; s < COUNT(specials); s++)
            for (int place = 0; place < NPLACES; place++)
                check_modes(specials[s].name, &none, &chunks[c],
                            (enum place)place,
                            &specials[s].bits[chunks[c].type]);
}

static void
mixed_specials_survive_at_each_place(void **state)
{
    const struct terp_params none = {0};

    (void)state;
    for (size_t c = 0; c < COUNT(chunks); c++)
        for (int place = 0; place < NPLACES; place++)
            check_modes("a mix", &none, &chunks[c], (enum place)place, NULL);
}

/* Usual fill values; 10.5 lies within the data. */
static const double fills[] = {
    1e20, 9.969209968386869e36, -9999, -999, 0, -0.0, 10.5, 0x1p-149};

static void
given_fill_survives_at_each_place(void **state)
{
    (void)state;
    for (size_t c = 0; c < COUNT(chunks); c++)
        for (size_t f = 0; f < COUNT(fills); f++)
            for (int place = 0; place < NPLACES; place++) {
                uint64_t bits = value_to_bits(chunks[c].type, fills[f]);
                struct terp_params params = {.has_fill = true,
                                             .fill_bits = bits};
                check_modes("a given fill", &params, &chunks[c],
                            (enum place)place, &bits);
            }
}

/* Zeros of both signs among small values, and zeros of one sign. */
static void
minus_zero_is_a_number(void **state)
{
    (void)state;
    for (size_t c = 0; c < COUNT(chunks); c++) {
        const struct terp_chunk *chunk = &chunks[c];
        uint64_t nvalues = chunk_nvalues(chunk);
        uint8_t *both = make_values(chunk, PLACE_ALL, &(uint64_t){0});
        uint8_t *plus = make_values(chunk, PLACE_ALL, &(uint64_t){0});
        for (uint64_t i = 0; i < nvalues; i++) {
            double value = terp_field_mix(i) % 3 == 0 ? (double)(i % 40) : 0;
            double zero = i % 2 ? -0.0 : 0.0;
            value_put(chunk, plus, i, value_to_bits(chunk->type, value));
            value_put(chunk, both, i,
                      value_to_bits(chunk->type, value == 0 ? zero : value));
        }
        for (int mode = 0; mode < TERP_NMODES; mode++) {
            struct terp_params params = {.bound_mode = TERP_BOUND_ABSOLUTE,
                                         .bound = 0.25,
                                         .pipeline = terp_mode[mode].pipeline,
                                         .predictor =
                                             terp_mode[mode].predictor};
            terp_case_check("zeros of both signs", &params, chunk, both);
            struct terp_stream a = terp_case_encode(&params, chunk, both, 1);
            struct terp_stream b = terp_case_encode(&params, chunk, plus, 1);
            assert_int_equal(a.nbytes, b.nbytes);
            free(a.bytes);
            free(b.bytes);
        }
        free(both);
        free(plus);
    }
}

/* For float32 the bits above the low 32 are ignored. */
static void
high_bits_of_a_float32_fill_are_ignored(void **state)
{
    uint64_t bits = value_to_bits(TERP_FLOAT32, -9999);
    struct terp_params params = {
        .has_fill = true, .fill_bits = bits | UINT64_C(0xDEADBEEF00000000)};

    (void)state;
    check_modes("a fill", &params, &chunks[2], PLACE_BLOCKS, &bits);
}

static void
given_fill_may_be_nan(void **state)
{
    uint64_t bits = specials[1].bits[TERP_FLOAT64];
    struct terp_params params = {.has_fill = true, .fill_bits = bits};

    (void)state;
    check_modes("a NaN fill", &params, &chunks[3], PLACE_BLOCKS, &bits);
}

/* Masks of ocean models, without a given fill value. All other values keep a
 * bound that follows from the ocean's range. */
static void
fill_far_outside_is_found_and_leaves_the_range_alone(void **state)
{
    static const double found[] = {1e20, 9.969209968386869e36, -9999, -1e34};
    static const uint64_t dims[] = {20, 30, 40};
    static const enum place masks[] = {PLACE_SCATTERED, PLACE_BLOCKS};

    (void)state;
    for (int type = TERP_FLOAT32; type <= TERP_FLOAT64; type++)
        for (size_t f = 0; f < COUNT(found); f++)
            for (size_t m = 0; m < COUNT(masks); m++)
                for (int mode = 0; mode < TERP_NMODES; mode++) {
                    struct terp_chunk chunk =
                        terp_case_chunk((enum terp_type)type, 3, dims);
                    uint64_t bits = value_to_bits(chunk.type, found[f]);
                    struct terp_params params = {
                        .bound_mode = TERP_BOUND_RELATIVE,
                        .bound = 1e-3,
                        .pipeline = terp_mode[mode].pipeline,
                        .predictor = terp_mode[mode].predictor};
                    uint8_t *values = make_values(&chunk, masks[m], &bits);
                    uint64_t nbytes = terp_chunk_nbytes(&chunk);
                    uint8_t *decoded = terp_case_alloc(nbytes);
                    struct terp_stream stream =
                        terp_case_encode(&params, &chunk, values, 1);
                    assert_int_equal(terp_decode(stream.bytes, stream.nbytes,
                                                 decoded, nbytes, &nbytes, 1),
                                     TERP_OK);
                    params.has_fill = true;
                    params.fill_bits = bits;
                    terp_case_compare(terp_mode[mode].name, &params, &chunk,
                                      values, decoded,
                                      terp_case_bound(&params, &chunk, values));
                    free(stream.bytes);
                    free(decoded);
                    free(values);
                }
}

/* Noise from 10 to 11, and `outlier` in one of 97 values. */
static uint8_t *
make_outliers(const struct terp_chunk *chunk, double outlier)
{
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(chunk));

    for (uint64_t i = 0; i < chunk_nvalues(chunk); i++)
        value_put(chunk, values, i,
                  value_to_bits(chunk->type,
                                i % 97 == 5
                                    ? outlier
                                    : 10 + (double)(terp_field_mix(i) % 1024) /
                                               1024));
    return values;
}

/* The range of all values but `outlier`, or with it. */
static double
range_of(const struct terp_chunk *chunk, const uint8_t *values, double outlier,
         bool counts)
{
    double min = INFINITY, max = -INFINITY;

    outlier = value_of_bits(chunk->type, value_to_bits(chunk->type, outlier));
    for (uint64_t i = 0; i < chunk_nvalues(chunk); i++) {
        const double value =
            value_of_bits(chunk->type, value_bits(chunk, values, i));
        if (value == outlier && !counts)
            continue;
        min = fmin(min, value);
        max = fmax(max, value);
    }
    return max - min;
}

/* An outlier that repeats, and that nobody declared, is exact in either case.
 * It counts for the range unless it is a usual fill value. */
static void
undeclared_outlier_counts_for_the_range_unless_usual(void **state)
{
    static const struct {
        double value;
        bool usual;
    } outliers[] = {{128, false},
                    {-500, false},
                    {12345, false},
                    {-999, true},
                    {-9999, true},
                    {9999.9, true},
                    {-32768, true},
                    {32768, false},
                    {1e20, true},
                    {9.96921e36, true},
                    {1.1e20, false},
                    {-9e33, true},
                    {0x1.fffffep127, true},
                    /* 16-bit floats round -998 and 1e4 to usual ones. */
                    {1e4, false},
                    {-1000, false},
                    {-998, false}};
    static const struct terp_chunk shapes[] = {
        {TERP_FLOAT32, false, false, 3, {20, 30, 40}},
        {TERP_FLOAT64, true, false, 2, {90, 110}},
        {TERP_FLOAT16, false, false, 2, {90, 110}},
        {TERP_BFLOAT16, false, false, 1, {4001}},
        {TERP_COMPLEX64, false, false, 2, {70, 80}}};
    static const double relative[] = {1e-2, 1e-4};
    unsigned nequal = 0, nstreams = 0;

    (void)state;
    for (size_t s = 0; s < COUNT(shapes); s++)
        for (size_t o = 0; o < COUNT(outliers); o++)
            for (size_t b = 0; b < COUNT(relative); b++) {
                const struct terp_chunk *chunk = &shapes[s];
                const struct terp_params params = {
                    .bound_mode = TERP_BOUND_RELATIVE, .bound = relative[b]};
                struct terp_info info = {.size = sizeof info};
                if ((terp_type_is_half(chunk->type) && o >= 13) ||
                    (chunk->type == TERP_FLOAT16 &&
                     fabs(outliers[o].value) > 65504))
                    continue;
                uint8_t *values = make_outliers(chunk, outliers[o].value);
                terp_case_check("an outlier", &params, chunk, values);
                struct terp_stream stream =
                    terp_case_encode(&params, chunk, values, 1);
                assert_int_equal(
                    terp_inspect(stream.bytes, stream.nbytes, &info), TERP_OK);
                const double range = range_of(chunk, values, outliers[o].value,
                                              !outliers[o].usual);
                /* Constant and lossless streams have no bound. */
                if (info.bound > 0) {
                    assert_true(info.bound == relative[b] * range);
                    nequal++;
                } else if (strcmp(info.pipeline, "constant") == 0) {
                    if (!(relative[b] * range > 1.9))
                        fail_msg("constant: type %d, %g, %g, range %g",
                                 (int)chunk->type, outliers[o].value,
                                 relative[b], range);
                    nequal++;
                }
                nstreams++;
                free(stream.bytes);
                free(values);
            }
    assert_true(4 * nequal > 3 * nstreams);
}

/* A trigger among small values: all else is within the bound of 0. */
static void
undeclared_trigger_costs_its_places_only(void **state)
{
    static const enum terp_type types[] = {TERP_FLOAT32, TERP_FLOAT64};
    static const double bounds[] = {1e-2, 1e-3, 1e-4, 60};
    static const uint64_t dims[] = {20, 2000};

    (void)state;
    for (size_t t = 0; t < COUNT(types); t++)
        for (size_t b = 0; b < COUNT(bounds); b++) {
            const struct terp_chunk chunk = terp_case_chunk(types[t], 2, dims);
            const struct terp_params params = {
                .bound_mode =
                    bounds[b] < 1 ? TERP_BOUND_RELATIVE : TERP_BOUND_PSNR,
                .bound = bounds[b]};
            uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));
            for (uint64_t i = 0; i < 40000; i++)
                value_put(&chunk, values, i,
                          value_to_bits(types[t],
                                        i >= 38000 && i % 200 == 0
                                            ? 128
                                            : 1e-15 * (double)(i * i % 977)));
            struct terp_stream stream =
                terp_case_encode(&params, &chunk, values, 1);
            assert_true(stream.nbytes < 100);
            free(stream.bytes);
            free(values);
        }
}

/* Neighbouring values of a fill value are ordinary values. */
static void
neighbours_of_a_fill_keep_the_bound(void **state)
{
    static const uint64_t dims[] = {500};
    struct terp_chunk chunk = terp_case_chunk(TERP_FLOAT64, 1, dims);
    uint64_t bits = value_to_bits(TERP_FLOAT64, 1e20);
    struct terp_params params = {.bound_mode = TERP_BOUND_ABSOLUTE,
                                 .bound = 1e-3,
                                 .has_fill = true,
                                 .fill_bits = bits};
    uint8_t *values = make_values(&chunk, PLACE_BLOCKS, &bits);

    (void)state;
    for (uint64_t i = 0; i < 500; i += 7)
        value_put(&chunk, values, i, bits + (i % 2 ? 1 : (uint64_t)-1));
    for (int mode = 0; mode < TERP_NMODES; mode++) {
        params.pipeline = terp_mode[mode].pipeline;
        params.predictor = terp_mode[mode].predictor;
        terp_case_check(terp_mode[mode].name, &params, &chunk, values);
    }
    free(values);
}

/* Pages with the same mask, of 1000 values each. */
static void
mask_that_repeats_is_stored_once(void **state)
{
    static const uint64_t npages[] = {1, 20};

    (void)state;
    for (int constant = 0; constant < 2; constant++)
        for (int type = TERP_FLOAT32; type <= TERP_FLOAT64; type++) {
            uint64_t nbytes[2];
            for (int k = 0; k < 2; k++) {
                const uint64_t dims[] = {npages[k], 25, 40};
                struct terp_chunk chunk =
                    terp_case_chunk((enum terp_type)type, 3, dims);
                struct terp_params params = {.bound_mode = TERP_BOUND_ABSOLUTE,
                                             .bound = constant ? 100 : 1};
                uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));
                for (uint64_t i = 0; i < chunk_nvalues(&chunk); i++)
                    value_put(
                        &chunk, values, i,
                        is_at(PLACE_SCATTERED, i % 1000, 1000)
                            ? specials[0].bits[type]
                            : value_to_bits(chunk.type, (double)(i % 40)));
                terp_case_check("pages", &params, &chunk, values);
                struct terp_stream stream =
                    terp_case_encode(&params, &chunk, values, 1);
                nbytes[k] = stream.nbytes;
                free(stream.bytes);
                free(values);
            }
            assert_true(nbytes[0] > 100);
            assert_true(nbytes[1] < nbytes[0] + nbytes[0] / 2);
        }
}

/* Two fill values, among values whose bounds they would spoil. */
static void
two_fills_are_kept_and_leave_the_range_alone(void **state)
{
    static const struct {
        enum terp_bound_mode mode;
        double bound, floor;
    } bounds[] = {{TERP_BOUND_ABSOLUTE, 0.1, 0},
                  {TERP_BOUND_ABSOLUTE, 0, 0},
                  {TERP_BOUND_RELATIVE, 1e-3, 0},
                  {TERP_BOUND_POINTWISE, 1e-2, 0},
                  {TERP_BOUND_POINTWISE, 1e-2, 1e-1}};
    static const uint64_t dims[] = {9, 25, 40};

    (void)state;
    for (int type = TERP_FLOAT32; type <= TERP_FLOAT64; type++)
        for (size_t b = 0; b < COUNT(bounds); b++)
            for (int m = 0; m < TERP_NMODES; m++) {
                struct terp_chunk chunk =
                    terp_case_chunk((enum terp_type)type, 3, dims);
                const struct terp_params params = {
                    .bound_mode = bounds[b].mode,
                    .bound = bounds[b].bound,
                    .pipeline = terp_mode[m].pipeline,
                    .predictor = terp_mode[m].predictor,
                    .floor = bounds[b].floor,
                    .has_fill = true,
                    .fill_bits = value_to_bits(chunk.type, 1e20),
                    .has_missing = true,
                    .missing_bits =
                        value_to_bits(chunk.type, m % 2 ? -9999 : 0)};
                uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));
                for (uint64_t i = 0; i < chunk_nvalues(&chunk); i++)
                    value_put(
                        &chunk, values, i,
                        i % 7 < 2 ? params.fill_bits
                        : i % 11 == 3
                            ? params.missing_bits
                            : value_to_bits(chunk.type, 1 + (double)(i % 40)));
                terp_case_check("two fills", &params, &chunk, values);
                free(values);
            }
}

/* Under a floor, zeros that are not fill values keep the floor's bound. */
static void
zero_that_is_a_fill_is_exact_under_a_floor(void **state)
{
    static const uint64_t dims[] = {9, 25, 40};

    (void)state;
    for (int type = TERP_FLOAT32; type <= TERP_FLOAT64; type++)
        for (int m = 0; m < TERP_NMODES; m++) {
            struct terp_chunk chunk =
                terp_case_chunk((enum terp_type)type, 3, dims);
            const struct terp_params params = {
                .bound_mode = TERP_BOUND_POINTWISE,
                .bound = 1e-2,
                .pipeline = terp_mode[m].pipeline,
                .predictor = terp_mode[m].predictor,
                .floor = 1e-3,
                .has_fill = true};
            uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));
            for (uint64_t i = 0; i < chunk_nvalues(&chunk); i++)
                value_put(&chunk, values, i,
                          i % 7 < 3
                              ? 0
                              : value_to_bits(chunk.type,
                                              1 + (double)(i % 13) / 1000));
            terp_case_check("zeros", &params, &chunk, values);
            free(values);
        }
}

/* A second fill value without a first one becomes the first. The same fill
 * value given twice counts once. */
static void
second_fill_alone_is_the_first(void **state)
{
    static const uint64_t dims[] = {25, 40};
    const struct terp_chunk chunk = terp_case_chunk(TERP_FLOAT32, 2, dims);
    const uint64_t fill = value_to_bits(TERP_FLOAT32, 7);
    struct terp_params params[3] = {{.has_fill = true, .fill_bits = fill},
                                    {.has_missing = true, .missing_bits = fill},
                                    {.has_fill = true,
                                     .fill_bits = fill,
                                     .has_missing = true,
                                     .missing_bits = fill}};
    struct terp_stream stream[3];
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));

    (void)state;
    for (uint64_t i = 0; i < chunk_nvalues(&chunk); i++)
        value_put(&chunk, values, i,
                  value_to_bits(TERP_FLOAT32, (double)(i % 9)));
    for (int i = 0; i < 3; i++) {
        params[i].bound_mode = TERP_BOUND_ABSOLUTE;
        params[i].bound = 0.4;
        stream[i] = terp_case_encode(&params[i], &chunk, values, 1);
        assert_int_equal(stream[i].nbytes, stream[0].nbytes);
        assert_memory_equal(stream[i].bytes, stream[0].bytes, stream[0].nbytes);
    }
    for (int i = 0; i < 3; i++)
        free(stream[i].bytes);
    free(values);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_special_survives_at_each_place),
        cmocka_unit_test(mixed_specials_survive_at_each_place),
        cmocka_unit_test(minus_zero_is_a_number),
        cmocka_unit_test(given_fill_survives_at_each_place),
        cmocka_unit_test(high_bits_of_a_float32_fill_are_ignored),
        cmocka_unit_test(given_fill_may_be_nan),
        cmocka_unit_test(fill_far_outside_is_found_and_leaves_the_range_alone),
        cmocka_unit_test(undeclared_outlier_counts_for_the_range_unless_usual),
        cmocka_unit_test(undeclared_trigger_costs_its_places_only),
        cmocka_unit_test(neighbours_of_a_fill_keep_the_bound),
        cmocka_unit_test(mask_that_repeats_is_stored_once),
        cmocka_unit_test(two_fills_are_kept_and_leave_the_range_alone),
        cmocka_unit_test(zero_that_is_a_fill_is_exact_under_a_floor),
        cmocka_unit_test(second_fill_alone_is_the_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
