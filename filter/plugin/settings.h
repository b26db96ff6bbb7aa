/* What the environment asks of the plugin, read anew in every call. */
#ifndef TERP_FILTER_PLUGIN_SETTINGS_H
#define TERP_FILTER_PLUGIN_SETTINGS_H

#include <stdbool.h>

#include "codec/api/terp.h"
#include "filter/plugin/host.h"

struct terp_settings {
    bool verbose;                 /* TERP_VERBOSE is set and not 0 */
    bool quiet;                   /* TERP_VERBOSE is 0 */
    int nthreads;                 /* TERP_NUM_THREADS; 0 there means all CPUs */
    enum terp_engine_kind engine; /* TERP_ENGINE */
};

/* A value that makes no sense counts as unset, which is said when verbose. */
void
terp_settings_read(const struct terp_host *host,
                   struct terp_settings *settings_ret);

/* Prints one line to stderr, when verbose, that names the host. */
__attribute__((format(printf, 3, 4))) void
terp_settings_say(const struct terp_settings *settings,
                  const struct terp_host *host, const char *format, ...);

#endif
