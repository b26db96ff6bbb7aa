/* Watches and fails the functions of HDF5 that filter/h5 calls. The linker
 * sends them here (--wrap), in the program's own objects; only what happens
 * between start and stop counts, and functions that close always succeed. */
#pragma once

#include <stdint.h>

struct h5_calls {
    uint64_t ncalls;
    int64_t nleaked;    /* ids that were made and not closed */
    const char *failed; /* the function that failed; NULL: none */
};

/* The call numbered `fail_at` (from 0) fails, without having done anything. */
void
h5_calls_start(uint64_t fail_at);

struct h5_calls
h5_calls_stop(void);
