/* A dense array in C order, on host or device, and the chunks that it is cut
 * into. */
#ifndef TERP_ARRAY_H
#define TERP_ARRAY_H

#include "base.h"
#include "terp.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TERP_ARRAY_MAX_RANK 32

/* Chunks are counted in C order of their places. Those at the array's ends
 * reach beyond it; there they hold `pad`, `value_nbytes` (4 or 8) bytes as
 * they are in memory. No dim is 0. */
struct terp_array {
    int rank;
    uint32_t value_nbytes;
    uint64_t dims[TERP_ARRAY_MAX_RANK];
    uint64_t chunk[TERP_ARRAY_MAX_RANK];
    uint8_t pad[8];
};

/* Row `row` of chunk `chunk`: how many of its values are the array's, and
 * where in the array these begin. */
static inline TERP_HOST_DEVICE uint64_t
terp_array_row(const struct terp_array *array, uint64_t chunk, uint64_t row,
               uint64_t *at_ret)
{
    const int last = array->rank - 1;
    uint64_t at = 0, stride = 1, nvalues = 0;

    for (int d = last; d >= 0; d--) {
        uint64_t nchunks = div_up(array->dims[d], array->chunk[d]);
        uint64_t place = chunk % nchunks * array->chunk[d];
        chunk /= nchunks;
        if (d == last) {
            nvalues = min_u64(array->chunk[d], array->dims[d] - place);
        } else {
            place += row % array->chunk[d];
            row /= array->chunk[d];
            if (place >= array->dims[d])
                nvalues = 0;
        }
        at += place * stride;
        stride *= array->dims[d];
    }
    *at_ret = at;
    return nvalues;
}

uint64_t
terp_array_nchunks(const struct terp_array *array);

/* Of one chunk, padding included. */
uint64_t
terp_array_chunk_nvalues(const struct terp_array *array);

/* At the begin of a call: sets what it fills in. TERP_ERR_ARGUMENT: this run
 * cannot be. */
enum terp_status
terp_run_begin(struct terp_run *run);

/* What follows is done in run->memory, with the device's engine where that is
 * the device; then it fails with TERP_ERR_DEVICE, and run->reason, where that
 * does not work. */

/* Memory for any values and streams, which terp_memory_free frees.
 * TERP_ERR_MEMORY: there is not as much. */
enum terp_status
terp_memory_make(struct terp_run *run, uint64_t nbytes, void **at_ret);
void
terp_memory_free(const struct terp_run *run, void *at);

/* Copies n parts, nbytes[i] from src[i] to dst[i]; each end is in run->memory
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

#ifdef __cplusplus
}
#endif

#endif
