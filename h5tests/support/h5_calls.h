/* Counts the HDF5 functions that filter/h5 calls and makes them fail. The
 * linker redirects the calls of the program's own objects here (--wrap). Only
 * calls between start and stop count. Functions that close always succeed. */
#pragma once

#include <stdint.h>

struct h5_calls {
    uint64_t ncalls;
    int64_t nleaked;    /* ids that were opened and not closed */
    const char *failed; /* the function that failed, or NULL */
};

/* Call number `fail_at` (from 0) fails without any effect. */
void
h5_calls_start(uint64_t fail_at);

struct h5_calls
h5_calls_stop(void);
