/* Reads the plugin's environment variables, and prints its messages. */
#include "filter/plugin/call.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/api/budget.h"
#include "codec/api/processor.h"
#include "codec/api/variables.h"

enum terp_verbosity
terp_verbosity(void)
{
    const char *text = getenv("TERP_VERBOSE");

    if (text == NULL || *text == '\0')
        return TERP_VERBOSITY_NORMAL;
    return strcmp(text, "0") == 0 ? TERP_VERBOSITY_QUIET
                                  : TERP_VERBOSITY_VERBOSE;
}

void
terp_call_begin(const void *caller, struct terp_call *call_ret)
{
    const enum terp_verbosity verbosity = terp_verbosity();
    uint64_t limit_nbytes;

    terp_host_open(caller, &call_ret->host);
    call_ret->quiet = verbosity == TERP_VERBOSITY_QUIET;
    call_ret->verbose = verbosity == TERP_VERBOSITY_VERBOSE;
    call_ret->options = (struct terp_run_options){
        .size = sizeof call_ret->options, .memory = TERP_MEMORY_HOST};
    if (!terp_variable_nthreads(&call_ret->options.nthreads))
        terp_call_say(
            call_ret,
            "TERP_NUM_THREADS must be a number from 0 to %d; 1 is used",
            TERP_MAX_NTHREADS);
    if (!terp_variable_engine(&call_ret->options.engine))
        terp_call_say(call_ret, "TERP_ENGINE must be cpu, cuda or auto; "
                                "cpu is used");
    if (!terp_budget_limit(&limit_nbytes))
        terp_call_say(call_ret, "TERP_MAX_MEMORY must be a size such as 500M "
                                "or 2G; no chunk is coded");
    if (terp_processor_reason() != NULL)
        terp_call_say(call_ret, "%s", terp_processor_reason());
}

void
terp_call_say(const struct terp_call *call, const char *format, ...)
{
    char text[512];
    va_list arguments;

    if (!call->verbose)
        return;
    va_start(arguments, format);
    /* clang-tidy loses track in a file that is built more than once. */
    /* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized) */
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "H5Z-TERP: %s [%s]\n", text, call->host.path);
}
