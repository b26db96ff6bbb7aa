/* Starts terp's threads in a host program. */
#pragma once

#include <pthread.h>

#include "codec/format/base.h"

TERP_C_BEGIN

/* Calls run(arg) with signals blocked; threads that run() starts inherit the
 * mask. So the host's handlers run in the host's own threads only, with the
 * stack, locks and thread-local data that they expect. Signals that report an
 * error of the thread itself, such as SIGSEGV and SIGBUS, stay unblocked. */
void
terp_without_signals(void (*run)(void *arg), void *arg);

/* Starts a thread as pthread_create does, with signals blocked and with a stack
 * that suffices for terp even where the system's default stack is too small
 * (musl). Returns 0 or an error number. */
int
terp_thread_start(pthread_t *thread_ret, void *(*run)(void *), void *arg);

TERP_C_END
