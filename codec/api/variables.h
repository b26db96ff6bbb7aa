/* Environment variables that hosts of the codec share. */
#pragma once

#include "codec/api/terp.h"

/* Reads TERP_NUM_THREADS: unset or empty is 1, 0 is all processors that the
 * process may use. Returns false, and 1, if the value is not a number of
 * threads. */
bool
terp_variable_nthreads(int *nthreads_ret);

/* Reads TERP_ENGINE: unset or empty is the CPU, because the CUDA engine takes
 * device memory, and a process that has used CUDA cannot use it in its forked
 * children. Returns false, and the CPU, if the value is unknown. */
bool
terp_variable_engine(enum terp_engine_kind *engine_ret);
