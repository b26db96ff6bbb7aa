/* Moves whole chunks of datasets whose only filter is terp, many at once. */
#pragma once

#include "filter/h5/batch.h"
#include "vol/object.h"

/* One dataset of a call of H5Dwrite or H5Dread. */
struct vol_transfer {
    struct vol_object *dataset;
    hid_t type, mem_space, file_space, dxpl;
    const void *src; /* values to write; NULL: read */
    void *dst;       /* memory for values to read; NULL: write */
    bool on_device;  /* `src` or `dst` is in device memory */
    bool is_pending; /* the program does not wait for it */
    bool shrinks;    /* only whole chunks are moved */
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

/* Begins to encode a block ahead of HDF5, in windows: batches of enough chunks
 * for all threads or a device. The caller frees the batch, if its run is not
 * NULL, whatever the result. */
enum terp_status
vol_batches_start(const void *caller, const struct vol_transfer *transfer,
                  const struct terp_h5_block *block,
                  struct terp_run_options *options_ret, struct terp_run *run,
                  struct terp_h5_batch *batch);

/* The most bytes that the connector holds while HDF5 calls the filter: an
 * eighth of TERP_MAX_MEMORY, so that the rest is for the filter. */
uint64_t
vol_batches_held_cap(void);

/* Uses all CPUs unless the user sets TERP_NUM_THREADS. */
void
vol_batches_choose_threads(struct terp_run_options *options);
