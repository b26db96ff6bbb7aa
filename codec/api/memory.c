/* Memory of a run, and arrays that are divided into chunks there. */
#include "codec/api/memory.h"

bool
terp_memory_is_on_device(struct terp_run *run, const void *at)
{
    enum terp_status st;
    const struct terp_device *device = terp_run_device(run, &st);

    return device != NULL && device->engine->has(device->opened, at);
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
    /* Memory of a lost device cannot be released. */
    const struct terp_device *device =
        at == NULL ? NULL : terp_context_open(run->context, &st, &reason);
    if (device != NULL)
        device->engine->release(device->opened, at);
}

bool
terp_memory_pin(struct terp_run *run, uint64_t nbytes,
                struct terp_pinned *pinned_ret)
{
    enum terp_status st;

    *pinned_ret = (struct terp_pinned){.at = NULL};
    if (run->call.memory != TERP_MEMORY_HOST ||
        run->engine == TERP_ENGINE_CPU ||
        (run->engine == TERP_ENGINE_AUTO &&
         terp_context_decline(run->context, nbytes) != NULL))
        return false;
    struct terp_pinned pinned = {.nbytes = nbytes,
                                 .device = terp_run_device(run, &st)};
    if (pinned.device == NULL ||
        pinned.device->engine->allocate_pinned(
            pinned.device->opened, &pinned.nbytes, &pinned.at) != TERP_OK)
        return false;
    if (terp_budget_hold(run->budget, pinned.nbytes) != TERP_OK) {
        terp_memory_unpin(&pinned);
        return false;
    }
    *pinned_ret = pinned;
    return true;
}

void
terp_memory_unpin(const struct terp_pinned *pinned)
{
    if (pinned->at != NULL)
        pinned->device->engine->release_pinned(pinned->device->opened,
                                               pinned->at, pinned->nbytes);
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

/* One thread copies at least this many bytes: fewer are copied in less time
 * than a thread needs to start. */
#define THREAD_MIN_NBYTES ((uint64_t)1 << 19)

/* ---- rows of chunks, on the host ---- */

/* Copies between the array at `values` and chunks. The first of `values` has
 * index `values_at` in the array. */
struct move {
    const struct terp_array *array;
    uint64_t first; /* the number of the first of `chunks` */
    uint8_t *values, *chunks;
    bool gather; /* from the array to chunks; otherwise back */
    uint64_t values_at;
};

/* Copies a row of a chunk. Its first `ninside` values lie in the array, from
 * index `at` on; the others are padding. */
static void
move_row(const struct move *move, uint64_t at, uint64_t ninside, uint8_t *row)
{
    const struct terp_array *array = move->array;
    const size_t nbytes = array->value_nbytes;

    if (ninside > 0) {
        uint8_t *values = move->values + (at - move->values_at) * nbytes;
        if (move->gather)
            memcpy(row, values, ninside * nbytes);
        else
            memcpy(values, row, ninside * nbytes);
    }
    if (move->gather)
        for (uint64_t i = ninside; i < array->chunk[array->rank - 1]; i++)
            memcpy(row + i * nbytes, array->pad, nbytes);
}

/* Copies rows [begin, end) of a chunk, whose number is relative to move->first.
 * Consecutive rows along one dimension are a run: along the fastest dimension,
 * except the last, in which the chunk has several rows. terp_array_row finds
 * only the first row of a run, because its divisions take longer than the copy
 * of a short row. */
static void
move_rows(const struct move *move, uint64_t chunk, uint64_t begin, uint64_t end)
{
    const struct terp_array *array = move->array;
    const int last = array->rank - 1;
    const uint64_t number = move->first + chunk;
    const uint64_t row_nbytes = array->chunk[last] * array->value_nbytes;
    uint64_t run_nrows = 1, run_ninside = 1, stride = 0;
    uint8_t *row =
        move->chunks +
        chunk * terp_array_chunk_nvalues(array) * array->value_nbytes +
        begin * row_nbytes;

    if (last > 0) {
        int d = last - 1;
        uint64_t of_run =
            number / div_up(array->dims[last], array->chunk[last]);
        for (; d > 0 && array->chunk[d] == 1; d--)
            of_run /= array->dims[d];
        const uint64_t nchunks = div_up(array->dims[d], array->chunk[d]);
        run_nrows = array->chunk[d];
        run_ninside = array->dims[d] - of_run % nchunks * array->chunk[d];
        stride = array->stride[d];
    }
    for (uint64_t i = begin; i < end;) {
        uint64_t at;
        const uint64_t ninside = terp_array_row(array, number, i, &at);
        uint64_t index = i % run_nrows;
        for (; index < run_nrows && i < end; index++, i++) {
            move_row(move, at, index < run_ninside ? ninside : 0, row);
            at += stride;
            row += row_nbytes;
        }
    }
}

static uint64_t
chunk_nrows(const struct terp_array *array)
{
    return terp_array_chunk_nvalues(array) / array->chunk[array->rank - 1];
}

static void
move_chunks(void *arg, struct terp_cpu_batch_part part)
{
    const struct move *move = arg;

    for (uint64_t chunk = part.first; chunk < part.end; chunk++)
        move_rows(move, chunk, 0, chunk_nrows(move->array));
}

static enum terp_status
move_array(struct terp_run *run, const struct terp_array *array, uint64_t first,
           uint64_t n, const void *src, void *dst, bool gather)
{
    struct move move = {.array = array,
                        .first = first,
                        .values = gather ? (void *)src : dst,
                        .chunks = gather ? dst : (void *)src,
                        .gather = gather};
    enum terp_status st;

    if (run->call.memory == TERP_MEMORY_DEVICE) {
        const struct terp_device *device = terp_run_device(run, &st);
        return st != TERP_OK
                   ? st
                   : terp_run_note(
                         run, device,
                         device->engine->move(device->opened, &run->call, array,
                                              first, n, src, dst, gather));
    }
    uint64_t nbytes = n * terp_array_chunk_nvalues(array) * array->value_nbytes;
    terp_cpu_batch(move_chunks, &move, n,
                   (int)min_u64((uint64_t)run->cpu.nthreads,
                                nbytes / THREAD_MIN_NBYTES + 1));
    return TERP_OK;
}

enum terp_status
terp_array_gather(struct terp_run *run, const struct terp_array *array,
                  uint64_t first, uint64_t n, const void *values, void *chunks)
{
    return move_array(run, array, first, n, values, chunks, true);
}

enum terp_status
terp_array_scatter(struct terp_run *run, const struct terp_array *array,
                   uint64_t first, uint64_t n, const void *chunks, void *values)
{
    return move_array(run, array, first, n, chunks, values, false);
}

bool
terp_array_has_slices(const struct terp_array *array, int dim)
{
    for (int d = 0; d < dim; d++)
        if (array->dims[d] > 1 || array->chunk[d] > 1)
            return false;
    return dim < array->rank - 1;
}

void
terp_array_gather_slice(const struct terp_array *array, int dim, uint64_t begin,
                        uint64_t end, const void *values, void *chunks)
{
    const struct move move = {.array = array,
                              .values = (void *)values,
                              .chunks = chunks,
                              .gather = true,
                              .values_at = begin * array->stride[dim]};
    const uint64_t chunk_nindices = array->chunk[dim];
    uint64_t nafter = 1, slice_nrows = 1;

    for (int d = dim + 1; d < array->rank; d++)
        nafter *= div_up(array->dims[d], array->chunk[d]);
    for (int d = dim + 1; d < array->rank - 1; d++)
        slice_nrows *= array->chunk[d];
    /* The last slice writes the padding behind it. */
    if (end == array->dims[dim])
        end = div_up(end, chunk_nindices) * chunk_nindices;
    for (uint64_t i = begin / chunk_nindices; i * chunk_nindices < end; i++) {
        const uint64_t at = i * chunk_nindices;
        const uint64_t from = begin > at ? begin - at : 0;
        const uint64_t to = min_u64(end - at, chunk_nindices);
        for (uint64_t j = 0; j < nafter; j++)
            move_rows(&move, i * nafter + j, from * slice_nrows,
                      to * slice_nrows);
    }
}
