/* A CUDA engine without a device, for tests of how the codec deals with one. */
#ifndef TERP_FAKE_CUDA_ENGINE_H
#define TERP_FAKE_CUDA_ENGINE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "codec/api/terp_status.h"

/* Exported as `fake_cuda` by the shared object. A test takes it by dlsym
 * before the codec opens the object. */
struct fake_cuda {
    /* What terp_cuda_open returns, and what calls return; TERP_OK: they do
     * their work, on the CPU. Calls that fail leave rubbish behind. */
    enum terp_status open_status;
    _Atomic(enum terp_status) call_status;
    /* What decode says of each stream, unless TERP_OK. */
    enum terp_status stream_status;
    atomic_bool hold; /* terp_cuda_open waits for its end */
    atomic_int nopens, nencodes, ndecodes;
};

#endif
