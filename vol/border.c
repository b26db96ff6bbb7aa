/* Takes the whole chunks out of a selection. */
#include "vol/border.h"

#include "vol/plan.h"

/* The part of a selection that whole chunks fill. */
struct inner {
    struct terp_h5_block block;
    hsize_t first[H5S_MAX_RANK]; /* within the selection */
    uint64_t nvalues;
    uint64_t at; /* of the selection's first value in memory */
};

static bool
find_inner(const void *caller, const struct vol_transfer *transfer,
           struct vol_selection *selection, struct inner *inner)
{
    /* All values of a shared dataset go through HDF5. */
    const bool writes_shared =
        transfer->dataset->is_shared && transfer->src != NULL;
    const struct vol_plan *plan = transfer->on_device || writes_shared
                                      ? NULL
                                      : vol_plan_of(caller, transfer);

    if (plan == NULL ||
        vol_plan_block(plan, transfer, false, &inner->block, selection) ==
            NULL ||
        vol_plan_block(plan, transfer, true, &inner->block, selection) !=
            NULL ||
        selection->is_strided || !selection->is_dense)
        return false;
    inner->nvalues = 1;
    inner->at = selection->at;
    for (int d = 0; d < inner->block.rank; d++) {
        inner->first[d] = inner->block.offset[d] - selection->file.offset[d];
        inner->at -= inner->first[d] * inner->block.array.stride[d];
        inner->nvalues *= inner->block.count[d];
    }
    return true;
}

/* Selects the box at `begin` without the inner part, and returns whether it has
 * as many values as it should: HDF5 1.10.8 combines some unions of hyperslabs
 * wrongly. */
static bool
select_border(const struct vol_library *library, hid_t space,
              const hsize_t *begin, const struct vol_box *box,
              const hsize_t *start, const struct inner *inner,
              uint64_t border_nvalues)
{
    return space >= 0 &&
           library->H5Sselect_hyperslab(space, H5S_SELECT_SET, begin, NULL,
                                        box->count, NULL) >= 0 &&
           library->H5Sselect_hyperslab(space, H5S_SELECT_NOTB, start, NULL,
                                        inner->block.count, NULL) >= 0 &&
           library->H5Sget_select_npoints(space) == (hssize_t)border_nvalues;
}

bool
vol_border_make(const void *caller, const struct vol_transfer *transfer,
                struct vol_border *border_ret)
{
    static const hsize_t origin[H5S_MAX_RANK];
    const struct vol_library *library = transfer->dataset->library;
    struct vol_selection selection;
    struct inner inner;

    *border_ret =
        (struct vol_border){.memory = H5I_INVALID_HID, .file = H5I_INVALID_HID};
    if (!find_inner(caller, transfer, &selection, &inner))
        return false;
    const struct vol_box *box = &selection.file;
    const uint64_t border_nvalues = box->nvalues - inner.nvalues;
    const uint64_t skipped_nbytes = inner.at * inner.block.array.value_nbytes;
    border_ret->memory = library->H5Screate_simple(box->rank, box->count, NULL);
    /* The program may have moved its own space by H5Soffset_simple, and the
     * moved selection would combine with a hyperslab that is not moved. */
    border_ret->file = vol_dataset_id(transfer->dataset, VOL_DATASET_GET_SPACE,
                                      transfer->dxpl);
    if (!select_border(library, border_ret->memory, origin, box, inner.first,
                       &inner, border_nvalues) ||
        !select_border(library, border_ret->file, box->offset, box,
                       inner.block.offset, &inner, border_nvalues)) {
        vol_border_close(library, border_ret);
        return false;
    }
    border_ret->inner = border_ret->transfer = *transfer;
    border_ret->inner.shrinks = true;
    border_ret->transfer.mem_space = border_ret->memory;
    border_ret->transfer.file_space = border_ret->file;
    if (transfer->src != NULL)
        border_ret->transfer.src =
            (const uint8_t *)transfer->src + skipped_nbytes;
    else
        border_ret->transfer.dst = (uint8_t *)transfer->dst + skipped_nbytes;
    return true;
}

void
vol_border_close(const struct vol_library *library, struct vol_border *border)
{
    if (border->memory >= 0)
        library->H5Sclose(border->memory);
    if (border->file >= 0)
        library->H5Sclose(border->file);
    border->memory = border->file = H5I_INVALID_HID;
}
