/* Decides which transfers terp moves in batches, and moves their streams by the
 * native connector's direct chunk I/O. */
#include "vol/batches.h"

#include <stdlib.h>

#include "codec/api/budget.h"
#include "codec/api/processor.h"
#include "filter/container.h"
#include "filter/h5/strided.h"
#include "filter/plugin/call.h"
#include "vol/plan.h"

/* The connector may hold this much whatever TERP_MAX_MEMORY is: with less, HDF5
 * would need too many calls. Tests set a smaller value. */
#ifndef VOL_HELD_MIN_NBYTES
#define VOL_HELD_MIN_NBYTES (UINT64_C(64) << 10)
#endif

/* Bounds the values of a window in host memory. */
#ifndef VOL_AHEAD_NBYTES
#define VOL_AHEAD_NBYTES (UINT64_C(64) << 20)
#endif

/* ---- the native connector's chunks ---- */

static herr_t
call_native(const struct terp_h5_block *block, int op, void *arguments)
{
    const struct vol_storage *storage = block->context;
    const struct vol_object *on = storage->dataset;
    struct vol_optional optional = {op, arguments};

    return on->library->H5VLdataset_optional(on->under, on->vol, &optional,
                                             storage->plan->dxpl, NULL);
}

static enum terp_status
store_stream(const struct terp_h5_block *block, const hsize_t *offset,
             const void *stream, uint64_t stream_nbytes)
{
    const struct vol_storage *storage = block->context;
    struct vol_chunk_write_1 old = {offset, 0, (uint32_t)stream_nbytes, stream};
    struct vol_chunk_write_2 new = {offset, 0, stream_nbytes, stream};
    bool is_old = storage->dataset->library->major < 2;

    if (is_old && stream_nbytes > UINT32_MAX)
        return TERP_ERR_HDF5;
    return call_native(block, VOL_NATIVE_CHUNK_WRITE,
                       is_old ? (void *)&old : (void *)&new) < 0
               ? TERP_ERR_HDF5
               : TERP_OK;
}

static enum terp_status
fetch_stream(const struct terp_h5_block *block, const hsize_t *offset,
             void *stream, uint64_t stream_cap_nbytes, uint64_t *nbytes_ret)
{
    hsize_t nbytes = 0;
    size_t buf_nbytes = stream_cap_nbytes;
    struct vol_chunk_storage_size size = {offset, &nbytes};
    struct vol_chunk_read read = {offset, 0, stream, &buf_nbytes};

    *nbytes_ret = 0;
    /* The call fails if the chunk was never written. */
    if (call_native(block, VOL_NATIVE_CHUNK_STORAGE_SIZE, &size) < 0 ||
        nbytes == 0 || nbytes > stream_cap_nbytes)
        return TERP_OK;
    if (call_native(block, VOL_NATIVE_CHUNK_READ, &read) < 0)
        return TERP_ERR_HDF5;
    /* The filter decodes containers. */
    *nbytes_ret = read.filters_ret == 0 && !terp_container_is(stream, nbytes)
                      ? nbytes
                      : 0;
    return TERP_OK;
}

static enum terp_status
read_part(const struct terp_h5_block *block, const hsize_t *offset,
          const hsize_t *count, const hsize_t *dims, void *dst)
{
    static const hsize_t start[H5S_MAX_RANK];
    const struct vol_storage *storage = block->context;
    const struct vol_object *on = storage->dataset;
    const struct vol_library *library = on->library;
    hid_t type = storage->plan->type, dxpl = storage->plan->dxpl;
    hid_t space = vol_dataset_id(on, VOL_DATASET_GET_SPACE, dxpl);
    hid_t memory = library->H5Screate_simple(block->rank, dims, NULL);
    void *under = on->under;
    herr_t result = -1;

    if (space >= 0 && memory >= 0 &&
        library->H5Sselect_hyperslab(memory, H5S_SELECT_SET, start, NULL, count,
                                     NULL) >= 0 &&
        library->H5Sselect_hyperslab(space, H5S_SELECT_SET, offset, NULL, count,
                                     NULL) >= 0)
        result = library->H5VLdataset_read(1, &under, on->vol, &type, &memory,
                                           &space, dxpl, &dst, NULL);
    if (memory >= 0)
        library->H5Sclose(memory);
    if (space >= 0)
        library->H5Sclose(space);
    return result < 0 ? TERP_ERR_HDF5 : TERP_OK;
}

const struct terp_h5_storage vol_batches_storage = {store_stream, fetch_stream,
                                                    read_part};

/* ---- the transfer ---- */

void
vol_batches_choose_threads(struct terp_run_options *options)
{
    const char *text = getenv("TERP_NUM_THREADS");

    if (text == NULL || *text == '\0')
        options->nthreads = terp_processor_count();
}

uint64_t
vol_batches_held_cap(void)
{
    uint64_t limit_nbytes;

    (void)terp_budget_limit(&limit_nbytes);
    return limit_nbytes == UINT64_MAX               ? UINT64_MAX
           : limit_nbytes / 8 < VOL_HELD_MIN_NBYTES ? VOL_HELD_MIN_NBYTES
                                                    : limit_nbytes / 8;
}

enum terp_status
vol_batches_start(const void *caller, const struct vol_transfer *transfer,
                  const struct terp_h5_block *block,
                  struct terp_run_options *options_ret, struct terp_run *run,
                  struct terp_h5_batch *batch)
{
    const struct terp_run_result result = {.size = sizeof result};
    struct terp_call call;

    terp_call_begin(caller, &call);
    *options_ret = call.options;
    terp_host_close(&call.host);
    vol_batches_choose_threads(options_ret);
    if (transfer->on_device)
        options_ret->memory = TERP_MEMORY_DEVICE;
    enum terp_status st = terp_run_begin(options_ret, &result, run);
    if (st != TERP_OK)
        return st;
    const uint64_t nbytes = transfer->on_device
                                ? terp_h5_batch_nbytes(run, block)
                                : VOL_AHEAD_NBYTES;
    return terp_h5_batch_make(run, block, nbytes,
                              run->engine == TERP_ENGINE_CPU
                                  ? (uint64_t)run->cpu.nthreads
                                  : UINT64_MAX,
                              batch);
}

static enum terp_status
run_strided(struct terp_call *call, const struct vol_transfer *transfer,
            const struct terp_h5_block *block,
            const struct vol_selection *selection)
{
    const uint64_t skipped_nbytes = selection->at * block->array.value_nbytes;
    struct terp_run_result result = {.size = sizeof result};
    const struct vol_library *library = transfer->dataset->library;
    struct vol_errors said;
    struct terp_run run;
    enum terp_status st = terp_run_begin(&call->options, &result, &run);

    if (st == TERP_OK) {
        vol_errors_silence(library, &said);
        st = terp_h5_strided_read(&run, block, &selection->strided,
                                  (uint8_t *)transfer->dst + skipped_nbytes);
        vol_errors_restore(library, &said, false);
    }
    st = terp_run_end(&run, st, &result);
    terp_call_say(
        call,
        "connector: read of every %lluth value of the chunks, %d "
        "threads: %s",
        (unsigned long long)terp_h5_strided_step(block, &selection->strided),
        call->options.nthreads, terp_status_text(st));
    return st;
}

/* Whether storing a stream failed. HDF5 must then not write the chunk again,
 * because it may believe that the chunk is written (1.14.5 stored 0 bytes). */
static bool
is_not_stored(const struct vol_transfer *transfer, enum terp_status st)
{
    return transfer->src != NULL && st == TERP_ERR_HDF5;
}

static enum terp_status
run_batches(struct terp_call *call, const struct vol_transfer *transfer,
            struct terp_h5_block *block, uint64_t at)
{
    const uint64_t skipped_nbytes = at * block->array.value_nbytes;
    struct terp_run_result result = {.size = sizeof result};
    const struct vol_library *library = transfer->dataset->library;
    struct vol_errors said;
    struct terp_run run;
    enum terp_status st = terp_run_begin(&call->options, &result, &run);

    if (st == TERP_OK) {
        vol_errors_silence(library, &said);
        st = terp_h5_batch_move(
            &run, block, NULL,
            transfer->src == NULL
                ? NULL
                : (const uint8_t *)transfer->src + skipped_nbytes,
            transfer->dst == NULL ? NULL
                                  : (uint8_t *)transfer->dst + skipped_nbytes);
        vol_errors_restore(library, &said, is_not_stored(transfer, st));
    }
    st = terp_run_end(&run, st, &result);
    terp_call_say(
        call, "connector: %s of %llu chunks at once, %d threads%s: %s",
        transfer->src != NULL ? "write" : "read",
        (unsigned long long)terp_array_nchunks(&block->array),
        call->options.nthreads, result.used == TERP_ENGINE_CUDA ? ", CUDA" : "",
        terp_status_text(st));
    return st;
}

/* Moves a block, or its strided values. */
static enum terp_status
run(struct terp_call *call, const struct vol_transfer *transfer,
    struct terp_h5_block *block, const struct vol_selection *selection)
{
    struct vol_state state;

    if (!vol_state_open(transfer->dataset->library, &state))
        return TERP_ERR_ARGUMENT;
    const enum terp_status st =
        selection->is_strided
            ? run_strided(call, transfer, block, selection)
            : run_batches(call, transfer, block, selection->at);
    vol_state_close(&state);
    return st;
}

enum vol_moved
vol_batches_move(const void *caller, const struct vol_transfer *transfer)
{
    const struct vol_plan *plan = vol_plan_of(caller, transfer);
    struct vol_storage storage = {transfer->dataset, plan};
    struct terp_h5_block block = {.storage = &vol_batches_storage,
                                  .context = &storage};
    struct vol_selection selection;
    struct terp_call call;

    if (plan == NULL ||
        (transfer->dataset->is_shared &&
         (transfer->src != NULL || transfer->dataset->reads_together)))
        return VOL_LEFT;
    const char *reason =
        vol_plan_block(plan, transfer, transfer->shrinks, &block, &selection);
    enum terp_status st = TERP_ERR_ARGUMENT;
    terp_call_begin(caller, &call);
    if (reason == NULL) {
        vol_batches_choose_threads(&call.options);
        if (transfer->on_device)
            call.options.memory = TERP_MEMORY_DEVICE;
        st = run(&call, transfer, &block, &selection);
    } else {
        terp_call_say(&call, "connector: HDF5 %s it: %s",
                      transfer->src != NULL ? "writes" : "reads", reason);
    }
    terp_host_close(&call.host);
    if (is_not_stored(transfer, st))
        return VOL_FAILED;
    return st == TERP_OK ? VOL_MOVED : VOL_LEFT;
}
