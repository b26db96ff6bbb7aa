/* Values in device memory, which HDF5 itself can neither read nor write. Only
 * for programs with TERP_ENGINE=cuda or auto. Failures leave an error on HDF5's
 * stack. */
#pragma once

#include "vol/batches.h"

/* Whether `values` is in device memory. */
bool
vol_device_has(const void *caller, const void *values);

/* A copy on the host, for the connector below. */
struct vol_staged {
    void *values; /* NULL: there is none */
    void *device; /* destination of values to read; NULL: write */
    uint64_t nbytes;
};

/* Whether a copy of the transfer's memory, beside copies of `held_nbytes`, is
 * small (vol_batches_held_cap). */
bool
vol_device_fits(const struct vol_transfer *transfer, uint64_t held_nbytes);

/* Lets the connector below move the transfer in parts whose copies are small.
 * VOL_LEFT: it cannot be cut. */
enum vol_moved
vol_device_move_parts(const void *caller, const struct vol_transfer *transfer);

/* Copies a transfer's memory to the host; before a read, too, because the
 * selected values may leave gaps. False, and nothing to free, on failure. */
bool
vol_device_stage(const void *caller, const struct vol_transfer *transfer,
                 struct vol_staged *staged_ret);

/* Frees the copy. If `is_done`, first copies values that were read to the
 * device; false if the copy fails. */
bool
vol_device_unstage(const void *caller, bool is_done, struct vol_staged *staged);
