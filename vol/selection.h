/* Which values of a dataset a call means, and where in memory these are. */
#pragma once

#include "filter/h5/strided.h"
#include "vol/batches.h"

/* H5S_BLOCK of HDF5 1.14, which has replaced no older value: values without
 * gaps. */
#define VOL_SPACE_BLOCK ((hid_t)1)

/* H5S_PLIST: the selection is one of the transfer's properties. */
#define VOL_SPACE_PLIST ((hid_t)2)

/* A box of a space's values, without gaps between them. */
struct vol_box {
    int rank;
    hsize_t dims[H5S_MAX_RANK], offset[H5S_MAX_RANK], count[H5S_MAX_RANK];
    uint64_t nvalues;
};

struct vol_selection {
    struct vol_box file;
    bool is_strided; /* no box of the file's values, but these: */
    struct terp_h5_strided strided;
    uint64_t at;   /* in memory, where the values begin */
    bool is_dense; /* there, without gaps; or a box's are so many apart: */
    uint64_t stride[H5S_MAX_RANK];
};

/* What a transfer selects in its dataset, whose dataspace is `space`; or why
 * that is nothing for batches. Only what is read may be strided. */
const char *
vol_selection_read(const struct vol_transfer *transfer, hid_t space,
                   struct vol_selection *selection_ret);

/* Values between the first and the last one that is selected in a space, these
 * included. */
uint64_t
vol_selection_span(const struct vol_library *library, hid_t space);
