/* Datasets that a program creates without asking for compression. */
#pragma once

#include "vol/object.h"

/* What H5Dcreate is called with. */
struct vol_creation {
    const struct vol_object *parent;
    const struct vol_loc *loc;
    const char *name; /* NULL: none yet */
    hid_t type, space, dcpl, dapl, dxpl;
};

/* Puts property lists by which terp's filter compresses the dataset into dcpl
 * and dapl, where TERP_RULES has a rule for it and it can be. True: both are to
 * be closed with vol_create_close. `caller` is in the library that has
 * called. */
bool
vol_create_apply(const void *caller, struct vol_creation *creation);
void
vol_create_close(const struct vol_creation *creation);

/* Says that a dataset is created as the program wants it, since it could not be
 * by the rule. */
void
vol_create_give_up(const void *caller, const char *name);
