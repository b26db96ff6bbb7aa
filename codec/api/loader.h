/* Loads the shared library of the CUDA engine. */
#pragma once

#include "codec/engine.h"

/* The engine's functions; or NULL with a reason, a static text: the library was
 * not found, the process was forked from one that had loaded it, or the process
 * is ending. Any thread may call it. */
const struct terp_cuda_engine *
terp_cuda_load(const char **reason_ret);

/* The reason why the engine must no longer be used, a static text; NULL: it may
 * be used. Takes no lock. */
const char *
terp_cuda_ended(void);

/* Registers an exit handler that stops the use of the device. Called when a
 * device is open. Returns false on failure. */
bool
terp_cuda_end_at_exit(void);
