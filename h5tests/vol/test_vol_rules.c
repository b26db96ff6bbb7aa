#define _POSIX_C_SOURCE 200809L /* for mkstemp and fdopen */
/* Rules for datasets that programs create: which rule applies, and which texts
 * are not rules. */
#include <fenv.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "h5tests/support/cmocka_all.h"

#include "vol/rules.h"

static enum vol_rule
find(const char *rules, const char *path, struct vol_choice *choice)
{
    char reason[VOL_REASON_NBYTES] = "";
    enum vol_rule found = vol_rules_find(rules, path, choice, reason);

    assert_int_equal(found == VOL_RULE_WRONG, reason[0] != '\0');
    return found;
}

static void
pattern_matches_name_or_whole_path(void **state)
{
    static const struct {
        const char *pattern, *path;
        bool matches;
    } cases[] = {
        {"rho", "/a/rho", true},
        {"rho", "/rhov", false},
        {"/rho", "/a/rho", false},
        {"*/rho", "/a/b/rho", true},
        {"x=1", "/x=1", true},
        {"a,b", "/a,b", true},
        {"level_0/x", "/level_0/x", true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct vol_choice choice;
        char rules[64];
        snprintf(rules, sizeof rules, "%s=abs:0.5", cases[i].pattern);
        assert_int_equal(find(rules, cases[i].path, &choice),
                         cases[i].matches ? VOL_RULE_APPLY
                                          : VOL_RULE_UNMATCHED);
    }
}

static void
first_rule_that_matches_counts(void **state)
{
    const char *rules = " v=rel:1e-3;;\n w = pwr:0.25 ;x=none; *=lossless;";
    struct vol_choice choice;

    (void)state;
    assert_int_equal(find(rules, "/v", &choice), VOL_RULE_APPLY);
    assert_int_equal(choice.config.bound_mode, H5Z_TERP_RELATIVE);
    assert_true(choice.config.bound == 1e-3);
    assert_int_equal(find(rules, "/w", &choice), VOL_RULE_APPLY);
    assert_int_equal(choice.config.bound_mode, H5Z_TERP_POINTWISE);
    assert_true(choice.config.bound == 0.25);
    assert_int_equal(find(rules, "/x", &choice), VOL_RULE_LEAVE);
    assert_int_equal(find(rules, "/y", &choice), VOL_RULE_APPLY);
    assert_int_equal(choice.config.bound_mode, H5Z_TERP_ABSOLUTE);
    assert_true(choice.config.bound == 0);
    assert_int_equal(choice.config.flags, H5Z_FLAG_OPTIONAL);
}

static void
bounds_are_those_of_the_tool(void **state)
{
    static const struct {
        const char *text;
        unsigned mode;
        double bound, floor;
    } cases[] = {{"pwr:1e-2", H5Z_TERP_POINTWISE, 1e-2, 0},
                 {"pwr:1e-2:1e-9", H5Z_TERP_POINTWISE, 1e-2, 1e-9},
                 {"digits:3", H5Z_TERP_POINTWISE, 5e-4, 0},
                 {"bits:9", H5Z_TERP_POINTWISE, 1. / 1024, 0}};
    struct vol_choice choice;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char rules[64];
        snprintf(rules, sizeof rules, "v=%s", cases[i].text);
        assert_int_equal(find(rules, "/v", &choice), VOL_RULE_APPLY);
        assert_int_equal(choice.config.bound_mode, cases[i].mode);
        assert_true(choice.config.bound == cases[i].bound);
        assert_true(choice.config.floor == cases[i].floor);
    }
}

static void
options_stand_behind_the_bound(void **state)
{
    struct vol_choice choice;

    (void)state;
    assert_int_equal(find("v=lossless", "/v", &choice), VOL_RULE_APPLY);
    assert_false(choice.has_small || choice.replaces_filters ||
                 choice.replaces_chunks || choice.has_components);
    assert_int_equal(find("v=rel:1,components", "/v", &choice), VOL_RULE_APPLY);
    assert_true(choice.has_components && !choice.has_compounds);
    assert_int_equal(
        find("v = abs:2 , small,chunk , replace-filters", "/v", &choice),
        VOL_RULE_APPLY);
    assert_true(choice.config.bound == 2);
    assert_true(choice.has_small && choice.replaces_filters &&
                choice.replaces_chunks);
    assert_int_equal(choice.rank, 0);
    assert_int_equal(find("w=none;v=rel:1,chunk:16x1x7", "/v", &choice),
                     VOL_RULE_APPLY);
    assert_true(choice.replaces_chunks && !choice.has_small);
    assert_int_equal(choice.rank, 3);
    assert_int_equal(choice.chunk[0], 16);
    assert_int_equal(choice.chunk[1], 1);
    assert_int_equal(choice.chunk[2], 7);
    /* Settings of another rule do not count. */
    assert_int_equal(find("v=abs:1;*=abs:1,small", "/v", &choice),
                     VOL_RULE_APPLY);
    assert_false(choice.has_small);
}

static void
limits_of_values_are_those_of_the_tool(void **state)
{
    static const struct {
        const char *text;
        unsigned keep_sign;
        bool has_range;
        double min, max;
    } cases[] = {
        {"keep-sign", H5Z_TERP_KEEP_SIGN_OF_VALUES, false, 0, 0},
        {"keep-sign:values", H5Z_TERP_KEEP_SIGN_OF_VALUES, false, 0, 0},
        {"keep-sign:chunk", H5Z_TERP_KEEP_SIGN_OF_CHUNK, false, 0, 0},
        {"valid-range:0:1e2", H5Z_TERP_KEEP_SIGN_NONE, true, 0, 100},
        {"valid-range:-.5:", H5Z_TERP_KEEP_SIGN_NONE, true, -.5, INFINITY},
        {"valid-range::0", H5Z_TERP_KEEP_SIGN_NONE, true, -INFINITY, 0},
        {"small,valid-range:7:7,keep-sign", H5Z_TERP_KEEP_SIGN_OF_VALUES, true,
         7, 7}};
    struct vol_choice choice;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char rules[64];
        snprintf(rules, sizeof rules, "v=rel:1e-3,%s", cases[i].text);
        assert_int_equal(find(rules, "/v", &choice), VOL_RULE_APPLY);
        assert_int_equal(choice.config.keep_sign, cases[i].keep_sign);
        assert_int_equal(choice.config.has_valid_range, cases[i].has_range);
        assert_true(choice.config.valid_min == cases[i].min);
        assert_true(choice.config.valid_max == cases[i].max);
    }
}

static void
members_have_bounds_of_their_own(void **state)
{
    char rules[800] = "v=rel:1e-3";
    struct vol_choice choice;
    const double bound = 0.25;

    (void)state;
    assert_int_equal(find("v=abs:1,compound", "/v", &choice), VOL_RULE_APPLY);
    assert_true(choice.has_compounds && choice.nmembers == 0);
    assert_int_equal(find("v=lossless,member:a:abs:0.25 , member:b.c:lossless",
                          "/v", &choice),
                     VOL_RULE_APPLY);
    assert_true(choice.has_compounds && choice.nmembers == 2);
    /* Hashes of the names (FNV-1a), and an exact mode. */
    assert_int_equal(choice.members[0][0], 0xE40C292C);
    assert_int_equal(choice.members[0][1], H5Z_TERP_ABSOLUTE | 0x10000);
    assert_memory_equal(choice.members[0] + 2, &bound, sizeof bound);
    assert_int_equal(choice.members[1][0], 0x70681EF6);
    for (int i = 0; i < H5Z_TERP_MAX_NBOUNDED; i++)
        strcat(rules, ",member:some_member:abs:2");
    assert_int_equal(find(rules, "/v", &choice), VOL_RULE_APPLY);
    strcat(rules, ",member:some_member:abs:2");
    assert_int_equal(find(rules, "/v", &choice), VOL_RULE_WRONG);
}

static void
nameless_dataset_heeds_only_a_first_rule_for_all(void **state)
{
    struct vol_choice choice;

    (void)state;
    assert_int_equal(find(" ; *=abs:1; v=none", NULL, &choice), VOL_RULE_APPLY);
    assert_int_equal(find("v=none; *=abs:1", NULL, &choice),
                     VOL_RULE_UNMATCHED);
    assert_int_equal(find("*/*=abs:1", NULL, &choice), VOL_RULE_UNMATCHED);
}

static void
what_is_no_rule_is_refused_for_every_dataset(void **state)
{
    static const char *const wrong[] = {
        "v",
        "v=",
        "=abs:1",
        "v=abs",
        "v=abs:",
        "v=abs:x",
        "v=abs:0",
        "v=abs:-1",
        "v=abs:inf",
        "v=abs:nan",
        "v=abs:1x",
        "v=pwr:1",
        "v=gzip",
        "v=lossless 5",
        "v=abs:1e999",
        "v=rel:1;w",
        "@/no/file",
        "@",
        "@/dev/zero",
        "v=Lossless",
        "v=abs:0,5",
        "v=pwr:0.1:",
        "v=pwr:0.1:0",
        "v=pwr:0.1:x",
        "v=digits:0",
        "v=digits:16",
        "v=digits:x",
        "v=bits:53",
        "v=bits:",
        "v=abs:1:2",
        "v=none,chunk",
        "v=abs:1,",
        "v=abs:1,big",
        "v=chunk",
        "v=abs:1,chunk:",
        "v=abs:1,chunk:4x",
        "v=abs:1,chunk:0x4",
        "v=abs:1,chunk:4,chunk",
        "v=abs:1,chunk:-4",
        "v=abs:1,chunk:4294967296",
        "v=lossless,,small",
        "v=abs:1,compounds",
        "v=abs:1,member",
        "v=abs:1,member:x",
        "v=abs:1,member::abs:1",
        "v=abs:1,member:x:none",
        "v=abs:1,member:x:abs:0",
        "v=abs:1,member:x:pwr:0.1:1",
        "v=abs:1,keep-sign:",
        "v=abs:1,keep-signs",
        "v=abs:1,valid-range",
        "v=abs:1,valid-range:",
        "v=abs:1,valid-range::",
        "v=abs:1,valid-range:1",
        "v=abs:1,valid-range:1:0",
        "v=abs:1,valid-range:0:x",
        "v=abs:1,valid-range:0:1:2",
        ("v=abs:1,chunk:"
         "1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x"
         "1x1x1x1x1"),
    };
    struct vol_choice choice;

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(find(wrong[i], "/v", &choice), VOL_RULE_WRONG);
        assert_int_equal(find(wrong[i], "/other", &choice), VOL_RULE_WRONG);
    }
    assert_int_equal(find(NULL, "/v", &choice), VOL_RULE_NONE);
    assert_int_equal(find("", "/v", &choice), VOL_RULE_NONE);
}

static void
file_has_lines_and_comments(void **state)
{
    char name[] = "/tmp/test_vol_rules_XXXXXX", rules[64];
    struct vol_choice choice;
    int made = mkstemp(name);
    FILE *file = made < 0 ? NULL : fdopen(made, "w");

    (void)state;
    assert_non_null(file);
    fputs("# first; v=none\n\n v=abs:2 # tight; w=abs:3\r\n w=rel:1;x=none\n"
          "z=lossless\r\n",
          file);
    assert_int_equal(fclose(file), 0);
    snprintf(rules, sizeof rules, "@%s", name);
    assert_int_equal(find(rules, "/v", &choice), VOL_RULE_APPLY);
    assert_true(choice.config.bound == 2);
    assert_int_equal(find(rules, "/w", &choice), VOL_RULE_APPLY);
    assert_int_equal(choice.config.bound_mode, H5Z_TERP_RELATIVE);
    assert_int_equal(find(rules, "/x", &choice), VOL_RULE_LEAVE);
    assert_int_equal(find(rules, "/z", &choice), VOL_RULE_APPLY);
    assert_true(choice.config.bound == 0);
    remove(name);
}

/* More rules may follow it. */
static void
file_with_a_byte_of_0_is_refused(void **state)
{
    static const char text[] = "v=abs:1\n\0w=abs:2\n";
    char name[] = "/tmp/test_vol_rules_XXXXXX", rules[64];
    struct vol_choice choice;
    int made = mkstemp(name);
    FILE *file = made < 0 ? NULL : fdopen(made, "w");

    (void)state;
    assert_non_null(file);
    assert_int_equal(fwrite(text, sizeof text - 1, 1, file), 1);
    assert_int_equal(fclose(file), 0);
    snprintf(rules, sizeof rules, "@%s", name);
    assert_int_equal(find(rules, "/v", &choice), VOL_RULE_WRONG);
    remove(name);
}

/* As in a file with rules. */
static void
rules_of_more_than_64_kib_are_refused(void **state)
{
    enum {
        NBYTES = 1 << 16
    };
    static char rules[NBYTES + 2];
    struct vol_choice choice;

    (void)state;
    snprintf(rules, sizeof rules, "%-*s", NBYTES, "v=abs:1");
    assert_int_equal(find(rules, "/v", &choice), VOL_RULE_APPLY);
    rules[NBYTES] = ' ';
    assert_int_equal(find(rules, "/v", &choice), VOL_RULE_WRONG);
}

static void
direction_of_rounding_changes_no_bound(void **state)
{
    struct vol_choice choice;

    (void)state;
    fesetround(FE_UPWARD);
    const enum vol_rule found =
        find("v=abs:0.3,valid-range:0.1:0.7", "/v", &choice);
    fesetround(FE_TONEAREST);
    assert_int_equal(found, VOL_RULE_APPLY);
    assert_true(choice.config.bound == 0.3);
    assert_true(choice.config.valid_min == 0.1);
    assert_true(choice.config.valid_max == 0.7);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pattern_matches_name_or_whole_path),
        cmocka_unit_test(first_rule_that_matches_counts),
        cmocka_unit_test(bounds_are_those_of_the_tool),
        cmocka_unit_test(options_stand_behind_the_bound),
        cmocka_unit_test(limits_of_values_are_those_of_the_tool),
        cmocka_unit_test(members_have_bounds_of_their_own),
        cmocka_unit_test(nameless_dataset_heeds_only_a_first_rule_for_all),
        cmocka_unit_test(what_is_no_rule_is_refused_for_every_dataset),
        cmocka_unit_test(file_has_lines_and_comments),
        cmocka_unit_test(file_with_a_byte_of_0_is_refused),
        cmocka_unit_test(rules_of_more_than_64_kib_are_refused),
        cmocka_unit_test(direction_of_rounding_changes_no_bound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
