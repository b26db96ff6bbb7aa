/* A fake connector below terp's, and the fake library of both. Datasets and
 * files are HDF5's own, of any version, behind functions that a test can make
 * fail. All other calls are only recorded. */
#pragma once

#include <stdint.h>

#include "vol/library.h"

/* The number of the only file. */
#define FAKE_FILENO 5UL
#define FAKE_NATIVE ((hid_t)7001)  /* the connector that writes files */
#define FAKE_ANOTHER ((hid_t)7002) /* one between terp's and that one */
#define FAKE_STACK ((hid_t)1)      /* every error stack */
#define FAKE_MAX_NARGUMENTS 12

/* An object below: one of HDF5's, or the result of a recorded call. */
struct fake_object {
    hid_t id;
};

/* The last recorded call. */
struct fake_call {
    const char *name;
    const void *under; /* the object of the call */
    hid_t vol;
    int narguments;
    uintptr_t arguments[FAKE_MAX_NARGUMENTS]; /* the other arguments */
};

extern struct fake_below {
    struct vol_library library;
    /* Call number `fail_at` (from 0) fails without any effect; closing never
     * fails. `fails_on`: all later calls fail too. */
    uint64_t fail_at, ncalls;
    bool fails_on;
    const char *failed;  /* the first call that failed */
    int nids;            /* ids that were opened and not closed */
    int nobjects;        /* objects below */
    int nstacks;         /* error stacks not closed */
    bool makes_requests; /* each call that can, does */
    bool is_mpi;         /* of the files' driver */
    bool is_read_only;   /* of open files */
    const void *info;    /* info in a file's properties, or NULL */
    hid_t vol;           /* connector of the last properties */
    struct fake_call last;
    int nmoves; /* calls of H5VLdataset_write and H5VLdataset_read */
} fake_below;

/* Fills in the library's table, and resets everything else. */
void
fake_below_reset(void);

/* Counts a call. Returns whether it must fail. */
bool
fake_below_fails(const char *name);

/* Finds a function that the connector looks up for datasets, beside those of
 * the library's table. Returns false for other names. */
bool
fake_below_find(const char *name, void *function_ret);

/* An object below that takes over an id. */
struct fake_object *
fake_object_make(hid_t id);
