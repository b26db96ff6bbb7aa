#define _POSIX_C_SOURCE 200809L /* mkstemp, fdopen */
/* Rules for datasets that programs create: which one counts, and what is no
 * rule. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "h5tests/support/cmocka_all.h"

#include "vol/rules.h"

static enum vol_rule
find(const char *rules, const char *path, struct H5Z_terp_config *config)
{
    char reason[VOL_REASON_NBYTES] = "";
    enum vol_rule found = vol_rules_find(rules, path, config, reason);

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
        {"rho", "/rho", true},
        {"rho", "/a/rho", true},
        {"rho", "/rhov", false},
        {"rho*", "/rhov", true},
        {"*v", "/rhov", true},
        {"r*o*v", "/rhov", true},
        {"r?ov", "/rhov", true},
        {"r?v", "/rhov", false},
        {"*", "/a/b", true},
        {"/rho", "/rho", true},
        {"/rho", "/a/rho", false},
        {"*/rho", "/a/b/rho", true},
        {"*/velocity*", "/velocity_x", true},
        {"*ab*ab", "/abxabyab", true},
        {"*ab*abc", "/abxabyab", false},
        {"**", "/x", true},
        {"x=1", "/x=1", true},
        {"?", "/", false},
        {"/a/*/c", "/a/b/d/c", true},
        {"v[xyz]", "/vy", true},
        {"v[!xy]", "/vy", false},
        {"v\\[0]", "/v[0]", true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct H5Z_terp_config config;
        char rules[64];
        snprintf(rules, sizeof rules, "%s=abs:0.5", cases[i].pattern);
        assert_int_equal(find(rules, cases[i].path, &config),
                         cases[i].matches ? VOL_RULE_APPLY : VOL_RULE_LEAVE);
    }
}

static void
first_rule_that_matches_counts(void **state)
{
    const char *rules = " v=rel:1e-3;;\n w = pwr:0.25 ;x=none; *=lossless;";
    struct H5Z_terp_config config;

    (void)state;
    assert_int_equal(find(rules, "/v", &config), VOL_RULE_APPLY);
    assert_int_equal(config.bound_mode, H5Z_TERP_RELATIVE);
    assert_true(config.bound == 1e-3);
    assert_int_equal(find(rules, "/w", &config), VOL_RULE_APPLY);
    assert_int_equal(config.bound_mode, H5Z_TERP_POINTWISE);
    assert_true(config.bound == 0.25);
    assert_int_equal(find(rules, "/x", &config), VOL_RULE_LEAVE);
    assert_int_equal(find(rules, "/y", &config), VOL_RULE_APPLY);
    assert_int_equal(config.bound_mode, H5Z_TERP_ABSOLUTE);
    assert_true(config.bound == 0);
    assert_int_equal(config.flags, H5Z_FLAG_OPTIONAL);
}

static void
nameless_dataset_heeds_only_a_first_rule_for_all(void **state)
{
    struct H5Z_terp_config config;

    (void)state;
    assert_int_equal(find(" ; *=abs:1; v=none", NULL, &config), VOL_RULE_APPLY);
    assert_int_equal(find("v=none; *=abs:1", NULL, &config), VOL_RULE_LEAVE);
    assert_int_equal(find("*/*=abs:1", NULL, &config), VOL_RULE_LEAVE);
}

static void
what_is_no_rule_is_refused_for_every_dataset(void **state)
{
    static const char *const wrong[] = {
        "v",         "v=",        "=abs:1",   "v=abs",        "v=abs:",
        "v=abs:x",   "v=abs:0",   "v=abs:-1", "v=abs:inf",    "v=abs:nan",
        "v=abs:1x",  "v=pwr:1",   "v=gzip",   "v=lossless 5", "v=abs:1e999",
        "v=rel:1;w", "@/no/file", "@",        "@/dev/zero",   "v=Lossless",
    };
    struct H5Z_terp_config config;

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(find(wrong[i], "/v", &config), VOL_RULE_WRONG);
        assert_int_equal(find(wrong[i], "/other", &config), VOL_RULE_WRONG);
    }
    assert_int_equal(find(NULL, "/v", &config), VOL_RULE_NONE);
    assert_int_equal(find("", "/v", &config), VOL_RULE_NONE);
}

static void
file_has_lines_and_comments(void **state)
{
    char name[] = "/tmp/test_vol_rules_XXXXXX", rules[64];
    struct H5Z_terp_config config;
    int made = mkstemp(name);
    FILE *file = made < 0 ? NULL : fdopen(made, "w");

    (void)state;
    assert_non_null(file);
    fputs("# first; v=none\n\n v=abs:2 # tight; w=abs:3\r\n w=rel:1;x=none\n"
          "z=lossless\r\n",
          file);
    assert_int_equal(fclose(file), 0);
    snprintf(rules, sizeof rules, "@%s", name);
    assert_int_equal(find(rules, "/v", &config), VOL_RULE_APPLY);
    assert_true(config.bound == 2);
    assert_int_equal(find(rules, "/w", &config), VOL_RULE_APPLY);
    assert_int_equal(config.bound_mode, H5Z_TERP_RELATIVE);
    assert_int_equal(find(rules, "/x", &config), VOL_RULE_LEAVE);
    assert_int_equal(find(rules, "/z", &config), VOL_RULE_APPLY);
    assert_true(config.bound == 0);
    remove(name);
}

/* Behind it there might be more rules. */
static void
file_with_a_byte_of_0_is_refused(void **state)
{
    static const char text[] = "v=abs:1\n\0w=abs:2\n";
    char name[] = "/tmp/test_vol_rules_XXXXXX", rules[64];
    struct H5Z_terp_config config;
    int made = mkstemp(name);
    FILE *file = made < 0 ? NULL : fdopen(made, "w");

    (void)state;
    assert_non_null(file);
    assert_int_equal(fwrite(text, sizeof text - 1, 1, file), 1);
    assert_int_equal(fclose(file), 0);
    snprintf(rules, sizeof rules, "@%s", name);
    assert_int_equal(find(rules, "/v", &config), VOL_RULE_WRONG);
    remove(name);
}

/* As a file of them is. */
static void
rules_of_more_than_64_kib_are_refused(void **state)
{
    enum {
        NBYTES = 1 << 16
    };
    static char rules[NBYTES + 2];
    struct H5Z_terp_config config;

    (void)state;
    snprintf(rules, sizeof rules, "%-*s", NBYTES, "v=abs:1");
    assert_int_equal(find(rules, "/v", &config), VOL_RULE_APPLY);
    rules[NBYTES] = ' ';
    assert_int_equal(find(rules, "/v", &config), VOL_RULE_WRONG);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pattern_matches_name_or_whole_path),
        cmocka_unit_test(first_rule_that_matches_counts),
        cmocka_unit_test(nameless_dataset_heeds_only_a_first_rule_for_all),
        cmocka_unit_test(what_is_no_rule_is_refused_for_every_dataset),
        cmocka_unit_test(file_has_lines_and_comments),
        cmocka_unit_test(file_with_a_byte_of_0_is_refused),
        cmocka_unit_test(rules_of_more_than_64_kib_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
