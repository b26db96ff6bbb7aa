/* Threads with signals blocked, and a stack that suffices. */
#define _POSIX_C_SOURCE 200809L /* pthread_sigmask */
#include "codec/format/thread.h"

#include <signal.h>

/* Less than 16 KiB are terp's (h5tests/codec/test_stack.c); an allocator of the
 * host, and a CUDA driver, are called by these threads, too. */
#define STACK_NBYTES ((size_t)256 << 10)

#ifndef _WIN32

/* Those that a processor raises where a thread errs. Where they are blocked the
 * process ends, though the host may have a handler that mends it, or tells of
 * it. */
static const int own_signals[] = {SIGSEGV, SIGBUS,  SIGFPE,
                                  SIGILL,  SIGTRAP, SIGSYS};

void
terp_without_signals(void (*run)(void *arg), void *arg)
{
    sigset_t blocked, host;

    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof own_signals / sizeof *own_signals; i++)
        sigdelset(&blocked, own_signals[i]);
    /* SIG_BLOCK: what the host had blocked stays so. */
    pthread_sigmask(SIG_BLOCK, &blocked, &host);
    run(arg);
    pthread_sigmask(SIG_SETMASK, &host, NULL);
}

#else

/* Windows delivers them to threads of its own. */
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
