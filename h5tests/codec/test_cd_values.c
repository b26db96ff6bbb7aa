/* Parses cd_values to parameters and writes them back, as doc/cd_values.md
 * says. */
#include <math.h>
#include <string.h>

#include "codec/api/cd_values.h"
#include "codec/format/base.h"
#include "h5tests/support/cmocka_all.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void
assert_same_cd(const struct terp_cd *a, const struct terp_cd *b)
{
    assert_int_equal(a->params.bound_mode, b->params.bound_mode);
    assert_true(a->params.bound == b->params.bound);
    assert_int_equal(a->params.pipeline, b->params.pipeline);
    assert_int_equal(a->params.predictor, b->params.predictor);
    assert_int_equal(a->params.effort, b->params.effort);
    assert_int_equal(a->params.has_fill, b->params.has_fill);
    assert_int_equal(a->params.fill_bits, b->params.fill_bits);
    assert_int_equal(a->params.keep_sign, b->params.keep_sign);
    assert_int_equal(a->params.has_valid_range, b->params.has_valid_range);
    assert_true(a->params.valid_min == b->params.valid_min);
    assert_true(a->params.valid_max == b->params.valid_max);
    assert_int_equal(a->nlogical, b->nlogical);
    for (int i = 0; i < a->nlogical; i++)
        assert_int_equal(a->logical[i], b->logical[i]);
    assert_int_equal(a->pass, b->pass);
    assert_int_equal(a->chunk.type, b->chunk.type);
    assert_int_equal(a->chunk.big_endian, b->chunk.big_endian);
    assert_int_equal(a->chunk.stack, b->chunk.stack);
    assert_int_equal(a->chunk.rank, b->chunk.rank);
    for (int i = 0; i < a->chunk.rank; i++)
        assert_int_equal(a->chunk.dims[i], b->chunk.dims[i]);
}

static void
decimal_bounds_are_the_nearest_doubles(void **state)
{
    static const struct {
        unsigned mantissa;
        int exponent;
        double bound;
    } cases[] = {
        {1, 3, 1e-3},
        {1, 0, 1},
        {1, 22, 1e-22},
        {25, 4, 25e-4},
        {5, -2, 500},
        {123456789, 7, 12.3456789},
        {UINT32_MAX, 0, 4294967295.0},
        {1, -22, 1e22},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        unsigned words[] = {2, cases[i].mantissa, (unsigned)cases[i].exponent};
        struct terp_cd cd;
        const char *reason;
        assert_int_equal(terp_cd_parse(3, words, &cd, &reason), TERP_OK);
        assert_true(cd.params.bound == cases[i].bound);
        assert_int_equal(cd.params.bound_mode, TERP_BOUND_RELATIVE);
        assert_int_equal(cd.params.pipeline, TERP_PIPELINE_AUTO);
        assert_int_equal(cd.params.predictor, TERP_PREDICTOR_AUTO);
        assert_int_equal(cd.params.effort, TERP_EFFORT_DEFAULT);
        assert_int_equal(cd.nlogical, 0);
        assert_false(cd.persisted);
        assert_false(cd.params.has_fill);
    }
}

static void
far_exponents_give_a_bound_or_an_error(void **state)
{
    static const struct {
        int exponent;
        enum terp_status status;
    } cases[] = {
        {300, TERP_OK},
        {320, TERP_OK},
        {400, TERP_ERR_BOUND},
        {INT32_MAX, TERP_ERR_BOUND},
        {-300, TERP_OK},
        {-400, TERP_ERR_BOUND},
        {INT32_MIN, TERP_ERR_BOUND},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        unsigned words[] = {1, 1, (unsigned)cases[i].exponent};
        struct terp_cd cd;
        const char *reason;
        assert_int_equal(terp_cd_parse(3, words, &cd, &reason),
                         cases[i].status);
        if (cases[i].status == TERP_OK)
            assert_true(cd.params.bound > 0 && cd.params.bound < INFINITY);
    }
}

static void
absolute_bound_of_nothing_is_lossless(void **state)
{
    static const int exponents[] = {0, 3, -3, 400, INT32_MAX, INT32_MIN};
    struct terp_cd cd;

    (void)state;
    for (size_t i = 0; i < COUNT(exponents); i++)
        for (unsigned mode = TERP_BOUND_ABSOLUTE; mode <= TERP_BOUND_RELATIVE;
             mode++) {
            unsigned words[] = {mode, 0, (unsigned)exponents[i]};
            assert_int_equal(terp_cd_parse(3, words, &cd, NULL),
                             mode == TERP_BOUND_ABSOLUTE ? TERP_OK
                                                         : TERP_ERR_BOUND);
            if (mode == TERP_BOUND_ABSOLUTE)
                assert_true(cd.params.bound == 0);
        }
    for (unsigned mode = TERP_BOUND_ABSOLUTE; mode <= TERP_BOUND_RELATIVE;
         mode++) {
        const unsigned words[] = {mode | TERP_CD_EXACT, 0, 0};
        assert_int_equal(terp_cd_parse(3, words, &cd, NULL),
                         mode == TERP_BOUND_ABSOLUTE ? TERP_OK
                                                     : TERP_ERR_BOUND);
    }
}

static void
exact_form_gives_the_bound_bit_for_bit(void **state)
{
    static const double bounds[] = {0.1, 0x1p-1074, 1.7976931348623157e308,
                                    1.0 / 3};

    (void)state;
    for (size_t i = 0; i < COUNT(bounds); i++) {
        uint64_t bits = double_bits(bounds[i]);
        unsigned words[] = {1 | 3 << 4 | 2 << 8 | 1 << 12 | TERP_CD_EXACT,
                            (unsigned)bits, (unsigned)(bits >> 32)};
        struct terp_cd cd;
        const char *reason;
        assert_int_equal(terp_cd_parse(3, words, &cd, &reason), TERP_OK);
        assert_true(cd.params.bound == bounds[i]);
        assert_int_equal(cd.params.bound_mode, TERP_BOUND_ABSOLUTE);
        assert_int_equal(cd.params.pipeline, TERP_PIPELINE_SPEED);
        assert_int_equal(cd.params.predictor, TERP_PREDICTOR_LORENZO);
        assert_int_equal(cd.params.effort, TERP_EFFORT_FAST);
    }
}

static void
wrong_bounds_are_refused_as_bounds(void **state)
{
    static const double bounds[] = {0.0, -0.0, -1.0, INFINITY, -INFINITY, NAN};
    static const unsigned zero[] = {TERP_BOUND_RELATIVE, 0, 3};
    struct terp_cd cd;
    const char *reason;

    (void)state;
    assert_int_equal(terp_cd_parse(3, zero, &cd, &reason), TERP_ERR_BOUND);
    assert_true(strlen(reason) > 0);
    for (size_t i = 0; i < COUNT(bounds); i++) {
        uint64_t bits = double_bits(bounds[i]);
        /* The absolute bound 0 means lossless. */
        unsigned mode =
            bounds[i] == 0 ? TERP_BOUND_RELATIVE : TERP_BOUND_ABSOLUTE;
        unsigned words[] = {mode | TERP_CD_EXACT, (unsigned)bits,
                            (unsigned)(bits >> 32)};
        assert_int_equal(terp_cd_parse(3, words, &cd, &reason), TERP_ERR_BOUND);
        assert_true(strlen(reason) > 0);
    }
}

static void
bounds_relative_to_values_are_below_one(void **state)
{
    static const struct {
        unsigned mode, mantissa;
        enum terp_status status;
    } cases[] = {
        {TERP_BOUND_POINTWISE, 9, TERP_OK},
        {TERP_BOUND_POINTWISE, 10, TERP_ERR_BOUND},
        {TERP_BOUND_POINTWISE, 11, TERP_ERR_BOUND},
        {TERP_BOUND_RELATIVE, 11, TERP_OK},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        const unsigned words[] = {cases[i].mode, cases[i].mantissa, 1};
        struct terp_cd cd;
        const char *reason;
        assert_int_equal(terp_cd_parse(3, words, &cd, &reason),
                         cases[i].status);
        if (cases[i].status != TERP_OK)
            assert_non_null(strstr(reason, "below one"));
    }
}

static void
wrong_words_are_refused_by_name(void **state)
{
    static const struct {
        size_t n;
        unsigned words[8];
        const char *named;
    } cases[] = {
        {1, {1}, "at least three"},
        {2, {2, 1}, "at least three"},
        {3, {0, 1, 3}, "cd_values[0]"},
        {3, {5, 1, 3}, "cd_values[0]"},
        {3, {2 | 5 << 4, 1, 3}, "pipeline"},
        {3, {2 | 3 << 8, 1, 3}, "predictor"},
        {3, {2 | 3 << 12, 1, 3}, "effort"},
        {3, {2 | 15 << 12, 1, 3}, "effort"},
        {3, {2 | 1 << 17, 1, 3}, "cd_values[0]"},
        {3, {2 | 1 << 30, 1, 3}, "cd_values[0]"},
        {8, {2, 1, 3, 4, 1, 1, 1, 1}, "exceeds 3"},
        {5, {2, 1, 3, 2, 8}, "logical dims"},
        {4, {2, 1, 3, UINT32_MAX}, "exceeds 3"},
        {6, {2, 1, 3, 2, 8, 0}, "logical dim"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct terp_cd cd;
        const char *reason = NULL;
        assert_int_equal(
            terp_cd_parse(cases[i].n, cases[i].words, &cd, &reason),
            TERP_ERR_PARAMS);
        assert_non_null(reason);
        assert_non_null(strstr(reason, cases[i].named));
        /* Callers that do not need the reason pass NULL. */
        assert_int_equal(terp_cd_parse(cases[i].n, cases[i].words, &cd, NULL),
                         TERP_ERR_PARAMS);
    }
}

/* The cd_values of the examples in doc/cd_values.md. */
static void
effort_is_a_part_of_the_mode(void **state)
{
    static const struct {
        unsigned mode;
        enum terp_effort effort;
    } cases[] = {{2, TERP_EFFORT_DEFAULT},
                 {2 + 4096, TERP_EFFORT_FAST},
                 {2 + 8192, TERP_EFFORT_BEST}};

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        unsigned words[TERP_CD_MAX_NWORDS] = {cases[i].mode, 1, 3};
        struct terp_cd cd;
        assert_int_equal(terp_cd_parse(3, words, &cd, NULL), TERP_OK);
        assert_int_equal(cd.params.effort, cases[i].effort);
        assert_int_equal(cd.params.bound_mode, TERP_BOUND_RELATIVE);
        terp_cd_persist(&cd, words);
        assert_int_equal(words[0], TERP_CD_PERSISTED | cases[i].mode);
    }
}

static void
psnr_is_mode_4(void **state)
{
    static const unsigned words[] = {4, 605, 1}, none[] = {4, 0, 0};
    unsigned persisted[TERP_CD_MAX_NWORDS];
    static const uint64_t dims[] = {64};
    struct terp_cd cd;
    const char *reason;

    (void)state;
    assert_int_equal(terp_cd_parse(3, words, &cd, &reason), TERP_OK);
    assert_int_equal(cd.params.bound_mode, TERP_BOUND_PSNR);
    assert_true(cd.params.bound == 60.5);
    assert_true(terp_cd_apply_dims(&cd, TERP_FLOAT32, false, 1, dims));
    size_t n = terp_cd_persist(&cd, persisted);
    assert_int_equal(terp_cd_parse(n, persisted, &cd, &reason), TERP_OK);
    assert_int_equal(cd.params.bound_mode, TERP_BOUND_PSNR);
    assert_true(cd.params.bound == 60.5);
    assert_int_equal(terp_cd_parse(3, none, &cd, &reason), TERP_ERR_BOUND);
}

static void
logical_dims_are_read(void **state)
{
    static const unsigned words[] = {2, 1, 3, 3, 4, 5, 6};
    struct terp_cd cd;
    const char *reason;

    (void)state;
    assert_int_equal(terp_cd_parse(7, words, &cd, &reason), TERP_OK);
    assert_int_equal(cd.nlogical, 3);
    assert_int_equal(cd.logical[0], 4);
    assert_int_equal(cd.logical[1], 5);
    assert_int_equal(cd.logical[2], 6);
}

static struct terp_cd
parsed(size_t n, const unsigned *words)
{
    struct terp_cd cd;
    const char *reason;
    assert_int_equal(terp_cd_parse(n, words, &cd, &reason), TERP_OK);
    return cd;
}

static void
dims_become_a_chunk_or_a_stack(void **state)
{
    static const unsigned plain[] = {2, 1, 3};
    static const unsigned bricks[] = {2, 1, 3, 3, 8, 8, 8};
    static const uint64_t flat[] = {10 * 8 * 8 * 8}, uneven[] = {5000};
    static const uint64_t array[] = {1, 20, 30, 1, 40};
    struct terp_cd cd = parsed(3, plain);

    (void)state;
    assert_true(terp_cd_apply_dims(&cd, TERP_FLOAT64, true, 5, array));
    assert_int_equal(cd.chunk.rank, 3);
    assert_int_equal(cd.chunk.dims[2], 40);
    assert_true(cd.chunk.big_endian);
    assert_false(cd.chunk.stack);

    cd = parsed(7, bricks);
    assert_true(terp_cd_apply_dims(&cd, TERP_FLOAT32, false, 1, flat));
    assert_true(cd.chunk.stack);
    assert_int_equal(cd.chunk.rank, 4);
    assert_int_equal(cd.chunk.dims[0], 10);
    assert_int_equal(cd.chunk.dims[3], 8);

    /* If bricks do not fill the chunk, the chunk's own dims are used, and the
     * caller gets a note. */
    cd = parsed(7, bricks);
    assert_false(terp_cd_apply_dims(&cd, TERP_FLOAT32, false, 1, uneven));
    assert_false(cd.chunk.stack);
    assert_int_equal(cd.chunk.rank, 1);
    assert_int_equal(cd.chunk.dims[0], 5000);
}

static void
too_large_dims_pass_through(void **state)
{
    static const unsigned words[] = {2, 1, 3};
    static const uint64_t dims[] = {UINT64_C(1) << 40, UINT64_C(1) << 40};
    struct terp_cd cd = parsed(3, words);

    (void)state;
    terp_cd_apply_dims(&cd, TERP_FLOAT32, false, 2, dims);
    assert_int_equal(cd.pass, TERP_PASS_TOO_LARGE);
}

/* If the product of the logical dims overflows, they do not fit any chunk. */
static void
logical_dims_beyond_63_bits_do_not_fit(void **state)
{
    static const unsigned words[] = {2, 1, 3, 3, UINT32_MAX, UINT32_MAX, 8};
    static const uint64_t dims[] = {64};
    struct terp_cd cd = parsed(7, words);

    (void)state;
    assert_false(terp_cd_apply_dims(&cd, TERP_FLOAT32, false, 1, dims));
    assert_int_equal(cd.chunk.rank, 1);
}

static void
persisted_form_reads_back_the_same(void **state)
{
    static const uint64_t dims[] = {6, 5, UINT64_C(5000000000), 3};
    static const enum terp_pipeline pipelines[] = {
        TERP_PIPELINE_AUTO, TERP_PIPELINE_HUFFMAN, TERP_PIPELINE_SPEED,
        TERP_PIPELINE_RATIO};

    (void)state;
    for (int i = 0; i < 2 * 2 * 2 * 4 * 3 * 5; i++) {
        bool stack = i & 1, big_endian = i & 2, has_fill = i & 4;
        int rank = 1 + i % 4;
        struct terp_cd cd = {
            .params = {.bound_mode =
                           i % 5 ? TERP_BOUND_ABSOLUTE : TERP_BOUND_RELATIVE,
                       .bound = 0.1,
                       .pipeline = pipelines[i / 5 % 4],
                       .predictor = (enum terp_predictor)(i % 3),
                       .has_fill = has_fill,
                       .fill_bits = has_fill ? UINT64_C(0xC08F4000DEADBEEF) : 0,
                       .effort = (enum terp_effort)(i / 3 % 3)},
            .persisted = true,
            .chunk = {i % 2 ? TERP_FLOAT64 : TERP_FLOAT32,
                      big_endian,
                      stack && rank > 1,
                      rank,
                      {0}},
        };
        unsigned words[TERP_CD_MAX_NWORDS];
        const char *reason;
        struct terp_cd got;
        for (int d = 0; d < rank; d++)
            cd.chunk.dims[d] = dims[d];
        if (cd.chunk.stack) {
            cd.nlogical = rank - 1;
            for (int d = 1; d < rank; d++)
                cd.logical[d - 1] = dims[d];
        }
        size_t n = terp_cd_persist(&cd, words);
        assert_int_equal(n, 7 + 2 * rank);
        assert_true(words[0] & TERP_CD_PERSISTED);
        assert_int_equal(terp_cd_parse(n, words, &got, &reason), TERP_OK);
        assert_true(got.persisted);
        assert_same_cd(&got, &cd);

        /* Every shorter list of words is refused, except the empty one. */
        for (size_t left = 1; left < n; left++)
            assert_int_equal(terp_cd_parse(left, words, &got, &reason),
                             TERP_ERR_PARAMS);
    }
}

/* As in doc/cd_values.md: after the bound, and in a file after the dims. */
static void
floor_of_a_pointwise_bound_is_read(void **state)
{
    static const unsigned typed[] = {3 + 131072, 1, 3, 25, 7, 2, 8, 9};
    static const unsigned exact[] = {3 + 65536 + 131072, 0, 0x3F800000, 0,
                                     0x3E000000};
    static const unsigned relative[] = {2 + 131072, 1, 3, 25, 7};
    static const unsigned none[] = {3 + 131072, 1, 3, 0, 7};
    static const uint64_t dims[] = {10 * 72};
    unsigned words[TERP_CD_MAX_NWORDS];
    struct terp_cd cd, again;
    const char *reason = "";

    (void)state;
    cd = parsed(8, typed);
    assert_true(cd.params.bound == 1e-3 && cd.params.floor == 25e-7);
    assert_int_equal(cd.nlogical, 2);
    assert_int_equal(cd.logical[1], 9);
    assert_true(terp_cd_apply_dims(&cd, TERP_FLOAT32, false, 1, dims));
    size_t n = terp_cd_persist(&cd, words);
    assert_int_equal(n, 7 + 2 * 3 + 2);
    again = parsed(n, words);
    assert_true(again.params.floor == 25e-7 && again.params.bound == 1e-3);
    assert_int_equal(terp_cd_parse(n - 1, words, &again, &reason),
                     TERP_ERR_PARAMS);
    cd.pass = TERP_PASS_NOT_NUMBER;
    n = terp_cd_persist(&cd, words);
    assert_int_equal(n, 9);
    assert_true(parsed(n, words).params.floor == 25e-7);

    cd = parsed(5, exact);
    assert_true(cd.params.bound == 0x1p-7 && cd.params.floor == 0x1p-31);
    assert_int_equal(cd.nlogical, 0);

    assert_int_equal(terp_cd_parse(4, typed, &cd, &reason), TERP_ERR_PARAMS);
    assert_int_equal(terp_cd_parse(5, relative, &cd, &reason), TERP_ERR_PARAMS);
    assert_int_equal(terp_cd_parse(5, none, &cd, &reason), TERP_ERR_BOUND);
    assert_true(strlen(reason) > 0);
}

/* A second fill value, whose type becomes known only with the chunk. */
static void
missing_value_is_read(void **state)
{
    static const unsigned typed[] = {2 + 262144, 1, 3, 4294957297u, 0, 1, 8};
    static const unsigned both[] = {3 + 131072 + 262144, 1, 3, 1, 9, 1,
                                    4294967276u};
    static const uint64_t dims[] = {80};
    unsigned words[TERP_CD_MAX_NWORDS];
    const float narrow = 1e20f;
    uint32_t narrow_bits;
    struct terp_cd cd = parsed(7, typed), again;
    const char *reason = "";

    (void)state;
    memcpy(&narrow_bits, &narrow, sizeof narrow_bits);
    assert_true(cd.has_missing && cd.missing == -9999);
    assert_int_equal(cd.nlogical, 1);
    assert_true(terp_cd_apply_dims(&cd, TERP_FLOAT64, false, 1, dims));
    assert_true(cd.params.has_missing);
    assert_int_equal(cd.params.missing_bits, double_bits(-9999));
    size_t n = terp_cd_persist(&cd, words);
    assert_int_equal(n, 7 + 2 * 2 + 2);
    again = parsed(n, words);
    assert_true(again.params.missing_bits == double_bits(-9999));
    assert_int_equal(terp_cd_parse(n - 1, words, &again, &reason),
                     TERP_ERR_PARAMS);

    cd = parsed(7, both);
    assert_true(cd.params.floor == 1e-9 && cd.missing == 1e20);
    assert_true(terp_cd_apply_dims(&cd, TERP_FLOAT32, true, 1, dims));
    assert_int_equal(cd.params.missing_bits, narrow_bits);
    n = terp_cd_persist(&cd, words);
    assert_int_equal(n, 7 + 2 + 2 + 2);
    again = parsed(n, words);
    assert_true(again.params.floor == 1e-9 && again.missing == 1e20);
    assert_int_equal(again.params.missing_bits, narrow_bits);
    assert_int_equal(terp_cd_parse(6, both, &again, &reason), TERP_ERR_PARAMS);
}

/* Integer types hold only some numbers. */
/* The ends of the valid range, each as a signed mantissa or, in the exact form,
 * as a double, which may be infinite; after a missing value. */
static void
limits_are_read(void **state)
{
    const unsigned typed[] = {0x1C0002, 1, 3, 0xFFFFFFFD, 0, 5, 1, 2, 0, 0};
    unsigned exact[7] = {0x290002, 0, 0x3FF00000}, words[TERP_CD_MAX_NWORDS];
    const uint64_t dims[] = {8, 8};
    struct terp_cd cd, again;

    (void)state;
    assert_int_equal(terp_cd_parse(COUNT(typed), typed, &cd, NULL), TERP_OK);
    assert_true(cd.has_missing);
    assert_true(cd.missing == -3);
    assert_true(cd.params.has_valid_range);
    assert_true(cd.params.valid_min == 0.5);
    assert_true(cd.params.valid_max == 2);
    assert_int_equal(cd.params.keep_sign, TERP_KEEP_SIGN_OF_CHUNK);
    assert_int_equal(cd.nlogical, 0);
    assert_true(terp_cd_apply_dims(&cd, TERP_FLOAT32, false, 2, dims));
    size_t nwords = terp_cd_persist(&cd, words);
    assert_int_equal(terp_cd_parse(nwords, words, &again, NULL), TERP_OK);
    assert_same_cd(&cd, &again);

    exact[5] = 0;
    exact[6] = 0x7FF00000; /* infinite */
    assert_int_equal(terp_cd_parse(COUNT(exact), exact, &cd, NULL), TERP_OK);
    assert_true(cd.params.valid_min == 0);
    assert_true(isinf(cd.params.valid_max));
    assert_int_equal(cd.params.keep_sign, TERP_KEEP_SIGN_OF_VALUES);
    assert_int_equal(terp_cd_parse(6, exact, &cd, NULL), TERP_ERR_PARAMS);
    exact[6] = 0xBFF00000; /* upper end below the lower end */
    assert_int_equal(terp_cd_parse(COUNT(exact), exact, &cd, NULL),
                     TERP_ERR_PARAMS);
    exact[0] |= 0x300000; /* an unknown number for signs */
    assert_int_equal(terp_cd_parse(COUNT(exact), exact, &cd, NULL),
                     TERP_ERR_PARAMS);
}

/* A bit of the mode; in a file the last word, which terp 1 ignores. */
static void
new_chunks_among_bounds_of_their_own_are_lossless(void **state)
{
    const uint64_t dims[] = {8, 8};
    unsigned words[TERP_CD_MAX_NWORDS];

    (void)state;
    for (unsigned own = 0; own <= 1; own++) {
        const unsigned typed[] = {1 | own << 24, 1, 3};
        struct terp_cd cd;
        assert_int_equal(terp_cd_parse(3, typed, &cd, NULL), TERP_OK);
        assert_true(terp_cd_apply_dims(&cd, TERP_FLOAT32, false, 2, dims));
        const size_t nwords = terp_cd_persist(&cd, words);
        assert_int_equal(terp_cd_parse(nwords, words, &cd, NULL), TERP_OK);
        assert_true(cd.params.bound == 1e-3);
        assert_true(terp_cd_new_params(&cd).bound == (own ? 0 : 1e-3));
        assert_true(terp_cd_may_lose(&cd));
    }
}

static void
format_is_the_last_word_of_a_file(void **state)
{
    static const unsigned typed[] = {0x4C0002, 1, 3, 5, 0, 0, 0, 9, 0};
    const uint64_t dims[] = {8, 8};
    unsigned words[TERP_CD_MAX_NWORDS];
    struct terp_cd cd, again;

    (void)state;
    assert_int_equal(terp_cd_parse(COUNT(typed), typed, &cd, NULL), TERP_OK);
    assert_int_equal(cd.params.format, 1);
    assert_true(terp_cd_apply_dims(&cd, TERP_FLOAT32, false, 2, dims));
    const size_t nwords = terp_cd_persist(&cd, words);
    assert_int_equal(words[0] & 0x400000, 0);
    assert_int_equal(words[nwords - 1], 1);
    assert_int_equal(terp_cd_parse(nwords, words, &again, NULL), TERP_OK);
    assert_int_equal(again.params.format, 1);
    assert_int_equal(terp_cd_parse(nwords - 1, words, &again, NULL), TERP_OK);
    assert_int_equal(again.params.format, 0);
    words[nwords - 1] = 2;
    assert_int_equal(terp_cd_parse(nwords, words, &again, NULL), TERP_OK);
    assert_int_equal(again.params.format, 0);
    cd.pass = TERP_PASS_NOT_NUMBER;
    assert_int_equal(
        terp_cd_parse(terp_cd_persist(&cd, words), words, &again, NULL),
        TERP_OK);
    assert_int_equal(again.params.format, 1);
    cd.pass = TERP_PASS_NONE;
    cd.params.format = 0;
    assert_int_equal(terp_cd_persist(&cd, words), nwords - 1);
}

static void
missing_value_of_integers_is_one_that_they_have(void **state)
{
    static const struct {
        enum terp_type type;
        double missing;
        bool found;
        uint64_t bits;
    } cases[] = {
        {TERP_INT8, -128, true, UINT64_C(0xFFFFFFFFFFFFFF80)},
        {TERP_INT8, -129, false, 0},
        {TERP_INT8, 127, true, 127},
        {TERP_INT8, 128, false, 0},
        {TERP_UINT8, 255, true, 255},
        {TERP_UINT8, 256, false, 0},
        {TERP_UINT8, -1, false, 0},
        {TERP_INT16, 0.5, false, 0},
        {TERP_INT32, -2147483648.0, true, UINT64_C(0xFFFFFFFF80000000)},
        {TERP_INT64, -0x1p63, true, UINT64_C(1) << 63},
        {TERP_INT64, 0x1p63, false, 0},
        {TERP_UINT64, 0x1p63, true, UINT64_C(1) << 63},
        {TERP_UINT64, 0x1p64, false, 0},
        {TERP_INT32, NAN, false, 0},
        {TERP_INT32, INFINITY, false, 0},
        {TERP_INT32, -INFINITY, false, 0},
        {TERP_FLOAT16, 1.5, true, 0x3E00},
        {TERP_BFLOAT16, 1.5, true, 0x3FC0},
        {TERP_COMPLEX64, 1.5, true, 0x3FC00000},
        {TERP_COMPLEX128, 1.5, true, UINT64_C(0x3FF8000000000000)},
    };
    static const unsigned relative[] = {2, 1, 3};
    static const uint64_t dims[] = {80};
    unsigned words[TERP_CD_MAX_NWORDS];

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct terp_cd cd = parsed(3, relative);
        cd.has_missing = true;
        cd.missing = cases[i].missing;
        assert_true(terp_cd_apply_dims(&cd, cases[i].type, false, 1, dims));
        assert_int_equal(cd.params.has_missing, cases[i].found);
        assert_true(cd.params.missing_bits == cases[i].bits);
        cd = parsed(terp_cd_persist(&cd, words), words);
        assert_int_equal(cd.params.has_missing, cases[i].found);
        assert_true(cd.params.missing_bits == cases[i].bits);
    }
}

static void
persisted_reason_reads_back(void **state)
{
    (void)state;
    for (int pass = TERP_PASS_NOT_NUMBER; pass <= TERP_PASS_BEHIND; pass++) {
        struct terp_cd cd = {
            .params = {.bound_mode = TERP_BOUND_RELATIVE, .bound = 1e-3},
            .pass = (enum terp_pass)pass,
        };
        unsigned words[TERP_CD_MAX_NWORDS];
        const char *reason;
        struct terp_cd got;
        size_t n = terp_cd_persist(&cd, words);
        assert_int_equal(n, 7);
        assert_int_equal(terp_cd_parse(n, words, &got, &reason), TERP_OK);
        assert_true(got.persisted);
        assert_int_equal(got.pass, pass);
    }
}

static void
no_words_are_lossless(void **state)
{
    const char *reason;
    struct terp_cd cd;

    (void)state;
    assert_int_equal(terp_cd_parse(0, NULL, &cd, &reason), TERP_OK);
    assert_string_equal(reason, "");
    assert_int_equal(cd.params.bound_mode, TERP_BOUND_ABSOLUTE);
    assert_true(cd.params.bound == 0);
    assert_false(cd.persisted);
    assert_int_equal(cd.nlogical, 0);
}

static void
wrong_persisted_words_are_refused(void **state)
{
    static const struct {
        size_t at;
        unsigned word;
    } cases[] = {
        {3, 2 | 1 << 24},           /* a newer layout */
        {3, 1 | 15 << 8 | 1 << 24}, /* an unknown type */
        {3, 1 | 8 << 16 | 1 << 24}, /* an unknown flag */
        {3, 1 | 0 << 24},           /* no rank */
        {3, 1 | 2 << 24},           /* a rank beyond the words */
        {3, 1 | 5u << 24},          /* an invalid rank */
        {3, 1 | 4 << 16 | 1 << 24}, /* a stack of rank 1 */
        {4, 1000},                  /* an unknown reason to pass */
        {4, TERP_PASS_BY_MEMBER},   /* which another layout has */
        {7, 0},                     /* dims[0] = 0 */
        {8, 1u << 31},              /* dims[0] beyond 63 bits */
        {0, TERP_CD_PERSISTED},     /* no bound mode */
    };
    static const uint64_t dims[] = {100};

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        static const unsigned user[] = {2, 1, 3};
        struct terp_cd cd = parsed(3, user);
        unsigned words[TERP_CD_MAX_NWORDS];
        const char *reason = "";
        terp_cd_apply_dims(&cd, TERP_FLOAT32, false, 1, dims);
        size_t n = terp_cd_persist(&cd, words);
        assert_int_equal(n, 9);
        words[cases[i].at] = cases[i].word;
        assert_int_equal(terp_cd_parse(n, words, &cd, &reason),
                         TERP_ERR_PARAMS);
        assert_true(strlen(reason) > 0);
    }
}

/* h5repack copies the words of a file, so they must parse as if a user had
 * typed them. The logical dims are those of the bricks. */
static void
persisted_stack_gives_its_bricks_as_logical_dims(void **state)
{
    static const unsigned bricks[] = {2, 1, 3, 3, 8, 8, 8};
    static const uint64_t flat[] = {10 * 512}, longer[] = {30 * 512};
    struct terp_cd cd = parsed(7, bricks);
    unsigned words[TERP_CD_MAX_NWORDS];

    (void)state;
    assert_true(terp_cd_apply_dims(&cd, TERP_FLOAT32, false, 1, flat));
    cd = parsed(terp_cd_persist(&cd, words), words);
    assert_int_equal(cd.nlogical, 3);
    assert_true(terp_cd_apply_dims(&cd, TERP_FLOAT32, false, 1, longer));
    assert_int_equal(cd.chunk.dims[0], 30);
    assert_int_equal(cd.chunk.dims[1], 8);
}

/* ---- compound values ---- */

/* A particle of three float32, an array and an id; two rules. */
static struct terp_cd
particles(void)
{
    static const unsigned user[] = {
        0x890002, 0, 0x3FF00000, 0, 0,   0,       0x40080000, 0,
        111,      1, 25,         2, 222, 0x10003, 0,          0x3FE00000};
    static const struct terp_member members[] = {
        {TERP_FLOAT32, false, 1, 0, {0}},
        {TERP_FLOAT32, false, 1, 0, {0}},
        {TERP_FLOAT32, false, 1, 0, {0}},
        {TERP_FLOAT64, true, 0, 2, {5, 6}},
        {TERP_INT64, false, 0, 0, {0}}};
    static const uint64_t dims[] = {7, 8, 9};
    struct terp_cd cd = parsed(COUNT(user), user);

    assert_int_equal(cd.nrules, 2);
    for (size_t i = 0; i < COUNT(members); i++)
        assert_true(terp_compound_add(&cd.compound, &members[i]));
    terp_cd_apply_compound(&cd, 3, dims);
    assert_int_equal(cd.pass, TERP_PASS_BY_MEMBER);
    return cd;
}

static void
members_read_back(void **state)
{
    unsigned words[TERP_CD_MAX_NWORDS], again[TERP_CD_MAX_NWORDS];
    const struct terp_cd cd = particles();
    const size_t n = terp_cd_persist(&cd, words);
    const struct terp_cd got = parsed(n, words);
    struct terp_member_walk walk = {.at = 0};
    struct terp_chunk chunk;

    (void)state;
    assert_same_cd(&cd, &got);
    assert_int_equal(n, 7 + 6 + 4 + 8 + 1 + 3 + 1);
    assert_int_equal(got.compound.value_nbytes, 3 * 4 + 30 * 8 + 8);
    assert_int_equal(terp_chunk_nbytes(&got.chunk), 7 * 8 * 9 * 260);
    assert_int_equal(got.compound.nmembers, 5);
    for (int i = 0; i < 4; i++)
        assert_true(terp_member_next(&got.compound, &walk));
    assert_int_equal(walk.at, 12);
    assert_int_equal(walk.nbytes, 240);
    assert_int_equal(terp_member_chunk(&got.compound, &walk.member, &chunk),
                     TERP_OK);
    assert_int_equal(chunk.rank, 4);
    assert_int_equal(chunk.dims[0], 7 * 8);
    assert_int_equal(chunk.dims[3], 6);
    assert_true(chunk.big_endian);
    assert_true(terp_member_next(&got.compound, &walk));
    assert_false(terp_member_next(&got.compound, &walk));
    assert_int_equal(terp_cd_persist(&got, again), n);
    assert_memory_equal(words, again, n * sizeof *words);
}

static void
members_have_the_bound_of_their_rule(void **state)
{
    const struct terp_cd cd = particles();
    struct terp_member member = {.type = TERP_FLOAT32, .rule = 1};
    struct terp_params params = terp_cd_member_params(&cd, &member);

    (void)state;
    assert_int_equal(params.bound_mode, TERP_BOUND_ABSOLUTE);
    assert_true(params.bound == 0.25);
    member.rule = 2;
    params = terp_cd_member_params(&cd, &member);
    assert_int_equal(params.bound_mode, TERP_BOUND_POINTWISE);
    assert_true(params.bound == 0.5 && params.has_valid_range);
    member.rule = 0;
    params = terp_cd_member_params(&cd, &member);
    assert_int_equal(params.bound_mode, TERP_BOUND_RELATIVE);
    assert_true(params.bound == 1);
    member.type = TERP_INT64;
    params = terp_cd_member_params(&cd, &member);
    assert_int_equal(params.bound_mode, TERP_BOUND_ABSOLUTE);
    assert_true(params.bound == 0);
}

static void
wrong_words_of_members_are_refused(void **state)
{
    static const struct {
        size_t at;
        unsigned word;
    } cases[] = {
        {3, 3 | 2 << 8 | 3 << 24},           /* a newer layout */
        {3, 2 | 3 << 8 | 3 << 24},           /* a type */
        {3, 2 | 2 << 8 | 1 << 16 | 3 << 24}, /* a flag */
        {3, 2 | 2 << 8},                     /* no rank */
        {3, 2 | 2 << 8 | 5u << 24},          /* an invalid rank */
        {4, 0},                              /* values as streams */
        {5, 0},                              /* no bytes of a value */
        {5, 264},                            /* more than the members have */
        {6, 2 << 16 | 4},                    /* fewer words of members */
        {6, 2 << 16 | 6},                    /* more than there are */
        {6, 2 << 16 | 0},                    /* none */
        {6, 0xFFFFFFFF},                     /* more than any list holds */
        {6, 1 << 16 | 5},                    /* a rule less than is named */
        {7, 0},                              /* dims[0] = 0 */
        {8, 1u << 31},                       /* dims[0] beyond 63 bits */
        {18, 0x00410001},                    /* a rule's mode with a flag */
        {18, 0x00010009},                    /* an unknown bound mode */
        {20, 0xFFF00000},                    /* a rule's bound below 0 */
        {25, 1 << 11 | 2 << 16},             /* fewer members */
        {25, 1 << 11 | 0 << 16},             /* none */
        {25, 3 << 11 | 3 << 16},             /* a rule that does not exist */
        {25, TERP_BYTES | 3 << 16},          /* a type without values */
        {25, 15 | 3 << 16},                  /* an unknown type */
        {25, 1 << 11 | 0xFFFFu << 16},       /* members beyond the value */
        {27, 0},                             /* an array's dim of 0 */
        {27, 1u << 31},                      /* an array beyond 4 GiB */
        {29, TERP_INT64 | 1 << 9 | 1 << 16}, /* an array without its dim */
    };
    unsigned words[TERP_CD_MAX_NWORDS];
    const char *reason;

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct terp_cd cd = particles();
        const size_t n = terp_cd_persist(&cd, words);
        words[cases[i].at] = cases[i].word;
        if (terp_cd_parse(n, words, &cd, &reason) == TERP_OK ||
            strlen(reason) == 0)
            fail_msg("word %zu as %x", cases[i].at, cases[i].word);
    }
    struct terp_cd cd = particles();
    const size_t n = terp_cd_persist(&cd, words);
    for (size_t fewer = 3; fewer < n; fewer++)
        assert_int_not_equal(terp_cd_parse(fewer, words, &cd, &reason),
                             TERP_OK);
}

static void
rules_are_four_words_at_the_end(void **state)
{
    static const unsigned words[] = {0x800002, 1, 3, 1, 64, 111, 3, 1, 2, 222};
    unsigned many[5 + 4 * (TERP_CD_MAX_NRULES + 1)] = {0x800002, 1, 3, 1, 64};
    struct terp_cd cd;
    const char *reason;

    (void)state;
    cd = parsed(9, words);
    assert_int_equal(cd.nlogical, 1);
    assert_int_equal(cd.nrules, 1);
    assert_int_equal(cd.rules[0].name_hash, 111);
    assert_int_equal(cd.rules[0].mode, 3);
    assert_true(cd.rules[0].bound == 0.01);
    for (size_t n = 3; n <= 10; n++)
        if (n != 9)
            assert_int_equal(terp_cd_parse(n, words, &cd, &reason),
                             TERP_ERR_PARAMS);
    for (size_t i = 5; i < COUNT(many); i++)
        many[i] = 1;
    assert_int_equal(terp_cd_parse(COUNT(many) - 4, many, &cd, &reason),
                     TERP_OK);
    assert_int_equal(terp_cd_parse(COUNT(many), many, &cd, &reason),
                     TERP_ERR_PARAMS);
    /* FNV-1a of 32 bits. */
    assert_int_equal(terp_cd_hash(TERP_CD_HASH_BEGIN, "foobar"), 0xBF9CF968);
}

/* Tables are full at some time, and say so. */
static void
full_tables_take_no_member(void **state)
{
    struct terp_compound compound = {.nmembers = 0};
    struct terp_member member = {.type = TERP_UINT8, .rank = 1, .dims = {1}};

    (void)state;
    for (; terp_compound_add(&compound, &member); member.dims[0] ^= 3)
        continue;
    assert_int_equal(compound.nwords, TERP_COMPOUND_MAX_NWORDS);
    assert_true(terp_compound_check(&compound, 0));
    memset(&compound, 0, sizeof compound);
    member.rank = 0;
    while (terp_compound_add(&compound, &member))
        continue;
    assert_int_equal(compound.nmembers, TERP_COMPOUND_MAX_NMEMBERS);
    assert_int_equal(compound.nwords, 1);
    assert_true(terp_compound_check(&compound, 0));
    memset(&compound, 0, sizeof compound);
    member.rank = 1;
    member.dims[0] = UINT32_MAX;
    assert_true(terp_compound_add(&compound, &member));
    assert_false(terp_compound_add(&compound, &member));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decimal_bounds_are_the_nearest_doubles),
        cmocka_unit_test(far_exponents_give_a_bound_or_an_error),
        cmocka_unit_test(absolute_bound_of_nothing_is_lossless),
        cmocka_unit_test(exact_form_gives_the_bound_bit_for_bit),
        cmocka_unit_test(wrong_bounds_are_refused_as_bounds),
        cmocka_unit_test(bounds_relative_to_values_are_below_one),
        cmocka_unit_test(wrong_words_are_refused_by_name),
        cmocka_unit_test(effort_is_a_part_of_the_mode),
        cmocka_unit_test(psnr_is_mode_4),
        cmocka_unit_test(logical_dims_are_read),
        cmocka_unit_test(dims_become_a_chunk_or_a_stack),
        cmocka_unit_test(too_large_dims_pass_through),
        cmocka_unit_test(logical_dims_beyond_63_bits_do_not_fit),
        cmocka_unit_test(persisted_form_reads_back_the_same),
        cmocka_unit_test(floor_of_a_pointwise_bound_is_read),
        cmocka_unit_test(missing_value_is_read),
        cmocka_unit_test(limits_are_read),
        cmocka_unit_test(new_chunks_among_bounds_of_their_own_are_lossless),
        cmocka_unit_test(format_is_the_last_word_of_a_file),
        cmocka_unit_test(missing_value_of_integers_is_one_that_they_have),
        cmocka_unit_test(persisted_reason_reads_back),
        cmocka_unit_test(no_words_are_lossless),
        cmocka_unit_test(wrong_persisted_words_are_refused),
        cmocka_unit_test(persisted_stack_gives_its_bricks_as_logical_dims),
        cmocka_unit_test(members_read_back),
        cmocka_unit_test(members_have_the_bound_of_their_rule),
        cmocka_unit_test(wrong_words_of_members_are_refused),
        cmocka_unit_test(rules_are_four_words_at_the_end),
        cmocka_unit_test(full_tables_take_no_member),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
