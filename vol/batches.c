/* Decides which transfers terp moves in batches, and moves their streams by the
 * native connector's direct chunk I/O. */
#include "vol/batches.h"

#include <stdlib.h>

#include "codec/api/processor.h"
#include "codec/format/types.h"
#include "filter/dcpl.h"
#include "filter/h5/batch.h"
#include "filter/h5/strided.h"
#include "filter/plugin/call.h"
#include "filter/types.h"
#include "vol/selection.h"

/* Transfers of fewer values stay with HDF5: starting threads takes longer than
 * coding them. Tests set a smaller number. */
#ifndef VOL_BATCH_MIN_NVALUES
#define VOL_BATCH_MIN_NVALUES 16384
#endif

/* How terp moves a dataset's values, while the dataset is open. */
struct vol_plan {
    const char *reason; /* why HDF5 moves every transfer; NULL: it need not */
    bool may_write;     /* its file is open for writing */
    hid_t type;         /* of the dataset, predefined by HDF5 */
    hid_t dxpl;         /* HDF5's default transfer properties */
    hsize_t chunk[H5S_MAX_RANK];
    int rank;
    struct terp_cd cd;
    uint8_t pad[TERP_DCPL_PAD_NBYTES];
};

/* The context of a block's storage. Chunks are moved with the default transfer
 * properties, because HDF5 stores the results of a transfer in any other
 * property list. */
struct storage {
    const struct vol_object *dataset;
    const struct vol_plan *plan;
};

/* ---- expected errors ---- */

/* The program's callback for errors. */
struct errors {
    H5E_auto2_t call;
    void *data;
    bool known;
};

/* Silences HDF5 before calls that may fail. After a failure either HDF5 repeats
 * the work and reports its own error, or the connector reports the error when
 * the program's call ends. */
static void
silence_errors(const struct vol_library *library, struct errors *errors)
{
    unsigned is_v2 = 0;

    /* H5Eget_auto2 fails if the callback is that of HDF5 1.6 (version 0). */
    library->H5Eauto_is_v2(H5E_DEFAULT, &is_v2);
    errors->known = is_v2 && library->H5Eget_auto2(H5E_DEFAULT, &errors->call,
                                                   &errors->data) >= 0;
    if (errors->known)
        library->H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
}

static void
restore_errors(const struct vol_library *library, const struct errors *errors,
               bool are_kept)
{
    if (errors->known)
        library->H5Eset_auto2(H5E_DEFAULT, errors->call, errors->data);
    if (!are_kept)
        library->H5Eclear2(H5E_DEFAULT);
}

/* ---- the native connector's chunks ---- */

static herr_t
call_native(const struct terp_h5_block *block, int op, void *arguments)
{
    const struct storage *storage = block->context;
    const struct vol_object *on = storage->dataset;
    struct vol_optional optional = {op, arguments};

    return on->library->H5VLdataset_optional(on->under, on->vol, &optional,
                                             storage->plan->dxpl, NULL);
}

static enum terp_status
store_stream(const struct terp_h5_block *block, const hsize_t *offset,
             const void *stream, uint64_t stream_nbytes)
{
    const struct storage *storage = block->context;
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
    *nbytes_ret = read.filters_ret == 0 ? nbytes : 0;
    return TERP_OK;
}

static enum terp_status
read_part(const struct terp_h5_block *block, const hsize_t *offset,
          const hsize_t *count, const hsize_t *dims, void *dst)
{
    static const hsize_t start[H5S_MAX_RANK];
    const struct storage *storage = block->context;
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

static const struct terp_h5_storage native_storage = {store_stream,
                                                      fetch_stream, read_part};

/* ---- the plan of a dataset ---- */

/* Reads how the chunks are coded. */
static const char *
read_streams(const struct terp_host *host, const struct vol_library *library,
             hid_t dcpl, struct vol_plan *plan)
{
    const char *reason = terp_dcpl_read_streams(host, dcpl, &plan->cd);

    if (reason != NULL)
        return reason;
    if (!terp_type_is_plain(plan->cd.chunk.type))
        return "its values are neither float32 nor float64";
    plan->rank = library->H5Pget_chunk(dcpl, H5S_MAX_RANK, plan->chunk);
    return NULL;
}

/* Reads the ids that transfers need: of the values' type, and of the library's
 * default transfer properties. */
static const char *
read_ids(const struct terp_host *host, hid_t type, struct vol_plan *plan)
{
    const struct terp_chunk *chunk = &plan->cd.chunk;
    struct terp_number number;
    uint64_t nvalues = 1;

    if (terp_number_read(host, type, &number) != TERP_PASS_NONE ||
        !terp_number_find_type(host, &number, &plan->type) ||
        !terp_host_find_id(host, "H5P_LST_DATASET_XFER_ID_g", &plan->dxpl))
        return "HDF5 does not tell its type";
    for (int d = 0; d < plan->rank; d++)
        nvalues *= plan->chunk[d];
    if (plan->rank < 1 || number.type != chunk->type ||
        number.big_endian != chunk->big_endian ||
        terp_chunk_nbytes(chunk) !=
            nvalues * (uint64_t)terp_value_nbytes(chunk->type))
        return "its cd_values are of another dataset";
    return NULL;
}

static const struct vol_plan *
make_plan(const void *caller, struct vol_object *dataset, hid_t dxpl)
{
    const struct vol_library *library = dataset->library;
    struct vol_plan *plan = calloc(1, sizeof *plan);
    struct terp_host host;

    if (plan == NULL)
        return NULL;
    dataset->plan = plan;
    hid_t dcpl = vol_dataset_id(dataset, VOL_DATASET_GET_DCPL, dxpl);
    hid_t type = vol_dataset_id(dataset, VOL_DATASET_GET_TYPE, dxpl);
    terp_host_open(caller, &host);
    plan->reason = dcpl < 0 || type < 0
                       ? "HDF5 does not tell its properties"
                       : read_streams(&host, library, dcpl, plan);
    if (plan->reason == NULL)
        plan->reason = read_ids(&host, type, plan);
    if (plan->reason == NULL &&
        !terp_dcpl_read_padding(&host, dcpl, plan->type, plan->pad))
        plan->reason = "HDF5 does not tell its fill value";
    terp_host_close(&host);
    if (plan->reason == NULL &&
        vol_object_is_shared(dataset, H5I_DATASET, dxpl))
        plan->reason = "several processes may have its file open";
    if (plan->reason == NULL)
        plan->may_write = vol_object_may_write(dataset, H5I_DATASET, dxpl);
    if (type >= 0)
        library->H5Tclose(type);
    if (dcpl >= 0)
        library->H5Pclose(dcpl);
    return plan;
}

/* ---- the block ---- */

/* Fills in the members of a block that do not depend on the selection. */
static const char *
start_block(const struct vol_plan *plan, const struct vol_box *box,
            struct terp_h5_block *block)
{
    struct terp_array *array = &block->array;

    block->storage = &native_storage;
    block->rank = array->rank = plan->rank;
    block->cd = plan->cd;
    array->value_nbytes = plan->cd.chunk.type == TERP_FLOAT32 ? 4 : 8;
    memcpy(array->pad, plan->pad, sizeof plan->pad);
    if (box->rank != plan->rank)
        return "its chunks have another rank than its dataspace";
    for (int d = 0; d < plan->rank; d++) {
        block->dims[d] = box->dims[d];
        block->chunk[d] = plan->chunk[d];
    }
    return NULL;
}

static const char *
make_block(const struct vol_plan *plan, const struct vol_selection *selection,
           struct terp_h5_block *block)
{
    const struct vol_box *box = &selection->file;
    struct terp_array *array = &block->array;
    uint64_t nchunks = 1;
    const char *reason = start_block(plan, box, block);

    if (reason != NULL)
        return reason;
    for (int d = 0; d < plan->rank; d++) {
        hsize_t end = box->offset[d] + box->count[d];
        if (box->offset[d] % plan->chunk[d] != 0 ||
            (box->count[d] % plan->chunk[d] != 0 && end != box->dims[d]))
            return "the selection is not made of whole chunks";
        block->offset[d] = box->offset[d];
        block->count[d] = array->dims[d] = box->count[d];
        array->chunk[d] = plan->chunk[d];
        array->stride[d] = selection->stride[d];
        nchunks *= div_up(box->count[d], plan->chunk[d]);
    }
    if (selection->is_dense)
        terp_array_make_dense(array);
    return nchunks < 2 ? "the selection is a single chunk" : NULL;
}

/* The block of a selection of every n-th value. */
static const char *
make_strided_block(const struct vol_plan *plan,
                   const struct vol_selection *selection,
                   struct terp_h5_block *block)
{
    const char *reason = start_block(plan, &selection->file, block);

    if (reason == NULL && terp_h5_strided_step(block, &selection->strided) < 2)
        reason = "no coarse levels hold all selected values";
    return reason;
}

/* ---- the transfer ---- */

/* Whether the transfer is so small that batches gain nothing. A read of every
 * n-th value counts with the values between them, because HDF5 would decode
 * these too. */
static bool
is_small(const struct vol_transfer *transfer)
{
    const struct vol_library *library = transfer->dataset->library;

    if (transfer->file_space <= VOL_SPACE_PLIST)
        return false;
    const hssize_t n = library->H5Sget_select_npoints(transfer->file_space);
    return n < VOL_BATCH_MIN_NVALUES &&
           (transfer->dst == NULL || n < 2 ||
            vol_selection_span(library, transfer->file_space) <
                VOL_BATCH_MIN_NVALUES);
}

/* Uses all CPUs unless the user sets TERP_NUM_THREADS. */
static void
choose_threads(struct terp_run_options *options)
{
    const char *text = getenv("TERP_NUM_THREADS");

    if (text == NULL || *text == '\0')
        options->nthreads = terp_processor_count();
}

static enum terp_status
run_strided(struct terp_call *call, const struct vol_transfer *transfer,
            const struct terp_h5_block *block,
            const struct vol_selection *selection)
{
    const uint64_t skipped_nbytes = selection->at * block->array.value_nbytes;
    struct terp_run_result result = {.size = sizeof result};
    const struct vol_library *library = transfer->dataset->library;
    struct errors said;
    struct terp_run run;
    enum terp_status st = terp_run_begin(&call->options, &result, &run);

    if (st == TERP_OK) {
        silence_errors(library, &said);
        st = terp_h5_strided_read(&run, block, &selection->strided,
                                  (uint8_t *)transfer->dst + skipped_nbytes);
        restore_errors(library, &said, false);
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
 * because it may take the chunk for written (1.14.5 stored 0 bytes). */
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
    struct errors said;
    struct terp_run run;
    enum terp_status st = terp_run_begin(&call->options, &result, &run);

    if (st == TERP_OK) {
        silence_errors(library, &said);
        st = terp_h5_batch_move(
            &run, block, NULL,
            transfer->src == NULL
                ? NULL
                : (const uint8_t *)transfer->src + skipped_nbytes,
            transfer->dst == NULL ? NULL
                                  : (uint8_t *)transfer->dst + skipped_nbytes);
        restore_errors(library, &said, is_not_stored(transfer, st));
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

/* Whether the transfer properties have an expression that changes the values
 * (H5Pset_data_transform). Other properties have no effect here. */
static bool
transforms(const struct vol_plan *plan, const struct vol_transfer *transfer)
{
    const struct vol_library *library = transfer->dataset->library;
    struct errors said;

    if (transfer->dxpl == plan->dxpl)
        return false;
    /* The call fails if there is no expression. */
    silence_errors(library, &said);
    ssize_t length = library->H5Pget_data_transform(transfer->dxpl, NULL, 0);
    restore_errors(library, &said, false);
    return length >= 0;
}

static const char *
reason_of_transfer(const struct vol_plan *plan,
                   const struct vol_transfer *transfer,
                   struct terp_h5_block *block, struct vol_selection *selection)
{
    const struct vol_library *library = transfer->dataset->library;

    if (transfer->src != NULL && !plan->may_write)
        return "its file is open for reading";
    if (library->H5Tequal(transfer->type, plan->type) <= 0)
        return "the type in memory is not the dataset's";
    if (transforms(plan, transfer))
        return "the transfer changes the values";
    hid_t space = vol_dataset_id(transfer->dataset, VOL_DATASET_GET_SPACE,
                                 transfer->dxpl);
    if (space < 0)
        return "HDF5 does not tell its dataspace";
    const char *reason = vol_selection_read(transfer, space, selection);
    library->H5Sclose(space);
    if (reason == NULL && selection->is_strided && transfer->on_device)
        return "the memory is on the device";
    if (reason == NULL && selection->is_strided)
        return make_strided_block(plan, selection, block);
    if (reason == NULL && selection->file.nvalues < VOL_BATCH_MIN_NVALUES)
        reason = "the selection has few values";
    return reason != NULL ? reason : make_block(plan, selection, block);
}

enum vol_moved
vol_batches_move(const void *caller, const struct vol_transfer *transfer)
{
    struct vol_object *dataset = transfer->dataset;
    const struct vol_plan *plan = dataset->plan;
    struct storage storage = {.dataset = dataset};
    struct terp_h5_block block = {.context = &storage};
    struct vol_selection selection;
    struct terp_call call;

    if (dataset->vol != dataset->library->native || is_small(transfer) ||
        (transfer->src == NULL && transfer->dst == NULL))
        return VOL_LEFT;
    if (plan == NULL)
        plan = make_plan(caller, dataset, transfer->dxpl);
    if (plan == NULL || plan->reason != NULL)
        return VOL_LEFT;
    storage.plan = plan;
    const char *reason = reason_of_transfer(plan, transfer, &block, &selection);
    enum terp_status st = TERP_ERR_ARGUMENT;
    terp_call_begin(caller, &call);
    if (reason == NULL) {
        choose_threads(&call.options);
        if (transfer->on_device)
            call.options.memory = TERP_MEMORY_DEVICE;
        st = selection.is_strided
                 ? run_strided(&call, transfer, &block, &selection)
                 : run_batches(&call, transfer, &block, selection.at);
    } else {
        terp_call_say(&call, "connector: HDF5 %s it: %s",
                      transfer->src != NULL ? "writes" : "reads", reason);
    }
    terp_host_close(&call.host);
    if (is_not_stored(transfer, st))
        return VOL_FAILED;
    return st == TERP_OK ? VOL_MOVED : VOL_LEFT;
}
