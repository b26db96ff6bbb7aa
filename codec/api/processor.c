/* The choice among the CPU engine's tables. */
#include "codec/api/processor.h"

#include <pthread.h>
#include <string.h>

/* What a processor must have is what cpu/CMakeLists.txt compiles for. */
#ifdef TERP_HAS_AVX2
static bool
runs_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
           __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt");
}
#endif

static const struct {
    const struct terp_cpu_engine *engine;
    bool (*runs)(void); /* NULL: every processor does */
} builds[] = {
#ifdef TERP_HAS_AVX2
    {&terp_cpu_avx2, runs_avx2},
#endif
    {&terp_cpu_baseline, NULL}};

const struct terp_cpu_engine *
terp_processor_nth_engine(size_t n)
{
    for (size_t i = 0; i < sizeof builds / sizeof *builds; i++)
        if ((builds[i].runs == NULL || builds[i].runs()) && n-- == 0)
            return builds[i].engine;
    return NULL;
}

static pthread_once_t chosen = PTHREAD_ONCE_INIT;
static const struct terp_cpu_engine *engine;
static const char *reason;

static void
choose(void)
{
    const char *name = getenv("TERP_CPU");
    const bool any = name == NULL || *name == '\0';
    const struct terp_cpu_engine *nth;

    for (size_t i = 0; (nth = terp_processor_nth_engine(i)) != NULL; i++)
        if (any || strcmp(nth->instructions, name) == 0) {
            engine = nth;
            return;
        }
    engine = terp_processor_nth_engine(0);
    reason =
        "TERP_CPU names nothing that this processor and this build have; the "
        "best is used";
}

const struct terp_cpu_engine *
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
