/* Compresses datasets that a program creates, by the rules of TERP_RULES. */
#pragma once

#include "vol/object.h"

/* The arguments of H5Dcreate. */
struct vol_creation {
    const struct vol_object *parent;
    const struct vol_loc *loc;
    const char *name; /* NULL: an anonymous dataset */
    hid_t type, space, dcpl, dapl, dxpl;
};

/* If a rule of TERP_RULES applies, replaces dcpl and dapl by property lists
 * with terp's filter, and returns true; the caller then closes both with
 * vol_create_close. `caller` is the return address of the callback. */
bool
vol_create_apply(const void *caller, struct vol_creation *creation);
void
vol_create_close(const struct vol_creation *creation);

/* Prints, when verbose, that HDF5 could not create the dataset by its rule, and
 * that the dataset is created with the program's own properties. */
void
vol_create_give_up(const void *caller, const char *name);
