/* How terp codes a dataset, and the chunks of a transfer. */
#pragma once

#include "filter/dcpl.h"
#include "filter/h5/block.h"
#include "vol/selection.h"

/* How terp moves a dataset's values, while the dataset is open. */
struct vol_plan {
    const char *reason; /* why HDF5 moves every transfer; NULL: it need not */
    bool may_write;     /* its file is open for writing */
    bool is_virtual;    /* its values are those of other datasets */
    hid_t type;         /* of the dataset; stays open as long as it */
    hid_t dxpl;         /* HDF5's default transfer properties */
    hsize_t chunk[H5S_MAX_RANK];
    int rank;
    struct terp_cd cd;
    uint8_t pad[TERP_DCPL_PAD_NBYTES];
};

/* The plan of a transfer's dataset, which keeps it; NULL: HDF5 moves the
 * transfer. `caller` is the return address of the callback. */
const struct vol_plan *
vol_plan_of(const void *caller, const struct vol_transfer *transfer);

/* The same for any transfer of the dataset, even one of few values. Of
 * processes that have a file open together, all or none get a plan, unless HDF5
 * fails in one of them, or memory is short. */
const struct vol_plan *
vol_plan_of_dataset(const void *caller, struct vol_object *dataset, hid_t dxpl);

/* Makes the plan of a dataset that was just opened, if the processes of its
 * file read metadata together: they open it together, but may not transfer
 * values together. Such a dataset gets no plan later. */
void
vol_plan_begin(const void *caller, struct vol_object *dataset, hid_t dxpl);

/* The pending operations that a transfer of a dataset may see. */
enum vol_sight {
    VOL_SEES_NOTHING, /* terp moves no transfer of the dataset */
    VOL_SEES_FILE,    /* operations of the dataset's file */
    VOL_SEES_ALL      /* of all files: the dataset is virtual */
};

enum vol_sight
vol_plan_sight(const void *caller, struct vol_object *dataset, hid_t dxpl);

/* Reads what a transfer selects. Returns NULL, or why HDF5 moves the values. */
const char *
vol_plan_selection(const struct vol_plan *plan,
                   const struct vol_transfer *transfer,
                   struct vol_selection *selection_ret);

/* Describes a transfer's chunks, or every n-th value of them, in all members of
 * `block` but `storage` and `context`. Returns NULL, or why HDF5 moves the
 * values. With `shrinks`, the block has the whole chunks of a selection that
 * also has parts of chunks. selection->at is the place of the block's first
 * value in memory. */
const char *
vol_plan_block(const struct vol_plan *plan, const struct vol_transfer *transfer,
               bool shrinks, struct terp_h5_block *block,
               struct vol_selection *selection);
