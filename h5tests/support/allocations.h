/* Counts the codec's allocations and makes them fail. The linker redirects
 * malloc and its relatives here (--wrap), in the codec and in the test. Only
 * calls between start and stop count. */
#pragma once

#include <stdint.h>

struct terp_allocations {
    uint64_t ncalls;      /* calls that allocate memory */
    int64_t nleaked;      /* blocks allocated and not freed */
    uint64_t peak_nbytes; /* most bytes held at one time */
};

/* Call number `fail_at` (from 0) returns NULL. Each call for more than
 * `max_nbytes` also returns NULL, but still counts for the peak. */
void
terp_allocations_start(uint64_t fail_at, uint64_t max_nbytes);

struct terp_allocations
terp_allocations_stop(void);

/* From now on, only `nthreads` calls of pthread_create succeed. */
void
terp_allocations_limit_threads(int nthreads);
