/* What a test may ask of the emulator: failing calls, little memory, late work,
 * and counts. For C too. */
#pragma once

#include <stdint.h>

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

/* Lets the next `ncalls` calls of the runtime and the driver succeed and makes
 * the one after them fail with this cudaError_t; where `sticky`, all later ones
 * too. Calls that only name or read errors neither count nor fail. What a
 * failing call should release is released. */
void
emulator_fail_after(uint64_t ncalls, int error, int sticky);

/* From now on no graph can be made or launched, which fails with this
 * cudaError_t; 0: it can. */
void
emulator_fail_graphs(int error);

/* Graphs that were launched so far. */
uint64_t
emulator_ngraphs(void);

/* Kernels that were run so far. */
uint64_t
emulator_nlaunches(void);

/* From now on no cluster can have more blocks; 0: there are no clusters. At
 * first that is 8. */
void
emulator_limit_clusters(unsigned nblocks);

/* No call fails any more. */
void
emulator_fail_never(void);

/* From now on no more than `nbytes` of the device's memory can be taken,
 * though cudaMemGetInfo says that there is more. */
void
emulator_limit_memory(uint64_t nbytes);

/* From now on work in this stream is done as late as it may be: when something
 * waits for it. NULL: the default one. */
void
emulator_hold(void *stream);

/* Calls of the runtime and the driver so far, those of them that only release
 * something, and allocations, streams, events and graphs that were made and not
 * yet released.
 */
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
