/* What calls share, within the library: terp.h tells what a context is. */
#pragma once

#include "codec/api/budget.h"
#include "codec/api/terp.h"
#include "codec/engine.h"

/* A device that a context has opened. */
struct terp_device {
    const struct terp_cuda_engine *engine;
    struct terp_cuda_device *opened;
    const char *name; /* for people, until it is closed */
};

/* Whether a caller's struct is one that this version knows. */
static inline bool
terp_size_is_known(size_t size, size_t known)
{
    return size == 0 || size == known;
}

/* Copies a caller's parameters, of the struct of version 1.0 or of this one:
 * members that the caller's struct does not have are 0. False: of neither. */
bool
terp_params_copy(const struct terp_params *params, struct terp_params *own_ret);

/* `context`, or for NULL the process's own. */
struct terp_context *
terp_context_of(struct terp_context *context);

/* A call of the CPU that asks for `nthreads`, and begins `budget`, which
 * outlives it. */
struct terp_cpu_call
terp_context_cpu_call(const struct terp_context *context, int nthreads,
                      struct terp_budget *budget);

/* The context's device, which the first call opens; or NULL with the reason, a
 * text that is valid as long as the context, and the status: TERP_ERR_MEMORY
 * where a later call may succeed, else TERP_ERR_DEVICE. */
const struct terp_device *
terp_context_open(struct terp_context *context, enum terp_status *st_ret,
                  const char **reason_ret);

/* Ends the use of a device that is lost. The first reason is kept. */
void
terp_context_lose(struct terp_context *context, const char *reason);

/* Why TERP_ENGINE_AUTO leaves `nbytes` of values on the host to the CPU, a
 * static text; NULL where the device should be tried. */
const char *
terp_context_decline(struct terp_context *context, uint64_t nbytes);
