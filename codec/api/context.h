/* Contexts inside the library; terp.h says what a context is. */
#pragma once

#include "codec/api/budget.h"
#include "codec/api/terp.h"
#include "codec/engine.h"

/* A device that a context has opened. */
struct terp_device {
    const struct terp_cuda_engine *engine;
    struct terp_cuda_device *opened;
    const char *name; /* for people; valid until the device is closed */
};

/* Whether this version knows a struct of the caller by its size. */
static inline bool
terp_size_is_known(size_t size, size_t known)
{
    return size == 0 || size == known;
}

/* Copies a caller's parameters: the struct of version 1.0 or of this version.
 * Members that the caller's struct does not have become 0. TERP_FORMAT=1 sets
 * the format where the caller sets none. Returns false if the size is that of
 * neither. */
bool
terp_params_copy(const struct terp_params *params, struct terp_params *own_ret);

/* `context`; for NULL the process's own context. */
struct terp_context *
terp_context_of(struct terp_context *context);

/* Makes a call of the CPU with `nthreads`, and begins `budget`, which must
 * outlive the call. */
struct terp_cpu_call
terp_context_cpu_call(const struct terp_context *context, int nthreads,
                      struct terp_budget *budget);

/* The context's device; the first call opens it. Returns NULL on failure, with
 * a reason that is valid as long as the context, and the status:
 * TERP_ERR_MEMORY if a later call may succeed, else TERP_ERR_DEVICE. */
const struct terp_device *
terp_context_open(struct terp_context *context, enum terp_status *st_ret,
                  const char **reason_ret);

/* Stops the use of a lost device. The first reason is kept. */
void
terp_context_lose(struct terp_context *context, const char *reason);

/* The reason why TERP_ENGINE_AUTO leaves `nbytes` of values in host memory to
 * the CPU, a static text; NULL: try the device. */
const char *
terp_context_decline(struct terp_context *context, uint64_t nbytes);
