/* The shared object of the CUDA engine. */
#pragma once

#include "codec/engine.h"

/* The engine's functions, or NULL with the reason, a static text: the library
 * was not found, this process was forked from one that had asked for it, or
 * the process is ending. Any thread. */
const struct terp_cuda_engine *
terp_cuda_load(const char **reason_ret);

/* Why terp_cuda_load would not give the functions that it gave before, a
 * static text; NULL: it would. Takes no lock. */
const char *
terp_cuda_ended(void);

/* Registers, once a device is open, that the process's end ends its use: false
 * if that cannot be done. */
bool
terp_cuda_end_at_exit(void);
