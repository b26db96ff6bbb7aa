/* Memory of a run, and an array cut into chunks there. */
#include "codec/api/memory.h"

#include <stdlib.h>

#include "codec/api/loader.h"

/* ---- a run ---- */

enum terp_status
terp_run_begin(struct terp_run *run)
{
    run->used = TERP_ENGINE_CPU;
    run->device = NULL;
    run->reason = NULL;
    return run->nthreads < 1 || (run->engine == TERP_ENGINE_CPU &&
                                 run->memory == TERP_MEMORY_DEVICE)
               ? TERP_ERR_ARGUMENT
               : TERP_OK;
}

/* ---- the device ---- */

static const struct terp_cuda_engine *
get_device(struct terp_run *run, enum terp_status *st_ret)
{
    const struct terp_cuda_engine *device = terp_cuda_get(&run->reason);

    *st_ret = device == NULL ? TERP_ERR_DEVICE : TERP_OK;
    return device;
}

/* What became of a call of the engine. */
static enum terp_status
finish(struct terp_run *run, const struct terp_cuda_engine *device,
       enum terp_status st)
{
    if (st == TERP_ERR_DEVICE)
        run->reason = terp_cuda_fail(device->reason());
    return st;
}

static enum terp_status
move_on_device(struct terp_run *run, const struct terp_array *array,
               uint64_t first, uint64_t n, const void *src, void *dst,
               bool gather)
{
    enum terp_status st;
    const struct terp_cuda_engine *device = get_device(run, &st);

    if (st != TERP_OK)
        return st;
    return finish(run, device, device->move(array, first, n, src, dst, gather));
}

/* ---- either ---- */

enum terp_status
terp_memory_make(struct terp_run *run, uint64_t nbytes, void **at_ret)
{
    enum terp_status st;

    *at_ret = NULL;
    if (run->memory == TERP_MEMORY_HOST) {
        if (nbytes <= SIZE_MAX)
            *at_ret = malloc(nbytes);
        return *at_ret == NULL ? TERP_ERR_MEMORY : TERP_OK;
    }
    const struct terp_cuda_engine *device = get_device(run, &st);
    return st != TERP_OK
               ? st
               : finish(run, device, device->allocate(nbytes, at_ret));
}

void
terp_memory_free(const struct terp_run *run, void *at)
{
    const char *reason;

    if (run->memory == TERP_MEMORY_HOST) {
        free(at);
        return;
    }
    /* Of a device that has failed nothing can be given back. */
    const struct terp_cuda_engine *device =
        at == NULL ? NULL : terp_cuda_get(&reason);
    if (device != NULL)
        device->release(at);
}

enum terp_status
terp_memory_copy(struct terp_run *run, uint64_t n, void *const *dst,
                 const void *const *src, const uint64_t *nbytes)
{
    enum terp_status st;

    if (run->memory == TERP_MEMORY_HOST) {
        for (uint64_t i = 0; i < n; i++)
            memcpy(dst[i], src[i], nbytes[i]);
        return TERP_OK;
    }
    const struct terp_cuda_engine *device = get_device(run, &st);
    return st != TERP_OK
               ? st
               : finish(run, device, device->copy(n, dst, src, nbytes));
}

enum terp_status
terp_array_gather(struct terp_run *run, const struct terp_array *array,
                  uint64_t first, uint64_t n, const void *values, void *chunks)
{
    const uint64_t row_nvalues = array->chunk[array->rank - 1];
    const uint64_t nrows = terp_array_chunk_nvalues(array) / row_nvalues;
    const size_t nbytes = array->value_nbytes;
    const uint8_t *from = values;
    uint8_t *to = chunks;
    uint64_t at;

    if (run->memory == TERP_MEMORY_DEVICE)
        return move_on_device(run, array, first, n, values, chunks, true);
    for (uint64_t i = 0; i < n; i++)
        for (uint64_t row = 0; row < nrows; row++) {
            uint64_t inside = terp_array_row(array, first + i, row, &at);
            if (inside > 0)
                memcpy(to, from + at * nbytes, inside * nbytes);
            for (uint64_t j = inside; j < row_nvalues; j++)
                memcpy(to + j * nbytes, array->pad, nbytes);
            to += row_nvalues * nbytes;
        }
    return TERP_OK;
}

enum terp_status
terp_array_scatter(struct terp_run *run, const struct terp_array *array,
                   uint64_t first, uint64_t n, const void *chunks, void *values)
{
    const uint64_t row_nvalues = array->chunk[array->rank - 1];
    const uint64_t nrows = terp_array_chunk_nvalues(array) / row_nvalues;
    const size_t nbytes = array->value_nbytes;
    const uint8_t *from = chunks;
    uint8_t *to = values;
    uint64_t at;

    if (run->memory == TERP_MEMORY_DEVICE)
        return move_on_device(run, array, first, n, chunks, values, false);
    for (uint64_t i = 0; i < n; i++)
        for (uint64_t row = 0; row < nrows; row++) {
            uint64_t inside = terp_array_row(array, first + i, row, &at);
            if (inside > 0)
                memcpy(to + at * nbytes, from, inside * nbytes);
            from += row_nvalues * nbytes;
        }
    return TERP_OK;
}
