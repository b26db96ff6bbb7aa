/* Counts allocations and makes them fail; the linker redirects the calls
 * here. */
#include "h5tests/support/allocations.h"

#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

/* The linker's --wrap gives these names. __real names are the C library's. */
void *__real_malloc(size_t);
void *__real_calloc(size_t, size_t);
void *
__real_realloc(void *, size_t);
void *__real_aligned_alloc(size_t, size_t);
int
__real_posix_memalign(void **, size_t, size_t);
void
__real_free(void *);
int
__real_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *),
                      void *);
void *__wrap_malloc(size_t);
void *__wrap_calloc(size_t, size_t);
void *
__wrap_realloc(void *, size_t);
void *__wrap_aligned_alloc(size_t, size_t);
int
__wrap_posix_memalign(void **, size_t, size_t);
void
__wrap_free(void *);
int
__wrap_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *),
                      void *);

static atomic_bool counting;
static uint64_t fail_call, max_request_nbytes;
static atomic_uint_fast64_t ncalls, nheld_bytes, peak_nbytes;
static atomic_int_fast64_t nblocks;
static atomic_int nthreads_left = INT_MAX;

static void
raise_peak(uint64_t nbytes)
{
    uint_fast64_t peak = peak_nbytes;
    while (nbytes > peak &&
           !atomic_compare_exchange_weak(&peak_nbytes, &peak, nbytes))
        ;
}

static bool
must_fail(size_t nbytes)
{
    if (!counting)
        return false;
    if (nbytes > max_request_nbytes) {
        raise_peak(nbytes);
        return true;
    }
    return atomic_fetch_add(&ncalls, 1) == fail_call;
}

static void *
taken(void *block)
{
    if (counting && block != NULL) {
        uint64_t nbytes = malloc_usable_size(block);
        raise_peak(atomic_fetch_add(&nheld_bytes, nbytes) + nbytes);
        nblocks++;
    }
    return block;
}

static void
given_back(void *block)
{
    if (counting && block != NULL) {
        nheld_bytes -= malloc_usable_size(block);
        nblocks--;
    }
}

void *
__wrap_malloc(size_t nbytes)
{
    return must_fail(nbytes) ? NULL : taken(__real_malloc(nbytes));
}

void *
__wrap_calloc(size_t n, size_t nbytes)
{
    size_t all = nbytes != 0 && n > SIZE_MAX / nbytes ? SIZE_MAX : n * nbytes;
    return must_fail(all) ? NULL : taken(__real_calloc(n, nbytes));
}

void *
__wrap_realloc(void *block, size_t nbytes)
{
    if (must_fail(nbytes))
        return NULL;
    given_back(block);
    return taken(__real_realloc(block, nbytes));
}

void *
__wrap_aligned_alloc(size_t alignment, size_t nbytes)
{
    return must_fail(nbytes) ? NULL
                             : taken(__real_aligned_alloc(alignment, nbytes));
}

int
__wrap_posix_memalign(void **block_ret, size_t alignment, size_t nbytes)
{
    if (must_fail(nbytes))
        return ENOMEM;
    int error = __real_posix_memalign(block_ret, alignment, nbytes);
    if (error == 0)
        taken(*block_ret);
    return error;
}

void
__wrap_free(void *block)
{
    given_back(block);
    __real_free(block);
}

int
__wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                      void *(*start)(void *), void *arg)
{
    if (atomic_fetch_sub(&nthreads_left, 1) <= 0) {
        nthreads_left = 0;
        return EAGAIN;
    }
    return __real_pthread_create(thread, attributes, start, arg);
}

void
terp_allocations_start(uint64_t fail_at, uint64_t max_nbytes)
{
    fail_call = fail_at;
    max_request_nbytes = max_nbytes;
    ncalls = 0;
    nheld_bytes = 0;
    peak_nbytes = 0;
    nblocks = 0;
    counting = true;
}

struct terp_allocations
terp_allocations_stop(void)
{
    counting = false;
    return (struct terp_allocations){ncalls, nblocks, peak_nbytes};
}

void
terp_allocations_limit_threads(int nthreads)
{
    nthreads_left = nthreads;
}
