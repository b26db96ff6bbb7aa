/* A test's control of the emulator: failing calls, little memory, delayed work,
 * and counts. Also for C. */
#pragma once

#include <stdint.h>

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

/* The next `ncalls` calls of the runtime and the driver succeed, and the one
 * after them fails with this cudaError_t. With `sticky` all later ones fail
 * too. Calls that only name or read errors neither count nor fail. A failing
 * call still releases what it should release. */
void
emulator_fail_after(uint64_t ncalls, int error, int sticky);

/* From now on, making or launching a graph fails with this cudaError_t; 0: it
 * works. */
void
emulator_fail_graphs(int error);

/* The number of graphs that were launched so far. */
uint64_t
emulator_ngraphs(void);

/* From now on, no call fails. */
void
emulator_fail_never(void);

/* From now on, at most `nbytes` of device memory can be allocated, though
 * cudaMemGetInfo reports more. */
void
emulator_limit_memory(uint64_t nbytes);

/* From now on, work in this stream runs as late as possible: when something
 * waits for it. NULL: the default stream. */
void
emulator_hold(void *stream);

/* The number of calls of the runtime and the driver so far; of those that only
 * release something; and of allocations, streams, events and graphs that were
 * made and not yet released. */
uint64_t
emulator_ncalls(void);
uint64_t
emulator_nreleases(void);
int64_t
emulator_nlive(void);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop
