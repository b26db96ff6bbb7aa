/* The connector's entry points as an HDF5 plugin. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "filter/plugin/call.h"
#include "vol/library.h"
#include "vol/pass.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT int
H5PLget_plugin_type(void);
EXPORT const void *
H5PLget_plugin_info(void);

/* HDF5 1.10 treats every library in its plugin folder as a filter, and would
 * confuse the connector's number with the filter's. So it gets a class with a
 * number that no filter has. */
static const struct vol_class not_a_filter = {
    .version = VOL_CLASS_VERSION, .value = -1, .name = ""};

/* Prints, once, to users who set HDF5_VOL_CONNECTOR=terp, that HDF5 is too old.
 * A version of zeros is unknown. */
static void
say_too_old(const unsigned version[3])
{
    const char *wanted = getenv("HDF5_VOL_CONNECTOR");
    static int said;

    if (said || version[0] == 0 || wanted == NULL ||
        strncmp(wanted, VOL_NAME, strlen(VOL_NAME)) != 0 ||
        terp_verbosity() == TERP_VERBOSITY_QUIET)
        return;
    said = 1;
    fprintf(stderr,
            "H5Z-TERP: HDF5 %u.%u.%u is too old for terp's connector, which "
            "needs 1.14 or newer; the filter works without the connector\n",
            version[0], version[1], version[2]);
}

int
H5PLget_plugin_type(void)
{
    return VOL_PLUGIN_TYPE;
}

/* HDF5 before 1.14 also calls this when it searches for a filter. */
const void *
H5PLget_plugin_info(void)
{
    unsigned version[3];

    if (vol_library_suits(__builtin_return_address(0), version))
        return &vol_pass_class;
    say_too_old(version);
    return &not_a_filter;
}
