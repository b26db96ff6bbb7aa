/* Cuts a transfer into parts that take little memory. */
#pragma once

#include "vol/selection.h"

/* The values of a transfer that no part has had yet. */
struct vol_split {
    const struct vol_library *library;
    hid_t file, memory; /* selections of these values, in the same order */
    uint64_t nleft, value_nbytes;
    hsize_t chunk_length; /* along the first dimension; 1: no chunks */
};

/* A part of a transfer. Its values lie among the `nvalues` values of memory
 * from value `at` on; all others of them are gaps. */
struct vol_part {
    hid_t file, memory; /* spaces of the dataset and of the whole memory */
    uint64_t at, nvalues;
};

/* False where the transfer cannot be cut: its values are points, which have any
 * order, H5Soffset_simple moved a selection, or HDF5 does not tell which values
 * they are. Close the split otherwise. */
bool
vol_split_open(const struct vol_transfer *transfer,
               struct vol_split *split_ret);
void
vol_split_close(struct vol_split *split);

/* Takes the next part, of at most `cap_nbytes` of memory, but at least one
 * value. Parts end between chunks where the limit allows. False on failure;
 * close the part otherwise. */
bool
vol_split_next(struct vol_split *split, uint64_t cap_nbytes,
               struct vol_part *part_ret);
void
vol_part_close(const struct vol_split *split, const struct vol_part *part);
