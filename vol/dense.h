/* Copies of values that batches cannot take from the program's memory: values
 * that HDF5 would convert, or with gaps between them. */
#pragma once

#include "vol/batches.h"

struct vol_dense {
    void *values;
    hid_t space;                  /* of the values, in the selection's shape */
    struct vol_transfer transfer; /* of the copy */
    uint64_t nbytes;
};

/* Copies the values of a write without gaps and in the dataset's type, if the
 * copy can go in batches and takes little memory; of any box, if `any_box`.
 * False, and nothing to free: it cannot. */
bool
vol_dense_make(const void *caller, const struct vol_transfer *transfer,
               bool any_box, uint64_t held_nbytes, struct vol_dense *dense_ret);
/* Gives a write without values the dataset's type. Otherwise HDF5 refuses a
 * collective write, whose other processes have copies in this type. */
void
vol_dense_convert_nothing(const void *caller, struct vol_transfer *transfer);

void
vol_dense_free(const struct vol_library *library, struct vol_dense *dense);
