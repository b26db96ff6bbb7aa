/* Streams of grids, of version 2: chunks of decimals and other multiples of a
 * step. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/format/frame.h"
#include "codec/format/grid.h"
#include "codec/model/grid.h"
#include "h5tests/support/cases.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/coded_as.h"
#include "h5tests/support/few.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct terp_params lossless = {.size = sizeof lossless,
                                            .bound_mode = TERP_BOUND_ABSOLUTE};

static void
decimals_come_back_by_their_integers(void **state)
{
    static const enum terp_type types[] = {TERP_FLOAT32, TERP_FLOAT64,
                                           TERP_COMPLEX64, TERP_COMPLEX128};
    static const struct terp_chunk shapes[] = {
        {TERP_FLOAT32, false, false, 1, {20011}},
        {TERP_FLOAT32, false, false, 3, {17, 35, 37}},
        {TERP_FLOAT32, false, true, 3, {17, 35, 37}}};
    static const uint64_t every[] = {0, 97, 29};

    (void)state;
    for (size_t t = 0; t < COUNT(types); t++)
        for (size_t s = 0; s < COUNT(shapes); s++)
            for (size_t n = 0; n < COUNT(every); n++) {
                struct terp_chunk chunk = shapes[s];
                char name[64];
                chunk.type = types[t];
                chunk.big_endian = (t + s + n) % 2 > 0;
                snprintf(name, sizeof name, "%s, shape %d, exceptions %d",
                         terp_type_name(chunk.type), (int)s, (int)every[n]);
                uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));
                decimals_make(&chunk, every[n], values);
                const struct terp_stream stream = check_as(
                    name, &lossless, &chunk, values,
                    terp_type_nparts(chunk.type) > 1 ? TERP_CODING_PARTS
                                                     : TERP_CODING_GRID);
                assert_int_equal(stream.bytes[TERP_FRAME_VERSION_AT], 2);
                terp_case_check_threads(&lossless, &chunk, values);
                free(stream.bytes);
                free(values);
            }
}

/* Ten significant digits of tiny numbers; products with a float; multiples of
 * a power of two; integers of many bits. */
static void
other_steps_are_found(void **state)
{
    const struct terp_chunk wide = {TERP_FLOAT64, false, false, 1, {12000}};
    const struct terp_chunk narrow = {TERP_FLOAT32, false, false, 1, {12000}};
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&wide));

    (void)state;
    for (int kind = 0; kind < 5; kind++) {
        const struct terp_chunk *chunk = kind == 1 ? &narrow : &wide;
        int64_t k = 0;
        for (uint64_t i = 0; i < chunk_nvalues(chunk); i++) {
            char text[32];
            double x = 0;
            k += kind == 3 ? (int64_t)(terp_field_mix(i) % 5)
                           : (int64_t)(terp_field_mix(i) % 4096) - 2000;
            switch (kind) {
            case 0:
                snprintf(text, sizeof text, "%.9e",
                         1e-20 + (double)k * 1.2345678e-26);
                x = strtod(text, NULL);
                break;
            case 1:
                x = (double)((float)k * 0.01f);
                break;
            case 2:
                x = (double)k * 0.001;
                break;
            case 3:
                x = 1.7e9 + (double)k / 1024;
                break;
            default:
                x = (double)k * 1e12;
            }
            value_put(chunk, values, i, value_to_bits(chunk->type, x));
        }
        char name[16];
        snprintf(name, sizeof name, "kind %d", kind);
        free(check_as(name, &lossless, chunk, values, TERP_CODING_GRID).bytes);
    }
    free(values);
}

/* Times rise or fall by 3 on average, so all codes have one sign unless the
 * drift is subtracted. Some values are NaN. A chunk of two dimensions has no
 * drift. */
static void
times_are_smaller_by_their_drift(void **state)
{
    const struct terp_chunk line = {TERP_FLOAT64, false, false, 1, {12000}};
    const struct terp_chunk plane = {TERP_FLOAT64, false, false, 2, {2, 6000}};
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&line));

    (void)state;
    for (int sign = -1; sign <= 1; sign += 2) {
        int64_t k = 0;
        for (uint64_t i = 0; i < 12000; i++) {
            k += sign * (1 + (int64_t)(terp_field_mix(i) % 5));
            const double x = 1.7e9 + (double)k / 1024;
            value_put(&line, values, i,
                      double_bits(i % 500 == 77 ? (double)NAN : x));
        }
        const struct terp_stream by_line =
            check_as("line", &lossless, &line, values, TERP_CODING_GRID);
        const struct terp_stream by_plane =
            check_as("plane", &lossless, &plane, values, TERP_CODING_GRID);
        assert_true(by_line.nbytes < by_plane.nbytes / 20 * 19);
        free(by_plane.bytes);
        free(by_line.bytes);
    }
    for (uint64_t i = 0; i < 12000; i++) /* all steps are equal */
        value_put(&line, values, i, double_bits(0.1 * (double)(i + 1)));
    const struct terp_stream stream =
        check_as("equal steps", &lossless, &line, values, TERP_CODING_GRID);
    assert_true(stream.nbytes < 4000);
    free(stream.bytes);
    free(values);
}

/* The drift is the median of differences that nearly all have one sign. */
static void
drift_is_the_middle_difference(void **state)
{
    int64_t rising[] = {9, 1, 3, 2, 4, 1, 7, -5}, mixed[] = {5, -1, 4, -2, 3};
    int64_t falling[] = {-1, -1, -2};

    (void)state;
    assert_int_equal(terp_grid_drift(8, rising), 3);
    assert_int_equal(terp_grid_drift(5, mixed), 0);
    assert_int_equal(terp_grid_drift(3, falling), -1);
    assert_int_equal(terp_grid_drift(0, falling), 0);
    assert_true(terp_grid_may_drift(1, 8, INT64_C(1) << 58));
    assert_false(terp_grid_may_drift(1, 8, (INT64_C(1) << 58) + 1));
    assert_false(terp_grid_may_drift(1, 8, INT64_MIN));
    assert_false(terp_grid_may_drift(2, 8, 1));
}

/* Values without a step; too many exceptions; small chunks; version 1; effort
 * `fast`; a bound. */
static void
other_chunks_have_no_grid(void **state)
{
    const struct terp_chunk chunk = {TERP_FLOAT64, false, false, 2, {61, 331}};
    const struct terp_chunk small = {TERP_FLOAT64, false, false, 1, {4095}};
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));

    (void)state;
    for (int c = 0; c < 6; c++) {
        const struct terp_chunk *own = c == 2 ? &small : &chunk;
        struct terp_params params = lossless;
        decimals_make(own, c == 1 ? 4 : 0, values);
        if (c == 0)
            terp_field_make(TERP_FIELD_NOISE, own, values);
        params.format = c == 3 ? 1 : 0;
        params.effort = c == 4 ? TERP_EFFORT_FAST : TERP_EFFORT_DEFAULT;
        params.bound = c == 5 ? 1e-3 : 0;
        const struct terp_stream stream =
            terp_case_encode(&params, own, values, 1);
        if (stream.bytes[TERP_FRAME_VERSION_AT] != 1)
            fail_msg("case %d: version 2", c);
        free(stream.bytes);
    }
    free(values);
}

/* A value is the product rounded once, also where doubles round twice. */
static void
products_are_rounded_once(void **state)
{
    static const struct {
        uint64_t mantissa;
        int exponent;
        int64_t k;
        int nbytes;
        uint64_t bits;
    } cases[] = {{UINT64_C(1) << 63, -63, 3, 8, 0x4008000000000000},
                 {UINT64_C(1) << 63, -63, -3, 4, 0xc0400000},
                 {UINT64_C(1) << 63, -63, 16777217, 4, 0x4b800000}, /* a tie */
                 {UINT64_C(1) << 63, -63, 16777219, 4, 0x4b800002},
                 {(UINT64_C(1) << 63) + 1, -63, 16777217, 4, 0x4b800001},
                 {UINT64_MAX, -64, 1, 4, 0x3f800000},
                 {UINT64_C(0xCCCCCCCCCCCCCCCD), -67, 3, 8, 0x3fd3333333333333},
                 {UINT64_C(1) << 63, -1085, 1, 8, 0x0010000000000000},
                 {UINT64_C(1) << 63, 960, 1, 8, 0x7fe0000000000000},
                 {UINT64_C(1) << 63, -189, -1, 4, 0x80800000},
                 {UINT64_C(1) << 63, 64, -1, 4, 0xff000000},
                 {UINT64_C(1) << 63, 4095, 0, 8, 0}};

    (void)state;
    for (size_t c = 0; c < COUNT(cases); c++) {
        struct terp_grid grid = {.mantissa = cases[c].mantissa,
                                 .exponent = cases[c].exponent};
        uint64_t bits = 0;
        assert_true(terp_grid_bits(&grid, cases[c].k, cases[c].nbytes, &bits));
        if (bits != cases[c].bits)
            fail_msg("case %d: %llx", (int)c, (unsigned long long)bits);
        /* One step beyond the limits of normal numbers. */
        if (c >= 7 && c < 11) {
            grid.exponent += grid.exponent < -70 ? -1 : 1;
            assert_false(
                terp_grid_bits(&grid, cases[c].k, cases[c].nbytes, &bits));
        }
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decimals_come_back_by_their_integers),
        cmocka_unit_test(other_steps_are_found),
        cmocka_unit_test(times_are_smaller_by_their_drift),
        cmocka_unit_test(drift_is_the_middle_difference),
        cmocka_unit_test(other_chunks_have_no_grid),
        cmocka_unit_test(products_are_rounded_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
