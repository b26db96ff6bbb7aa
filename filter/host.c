#define _GNU_SOURCE /* dladdr, RTLD_DEFAULT */
#include "host.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Only types and constants: a macro such as H5E_PLINE calls H5open. */
#include <hdf5.h>

/* VTK, and so ParaView, renames all of HDF5 with this prefix. */
#define VTK_PREFIX "vtkhdf5_"

#define MAX_SYMBOL_NBYTES 64

void
terp_host_open(const void *caller, struct terp_host *host_ret)
{
    Dl_info info;

    *host_ret = (struct terp_host){NULL, "unknown"};
    if (dladdr(caller, &info) == 0 || info.dli_fname == NULL)
        return;
    host_ret->path = info.dli_fname;
    host_ret->module = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
}

void
terp_host_close(struct terp_host *host)
{
    if (host->module != NULL)
        dlclose(host->module);
    host->module = NULL;
}

/* A symbol under either name; RTLD_DEFAULT searches the whole program. */
static void *
find_in(void *module, const char *name)
{
    char renamed[MAX_SYMBOL_NBYTES];
    void *symbol = dlsym(module, name);

    if (symbol != NULL)
        return symbol;
    snprintf(renamed, sizeof renamed, VTK_PREFIX "%s", name);
    return dlsym(module, renamed);
}

static void *
find(const struct terp_host *host, const char *name)
{
    void *symbol = NULL;

    if (host->module != NULL)
        symbol = find_in(host->module, name);
    /* A program that holds HDF5 itself is no module that dlopen can name. */
    return symbol != NULL ? symbol : find_in(RTLD_DEFAULT, name);
}

bool
terp_host_find(const struct terp_host *host, const char *name,
               void *function_ret)
{
    void *symbol = find(host, name);

    /* ISO C has no cast from an object's address to a function's. */
    memcpy(function_ret, &symbol, sizeof symbol);
    return symbol != NULL;
}

void *
terp_host_allocate(const struct terp_host *host, size_t nbytes)
{
    void *(*allocate)(size_t, hbool_t);

    if (terp_host_find(host, "H5allocate_memory", &allocate))
        return allocate(nbytes, 0);
    return malloc(nbytes);
}

void
terp_host_release(const struct terp_host *host, void *memory)
{
    herr_t (*release)(void *);

    if (terp_host_find(host, "H5free_memory", &release))
        release(memory);
    else
        free(memory);
}

/* An error class or number, which HDF5 keeps in a variable. Where a program
 * has taken the variable over (a copy relocation), the one in the library is
 * never set, and the one in the program is found by RTLD_DEFAULT. */
static bool
find_id(const struct terp_host *host, const char *variable, hid_t *id_ret)
{
    void *const modules[] = {host->module, RTLD_DEFAULT};

    for (size_t i = host->module == NULL; i < 2; i++) {
        const void *symbol = find_in(modules[i], variable);
        if (symbol == NULL)
            continue;
        memcpy(id_ret, symbol, sizeof *id_ret);
        if (*id_ret > 0)
            return true;
    }
    return false;
}

void
terp_host_push(const struct terp_host *host, const char *function,
               unsigned line, const char *minor, const char *text)
{
    herr_t (*push)(hid_t, const char *, const char *, unsigned, hid_t, hid_t,
                   hid_t, const char *, ...);
    hid_t class_id, major_id, minor_id;

    if (terp_host_find(host, "H5Epush2", &push) &&
        find_id(host, "H5E_ERR_CLS_g", &class_id) &&
        find_id(host, "H5E_PLINE_g", &major_id) &&
        find_id(host, minor, &minor_id))
        push(H5E_DEFAULT, "h5z_terp.c", function, line, class_id, major_id,
             minor_id, "H5Z-TERP: %s", text);
}

void
terp_host_print_dropped(const struct terp_host *host, const char *text)
{
    herr_t (*pause)(hid_t);
    herr_t (*get_auto)(hid_t, H5E_auto2_t *, void **);
    H5E_auto2_t print;
    void *data;

    /* H5Epause_stack came with the change. */
    if (terp_host_find(host, "H5Epause_stack", &pause) &&
        terp_host_find(host, "H5Eget_auto2", &get_auto) &&
        get_auto(H5E_DEFAULT, &print, &data) >= 0 && print != NULL)
        fprintf(stderr, "H5Z-TERP: %s\n", text);
}
