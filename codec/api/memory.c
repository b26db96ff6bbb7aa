/* Memory of a run, and an array cut into chunks there. */
#include "codec/api/memory.h"

static enum terp_status
move_on_device(struct terp_run *run, const struct terp_array *array,
               uint64_t first, uint64_t n, const void *src, void *dst,
               bool gather)
{
    enum terp_status st;
    const struct terp_device *device = terp_run_device(run, &st);

    if (st != TERP_OK)
        return st;
    return terp_run_note(run, device,
                         device->engine->move(device->opened, &run->call, array,
                                              first, n, src, dst, gather));
}

enum terp_status
terp_memory_make(struct terp_run *run, uint64_t nbytes, void **at_ret)
{
    enum terp_status st;

    *at_ret = NULL;
    if (run->call.memory == TERP_MEMORY_HOST) {
        *at_ret = terp_allocate(run->cpu.allocator, nbytes);
        return *at_ret == NULL ? TERP_ERR_MEMORY : TERP_OK;
    }
    const struct terp_device *device = terp_run_device(run, &st);
    return st != TERP_OK ? st
                         : terp_run_note(run, device,
                                         device->engine->allocate(
                                             device->opened, nbytes, at_ret));
}

void
terp_memory_free(const struct terp_run *run, void *at)
{
    enum terp_status st;
    const char *reason;

    if (run->call.memory == TERP_MEMORY_HOST) {
        terp_release(run->cpu.allocator, at);
        return;
    }
    /* Of a device that is lost nothing can be given back. */
    const struct terp_device *device =
        at == NULL ? NULL : terp_context_open(run->context, &st, &reason);
    if (device != NULL)
        device->engine->release(device->opened, at);
}

enum terp_status
terp_memory_copy(struct terp_run *run, uint64_t n, void *const *dst,
                 const void *const *src, const uint64_t *nbytes)
{
    enum terp_status st;

    if (run->call.memory == TERP_MEMORY_HOST) {
        for (uint64_t i = 0; i < n; i++)
            memcpy(dst[i], src[i], nbytes[i]);
        return TERP_OK;
    }
    const struct terp_device *device = terp_run_device(run, &st);
    return st != TERP_OK
               ? st
               : terp_run_note(run, device,
                               device->engine->copy(device->opened, &run->call,
                                                    n, dst, src, nbytes));
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

    if (run->call.memory == TERP_MEMORY_DEVICE)
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

    if (run->call.memory == TERP_MEMORY_DEVICE)
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
