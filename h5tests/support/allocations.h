/* Watches and fails the memory that the codec asks for. The linker sends
 * calls of malloc and its relatives here (--wrap), in the codec and in the
 * test; only what happens between start and stop counts. */
#pragma once

#include <stdint.h>

struct terp_allocations {
    uint64_t ncalls;      /* that asked for memory */
    int64_t nleaked;      /* blocks taken and not given back */
    uint64_t peak_nbytes; /* most bytes held at one time */
};

/* The call numbered `fail_at` (from 0) gets NULL, and so does, always, a call
 * for more than `max_nbytes`, which counts for the peak all the same. */
void
terp_allocations_start(uint64_t fail_at, uint64_t max_nbytes);

struct terp_allocations
terp_allocations_stop(void);

/* From now on, `nthreads` calls of pthread_create succeed. */
void
terp_allocations_limit_threads(int nthreads);
