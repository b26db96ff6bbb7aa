/* Bounds near the precision of the values: wide codes and their low bits,
 * lorenzo's exact quants, and round trips with both. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "codec/format/low_bits.h"
#include "cpu/predict/stages.h"
#include "h5tests/support/cases.h"
#include "h5tests/support/cmocka_all.h"
#include "h5tests/support/fields.h"
#include "h5tests/support/values.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- low bits ---- */

static void
check_split(unsigned wide, int n)
{
    const int code = (int)wide - TERP_WIDE_RADIUS;
    const double high = floor(code / (double)(1 << n) + (n > 0 ? 0.5 : 0));
    unsigned low;
    const unsigned symbol = terp_low_split(wide, n, &low);

    assert_true(low < 1u << n);
    if (wide == TERP_ESCAPE || fabs(high) > TERP_MAX_CODE) {
        assert_int_equal(symbol, TERP_ESCAPE);
        assert_int_equal(low, 0);
    } else {
        assert_int_equal((int)high, (int)symbol - TERP_RADIUS);
        assert_int_equal(terp_low_join(symbol, low, n), wide);
    }
}

static void
every_symbol_is_split_and_joined(void **state)
{
    (void)state;
    for (int n = 0; n <= TERP_LOW_MAX_NBITS; n++)
        for (unsigned wide = 0; wide <= UINT16_MAX; wide++)
            check_split(wide, n);
}

/* Whatever a stream contains, a decoded code is never the escape and never
 * exceeds 16 bits. */
static void
every_joined_code_is_one(void **state)
{
    (void)state;
    for (int n = 0; n <= TERP_LOW_MAX_NBITS; n++)
        for (unsigned low = 0; low < 1u << n; low++) {
            const int below = low % 2 == 1 ? -(int)(low + 1) / 2 : (int)low / 2;
            assert_int_equal(terp_low_join(TERP_ESCAPE, low, n), TERP_ESCAPE);
            for (unsigned symbol = 1; symbol < TERP_NSYMBOLS; symbol++) {
                int code = ((int)symbol - TERP_RADIUS) * (1 << n) + below;
                code = code < -32767 ? -32767 : code > 32767 ? 32767 : code;
                if (terp_low_join(symbol, low, n) != (unsigned)(code + 32768))
                    fail_msg("symbol %u, low number %u of %d bits", symbol, low,
                             n);
            }
        }
}

/* ---- exact quants ---- */

/* More values than any case below has, and a multiple of a mask's words. */
#define MAX_NVALUES 4096

/* A type's values and quants, and its table of stages. */
struct tried {
    const struct cpu_stages *stages;
    enum terp_type type;
    struct cpu_quantizer quantizer;
    uint64_t n;
    double values[MAX_NVALUES];
    int64_t quants[MAX_NVALUES];
    bool fits[MAX_NVALUES];
};

static struct tried *
make_tried(enum terp_type type)
{
    struct tried *tried = terp_case_alloc(sizeof *tried);

    *tried =
        (struct tried){.stages = type == TERP_FLOAT32 ? &terp_cpu_stages_f32
                                                      : &terp_cpu_stages_f64,
                       .type = type};
    return tried;
}

/* The quants of the values, and whether they reproduce the values. */
static void
find_quants(struct tried *tried)
{
    static float floats[MAX_NVALUES];
    static int32_t narrow[MAX_NVALUES];
    static uint64_t mask[MAX_NVALUES / 64];
    const bool is_f32 = tried->type == TERP_FLOAT32;

    memset(mask, 0, sizeof mask);
    for (uint64_t i = 0; i < tried->n; i++)
        floats[i] = is_f32 ? (float)tried->values[i] : 0;
    tried->stages->prequantize(is_f32 ? (void *)floats : tried->values,
                               tried->n, &tried->quantizer, mask,
                               is_f32 ? (void *)narrow : tried->quants);
    for (uint64_t i = 0; i < tried->n; i++) {
        tried->quants[i] = is_f32 ? narrow[i] : tried->quants[i];
        tried->fits[i] = !(mask[i / 64] >> i % 64 & 1);
    }
}

/* The values of the quants. */
static void
find_values(struct tried *tried)
{
    static float floats[MAX_NVALUES];
    static int32_t narrow[MAX_NVALUES];
    const bool is_f32 = tried->type == TERP_FLOAT32;

    for (uint64_t i = 0; i < tried->n; i++)
        narrow[i] = (int32_t)tried->quants[i];
    tried->stages->dequantize(is_f32 ? (void *)narrow : tried->quants, tried->n,
                              &tried->quantizer,
                              is_f32 ? (void *)floats : tried->values);
    for (uint64_t i = 0; is_f32 && i < tried->n; i++)
        tried->values[i] = (double)floats[i];
}

/* A chunk whose largest value is `max`. The samples are multiples of 2^exponent
 * and end in so many zeros. */
struct exact_case {
    double bound, max;
    int exponent, nzeros;
};

/* The kinds take turns: values of full precision under a bound at or far below
 * their last bit, steps of several bits, whole numbers, rounded bits. */
static struct exact_case
exact_case_of(enum terp_type type, int turn)
{
    const int nbits = type == TERP_FLOAT32 ? 23 : 52;
    const int max_exponent = turn / 10 % 13 * 9 - 60;
    const double max =
        ldexp(1 + (double)(terp_field_mix((uint64_t)turn) % 1000) / 1000,
              max_exponent);
    const double ulp = ldexp(1, max_exponent - nbits);
    struct exact_case c = {ulp / 3, (double)(float)max, max_exponent - nbits,
                           0};

    switch (turn % 10) {
    case 0:
        break;
    case 1:
        c.bound = ldexp(ulp, -19);
        c.exponent -= 40;
        break;
    case 2:
        c.bound = 1.7 * ulp;
        break;
    case 3:
        c.bound = 11.3 * ulp;
        c.exponent -= 40;
        break;
    case 4:
        c.bound = 60.0001 * ulp;
        break;
    case 5: /* whole numbers of units */
        c.exponent = max_exponent - 9;
        c.nzeros = nbits - 9;
        c.max = ldexp(floor(ldexp(c.max, 9 - max_exponent)), c.exponent);
        break;
    case 6: /* rounded bits */
        c.exponent -= 10;
        c.nzeros = nbits / 2;
        c.bound = ldexp(ulp, -3);
        c.max = ldexp(floor(ldexp(c.max, nbits - nbits / 2 - max_exponent)),
                      max_exponent - nbits + nbits / 2);
        break;
    case 7:
        c.bound = 3 * ulp;
        c.nzeros = 5;
        c.exponent -= 20;
        c.max = ldexp(floor(ldexp(c.max, nbits - 5 - max_exponent)),
                      max_exponent - nbits + 5);
        break;
    case 8:
        c.bound = 0.999 * ulp;
        c.exponent -= 3;
        break;
    default:
        c.bound = 0.51 * ulp;
        c.exponent -= 1;
        break;
    }
    return c;
}

static bool
start_exact(struct tried *tried, struct exact_case c)
{
    tried->quantizer = (struct cpu_quantizer){
        .step = c.bound,
        .grid_step = c.bound,
        .bound = c.bound,
        .exact =
            terp_exact_of(c.bound, -c.max / 3, c.max,
                          tried->stages->value_nbytes, c.exponent, c.nzeros)};
    return tried->quantizer.exact.significand > 0;
}

/* The first quant that counts values. */
static int64_t
first_counted(const struct tried *tried)
{
    return INT64_C(1) << ((tried->type == TERP_FLOAT32 ? 23 : 52) -
                          tried->quantizer.exact.nzeros);
}

/* Quants rise with values. The value of a quant has that quant. Opposite values
 * have opposite quants. Tested around zero, where quants begin to count values,
 * and at powers of two. */
static void
exact_quants_are_in_the_order_of_values(void **state)
{
    int nkinds[2][3] = {{0}};

    (void)state;
    for (int type = TERP_FLOAT32; type <= TERP_FLOAT64; type++) {
        struct tried *tried = make_tried((enum terp_type)type);
        for (int turn = 0; turn < 130; turn++) {
            struct exact_case c = exact_case_of((enum terp_type)type, turn);
            if (!start_exact(tried, c))
                continue;
            nkinds[type][tried->quantizer.exact.significand > 1 ? 0
                         : tried->quantizer.exact.nzeros > 0    ? 1
                                                                : 2]++;
            /* The quant of the largest value. */
            tried->n = 1;
            tried->values[0] = c.max;
            find_quants(tried);
            assert_true(tried->fits[0]);
            const int64_t most = tried->quants[0], first = first_counted(tried);
            uint64_t n = 0;
            for (int64_t q = -100; q <= 100; q++)
                tried->quants[n++] = q;
            for (int64_t at = 128; at > 0 && at <= most && n < 3600; at *= 2)
                for (int64_t q = at - 20; q <= at + 20; q++)
                    if (q > tried->quants[n - 1])
                        tried->quants[n++] = q;
            for (int64_t q = first - 20; q <= first + 20; q++)
                if (q > tried->quants[n - 1])
                    tried->quants[n++] = q;
            tried->n = n;
            find_values(tried);
            int64_t before[MAX_NVALUES];
            memcpy(before, tried->quants, sizeof before);
            while (n > 0 && fabs(tried->values[n - 1]) > c.max)
                n--;
            tried->n = n;
            for (uint64_t i = 1; i < n; i++)
                if (!(tried->values[i] > tried->values[i - 1]))
                    fail_msg("turn %d: the value of quant %" PRId64
                             " is not above that of the one before",
                             turn, before[i]);
            for (int sign = 1; sign >= -1; sign -= 2) {
                for (uint64_t i = 0; i < n; i++)
                    tried->values[i] =
                        fabs(tried->values[i]) * (before[i] < 0 ? -sign : sign);
                find_quants(tried);
                for (uint64_t i = 0; i < n; i++)
                    if (!tried->fits[i] || tried->quants[i] != sign * before[i])
                        fail_msg("turn %d: quant %" PRId64 " became %" PRId64,
                                 turn, sign * before[i], tried->quants[i]);
            }
        }
        free(tried);
    }
    for (int type = 0; type < 2; type++)
        for (int kind = 0; kind < 3; kind++)
            assert_true(nkinds[type][kind] >= 10);
}

/* A random value of the case, of any magnitude up to the largest. */
static double
value_of_case(enum terp_type type, struct exact_case c, uint64_t random)
{
    const int max_exponent = ilogb(c.max);
    const int nbits = (type == TERP_FLOAT32 ? 24 : 53) - c.nzeros;
    const int exponent = max_exponent - (int)(random % 12);
    const uint64_t digits = (random >> 8 & ((UINT64_C(1) << (nbits - 1)) - 1)) |
                            UINT64_C(1) << (nbits - 1);
    double value = ldexp((double)digits, exponent - nbits + 1);

    value = ldexp(trunc(ldexp(value, -c.exponent)), c.exponent);
    value = fmin(value, c.max);
    return random >> 7 & 1 ? -value : value;
}

static void
exact_quants_keep_the_bound(void **state)
{
    (void)state;
    for (int type = TERP_FLOAT32; type <= TERP_FLOAT64; type++) {
        static double before[MAX_NVALUES];
        struct tried *tried = make_tried((enum terp_type)type);
        for (int turn = 0; turn < 130; turn++) {
            struct exact_case c = exact_case_of((enum terp_type)type, turn);
            if (!start_exact(tried, c))
                continue;
            tried->n = MAX_NVALUES;
            for (uint64_t i = 0; i < tried->n; i++)
                before[i] = tried->values[i] = value_of_case(
                    (enum terp_type)type, c,
                    terp_field_mix((uint64_t)turn * MAX_NVALUES + i));
            find_quants(tried);
            find_values(tried);
            for (uint64_t i = 0; i < tried->n; i++)
                if (!tried->fits[i] ||
                    !is_within(before[i], tried->values[i], c.bound))
                    fail_msg("turn %d: %a became %a, bound %a", turn, before[i],
                             tried->values[i], c.bound);
        }
        free(tried);
    }
}

/* ---- round trips ---- */

struct shape {
    int rank;
    bool stack;
    uint64_t dims[TERP_MAX_RANK];
};

static const struct shape shapes[] = {
    {1, false, {1}},           {1, false, {257}},       {1, false, {2011}},
    {2, false, {31, 33}},      {2, true, {40, 25}},     {3, false, {9, 11, 13}},
    {4, false, {5, 4, 7, 11}}, {4, true, {3, 7, 8, 9}},
};

static const double relative[] = {1e-5, 1e-6,  1e-7,  1e-8,
                                  1e-9, 1e-10, 1e-11, 1e-12};

static struct terp_chunk
chunk_of(const struct shape *shape, enum terp_type type)
{
    struct terp_chunk chunk = terp_case_chunk(type, shape->rank, shape->dims);
    chunk.stack = shape->stack;
    return chunk;
}

static void
check(enum terp_field field, const struct terp_chunk *chunk,
      const struct terp_params *params, const uint8_t *values)
{
    char name[256];

    snprintf(name, sizeof name,
             "%s %s%s, %" PRIu64 " values of rank %d, bound %g, pipeline %d, "
             "predictor %d, effort %d",
             chunk->type == TERP_FLOAT64 ? "float64" : "float32",
             terp_field_name[field], chunk->stack ? ", stack" : "",
             chunk_nvalues(chunk), chunk->rank, params->bound, params->pipeline,
             params->predictor, params->effort);
    terp_case_check(name, params, chunk, values);
}

static void
tight_bounds_are_kept(void **state)
{
    (void)state;
    for (size_t s = 0; s < COUNT(shapes) * 2; s++) {
        struct terp_chunk chunk =
            chunk_of(&shapes[s / 2], (enum terp_type)(s % 2));
        uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));
        for (int field = 0; field < TERP_NFIELDS; field++) {
            terp_field_make((enum terp_field)field, &chunk, values);
            for (size_t b = 0; b < COUNT(relative); b++)
                for (int mode = 0; mode < TERP_NMODES; mode++) {
                    struct terp_params params = {
                        .bound_mode = TERP_BOUND_RELATIVE,
                        .bound = relative[b],
                        .pipeline = terp_mode[mode].pipeline,
                        .predictor = terp_mode[mode].predictor};
                    if (terp_case_taken(1))
                        check((enum terp_field)field, &chunk, &params, values);
                }
        }
        free(values);
    }
}

static void
any_effort_keeps_tight_bounds(void **state)
{
    (void)state;
    for (size_t turn = 0; turn < 4 * TERP_NFIELDS; turn++) {
        enum terp_field field = (enum terp_field)(turn % TERP_NFIELDS);
        struct terp_chunk chunk =
            chunk_of(&shapes[turn * 3 % COUNT(shapes)],
                     (enum terp_type)(turn / TERP_NFIELDS % 2));
        uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));
        terp_field_make(field, &chunk, values);
        for (int effort = 0; effort < TERP_NEFFORTS; effort++) {
            struct terp_params params = {
                .bound_mode = TERP_BOUND_RELATIVE,
                .bound = relative[turn * 5 % COUNT(relative)],
                .effort = (enum terp_effort)effort};
            check(field, &chunk, &params, values);
        }
        free(values);
    }
}

/* The size of the stream of a chunk whose values all come back bit for bit. */
static uint64_t
size_of_exact(const struct terp_chunk *chunk, const uint8_t *values,
              const struct terp_params *params)
{
    uint64_t nbytes = terp_chunk_nbytes(chunk), got;
    struct terp_stream stream = terp_case_encode(params, chunk, values, 1);
    uint8_t *decoded = terp_case_alloc(nbytes);

    assert_int_equal(
        terp_decode(stream.bytes, stream.nbytes, decoded, nbytes, &got, 1),
        TERP_OK);
    assert_memory_equal(decoded, values, nbytes);
    free(decoded);
    free(stream.bytes);
    return stream.nbytes;
}

/* Under bounds below the distance of any two values, lorenzo keeps every bit,
 * in fewer bytes. */
static void
bounds_below_a_unit_in_the_last_place_give_back_every_bit(void **state)
{
    static const enum terp_field fields[] = {TERP_FIELD_RAMP, TERP_FIELD_SMOOTH,
                                             TERP_FIELD_STEPS,
                                             TERP_FIELD_INTEGERS};
    static const double bounds[][2] = {{1e-20, 1e-28}, {1e-35, 1e-250}};
    static const uint64_t dims[] = {90, 100};

    (void)state;
    for (int type = TERP_FLOAT32; type <= TERP_FLOAT64; type++)
        for (size_t f = 0; f < COUNT(fields); f++) {
            struct terp_chunk chunk =
                terp_case_chunk((enum terp_type)type, 2, dims);
            uint64_t nbytes = terp_chunk_nbytes(&chunk);
            uint8_t *values = terp_case_alloc(nbytes);
            terp_field_make(fields[f], &chunk, values);
            for (int which = 0; which < 2 * TERP_NMODES; which++) {
                const struct terp_mode *mode = &terp_mode[which / 2];
                struct terp_params params = {.bound_mode = TERP_BOUND_ABSOLUTE,
                                             .bound = bounds[which % 2][type],
                                             .pipeline = mode->pipeline,
                                             .predictor = mode->predictor};
                uint64_t got = size_of_exact(&chunk, values, &params);
                if (mode->predictor == TERP_PREDICTOR_LORENZO && got >= nbytes)
                    fail_msg("%s of %d bytes, %s: %" PRIu64 " of %" PRIu64
                             " bytes are left",
                             terp_field_name[fields[f]], type == 0 ? 4 : 8,
                             mode->name, got, nbytes);
            }
            free(values);
        }
}

/* Codes of every width and both signs, codes beyond 16 bits, and special
 * values, next to each other. */
static void
outliers_of_any_size_keep_the_bound(void **state)
{
    static const uint64_t dims[] = {20, 15, 17};
    static const uint64_t special[] = {0x7FC00001, 0xFF800000, 0x80000000};

    (void)state;
    for (int which = 0; which < 2 * 3 * TERP_NMODES; which++) {
        enum terp_type type = (enum terp_type)(which % 2);
        const struct terp_mode *mode = &terp_mode[which / 6];
        struct terp_chunk chunk = terp_case_chunk(type, 3, dims);
        struct terp_params params = {.bound_mode = TERP_BOUND_ABSOLUTE,
                                     .bound = 0.25,
                                     .pipeline = mode->pipeline,
                                     .predictor = mode->predictor};
        uint8_t *values = terp_case_alloc(terp_chunk_nbytes(&chunk));
        for (uint64_t i = 0; i < chunk_nvalues(&chunk); i++) {
            uint64_t random = terp_field_mix(i + (uint64_t)which);
            double magnitude =
                (double)(random >> 40) * 0x1p-24 * (which / 2 % 3 + 1);
            double value = ldexp(magnitude, (int)(random % 19));
            uint64_t bits =
                value_to_bits(type, random >> 8 & 1 ? -value : value);
            if (which / 2 % 3 == 1 && random >> 10 % 64 == 0)
                bits = type == TERP_FLOAT32 ? special[random % 3]
                                            : special[random % 3] << 32;
            value_put(&chunk, values, i, bits);
        }
        check(TERP_FIELD_NOISE, &chunk, &params, values);
        free(values);
    }
}

static void
any_number_of_threads_gives_the_same_bytes(void **state)
{
    static const struct {
        struct terp_chunk chunk;
        enum terp_field field;
        double bound; /* relative */
    } cases[] = {
        {{TERP_FLOAT32, false, false, 3, {64, 64, 50}}, TERP_FIELD_FINE, 1e-6},
        {{TERP_FLOAT64, false, false, 2, {523, 509}}, TERP_FIELD_FINE, 1e-6},
        {{TERP_FLOAT64, false, false, 2, {300, 509}}, TERP_FIELD_GAPS, 1e-6},
        {{TERP_FLOAT32, false, false, 1, {200003}}, TERP_FIELD_SMOOTH, 1e-9},
        {{TERP_FLOAT64, true, true, 4, {35, 16, 16, 16}},
         TERP_FIELD_ROUNDED,
         1e-14},
        {{TERP_FLOAT32, false, false, 2, {512, 400}},
         TERP_FIELD_INTEGERS,
         1e-5},
    };

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
            if (terp_case_taken(1))
                terp_case_check_threads(&params, chunk, values);
        }
        free(values);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_symbol_is_split_and_joined),
        cmocka_unit_test(every_joined_code_is_one),
        cmocka_unit_test(exact_quants_are_in_the_order_of_values),
        cmocka_unit_test(exact_quants_keep_the_bound),
        cmocka_unit_test(tight_bounds_are_kept),
        cmocka_unit_test(any_effort_keeps_tight_bounds),
        cmocka_unit_test(
            bounds_below_a_unit_in_the_last_place_give_back_every_bit),
        cmocka_unit_test(outliers_of_any_size_keep_the_bound),
        cmocka_unit_test(any_number_of_threads_gives_the_same_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
