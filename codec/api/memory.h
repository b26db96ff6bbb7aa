/* The memory of a run, on host or device, and the chunks of an array there. */
#pragma once

#include "codec/api/run.h"
#include "codec/format/array.h"

/* These functions work in the memory of the run (run->call.memory). For device
 * memory the device's engine does the work; if the device does not work, they
 * fail with TERP_ERR_DEVICE and a reason. */

/* Whether `at` points into device memory. False without a device. */
bool
terp_memory_is_on_device(struct terp_run *run, const void *at);

/* Allocates memory for values or streams; terp_memory_free releases it.
 * TERP_ERR_MEMORY: too little memory. */
enum terp_status
terp_memory_make(struct terp_run *run, uint64_t nbytes, void **at_ret);
void
terp_memory_free(const struct terp_run *run, void *at);

/* Host memory that the device copies fast, and beside the calling thread. */
struct terp_pinned {
    void *at; /* NULL: none */
    uint64_t nbytes;
    const struct terp_device *device;
};

/* Allocates pinned memory; terp_memory_unpin releases it. False: the run's
 * values are on the device, the run uses the CPU alone, or the allocation
 * fails. */
bool
terp_memory_pin(struct terp_run *run, uint64_t nbytes,
                struct terp_pinned *pinned_ret);
void
terp_memory_unpin(const struct terp_pinned *pinned);

/* Copies n blocks: nbytes[i] from src[i] to dst[i]. Each end is in the run's
 * memory or on the host. */
enum terp_status
terp_memory_copy(struct terp_run *run, uint64_t n, void *const *dst,
                 const void *const *src, const uint64_t *nbytes);

/* terp_array_gather copies chunks [first, first + n) of the array at `values`
 * to `chunks`, one after another, with padding. terp_array_scatter copies them
 * back, without padding. */
enum terp_status
terp_array_gather(struct terp_run *run, const struct terp_array *array,
                  uint64_t first, uint64_t n, const void *values, void *chunks);
enum terp_status
terp_array_scatter(struct terp_run *run, const struct terp_array *array,
                   uint64_t first, uint64_t n, const void *chunks,
                   void *values);

/* Whether terp_array_gather_slice can divide the array along dimension `dim`:
 * it is not the last one, and those before it have one index in the array and
 * in chunks. */
bool
terp_array_has_slices(const struct terp_array *array, int dim);

/* On the host, copies the values with indices [begin, end) along dimension
 * `dim` to all chunks of the array; `values` holds these alone, without gaps
 * before them. The last slice also writes the padding behind the array. */
void
terp_array_gather_slice(const struct terp_array *array, int dim, uint64_t begin,
                        uint64_t end, const void *values, void *chunks);
