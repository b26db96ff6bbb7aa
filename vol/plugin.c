/* What HDF5 asks of a library in its plugin folder. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vol/library.h"
#include "vol/pass.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT int
H5PLget_plugin_type(void);
EXPORT const void *
H5PLget_plugin_info(void);

/* HDF5 before 1.14 asks it too, when it looks for a filter. It has no such
 * connectors, and who has asked for this one learns so. */
static void
say_too_old(const void *caller)
{
    const char *wanted = getenv("HDF5_VOL_CONNECTOR");
    const char *verbose = getenv("TERP_VERBOSE");
    unsigned version[3];
    static int said;

    if (said || wanted == NULL ||
        strncmp(wanted, VOL_NAME, strlen(VOL_NAME)) != 0 ||
        (verbose != NULL && strcmp(verbose, "0") == 0) ||
        vol_library_suits(caller, version))
        return;
    said = 1;
    fprintf(stderr,
            "H5Z-TERP: HDF5 %u.%u.%u has no connectors like terp's, which "
            "needs 1.14 or newer; the filter works without\n",
            version[0], version[1], version[2]);
}

int
H5PLget_plugin_type(void)
{
    say_too_old(__builtin_return_address(0));
    return VOL_PLUGIN_TYPE;
}

const void *
H5PLget_plugin_info(void)
{
    return &vol_pass_class;
}
