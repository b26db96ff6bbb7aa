/* The connector under ours, and the library that both are in: datasets and
 * files are HDF5's own, of any version, behind functions of which a test lets
 * one call fail; all other calls are noted. */
#pragma once

#include <stdint.h>

#include "vol/library.h"

#define FAKE_NATIVE ((hid_t)7001)  /* the connector that writes files */
#define FAKE_ANOTHER ((hid_t)7002) /* one between ours and that */
#define FAKE_MAX_NARGUMENTS 12

/* An object below: one of HDF5's, or of a call that is only noted. */
struct fake_object {
    hid_t id;
};

/* The last call that was noted. */
struct fake_call {
    const char *name;
    const void *under; /* what it was called on */
    hid_t vol;
    int narguments;
    uintptr_t arguments[FAKE_MAX_NARGUMENTS]; /* the others */
};

extern struct fake_below {
    struct vol_library library;
    /* The call numbered `fail_at` (from 0) fails, without having done
     * anything; closing never does. `fails_on`: all after it too. */
    uint64_t fail_at, ncalls;
    bool fails_on;
    const char *failed;  /* the first that did */
    int nids;            /* that were made and not closed */
    int nobjects;        /* below */
    int nstacks;         /* of errors */
    bool makes_requests; /* each call that can */
    bool is_mpi;         /* the files' driver */
    bool is_read_only;   /* files are open so */
    const void *info;    /* of a file's properties, or NULL */
    hid_t vol;           /* that properties were made with last */
    struct fake_call last;
} fake_below;

/* Fills in the library, and forgets all else. */
void
fake_below_reset(void);

/* Counts a call; whether it has to fail. */
bool
fake_below_fails(const char *name);

/* Stores one of the functions that the connector looks up for a dataset, beside
 * those of the library's table; false where `name` is another function. */
bool
fake_below_find(const char *name, void *function_ret);

/* An object below with an id that is its own from then on. */
struct fake_object *
fake_object_make(hid_t id);
