/* Finds out whether values are in device memory, and copies them to and from
 * the host. */
#include "vol/device.h"

#include <stdlib.h>

#include "codec/api/memory.h"
#include "filter/plugin/call.h"
#include "filter/plugin/prepared.h"
#include "vol/split.h"

/* Begins a call on device memory. False if no CUDA engine is available. */
static bool
begin(const void *caller, struct terp_call *call, struct terp_run *run)
{
    /* A quick test first: most programs do not set the variable. */
    if (getenv("TERP_ENGINE") == NULL)
        return false;
    terp_call_begin(caller, call);
    terp_host_close(&call->host);
    call->options.memory = TERP_MEMORY_DEVICE;
    return terp_run_begin(&call->options, NULL, run) == TERP_OK;
}

bool
vol_device_has(const void *caller, const void *values)
{
    struct terp_call call;
    struct terp_run run;

    return values != NULL && begin(caller, &call, &run) &&
           terp_memory_is_on_device(&run, values);
}

/* Leaves an error on HDF5's stack on failure. */
static bool
fail_to_copy(const void *caller)
{
    vol_library_push(caller, __func__, __LINE__,
                     "values cannot be copied from or to the device");
    return false;
}

static bool
copy(const void *caller, void *dst, const void *src, uint64_t nbytes)
{
    struct terp_call call;
    struct terp_run run;

    return (dst != NULL && src != NULL && begin(caller, &call, &run) &&
            terp_memory_copy(&run, 1, &dst, &src, &nbytes) == TERP_OK) ||
           fail_to_copy(caller);
}

/* The size of the transfer's memory, including gaps. */
static bool
memory_nbytes(const struct vol_transfer *transfer, uint64_t *nbytes_ret)
{
    const struct vol_library *library = transfer->dataset->library;
    hid_t all = H5I_INVALID_HID;
    hssize_t n = -1;

    if (transfer->mem_space == H5S_ALL || transfer->file_space == H5S_ALL)
        all = vol_dataset_id(transfer->dataset, VOL_DATASET_GET_SPACE,
                             transfer->dxpl);
    if (transfer->mem_space == VOL_SPACE_BLOCK)
        n = library->H5Sget_select_npoints(
            transfer->file_space == H5S_ALL ? all : transfer->file_space);
    else if (transfer->mem_space != VOL_SPACE_PLIST)
        n = library->H5Sget_simple_extent_npoints(
            transfer->mem_space == H5S_ALL ? all : transfer->mem_space);
    if (all >= 0)
        library->H5Sclose(all);
    const size_t value_nbytes = library->H5Tget_size(transfer->type);
    *nbytes_ret = n < 0 ? 0 : (uint64_t)n * value_nbytes;
    return n >= 0 && value_nbytes > 0;
}

/* ---- parts ---- */

bool
vol_device_fits(const struct vol_transfer *transfer, uint64_t held_nbytes)
{
    const uint64_t cap = vol_batches_held_cap();
    uint64_t nbytes;

    return !memory_nbytes(transfer, &nbytes) ||
           (held_nbytes <= cap && nbytes <= cap - held_nbytes);
}

/* Lets the connector below move a part between the dataset and `copied`, where
 * the part's run of memory begins. */
static herr_t
move_part(const struct vol_transfer *transfer, const struct vol_part *part,
          uint64_t value_nbytes, uint8_t *copied)
{
    const struct vol_object *dataset = transfer->dataset;
    const struct vol_library *library = dataset->library;
    /* The address that value 0 of the selection would have: HDF5 adds the
     * offset of the run, and touches selected values only. */
    /* NOLINTNEXTLINE(performance-no-int-to-ptr) */
    void *values = (void *)((uintptr_t)copied - part->at * value_nbytes);
    const void *src = values;
    void *under = dataset->under;
    hid_t type = transfer->type, memory = part->memory, file = part->file;

    return transfer->src != NULL
               ? library->H5VLdataset_write(1, &under, dataset->vol, &type,
                                            &memory, &file, transfer->dxpl,
                                            &src, NULL)
               : library->H5VLdataset_read(1, &under, dataset->vol, &type,
                                           &memory, &file, transfer->dxpl,
                                           &values, NULL);
}

static enum vol_moved
copy_part(const void *caller, const struct vol_transfer *transfer,
          const struct vol_part *part, uint64_t value_nbytes)
{
    const uint64_t nbytes = part->nvalues * value_nbytes;
    const uint64_t skipped_nbytes = part->at * value_nbytes;
    const uint8_t *from = transfer->src != NULL ? transfer->src : transfer->dst;
    uint8_t *copied = malloc(nbytes);

    bool good = copy(caller, copied, from + skipped_nbytes, nbytes);
    terp_prepared_hold(nbytes);
    good = good && move_part(transfer, part, value_nbytes, copied) >= 0;
    terp_prepared_hold(0);
    if (good && transfer->dst != NULL)
        good = copy(caller, (uint8_t *)transfer->dst + skipped_nbytes, copied,
                    nbytes);
    free(copied);
    return good ? VOL_MOVED : VOL_FAILED;
}

enum vol_moved
vol_device_move_parts(const void *caller, const struct vol_transfer *transfer)
{
    enum vol_moved moved = VOL_MOVED;
    struct vol_split split;
    struct vol_part part;

    if (!vol_split_open(transfer, &split))
        return VOL_LEFT;
    while (moved == VOL_MOVED && split.nleft > 0) {
        /* HDF5 then moves all values, including those of earlier parts. */
        if (!vol_split_next(&split, vol_batches_held_cap(), &part)) {
            moved = VOL_LEFT;
            break;
        }
        moved = copy_part(caller, transfer, &part, split.value_nbytes);
        vol_part_close(&split, &part);
    }
    vol_split_close(&split);
    return moved;
}

/* ---- the whole ---- */

bool
vol_device_stage(const void *caller, const struct vol_transfer *transfer,
                 struct vol_staged *staged_ret)
{
    const void *values = transfer->src != NULL ? transfer->src : transfer->dst;

    *staged_ret = (struct vol_staged){.device = transfer->dst};
    if (!memory_nbytes(transfer, &staged_ret->nbytes))
        return fail_to_copy(caller);
    staged_ret->values = malloc(staged_ret->nbytes + 1);
    if (copy(caller, staged_ret->values, values, staged_ret->nbytes))
        return true;
    free(staged_ret->values);
    staged_ret->values = NULL;
    return false;
}

bool
vol_device_unstage(const void *caller, bool is_done, struct vol_staged *staged)
{
    bool good = true;

    if (staged->values != NULL && staged->device != NULL && is_done)
        good = copy(caller, staged->device, staged->values, staged->nbytes);
    free(staged->values);
    return good;
}
