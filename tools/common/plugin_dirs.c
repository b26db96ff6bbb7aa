/* Adds the directories of this program's plugin to HDF5's list. */
#define _DEFAULT_SOURCE /* readlink */
#include <hdf5.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "codec/api/privilege.h"
#include "tools/common/tool.h"

static bool
is_directory(const char *path)
{
    struct stat found;
    return stat(path, &found) == 0 && S_ISDIR(found.st_mode);
}

void
tool_plugin_dirs_add(void)
{
    static const char *const beside[] = {"/../plugin",
                                         "/../" TERP_PLUGIN_SUBDIR};
    char path[4096], program[2048];
    unsigned npaths = 0;

    H5PLsize(&npaths);
    for (unsigned i = npaths; i-- > 0;)
        if (H5PLget(i, path, sizeof path) > 0 && !is_directory(path))
            H5PLremove(i);
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length < 0 || terp_is_privileged())
        return;
    program[length] = '\0';
    *strrchr(program, '/') = '\0';
    for (size_t i = 0; i < sizeof beside / sizeof beside[0]; i++) {
        snprintf(path, sizeof path, "%s%s", program, beside[i]);
        if (is_directory(path))
            H5PLappend(path);
    }
}
