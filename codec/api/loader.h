/* The CUDA engine of this process, opened when it is first asked for. */
#ifndef TERP_CODEC_API_LOADER_H
#define TERP_CODEC_API_LOADER_H

#include "codec/engine.h"

/* The engine, or NULL with the reason, a static text: it could not be opened,
 * has failed, belongs to the process that this one was forked from, or the
 * process is ending. What was NULL once stays NULL. Any thread. */
const struct terp_cuda_engine *
terp_cuda_get(const char **reason_ret);

/* Ends the use of an engine that said TERP_ERR_DEVICE, for the whole process.
 * The first reason is kept; returns it, static. */
const char *
terp_cuda_fail(const char *reason);

/* Why TERP_ENGINE_AUTO leaves `nbytes` of values on the host to the CPU, a
 * static text; NULL where the device should be tried. */
const char *
terp_cuda_decline(uint64_t nbytes);

#endif
