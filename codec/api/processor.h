/* The builds of the CPU engine that the processor can run, and the number of
 * processors. */
#pragma once

#include "codec/engine.h"

/* The process's engine: the best that the processor can run, or the one that
 * the variable TERP_CPU names. The first call chooses it; any thread may
 * call. */
const struct terp_engine *
terp_processor_engine(void);

/* The reason why TERP_CPU was ignored; NULL: it was used, or is not set. */
const char *
terp_processor_reason(void);

/* The name of the process's engine. */
const char *
terp_processor_instructions(void);

/* The n-th engine of this build that the processor can run, the best first and
 * the baseline last; NULL: no more. */
const struct terp_engine *
terp_processor_nth_engine(size_t n);

#define TERP_MAX_NTHREADS 1024

/* The number of processors that this process may use, at most
 * TERP_MAX_NTHREADS. */
int
terp_processor_count(void);
