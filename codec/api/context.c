/* Contexts: options that calls share, and the device that they open. */
#include "codec/api/context.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "codec/api/loader.h"
#include "codec/api/processor.h"
#include "codec/format/thread.h"

#define MAX_REASON_NBYTES 256

/* AUTO opens the device only after it would have coded this many bytes: about
 * what one CPU thread codes in the 0.2 s that opening a device takes. So a
 * program that reads a few chunks never waits for the driver. */
#define OPEN_NBYTES (UINT64_C(64) << 20)

enum device_state {
    DEVICE_UNTRIED,
    DEVICE_OPEN,
    DEVICE_LOST /* or opening it failed */
};

struct terp_context {
    struct terp_context_options options;
    struct terp_allocator allocator;
    struct terp_reserve reserve;
    atomic_uint_fast64_t declined_nbytes;
    /* The state is read without the lock. The members that belong to a state
     * are written before the state and do not change afterwards. */
    pthread_mutex_t lock;
    atomic_int state;
    struct terp_device device;
    char reason[MAX_REASON_NBYTES];
};

/* The process's own context. */
static struct terp_context standard = {
    .options = {.device = -1, .reserve_limit_nbytes = TERP_RESERVE_NBYTES},
    .allocator = {.reserve = &standard.reserve},
    .reserve = {.lock = PTHREAD_MUTEX_INITIALIZER,
                .limit_nbytes = TERP_RESERVE_NBYTES},
    .lock = PTHREAD_MUTEX_INITIALIZER};

enum terp_status
terp_context_make(const struct terp_context_options *options,
                  struct terp_context **context_ret)
{
    if (options == NULL)
        options = &standard.options;
    if (!terp_size_is_known(options->size, sizeof *options) ||
        options->nthreads < 0 || options->device < -1 ||
        (options->allocate == NULL) != (options->release == NULL))
        return TERP_ERR_ARGUMENT;
    struct terp_context *context = calloc(1, sizeof *context);
    if (context == NULL)
        return TERP_ERR_MEMORY;
    context->options = *options;
    context->allocator = (struct terp_allocator){.allocate = options->allocate,
                                                 .release = options->release,
                                                 .arg = options->allocator_arg,
                                                 .reserve = &context->reserve};
    context->reserve.limit_nbytes = options->reserve_limit_nbytes;
    pthread_mutex_init(&context->reserve.lock, NULL);
    pthread_mutex_init(&context->lock, NULL);
    *context_ret = context;
    return TERP_OK;
}

/* Whether the device may be used. In a forked child, and when the process ends,
 * it must not. */
static bool
device_is_ours(const struct terp_context *context)
{
    return context->device.opened != NULL && terp_cuda_ended() == NULL;
}

void
terp_context_trim(struct terp_context *context)
{
    context = terp_context_of(context);
    if (atomic_load(&context->state) == DEVICE_OPEN && device_is_ours(context))
        context->device.engine->trim(context->device.opened);
    terp_cpu_reserve_trim(&context->reserve);
}

void
terp_context_destroy(struct terp_context *context)
{
    if (context == NULL)
        return;
    if (device_is_ours(context))
        context->device.engine->close(context->device.opened);
    terp_cpu_reserve_trim(&context->reserve);
    pthread_mutex_destroy(&context->reserve.lock);
    pthread_mutex_destroy(&context->lock);
    free(context);
}

struct terp_context *
terp_context_of(struct terp_context *context)
{
    return context != NULL ? context : &standard;
}

struct terp_cpu_call
terp_context_cpu_call(const struct terp_context *context, int nthreads,
                      struct terp_budget *budget)
{
    if (nthreads == 0)
        nthreads = context->options.nthreads;
    return (struct terp_cpu_call){
        terp_processor_engine(), nthreads == 0 ? 1 : nthreads,
        terp_budget_begin(budget, &context->allocator)};
}

/* The lock must be held. */
static void
give_up(struct terp_context *context, const char *reason)
{
    snprintf(context->reason, sizeof context->reason, "%s", reason);
    atomic_store(&context->state, DEVICE_LOST);
}

/* The lock must be held and the state be DEVICE_UNTRIED. If memory is short,
 * the state stays, so that a later call tries again. */
static enum terp_status
open_device(struct terp_context *context)
{
    const struct terp_cuda_options options = {
        context->options.device, context->options.device_memory_limit_nbytes};
    struct terp_device device = {.engine = NULL};
    const char *reason;

    device.engine = terp_cuda_load(&reason);
    if (device.engine == NULL) {
        give_up(context, reason);
        return TERP_ERR_DEVICE;
    }
    enum terp_status st =
        device.engine->open(&options, &device.opened, &device.name, &reason);
    if (st == TERP_ERR_MEMORY)
        return st;
    if (st != TERP_OK) {
        give_up(context, reason);
        return TERP_ERR_DEVICE;
    }
    context->device = device;
    if (terp_cuda_end_at_exit())
        atomic_store(&context->state, DEVICE_OPEN);
    else
        give_up(context, "the process is ending");
    return TERP_OK;
}

struct opening {
    struct terp_context *context;
    enum terp_status st;
};

static void
open_for(void *arg)
{
    struct opening *opening = arg;

    opening->st = open_device(opening->context);
}

/* The driver starts threads; like terp's own, they get no signals. */
static enum terp_status
try_to_open(struct terp_context *context)
{
    struct opening opening = {context, TERP_ERR_DEVICE};

    terp_without_signals(open_for, &opening);
    return opening.st;
}

const struct terp_device *
terp_context_open(struct terp_context *context, enum terp_status *st_ret,
                  const char **reason_ret)
{
    enum terp_status st = TERP_ERR_DEVICE;

    *reason_ret = terp_cuda_ended();
    if (*reason_ret == NULL && atomic_load(&context->state) == DEVICE_UNTRIED) {
        pthread_mutex_lock(&context->lock);
        if (atomic_load(&context->state) == DEVICE_UNTRIED)
            st = try_to_open(context);
        pthread_mutex_unlock(&context->lock);
    }
    int state = atomic_load(&context->state);
    if (*reason_ret == NULL && state == DEVICE_OPEN) {
        *st_ret = TERP_OK;
        return &context->device;
    }
    if (*reason_ret == NULL)
        *reason_ret = state == DEVICE_LOST
                          ? context->reason
                          : "the device has too little memory left to open it";
    *st_ret = state == DEVICE_LOST ? TERP_ERR_DEVICE : st;
    return NULL;
}

void
terp_context_lose(struct terp_context *context, const char *reason)
{
    pthread_mutex_lock(&context->lock);
    if (atomic_load(&context->state) == DEVICE_OPEN)
        give_up(context, reason);
    pthread_mutex_unlock(&context->lock);
}

const char *
terp_context_decline(struct terp_context *context, uint64_t nbytes)
{
    if (nbytes < TERP_AUTO_MIN_NBYTES)
        return "the CPU is faster for so few bytes";
    if (atomic_load(&context->state) == DEVICE_UNTRIED &&
        atomic_fetch_add(&context->declined_nbytes, nbytes) + nbytes <
            OPEN_NBYTES)
        return "too little was coded so far to be worth opening the device";
    return NULL;
}
