/* The values of a transfer outside of its whole chunks. Batches move the whole
 * chunks, and HDF5 moves the border. */
#pragma once

#include "vol/batches.h"

struct vol_border {
    hid_t memory, file;           /* spaces; negative: none */
    struct vol_transfer inner;    /* the whole chunks */
    struct vol_transfer transfer; /* the border */
};

/* Cuts a transfer of values without gaps in memory. False, and nothing to
 * close: it has no border, or few whole chunks. */
bool
vol_border_make(const void *caller, const struct vol_transfer *transfer,
                struct vol_border *border_ret);
void
vol_border_close(const struct vol_library *library, struct vol_border *border);
