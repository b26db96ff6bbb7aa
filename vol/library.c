/* Finds the libhdf5 that made a call, and keeps a table of its functions. */
#define _GNU_SOURCE /* dladdr */
#include "vol/library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "filter/plugin/call.h"
#include "filter/plugin/h5z_terp.h"
#include "filter/plugin/host.h"

/* Bounds the number of libhdf5 in a process: more than any process has been
 * seen to hold (h5py's, netCDF4's, the system's, PyTables', VTK's). The
 * connector does not work with further ones. */
#define MAX_NLIBRARIES 16

/* An entry never moves, and is complete before nlibraries counts it. */
static struct vol_library libraries[MAX_NLIBRARIES];
static atomic_int nlibraries;
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

static const void *
base_of(const void *caller)
{
    Dl_info info;

    return dladdr(caller, &info) == 0 ? NULL : info.dli_fbase;
}

static struct vol_library *
find(const void *base)
{
    for (int i = 0; i < atomic_load(&nlibraries); i++)
        if (libraries[i].base == base)
            return &libraries[i];
    return NULL;
}

/* Finds the functions of HDF5's state, whose names depend on the version. */
static bool
find_state(const struct terp_host *host, struct vol_library *library)
{
    if (terp_host_find(host, "H5VLstart_lib_state",
                       &library->H5VLstart_lib_state) &&
        terp_host_find(host, "H5VLfinish_lib_state",
                       &library->H5VLfinish_lib_state))
        return true;
    library->H5VLstart_lib_state = NULL;
    return terp_host_find(host, "H5VLopen_lib_context",
                          &library->H5VLopen_lib_context) &&
           terp_host_find(host, "H5VLclose_lib_context",
                          &library->H5VLclose_lib_context);
}

/* Finds all functions. Returns the name of the first missing one, or NULL. */
static const char *
find_functions(const struct terp_host *host, struct vol_library *library)
{
    const char *missing = NULL;
    void *function;

#define FIND(result, name, parameters)                                   \
    if (missing == NULL && !terp_host_find(host, #name, &library->name)) \
        missing = #name;
    VOL_PASS_FUNCTIONS(FIND)
    VOL_PLAIN_FUNCTIONS(FIND)
#undef FIND
    if (missing == NULL && !find_state(host, library))
        missing = "H5VLstart_lib_state";
    library->is_parallel = terp_host_find(host, "H5Pset_fapl_mpio", &function);
    return missing;
}

/* Prints to stderr, for the case that HDF5 cannot print its error stack: its
 * function for errors may be missing, too. */
static void
say_missing(const struct terp_host *host, const char *missing)
{
    char text[128];

    snprintf(text, sizeof text, "this HDF5 cannot use connectors: no %s",
             missing);
    if (!terp_host_push(host, "vol/library.c", __func__, __LINE__,
                        "H5E_CANTINIT_g", text) &&
        terp_verbosity() != TERP_VERBOSITY_QUIET)
        fprintf(stderr, "H5Z-TERP: %s\n", text);
}

/* Whether `id` is still HDF5's own connector. After HDF5 was closed and opened
 * again, it is not. */
static bool
is_native(const struct vol_library *library, hid_t id)
{
    int value;

    return library->H5Iis_valid(id) > 0 &&
           library->H5VLget_value(id, &value) >= 0 && value == VOL_NATIVE_VALUE;
}

static const struct vol_library *
open_locked(const struct terp_host *host, const void *caller, bool says)
{
    struct vol_library library = {.base = base_of(caller)};
    struct vol_library *slot = find(library.base);
    unsigned minor, release;

    const char *missing = find_functions(host, &library);
    if (missing == NULL && slot == NULL && nlibraries == MAX_NLIBRARIES)
        missing = "space for another libhdf5";
    if (missing != NULL && says)
        say_missing(host, missing);
    if (missing != NULL)
        return NULL;
    /* HDF5 also tries connectors after it failed to open a file: keep its
     * error stack. */
    hid_t errors = library.H5Eget_current_stack();
    /* The id stays open until HDF5 closes. */
    library.native =
        library.H5get_libversion(&library.major, &minor, &release) < 0
            ? H5I_INVALID_HID
        : slot != NULL && is_native(&library, slot->native)
            ? slot->native
            : library.H5VLget_connector_id_by_value(VOL_NATIVE_VALUE);
    library.H5Eset_current_stack(errors);
    if (library.native < 0)
        return NULL;
    bool is_new = slot == NULL;
    if (is_new)
        slot = &libraries[nlibraries];
    *slot = library;
    if (is_new)
        atomic_fetch_add(&nlibraries, 1);
    return slot;
}

static const struct vol_library *
open_library(const void *caller, bool says)
{
    struct terp_host host;

    terp_host_open(caller, &host);
    pthread_mutex_lock(&opening);
    const struct vol_library *library = open_locked(&host, caller, says);
    pthread_mutex_unlock(&opening);
    terp_host_close(&host);
    return library;
}

void
vol_library_open(const void *caller)
{
    (void)open_library(caller, false);
}

const struct vol_library *
vol_library_of(const void *caller)
{
    const struct vol_library *library = find(base_of(caller));

    return library != NULL ? library : open_library(caller, true);
}

bool
vol_library_suits(const void *caller, unsigned version_ret[3])
{
    herr_t (*get_version)(unsigned *, unsigned *, unsigned *);
    void (*read_multi)(void);
    struct terp_host host;

    memset(version_ret, 0, 3 * sizeof *version_ret);
    terp_host_open(caller, &host);
    /* H5Dread_multi is new in 1.14. H5get_libversion is called only without it,
     * as it would clear HDF5's error stack, perhaps while HDF5 handles an
     * error. */
    const bool suits = terp_host_find(&host, "H5Dread_multi", &read_multi);
    if (!suits && terp_host_find(&host, "H5get_libversion", &get_version))
        get_version(&version_ret[0], &version_ret[1], &version_ret[2]);
    terp_host_close(&host);
    return suits;
}

void
vol_library_add_filter(const struct vol_library *library)
{
    hid_t errors = library->H5Eget_current_stack();

    if (library->is_parallel || library->H5Zfilter_avail(H5Z_FILTER_TERP) <= 0)
        (void)library->H5Zregister(terp_filter_class());
    library->H5Eset_current_stack(errors);
}

void
vol_library_push(const void *caller, const char *function, unsigned line,
                 const char *text)
{
    struct terp_host host;

    terp_host_open(caller, &host);
    terp_host_push(&host, "vol/info.c", function, line, "H5E_BADVALUE_g", text);
    terp_host_close(&host);
}

bool
vol_state_open(const struct vol_library *library, struct vol_state *state_ret)
{
    *state_ret = (struct vol_state){.library = library};
    return (library->H5VLstart_lib_state != NULL
                ? library->H5VLstart_lib_state()
                : library->H5VLopen_lib_context(&state_ret->context)) >= 0;
}

void
vol_state_close(const struct vol_state *state)
{
    const struct vol_library *library = state->library;

    if (library->H5VLstart_lib_state != NULL)
        library->H5VLfinish_lib_state();
    else
        library->H5VLclose_lib_context(state->context);
}

void
vol_errors_silence(const struct vol_library *library,
                   struct vol_errors *errors_ret)
{
    unsigned is_v2 = 0;

    /* H5Eget_auto2 fails if the callback is that of HDF5 1.6 (version 0). */
    library->H5Eauto_is_v2(H5E_DEFAULT, &is_v2);
    errors_ret->known =
        is_v2 && library->H5Eget_auto2(H5E_DEFAULT, &errors_ret->call,
                                       &errors_ret->data) >= 0;
    if (errors_ret->known)
        library->H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
}

void
vol_errors_restore(const struct vol_library *library,
                   const struct vol_errors *errors, bool are_kept)
{
    if (errors->known)
        library->H5Eset_auto2(H5E_DEFAULT, errors->call, errors->data);
    if (!are_kept)
        library->H5Eclear2(H5E_DEFAULT);
}
