/* What a run works in: memory on host or device, and the chunks of an array
 * there. */
#pragma once

#include "codec/api/run.h"
#include "codec/format/array.h"

/* What follows is done in the memory that the run works in, with the device's
 * engine where that is the device; then it fails with TERP_ERR_DEVICE, and a
 * reason, where that does not work. */

/* Whether `at` is in memory of a device. False where there is none. */
bool
terp_memory_is_on_device(struct terp_run *run, const void *at);

/* Memory for any values and streams, which terp_memory_free frees.
 * TERP_ERR_MEMORY: there is not as much. */
enum terp_status
terp_memory_make(struct terp_run *run, uint64_t nbytes, void **at_ret);
void
terp_memory_free(const struct terp_run *run, void *at);

/* Copies n parts, nbytes[i] from src[i] to dst[i]; each end is in that memory
 * or on the host. */
enum terp_status
terp_memory_copy(struct terp_run *run, uint64_t n, void *const *dst,
                 const void *const *src, const uint64_t *nbytes);

/* Copies chunks [first, first + n) of the array at `values` to `chunks`, one
 * behind the other, padded; or, scattering, back, without the padding. */
enum terp_status
terp_array_gather(struct terp_run *run, const struct terp_array *array,
                  uint64_t first, uint64_t n, const void *values, void *chunks);
enum terp_status
terp_array_scatter(struct terp_run *run, const struct terp_array *array,
                   uint64_t first, uint64_t n, const void *chunks,
                   void *values);
