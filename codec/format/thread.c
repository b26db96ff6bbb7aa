/* Starts threads with signals blocked and with a sufficient stack. */
#define _POSIX_C_SOURCE 200809L /* pthread_sigmask */
#include "codec/format/thread.h"

#include <signal.h>

/* terp uses less than 16 KiB (h5tests/codec/test_stack.c). The rest is for the
 * host's allocator and a CUDA driver, which terp's threads also call. */
#define STACK_NBYTES ((size_t)256 << 10)

#ifndef _WIN32

/* Signals that a processor raises for an error of the thread itself. They stay
 * unblocked: a blocked one would end the process even if the host has a handler
 * that repairs or reports the error. */
static const int own_signals[] = {SIGSEGV, SIGBUS,  SIGFPE,
                                  SIGILL,  SIGTRAP, SIGSYS};

void
terp_without_signals(void (*run)(void *arg), void *arg)
{
    sigset_t blocked, host;

    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof own_signals / sizeof *own_signals; i++)
        sigdelset(&blocked, own_signals[i]);
    /* SIG_BLOCK keeps the signals blocked that the host has blocked. */
    pthread_sigmask(SIG_BLOCK, &blocked, &host);
    run(arg);
    pthread_sigmask(SIG_SETMASK, &host, NULL);
}

#else

/* Windows delivers signals to threads of its own. */
void
terp_without_signals(void (*run)(void *arg), void *arg)
{
    run(arg);
}

#endif

struct start {
    pthread_t *thread_ret;
    const pthread_attr_t *attributes;
    void *(*run)(void *);
    void *arg;
    int error;
};

static void
start_thread(void *arg)
{
    struct start *start = arg;

    start->error = pthread_create(start->thread_ret, start->attributes,
                                  start->run, start->arg);
}

int
terp_thread_start(pthread_t *thread_ret, void *(*run)(void *), void *arg)
{
    pthread_attr_t attributes;
    struct start start = {thread_ret, &attributes, run, arg, 0};
    size_t stack_nbytes;

    const int error = pthread_attr_init(&attributes);
    if (error != 0)
        return error;
    if (pthread_attr_getstacksize(&attributes, &stack_nbytes) == 0 &&
        stack_nbytes < STACK_NBYTES)
        pthread_attr_setstacksize(&attributes, STACK_NBYTES);
    terp_without_signals(start_thread, &start);
    pthread_attr_destroy(&attributes);
    return start.error;
}
