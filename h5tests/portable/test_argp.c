/* terp's argp for C libraries without one: how it parses words, and how it
 * ends. */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "h5tests/support/cmocka_all.h"

#define MISUSED 2

/* The parser's calls, such as "r=1 v +in". */
static char told[256];
static int takes_all;

static const struct argp_option options[] = {
    {"rel", 'r', "X", 0, "A bound", 1},
    {"verbose", 'v', NULL, 0, "Say more", 2},
    {"floor", 300, "X", 0, "The least bound", 1},
    {0}};

static void
tell(const char *format, const char *text)
{
    size_t at = strlen(told);

    snprintf(told + at, sizeof told - at, format, text);
}

static error_t
parse(int key, char *arg, struct argp_state *state)
{
    switch (key) {
    case 'r':
        tell("r=%s ", arg);
        return 0;
    case 'v':
        tell("v%s ", "");
        return 0;
    case 300:
        tell("floor=%s ", arg);
        return 0;
    case ARGP_KEY_ARG:
        if (takes_all)
            return ARGP_ERR_UNKNOWN;
        tell("+%s ", arg);
        if (strcmp(arg, "command") == 0)
            state->next = state->argc;
        return 0;
    case ARGP_KEY_ARGS:
        if (!takes_all)
            return ARGP_ERR_UNKNOWN;
        for (int i = state->next; i < state->argc; i++)
            tell("*%s ", state->argv[i]);
        return 0;
    case ARGP_KEY_NO_ARGS:
        tell("none%s", "");
        return 0;
    case ARGP_KEY_END:
        tell("end%s", "");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp parser = {
    .options = options, .parser = parse, .args_doc = "IN", .doc = "Does.\vSo."};

static const char *
read_words(unsigned flags, const char *text)
{
    static char words[128];
    char *argv[16] = {"terp"};
    int argc = 1;

    told[0] = '\0';
    strcpy(words, text);
    for (char *word = strtok(words, " "); word != NULL;
         word = strtok(NULL, " "))
        argv[argc++] = word;
    argp_parse(&parser, argc, argv, flags, NULL, NULL);
    return told;
}

static void
options_and_words_are_told_in_any_order(void **state)
{
    (void)state;
    takes_all = 0;
    assert_string_equal(read_words(0, "in -r 1 out --verbose"),
                        "r=1 v +in +out end");
    assert_string_equal(read_words(0, "-vr1 --rel=2 --floor 3 in"),
                        "v r=1 r=2 floor=3 +in end");
    assert_string_equal(read_words(0, "-v -- -r in"), "v +-r +in end");
    assert_string_equal(read_words(0, ""), "noneend");
    takes_all = 1;
    assert_string_equal(read_words(0, "a b -v c"), "v *a *b *c end");
}

static void
words_behind_a_command_are_its_own(void **state)
{
    (void)state;
    takes_all = 0;
    assert_string_equal(read_words(ARGP_IN_ORDER, "-v command -r 1"),
                        "v +command end");
}

/* Runs a parse that ends the program in a child. `text` gets its output. */
static int
status_of(const char *words, char text[1024])
{
    int ends[2], status;

    fflush(NULL);
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        argp_err_exit_status = MISUSED;
        argp_program_version = "terp 7";
        read_words(0, words);
        exit(77);
    }
    close(ends[1]);
    size_t length = 0;
    for (ssize_t n; (n = read(ends[0], text + length, 1023 - length)) > 0;)
        length += (size_t)n;
    text[length] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WEXITSTATUS(status);
}

static void
misuse_and_questions_end_the_program(void **state)
{
    char text[1024];

    (void)state;
    takes_all = 0;
    assert_int_equal(status_of("--bogus", text), MISUSED);
    assert_non_null(strstr(text, "unrecognized option '--bogus'"));
    assert_int_equal(status_of("in --rel", text), MISUSED);
    assert_non_null(strstr(text, "option '--rel' requires an argument"));
    assert_int_equal(status_of("--help", text), 0);
    assert_non_null(strstr(text, "Usage: terp [OPTION...] IN\nDoes.\n\n  -r, "
                                 "--rel=X                A bound\n"));
    assert_non_null(strstr(text, "      --floor=X              The least"));
    assert_non_null(strstr(text, "\n\nSo.\n"));
    assert_int_equal(status_of("-?", text), 0);
    assert_int_equal(status_of("--usage", text), 0);
    assert_int_equal(status_of("-V", text), 0);
    assert_string_equal(text, "terp 7\n");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_and_words_are_told_in_any_order),
        cmocka_unit_test(words_behind_a_command_are_its_own),
        cmocka_unit_test(misuse_and_questions_end_the_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
