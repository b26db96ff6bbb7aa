/* A CUDA engine without a device, for tests of how the codec deals with one. */
#pragma once

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "codec/api/terp_status.h"

/* Exported as `fake_cuda` by the shared object. A test takes it by
 * fake_cuda_take before the codec opens the object. */
struct fake_cuda {
    /* What the library and devices say when they are opened, and what calls
     * return; TERP_OK: they do their work, on the CPU. Calls that fail leave
     * rubbish behind. */
    enum terp_status library_status, open_status;
    _Atomic(enum terp_status) call_status;
    atomic_bool is_lost; /* each device */
    /* What decode says of each stream, unless TERP_OK. */
    enum terp_status stream_status;
    bool leaves_odd_chunks; /* to the CPU */
    /* The call of encode, decode, allocate, copy or move numbered `fail_at`
     * (from 1) fails with `fail_status`, without having done anything; 0: none.
     * `ncalls` counts these. */
    atomic_int fail_at, ncalls;
    enum terp_status fail_status;
    atomic_bool allocates_nothing;
    atomic_int nheld; /* blocks that were allocated and not released */
    /* What counts as memory of a device. */
    const unsigned char *begin, *end;
    atomic_bool hold; /* opening a device waits for its end */
    atomic_int nopens, ncloses, ntrims, nencodes, ndecodes, ncopies;
    /* What the last device was opened with, and the last call had. */
    int device;
    unsigned long long memory_limit_nbytes;
    void *_Atomic stream;
};

/* That of the shared object at `path`, which stays open; NULL: there is none.
 */
static inline struct fake_cuda *
fake_cuda_take(const char *path)
{
    void *library = path == NULL ? NULL : dlopen(path, RTLD_NOW | RTLD_LOCAL);

    return library == NULL ? NULL
                           : (struct fake_cuda *)dlsym(library, "fake_cuda");
}
