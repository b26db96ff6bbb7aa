/* Moves whole chunks of datasets whose only filter is terp, many at once. */
#pragma once

#include "filter/h5/block.h"
#include "vol/object.h"

/* One dataset of a call of H5Dwrite or H5Dread. */
struct vol_transfer {
    struct vol_object *dataset;
    hid_t type, mem_space, file_space, dxpl;
    const void *src; /* values to write; NULL: read */
    void *dst;       /* memory for values to read; NULL: write */
    bool on_device;  /* `src` or `dst` is in device memory */
    bool is_pending; /* the program does not wait for it */
};

enum vol_moved {
    VOL_MOVED,
    VOL_LEFT,  /* the connector below must move the values */
    VOL_FAILED /* a stream could not be stored; HDF5's error stack says why */
};

/* Moves the values of a transfer, if terp can: whole chunks or every n-th
 * value, to or from a box in memory, in the dataset's own type. `caller` is the
 * return address of the callback. After VOL_LEFT some values may have been
 * moved already. */
enum vol_moved
vol_batches_move(const void *caller, const struct vol_transfer *transfer);

/* The context of a block's storage. Chunks are moved with the default transfer
 * properties, because HDF5 stores the results of a transfer in any other
 * property list. */
struct vol_storage {
    const struct vol_object *dataset;
    const struct vol_plan *plan;
};

/* The native connector's chunks, as a block's storage. */
extern const struct terp_h5_storage vol_batches_storage;

/* Uses all CPUs unless the user sets TERP_NUM_THREADS. */
void
vol_batches_choose_threads(struct terp_run_options *options);
