/* The part of glibc's argp.h that terp uses, for other C libraries: musl's,
 * macOS's and Windows'. Names and meanings are those of glibc. */
#pragma once

#include <stddef.h>

typedef int error_t;

struct argp_option {
    const char *name;
    int key; /* a letter, or a larger number: the option has only a --name */
    const char *arg;
    int flags; /* 0 */
    const char *doc;
    int group;
};

struct argp_state {
    void *input;
    int argc;
    char **argv;
    int next;         /* index in argv */
    unsigned arg_num; /* words so far that are not options */
};

struct argp {
    const struct argp_option *options; /* NULL, or a list that ends with an
                                        * option without a name */
    error_t (*parser)(int key, char *arg, struct argp_state *state);
    const char *args_doc;
    const char *doc;      /* text before the options, "\v", and text after
                           * them */
    const void *children; /* NULL */
    char *(*help_filter)(int key, const char *text, void *input);
};

#define ARGP_IN_ORDER 0x08

/* Keys for words that are not options. */
#define ARGP_KEY_ARG 0
#define ARGP_KEY_ARGS 0x1000006
#define ARGP_KEY_END 0x1000001
#define ARGP_KEY_NO_ARGS 0x1000002
#define ARGP_ERR_UNKNOWN 7

extern const char *argp_program_version;
extern int argp_err_exit_status;

/* Parses the options and words of a command. --help, --usage, --version and
 * errors end the program. `end_ret` is NULL. */
error_t
argp_parse(const struct argp *argp, int argc, char **argv, unsigned flags,
           int *end_ret, void *input);

/* Prints an error, and ends the program. */
__attribute__((format(printf, 2, 3))) void
argp_error(const struct argp_state *state, const char *format, ...);

/* Prints an error with the system's message for `number`, unless `number` is 0,
 * and ends the program. */
__attribute__((format(printf, 4, 5))) void
argp_failure(const struct argp_state *state, int status, int number,
             const char *format, ...);
