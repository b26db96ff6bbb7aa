/* Saves, sets and restores the registers of a thread's floating-point
 * environment. */
#include "codec/format/environment.h"

#if defined(__x86_64__)
#include <xmmintrin.h>

/* All exceptions masked, none raised, all other bits 0. */
#define DEFAULT_MXCSR 0x1F80u

/* All exceptions masked, precision of long double, rounding to nearest. terp
 * has no arithmetic on the x87 unit, but strtod and printf of glibc read the
 * rounding direction here. */
#define DEFAULT_CONTROL 0x037Fu

static uint16_t
get_control(void)
{
    uint16_t control;

    __asm__ __volatile__("fnstcw %0" : "=m"(control));
    return control;
}

static void
set_control(uint16_t control)
{
    __asm__ __volatile__("fldcw %0" : : "m"(control));
}

void
terp_environment_enter(struct terp_environment *host_ret)
{
    host_ret->mxcsr = _mm_getcsr();
    host_ret->control = get_control();
    if (host_ret->mxcsr != DEFAULT_MXCSR)
        _mm_setcsr(DEFAULT_MXCSR);
    if (host_ret->control != DEFAULT_CONTROL)
        set_control(DEFAULT_CONTROL);
}

void
terp_environment_leave(const struct terp_environment *host)
{
    _mm_setcsr(host->mxcsr);
    if (host->control != DEFAULT_CONTROL)
        set_control(host->control);
}

#elif defined(__aarch64__)

/* FPCR holds modes and traps, FPSR the exceptions raised so far. 0 is the
 * default of both. FPCR is compared first because a write costs more than a
 * read. */
void
terp_environment_enter(struct terp_environment *host_ret)
{
    __asm__ __volatile__("mrs %0, fpcr" : "=r"(host_ret->fpcr) : : "memory");
    __asm__ __volatile__("mrs %0, fpsr" : "=r"(host_ret->fpsr) : : "memory");
    if (host_ret->fpcr != 0)
        __asm__ __volatile__("msr fpcr, %0" : : "r"(UINT64_C(0)) : "memory");
}

void
terp_environment_leave(const struct terp_environment *host)
{
    __asm__ __volatile__("msr fpsr, %0" : : "r"(host->fpsr) : "memory");
    if (host->fpcr != 0)
        __asm__ __volatile__("msr fpcr, %0" : : "r"(host->fpcr) : "memory");
}

#else

void
terp_environment_enter(struct terp_environment *host_ret)
{
    fegetenv(&host_ret->fenv);
    fesetenv(FE_DFL_ENV);
}

void
terp_environment_leave(const struct terp_environment *host)
{
    fesetenv(&host->fenv);
}

#endif
