/* terp preview: translates regions of datasets to the values that a preview
 * keeps. */
#include "tools/repack/regions.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "codec/format/base.h"
#include "tools/common/h5file.h"

/* Regions of more blocks become null references: HDF5 takes time for each block
 * that joins a selection. */
#define MAX_NBLOCKS 4096

/* Selects the kept points in `out`. */
static bool
select_points(hid_t in, hid_t out, int rank, uint64_t step)
{
    const hssize_t npoints = H5Sget_select_elem_npoints(in);
    const size_t n = (size_t)rank;
    hsize_t *points = NULL;
    size_t nleft = 0;

    if (npoints > 0)
        points = calloc((size_t)npoints * n, sizeof *points);
    if (points == NULL ||
        H5Sget_select_elem_pointlist(in, 0, (hsize_t)npoints, points) < 0) {
        free(points);
        return false;
    }
    for (size_t i = 0; i < (size_t)npoints; i++) {
        bool is_left = true;
        for (size_t d = 0; d < n; d++) {
            is_left &= points[i * n + d] % step == 0;
            points[nleft * n + d] = points[i * n + d] / step;
        }
        nleft += is_left;
    }
    const bool ok = nleft == 0 ||
                    H5Sselect_elements(out, H5S_SELECT_SET, nleft, points) >= 0;
    free(points);
    return ok;
}

/* Adds the kept values of a block, from `first` to `last`. */
static bool
select_block(hid_t out, int rank, uint64_t step, const hsize_t *first,
             const hsize_t *last)
{
    hsize_t at[H5S_MAX_RANK], count[H5S_MAX_RANK];

    for (int d = 0; d < rank; d++) {
        at[d] = div_up(first[d], step);
        if (at[d] > last[d] / step)
            return true;
        count[d] = last[d] / step - at[d] + 1;
    }
    return H5Sselect_hyperslab(out, H5S_SELECT_OR, at, NULL, count, NULL) >= 0;
}

static bool
select_blocks(hid_t in, hid_t out, int rank, uint64_t step)
{
    const hssize_t nblocks = H5Sget_select_hyper_nblocks(in);
    const size_t n = (size_t)rank;
    hsize_t *blocks = NULL;

    if (nblocks > 0 && nblocks <= MAX_NBLOCKS)
        blocks = calloc(2 * (size_t)nblocks * n, sizeof *blocks);
    bool ok = blocks != NULL && H5Sget_select_hyper_blocklist(
                                    in, 0, (hsize_t)nblocks, blocks) >= 0;
    for (size_t i = 0; ok && i < (size_t)nblocks; i++)
        ok = select_block(out, rank, step, blocks + 2 * i * n,
                          blocks + (2 * i + 1) * n);
    free(blocks);
    return ok;
}

static bool
have_same_dims(hid_t one, hid_t other)
{
    hsize_t dims[H5S_MAX_RANK] = {0}, others[H5S_MAX_RANK] = {0};

    H5Sget_simple_extent_dims(one, dims, NULL);
    H5Sget_simple_extent_dims(other, others, NULL);
    return memcmp(dims, others, sizeof dims) == 0;
}

hid_t
repack_region(hid_t in, hid_t target, uint64_t step)
{
    const int rank = H5Sget_simple_extent_ndims(in);
    const H5S_sel_type kind = H5Sget_select_type(in);
    hid_t out = H5Dget_space(target);

    if (out < 0 || kind == H5S_SEL_ALL)
        return out;
    if (have_same_dims(in, out)) { /* all values are kept */
        H5Sclose(out);
        return H5Scopy(in);
    }
    bool ok = H5Sselect_none(out) >= 0;
    if (kind == H5S_SEL_POINTS)
        ok = ok && select_points(in, out, rank, step);
    else if (kind == H5S_SEL_HYPERSLABS)
        ok = ok && select_blocks(in, out, rank, step);
    if (!ok) {
        H5Sclose(out);
        out = -1;
    }
    return out;
}
