/* One call of the plugin: who called, and what the environment asks of it, read
 * anew in every call. */
#pragma once

#include <stdbool.h>

#include "codec/api/terp.h"
#include "filter/plugin/host.h"

/* What TERP_VERBOSE asks for. */
enum terp_verbosity {
    TERP_VERBOSITY_QUIET,  /* 0: nothing is printed */
    TERP_VERBOSITY_NORMAL, /* unset or empty: errors that HDF5 does not print */
    TERP_VERBOSITY_VERBOSE
};

enum terp_verbosity
terp_verbosity(void);

struct terp_call {
    struct terp_host host;
    bool verbose, quiet; /* TERP_VERBOSE */
    /* Chunks are in host memory. TERP_ENGINE and TERP_NUM_THREADS, where 0
     * means all CPUs. */
    struct terp_run_options options;
};

/* `caller` is the return address of a callback; terp_host_close(&call->host)
 * ends the call. A variable whose value makes no sense counts as unset, which
 * is said when verbose. */
void
terp_call_begin(const void *caller, struct terp_call *call_ret);

/* Prints one line to stderr, when verbose, that names the host. */
__attribute__((format(printf, 2, 3))) void
terp_call_say(const struct terp_call *call, const char *format, ...);
