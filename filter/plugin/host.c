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

    *host_ret = (struct terp_host){NULL, false, "unknown"};
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

/* Whether HDF5 prints its error stack when a function of it fails. */
static bool
prints_errors(const struct terp_host *host)
{
    herr_t (*is_v2)(hid_t, unsigned *);
    herr_t (*get_auto)(hid_t, H5E_auto2_t *, void **);
    unsigned version;
    H5E_auto2_t print;
    void *data;

    if (!terp_host_find(host, "H5Eauto_is_v2", &is_v2) ||
        !terp_host_find(host, "H5Eget_auto2", &get_auto) ||
        is_v2(H5E_DEFAULT, &version) < 0)
        return false;
    /* A function set in the style of HDF5 1.6 must not be asked for so. */
    return version == 0 ||
           (get_auto(H5E_DEFAULT, &print, &data) >= 0 && print != NULL);
}

bool
terp_host_push(const struct terp_host *host, const char *file,
               const char *function, unsigned line, const char *minor,
               const char *text)
{
    herr_t (*push)(hid_t, const char *, const char *, unsigned, hid_t, hid_t,
                   hid_t, const char *, ...);
    ssize_t (*count)(hid_t);
    hid_t class_id, major_id, minor_id;

    if (!terp_host_find(host, "H5Epush2", &push) ||
        !terp_host_find(host, "H5Eget_num", &count) ||
        !terp_host_find_id(host, "H5E_ERR_CLS_g", &class_id) ||
        !terp_host_find_id(host, "H5E_PLINE_g", &major_id) ||
        !terp_host_find_id(host, minor, &minor_id))
        return false;
    /* Asked before: old versions clear the stack in these functions. */
    bool is_printed = prints_errors(host);
    ssize_t nbefore = count(H5E_DEFAULT);
    push(H5E_DEFAULT, file, function, line, class_id, major_id, minor_id,
         "H5Z-TERP: %s", text);
    return is_printed && count(H5E_DEFAULT) > nbefore;
}
