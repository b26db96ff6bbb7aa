/* Chooses among the builds of the CPU engine. */
#define _GNU_SOURCE /* sched_getaffinity */
#include "codec/api/processor.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#ifdef TERP_HAS_AVX2
#include <cpuid.h>

/* XCR0 bits: the system saves the vector registers. */
#define KEPT_REGISTERS 0x6U

/* Whether the processor has the instructions for which cpu/CMakeLists.txt
 * compiles. Uses cpuid, because __builtin_cpu_supports is always false under
 * zig. */
static bool
runs_avx2(void)
{
    const unsigned needed1 = bit_OSXSAVE | bit_AVX | bit_POPCNT;
    const unsigned needed7 = bit_AVX2 | bit_BMI | bit_BMI2;
    unsigned eax, ebx, ecx, edx;

    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || (ecx & needed1) != needed1)
        return false;
    __asm__("xgetbv" : "=a"(eax), "=d"(edx) : "c"(0));
    return (eax & KEPT_REGISTERS) == KEPT_REGISTERS &&
           __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) &&
           (ebx & needed7) == needed7;
}
#endif

static const struct {
    const struct terp_engine *engine;
    bool (*runs)(void); /* NULL: on every processor */
} builds[] = {
#ifdef TERP_HAS_AVX2
    {&terp_cpu_avx2, runs_avx2},
#endif
    {&terp_cpu_baseline, NULL}};

const struct terp_engine *
terp_processor_nth_engine(size_t n)
{
    for (size_t i = 0; i < sizeof builds / sizeof *builds; i++)
        if ((builds[i].runs == NULL || builds[i].runs()) && n-- == 0)
            return builds[i].engine;
    return NULL;
}

static pthread_once_t chosen = PTHREAD_ONCE_INIT;
static const struct terp_engine *engine;
static const char *reason;

static void
choose(void)
{
    const char *name = getenv("TERP_CPU");
    const bool any = name == NULL || *name == '\0';
    const struct terp_engine *nth;

    for (size_t i = 0; (nth = terp_processor_nth_engine(i)) != NULL; i++)
        if (any || strcmp(nth->instructions, name) == 0) {
            engine = nth;
            return;
        }
    engine = terp_processor_nth_engine(0);
    reason = "TERP_CPU names no instruction set that this build has and this "
             "processor runs; the best one is used";
}

const struct terp_engine *
terp_processor_engine(void)
{
    pthread_once(&chosen, choose);
    return engine;
}

const char *
terp_processor_instructions(void)
{
    return terp_processor_engine()->instructions;
}

const char *
terp_processor_reason(void)
{
    pthread_once(&chosen, choose);
    return reason;
}

int
terp_processor_count(void)
{
#ifdef __linux__
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return CPU_COUNT(&set);
#endif
#ifdef _WIN32
    long ncpus = pthread_num_processors_np();
#else
    long ncpus = sysconf(_SC_NPROCESSORS_ONLN);
#endif
    return ncpus < 1                   ? 1
           : ncpus > TERP_MAX_NTHREADS ? TERP_MAX_NTHREADS
                                       : (int)ncpus;
}
