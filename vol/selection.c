/* Reads the selections of transfers. */
#include "vol/selection.h"

static bool
read_dims(const struct vol_library *library, hid_t space, struct vol_box *box)
{
    box->rank = library->H5Sget_simple_extent_ndims(space);
    return box->rank > 0 && box->rank <= H5S_MAX_RANK &&
           library->H5Sget_simple_extent_dims(space, box->dims, NULL) >= 0;
}

/* False if the selection is not a box, or not in the order of the
 * coordinates. */
static bool
read_box(const struct vol_library *library, hid_t space, struct vol_box *box)
{
    hsize_t end[H5S_MAX_RANK];
    H5S_sel_type type = library->H5Sget_select_type(space);

    if ((type != H5S_SEL_ALL && type != H5S_SEL_HYPERSLABS) ||
        !read_dims(library, space, box) || library->H5Sselect_valid(space) <= 0)
        return false;
    hssize_t npoints = library->H5Sget_select_npoints(space);
    if (npoints <= 0 ||
        library->H5Sget_select_bounds(space, box->offset, end) < 0)
        return false;
    box->nvalues = 1;
    for (int d = 0; d < box->rank; d++) {
        box->count[d] = end[d] - box->offset[d] + 1;
        box->nvalues *= box->count[d];
    }
    return box->nvalues == (uint64_t)npoints;
}

/* Whether the values of a box have no gaps in memory. */
static bool
is_run(const struct vol_box *box)
{
    bool is_full = true;

    for (int d = box->rank - 1; d >= 0; d--) {
        if (!is_full && box->count[d] != 1)
            return false;
        is_full &= box->count[d] == box->dims[d];
    }
    return true;
}

/* The next dimension, from `d` down, with more than one value; -1: none. */
static int
next_dim(const struct vol_box *box, int d)
{
    while (d >= 0 && box->count[d] == 1)
        d--;
    return d;
}

/* Finds the strides in memory, if the values form a box of the same shape whose
 * rows have no gaps: for example a field without its ghost cells, or one of
 * several fields. */
static bool
find_strides(const struct vol_box *memory, const struct vol_box *file,
             uint64_t *strides_ret)
{
    uint64_t stride = 1;
    int d = next_dim(file, file->rank - 1);

    memset(strides_ret, 0, (size_t)file->rank * sizeof *strides_ret);
    for (int m = memory->rank - 1; m >= 0; m--) {
        if (memory->count[m] > 1) {
            if (d < 0 || file->count[d] != memory->count[m] ||
                (d == file->rank - 1 && stride != 1))
                return false;
            strides_ret[d] = stride;
            d = next_dim(file, d - 1);
        }
        stride *= memory->dims[m];
    }
    return true;
}

/* Finds the values in memory. Returns NULL, or why batches cannot move them. */
static const char *
find_places(const struct vol_box *memory, struct vol_selection *selection)
{
    uint64_t stride = 1;

    selection->at = 0;
    for (int m = memory->rank - 1; m >= 0; m--) {
        selection->at += memory->offset[m] * stride;
        stride *= memory->dims[m];
    }
    selection->is_dense = is_run(memory);
    if (selection->is_dense)
        return NULL;
    if (selection->is_strided)
        return "the values in memory have gaps";
    return find_strides(memory, &selection->file, selection->stride)
               ? NULL
               : "the selection in memory has gaps in rows, or another shape";
}

/* Reads a selection of every n-th value in at least one dimension. False if the
 * selection is of another kind. */
static bool
read_strides(const struct vol_library *library, hid_t space,
             struct vol_box *file, struct terp_h5_strided *strided)
{
    hsize_t block[H5S_MAX_RANK], end[H5S_MAX_RANK];
    bool any = false;

    if (space <= VOL_SPACE_PLIST ||
        library->H5Sget_select_type(space) != H5S_SEL_HYPERSLABS ||
        library->H5Sis_regular_hyperslab(space) <= 0 ||
        library->H5Sselect_valid(space) <= 0 ||
        !read_dims(library, space, file) ||
        library->H5Sget_regular_hyperslab(space, strided->start,
                                          strided->stride, strided->count,
                                          block) < 0 ||
        /* H5Soffset_simple moves the bounds, but not the regular hyperslab. */
        library->H5Sget_select_bounds(space, strided->start, end) < 0)
        return false;
    file->nvalues = 1;
    for (int d = 0; d < file->rank; d++) {
        /* One block, or blocks that touch each other, are a run of values. */
        if (strided->count[d] == 1 || strided->stride[d] == block[d]) {
            strided->count[d] *= block[d];
            strided->stride[d] = 1;
        } else if (block[d] != 1) {
            return false;
        }
        any |= strided->stride[d] > 1;
        file->nvalues *= strided->count[d];
    }
    return any && file->nvalues > 0;
}

const char *
vol_selection_read(const struct vol_transfer *transfer, hid_t space,
                   struct vol_selection *selection)
{
    const struct vol_library *library = transfer->dataset->library;
    struct vol_box all, memory, *file = &selection->file;

    selection->is_strided = false;
    selection->at = 0;
    bool known = read_box(library, space, &all);
    if (known)
        *file = all;
    if (known && transfer->file_space != H5S_ALL) {
        selection->is_strided =
            transfer->dst != NULL && read_strides(library, transfer->file_space,
                                                  file, &selection->strided);
        known = (selection->is_strided ||
                 (transfer->file_space > VOL_SPACE_PLIST &&
                  read_box(library, transfer->file_space, file))) &&
                file->rank == all.rank &&
                memcmp(file->dims, all.dims,
                       (size_t)all.rank * sizeof *all.dims) == 0;
    }
    if (!known)
        return "the selection is not a box";
    if (transfer->mem_space == H5S_ALL && selection->is_strided)
        return "the values in memory have gaps";
    memory = *file;
    if (transfer->mem_space == VOL_SPACE_BLOCK) {
        memory.rank = 1;
        memory.dims[0] = memory.count[0] = file->nvalues;
        memory.offset[0] = 0;
    } else if (transfer->mem_space != H5S_ALL &&
               (transfer->mem_space <= VOL_SPACE_PLIST ||
                !read_box(library, transfer->mem_space, &memory) ||
                memory.nvalues != file->nvalues))
        return "the selection in memory is not a box";
    return find_places(&memory, selection);
}

uint64_t
vol_selection_span(const struct vol_library *library, hid_t space)
{
    hsize_t begin[H5S_MAX_RANK], end[H5S_MAX_RANK];
    const int rank = library->H5Sget_simple_extent_ndims(space);
    uint64_t n = 1;

    if (rank < 0 || rank > H5S_MAX_RANK ||
        library->H5Sget_select_bounds(space, begin, end) < 0)
        return 0;
    for (int d = 0; d < rank; d++)
        n *= end[d] - begin[d] + 1;
    return n;
}

bool
vol_selection_is_empty(const struct vol_transfer *transfer)
{
    return transfer->file_space > VOL_SPACE_PLIST &&
           transfer->dataset->library->H5Sget_select_npoints(
               transfer->file_space) == 0;
}

hid_t
vol_selection_file_space(const struct vol_transfer *transfer)
{
    return transfer->file_space == H5S_ALL
               ? vol_dataset_id(transfer->dataset, VOL_DATASET_GET_SPACE,
                                transfer->dxpl)
               : transfer->dataset->library->H5Scopy(transfer->file_space);
}

hid_t
vol_selection_memory_space(const struct vol_transfer *transfer, hid_t file)
{
    const struct vol_library *library = transfer->dataset->library;

    if (transfer->mem_space == VOL_SPACE_BLOCK) {
        const hssize_t n = library->H5Sget_select_npoints(file);
        const hsize_t length = n < 0 ? 0 : (hsize_t)n;
        return library->H5Screate_simple(1, &length, NULL);
    }
    return library->H5Scopy(
        transfer->mem_space == H5S_ALL ? file : transfer->mem_space);
}
