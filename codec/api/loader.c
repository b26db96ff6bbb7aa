/* Finds and opens the shared object of the CUDA engine.
 *
 * Nothing here needs CUDA: where the library, the driver or the device is
 * missing, the answer is a reason. The library is never closed, because a
 * driver's threads may still run in it. */
#define _GNU_SOURCE /* dladdr, secure_getenv */
#include "codec/api/loader.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_REASON_NBYTES 256
#define MAX_PATH_NBYTES 4096

/* AUTO opens the device when it would have coded this many bytes: about what
 * one CPU thread codes in the time that opening a device takes, 0.2 s. So a
 * program that reads a few chunks never waits for the driver. */
#define OPEN_NBYTES (UINT64_C(64) << 20)

/* Where the library is, seen from the directory of the object that this code
 * is linked into: beside it; build/plugin and build/lib, or bin and lib; and
 * lib/hdf5/plugin and lib. */
static const char *const places[] = {"", "../lib/", "../../"};

/* The process that asked first. Known before anything is opened, so that a
 * forked child touches neither `opened` nor the engine. */
static atomic_int owner;
static pthread_once_t opened = PTHREAD_ONCE_INIT;
static _Atomic(const struct terp_cuda_engine *) engine;
static atomic_uint_fast64_t declined_nbytes;

/* No engine any more. Whoever sets `closed` writes the text, and then lets
 * `reason` point to it. */
static atomic_bool closed;
static char reason_text[MAX_REASON_NBYTES];
static _Atomic(const char *) reason = "the device failed";

static void
end_use(const char *text)
{
    if (atomic_exchange(&closed, true))
        return;
    snprintf(reason_text, sizeof reason_text, "%s", text);
    atomic_store(&reason, reason_text);
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

/* Exit handlers of the host, such as HDF5's, may still write chunks. This one
 * is registered after the device was opened, so it runs before the driver's. */
static void
end_at_exit(void)
{
    end_use("the process is ending");
}

static void
open_engine(void)
{
    const struct terp_cuda_engine *found = NULL;
    const char *refusal = "it gave no reason";
    terp_cuda_open_function *open_function;

    void *library = open_library();
    if (library == NULL) {
        const char *error = dlerror();
        end_use(error != NULL ? error : "no " TERP_CUDA_LIBRARY);
        return;
    }
    void *symbol = dlsym(library, TERP_CUDA_OPEN);
    if (symbol == NULL) {
        end_use(TERP_CUDA_LIBRARY " is no engine of terp");
        return;
    }
    /* ISO C has no cast from an object's address to a function's. */
    memcpy(&open_function, &symbol, sizeof symbol);
    enum terp_status st = open_function(TERP_CUDA_ABI, &found, &refusal);
    if (st == TERP_ERR_ARGUMENT)
        end_use(TERP_CUDA_LIBRARY " is of another version of terp");
    else if (st != TERP_OK)
        end_use(refusal);
    else if (atexit(end_at_exit) != 0)
        end_use("the process is ending");
    else
        atomic_store(&engine, found);
}

const struct terp_cuda_engine *
terp_cuda_get(const char **reason_ret)
{
    int process = (int)getpid(), first = 0;

    if (!atomic_compare_exchange_strong(&owner, &first, process) &&
        first != process) {
        *reason_ret = "the process was forked from one that uses the device";
        return NULL;
    }
    pthread_once(&opened, open_engine);
    if (atomic_load(&closed)) {
        *reason_ret = atomic_load(&reason);
        return NULL;
    }
    *reason_ret = NULL;
    return atomic_load(&engine);
}

const char *
terp_cuda_fail(const char *text)
{
    end_use(text);
    return atomic_load(&reason);
}

const char *
terp_cuda_decline(uint64_t nbytes)
{
    if (nbytes < TERP_AUTO_MIN_NBYTES)
        return "the CPU is faster for so few bytes";
    if (atomic_load(&engine) == NULL && !atomic_load(&closed) &&
        atomic_fetch_add(&declined_nbytes, nbytes) + nbytes < OPEN_NBYTES)
        return "too little was coded so far to be worth opening the device";
    return NULL;
}
