/* How terp starts threads within a host. */
#pragma once

#include <pthread.h>

#include "codec/format/base.h"

TERP_C_BEGIN

/* Calls run(arg) with signals blocked, and so in all threads that it starts:
 * handlers of the host run in the host's own threads, which have the stack, the
 * locks and the thread-local data that they expect. Left as they are: signals
 * that tell of an error of the thread itself, such as SIGSEGV and SIGBUS. */
void
terp_without_signals(void (*run)(void *arg), void *arg);

/* As pthread_create: a thread with signals blocked, and with a stack that
 * suffices for all that terp does, also where the system's default does not
 * (musl). */
int
terp_thread_start(pthread_t *thread_ret, void *(*run)(void *), void *arg);

TERP_C_END
