/* A CUDA engine without a device, to test how the codec uses an engine. */
#pragma once

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "codec/api/terp_status.h"

/* The shared object exports this as `fake_cuda`. A test calls fake_cuda_take
 * before the codec opens the object. */
struct fake_cuda {
    /* Results of opening the library, opening devices, and calls. With TERP_OK
     * they work, on the CPU. Failing calls leave wrong data behind. */
    enum terp_status library_status, open_status;
    _Atomic(enum terp_status) call_status;
    atomic_bool is_lost; /* of opening each device */
    /* The status of each stream of a decode, unless TERP_OK. */
    enum terp_status stream_status;
    bool leaves_odd_chunks; /* passes work on to the CPU */
    /* Call number `fail_at` (from 1) of encode, decode, allocate, copy or move
     * returns `fail_status` without any effect; 0: no call. `ncalls` counts the
     * calls. */
    atomic_int fail_at, ncalls;
    enum terp_status fail_status;
    atomic_bool allocates_nothing;
    atomic_int nheld; /* blocks that are allocated and not released */
    /* Addresses that count as device memory. */
    const unsigned char *begin, *end;
    atomic_bool hold; /* opening a device waits until this is over */
    atomic_int nopens, ncloses, ntrims, nencodes, ndecodes, ncopies;
    /* Arguments of the last device that was opened, and of the last call. */
    int device;
    unsigned long long memory_limit_nbytes;
    void *_Atomic stream;
};

/* Returns the `fake_cuda` of the shared object at `path`, which stays open, or
 * NULL without one. */
static inline struct fake_cuda *
fake_cuda_take(const char *path)
{
    void *library = path == NULL ? NULL : dlopen(path, RTLD_NOW | RTLD_LOCAL);

    return library == NULL ? NULL
                           : (struct fake_cuda *)dlsym(library, "fake_cuda");
}
