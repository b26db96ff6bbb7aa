/* Implements argp by getopt_long, which all systems have. */
#include <argp.h>

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_NOPTIONS = 64,
    LINE_WIDTH = 79,
    DOC_COLUMN = 29,
    KEY_HELP = '?',
    KEY_VERSION = 'V',
    KEY_USAGE = 0x1000100
};

const char *argp_program_version;
int argp_err_exit_status = 64;

/* Options of every command. */
static const struct argp_option shared[] = {
    {"help", KEY_HELP, NULL, 0, "Give this help list", -1},
    {"usage", KEY_USAGE, NULL, 0, "Give a short usage message", -1},
    {"version", KEY_VERSION, NULL, 0, "Print program version", -1},
    {0}};

static int
is_letter(const struct argp_option *option)
{
    return option->key > ' ' && option->key < 127;
}

/* Lists all options of a command; returns their number. */
static int
list_options(const struct argp *argp,
             const struct argp_option *list[MAX_NOPTIONS])
{
    const struct argp_option *const both[] = {argp->options, shared};
    int n = 0;

    for (int i = 0; i < 2; i++)
        for (const struct argp_option *option = both[i];
             option != NULL && option->name != NULL && n < MAX_NOPTIONS;
             option++)
            list[n++] = option;
    return n;
}

/* ---- help ---- */

/* Prints text in lines that are indented by `indent`; the first begins at
 * `column`. */
static void
print_filled(const char *text, size_t nbytes, int column, int indent)
{
    const char *end = text + nbytes;

    while (text < end) {
        if (*text == '\n') {
            putchar(*text++);
            column = 0;
            continue;
        }
        if (column < indent && *text != ' ')
            column += printf("%*s", indent - column, "");
        size_t blanks = strspn(text, " ");
        size_t word = strcspn(text + blanks, " \n");
        if (word > (size_t)(end - text) - blanks)
            word = (size_t)(end - text) - blanks;
        if (column > indent && column + (int)(blanks + word) > LINE_WIDTH) {
            column = printf("\n%*s", indent, "") - 1;
            text += blanks;
            blanks = 0;
        }
        column += printf("%.*s", (int)(blanks + word), text);
        text += blanks + word;
    }
}

static void
print_option(const struct argp *argp, const struct argp_option *option,
             void *input)
{
    const char *doc = option->doc;
    int column =
        is_letter(option) ? printf("  -%c, ", option->key) : printf("      ");

    column += printf("--%s", option->name);
    if (option->arg != NULL)
        column += printf("=%s", option->arg);
    if (column >= DOC_COLUMN) {
        putchar('\n');
        column = 0;
    }
    if (argp->help_filter != NULL)
        doc = argp->help_filter(option->key, doc, input);
    print_filled(doc, strlen(doc), column, DOC_COLUMN);
    putchar('\n');
}

static void
print_help(const struct argp *argp, const struct argp_state *state)
{
    const struct argp_option *list[MAX_NOPTIONS];
    int n = list_options(argp, list);
    const char *behind = strchr(argp->doc, '\v');
    size_t before =
        behind != NULL ? (size_t)(behind - argp->doc) : strlen(argp->doc);

    printf("Usage: %s [OPTION...] %s\n", state->argv[0], argp->args_doc);
    print_filled(argp->doc, before, 0, 0);
    fputs("\n\n", stdout);
    for (int i = 0; i < n; i++)
        print_option(argp, list[i], state->input);
    if (behind != NULL) {
        putchar('\n');
        print_filled(behind + 1, strlen(behind + 1), 0, 0);
        putchar('\n');
    }
}

static void
print_usage(const struct argp *argp, const struct argp_state *state)
{
    const struct argp_option *list[MAX_NOPTIONS];
    int n = list_options(argp, list);

    printf("Usage: %s", state->argv[0]);
    for (int i = 0; i < n; i++)
        printf(list[i]->arg != NULL ? " [--%s=%s]" : " [--%s]", list[i]->name,
               list[i]->arg);
    printf(" %s\n", argp->args_doc);
}

/* ---- errors ---- */

void
argp_error(const struct argp_state *state, const char *format, ...)
{
    va_list arguments;

    fprintf(stderr, "%s: ", state->argv[0]);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, "\nTry `%s --help' or `%s --usage' for more information.\n",
            state->argv[0], state->argv[0]);
    exit(argp_err_exit_status);
}

void
argp_failure(const struct argp_state *state, int status, int number,
             const char *format, ...)
{
    va_list arguments;

    fprintf(stderr, "%s: ", state->argv[0]);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    if (number != 0)
        fprintf(stderr, ": %s", strerror(number));
    fputc('\n', stderr);
    exit(status);
}

/* ---- parsing ---- */

/* Takes one word that is no option, or all remaining words if the command takes
 * them at once. */
static void
take_word(const struct argp *argp, struct argp_state *state)
{
    if (argp->parser(ARGP_KEY_ARG, state->argv[state->next - 1], state) == 0) {
        state->arg_num++;
        return;
    }
    state->next--;
    if (argp->parser(ARGP_KEY_ARGS, NULL, state) != 0)
        argp_error(state, "Too many arguments");
    state->arg_num += (unsigned)(state->argc - state->next);
    state->next = state->argc;
}

static void
take_option(const struct argp *argp, struct argp_state *state, int key)
{
    switch (key) {
    case KEY_HELP:
        print_help(argp, state);
        exit(0);
    case KEY_USAGE:
        print_usage(argp, state);
        exit(0);
    case KEY_VERSION:
        puts(argp_program_version);
        exit(0);
    default:
        if (argp->parser(key, optarg, state) == ARGP_ERR_UNKNOWN)
            argp_error(state, "unrecognized option '%s'",
                       state->argv[state->next - 1]);
    }
}

/* Makes the tables of getopt_long. '+': no options after the first word; ':':
 * argp prints the errors. */
static void
make_tables(const struct argp *argp, unsigned flags, char *letters,
            struct option names[MAX_NOPTIONS + 1])
{
    const struct argp_option *list[MAX_NOPTIONS];
    int n = list_options(argp, list);

    letters += sprintf(letters, flags & ARGP_IN_ORDER ? "+:" : ":");
    for (int i = 0; i < n; i++) {
        names[i] = (struct option){list[i]->name,
                                   list[i]->arg != NULL ? required_argument
                                                        : no_argument,
                                   NULL, list[i]->key};
        if (is_letter(list[i]) && list[i]->key != KEY_HELP)
            letters += sprintf(letters, "%c%s", list[i]->key,
                               list[i]->arg != NULL ? ":" : "");
    }
    names[n] = (struct option){NULL, 0, NULL, 0};
}

/* Returns the next option's key; -1: only words remain. '?' stands for --help
 * and for errors. */
static int
next_key(struct argp_state *state, const char *letters,
         const struct option *names)
{
    int place = -1;
    int key = getopt_long(state->argc, state->argv, letters, names, &place);
    const char *word = state->argv[optind - 1];

    state->next = optind;
    if (key == ':')
        argp_error(state, "option '%s' requires an argument", word);
    if (key == KEY_HELP && place < 0 && strcmp(word, "-?") != 0)
        argp_error(state, "unrecognized option '%s'", word);
    return key;
}

error_t
argp_parse(const struct argp *argp, int argc, char **argv, unsigned flags,
           int *end_ret, void *input)
{
    struct argp_state state = {input, argc, argv, 1, 0};
    char letters[2 * MAX_NOPTIONS + 3];
    struct option names[MAX_NOPTIONS + 1];

    (void)end_ret;
    make_tables(argp, flags, letters, names);
    opterr = 0;
    optind = 0; /* restarts getopt_long */
#ifdef __APPLE__
    optind = optreset = 1;
#endif
    for (int key; (key = next_key(&state, letters, names)) >= 0;)
        take_option(argp, &state, key);
    while (state.next < argc) {
        state.next++;
        take_word(argp, &state);
    }
    if (state.arg_num == 0)
        argp->parser(ARGP_KEY_NO_ARGS, NULL, &state);
    return argp->parser(ARGP_KEY_END, NULL, &state);
}
