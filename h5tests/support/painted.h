/* How much stack a call takes: it runs on a thread whose stack was painted. */
#pragma once

#include <stdint.h>

/* Calls run(arg) on a thread with a stack of `nbytes`, a multiple of the pages'
 * size. Returns how many bytes below run's caller were written; ends the test
 * where there is no such thread. */
uint64_t
painted_run(void (*run)(void *arg), void *arg, uint64_t nbytes);
