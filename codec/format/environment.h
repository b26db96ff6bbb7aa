/* The floating-point environment. A host program may flush subnormal numbers to
 * zero, round in another direction or trap on exceptions. Streams must not
 * depend on that environment, and terp must not change it.
 *
 * This is the only guard. Each function of the API that reads or compares
 * floating-point numbers enters it, and so does each thread of terp. Code below
 * them relies on it and sets nothing. Calls of HDF5 stay outside the guard,
 * because HDF5 expects the host's environment. */
#pragma once

#include "codec/format/base.h"

#if !defined(__x86_64__) && !defined(__aarch64__)
#include <fenv.h>
#endif

TERP_C_BEGIN

/* The host's modes, and the exceptions raised so far. */
struct terp_environment {
#if defined(__x86_64__)
    uint32_t mxcsr;
    uint16_t control; /* of the x87 unit */
#elif defined(__aarch64__)
    uint64_t fpcr, fpsr;
#else
    fenv_t fenv;
#endif
};

/* Saves the thread's environment and sets the default of IEEE 754: rounding to
 * nearest, subnormal numbers, no traps. */
void
terp_environment_enter(struct terp_environment *host_ret);

/* Restores the saved environment. */
void
terp_environment_leave(const struct terp_environment *host);

/* Marks a function that runs between enter and leave. It is separate and never
 * inlined, because the compiler moves arithmetic across the two calls. */
#define TERP_GUARDED static __attribute__((noinline))

TERP_C_END
