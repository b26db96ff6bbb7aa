/* The sections of the lossless prediction, bit by bit: differences of shifts of
 * every width, and values of remainders under models of all kinds, also those
 * that no encoder chooses. Formulas are those of doc/format.md. Buffers are
 * allocated exactly, for ASan. */
#include <math.h>
#include <stdlib.h>

#include "codec/format/bits.h"
#include "cpu/predict/stages.h"
#include "cpu/sections/bits.h"
#include "h5tests/support/cases.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/fields.h"
#include "h5tests/support/values.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct cpu_stages *const types[] = {&terp_cpu_stages_f32,
                                                 &terp_cpu_stages_f64};

static uint64_t random_state;

static uint64_t
next_random(void)
{
    return terp_field_mix(random_state++);
}

static uint64_t
word_at(const void *words, uint64_t i, int nbytes)
{
    return load_value((const uint8_t *)words + i * (uint64_t)nbytes, nbytes);
}

/* A section of so many bits, with random bits, and zeros to the end of the last
 * byte. What is after it must not matter. */
static uint8_t *
make_section(uint64_t nbits)
{
    const uint64_t nbytes = div_up(nbits, 8);
    uint8_t *bytes = terp_case_alloc(nbytes + CPU_BITS_PADDING_NBYTES);

    for (uint64_t i = 0; i < nbytes + CPU_BITS_PADDING_NBYTES; i++)
        bytes[i] = (uint8_t)next_random();
    if (nbits % 8 > 0)
        bytes[nbytes - 1] &= (uint8_t)((1u << nbits % 8) - 1);
    return bytes;
}

/* ---- shifts ---- */

static void
check_shift(const struct cpu_stages *stages, uint64_t n, int shift, int nzeros)
{
    const int nbytes = stages->value_nbytes;
    const uint64_t ones = UINT64_MAX >> (64 - 8 * nbytes);
    uint16_t *symbols = terp_case_alloc(n * sizeof *symbols);
    void *differences = terp_case_alloc(n * (uint64_t)nbytes);
    uint8_t *bytes = make_section(n * (uint64_t)shift);

    for (uint64_t i = 0; i < n; i++)
        symbols[i] = (uint16_t)(1 + next_random() % (TERP_NSYMBOLS - 1));
    stages->join_shift(symbols, n, nzeros, shift, bytes, differences);
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t code = (uint64_t)symbols[i] - TERP_RADIUS;
        const uint64_t number = load_bits(bytes, i * (uint64_t)shift, shift);
        assert_int_equal(word_at(differences, i, nbytes),
                         ((code << shift) + number - (UINT64_C(1) << shift) / 2)
                                 << nzeros &
                             ones);
    }
    if (nzeros == 0) {
        uint8_t *again = make_section(n * (uint64_t)shift);
        stages->put_below_shift(differences, symbols, n, 0, shift, again);
        assert_memory_equal(again, bytes, div_up(n * (uint64_t)shift, 8));
        free(again);
    }
    free(bytes);
    free(differences);
    free(symbols);
}

static void
shifts_of_every_width_come_back(void **state)
{
    static const uint64_t counts[] = {1, 2, 3, 4, 5, 63, 64, 65, 255, 256};

    (void)state;
    for (size_t t = 0; t < COUNT(types); t++) {
        const int nbytes = types[t]->value_nbytes;
        for (int shift = 0; shift <= terp_max_shift(nbytes); shift++)
            for (size_t c = 0; c < COUNT(counts); c++) {
                check_shift(types[t], counts[c], shift, 0);
                check_shift(
                    types[t], counts[c], shift,
                    1 + (int)(next_random() % (8u * (unsigned)nbytes - 1)));
            }
    }
}

/* ---- remainders ---- */

/* The numbers N, F, S = 2^e and z of a model. */
struct model {
    int nbytes, exponent, nzeros;
    uint64_t count, first, ones;
};

static uint64_t
word_of_multiple(const struct model *m, uint64_t n)
{
    const double value = ldexp((double)n, m->exponent);

    return value_to_bits(m->nbytes == 4 ? TERP_FLOAT32 : TERP_FLOAT64, value);
}

/* W(a) */
static uint64_t
least_word(const struct model *m, uint64_t a)
{
    return (a < m->count ? word_of_multiple(m, a)
                         : m->first + ((a - m->count) << m->nzeros)) &
           m->ones;
}

static int
nbits_of(const struct model *m, uint64_t a)
{
    const uint64_t last = least_word(m, a + 1) - 1 - least_word(m, a);

    return a >= m->count ? 0
                         : bit_width((last & m->ones) >> m->nzeros) + (a == 0);
}

static uint64_t
value_word(const struct model *m, uint64_t a, bool is_negative, uint64_t r)
{
    const uint64_t sign = m->ones ^ m->ones >> 1;
    const bool has_sign = a == 0 && m->count > 0;

    if (has_sign)
        is_negative = (r & 1) != 0;
    r = has_sign ? r >> 1 : r;
    return ((least_word(m, a) + (r << m->nzeros)) & m->ones) |
           (is_negative ? sign : 0);
}

/* Magnitudes of all sizes, next to powers of two, to N, and to 2 N. */
static uint64_t
random_magnitude(const struct model *m)
{
    const uint64_t any = next_random(), nbits = (uint64_t)m->nbytes * 8 - 1;

    return any % 4 == 0   ? any >> 2 >> any / 4 % 62
           : any % 4 == 1 ? (UINT64_C(1) << any / 4 % nbits) + any / 256 % 3 - 1
           : any % 4 == 2 ? m->count * (1 + any / 4 % 2) + any / 8 % 5
                          : any / 4 % 3;
}

#define FIRST 64 /* groups begin at whole words of the mask */

static void
check_remainders(const struct cpu_stages *stages, const struct model *m,
                 uint64_t n, bool has_specials)
{
    const uint64_t end = FIRST + n, nwords = div_up(end, 64);
    /* Whole words of short remainders are read in another way. */
    const uint64_t least =
        next_random() % 2 ? 0 : m->count >> next_random() % 32;
    const struct cpu_lossless model = {
        .exact = {1, (uint8_t)m->nzeros, (int16_t)m->exponent},
        .form = TERP_LOSSLESS_REMAINDERS,
        .center = next_random() % 2 ? 0 : (int32_t)next_random()};
    uint64_t *mask = terp_case_alloc(8 * nwords);
    uint64_t *magnitudes = terp_case_alloc(8 * end);
    uint8_t *quants = terp_case_alloc(end * (uint64_t)m->nbytes);
    uint8_t *values = terp_case_alloc(end * (uint64_t)m->nbytes);
    bool *is_negative = terp_case_alloc(end * sizeof *is_negative);
    uint64_t nbits = 0, at = 0;

    memset(mask, 0, 8 * nwords);
    for (uint64_t i = FIRST; i < end; i++) {
        const bool is_special = has_specials && next_random() % 8 == 0;
        uint64_t quant = (random_magnitude(m) | least) & m->ones;
        quant = next_random() % 2 ? 0 - quant : quant;
        mask[i / 64] |= (uint64_t)is_special << i % 64;
        store_value(quants + i * (uint64_t)m->nbytes,
                    quant - (uint64_t)model.center, m->nbytes);
        is_negative[i] = (quant & (m->ones ^ m->ones >> 1)) != 0;
        magnitudes[i] = (is_negative[i] ? 0 - quant : quant) & m->ones;
        nbits += is_special ? 0 : (uint64_t)nbits_of(m, magnitudes[i]);
    }
    const uint64_t *mask_or_none = has_specials ? mask : NULL;
    assert_int_equal(
        stages->nbits_of_remainders(quants, FIRST, end, &model, mask_or_none),
        nbits);
    uint8_t *bytes = make_section(nbits);
    stages->join_remainders(quants, FIRST, end, &model, mask_or_none, bytes,
                            values);
    for (uint64_t i = FIRST; i < end; i++) {
        if (mask[i / 64] >> i % 64 & 1)
            continue;
        const int width = nbits_of(m, magnitudes[i]);
        assert_int_equal(word_at(values, i, m->nbytes),
                         value_word(m, magnitudes[i], is_negative[i],
                                    load_bits(bytes, at, width)));
        at += (uint64_t)width;
    }
    free(bytes);
    free(is_negative);
    free(values);
    free(quants);
    free(magnitudes);
    free(mask);
}

static void
values_are_those_of_the_format(void **state)
{
    (void)state;
    for (size_t t = 0; t < COUNT(types); t++) {
        const int nbytes = types[t]->value_nbytes;
        const int mantissa_nbits = terp_mantissa_nbits(nbytes);
        const int least = terp_min_exponent(nbytes);
        const unsigned nexponents = (unsigned)(-least - mantissa_nbits - least);
        for (int round = 0; round < 4000; round++) {
            const uint64_t any = next_random();
            const bool counts_all = any % 16 == 0;
            struct model m = {
                .nbytes = nbytes,
                .exponent = counts_all
                                ? terp_least_exponent(nbytes)
                                : least + (int)(any / 16 % (nexponents + 1)),
                .nzeros = any >> 63 ? 0
                                    : (int)((any >> 40) %
                                            ((unsigned)mantissa_nbits + 1)),
                .ones = UINT64_MAX >> (64 - 8 * nbytes)};
            m.count =
                counts_all ? 0 : UINT64_C(1) << mantissa_nbits >> m.nzeros;
            m.first = word_of_multiple(&m, m.count);
            check_remainders(types[t], &m, any >> 50 & 127, round % 2 == 0);
        }
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shifts_of_every_width_come_back),
        cmocka_unit_test(values_are_those_of_the_format),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
