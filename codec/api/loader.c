/* Finds and loads the shared library of the CUDA engine, once for each program
 * or library that this code is linked into.
 *
 * Nothing here needs CUDA: if the library is missing, the caller gets a reason.
 * The library is never unloaded, because a driver's threads may still run in
 * it. Contexts (context.c) open devices. */
#define _DEFAULT_SOURCE /* getline */
#include "codec/api/loader.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "codec/api/privilege.h"

#define MAX_REASON_NBYTES 256
#define MAX_PATH_NBYTES 4096

/* Folders of the library, relative to the folder of the file that contains this
 * code: the same folder; build/lib from build/plugin, or lib from bin; lib from
 * lib/hdf5/plugin; and the folder of cmake/Install.cmake. */
static const char *const folders[] = {"", "../lib/", "../../",
#ifdef TERP_ENGINE_FOLDER
                                      TERP_ENGINE_FOLDER
#endif
};

static pthread_once_t loaded = PTHREAD_ONCE_INIT;
static const struct terp_cuda_engine *engine;
static char reason_text[MAX_REASON_NBYTES]; /* set if `engine` is NULL */

/* CUDA does not work in a forked child, and locks that other threads held at
 * the fork are never released there. So a child only reads this flag. */
static atomic_bool is_forked, is_ending;

static void
set_forked(void)
{
    atomic_store(&is_forked, true);
}

/* Exit handlers of the host, such as HDF5's, may still write chunks. This
 * handler is registered after a device was opened, so it runs before the
 * driver's. */
static void
set_ending(void)
{
    atomic_store(&is_ending, true);
}

/* ---- the search ---- */

/* Finds the file that contains this code, from the kernel's list of mappings.
 * dladdr does not suffice: for a program it returns argv[0], which the caller
 * chose, and for a plugin the path by which it was opened, which may be
 * relative to another folder. Returns false if the file is not known. */
static bool
find_own_file(char path[MAX_PATH_NBYTES])
{
    static const int here;
    const uintptr_t at = (uintptr_t)&here;
    uintptr_t begin, end;
    FILE *maps = fopen("/proc/self/maps", "re");
    char *line = NULL;
    size_t cap_nbytes = 0;
    ssize_t length;
    bool found = false;

    while (maps != NULL && !found &&
           (length = getline(&line, &cap_nbytes, maps)) > 0) {
        const char *file = strchr(line, '/');
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &begin, &end) != 2 ||
            at < begin || at >= end || file == NULL)
            continue;
        line[length - 1] = '\0'; /* in place of the newline */
        found = strlen(file) < MAX_PATH_NBYTES;
        if (found)
            memcpy(path, file, strlen(file) + 1);
    }
    free(line);
    if (maps != NULL)
        fclose(maps);
    return found;
}

/* Whether only users who can change this code's own file, or this process, can
 * change `path`. */
static bool
is_trusted(const char *path, const struct stat *own)
{
    struct stat status;

    return stat(path, &status) == 0 && (status.st_mode & S_IWOTH) == 0 &&
           (status.st_uid == 0 || status.st_uid == geteuid() ||
            status.st_uid == own->st_uid);
}

/* Opens the library in the folder `path`, which ends with a slash. A library
 * that other users may have written, or in a folder that they may write, is not
 * opened: from a plugin in a shallow folder, "../../" may be /tmp. */
static void *
open_in(char path[MAX_PATH_NBYTES], const struct stat *own)
{
    const size_t length = strlen(path);

    if (length + sizeof TERP_CUDA_LIBRARY > MAX_PATH_NBYTES)
        return NULL;
    memcpy(path + length, TERP_CUDA_LIBRARY, sizeof TERP_CUDA_LIBRARY);
    if (access(path, F_OK) != 0)
        return NULL;
    bool good = is_trusted(path, own);
    path[length] = '\0';
    good = good && is_trusted(path, own);
    path[length] = TERP_CUDA_LIBRARY[0];
    if (!good) {
        snprintf(reason_text, sizeof reason_text,
                 "others may write %s or its folder, so it is not opened",
                 path);
        return NULL;
    }
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

/* Opens the library relative to this code's own file. A privileged program
 * opens nothing there, because its caller may have linked the program into
 * another folder. */
static void *
open_beside(void)
{
    char path[MAX_PATH_NBYTES];
    struct stat own;
    void *library = NULL;

    if (terp_is_privileged() || !find_own_file(path) || stat(path, &own) != 0)
        return NULL;
    char *folder_end = strrchr(path, '/') + 1;
    for (size_t i = 0; library == NULL && i < sizeof folders / sizeof *folders;
         i++) {
        const size_t nbytes = strlen(folders[i]) + 1;
        if ((size_t)(folder_end - path) + nbytes > sizeof path)
            return NULL;
        memcpy(folder_end, folders[i], nbytes);
        library = open_in(path, &own);
    }
    return library;
}

static void *
open_library(void)
{
    const char *named = terp_getenv_of_file("TERP_CUDA_LIBRARY");

    if (named != NULL && *named != '\0')
        return dlopen(named, RTLD_NOW | RTLD_LOCAL);
    void *library = open_beside();
    return library != NULL ? library
                           : dlopen(TERP_CUDA_LIBRARY, RTLD_NOW | RTLD_LOCAL);
}

/* ---- the engine ---- */

static void
load(void)
{
    terp_cuda_open_function *open_function;

    if (pthread_atfork(NULL, NULL, set_forked) != 0) {
        snprintf(reason_text, sizeof reason_text, "out of memory");
        return;
    }
    void *library = open_library();
    if (library == NULL) {
        const char *error = dlerror();
        if (*reason_text != '\0')
            return;
        snprintf(reason_text, sizeof reason_text, "%s",
                 error != NULL ? error : "no " TERP_CUDA_LIBRARY);
        return;
    }
    void *symbol = dlsym(library, TERP_CUDA_OPEN);
    if (symbol == NULL) {
        snprintf(reason_text, sizeof reason_text,
                 TERP_CUDA_LIBRARY " is not an engine of terp");
        return;
    }
    /* ISO C cannot cast a pointer to an object to a pointer to a function. */
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

    return atomic_exchange(&is_registered, true) || atexit(set_ending) == 0;
}
