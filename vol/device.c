/* Finds out whether values are in device memory, and copies them to and from
 * the host. */
#include "vol/device.h"

#include <stdlib.h>

#include "codec/api/memory.h"
#include "filter/plugin/call.h"
#include "vol/selection.h"

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

static bool
copy(const void *caller, void *dst, const void *src, uint64_t nbytes)
{
    struct terp_call call;
    struct terp_run run;

    return begin(caller, &call, &run) &&
           terp_memory_copy(&run, 1, &dst, &src, &nbytes) == TERP_OK;
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

bool
vol_device_stage(const void *caller, const struct vol_transfer *transfer,
                 struct vol_staged *staged_ret)
{
    const void *values = transfer->src != NULL ? transfer->src : transfer->dst;

    *staged_ret = (struct vol_staged){.device = transfer->dst};
    if (!memory_nbytes(transfer, &staged_ret->nbytes))
        return false;
    staged_ret->values = malloc(staged_ret->nbytes + 1);
    if (staged_ret->values != NULL &&
        copy(caller, staged_ret->values, values, staged_ret->nbytes))
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
