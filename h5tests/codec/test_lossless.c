/* The lossless prediction and references. Integers and remainders hold all bits
 * of values, chunks of all kinds come back unchanged, repeats cost little, and
 * damaged streams are refused or decoded. */
#include <stdio.h>
#include <stdlib.h>

#include "codec/format/frame.h"
#include "codec/model/low_bits.h"
#include "cpu/predict/stages.h"
#include "cpu/sections/bits.h"
#include "h5tests/support/cases.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/fields.h"
#include "h5tests/support/values.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct terp_params lossless = {.bound_mode = TERP_BOUND_ABSOLUTE};

static uint8_t *
make_values(enum terp_field field, const struct terp_chunk *chunk)
{
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(chunk));

    terp_field_make(field, chunk, values);
    return values;
}

/* ---- integers and remainders ---- */

#define NWORDS 64

/* Words of all kinds except NaN and infinities: random, next to powers of two,
 * small, and both zeros. */
static uint64_t
word(int value_nbytes, uint64_t n)
{
    const int width = 8 * value_nbytes;
    const uint64_t any = terp_field_mix(n);
    const uint64_t sign = any >> 63 << (width - 1);
    const int exponent_at = value_nbytes == 4 ? 23 : 52;
    const uint64_t nexponents = value_nbytes == 4 ? 255 : 2047;
    const uint64_t power = any % nexponents << exponent_at;

    return sign | (n % 4 == 0   ? power | any >> 1 >> (64 - exponent_at)
                   : n % 4 == 1 ? (power == 0 ? 1 : power) - 1 + any % 3
                   : n % 4 == 2 ? any >> 8 >> (any % 48 + 8)
                                : any % 2 << exponent_at);
}

/* Whether this model has integers for all words. Words come back in any
 * case. */
static bool
code_words(const struct cpu_stages *stages, const struct cpu_lossless *model,
           uint64_t first)
{
    uint64_t wide[NWORDS], quants[NWORDS], back[NWORDS], mask = 0;
    uint8_t bytes[8 * NWORDS + CPU_BITS_PADDING_NBYTES];
    const int nbytes = stages->value_nbytes;

    for (uint64_t i = 0; i < NWORDS; i++)
        store_value((uint8_t *)wide + i * (uint64_t)nbytes,
                    word(nbytes, first + i), nbytes);
    stages->lossless_quantize(wide, NWORDS, model, &mask, quants);
    assert_int_equal(
        stages->nbits_of_remainders(quants, 0, NWORDS, model, &mask),
        stages->nbits_of_remainders_of_values(wide, 0, NWORDS, model, &mask));
    stages->put_remainders(wide, 0, NWORDS, model, &mask, bytes);
    if (model->form == TERP_LOSSLESS_REMAINDERS)
        stages->join_remainders(quants, 0, NWORDS, model, &mask, bytes, back);
    else
        stages->lossless_restore(quants, NWORDS, model, back);
    for (uint64_t i = 0; i < NWORDS; i++)
        if (!(mask >> i & 1))
            assert_int_equal(
                load_value((uint8_t *)back + i * (uint64_t)nbytes, nbytes),
                load_value((uint8_t *)wide + i * (uint64_t)nbytes, nbytes));
    return mask == 0;
}

static void
integers_and_remainders_are_all_bits(void **state)
{
    static const int64_t centers[] = {0, 1, -5, INT32_MAX, INT32_MIN};
    static const struct cpu_stages *const types[] = {&terp_cpu_stages_f32,
                                                     &terp_cpu_stages_f64};

    (void)state;
    for (int t = 0; t < 2; t++) {
        const int nbytes = types[t]->value_nbytes;
        const int most =
            -terp_min_exponent(nbytes) - terp_mantissa_nbits(nbytes);
        const int exponents[] = {terp_least_exponent(nbytes),
                                 terp_min_exponent(nbytes),
                                 -30,
                                 0,
                                 20,
                                 most};
        for (uint64_t n = 0; n < 4096; n++) {
            const struct cpu_lossless model = {
                .exact = {1, n % 5 == 0 ? (uint8_t)(n % 24) : 0,
                          (int16_t)exponents[n % COUNT(exponents)]},
                .form = (enum terp_lossless_form)(n / 8 % TERP_LOSSLESS_NFORMS),
                .center = centers[n % COUNT(centers)]};
            const bool all = code_words(types[t], &model, n * NWORDS);
            if (model.form == TERP_LOSSLESS_MAGNITUDES ||
                (model.form == TERP_LOSSLESS_REMAINDERS &&
                 model.exact.nzeros == 0 &&
                 model.exact.exponent != exponents[0]))
                assert_true(all);
        }
    }
}

/* Remainders of every width follow one another, so that they begin at every bit
 * of a byte. */
static void
remainders_of_all_widths_come_back(void **state)
{
    enum {
        NPOINTS = 4 * NWORDS
    };
    static const struct cpu_stages *const types[] = {&terp_cpu_stages_f32,
                                                     &terp_cpu_stages_f64};
    uint64_t values[NPOINTS], quants[NPOINTS], back[NPOINTS];
    uint8_t bytes[8 * NPOINTS + CPU_BITS_PADDING_NBYTES];

    (void)state;
    for (int t = 0; t < 2; t++) {
        const int nbytes = types[t]->value_nbytes;
        const uint64_t nbits = (uint64_t)terp_mantissa_nbits(nbytes);
        for (uint64_t most = 1; most <= nbits; most++)
            for (uint64_t nround = 0; nround < 20; nround++) {
                const struct cpu_lossless model = {
                    .exact = {1, 0, -30}, .form = TERP_LOSSLESS_REMAINDERS};
                uint64_t mask[NPOINTS / NWORDS] = {0};
                for (uint64_t i = 0; i < NPOINTS; i++) {
                    const uint64_t any =
                        terp_field_mix((most * 20 + nround) * NPOINTS + i);
                    const uint64_t width = most - any % 4 % most;
                    const uint64_t field =
                        (nbytes == 4 ? 127u : 1023u) - 30 + nbits - width;
                    store_value((uint8_t *)values + i * (uint64_t)nbytes,
                                field << nbits | any >> (64 - nbits) |
                                    (any >> 8 & 1) << (8 * nbytes - 1),
                                nbytes);
                }
                types[t]->lossless_quantize(values, NPOINTS, &model, mask,
                                            quants);
                types[t]->put_remainders(values, 0, NPOINTS, &model, mask,
                                         bytes);
                types[t]->join_remainders(quants, 0, NPOINTS, &model, NULL,
                                          bytes, back);
                assert_memory_equal(values, back, NPOINTS * (size_t)nbytes);
            }
    }
}

/* No encoder chooses this model, but a stream may have it. */
static void
magnitudes_from_the_least_step_begin_with_its_word(void **state)
{
    static const struct cpu_stages *const types[] = {&terp_cpu_stages_f32,
                                                     &terp_cpu_stages_f64};

    (void)state;
    for (int t = 0; t < 2; t++) {
        const int nbytes = types[t]->value_nbytes;
        const struct cpu_lossless model = {
            .exact = {1, 0, (int16_t)terp_least_exponent(nbytes)},
            .form = TERP_LOSSLESS_MAGNITUDES};
        uint64_t quants[4], values[4];

        for (uint64_t i = 0; i < 4; i++) /* 0, 1: the word of the step */
            store_value((uint8_t *)quants + i * (uint64_t)nbytes, i, nbytes);
        types[t]->lossless_restore(quants, 4, &model, values);
        for (uint64_t i = 0; i < 4; i++)
            assert_int_equal(
                load_value((uint8_t *)values + i * (uint64_t)nbytes, nbytes),
                (1 + i / 2) | i % 2 << (8 * nbytes - 1));
    }
}

/* ---- chunks ---- */

static const struct terp_chunk shapes[] = {
    {TERP_FLOAT32, false, false, 1, {1}},
    {TERP_FLOAT64, false, false, 1, {3}},
    {TERP_FLOAT32, false, false, 1, {1021}},
    {TERP_FLOAT64, true, false, 1, {4099}},
    {TERP_FLOAT32, true, false, 2, {1, 700}},
    {TERP_FLOAT64, false, false, 2, {700, 2}},
    {TERP_FLOAT32, false, true, 3, {5, 19, 37}},
    {TERP_FLOAT64, false, false, 3, {17, 18, 19}},
    {TERP_FLOAT32, false, false, 4, {3, 2, 31, 40}},
    {TERP_FLOAT64, true, true, 4, {2, 9, 10, 11}},
    {TERP_FLOAT16, false, false, 2, {61, 62}},
    {TERP_BFLOAT16, true, false, 3, {9, 10, 41}},
    {TERP_INT16, false, false, 2, {61, 62}},
    {TERP_UINT32, true, false, 3, {9, 10, 41}},
    {TERP_INT64, false, true, 3, {3, 31, 32}},
    {TERP_COMPLEX64, false, false, 2, {30, 41}},
    {TERP_COMPLEX128, true, false, 1, {900}},
};

static void
all_fields_come_back(void **state)
{
    (void)state;
    for (size_t c = 0; c < COUNT(shapes); c++)
        for (int field = 0; field < TERP_NNAMED_FIELDS; field++) {
            const struct terp_mode *mode =
                &terp_mode[(c + (size_t)field) % TERP_NMODES];
            struct terp_params params = lossless;
            uint8_t *values = make_values((enum terp_field)field, &shapes[c]);
            uint64_t nbytes = terp_chunk_nbytes(&shapes[c]), got;
            uint8_t *decoded = terp_case_alloc(nbytes);
            params.pipeline = mode->pipeline;
            params.predictor = mode->predictor;
            struct terp_stream stream =
                terp_case_encode(&params, &shapes[c], values, 1);
            assert_int_equal(terp_decode(stream.bytes, stream.nbytes, decoded,
                                         nbytes, &got, 2),
                             TERP_OK);
            assert_int_equal(got, nbytes);
            assert_memory_equal(decoded, values, nbytes);
            terp_case_check_threads(&params, &shapes[c], values);
            free(stream.bytes);
            free(decoded);
            free(values);
        }
}

/* ---- repeats ---- */

static const enum terp_type repeating[] = {TERP_FLOAT32, TERP_FLOAT64,
                                           TERP_FLOAT16, TERP_BFLOAT16};

static void
what_repeats_refers(void **state)
{
    (void)state;
    for (size_t t = 0; t < COUNT(repeating); t++) {
        const struct terp_chunk chunk = {
            repeating[t], t % 2 > 0, false, 3, {5, 20, 60}};
        uint8_t *values = make_values(TERP_FIELD_MIRRORS, &chunk);
        uint8_t *noise = make_values(TERP_FIELD_NOISE, &chunk);
        struct terp_stream stream =
            terp_case_encode(&lossless, &chunk, values, 1);
        struct terp_stream other =
            terp_case_encode(&lossless, &chunk, noise, 1);
        assert_int_equal(stream.bytes[TERP_FRAME_CODING_AT],
                         TERP_CODING_REFERENCES);
        assert_int_not_equal(other.bytes[TERP_FRAME_CODING_AT],
                             TERP_CODING_REFERENCES);
        /* Half of the chunk, plus the references of the other half. */
        assert_true(stream.nbytes < terp_chunk_nbytes(&chunk) * 7 / 10);
        free(stream.bytes);
        free(other.bytes);
        free(values);
        free(noise);
    }
}

static void
check_that_it_refers(const struct terp_chunk *chunk, const void *values)
{
    struct terp_stream stream = terp_case_encode(&lossless, chunk, values, 1);

    assert_int_equal(stream.bytes[TERP_FRAME_CODING_AT],
                     TERP_CODING_REFERENCES);
    free(stream.bytes);
    terp_case_check("references", &lossless, chunk, values);
}

/* Around zero, both ends of a range occur as words. */
static void
integers_of_either_sign_refer(void **state)
{
    const uint64_t n = 6000;
    const struct terp_chunk narrow = {TERP_INT16, false, false, 1, {6000}};
    const struct terp_chunk wide = {TERP_INT32, true, false, 1, {6000}};
    uint8_t *values = terp_case_alloc(2 * n), *more = terp_case_alloc(4 * n);

    (void)state;
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t from = i < n / 2 ? i : n - 1 - i;
        const uint64_t value =
            from < 2 ? 0 - from : (terp_field_mix(from) >> 50) - 8192;
        store_le(values + 2 * i, value, 2);
        store_le(more + 4 * i, value, 4);
    }
    check_that_it_refers(&narrow, values);
    terp_swap_values(more, n, 4);
    check_that_it_refers(&wide, more);
    free(values);
    free(more);
}

/* No value of the chunk may be the marker. */
static void
values_that_are_markers_come_back(void **state)
{
    const struct terp_chunk chunk = {TERP_FLOAT32, false, false, 2, {40, 60}};
    const struct terp_chunk whole = {TERP_UINT16, false, false, 1, {65536}};
    uint8_t *values = make_values(TERP_FIELD_MIRRORS, &chunk);
    uint8_t *all = terp_case_alloc(2 * 65536);

    (void)state;
    for (uint32_t i = 0; i < 1200; i += 7) {
        store_le(values + 4 * i, 0x7FFFFFFE - i % 2, 4);
    }
    for (uint32_t i = 0; i < 65536; i++)
        store_le(all + 2 * i, i < 32768 ? 2 * i : 2 * (65535 - i) + 1, 2);
    terp_case_check("NaN", &lossless, &chunk, values);
    terp_case_check_threads(&lossless, &whole, all);
    free(values);
    free(all);
}

/* ---- choices ---- */

/* A value in [0, 1) with `nbits` fraction bits. */
static void
put_fraction(const struct terp_chunk *chunk, uint8_t *values, uint64_t i,
             int nbits)
{
    const uint64_t number = terp_field_mix(i) >> (64 - nbits);

    value_put(chunk, values, i,
              value_to_bits(chunk->type, ldexp((double)number, -nbits)));
}

/* The samples lie on a grid, and all other values do not. */
static void
a_grid_of_samples_alone_is_none(void **state)
{
    const uint64_t n = 100000;
    const struct terp_chunk chunk = {TERP_FLOAT32, false, false, 1, {100000}};
    uint8_t *values = terp_case_alloc(4 * n);
    struct terp_info info = {.size = sizeof info};

    (void)state;
    for (uint64_t i = 0; i < n; i++)
        put_fraction(&chunk, values, i, 24);
    for (uint64_t i = 0; i < TERP_COMMON_BITS_NSAMPLES; i++)
        put_fraction(&chunk, values, terp_common_bits_sample_at(n, i), 10);
    struct terp_stream stream = terp_case_encode(&lossless, &chunk, values, 1);
    assert_int_equal(terp_inspect(stream.bytes, stream.nbytes, &info), TERP_OK);
    assert_string_equal(info.predictor, "lossless");
    assert_true(info.nspecials < n / 512);
    assert_true(stream.nbytes < 4 * n * 26 / 32);
    free(stream.bytes);
    free(values);
}

/* Zeros in runs have one color. If the samples suggest a grid that few values
 * miss, an encoder could store each zero separately; it must not. */
static void
few_values_off_a_grid_spoil_no_colors(void **state)
{
    const uint64_t n = 100000;
    const struct terp_chunk chunk = {TERP_FLOAT32, false, false, 1, {100000}};
    uint8_t *values = terp_case_alloc(4 * n);

    (void)state;
    memset(values, 0, 4 * n);
    for (uint64_t i = 0; i < n; i++)
        if (i / 500 % 2 == 0)
            put_fraction(&chunk, values, i, 10);
    for (uint64_t i = 1777; i < n; i += 2000)
        put_fraction(&chunk, values, i, 24);
    struct terp_stream stream = terp_case_encode(&lossless, &chunk, values, 1);
    assert_true(stream.nbytes < 2 * n);
    free(stream.bytes);
    free(values);
}

/* Under a bound below the last bit of the largest values, the encoder also
 * makes a lossless stream, and uses it if it is smaller. For random bits no
 * stream is smaller than raw, but a bound drops bits of small values. */
static void
streams_without_a_loss_are_left_where_they_are_larger(void **state)
{
    const struct terp_chunk chunk = {TERP_FLOAT64, false, false, 2, {61, 70}};
    const struct terp_params params = {.bound_mode = TERP_BOUND_RELATIVE,
                                       .bound = 1e-17};
    const uint64_t nbytes = terp_chunk_nbytes(&chunk);
    uint8_t *values = terp_case_alloc(nbytes);

    (void)state;
    for (uint64_t i = 0; i < nbytes / 8; i++) {
        uint64_t bits = terp_field_mix(i);
        if ((bits >> 52 & 0x7FF) == 0x7FF)
            bits ^= UINT64_C(1) << 62;
        store_le(values + 8 * i, bits, 8);
    }
    assert_true(terp_case_check("any bits", &lossless, &chunk, values) >=
                nbytes);
    assert_true(terp_case_check("any bits", &params, &chunk, values) <
                nbytes / 4);
    free(values);
}

/* ---- damage ---- */

static void
damaged_streams_are_refused_or_decoded(void **state)
{
    static const struct terp_chunk chunks[] = {
        {TERP_FLOAT64, false, false, 2, {12, 30}},
        {TERP_FLOAT32, false, false, 2, {12, 31}}};
    static const enum terp_field fields[] = {TERP_FIELD_MIRRORS,
                                             TERP_FIELD_NOISE, TERP_FIELD_GAPS,
                                             TERP_FIELD_SINES};

    (void)state;
    for (size_t c = 0; c < COUNT(chunks) * COUNT(fields); c++) {
        const struct terp_chunk *chunk = &chunks[c % COUNT(chunks)];
        uint8_t *values = make_values(fields[c / COUNT(chunks)], chunk);
        const uint64_t nbytes = terp_chunk_nbytes(chunk);
        uint8_t *decoded = terp_case_alloc(nbytes);
        struct terp_stream stream =
            terp_case_encode(&lossless, chunk, values, 1);
        uint64_t got;
        for (uint64_t at = 16; at < stream.nbytes; at++) {
            const uint8_t before = stream.bytes[at];
            stream.bytes[at] = (uint8_t)terp_field_mix(at);
            terp_frame_seal(stream.bytes, stream.nbytes);
            const enum terp_status st = terp_decode(stream.bytes, stream.nbytes,
                                                    decoded, nbytes, &got, 1);
            assert_true(st == TERP_OK || st == TERP_ERR_CORRUPT ||
                        st == TERP_ERR_TRUNCATED || st == TERP_ERR_CAPACITY);
            stream.bytes[at] = before;
        }
        free(stream.bytes);
        free(decoded);
        free(values);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_and_remainders_are_all_bits),
        cmocka_unit_test(remainders_of_all_widths_come_back),
        cmocka_unit_test(magnitudes_from_the_least_step_begin_with_its_word),
        cmocka_unit_test(all_fields_come_back),
        cmocka_unit_test(what_repeats_refers),
        cmocka_unit_test(integers_of_either_sign_refer),
        cmocka_unit_test(values_that_are_markers_come_back),
        cmocka_unit_test(a_grid_of_samples_alone_is_none),
        cmocka_unit_test(few_values_off_a_grid_spoil_no_colors),
        cmocka_unit_test(streams_without_a_loss_are_left_where_they_are_larger),
        cmocka_unit_test(damaged_streams_are_refused_or_decoded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
