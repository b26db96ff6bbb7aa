/* One call of the plugin: the HDF5 library that called, and the settings of the
 * environment variables, which each call reads again. */
#pragma once

#include <stdbool.h>

#include "codec/api/terp.h"
#include "filter/plugin/host.h"

/* The value of TERP_VERBOSE. */
enum terp_verbosity {
    TERP_VERBOSITY_QUIET,  /* 0: print nothing */
    TERP_VERBOSITY_NORMAL, /* unset or empty: print errors that HDF5 hides */
    TERP_VERBOSITY_VERBOSE /* any other value: print each call */
};

enum terp_verbosity
terp_verbosity(void);

struct terp_call {
    struct terp_host host;
    bool verbose, quiet; /* TERP_VERBOSE */
    /* Memory is the host's. Engine and number of threads are those of
     * TERP_ENGINE and TERP_NUM_THREADS. */
    struct terp_run_options options;
};

/* `caller` is the return address of a callback. terp_host_close(&call->host)
 * ends the call. A variable with an invalid value counts as unset; a message
 * says so when verbose. */
void
terp_call_begin(const void *caller, struct terp_call *call_ret);

/* When verbose, prints one line to stderr, which ends with the host's file. */
__attribute__((format(printf, 2, 3))) void
terp_call_say(const struct terp_call *call, const char *format, ...);
