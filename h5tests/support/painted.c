/* Fills a stack with a pattern, and finds how far down it was overwritten. */
#define _DEFAULT_SOURCE /* for MAP_ANONYMOUS */
#include "h5tests/support/painted.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "h5tests/support/cmocka_all.h"

#define PAINT 0xA7

struct painted {
    void (*run)(void *arg);
    void *arg;
    uint8_t *lowest; /* lowest address of the stack */
    uint64_t depth_nbytes;
};

/* The address of run's frame, or a little above. */
static __attribute__((noinline)) void
run_painted(struct painted *painted)
{
    const uint8_t *own = __builtin_frame_address(0);
    const uint8_t *at = painted->lowest;

    painted->run(painted->arg);
    while (*at == PAINT)
        at++;
    painted->depth_nbytes = own > at ? (uint64_t)(own - at) : 0;
}

static void *
work(void *arg)
{
    run_painted(arg);
    return NULL;
}

uint64_t
painted_run(void (*run)(void *arg), void *arg, uint64_t nbytes)
{
    struct painted painted = {run, arg, NULL, 0};
    pthread_attr_t attributes;
    pthread_t thread;

    void *stack = mmap(NULL, nbytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(stack != MAP_FAILED);
    memset(stack, PAINT, nbytes);
    painted.lowest = stack;
    assert_int_equal(pthread_attr_init(&attributes), 0);
    assert_int_equal(pthread_attr_setstack(&attributes, stack, nbytes), 0);
    assert_int_equal(pthread_create(&thread, &attributes, work, &painted), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&attributes);
    munmap(stack, nbytes);
    return painted.depth_nbytes;
}
