/* Gathers and converts values by HDF5's own functions, so that the results are
 * those of HDF5. */
#include "vol/dense.h"

#include <stdlib.h>

#include "codec/format/types.h"
#include "vol/plan.h"

/* Bounds a copy where TERP_MAX_MEMORY does not. Larger transfers go chunk by
 * chunk. */
#define MAX_NBYTES (UINT64_C(1) << 30)

/* Whether H5Tconvert needs no background. Between compounds, as which most
 * files have complex values, it does, and HDF5 1.14.3 and earlier crash without
 * one. */
static bool
can_convert(const struct vol_plan *plan, const struct vol_transfer *transfer)
{
    return terp_type_nparts(plan->cd.chunk.type) == 1 ||
           transfer->dataset->library->H5Tequal(transfer->type, plan->type) > 0;
}

/* Whether terp can move the values. */
static bool
suits(const struct vol_plan *plan, const struct vol_transfer *transfer,
      bool any_box, struct vol_selection *selection)
{
    struct terp_h5_block block;

    return (any_box
                ? vol_plan_selection(plan, transfer, selection)
                : vol_plan_block(plan, transfer, transfer->dataset->is_shared,
                                 &block, selection)) == NULL;
}

/* The transfer of the values without gaps, in the dataset's type. False: not
 * even these could go in batches, or the values need no copy. */
static bool
plan_copy(const void *caller, const struct vol_transfer *transfer, bool any_box,
          struct vol_transfer *copy_ret, struct vol_box *box_ret)
{
    struct vol_selection selection;
    const struct vol_plan *plan = NULL;

    if (transfer->src != NULL && !transfer->on_device)
        plan = any_box ? vol_plan_of_dataset(caller, transfer->dataset,
                                             transfer->dxpl)
                       : vol_plan_of(caller, transfer);
    if (plan == NULL || suits(plan, transfer, any_box, &selection) ||
        !can_convert(plan, transfer))
        return false;
    *copy_ret = *transfer;
    copy_ret->type = plan->type;
    copy_ret->mem_space = VOL_SPACE_BLOCK;
    if (!suits(plan, copy_ret, any_box, &selection))
        return false;
    *box_ret = selection.file;
    return true;
}

/* Fills `values`, of at least the larger type. */
static bool
copy_values(const struct vol_transfer *transfer, hid_t type, hsize_t nvalues,
            void *values)
{
    const struct vol_library *library = transfer->dataset->library;
    const hid_t file = vol_selection_file_space(transfer);
    const hid_t space = file < 0 || transfer->mem_space == VOL_SPACE_PLIST
                            ? H5I_INVALID_HID
                            : vol_selection_memory_space(transfer, file);
    const bool good =
        space >= 0 &&
        library->H5Sget_select_npoints(space) == (hssize_t)nvalues &&
        library->H5Dgather(space, transfer->src, transfer->type,
                           nvalues * library->H5Tget_size(transfer->type),
                           values, NULL, NULL) >= 0 &&
        library->H5Tconvert(transfer->type, type, nvalues, values, NULL,
                            transfer->dxpl) >= 0;

    if (space >= 0)
        library->H5Sclose(space);
    if (file >= 0)
        library->H5Sclose(file);
    return good;
}

bool
vol_dense_make(const void *caller, const struct vol_transfer *transfer,
               bool any_box, uint64_t held_nbytes, struct vol_dense *dense_ret)
{
    const struct vol_library *library = transfer->dataset->library;
    const uint64_t cap_nbytes = min_u64(vol_batches_held_cap(), MAX_NBYTES);
    struct vol_transfer copy;
    struct vol_errors said;
    struct vol_box box;

    *dense_ret = (struct vol_dense){.space = H5I_INVALID_HID};
    if (held_nbytes > cap_nbytes ||
        !plan_copy(caller, transfer, any_box, &copy, &box))
        return false;
    const size_t nbytes = library->H5Tget_size(transfer->type);
    const size_t file_nbytes = library->H5Tget_size(copy.type);
    const uint64_t value_nbytes = nbytes > file_nbytes ? nbytes : file_nbytes;
    if (nbytes == 0 || file_nbytes == 0 ||
        box.nvalues > (cap_nbytes - held_nbytes) / value_nbytes)
        return false;
    dense_ret->nbytes = box.nvalues * value_nbytes;
    dense_ret->values = malloc(dense_ret->nbytes);
    /* HDF5 goes from value to value where the shapes differ. */
    dense_ret->space = library->H5Screate_simple(box.rank, box.count, NULL);
    /* HDF5 tells the program what does not convert when it writes. */
    vol_errors_silence(library, &said);
    const bool good =
        dense_ret->values != NULL && dense_ret->space >= 0 &&
        copy_values(transfer, copy.type, box.nvalues, dense_ret->values);
    vol_errors_restore(library, &said, false);
    if (!good) {
        vol_dense_free(library, dense_ret);
        return false;
    }
    copy.mem_space = dense_ret->space;
    copy.src = dense_ret->values;
    dense_ret->transfer = copy;
    return true;
}

void
vol_dense_convert_nothing(const void *caller, struct vol_transfer *transfer)
{
    const struct vol_library *library = transfer->dataset->library;
    const struct vol_plan *plan =
        transfer->dataset->is_shared && vol_selection_is_empty(transfer)
            ? vol_plan_of_dataset(caller, transfer->dataset, transfer->dxpl)
            : NULL;
    struct vol_errors said;
    uint64_t no_values[4] = {0};

    if (plan == NULL || library->H5Tequal(transfer->type, plan->type) > 0)
        return;
    /* Fails in all processes, here and in HDF5, if there is no conversion. */
    vol_errors_silence(library, &said);
    if (library->H5Tconvert(transfer->type, plan->type, 0, no_values, NULL,
                            transfer->dxpl) >= 0)
        transfer->type = plan->type;
    vol_errors_restore(library, &said, false);
}

void
vol_dense_free(const struct vol_library *library, struct vol_dense *dense)
{
    if (dense->space >= 0)
        library->H5Sclose(dense->space);
    free(dense->values);
    *dense = (struct vol_dense){.space = H5I_INVALID_HID};
}
