/* Parsing of numbers and patterns that users type, in any locale. */
#define _GNU_SOURCE /* for setenv and mkdtemp */
#include <errno.h>
#include <fnmatch.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/api/text.h"
#include "h5tests/support/cmocka_all.h"

/* ---- numbers ---- */

static void
check_numbers(void)
{
    static const struct {
        const char *text;
        double number;
    } good[] = {{"0.5", 0.5},
                {".5", 0.5},
                {"5.", 5},
                {" -1e-3", -1e-3},
                {"+1.25E+2", 125},
                {"1e-300", 1e-300},
                {"0.1", 0.1},
                {"123456789.123456789", 123456789.123456789},
                {"0x1.8p-4", 0.09375},
                {"-0XAp3", -80},
                {"0", 0}};
    static const char *const bad[] = {
        "",    " ",   ".",     "0,5",  "1x", "1 ",   "e5",  "1e",    "1e+",
        "nan", "inf", "1e999", "0x1p", "0x", "0xp3", "--1", "1.2.3", "1.000,5"};
    char text[TERP_TEXT_NUMBER_NBYTES];
    double number;

    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_true(terp_text_read_number(good[i].text, &number));
        assert_true(number == good[i].number);
        assert_true(
            terp_text_read_number(terp_text_number(number, 17, text), &number));
        assert_true(number == good[i].number);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (terp_text_read_number(bad[i], &number))
            fail_msg("%s is a number", bad[i]);
    assert_true(terp_text_read_number_of("2.5:1e-9", 3, &number));
    assert_true(number == 2.5);
    assert_string_equal(terp_text_number(0.001, 6, text), "0.001");
    assert_string_equal(terp_text_number(-2.5e-300, 6, text), "-2.5e-300");
    assert_string_equal(terp_text_number(INFINITY, 6, text), "inf");
    assert_string_equal(terp_text_number(1, 17, text), "1");
}

static void
numbers_have_a_point(void **state)
{
    (void)state;
    check_numbers();
}

/* glibc loads a locale from any folder; localedef makes one there. */
static void
numbers_have_a_point_in_every_locale(void **state)
{
    char folder[] = "/tmp/test_text_XXXXXX", command[160];

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(command, sizeof command,
             "localedef -c -i de_DE -f UTF-8 %s/de_DE.UTF-8 >/dev/null 2>&1",
             folder);
    (void)!system(command); /* NOLINT(cert-env33-c) */
    setenv("LOCPATH", folder, 1);
    const bool is_set = setlocale(LC_ALL, "de_DE.UTF-8") != NULL;
    if (is_set) {
        char half[8];
        snprintf(half, sizeof half, "%.1f", 0.5);
        assert_string_equal(half, "0,5");
        check_numbers();
    }
    setlocale(LC_ALL, "C");
    unsetenv("LOCPATH");
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c) */
    if (!is_set) {
        print_message("skipped: no locale de_DE can be made here\n");
        skip();
    }
}

static void
very_long_numbers_are_refused(void **state)
{
    static char text[2 * TERP_TEXT_MAX_NUMBER];
    double number;

    (void)state;
    memset(text, '0', sizeof text - 1);
    assert_false(terp_text_read_number(text, &number));
    text[TERP_TEXT_MAX_NUMBER - 1] = '\0';
    text[TERP_TEXT_MAX_NUMBER - 2] = '7';
    assert_true(terp_text_read_number(text, &number));
    assert_true(number == 7);
}

/* ---- patterns ---- */

static void
pattern_matches_name_or_whole_path(void **state)
{
    static const struct {
        const char *pattern, *path;
        bool matches;
    } cases[] = {
        {"rho", "/rho", true},
        {"rho", "/a/rho", true},
        {"rho", "/rhov", false},
        {"a", "/a/rho", false},
        {"rho*", "/rhov", true},
        {"*v", "/rhov", true},
        {"r?v", "/rhov", false},
        {"*", "/a/b", true},
        {"/rho", "/rho", true},
        {"/rho", "/a/rho", false},
        {"a/rho", "/a/rho", true},
        {"rho/a", "/b/rho/a", false},
        {"level_0/data:datatype=0", "/level_0/data:datatype=0", true},
        {"level_*/data*", "/level_0/data:datatype=0", true},
        {"*/rho", "/a/b/rho", true},
        {"*/velocity*", "/velocity_x", true},
        {"/a/*/c", "/a/b/d/c", true},
        {"?", "/", false},
        {"v[xyz]", "/vy", true},
        {"v[!xy]", "/vy", false},
        {"v\\[0]", "/v[0]", true},
        {"gr?n", "/gr\xC3\xBCn", true},
        {"gr??n", "/gr\xC3\xBCn", false},
        {"gr\xC3\xBCn", "/gr\xC3\xBCn", true},
        {"gr[!u]n", "/gr\xC3\xBCn", true},
        {"gr[a-z]n", "/gr\xC3\xBCn", false},
        {"*\xBCn", "/gr\xC3\xBCn", false},
        {"?", "/\xFF", true},
        {"?", "/\xC3", true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (terp_text_matches(cases[i].pattern, cases[i].path) !=
            cases[i].matches)
            fail_msg("%s and %s", cases[i].pattern, cases[i].path);
}

#define NCASES 400000

static const char letters[] = "aab]-!*?\\b";

static void
make_text(uint32_t *state, char *text)
{
    *state = *state * 1664525 + 1013904223;
    size_t length = *state >> 16 & 7;

    for (size_t i = 0; i < length; i++) {
        *state = *state * 1664525 + 1013904223;
        *text++ = letters[(*state >> 16) % (sizeof letters - 1)];
    }
    *text = '\0';
}

static void
names_match_as_those_of_files(void **state)
{
    uint32_t seed = 1;
    int nmatches = 0;

    (void)state;
    for (int i = 0; i < NCASES; i++) {
        char pattern[8], text[8];
        make_text(&seed, pattern);
        make_text(&seed, text);
        const bool expected = fnmatch(pattern, text, 0) == 0;
        nmatches += expected;
        if (terp_text_matches(pattern, text) != expected)
            fail_msg("%s and %s", pattern, text);
    }
    assert_true(nmatches > NCASES / 100);
}

static void
sets_match_as_those_of_files(void **state)
{
    static const char *const patterns[] = {
        "[ab]",  "[!ab]", "[^ab]x", "[a-c]*", "*[0-9]", "[]a]",
        "[!]a]", "[a-]",  "[\\]]",  "x[",     "[a",     "[[]"};
    static const char *const texts[] = {"a", "b",  "c",  "cx", "]", "-",
                                        "!", "x[", "[a", "[",  "",  "\\"};

    (void)state;
    for (size_t p = 0; p < sizeof patterns / sizeof *patterns; p++)
        for (size_t t = 0; t < sizeof texts / sizeof *texts; t++)
            if (terp_text_matches(patterns[p], texts[t]) !=
                (fnmatch(patterns[p], texts[t], 0) == 0))
                fail_msg("%s and %s", patterns[p], texts[t]);
}

/* A matcher that tries every length for each star would take years here. */
static void
many_stars_take_no_longer(void **state)
{
    static char pattern[200], text[4000];

    (void)state;
    for (size_t i = 0; i + 2 < sizeof pattern; i++)
        pattern[i] = i % 2 == 0 ? '*' : 'a';
    pattern[sizeof pattern - 2] = 'b';
    memset(text, 'a', sizeof text - 1);
    assert_false(terp_text_matches(pattern, text));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_have_a_point),
        cmocka_unit_test(numbers_have_a_point_in_every_locale),
        cmocka_unit_test(very_long_numbers_are_refused),
        cmocka_unit_test(pattern_matches_name_or_whole_path),
        cmocka_unit_test(names_match_as_those_of_files),
        cmocka_unit_test(sets_match_as_those_of_files),
        cmocka_unit_test(many_stars_take_no_longer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
