/* Bounds that the encoder searches for a PSNR. 20 log10((max - min) / RMSE) of
 * the chunk's valid values reaches the target, and rarely exceeds it by
 * much. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "h5tests/support/cases.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/fields.h"
#include "h5tests/support/values.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const double wanted[] = {3, 20, 40, 60, 80, 100, 130, 200, 1000};

static const struct terp_chunk shapes[] = {
    {TERP_FLOAT32, false, false, 1, {1}},
    {TERP_FLOAT32, false, false, 1, {7}},
    {TERP_FLOAT32, false, false, 1, {5003}},
    {TERP_FLOAT64, true, false, 2, {61, 53}},
    {TERP_FLOAT32, false, false, 3, {17, 18, 19}},
    {TERP_FLOAT64, false, false, 3, {17, 18, 19}},
    {TERP_FLOAT32, true, true, 4, {3, 11, 12, 13}},
};

/* The value that the encoder detects as a fill value, beside the given one. */
static bool
is_valid(enum terp_field field, double value, double fill)
{
    const bool is_land = field == TERP_FIELD_COAST && value > 1e19;
    return isfinite(value) && !is_land && value != fill;
}

/* Reads value i. Returns false if the value does not count. */
static bool
valid_value(enum terp_field field, const struct terp_chunk *chunk,
            const uint8_t *values, uint64_t i, double fill, double *value_ret)
{
    *value_ret = value_of_bits(chunk->type, value_bits(chunk, values, i));
    return is_valid(field, *value_ret, fill);
}

/* The PSNR; infinite without errors or without a range. Errors are relative to
 * the range, because squares of huge errors exceed a long double that has a
 * double's range. */
static double
psnr_of(enum terp_field field, const struct terp_chunk *chunk,
        const uint8_t *values, const uint8_t *decoded, double fill)
{
    const uint64_t nvalues = chunk_nvalues(chunk);
    double value, min = INFINITY, max = -INFINITY;
    long double squares = 0;
    uint64_t nvalid = 0;

    for (uint64_t i = 0; i < nvalues; i++) {
        if (!valid_value(field, chunk, values, i, fill, &value)) {
            assert_true(value_bits(chunk, values, i) ==
                        value_bits(chunk, decoded, i));
            continue;
        }
        min = fmin(min, value);
        max = fmax(max, value);
        nvalid++;
    }
    if (!(max > min))
        return INFINITY;
    const int scale = -2 - ilogb(fmax(fabs(min), fabs(max)));
    const long double range = scalbnl(max, scale) - scalbnl(min, scale);
    for (uint64_t i = 0; i < nvalues; i++) {
        if (!valid_value(field, chunk, values, i, fill, &value))
            continue;
        const double got =
            value_of_bits(chunk->type, value_bits(chunk, decoded, i));
        const long double error =
            (scalbnl(value, scale) - scalbnl(got, scale)) / range;
        squares += error * error;
    }
    return squares == 0 ? INFINITY : (double)(-10 * log10l(squares / nvalid));
}

/* How many of all targets were reached within half a dB. */
static unsigned nmet, nall;

static void
check(enum terp_field field, const struct terp_chunk *chunk,
      const struct terp_params *params, const uint8_t *values, double fill)
{
    struct terp_stream stream = terp_case_encode(params, chunk, values, 1);
    uint8_t *decoded = terp_case_alloc(terp_chunk_nbytes(chunk));
    uint64_t nbytes;

    assert_int_equal(terp_decode(stream.bytes, stream.nbytes, decoded,
                                 terp_chunk_nbytes(chunk), &nbytes, 1),
                     TERP_OK);
    const double psnr = psnr_of(field, chunk, values, decoded, fill);
    if (!(psnr >= params->bound - 1e-9))
        fail_msg("%s, rank %d, %g dB: %.12g dB", terp_field_name[field],
                 chunk->rank, params->bound, psnr);
    nmet += psnr <= params->bound + 0.5;
    nall++;
    free(decoded);
    free(stream.bytes);
}

static void
psnr_is_never_below_what_is_asked(void **state)
{
    unsigned turn = 0;

    (void)state;
    for (size_t s = 0; s < COUNT(shapes); s++)
        for (int f = 0; f < TERP_NFIELDS; f++) {
            uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&shapes[s]));
            terp_field_make((enum terp_field)f, &shapes[s], values);
            for (size_t w = 0; w < COUNT(wanted); w++, turn++) {
                const struct terp_mode *mode = &terp_mode[turn % TERP_NMODES];
                const struct terp_params params = {
                    .bound_mode = TERP_BOUND_PSNR,
                    .bound = wanted[w],
                    .pipeline = mode->pipeline,
                    .predictor = mode->predictor};
                check((enum terp_field)f, &shapes[s], &params, values, NAN);
            }
            free(values);
        }
}

/* For smooth and noisy fields most targets are reached closely. Exceptions are
 * fields of few values, or with steps in the data. */
static void
psnr_is_met_within_half_a_decibel(void **state)
{
    static const enum terp_field fields[] = {
        TERP_FIELD_SMOOTH, TERP_FIELD_ROUGH, TERP_FIELD_NOISE,
        TERP_FIELD_COAST,  TERP_FIELD_MAPS,  TERP_FIELD_FINE};
    const struct terp_chunk *chunk = &shapes[4];

    (void)state;
    nmet = nall = 0;
    for (size_t f = 0; f < COUNT(fields); f++) {
        uint8_t *values = terp_case_alloc(terp_chunk_nbytes(chunk));
        terp_field_make(fields[f], chunk, values);
        for (int i = 0; i < 19; i++) {
            const struct terp_params params = {.bound_mode = TERP_BOUND_PSNR,
                                               .bound = 30 + 3.7 * i};
            check(fields[f], chunk, &params, values, NAN);
        }
        free(values);
    }
    print_message("%u of %u within half a decibel\n", nmet, nall);
    assert_true(nmet * 10 >= nall * 9);
}

/* Fill values do not count. */
static void
fill_values_do_not_count(void **state)
{
    const struct terp_chunk *chunk = &shapes[5];
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(chunk));
    const uint64_t fill = value_to_bits(chunk->type, 40);

    (void)state;
    terp_field_make(TERP_FIELD_ROUGH, chunk, values);
    for (uint64_t i = 0; i < chunk_nvalues(chunk); i += 3)
        value_put(chunk, values, i, fill);
    for (size_t w = 0; w < COUNT(wanted); w++) {
        const struct terp_params params = {.bound_mode = TERP_BOUND_PSNR,
                                           .bound = wanted[w],
                                           .has_fill = true,
                                           .fill_bits = fill};
        check(TERP_FIELD_ROUGH, chunk, &params, values, 40);
    }
    free(values);
}

/* Outliers that repeat are coded apart, but they count as data. */
static void
undeclared_outliers_count(void **state)
{
    const struct terp_chunk *chunk = &shapes[5];
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(chunk));

    (void)state;
    terp_field_make(TERP_FIELD_ROUGH, chunk, values);
    for (uint64_t i = 0; i < chunk_nvalues(chunk); i += 3)
        value_put(chunk, values, i, value_to_bits(chunk->type, 40));
    nmet = nall = 0;
    for (size_t w = 0; w < COUNT(wanted); w++) {
        const struct terp_params params = {.bound_mode = TERP_BOUND_PSNR,
                                           .bound = wanted[w]};
        check(TERP_FIELD_ROUGH, chunk, &params, values, NAN);
    }
    print_message("%u of %u within half a decibel\n", nmet, nall);
    assert_true(nmet * 2 >= nall);
    free(values);
}

/* Without valid values or without a range there is no PSNR. */
static void
chunks_without_a_range_are_exact(void **state)
{
    static const double contents[] = {NAN, INFINITY, 0, 3.25};
    const struct terp_chunk *chunk = &shapes[3];
    const uint64_t nbytes = terp_chunk_nbytes(chunk);
    const struct terp_params params = {.bound_mode = TERP_BOUND_PSNR,
                                       .bound = 60};
    uint8_t *values = terp_case_alloc(nbytes);
    uint8_t *decoded = terp_case_alloc(nbytes);
    uint64_t got;

    (void)state;
    for (size_t c = 0; c < COUNT(contents); c++) {
        for (uint64_t i = 0; i < chunk_nvalues(chunk); i++)
            value_put(chunk, values, i,
                      value_to_bits(chunk->type, contents[c]));
        struct terp_stream stream = terp_case_encode(&params, chunk, values, 1);
        assert_int_equal(
            terp_decode(stream.bytes, stream.nbytes, decoded, nbytes, &got, 1),
            TERP_OK);
        assert_memory_equal(values, decoded, nbytes);
        assert_true(stream.nbytes < 100);
        free(stream.bytes);
    }
    free(values);
    free(decoded);
}

/* Batches give the same results; threads do not matter. */
static void
bytes_do_not_depend_on_the_call(void **state)
{
    const uint64_t dims[] = {70, 80, 90};
    const struct terp_chunk chunk = terp_case_chunk(TERP_FLOAT32, 3, dims);
    const struct terp_params params = {.bound_mode = TERP_BOUND_PSNR,
                                       .bound = 50};
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));
    void *stream = terp_case_alloc(terp_encode_bound(&chunk));
    const void *src = values;
    uint64_t nbytes;

    (void)state;
    terp_field_make(TERP_FIELD_ROUGH, &chunk, values);
    terp_case_check_threads(&params, &chunk, values);
    struct terp_stream one = terp_case_encode(&params, &chunk, values, 1);
    assert_int_equal(terp_encode_batch(NULL, &params, &chunk, 1, &src, &stream,
                                       &nbytes, NULL),
                     TERP_OK);
    assert_int_equal(nbytes, one.nbytes);
    assert_memory_equal(stream, one.bytes, nbytes);
    free(one.bytes);
    free(stream);
    free(values);
}

static void
psnrs_that_are_none_are_refused(void **state)
{
    static const double none[] = {0, -1, INFINITY, NAN};

    (void)state;
    for (size_t i = 0; i < COUNT(none); i++) {
        const struct terp_params params = {.bound_mode = TERP_BOUND_PSNR,
                                           .bound = none[i]};
        assert_int_equal(terp_params_check(&params, NULL), TERP_ERR_BOUND);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(psnr_is_never_below_what_is_asked),
        cmocka_unit_test(psnr_is_met_within_half_a_decibel),
        cmocka_unit_test(fill_values_do_not_count),
        cmocka_unit_test(undeclared_outliers_count),
        cmocka_unit_test(chunks_without_a_range_are_exact),
        cmocka_unit_test(bytes_do_not_depend_on_the_call),
        cmocka_unit_test(psnrs_that_are_none_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
