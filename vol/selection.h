/* The values that a transfer selects, in the dataset and in memory. */
#pragma once

#include "filter/h5/strided.h"
#include "vol/batches.h"

/* H5S_BLOCK of HDF5 1.14: values without gaps. The value 1 has no meaning in
 * older versions. */
#define VOL_SPACE_BLOCK ((hid_t)1)

/* H5S_PLIST: the selection is one of the transfer's properties. */
#define VOL_SPACE_PLIST ((hid_t)2)

/* A box of a dataspace's values, without gaps. */
struct vol_box {
    int rank;
    hsize_t dims[H5S_MAX_RANK], offset[H5S_MAX_RANK], count[H5S_MAX_RANK];
    uint64_t nvalues;
};

struct vol_selection {
    struct vol_box file; /* in the dataset; dims and nvalues if is_strided */
    bool is_strided;     /* every n-th value, given by `strided` */
    struct terp_h5_strided strided;
    uint64_t at;                   /* first value in memory */
    bool is_dense;                 /* no gaps in memory */
    uint64_t stride[H5S_MAX_RANK]; /* in memory, in values, unless is_dense */
};

/* Reads what a transfer selects in its dataset, whose dataspace is `space`.
 * Returns NULL, or why batches cannot move the selection. Only a read may be
 * strided. */
const char *
vol_selection_read(const struct vol_transfer *transfer, hid_t space,
                   struct vol_selection *selection_ret);

/* Whether the transfer has no values. */
bool
vol_selection_is_empty(const struct vol_transfer *transfer);

/* Copies of the spaces of a transfer, which the caller closes; `file` is that
 * of the dataset. Negative on failure. Not for H5S_PLIST. */
hid_t
vol_selection_file_space(const struct vol_transfer *transfer);
hid_t
vol_selection_memory_space(const struct vol_transfer *transfer, hid_t file);

/* The values in the smallest box around the values that are selected in a
 * dataspace. */
uint64_t
vol_selection_span(const struct vol_library *library, hid_t space);
