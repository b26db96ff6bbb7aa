/* Whole chunks of datasets whose only filter is terp, many at once. */
#pragma once

#include "vol/object.h"

/* One dataset of a call of H5Dwrite or H5Dread. */
struct vol_transfer {
    struct vol_object *dataset;
    hid_t type, mem_space, file_space, dxpl;
    const void *src; /* where the values are to be written, or */
    void *dst;       /* where they are to be read */
    bool on_device;  /* these are in the memory of a GPU */
};

enum vol_moved {
    VOL_MOVED,
    VOL_LEFT,  /* not all, if any: the connector under this one has to do it */
    VOL_FAILED /* a stream could not be stored, and HDF5's stack says why */
};

/* Moves the values, where that can be done here: a selection of whole chunks,
 * in memory a box too and of the dataset's own type. `caller` is in the library
 * that has called. */
enum vol_moved
vol_batches_move(const void *caller, const struct vol_transfer *transfer);
