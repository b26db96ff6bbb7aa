/* Finds and opens the shared object of the CUDA engine, once in a process for
 * each object that this code is linked into.
 *
 * Nothing here needs CUDA: where the library is missing, the answer is a
 * reason. The library is never closed, because a driver's threads may still
 * run in it. Devices are opened by contexts (context.c). */
#define _GNU_SOURCE /* dladdr, secure_getenv */
#include "codec/api/loader.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_REASON_NBYTES 256
#define MAX_PATH_NBYTES 4096

/* Where the library is, seen from the directory of the object that this code
 * is linked into: beside it; build/plugin and build/lib, or bin and lib; and
 * lib/hdf5/plugin and lib. */
static const char *const places[] = {"", "../lib/", "../../"};

static pthread_once_t loaded = PTHREAD_ONCE_INIT;
static const struct terp_cuda_engine *engine;
static char reason_text[MAX_REASON_NBYTES]; /* where `engine` is NULL */

/* A driver does not work in a forked child, and locks that other threads held
 * at the fork are never released there: a child asks for this alone. */
static atomic_bool is_forked, is_ending;

static void
note_fork(void)
{
    atomic_store(&is_forked, true);
}

/* Exit handlers of the host, such as HDF5's, may still write chunks. This one
 * is registered after a device was opened, so it runs before the driver's. */
static void
note_end(void)
{
    atomic_store(&is_ending, true);
}

static void *
open_beside(const char *place)
{
    static const int here; /* in the object that we are linked into */
    char path[MAX_PATH_NBYTES];
    Dl_info info;

    if (dladdr(&here, &info) == 0 || info.dli_fname == NULL)
        return NULL;
    const char *slash = strrchr(info.dli_fname, '/');
    if (slash == NULL)
        return NULL;
    int length = snprintf(path, sizeof path, "%.*s%s%s",
                          (int)(slash + 1 - info.dli_fname), info.dli_fname,
                          place, TERP_CUDA_LIBRARY);
    if (length < 0 || (size_t)length >= sizeof path)
        return NULL;
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static void *
open_library(void)
{
    const char *named = secure_getenv("TERP_CUDA_LIBRARY");
    void *library = NULL;

    if (named != NULL && *named != '\0')
        return dlopen(named, RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; library == NULL && i < sizeof places / sizeof *places;
         i++)
        library = open_beside(places[i]);
    return library != NULL ? library
                           : dlopen(TERP_CUDA_LIBRARY, RTLD_NOW | RTLD_LOCAL);
}

static void
load(void)
{
    terp_cuda_open_function *open_function;

    if (pthread_atfork(NULL, NULL, note_fork) != 0) {
        snprintf(reason_text, sizeof reason_text, "out of memory");
        return;
    }
    void *library = open_library();
    if (library == NULL) {
        const char *error = dlerror();
        snprintf(reason_text, sizeof reason_text, "%s",
                 error != NULL ? error : "no " TERP_CUDA_LIBRARY);
        return;
    }
    void *symbol = dlsym(library, TERP_CUDA_OPEN);
    if (symbol == NULL) {
        snprintf(reason_text, sizeof reason_text,
                 TERP_CUDA_LIBRARY " is no engine of terp");
        return;
    }
    /* ISO C has no cast from an object's address to a function's. */
    memcpy(&open_function, &symbol, sizeof symbol);
    if (open_function(TERP_CUDA_ABI, &engine) != TERP_OK) {
        engine = NULL;
        snprintf(reason_text, sizeof reason_text,
                 TERP_CUDA_LIBRARY " is of another version of terp");
    }
}

const char *
terp_cuda_ended(void)
{
    return atomic_load(&is_forked)
               ? "the process was forked from one that uses the device"
           : atomic_load(&is_ending) ? "the process is ending"
                                     : NULL;
}

const struct terp_cuda_engine *
terp_cuda_load(const char **reason_ret)
{
    *reason_ret = terp_cuda_ended();
    if (*reason_ret != NULL)
        return NULL;
    pthread_once(&loaded, load);
    *reason_ret = engine == NULL ? reason_text : NULL;
    return engine;
}

bool
terp_cuda_end_at_exit(void)
{
    static atomic_bool is_registered;

    return atomic_exchange(&is_registered, true) || atexit(note_end) == 0;
}
