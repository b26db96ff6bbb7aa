/* Finds the HDF5 library that called the plugin, and functions in it. */
#define _GNU_SOURCE /* dladdr, RTLD_DEFAULT */
#include "filter/plugin/host.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "filter/plugin/program.h"

/* VTK, and so ParaView, gives all symbols of its HDF5 this prefix. */
#define VTK_PREFIX "vtkhdf5_"

/* Holds the prefix and the longest name that is looked up, about 40 bytes with
 * the final 0; snprintf would cut a longer name, which is then not found. */
#define MAX_SYMBOL_NBYTES 64

/* The path of the file that holds `caller`; NULL: none. dladdr reads all
 * symbols of the file, which takes longer than a small chunk, so the last
 * answer is kept until a library is unloaded. */
static const char *
find_path(const void *caller)
{
    static _Thread_local struct {
        const void *caller;
        const char *path;
        uint64_t nunloaded;
    } last;
    uint64_t nunloaded;
    Dl_info info;

    const bool is_known = terp_program_count_unloaded(&nunloaded);
    if (is_known && last.caller == caller && last.nunloaded == nunloaded)
        return last.path;
    if (dladdr(caller, &info) == 0)
        return NULL;
    if (is_known) {
        last.caller = caller;
        last.path = info.dli_fname;
        last.nunloaded = nunloaded;
    }
    return info.dli_fname;
}

void
terp_host_open(const void *caller, struct terp_host *host_ret)
{
    const char *path = find_path(caller);

    *host_ret = (struct terp_host){
        NULL, false, "unknown; a fully static program needs terp::h5z_linked"};
    if (path == NULL)
        return;
    host_ret->path = path;
    host_ret->is_program = terp_program_holds(caller);
    host_ret->module =
        dlopen(host_ret->is_program ? NULL : path, RTLD_LAZY | RTLD_NOLOAD);
}

void
terp_host_close(struct terp_host *host)
{
    if (host->module != NULL)
        dlclose(host->module);
    host->module = NULL;
}

/* One way to look for a symbol, without a prefix. */
typedef void *
finder(const struct terp_host *host, const char *name);

static void *
find_exported(const struct terp_host *host, const char *name)
{
    void *symbol = host->module == NULL ? NULL : dlsym(host->module, name);

    /* The program's handle covers the libraries that are loaded with it, and
     * another libhdf5 cannot use the ids of this one. */
    if (symbol != NULL && host->is_program && !terp_program_holds(symbol))
        return NULL;
    return symbol;
}

static void *
find_hidden(const struct terp_host *host, const char *name)
{
    return host->is_program ? terp_program_find(name) : NULL;
}

/* A program may hold a copy of a library's variable (a copy relocation); HDF5
 * then sets the copy, and never the library's own variable. */
static void *
find_taken_over(const struct terp_host *host, const char *name)
{
    return host->is_program ? NULL : dlsym(RTLD_DEFAULT, name);
}

/* A symbol, with or without the prefix. */
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

/* Only an exported H5allocate_memory is used: a search for a hidden one may
 * take longer than a small chunk, and malloc is what HDF5 itself calls. */
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
