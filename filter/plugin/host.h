/* One HDF5 library, whose functions are called by name.
 *
 * A process may hold several libhdf5, some with every symbol renamed. So the
 * plugin is linked to none of them: host.c finds the library that called the
 * plugin, again in each call. Programs that are linked to an HDF5 have
 * linked_host.c instead. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Only for types and constants: a macro such as H5E_PLINE calls H5open. */
#include <hdf5.h>

struct terp_host {
    void *module;     /* dlopen handle; NULL: none */
    bool is_program;  /* HDF5 is linked into the program itself */
    const char *path; /* the module's file, as the loader names it */
};

/* Finds the library that holds `caller`, the return address of a callback.
 * Never fails: where no library is found, no function of it is found later. */
void
terp_host_open(const void *caller, struct terp_host *host_ret);

void
terp_host_close(struct terp_host *host);

/* Stores the address of the function `name` ("H5...") in `*function_ret`, which
 * must be a pointer to a function of its type. False, and NULL, when the
 * library has no such function. */
bool
terp_host_find(const struct terp_host *host, const char *name,
               void *function_ret);

/* Whether the loader finds the function, which takes little time. A program
 * that holds HDF5 itself may export none of it; each search then reads the
 * program's file (program.h). */
bool
terp_host_exports(const struct terp_host *host, const char *name);

/* Stores the id that HDF5 keeps in `variable`, such as "H5T_IEEE_F32LE_g".
 * False when there is no such variable, or HDF5 has not set it. */
bool
terp_host_find_id(const struct terp_host *host, const char *variable,
                  hid_t *id_ret);

/* The filter's class for H5Zregister (h5z_terp.c). */
const void *
terp_filter_class(void);

/* Memory that the plugin and HDF5 may hand to each other. */
void *
terp_host_allocate(const struct terp_host *host, size_t nbytes);

void
terp_host_release(const struct terp_host *host, void *memory);

/* Puts `text` on HDF5's error stack. `minor` is the variable of the minor
 * error, such as "H5E_CANTFILTER_g". Returns whether HDF5 will print the text:
 * false where the program has switched printing off, or where the text could
 * not be put there. HDF5 1.14.5 to 2.0 pauses the stack in each call of a
 * filter, 2.2 where the reader has set a callback for failures; the text then
 * replaces the stack. */
bool
terp_host_push(const struct terp_host *host, const char *file,
               const char *function, unsigned line, const char *minor,
               const char *text);
