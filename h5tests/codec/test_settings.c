/* Settings as text: what is written reads back, for all modes; what is wrong is
 * refused with a reason. */
#include <math.h>
#include <string.h>

#include "codec/api/cd_values.h"
#include "codec/api/settings_text.h"
#include "codec/format/base.h"
#include "h5tests/support/cmocka_all.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* The text of the words that `text` gives. */
static void
check_text(const char *text, const char *expected)
{
    unsigned words[TERP_SETTINGS_MAX_NWORDS];
    char written[TERP_SETTINGS_TEXT_NBYTES];
    const char *reason = "";
    size_t nwords;

    if (terp_settings_read(text, words, &nwords, &reason) != TERP_OK)
        fail_msg("%s: %s", text, reason);
    assert_int_equal(terp_settings_write(nwords, words, written, &reason),
                     TERP_OK);
    assert_string_equal(written, expected);
}

static void
assert_same_settings(const struct terp_cd *a, const struct terp_cd *b)
{
    assert_int_equal(a->params.bound_mode, b->params.bound_mode);
    assert_int_equal(double_bits(a->params.bound),
                     double_bits(b->params.bound));
    assert_int_equal(double_bits(a->params.floor),
                     double_bits(b->params.floor));
    assert_int_equal(a->params.pipeline, b->params.pipeline);
    assert_int_equal(a->params.predictor, b->params.predictor);
    assert_int_equal(a->params.effort, b->params.effort);
    assert_int_equal(a->params.keep_sign, b->params.keep_sign);
    assert_int_equal(a->params.format, b->params.format);
    assert_int_equal(a->params.has_valid_range, b->params.has_valid_range);
    assert_true(a->params.valid_min == b->params.valid_min);
    assert_true(a->params.valid_max == b->params.valid_max);
    assert_int_equal(a->has_missing, b->has_missing);
    assert_int_equal(double_bits(a->missing), double_bits(b->missing));
    assert_int_equal(a->nlogical, b->nlogical);
    for (int i = 0; i < a->nlogical; i++)
        assert_int_equal(a->logical[i], b->logical[i]);
}

/* Writes the settings in three forms, and each form as text, and reads that. */
static void
check_settings(struct terp_cd *cd)
{
    unsigned words[TERP_CD_MAX_NWORDS], read[TERP_SETTINGS_MAX_NWORDS];
    char text[TERP_SETTINGS_TEXT_NBYTES], first[TERP_SETTINGS_TEXT_NBYTES];
    struct terp_cd found;
    size_t nread;

    for (int form = 0; form < 3; form++) {
        const uint64_t dims[] = {6, 4, 5, 7};
        size_t nwords = terp_cd_write(cd, form == 1, words);
        if (form == 2) {
            assert_true(terp_cd_apply_dims(cd, TERP_FLOAT32, true, 4, dims));
            cd->params.has_fill = true;
            cd->params.fill_bits = 7;
            nwords = terp_cd_persist(cd, words);
        }
        assert_int_equal(terp_cd_parse(nwords, words, &found, NULL), TERP_OK);
        assert_same_settings(&found, cd);
        assert_int_equal(terp_settings_write(nwords, words, text, NULL),
                         TERP_OK);
        if (form == 0)
            strcpy(first, text);
        assert_string_equal(text, first);
        assert_int_equal(terp_settings_read(text, read, &nread, NULL), TERP_OK);
        assert_int_equal(terp_cd_parse(nread, read, &found, NULL), TERP_OK);
        assert_same_settings(&found, cd);
        /* The shortest form: the words of form 0. */
        if (form == 0) {
            assert_int_equal(nread, nwords);
            assert_memory_equal(read, words, nread * sizeof *words);
        }
    }
}

static void
all_settings_survive_as_text(void **state)
{
    static const double bounds[] = {1e-3, 0.30000000000000004, 60, 0x1p-1074,
                                    1.7976931348623157e308};
    static const double ends[][2] = {
        {0, 1}, {-INFINITY, 0.1}, {-1e300, INFINITY}, {-2.5, 1e-310}};
    uint32_t seed = 1;

    (void)state;
    for (int mode = 1; mode < TERP_NBOUND_MODES; mode++)
        for (int pipeline = 0; pipeline < TERP_NPIPELINES; pipeline++)
            for (int others = 0; others < 27; others++)
                for (size_t i = 0; i < COUNT(bounds); i++) {
                    if (terp_pipeline_name((enum terp_pipeline)pipeline) ==
                            NULL ||
                        (mode == TERP_BOUND_POINTWISE && bounds[i] >= 1))
                        continue;
                    seed = seed * 1664525 + 1013904223;
                    const unsigned dice = seed >> 16;
                    struct terp_cd cd = {
                        .params = {
                            .bound_mode = (enum terp_bound_mode)mode,
                            .bound = mode == 1 && dice % 5 == 0 ? 0 : bounds[i],
                            .pipeline = (enum terp_pipeline)pipeline,
                            .predictor = (enum terp_predictor)(others % 3),
                            .effort = (enum terp_effort)(others / 3 % 3),
                            .keep_sign = (enum terp_keep_sign)(others / 9)}};
                    cd.params.format = (int)(dice & 1);
                    if (mode == TERP_BOUND_POINTWISE && (dice & 2))
                        cd.params.floor = bounds[dice % 5];
                    cd.has_missing = dice & 4;
                    if (cd.has_missing)
                        cd.missing = dice & 8 ? -9999 : 1e36;
                    cd.params.has_valid_range = dice & 16;
                    if (cd.params.has_valid_range) {
                        cd.params.valid_min = ends[dice >> 8 & 3][0];
                        cd.params.valid_max = ends[dice >> 8 & 3][1];
                    }
                    cd.nlogical = (int)(dice >> 5) % 3;
                    cd.logical[0] = cd.nlogical == 2 ? 5 : 7;
                    cd.logical[1] = 7;
                    check_settings(&cd);
                }
}

static void
texts_are_canonical(void **state)
{
    (void)state;
    check_text("", "mode=\"lossless\"");
    check_text(" { } ", "mode=\"lossless\"");
    check_text("pipeline=\"ratio\"", "mode=\"lossless\", pipeline=\"ratio\"");
    check_text("mode=\"rel\", bound=1e-3", "mode=\"rel\", bound=0.001");
    check_text("bound=.001,mode='rel'", "mode=\"rel\", bound=0.001");
    check_text("{rel=\"1e-3\"}", "mode=\"rel\", bound=0.001");
    check_text("mode=psnr\n, bound=60", "mode=\"psnr\", bound=60.0");
    check_text("psnr = 60.0", "mode=\"psnr\", bound=60.0");
    check_text("mode=\"abs\", bound=0", "mode=\"lossless\"");
    check_text("lossless=true, predictor=auto", "mode=\"lossless\"");
    check_text("digits=3, floor=1e-9",
               "mode=\"pwr\", bound=0.0005, floor=1e-09");
    check_text("bits=10", "mode=\"pwr\", bound=0.00048828125");
    check_text("bits=52", "mode=\"pwr\", bound=1.1102230246251565e-16");
    check_text("valid_range=\":\", abs=1", "mode=\"abs\", bound=1.0");
    check_text("effort=\"best\", dims=\"4x4294967295x6\", abs=0x1p-4, "
               "valid_range=\"-1:\", missing=-9999, keep_sign=\"chunk\", "
               "format=1, predictor=\"lorenzo\", pipeline=\"speed\"",
               "mode=\"abs\", bound=0.0625, keep_sign=\"chunk\", "
               "valid_range=\"-1:\", missing=-9999.0, pipeline=\"speed\", "
               "predictor=\"lorenzo\", effort=\"best\", "
               "dims=\"4x4294967295x6\", format=1");
}

static void
wrong_texts_are_refused(void **state)
{
    static const char *const wrong[] = {
        "rel",
        "rel=",
        "rel=1e-3,",
        ",rel=1e-3",
        "rel=1e-3 abs=1",
        "rel=1e-3}",
        "{rel=1e-3",
        "rel=\"1e-3",
        "rel=\"1e-3'",
        "=1",
        "rel=1e-3;",
        "Rel=1e-3",
        "rel=0",
        "rel=-1",
        "rel=nan",
        "rel=1e400",
        "rel=true",
        "rel=0,5",
        "pwr=1",
        "rel=1, rel=1",
        "mode=\"rel\", mode=\"rel\", bound=1",
        "rel=1, abs=1",
        "rel=1, lossless=true",
        "mode=\"rel\"",
        "bound=1",
        "mode=\"lossless\", bound=1",
        "mode=\"relative\", bound=1",
        "mode=\"rel\", bound=\"x\"",
        "mode=\"rel\", bound=1, abs=1",
        "lossless=false",
        "lossless=1",
        "digits=0",
        "digits=16",
        "digits=2.5",
        "bits=53",
        "digits=3, bits=10",
        "digits=3, pwr=0.1",
        "pwr=0.1, bits=3",
        "rel=1, floor=1",
        "pwr=0.1, floor=-1",
        "abs=1, valid_range=\"2:1\"",
        "abs=1, valid_range=\"1\"",
        "abs=1, valid_range=\"1:2:3\"",
        "abs=1, valid_range=\"a:b\"",
        "abs=1, dims=\"\"",
        "abs=1, dims=\"0\"",
        "abs=1, dims=\"4x\"",
        "abs=1, dims=\"1.5\"",
        "abs=1, dims=\"4294967296\"",
        "abs=1, dims=\"1x2x3x4\"",
        "abs=1, pipeline=\"auto and a long tail\"",
        "abs=1, pipeline=1",
        "abs=1, pipeline=\"\"",
        "abs=1, keep_sign=\"no\"",
        "abs=1, effort=\"ratio\"",
        "abs=1, predictor=true",
        "abs=1, missing=\"x\"",
        "abs=1, format=2",
        "abs=1, id=\"terp\"",
        ("abs=0."
         "0000000000000000000000000000000000000000000000000000000000000000")};
    unsigned words[TERP_SETTINGS_MAX_NWORDS];
    size_t nwords;

    (void)state;
    for (size_t i = 0; i < COUNT(wrong); i++) {
        const char *reason = NULL;
        if (terp_settings_read(wrong[i], words, &nwords, &reason) !=
            TERP_ERR_PARAMS)
            fail_msg("accepted: %s", wrong[i]);
        assert_non_null(reason);
        assert_int_equal(nwords, 0);
        assert_int_equal(terp_settings_read(wrong[i], words, &nwords, NULL),
                         TERP_ERR_PARAMS);
    }
}

static void
wrong_words_have_no_text(void **state)
{
    static const unsigned mode[] = {9, 1, 3}, bound[] = {2, 0, 0};
    static const unsigned member[] = {0x800002, 1, 3, 0, 111, 3, 1, 2};
    char text[TERP_SETTINGS_TEXT_NBYTES];
    const char *reason = NULL;

    (void)state;
    assert_int_equal(terp_settings_write(3, mode, text, &reason),
                     TERP_ERR_PARAMS);
    assert_non_null(reason);
    assert_string_equal(text, "");
    assert_int_equal(terp_settings_write(3, bound, text, NULL), TERP_ERR_BOUND);
    assert_int_equal(terp_settings_write(2, mode, text, NULL), TERP_ERR_PARAMS);
    assert_int_equal(terp_settings_write(8, member, text, &reason),
                     TERP_ERR_PARAMS);
    assert_string_equal(reason, "a text cannot hold the bounds of members");
}

/* Other hosts pass pairs of strings. */
static void
words_of_other_hosts_are_taken(void **state)
{
    struct terp_worded_settings worded = {.has_mode = false};
    unsigned words[TERP_CD_MAX_NUSER_WORDS];
    const char *reason = NULL;

    (void)state;
    assert_int_equal(terp_settings_end_words(&worded, false, words, &reason),
                     3);
    assert_int_equal(words[0], TERP_BOUND_ABSOLUTE);
    assert_int_equal(words[1], 0);
    assert_true(terp_settings_take_word(&worded, "rel", "1e-3", &reason));
    assert_true(
        terp_settings_take_word(&worded, "valid_range", "0:1", &reason));
    assert_false(terp_settings_take_word(&worded, "accuracy", "1", &reason));
    assert_non_null(strstr(reason, "no such setting"));
    assert_int_equal(terp_settings_end_words(&worded, false, words, &reason),
                     7);
    assert_int_equal(words[0], TERP_BOUND_RELATIVE | TERP_CD_VALID_RANGE);
    assert_true(terp_settings_take_word(&worded, "lossless", "True", &reason));
    assert_int_equal(terp_settings_end_words(&worded, false, words, &reason),
                     0);
}

#define NTEXTS 200000

static void
any_text_is_read_or_refused(void **state)
{
    static const char letters[] = "relpwbounds=\"':x,{}019.e- \t_";
    static const char *const parts[] = {
        "rel=",   "mode=", "\"rel\"", "bound=", "1e-3",  ", ",
        "dims=",  "4x4",   "format=", "1",      "floor", "valid_range=\"",
        "\"-1:2", "bits=", "{",       "}"};
    uint32_t seed = 7;
    int nread = 0;

    (void)state;
    for (int i = 0; i < NTEXTS; i++) {
        unsigned words[TERP_SETTINGS_MAX_NWORDS];
        char text[256] = "", written[TERP_SETTINGS_TEXT_NBYTES];
        size_t nwords;
        do {
            seed = seed * 1664525 + 1013904223;
            const unsigned dice = seed >> 16;
            const char letter[] = {letters[dice % (sizeof letters - 1)], 0};
            strcat(text, dice >> 12 == 0 ? letter : parts[dice % COUNT(parts)]);
        } while (seed >> 29 != 0 && strlen(text) < 200);
        if (terp_settings_read(text, words, &nwords, NULL) != TERP_OK)
            continue;
        nread++;
        assert_int_equal(terp_settings_write(nwords, words, written, NULL),
                         TERP_OK);
        check_text(written, written);
    }
    assert_true(nread > NTEXTS / 1000);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_settings_survive_as_text),
        cmocka_unit_test(texts_are_canonical),
        cmocka_unit_test(wrong_texts_are_refused),
        cmocka_unit_test(wrong_words_have_no_text),
        cmocka_unit_test(words_of_other_hosts_are_taken),
        cmocka_unit_test(any_text_is_read_or_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
