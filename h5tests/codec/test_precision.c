/* Bounds near the precision of the values, or near the precision that a chunk
 * uses, hold for all values. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "h5tests/support/cases.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/fields.h"
#include "h5tests/support/values.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* How the values of a chunk are related. */
enum content {
    CONTENT_ANY,
    CONTENT_WHOLE,   /* integers up to 100,000 */
    CONTENT_TENTHS,  /* multiples of a step that is not a power of two */
    CONTENT_ZEROS,   /* at most 12 bits of the mantissa are set */
    CONTENT_FLOATS,  /* values of a narrower type */
    CONTENT_SPECIAL, /* values of one range, with NaN between */
    CONTENT_NEAR,    /* an offset that is large compared with the range */
    NCONTENTS
};

static uint64_t
content_bits(enum terp_type type, enum content content, double value,
             uint64_t i)
{
    const int mantissa_nbits = type == TERP_FLOAT32 ? 23 : 52;

    switch (content) {
    case CONTENT_WHOLE:
        return value_to_bits(type, round(value * 1e5));
    case CONTENT_TENTHS:
        return value_to_bits(type, round(value * 1e4) * 0.1);
    case CONTENT_ZEROS:
        return value_to_bits(type, value) >> (mantissa_nbits - 12)
                                                 << (mantissa_nbits - 12);
    case CONTENT_FLOATS:
        return value_to_bits(type, (double)(float)value);
    case CONTENT_SPECIAL:
        return terp_field_mix(i / 5) % 7 == 0
                   ? value_to_bits(type, (double)NAN)
                   : value_to_bits(type, (double)(float)(value * 1e-3));
    case CONTENT_NEAR:
        return value_to_bits(type, 1000 + value);
    case CONTENT_ANY:
    case NCONTENTS:
        break;
    }
    return value_to_bits(type, value);
}

static uint8_t *
make_values(const struct terp_chunk *chunk, enum terp_field field,
            enum content content)
{
    uint8_t *values = terp_case_alloc(terp_chunk_nbytes(chunk));

    terp_field_make(field, chunk, values);
    for (uint64_t i = 0; i < chunk_nvalues(chunk); i++) {
        const uint64_t bits = value_bits(chunk, values, i);
        const double value = value_of_bits(chunk->type, bits);
        uint64_t made = bits_are_finite(chunk->type, bits)
                            ? content_bits(chunk->type, content, value, i)
                            : bits;
        if (value_of_bits(chunk->type, made) == 0)
            made = 0;
        value_put(chunk, values, i, made);
    }
    return values;
}

static const struct terp_chunk chunks[] = {
    {TERP_FLOAT32, false, false, 1, {5000}},
    {TERP_FLOAT64, false, false, 2, {71, 93}},
    {TERP_FLOAT32, true, false, 3, {13, 17, 21}},
    {TERP_FLOAT64, true, true, 3, {7, 30, 33}},
    {TERP_FLOAT32, false, false, 3, {24, 25, 26}},
    {TERP_FLOAT64, false, false, 4, {3, 8, 12, 12}},
    {TERP_FLOAT64, false, false, 2, {2500, 2}},
    {TERP_FLOAT32, false, false, 2, {2100, 1}},
};

static const enum terp_field fields[] = {TERP_FIELD_SMOOTH, TERP_FIELD_ROUGH,
                                         TERP_FIELD_NOISE,  TERP_FIELD_GAPS,
                                         TERP_FIELD_COAST,  TERP_FIELD_MAPS};

/* From a bound below which few codes are wide, to one below the distance of any
 * two values, and 0. */
static const struct {
    enum terp_bound_mode mode;
    double bound;
} bounds[] = {
    {TERP_BOUND_RELATIVE, 3e-4},   {TERP_BOUND_RELATIVE, 1e-7},
    {TERP_BOUND_RELATIVE, 2e-8},   {TERP_BOUND_RELATIVE, 1e-12},
    {TERP_BOUND_RELATIVE, 1e-16},  {TERP_BOUND_ABSOLUTE, 0.4},
    {TERP_BOUND_ABSOLUTE, 1e-4},   {TERP_BOUND_ABSOLUTE, 1e-10},
    {TERP_BOUND_ABSOLUTE, 1e-300}, {TERP_BOUND_ABSOLUTE, 0},
};

static void
tight_bounds_are_kept(void **state)
{
    unsigned ncases = 0, nwith_tails[] = {0, 0};

    (void)state;
    for (size_t c = 0; c < COUNT(chunks); c++)
        for (int content = 0; content < NCONTENTS; content++)
            for (size_t b = 0; b < COUNT(bounds); b++, ncases++) {
                const enum terp_field field = fields[ncases % COUNT(fields)];
                const struct terp_mode *mode = &terp_mode[ncases % TERP_NMODES];
                uint8_t *values =
                    make_values(&chunks[c], field, (enum content)content);
                struct terp_params params = {0};
                char name[128];
                params.bound_mode = bounds[b].mode;
                params.bound = bounds[b].bound;
                params.pipeline = mode->pipeline;
                params.predictor =
                    ncases % 4 < 3 ? TERP_PREDICTOR_LORENZO : mode->predictor;
                snprintf(name, sizeof name, "chunk %u, %s, content %d, %g, %s",
                         (unsigned)c, terp_field_name[field], content,
                         params.bound, mode->name);
                terp_case_check(name, &params, &chunks[c], values);
                struct terp_stream stream =
                    terp_case_encode(&params, &chunks[c], values, 1);
                if (terp_case_tail_nbits(&stream) > 0)
                    nwith_tails[chunks[c].type]++;
                free(stream.bytes);
                free(values);
            }
    assert_true(nwith_tails[TERP_FLOAT32] >= 20);
    assert_true(nwith_tails[TERP_FLOAT64] >= 50);
}

/* A field whose values lie on a coarse grid, under a bound below the grid's
 * spacing. */
static void
a_chunk_costs_what_its_own_grid_does(void **state)
{
    static const enum content contents[] = {CONTENT_WHOLE, CONTENT_ZEROS};

    (void)state;
    for (int type = TERP_FLOAT32; type <= TERP_FLOAT64; type++)
        for (size_t i = 0; i < COUNT(contents); i++) {
            const struct terp_chunk chunk = {
                (enum terp_type)type, false, false, 2, {80, 90}};
            uint8_t *values =
                make_values(&chunk, TERP_FIELD_SMOOTH, contents[i]);
            struct terp_params params = {0};
            params.bound_mode = TERP_BOUND_ABSOLUTE;
            params.bound = 1e-30;
            const uint64_t nbytes =
                terp_case_check("own grid", &params, &chunk, values);
            assert_true(nbytes < 5 * chunk_nvalues(&chunk) / 2);
            free(values);
        }
}

/* Values that a chunk may have beside smooth ones. */
enum oddity {
    ODDITY_NONE,
    ODDITY_ZEROS,      /* zeros of both signs, one value in three */
    ODDITY_ONE_ZERO,   /* one negative zero */
    ODDITY_ALL_ZEROS,  /* only zeros, one in a hundred negative */
    ODDITY_SUBNORMALS, /* all values are subnormal */
    ODDITY_PAYLOADS,   /* more different NaN than colors, and infinities */
    ODDITY_HUGE,       /* all near the largest number, of both signs */
    ODDITY_ANY_BITS,   /* only special values */
    NODDITIES
};

static uint64_t
odd_bits(enum terp_type type, enum oddity oddity, uint64_t bits, uint64_t i)
{
    const uint64_t sign =
        type == TERP_FLOAT32 ? UINT64_C(1) << 31 : UINT64_C(1) << 63;
    const uint64_t all = sign | (sign - 1), r = terp_field_mix(i);
    const uint64_t infinity = value_to_bits(type, (double)INFINITY);

    switch (oddity) {
    case ODDITY_ZEROS:
        return r % 3 == 0 ? r >> 32 & 1 ? sign : 0 : bits;
    case ODDITY_ONE_ZERO:
        return i == 77 ? sign : bits;
    case ODDITY_ALL_ZEROS:
        return r % 100 == 0 ? sign : 0;
    case ODDITY_SUBNORMALS:
        return (bits & sign) | (bits & (sign - 1)) >> 9;
    case ODDITY_PAYLOADS:
        return r % 9 > 0 ? bits : infinity | (r & sign) | (r >> 8) % 40;
    case ODDITY_HUGE:
        return (r & sign) | (infinity - 1 - (r >> 40) % 1000);
    case ODDITY_ANY_BITS:
        return r & all;
    case ODDITY_NONE:
    case NODDITIES:
        break;
    }
    return bits;
}

static void
every_bit_comes_back(void **state)
{
    unsigned ncases = 0;

    (void)state;
    for (size_t c = 0; c < COUNT(chunks); c++)
        for (int field = 0; field < TERP_NFIELDS; field++)
            for (int oddity = 0; oddity < NODDITIES; oddity++, ncases++) {
                if (!terp_case_taken(1))
                    continue;
                const struct terp_mode *mode = &terp_mode[ncases % TERP_NMODES];
                struct terp_params params = {.bound_mode = TERP_BOUND_ABSOLUTE,
                                             .pipeline = mode->pipeline,
                                             .predictor = mode->predictor,
                                             .has_fill = ncases % 5 == 0};
                uint8_t *values =
                    terp_case_alloc(terp_chunk_nbytes(&chunks[c]));
                char name[128];
                terp_field_make((enum terp_field)field, &chunks[c], values);
                for (uint64_t i = 0; i < chunk_nvalues(&chunks[c]); i++)
                    value_put(&chunks[c], values, i,
                              odd_bits(chunks[c].type, (enum oddity)oddity,
                                       value_bits(&chunks[c], values, i), i));
                snprintf(name, sizeof name, "chunk %u, %s, oddity %d, %s",
                         (unsigned)c, terp_field_name[field], oddity,
                         mode->name);
                const uint64_t nbytes =
                    terp_case_check(name, &params, &chunks[c], values);
                if (field == TERP_FIELD_SMOOTH && oddity == ODDITY_NONE)
                    assert_true(nbytes < terp_chunk_nbytes(&chunks[c]));
                free(values);
            }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tight_bounds_are_kept),
        cmocka_unit_test(a_chunk_costs_what_its_own_grid_does),
        cmocka_unit_test(every_bit_comes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
