/* The terp tool: runs a command. */
#include <argp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codec/api/terp.h"
#include "tools/common/text.h"
#include "tools/common/tool.h"

struct command {
    const char *name;
    tool_command *run;
};

static tool_command help;

static const struct command commands[] = {
    {"advise", tool_advise},
    {"repack", tool_repack},
    {"compare", tool_compare},
    {"info", tool_info},
    {"verify", tool_verify},
    {"args", tool_args},
    {"preview", tool_preview},
    {"report", tool_report},
    {"help", help},
};
enum {
    NCOMMANDS = sizeof commands / sizeof commands[0]
};

static const char doc[] =
    "Error-bounded lossy compression of floating-point data in HDF5 files."
    "\v"
    "Commands:\n"
    "  advise    measure bounds and pipelines on a sample of a file\n"
    "  repack    copy a file and compress its numbers\n"
    "  compare   compare a compressed file with its original\n"
    "  report    write a page about a file and its compressed copy\n"
    "  info      show how the datasets of a file are compressed\n"
    "  verify    look for damage in a file, without its original\n"
    "  args      print the filter parameters for h5repack, h5py and C\n"
    "  preview   copy every 2nd, 4th, 8th... value of a file\n"
    "  help      explain a command\n"
    "\n"
    "To compress a file:\n"
    "  terp advise in.h5\n"
    "  terp repack in.h5 out.h5 --rel 1e-3\n"
    "  terp compare in.h5 out.h5\n"
    "\n"
    "`terp help COMMAND` and `man terp` explain the commands.\n"
    "\n"
    "Exit codes: 0 done; 1 an error exceeds its bound, files differ or a chunk "
    "is damaged; 2 wrong usage, or a file cannot be read or written.";

struct call {
    const struct command *command;
    int argc;
    char **argv;
};

static const struct command *
find_command(const char *name)
{
    for (int i = 0; i < NCOMMANDS; i++)
        if (strcmp(name, commands[i].name) == 0)
            return &commands[i];
    return NULL;
}

static error_t
parse_option(int key, char *arg, struct argp_state *state)
{
    struct call *call = state->input;

    switch (key) {
    case ARGP_KEY_ARG:
        call->command = find_command(arg);
        if (call->command == NULL)
            argp_error(state, "unknown command '%s'; --help lists the commands",
                       arg);
        /* All further words belong to the command. */
        call->argc = state->argc - state->next + 1;
        call->argv = state->argv + state->next - 1;
        state->next = state->argc;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "give a command; --help lists the commands");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Whether all output was written; prints why not. */
static bool
output_is_written(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return true;
    perror("terp: standard output");
    clearerr(stdout);
    return false;
}

/* argp exits after --help and --version, and their text may be lost. No command
 * has run; so the exit code is 1, as in other programs. */
static void
check_output_at_exit(void)
{
    if (!output_is_written())
        _exit(EXIT_FAILURE);
}

static const struct argp parser = {
    .parser = parse_option, .args_doc = "COMMAND [ARG...]", .doc = doc};

/* `terp help` is `terp --help`, and `terp help COMMAND` is `terp COMMAND
 * --help`. Options of the command help, such as --version, are those of terp.
 */
static int
help(int argc, char **argv)
{
    static char terp[] = "terp", option[] = "--help";
    const char *name = argc > 1 ? argv[1] : "";
    const struct command *command = find_command(name);
    char full_name[32];
    char *words[] = {terp, argc > 1 && *name == '-' ? argv[1] : option, NULL};
    struct call call = {0};

    if (argc > 2 || (argc == 2 && command == NULL && *name != '-')) {
        fprintf(stderr,
                argc > 2 ? "terp help: give one command\n"
                         : "terp help: unknown command '%s'; terp --help "
                           "lists the commands\n",
                tool_shown(name));
        return TOOL_TROUBLE;
    }
    if (command == NULL || command->run == help) {
        argp_parse(&parser, 2, words, ARGP_IN_ORDER, NULL, &call);
        return TOOL_OK;
    }
    snprintf(full_name, sizeof full_name, "terp %s", command->name);
    words[0] = full_name;
    return command->run(2, words);
}

/* The Python package calls it in a shared object. */
#ifdef __GNUC__
__attribute__((visibility("default")))
#endif
int
main(int argc, char **argv)
{
    struct call call = {0};
    char name[32];

    argp_program_version = "terp " TERP_VERSION;
    argp_err_exit_status = TOOL_TROUBLE;
    (void)atexit(check_output_at_exit);
    argp_parse(&parser, argc, argv, ARGP_IN_ORDER, NULL, &call);
    /* The name in --help and error messages. */
    snprintf(name, sizeof name, "terp %s", call.command->name);
    call.argv[0] = name;
    int code = call.command->run(call.argc, call.argv);
    return output_is_written() ? code : TOOL_TROUBLE;
}
