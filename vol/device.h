/* Values in the memory of a GPU, which HDF5 itself can neither read nor write:
 * of a program that has TERP_ENGINE=cuda or auto. */
#pragma once

#include "vol/batches.h"

/* Whether they are there. */
bool
vol_device_has(const void *caller, const void *values);

/* A copy of them on the host, for what goes down. */
struct vol_staged {
    void *values; /* NULL: there is none */
    void *device; /* where they are read; NULL: they are written */
    uint64_t nbytes;
};

/* Copies the values of a transfer to the host, also those that are to be read:
 * memory may have gaps. False, and nothing to free, where that fails. */
bool
vol_device_stage(const void *caller, const struct vol_transfer *transfer,
                 struct vol_staged *staged_ret);

/* Ends it, and gives values back that were read where `is_done`. False where
 * that fails. */
bool
vol_device_unstage(const void *caller, bool is_done, struct vol_staged *staged);
