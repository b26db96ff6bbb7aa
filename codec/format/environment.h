/* The floating-point environment. A host may flush subnormal numbers to zero,
 * round in another direction or trap on exceptions: streams must not depend on
 * it, and the host must not find what terp's arithmetic leaves in it.
 *
 * This is the only guard. It is set where a call begins: by each function of
 * the API that reads or compares floating-point numbers, and by each thread of
 * terp. What lies below relies on it and sets nothing. Functions of HDF5 are
 * called outside, because the host's environment belongs to them. */
#pragma once

#include "codec/format/base.h"

#if !defined(__x86_64__) && !defined(__aarch64__)
#include <fenv.h>
#endif

TERP_C_BEGIN

/* What a host has set, with the exceptions that it has seen. */
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

/* Gives the thread the default environment of IEEE 754: rounding to nearest,
 * subnormal numbers, no traps. */
void
terp_environment_enter(struct terp_environment *host_ret);

/* Gives the thread back what it had. */
void
terp_environment_leave(const struct terp_environment *host);

/* What a function does between the two stands in another one that is marked so:
 * the compiler moves arithmetic of the function itself across the calls. */
#define TERP_GUARDED static __attribute__((noinline))

TERP_C_END
