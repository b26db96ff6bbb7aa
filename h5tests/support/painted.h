/* Measures the stack that a call takes, on a thread whose stack has a
 * pattern. */
#pragma once

#include <stdint.h>

/* Calls run(arg) on a thread with a stack of `nbytes`, a multiple of the page
 * size. Returns how many bytes below the frame of run's caller were written.
 * Fails the test if the thread cannot start. */
uint64_t
painted_run(void (*run)(void *arg), void *arg, uint64_t nbytes);
