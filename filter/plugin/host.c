/* Finds the HDF5 library that called the plugin, and its functions. */
#define _GNU_SOURCE /* dladdr, RTLD_DEFAULT */
#include "filter/plugin/host.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "filter/plugin/program.h"

/* VTK, and so ParaView, renames all of HDF5 with this prefix. */
#define VTK_PREFIX "vtkhdf5_"

#define MAX_SYMBOL_NBYTES 64

void
terp_host_open(const void *caller, struct terp_host *host_ret)
{
    Dl_info info;

    *host_ret = (struct terp_host){
        NULL, false, "unknown; a fully static program needs terp::h5z_linked"};
    if (dladdr(caller, &info) == 0 || info.dli_fname == NULL)
        return;
    host_ret->path = info.dli_fname;
    host_ret->is_program = terp_program_holds(caller);
    host_ret->module = dlopen(host_ret->is_program ? NULL : info.dli_fname,
                              RTLD_LAZY | RTLD_NOLOAD);
}

void
terp_host_close(struct terp_host *host)
{
    if (host->module != NULL)
        dlclose(host->module);
    host->module = NULL;
}

/* One way to look for a symbol of this very name. */
typedef void *
finder(const struct terp_host *host, const char *name);

static void *
find_exported(const struct terp_host *host, const char *name)
{
    void *symbol = host->module == NULL ? NULL : dlsym(host->module, name);

    /* The program's handle stands for all that is loaded with it, and another
     * libhdf5 knows nothing of this one's ids. */
    if (symbol != NULL && host->is_program && !terp_program_holds(symbol))
        return NULL;
    return symbol;
}

static void *
find_hidden(const struct terp_host *host, const char *name)
{
    return host->is_program ? terp_program_find(name) : NULL;
}

/* Where a program has taken a variable over (a copy relocation), the one in
 * the library is never set. */
static void *
find_taken_over(const struct terp_host *host, const char *name)
{
    return host->is_program ? NULL : dlsym(RTLD_DEFAULT, name);
}

/* A symbol under either name. */
static void *
find(finder *find_one, const struct terp_host *host, const char *name)
{
    char renamed[MAX_SYMBOL_NBYTES];
    void *symbol = find_one(host, name);

    if (symbol != NULL)
        return symbol;
    snprintf(renamed, sizeof renamed, VTK_PREFIX "%s", name);
    return find_one(host, renamed);
}

bool
terp_host_find(const struct terp_host *host, const char *name,
               void *function_ret)
{
    void *symbol = find(find_exported, host, name);

    if (symbol == NULL)
        symbol = find(find_hidden, host, name);
    /* ISO C has no cast from an object's address to a function's. */
    memcpy(function_ret, &symbol, sizeof symbol);
    return symbol != NULL;
}

bool
terp_host_exports(const struct terp_host *host, const char *name)
{
    return find(find_exported, host, name) != NULL;
}

bool
terp_host_find_id(const struct terp_host *host, const char *variable,
                  hid_t *id_ret)
{
    finder *const finders[] = {find_exported, find_hidden, find_taken_over};

    for (size_t i = 0; i < sizeof finders / sizeof *finders; i++) {
        const void *symbol = find(finders[i], host, variable);
        if (symbol == NULL)
            continue;
        memcpy(id_ret, symbol, sizeof *id_ret);
        if (*id_ret > 0)
            return true;
    }
    return false;
}

/* Not looked for where it is hidden: that may take longer than a small chunk,
 * and HDF5 itself calls malloc. */
void *
terp_host_allocate(const struct terp_host *host, size_t nbytes)
{
    void *symbol = find(find_exported, host, "H5allocate_memory");
    void *(*allocate)(size_t, hbool_t);

    if (symbol == NULL)
        return malloc(nbytes);
    memcpy(&allocate, &symbol, sizeof symbol);
    return allocate(nbytes, 0);
}

void
terp_host_release(const struct terp_host *host, void *memory)
{
    void *symbol = find(find_exported, host, "H5free_memory");
    herr_t (*release)(void *);

    if (symbol == NULL) {
        free(memory);
        return;
    }
    memcpy(&release, &symbol, sizeof symbol);
    release(memory);
}
