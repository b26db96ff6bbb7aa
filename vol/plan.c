/* Reads how a dataset's chunks are coded, and which chunks a transfer moves. */
#include "vol/plan.h"

#include <stdlib.h>
#include <string.h>

#include "codec/format/types.h"
#include "filter/dcpl.h"
#include "filter/plugin/host.h"
#include "filter/types.h"

/* Transfers of fewer values stay with HDF5: starting threads takes longer than
 * coding them. Tests set a smaller number. */
#ifndef VOL_BATCH_MIN_NVALUES
#define VOL_BATCH_MIN_NVALUES 16384
#endif

/* ---- the plan of a dataset ---- */

/* Reads how the chunks are coded. */
static const char *
read_streams(const struct terp_host *host, const struct vol_library *library,
             hid_t dcpl, struct vol_plan *plan)
{
    const char *reason = terp_dcpl_read_streams(host, dcpl, &plan->cd);

    if (reason == NULL)
        plan->rank = library->H5Pget_chunk(dcpl, H5S_MAX_RANK, plan->chunk);
    return reason;
}

/* Reads the ids that transfers need: of the values' type, and of the library's
 * default transfer properties. The type is predefined by HDF5, or a copy that
 * belongs to no file: enumerations, complex values, and 16-bit floats. */
static const char *
read_ids(const struct terp_host *host, struct vol_object *dataset, hid_t type,
         struct vol_plan *plan)
{
    const struct vol_library *library = dataset->library;
    const struct terp_chunk *chunk = &plan->cd.chunk;
    struct terp_number number;
    uint64_t nvalues = 1;

    if (terp_number_read(host, type, &number) != TERP_PASS_NONE ||
        !terp_host_find_id(host, "H5P_LST_DATASET_XFER_ID_g", &plan->dxpl))
        return "HDF5 does not tell its type";
    if (!terp_number_find_type(host, &number, &plan->type) ||
        library->H5Tequal(type, plan->type) <= 0)
        plan->type = dataset->type = library->H5Tcopy(type);
    if (plan->type < 0)
        return "HDF5 does not copy its type";
    for (int d = 0; d < plan->rank; d++)
        nvalues *= plan->chunk[d];
    if (plan->rank < 1 || number.type != chunk->type ||
        number.big_endian != chunk->big_endian ||
        terp_chunk_nbytes(chunk) !=
            nvalues * (uint64_t)terp_value_nbytes(chunk->type))
        return "its cd_values are of another dataset";
    return NULL;
}

static void
read_plan(const void *caller, struct vol_object *dataset, hid_t dxpl,
          struct vol_plan *plan)
{
    const struct vol_library *library = dataset->library;
    hid_t dcpl = vol_dataset_id(dataset, VOL_DATASET_GET_DCPL, dxpl);
    hid_t type = vol_dataset_id(dataset, VOL_DATASET_GET_TYPE, dxpl);
    struct terp_host host;

    terp_host_open(caller, &host);
    plan->reason = dcpl < 0 || type < 0
                       ? "HDF5 does not tell its properties"
                       : read_streams(&host, library, dcpl, plan);
    if (plan->reason == NULL)
        plan->reason = read_ids(&host, dataset, type, plan);
    if (plan->reason == NULL &&
        !terp_dcpl_read_padding(&host, dcpl, plan->type, plan->pad))
        plan->reason = "HDF5 does not tell its fill value";
    terp_host_close(&host);
    if (plan->reason == NULL)
        plan->may_write = vol_object_may_write(dataset, H5I_DATASET, dxpl);
    plan->is_virtual = dcpl >= 0 && library->H5Pget_layout(dcpl) == H5D_VIRTUAL;
    if (type >= 0)
        library->H5Tclose(type);
    if (dcpl >= 0)
        library->H5Pclose(dcpl);
}

/* NULL: memory is short. A process that reads metadata together with others
 * still makes their calls of HDF5. */
static const struct vol_plan *
make_plan(const void *caller, struct vol_object *dataset, hid_t dxpl)
{
    struct vol_plan unused = {.reason = NULL};

    dataset->plan = calloc(1, sizeof *dataset->plan);
    if (dataset->plan != NULL || dataset->reads_together)
        read_plan(caller, dataset, dxpl,
                  dataset->plan == NULL ? &unused : dataset->plan);
    return dataset->plan;
}

/* ---- the block ---- */

/* Fills in the members of a block that do not depend on the selection. */
static const char *
start_block(const struct vol_plan *plan, const struct vol_box *box,
            struct terp_h5_block *block)
{
    struct terp_array *array = &block->array;

    block->rank = array->rank = plan->rank;
    block->cd = plan->cd;
    array->value_nbytes = (uint32_t)terp_value_nbytes(plan->cd.chunk.type);
    memcpy(array->pad, plan->pad, sizeof plan->pad);
    if (box->rank != plan->rank)
        return "its chunks have another rank than its dataspace";
    for (int d = 0; d < plan->rank; d++) {
        block->dims[d] = box->dims[d];
        block->chunk[d] = plan->chunk[d];
    }
    return NULL;
}

/* Sets the strides of the selected values in memory. */
static void
set_strides(const struct vol_selection *selection, struct terp_array *array)
{
    for (int d = 0; d < array->rank; d++) {
        array->dims[d] = selection->file.count[d];
        array->stride[d] = selection->stride[d];
    }
    if (selection->is_dense)
        terp_array_make_dense(array);
}

/* With `shrinks`, the block has the whole chunks of the selection, and
 * selection->at becomes the place of its values. */
static const char *
make_block(const struct vol_plan *plan, bool shrinks, uint64_t min_nchunks,
           struct vol_selection *selection, struct terp_h5_block *block)
{
    const struct vol_box *box = &selection->file;
    struct terp_array *array = &block->array;
    uint64_t nchunks = 1;
    const char *reason = start_block(plan, box, block);

    if (reason != NULL)
        return reason;
    set_strides(selection, array);
    for (int d = 0; d < plan->rank; d++) {
        const hsize_t length = plan->chunk[d];
        const hsize_t end = box->offset[d] + box->count[d];
        const hsize_t first = div_up(box->offset[d], length) * length;
        const hsize_t last = end == box->dims[d] ? end : end / length * length;
        if (first >= last || (!shrinks && last - first != box->count[d]))
            return "the selection is not made of whole chunks";
        block->offset[d] = first;
        block->count[d] = array->dims[d] = last - first;
        array->chunk[d] = length;
        selection->at += (first - box->offset[d]) * array->stride[d];
        nchunks *= div_up(last - first, length);
    }
    return nchunks < min_nchunks ? "the selection is a single chunk" : NULL;
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

/* Whether the transfer properties have an expression that changes the values
 * (H5Pset_data_transform). Other properties have no effect here. */
static bool
transforms(const struct vol_plan *plan, const struct vol_transfer *transfer)
{
    const struct vol_library *library = transfer->dataset->library;
    struct vol_errors said;

    if (transfer->dxpl == plan->dxpl)
        return false;
    /* The call fails if there is no expression. */
    vol_errors_silence(library, &said);
    ssize_t length = library->H5Pget_data_transform(transfer->dxpl, NULL, 0);
    vol_errors_restore(library, &said, false);
    return length >= 0;
}

const char *
vol_plan_selection(const struct vol_plan *plan,
                   const struct vol_transfer *transfer,
                   struct vol_selection *selection_ret)
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
    const char *reason = vol_selection_read(transfer, space, selection_ret);
    library->H5Sclose(space);
    return reason;
}

const char *
vol_plan_block(const struct vol_plan *plan, const struct vol_transfer *transfer,
               bool shrinks, struct terp_h5_block *block,
               struct vol_selection *selection)
{
    const char *reason = vol_plan_selection(plan, transfer, selection);

    if (reason == NULL && selection->is_strided && transfer->on_device)
        return "the memory is on the device";
    if (reason == NULL && selection->is_strided)
        return make_strided_block(plan, selection, block);
    if (reason == NULL && selection->file.nvalues < VOL_BATCH_MIN_NVALUES)
        reason = "the selection has few values";
    /* A single chunk may be in HDF5's cache, where the program finds it soon.
     * Through MPI HDF5 has none, and gets a mark of the chunk. */
    const bool may_be_single =
        transfer->is_pending ||
        (transfer->dataset->is_shared && transfer->src != NULL && !shrinks);
    return reason != NULL ? reason
                          : make_block(plan, shrinks, may_be_single ? 1 : 2,
                                       selection, block);
}

void
vol_plan_begin(const void *caller, struct vol_object *dataset, hid_t dxpl)
{
    if (dataset != NULL && dataset->reads_together &&
        dataset->vol == dataset->library->native)
        (void)make_plan(caller, dataset, dxpl);
}

/* NULL: there is none, and there may be none. */
static const struct vol_plan *
need_plan(const void *caller, struct vol_object *dataset, hid_t dxpl)
{
    return dataset->plan == NULL && !dataset->reads_together
               ? make_plan(caller, dataset, dxpl)
               : dataset->plan;
}

enum vol_sight
vol_plan_sight(const void *caller, struct vol_object *dataset, hid_t dxpl)
{
    if (dataset->vol != dataset->library->native)
        return VOL_SEES_NOTHING;
    const struct vol_plan *plan = need_plan(caller, dataset, dxpl);
    return plan == NULL || plan->is_virtual ? VOL_SEES_ALL
           : plan->reason == NULL           ? VOL_SEES_FILE
                                            : VOL_SEES_NOTHING;
}

const struct vol_plan *
vol_plan_of_dataset(const void *caller, struct vol_object *dataset, hid_t dxpl)
{
    if (dataset->vol != dataset->library->native)
        return NULL;
    const struct vol_plan *plan = need_plan(caller, dataset, dxpl);
    return plan == NULL || plan->reason != NULL ? NULL : plan;
}

const struct vol_plan *
vol_plan_of(const void *caller, const struct vol_transfer *transfer)
{
    return is_small(transfer) ||
                   (transfer->src == NULL && transfer->dst == NULL)
               ? NULL
               : vol_plan_of_dataset(caller, transfer->dataset, transfer->dxpl);
}
