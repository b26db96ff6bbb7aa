/* In place of program.c on Windows and macOS, whose programs are not ELF files:
 * finds no function of HDF5 that a program holds and does not export. */
#include "filter/plugin/program.h"

#include <dlfcn.h>
#include <stddef.h>
#ifdef __APPLE__
#include <mach-o/dyld.h>
#endif

bool
terp_program_holds(const void *address)
{
    Dl_info info;

#ifdef __APPLE__
    const void *program = _dyld_get_image_header(0);
#else
    const void *program = dlopen(NULL, RTLD_LAZY);
#endif
    return dladdr(address, &info) != 0 && info.dli_fbase == program;
}

bool
terp_program_count_unloaded(uint64_t *n_ret)
{
    (void)n_ret;
    return false;
}

void *
terp_program_find(const char *name)
{
    (void)name;
    return NULL;
}
