/* Windows' fnmatch beside the C library's, on patterns and texts of few
 * letters, so that many match. */
#include <fnmatch.h>
#include <stdint.h>

#include "h5tests/support/cmocka_all.h"

/* Compiled with this name. */
int
terp_fnmatch(const char *pattern, const char *text, int flags);

#define NCASES 400000

static const char letters[] = "aab/]-!*?\\";

static void
make_text(uint32_t *state, const char *from, size_t max_length, char *text)
{
    *state = *state * 1664525 + 1013904223;
    size_t length = *state >> 16 & 7;

    for (size_t i = 0; i < length && i < max_length; i++) {
        *state = *state * 1664525 + 1013904223;
        *text++ = from[(*state >> 16) % (sizeof letters - 1)];
    }
    *text = '\0';
}

static void
patterns_without_sets_match_as_elsewhere(void **state)
{
    uint32_t seed = 1;
    int nmatches = 0;

    (void)state;
    for (int i = 0; i < NCASES; i++) {
        char pattern[8], text[8];
        make_text(&seed, letters, 7, pattern);
        make_text(&seed, letters, 7, text);
        int expected = fnmatch(pattern, text, 0);
        nmatches += expected == 0;
        if ((terp_fnmatch(pattern, text, 0) == 0) != (expected == 0))
            fail_msg("%s and %s", pattern, text);
    }
    assert_true(nmatches > NCASES / 100);
}

static void
sets_match_as_elsewhere(void **state)
{
    static const char *const patterns[] = {
        "[ab]", "[!ab]", "[^ab]x", "[a-c]*", "*[0-9]",     "[]a]", "[!]a]",
        "[a-]", "[\\]]", "x[",     "[a",     "*/vel[xyz]", "[[]"};
    static const char *const texts[] = {"a",     "b",      "c",  "cx", "]",
                                        "-",     "!",      "x[", "[a", "[",
                                        "run/7", "u/velx", "ax", "",   "\\"};

    (void)state;
    for (size_t p = 0; p < sizeof patterns / sizeof *patterns; p++)
        for (size_t t = 0; t < sizeof texts / sizeof *texts; t++)
            if ((terp_fnmatch(patterns[p], texts[t], 0) == 0) !=
                (fnmatch(patterns[p], texts[t], 0) == 0))
                fail_msg("%s and %s", patterns[p], texts[t]);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_without_sets_match_as_elsewhere),
        cmocka_unit_test(sets_match_as_elsewhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
