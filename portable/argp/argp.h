/* What terp uses of glibc's argp.h, where the C library has none: musl's,
 * macOS's and Windows'. Names and meaning are those of glibc. */
#pragma once

#include <stddef.h>

typedef int error_t;

struct argp_option {
    const char *name;
    int key; /* a letter, or a number above those: --name alone */
    const char *arg;
    int flags; /* 0 */
    const char *doc;
    int group;
};

struct argp_state {
    void *input;
    int argc;
    char **argv;
    int next;         /* of argv */
    unsigned arg_num; /* words so far that are no options */
};

struct argp {
    const struct argp_option *options; /* NULL, or up to one without name */
    error_t (*parser)(int key, char *arg, struct argp_state *state);
    const char *args_doc;
    const char *doc;      /* before the options, "\v" and after them */
    const void *children; /* NULL */
    char *(*help_filter)(int key, const char *text, void *input);
};

#define ARGP_IN_ORDER 0x08

/* Keys that are no options. */
#define ARGP_KEY_ARG 0
#define ARGP_KEY_ARGS 0x1000006
#define ARGP_KEY_END 0x1000001
#define ARGP_KEY_NO_ARGS 0x1000002
#define ARGP_ERR_UNKNOWN 7

extern const char *argp_program_version;
extern int argp_err_exit_status;

/* Reads the options and words of a command; --help, --usage and --version end
 * the program, as errors do. `end_ret` is NULL. */
error_t
argp_parse(const struct argp *argp, int argc, char **argv, unsigned flags,
           int *end_ret, void *input);

/* Says what is wrong, and ends the program. */
__attribute__((format(printf, 2, 3))) void
argp_error(const struct argp_state *state, const char *format, ...);

/* The same, with the system's word for `number` where that is not 0. */
__attribute__((format(printf, 4, 5))) void
argp_failure(const struct argp_state *state, int status, int number,
             const char *format, ...);
