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

/* Copies chunks, from `first` on, on the host. */
struct move {
    const struct terp_array *array;
    uint64_t first;
    const uint8_t *src;
    uint8_t *dst;
    bool gather; /* from the array to chunks; otherwise back */
};

/* The numbers in `part` are relative to move->first. */
static void
move_chunks(void *arg, struct terp_cpu_batch_part part)
{
    const struct move *move = arg;
    const struct terp_array *array = move->array;
    const uint64_t row_nvalues = array->chunk[array->rank - 1];
    const uint64_t nper_chunk = terp_array_chunk_nvalues(array) / row_nvalues;
    const size_t nbytes = array->value_nbytes;
    const bool gather = move->gather;
    uint64_t at;

    for (uint64_t row = part.first * nper_chunk; row < part.end * nper_chunk;
         row++) {
        uint64_t inside = terp_array_row(array, move->first + row / nper_chunk,
                                         row % nper_chunk, &at);
        uint64_t in_chunks = row * row_nvalues;
        if (inside > 0)
            memcpy(move->dst + (gather ? in_chunks : at) * nbytes,
                   move->src + (gather ? at : in_chunks) * nbytes,
                   inside * nbytes);
        for (uint64_t j = inside; gather && j < row_nvalues; j++)
            memcpy(move->dst + (in_chunks + j) * nbytes, array->pad, nbytes);
    }
}

static enum terp_status
move_array(struct terp_run *run, const struct terp_array *array, uint64_t first,
           uint64_t n, const void *src, void *dst, bool gather)
{
    struct move move = {array, first, src, dst, gather};
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
