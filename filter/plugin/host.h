/* The HDF5 library that called the plugin, found anew in every call.
 *
 * A process may hold several libhdf5, some with every symbol renamed, so the
 * plugin is linked to none. It asks the module that its caller lies in, and
 * keeps nothing from call to call. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Only types and constants: a macro such as H5E_PLINE calls H5open. */
#include <hdf5.h>

struct terp_host {
    void *module;     /* dlopen handle, NULL where there is none */
    bool is_program;  /* HDF5 is linked into the program itself */
    const char *path; /* the module's file, as the loader knows it */
};

/* `caller` is the return address of a callback. Never fails: in a host that
 * cannot be found no function is found. */
void
terp_host_open(const void *caller, struct terp_host *host_ret);

void
terp_host_close(struct terp_host *host);

/* Stores the address of the function `name` ("H5...") in `*function_ret`, a
 * pointer to that kind of function; false, and NULL, when there is none. */
bool
terp_host_find(const struct terp_host *host, const char *name,
               void *function_ret);

/* Whether the loader knows the function, so that it is found in no time: a
 * program that holds HDF5 itself may export none. */
bool
terp_host_exports(const struct terp_host *host, const char *name);

/* Stores the id that HDF5 keeps in `variable`, such as "H5T_IEEE_F32LE_g";
 * false when there is no such variable, or HDF5 has not set it. */
bool
terp_host_find_id(const struct terp_host *host, const char *variable,
                  hid_t *id_ret);

/* The filter, as H5Zregister takes it (h5z_terp.c). */
const void *
terp_filter_class(void);

/* Memory that may change hands between the plugin and HDF5. */
void *
terp_host_allocate(const struct terp_host *host, size_t nbytes);

void
terp_host_release(const struct terp_host *host, void *memory);

/* Puts `text` on HDF5's error stack, as the minor error that the variable
 * `minor` holds, such as "H5E_CANTFILTER_g". Returns whether HDF5 will print
 * it: not where the program has switched that off, and not where HDF5 drops it.
 * HDF5 1.14.5 to 2.0 does so in each call of a filter, 2.2 where the reader has
 * set a callback for failures; the stack is paused then, and does not grow. */
bool
terp_host_push(const struct terp_host *host, const char *file,
               const char *function, unsigned line, const char *minor,
               const char *text);
