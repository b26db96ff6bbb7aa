/* Sets and compares a thread's floating-point environment, including the bits
 * that fenv.h does not cover. */
#define _GNU_SOURCE /* for feenableexcept */
#include "h5tests/support/environment.h"

#include <fenv.h>
#include <stdint.h>
#ifdef __x86_64__
#include <xmmintrin.h>
#endif

const char *const test_environment_name[TEST_NENVIRONMENTS] = {
    [TEST_ENVIRONMENT_DEFAULT] = "default",
    [TEST_ENVIRONMENT_FLUSH] = "flush",
    [TEST_ENVIRONMENT_UPWARD] = "upward",
    [TEST_ENVIRONMENT_DOWNWARD] = "downward",
    [TEST_ENVIRONMENT_TOWARDZERO] = "towardzero",
    [TEST_ENVIRONMENT_ERRORS] = "errors",
    [TEST_ENVIRONMENT_TRAPS] = "traps",
};

#if defined(__x86_64__)

/* Bits of MXCSR: exception flags, exception masks, the masks of errors, and the
 * two flush bits, FTZ and DAZ. */
#define FLAGS 0x003Fu
#define MASKS 0x1F80u
#define MASKS_OF_ERRORS 0x0680u
#define FLUSH 0x8040u

static bool
flushes(void)
{
    return (_mm_getcsr() & FLUSH) == FLUSH;
}

static bool
set_flush(void)
{
    _mm_setcsr(_mm_getcsr() | FLUSH);
    return true;
}

static unsigned
unmasked(enum test_environment environment)
{
    return environment == TEST_ENVIRONMENT_TRAPS    ? MASKS
           : environment == TEST_ENVIRONMENT_ERRORS ? MASKS_OF_ERRORS
                                                    : 0;
}

static bool
has_traps(enum test_environment environment)
{
    return (~_mm_getcsr() & MASKS) == unmasked(environment);
}

/* Also traps on subnormal operands, which fenv.h cannot do. */
static bool
set_traps(enum test_environment environment)
{
    _mm_setcsr(_mm_getcsr() & ~unmasked(environment));
    return true;
}

static bool
has_seen(void)
{
    return (_mm_getcsr() & FLAGS) != 0;
}

#elif defined(__aarch64__)

#define FLUSH (UINT64_C(1) << 24)

static uint64_t
get_fpcr(void)
{
    uint64_t fpcr;

    __asm__ __volatile__("mrs %0, fpcr" : "=r"(fpcr));
    return fpcr;
}

static bool
flushes(void)
{
    return (get_fpcr() & FLUSH) != 0;
}

static bool
set_flush(void)
{
    __asm__ __volatile__("msr fpcr, %0" : : "r"(get_fpcr() | FLUSH));
    return flushes();
}

/* Most processors of this architecture have no traps. */
static bool
has_traps(enum test_environment environment)
{
    return environment < TEST_ENVIRONMENT_ERRORS;
}

static bool
set_traps(enum test_environment environment)
{
    return environment < TEST_ENVIRONMENT_ERRORS;
}

static bool
has_seen(void)
{
    return fetestexcept(FE_ALL_EXCEPT) != 0;
}

#else

static bool
flushes(void)
{
    return false;
}

static bool
set_flush(void)
{
    return false;
}

#ifdef __GLIBC__
static int
traps_of(enum test_environment environment)
{
    return environment == TEST_ENVIRONMENT_TRAPS ? FE_ALL_EXCEPT
           : environment == TEST_ENVIRONMENT_ERRORS
               ? FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW
               : 0;
}

static bool
has_traps(enum test_environment environment)
{
    return fegetexcept() == traps_of(environment);
}

static bool
set_traps(enum test_environment environment)
{
    return feenableexcept(traps_of(environment)) != -1;
}
#else
static bool
has_traps(enum test_environment environment)
{
    return environment < TEST_ENVIRONMENT_ERRORS;
}

static bool
set_traps(enum test_environment environment)
{
    return environment < TEST_ENVIRONMENT_ERRORS;
}
#endif

static bool
has_seen(void)
{
    return fetestexcept(FE_ALL_EXCEPT) != 0;
}

#endif

static int
direction_of(enum test_environment environment)
{
    return environment == TEST_ENVIRONMENT_UPWARD       ? FE_UPWARD
           : environment == TEST_ENVIRONMENT_DOWNWARD   ? FE_DOWNWARD
           : environment == TEST_ENVIRONMENT_TOWARDZERO ? FE_TOWARDZERO
                                                        : FE_TONEAREST;
}

bool
test_environment_set(enum test_environment environment)
{
    fesetenv(FE_DFL_ENV);
    return fesetround(direction_of(environment)) == 0 &&
           (environment != TEST_ENVIRONMENT_FLUSH || set_flush()) &&
           set_traps(environment);
}

bool
test_environment_is(enum test_environment environment)
{
    return fegetround() == direction_of(environment) &&
           flushes() == (environment == TEST_ENVIRONMENT_FLUSH) &&
           has_traps(environment) && !has_seen();
}
