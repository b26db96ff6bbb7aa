/* Which of the CPU engine's tables the processor runs, and how many there are.
 */
#pragma once

#include "codec/engine.h"

/* The process's engine, chosen by its first call from any thread: the best that
 * the processor runs, or that which the environment's TERP_CPU names. */
const struct terp_engine *
terp_processor_engine(void);

/* Why TERP_CPU was not followed, NULL where it was or is not set. */
const char *
terp_processor_reason(void);

/* The name of the process's engine. */
const char *
terp_processor_instructions(void);

/* What the processor runs of this build, best first and the baseline last;
 * NULL: no more. */
const struct terp_engine *
terp_processor_nth_engine(size_t n);

#define TERP_MAX_NTHREADS 1024

/* Processors that this process may run on, at most TERP_MAX_NTHREADS. */
int
terp_processor_count(void);
