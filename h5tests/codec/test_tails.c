/* Tails of lorenzo's differences: splitting differences, and round trips. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "codec/format/low_bits.h"
#include "cpu/predict/stages.h"
#include "cpu/sections/low_bits_tile.h"
#include "h5tests/support/cases.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/fields.h"
#include "h5tests/support/values.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- differences ---- */

#define NDIFFERENCES 256

/* The n-th difference to try with tails of so many bits, modulo the type's
 * width: around zero, where the code changes, at the largest codes, at the ends
 * of the type, or random. */
static int64_t
difference(enum terp_type type, int tail_nbits, uint64_t n)
{
    const uint64_t unit = UINT64_C(1) << tail_nbits;
    const uint64_t bases[] = {0,
                              unit / 2,
                              0 - unit / 2,
                              5 * unit,
                              INT16_MAX * unit + unit / 2,
                              0 - INT16_MAX * unit - unit / 2,
                              UINT64_C(1) << (8 * value_nbytes(type) - 1)};
    const int64_t random = (int64_t)terp_field_mix(n);
    const uint64_t word = n < 8 * COUNT(bases)
                              ? bases[n / 8] + n % 8 - 4
                              : (uint64_t)(random >> (random & 63));

    return type == TERP_FLOAT32 ? (int32_t)word : (int64_t)word;
}

/* Splits the differences and joins them again, by a type's stages. */
static void
split_and_join(enum terp_type type, int tail_nbits)
{
    const struct cpu_stages *stages =
        type == TERP_FLOAT32 ? &terp_cpu_stages_f32 : &terp_cpu_stages_f64;
    const struct cpu_quantizer quantizer = {
        .max_code = terp_max_code_of(TERP_WIDE_MAX),
        .wide = TERP_WIDE_MAX,
        .tail_nbits = tail_nbits,
        .radius = terp_radius_of(TERP_WIDE_MAX)};
    int32_t narrow[NDIFFERENCES];
    int64_t wide[NDIFFERENCES];
    void *quants = type == TERP_FLOAT32 ? (void *)narrow : wide;
    uint16_t symbols[NDIFFERENCES];
    uint64_t numbers[NDIFFERENCES];
    int nescapes = 0;

    for (uint64_t i = 0; i < NDIFFERENCES; i++)
        narrow[i] = (int32_t)(wide[i] = difference(type, tail_nbits, i));
    stages->symbols_of_quants(quants, NDIFFERENCES, &quantizer, symbols);
    stages->numbers_of_tails(quants, symbols, NDIFFERENCES, &quantizer,
                             numbers);
    stages->tails_of_numbers(numbers, NDIFFERENCES, quants);
    for (uint64_t i = 0; i < NDIFFERENCES; i++) {
        const int64_t d = difference(type, tail_nbits, i);
        const int64_t code = (d >> tail_nbits) + (d >> (tail_nbits - 1) & 1);
        if (code < -INT16_MAX || code > INT16_MAX) {
            assert_int_equal(symbols[i], TERP_ESCAPE);
            assert_int_equal(numbers[i], 0);
            narrow[i] = type == TERP_FLOAT32 ? (int32_t)d : narrow[i];
            wide[i] = type == TERP_FLOAT64 ? d : wide[i];
            nescapes++;
        } else {
            assert_int_equal(symbols[i], code + TERP_WIDE_RADIUS);
            assert_true(numbers[i] < UINT64_C(1) << tail_nbits);
        }
    }
    assert_in_range(nescapes, 8, NDIFFERENCES * 3 / 4);
    stages->quants_of_symbols(symbols, NDIFFERENCES, &quantizer, quants);
    for (uint64_t i = 0; i < NDIFFERENCES; i++)
        if ((type == TERP_FLOAT32 ? narrow[i] : wide[i]) !=
            difference(type, tail_nbits, i))
            fail_msg("difference %" PRId64 " of %d bytes, tails of %d bits",
                     difference(type, tail_nbits, i), value_nbytes(type),
                     tail_nbits);
}

static void
every_difference_is_split_and_joined(void **state)
{
    (void)state;
    for (int type = TERP_FLOAT32; type <= TERP_FLOAT64; type++) {
        const int most =
            terp_tail_max_nbits(value_nbytes((enum terp_type)type));
        for (int tail_nbits = 1; tail_nbits <= most; tail_nbits++)
            split_and_join((enum terp_type)type, tail_nbits);
    }
}

/* ---- round trips ---- */

/* Encodes and decodes with one thread or several. The tails must have at least
 * so many bits. */
static const struct {
    struct terp_chunk chunk;
    enum terp_field field;
    double bound; /* relative */
    int tail_nbits;
} cases[] = {
    {{TERP_FLOAT32, false, false, 1, {5003}}, TERP_FIELD_NOISE, 1e-5, 1},
    {{TERP_FLOAT32, false, false, 1, {1025}}, TERP_FIELD_NOISE, 1e-9, 10},
    {{TERP_FLOAT32, true, false, 3, {24, 10, 15}}, TERP_FIELD_MAPS, 1e-9, 7},
    {{TERP_FLOAT32, false, true, 4, {3, 9, 9, 16}}, TERP_FIELD_HUGE, 1e-9, 9},
    {{TERP_FLOAT32, false, false, 2, {37, 41}}, TERP_FIELD_GAPS, 1e-7, 4},
    {{TERP_FLOAT32, false, false, 3, {64, 64, 50}}, TERP_FIELD_FINE, 1e-9, 8},
    {{TERP_FLOAT64, false, false, 2, {37, 41}}, TERP_FIELD_FINE, 1e-12, 18},
    {{TERP_FLOAT64, true, false, 4, {5, 4, 7, 11}}, TERP_FIELD_FINE, 1e-13, 20},
    {{TERP_FLOAT64, false, false, 3, {9, 11, 13}}, TERP_FIELD_FINE, 1e-15, 28},
    {{TERP_FLOAT64, false, false, 1, {2011}}, TERP_FIELD_FINE, 1e-300, 36},
    {{TERP_FLOAT64, false, true, 4, {3, 9, 9, 16}}, TERP_FIELD_GAPS, 1e-9, 9},
    {{TERP_FLOAT64, false, false, 3, {24, 10, 15}}, TERP_FIELD_MAPS, 1e-12, 9},
    {{TERP_FLOAT64, false, false, 2, {523, 509}}, TERP_FIELD_FINE, 1e-13, 20},
};

static void
tails_keep_the_bound(void **state)
{
    (void)state;
    for (size_t c = 0; c < COUNT(cases); c++) {
        const struct terp_chunk *chunk = &cases[c].chunk;
        uint8_t *values = terp_case_alloc(terp_chunk_nbytes(chunk));
        terp_field_make(cases[c].field, chunk, values);
        for (int mode = 0; mode < TERP_NMODES; mode++) {
            struct terp_params params = {.bound_mode = TERP_BOUND_RELATIVE,
                                         .bound = cases[c].bound,
                                         .pipeline = terp_mode[mode].pipeline,
                                         .predictor =
                                             terp_mode[mode].predictor};
            char name[128];
            /* Under other bounds all bits of large values come back. */
            params.effort = TERP_EFFORT_FAST;
            snprintf(name, sizeof name, "case %zu, %s", c,
                     terp_mode[mode].name);
            terp_case_check(name, &params, chunk, values);
            struct terp_stream stream =
                terp_case_encode(&params, chunk, values, 1);
            const int tail_nbits = terp_case_tail_nbits(&stream);
            if (params.predictor == TERP_PREDICTOR_SPLINE ||
                params.pipeline == TERP_PIPELINE_SPEED)
                assert_int_equal(tail_nbits, 0);
            else if (tail_nbits < cases[c].tail_nbits)
                fail_msg("%s: tails have %d bits", name, tail_nbits);
            free(stream.bytes);
        }
        free(values);
    }
}

static void
any_number_of_threads_gives_the_same_bytes(void **state)
{
    (void)state;
    for (size_t c = 0; c < COUNT(cases); c++) {
        const struct terp_chunk *chunk = &cases[c].chunk;
        const struct terp_params params = {.bound_mode = TERP_BOUND_RELATIVE,
                                           .bound = cases[c].bound,
                                           .pipeline = TERP_PIPELINE_HUFFMAN,
                                           .predictor = TERP_PREDICTOR_LORENZO};
        uint8_t *values = terp_case_alloc(terp_chunk_nbytes(chunk));
        terp_field_make(cases[c].field, chunk, values);
        terp_case_check_threads(&params, chunk, values);
        free(values);
    }
}

/* If bit 15 of a list is clear, the list has a code for each symbol 0. */
static void
lists_have_a_code_for_every_escape(void **state)
{
    enum {
        NSYMBOLS = 5,
        CODE = 300
    };
    static const uint8_t one[] = {1, 0, 16, 2 * CODE % 256, 2 * CODE / 256};

    (void)state;
    for (int nescapes = 0; nescapes < 4; nescapes++) {
        const struct cpu_low_tile tile = {.list_nbytes = sizeof one};
        uint16_t symbols[NSYMBOLS];
        static struct cpu_low_scratch scratch;
        for (int i = 0; i < NSYMBOLS; i++)
            symbols[i] = (uint16_t)(i < nescapes ? TERP_ESCAPE : 7);
        assert_int_equal(terp_cpu_low_tile_join(&tile, NSYMBOLS, NSYMBOLS, one,
                                                &scratch, symbols),
                         nescapes == 1);
        if (nescapes == 1)
            assert_int_equal(symbols[0], terp_symbol_of_wide(CODE));
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_difference_is_split_and_joined),
        cmocka_unit_test(lists_have_a_code_for_every_escape),
        cmocka_unit_test(tails_keep_the_bound),
        cmocka_unit_test(any_number_of_threads_gives_the_same_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
