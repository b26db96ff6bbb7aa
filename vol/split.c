/* Cuts selections in the order of their values, which for hyperslabs is that of
 * the coordinates. So removing one hyperslab for each dimension leaves the
 * values before a position, or the values from it on. */
#include "vol/split.h"

#include <string.h>

/* The smallest box around the values of a space. */
struct bounds {
    int rank;
    hsize_t begin[H5S_MAX_RANK], last[H5S_MAX_RANK];
};

static bool
read_bounds(const struct vol_library *library, hid_t space,
            struct bounds *bounds)
{
    bounds->rank = library->H5Sget_simple_extent_ndims(space);
    return bounds->rank > 0 && bounds->rank <= H5S_MAX_RANK &&
           library->H5Sget_select_bounds(space, bounds->begin, bounds->last) >=
               0;
}

static uint64_t
count_of(const struct vol_library *library, hid_t space)
{
    const hssize_t n = library->H5Sget_select_npoints(space);

    return n < 0 ? 0 : (uint64_t)n;
}

/* Combines a selection with the box from `begin` to `last`. */
static bool
combine(const struct vol_library *library, hid_t space, H5S_seloper_t how,
        const struct bounds *box)
{
    hsize_t count[H5S_MAX_RANK];

    for (int d = 0; d < box->rank; d++)
        count[d] = box->last[d] - box->begin[d] + 1;
    return library->H5Sselect_hyperslab(space, how, box->begin, NULL, count,
                                        NULL) >= 0;
}

/* Counts the values in a box. */
static bool
count_in(const struct vol_library *library, hid_t space,
         const struct bounds *box, uint64_t *n_ret)
{
    const hid_t copy = library->H5Scopy(space);
    const bool good = copy >= 0 && combine(library, copy, H5S_SELECT_AND, box);

    *n_ret = good ? count_of(library, copy) : 0;
    if (copy >= 0)
        library->H5Sclose(copy);
    return good;
}

/* Finds the coordinate `at[d]` of a value, whose coordinates before d are
 * known. *n is the number of values before it that have these coordinates. */
static bool
find_coordinate(const struct vol_library *library, hid_t space,
                const struct bounds *bounds, int d, hsize_t *at, uint64_t *n)
{
    struct bounds box = *bounds;
    uint64_t nbefore = 0, k;

    for (int i = 0; i < d; i++)
        box.begin[i] = box.last[i] = at[i];
    at[d] = bounds->begin[d];
    for (hsize_t last = bounds->last[d]; at[d] < last;) {
        const hsize_t middle = at[d] + (last - at[d] + 1) / 2;
        box.last[d] = middle - 1;
        if (!count_in(library, space, &box, &k))
            return false;
        if (k <= *n) {
            at[d] = middle;
            nbefore = k;
        } else {
            last = middle - 1;
        }
    }
    *n -= nbefore;
    return true;
}

/* Finds the coordinates of value n. */
static bool
find_value(const struct vol_library *library, hid_t space,
           const struct bounds *bounds, uint64_t n, hsize_t *at)
{
    for (int d = 0; d < bounds->rank; d++)
        if (!find_coordinate(library, space, bounds, d, at, &n))
            return false;
    return true;
}

/* Removes the values from a position on, or else the values before it. */
static bool
keep(const struct vol_library *library, hid_t space,
     const struct bounds *bounds, const hsize_t *at, bool before)
{
    struct bounds box = *bounds;
    bool good = true;

    for (int d = 0; good && d < bounds->rank; d++) {
        const bool is_last = d == bounds->rank - 1;
        const bool any = before ? is_last || at[d] < bounds->last[d]
                                : at[d] > bounds->begin[d];
        box.begin[d] = before ? at[d] + !is_last : bounds->begin[d];
        box.last[d] = before ? bounds->last[d] : at[d] - 1;
        if (any)
            good = combine(library, space, H5S_SELECT_NOTB, &box);
        box.begin[d] = box.last[d] = at[d];
    }
    return good;
}

/* Copies the first n values, of more, of a space. */
static hid_t
copy_first(const struct vol_library *library, hid_t space, uint64_t n)
{
    struct bounds bounds;
    hsize_t at[H5S_MAX_RANK];

    if (!read_bounds(library, space, &bounds) ||
        !find_value(library, space, &bounds, n, at))
        return H5I_INVALID_HID;
    const hid_t first = library->H5Scopy(space);
    if (first >= 0 && !keep(library, first, &bounds, at, true)) {
        library->H5Sclose(first);
        return H5I_INVALID_HID;
    }
    return first;
}

static bool
remove_first(const struct vol_library *library, hid_t space, uint64_t n)
{
    struct bounds bounds;
    hsize_t at[H5S_MAX_RANK];

    return read_bounds(library, space, &bounds) &&
           find_value(library, space, &bounds, n, at) &&
           keep(library, space, &bounds, at, false);
}

/* ---- spaces of a transfer ---- */

/* Whether the bounds of a space tell its values' coordinates. H5Soffset_simple
 * moves the bounds of a hyperslab, but not the coordinates that hyperslabs are
 * combined by; and not the bounds of a whole space until it is a hyperslab. */
static bool
is_in_place(const struct vol_library *library, hid_t space)
{
    struct bounds before, after;
    const hid_t copy = library->H5Scopy(space);
    const bool is_same =
        copy >= 0 && read_bounds(library, copy, &before) &&
        combine(library, copy, H5S_SELECT_AND, &before) &&
        count_of(library, copy) == count_of(library, space) &&
        read_bounds(library, copy, &after) &&
        memcmp(before.begin, after.begin,
               (size_t)before.rank * sizeof *before.begin) == 0;

    if (copy >= 0)
        library->H5Sclose(copy);
    return is_same;
}

/* Whether the space can be cut: its values have the order of their coordinates,
 * and the coordinates are known. A scalar is one value. */
static bool
can_be_cut(const struct vol_library *library, hid_t space)
{
    const H5S_sel_type type = library->H5Sget_select_type(space);

    return (type == H5S_SEL_ALL || type == H5S_SEL_HYPERSLABS) &&
           library->H5Sselect_valid(space) > 0 &&
           (library->H5Sget_simple_extent_ndims(space) == 0 ||
            is_in_place(library, space));
}

static hsize_t
chunk_length_of(const struct vol_transfer *transfer)
{
    const struct vol_library *library = transfer->dataset->library;
    const hid_t dcpl =
        vol_dataset_id(transfer->dataset, VOL_DATASET_GET_DCPL, transfer->dxpl);
    hsize_t chunk[H5S_MAX_RANK] = {1};

    if (dcpl >= 0 && (library->H5Pget_layout(dcpl) != H5D_CHUNKED ||
                      library->H5Pget_chunk(dcpl, H5S_MAX_RANK, chunk) < 0))
        chunk[0] = 1;
    if (dcpl >= 0)
        library->H5Pclose(dcpl);
    return chunk[0];
}

bool
vol_split_open(const struct vol_transfer *transfer, struct vol_split *split)
{
    const struct vol_library *library = transfer->dataset->library;

    *split = (struct vol_split){.library = library,
                                .file = H5I_INVALID_HID,
                                .memory = H5I_INVALID_HID,
                                .value_nbytes =
                                    library->H5Tget_size(transfer->type)};
    if (transfer->mem_space == VOL_SPACE_PLIST ||
        transfer->file_space == VOL_SPACE_PLIST || split->value_nbytes == 0)
        return false;
    split->file = vol_selection_file_space(transfer);
    if (split->file >= 0)
        split->memory = vol_selection_memory_space(transfer, split->file);
    if (split->memory >= 0 && can_be_cut(library, split->file) &&
        can_be_cut(library, split->memory)) {
        split->nleft = count_of(library, split->file);
        split->chunk_length = chunk_length_of(transfer);
        if (split->nleft > 0 &&
            split->nleft == count_of(library, split->memory))
            return true;
    }
    vol_split_close(split);
    return false;
}

void
vol_split_close(struct vol_split *split)
{
    if (split->file >= 0)
        split->library->H5Sclose(split->file);
    if (split->memory >= 0)
        split->library->H5Sclose(split->memory);
}

/* ---- parts ---- */

/* Makes *n fewer, so that the part ends where chunks end. Leaves it as it is if
 * the part would be empty. */
static bool
end_with_chunks(const struct vol_split *split, uint64_t *n)
{
    const struct vol_library *library = split->library;
    struct bounds bounds, box;
    hsize_t at[H5S_MAX_RANK];
    uint64_t k;

    if (split->chunk_length <= 1 || *n >= split->nleft)
        return true;
    if (!read_bounds(library, split->file, &bounds) ||
        !find_value(library, split->file, &bounds, *n, at))
        return false;
    const hsize_t end = at[0] / split->chunk_length * split->chunk_length;
    if (end <= bounds.begin[0])
        return true;
    box = bounds;
    box.last[0] = end - 1;
    if (!count_in(library, split->file, &box, &k))
        return false;
    if (k > 0)
        *n = k;
    return true;
}

/* The first n values that are left. */
static hid_t
take_first(const struct vol_split *split, hid_t space, uint64_t n)
{
    return n < split->nleft ? copy_first(split->library, space, n)
                            : split->library->H5Scopy(space);
}

/* Finds the run of memory that holds the part's values. */
static bool
find_run(const struct vol_library *library, struct vol_part *part)
{
    hsize_t dims[H5S_MAX_RANK];
    struct bounds bounds;
    uint64_t begin = 0, last = 0;

    part->at = 0;
    part->nvalues = 1;
    if (library->H5Sget_simple_extent_ndims(part->memory) == 0)
        return true;
    if (!read_bounds(library, part->memory, &bounds) ||
        library->H5Sget_simple_extent_dims(part->memory, dims, NULL) < 0)
        return false;
    for (int d = 0; d < bounds.rank; d++) {
        begin = begin * dims[d] + bounds.begin[d];
        last = last * dims[d] + bounds.last[d];
    }
    part->at = begin;
    part->nvalues = last - begin + 1;
    return true;
}

/* Chooses the part's values in memory. */
static bool
choose_memory(const struct vol_split *split, uint64_t cap_nvalues,
              struct vol_part *part, uint64_t *n)
{
    for (*n = cap_nvalues < split->nleft ? cap_nvalues : split->nleft;;) {
        if (!end_with_chunks(split, n))
            return false;
        part->memory = take_first(split, split->memory, *n);
        if (part->memory < 0 || !find_run(split->library, part))
            return false;
        if (part->nvalues <= cap_nvalues || *n == 1)
            return true;
        split->library->H5Sclose(part->memory);
        part->memory = H5I_INVALID_HID;
        *n /= 2;
    }
}

/* Whether the part has n values and the rest of the selection has all others.
 * HDF5 1.10.8 combines some unions of hyperslabs wrongly. */
static bool
is_right(const struct vol_split *split, const struct vol_part *part, uint64_t n)
{
    const struct vol_library *library = split->library;

    return count_of(library, part->file) == n &&
           count_of(library, part->memory) == n &&
           count_of(library, split->file) == split->nleft - n &&
           count_of(library, split->memory) == split->nleft - n;
}

bool
vol_split_next(struct vol_split *split, uint64_t cap_nbytes,
               struct vol_part *part)
{
    const struct vol_library *library = split->library;
    const uint64_t cap_nvalues = cap_nbytes / split->value_nbytes;
    uint64_t n;

    *part =
        (struct vol_part){.file = H5I_INVALID_HID, .memory = H5I_INVALID_HID};
    bool good =
        choose_memory(split, cap_nvalues > 0 ? cap_nvalues : 1, part, &n);
    if (good)
        part->file = take_first(split, split->file, n);
    good = good && part->file >= 0 &&
           (n == split->nleft || (remove_first(library, split->file, n) &&
                                  remove_first(library, split->memory, n) &&
                                  is_right(split, part, n)));
    split->nleft -= good ? n : 0;
    if (!good)
        vol_part_close(split, part);
    return good;
}

void
vol_part_close(const struct vol_split *split, const struct vol_part *part)
{
    if (part->file >= 0)
        split->library->H5Sclose(part->file);
    if (part->memory >= 0)
        split->library->H5Sclose(part->memory);
}
