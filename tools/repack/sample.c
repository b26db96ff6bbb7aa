/* terp preview: reads every step-th value and writes it with shuffle and
 * deflate, which any HDF5 reads. Of terp's chunks it decodes only the coarse
 * levels. */
#include "tools/repack/sample.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/format/base.h"
#include "filter/h5/terp_h5.h"
#include "tools/common/chunk_shape.h"
#include "tools/common/h5file.h"
#include "tools/common/limit.h"
#include "tools/common/stored.h"
#include "tools/repack/dataset_list.h"
#include "tools/repack/split.h"
#include "tools/repack/types.h"

/* Limit of the values in memory at a time; one row of the slowest dimension may
 * have more. */
#define SLAB_NBYTES ((uint64_t)256 << 20)

/* The limit for datasets of which few chunks are stored. Smaller boxes skip
 * more of the chunks that were never written. */
#define SPARSE_BOX_NBYTES ((uint64_t)16 << 20)

/* Smaller datasets stay contiguous: chunks and filters cost more than they
 * save. DEFLATE_LEVEL 1: deflate takes most of preview's time, and higher
 * levels take more and save a percent. */
#define DEFLATE_MIN_NBYTES 1024
#define DEFLATE_LEVEL 1

static bool
has_strings(hid_t type)
{
    return H5Tdetect_class(type, H5T_STRING) > 0;
}

static bool
may_be_sampled(const struct tool_dataset *dataset)
{
    const bool is_string = H5Tget_class(dataset->type) == H5T_STRING;

    return dataset->rank > 0 &&
           H5Tdetect_class(dataset->type, H5T_REFERENCE) <= 0 &&
           (is_string || H5Tdetect_class(dataset->type, H5T_VLEN) <= 0) &&
           (is_string || !has_strings(dataset->type));
}

bool
repack_is_sampled(hid_t in)
{
    struct tool_dataset dataset;

    if (!tool_dataset_of(in, &dataset))
        return false;
    const bool is_sampled = may_be_sampled(&dataset);
    tool_dataset_close(&dataset);
    return is_sampled;
}

/* ---- the new dataset ---- */

/* The dataset that a preview creates. */
struct sample {
    const struct tool_dataset *in;
    uint64_t step;
    hsize_t dims[H5S_MAX_RANK];
    uint64_t nvalues;
    bool may_grow; /* its maximum size exceeds its size */
};

/* The dataspace. Unlimited dims stay unlimited. */
static hid_t
make_space(struct sample *sample)
{
    const int rank = sample->in->rank;
    hsize_t max_dims[H5S_MAX_RANK];

    if (H5Sget_simple_extent_dims(sample->in->space, NULL, max_dims) < 0)
        return -1;
    sample->nvalues = 1;
    sample->may_grow = false;
    for (int d = 0; d < rank; d++) {
        sample->dims[d] = div_up(sample->in->dims[d], sample->step);
        sample->nvalues *= sample->dims[d];
        if (max_dims[d] != H5S_UNLIMITED)
            max_dims[d] = div_up(max_dims[d], sample->step);
        if (max_dims[d] != sample->dims[d])
            sample->may_grow = true;
    }
    return H5Screate_simple(rank, sample->dims, max_dims);
}

static bool
set_chunks(const struct sample *sample, hid_t dcpl)
{
    const struct tool_dataset *in = sample->in;
    const bool is_small =
        sample->nvalues * in->value_nbytes < DEFLATE_MIN_NBYTES;
    hsize_t dims[H5S_MAX_RANK], chunk[H5S_MAX_RANK];

    if (is_small && !sample->may_grow)
        return true;
    for (int d = 0; d < in->rank; d++)
        dims[d] = sample->dims[d] > 0 ? sample->dims[d] : 1;
    tool_chunk_shape(in->rank, dims, chunk);
    return H5Pset_chunk(dcpl, in->rank, chunk) >= 0 &&
           (H5Tis_variable_str(in->type) > 0 || is_small ||
            H5Zfilter_avail(H5Z_FILTER_DEFLATE) <= 0 ||
            (H5Pset_shuffle(dcpl) >= 0 &&
             H5Pset_deflate(dcpl, DEFLATE_LEVEL) >= 0));
}

static hid_t
make_dcpl(struct repack *repack, const char *path, const struct sample *sample)
{
    hid_t dcpl = repack_dataset_list(repack, path, sample->in,
                                     REPACK_LIST_WITHOUT_STORAGE);

    if (dcpl >= 0 && !set_chunks(sample, dcpl)) {
        H5Pclose(dcpl);
        dcpl = -1;
    }
    return dcpl;
}

/* ---- values ---- */

/* Rows of the slowest dimension to sample at a time: whole chunks, so that each
 * is decoded once. */
static hsize_t
count_rows(const struct sample *sample)
{
    const uint64_t row_nbytes =
        sample->nvalues / sample->dims[0] * sample->in->value_nbytes;
    const hsize_t per_chunk =
        sample->in->chunked ? sample->in->chunk_dims[0] / sample->step : 1;
    hsize_t nrows = min_u64(SLAB_NBYTES / row_nbytes, sample->dims[0]);

    if (per_chunk > 1)
        nrows = div_up(nrows, per_chunk) * per_chunk;
    return nrows > 0 ? nrows : 1;
}

static bool
write_rows(const struct sample *sample, hid_t out, const hsize_t *at,
           const hsize_t *count, void *values)
{
    const hid_t type = sample->in->type;
    hid_t space = H5Dget_space(out);
    hid_t memory = H5Screate_simple(sample->in->rank, count, NULL);
    const bool ok =
        space >= 0 && memory >= 0 &&
        H5Sselect_hyperslab(space, H5S_SELECT_SET, at, NULL, count, NULL) >=
            0 &&
        H5Dwrite(out, type, memory, space, H5P_DEFAULT, values) >= 0;

    if (memory >= 0 && H5Tis_variable_str(type) > 0)
        H5Dvlen_reclaim(type, memory, H5P_DEFAULT, values);
    tool_close(space);
    tool_close(memory);
    return ok;
}

/* The boxes to sample at a time: slabs of rows, or boxes of few chunks where
 * few chunks are stored. *has_chunks_ret then tells for each box whether it has
 * stored chunks; NULL: all boxes count. Free it. */
static struct tool_grid
find_boxes(const struct sample *sample, bool **has_chunks_ret)
{
    const struct tool_dataset *in = sample->in;
    hsize_t step[H5S_MAX_RANK];

    *has_chunks_ret = NULL;
    if (in->chunked) {
        const struct tool_grid few =
            repack_stored_grid(in, SPARSE_BOX_NBYTES, has_chunks_ret);
        if (*has_chunks_ret != NULL)
            return few;
    }
    memcpy(step, in->dims, sizeof step);
    step[0] = count_rows(sample) * sample->step;
    return tool_grid_of(in, step);
}

/* The largest number of values that a box keeps. */
static uint64_t
count_values(const struct sample *sample, const struct tool_grid *grid)
{
    uint64_t nvalues = 1;

    for (int d = 0; d < grid->rank; d++)
        nvalues *= div_up(min_u64(grid->step[d], grid->dims[d]), sample->step);
    return nvalues;
}

/* Samples one box. */
static enum terp_status
copy_box(const struct terp_run_options *run, const struct sample *sample,
         const struct tool_grid *box, hid_t out, void *values)
{
    hsize_t stride[H5S_MAX_RANK], offset[H5S_MAX_RANK];
    hsize_t at[H5S_MAX_RANK], count[H5S_MAX_RANK];

    for (int d = 0; d < box->rank; d++) {
        at[d] = div_up(box->at[d], sample->step);
        count[d] = div_up(box->at[d] + box->count[d], sample->step) - at[d];
        if (count[d] == 0)
            return TERP_OK;
        stride[d] = sample->step;
        offset[d] = at[d] * sample->step;
    }
    const enum terp_status st = terp_h5_read_strided(
        run, sample->in->id, offset, stride, count, values, NULL);
    return st == TERP_OK && !write_rows(sample, out, at, count, values)
               ? TERP_ERR_HDF5
               : st;
}

static bool
copy_sample(struct repack *repack, const struct repack_object *object,
            const struct sample *sample, hid_t out)
{
    const struct terp_run_options run = {.size = sizeof run,
                                         .nthreads = repack->request.nthreads};
    enum terp_status st = TERP_OK;
    bool *has_chunks;

    struct tool_grid grid = find_boxes(sample, &has_chunks);
    void *values =
        calloc(count_values(sample, &grid), sample->in->value_nbytes);
    if (values == NULL)
        st = TERP_ERR_MEMORY;
    while (st == TERP_OK && tool_stored_next_box(has_chunks, &grid))
        st = copy_box(&run, sample, &grid, out, values);
    free(has_chunks);
    free(values);
    return st == TERP_OK ||
           (st == TERP_ERR_HDF5 ? repack_fail(repack, object->path, NULL)
                                : repack_fail(repack, object->path, "%s",
                                              terp_status_text(st)));
}

static bool
is_within_limits(struct repack *repack, const struct repack_object *object,
                 const struct tool_dataset *in)
{
    char reason[512];

    return tool_limit_take(in, TOOL_LIMIT_ALL, reason, sizeof reason) ||
           repack_fail(repack, object->path, "%s", reason);
}

hid_t
repack_sample(struct repack *repack, const struct repack_object *object,
              hid_t in, hid_t parent, const char *name, hid_t lcpl)
{
    struct sample sample = {.step =
                                object->plan.whole ? 1 : repack->request.step};
    hid_t space = -1, dcpl = -1, dapl = -1, type = -1, out = -1;
    struct tool_dataset dataset;

    if (!tool_dataset_of(in, &dataset))
        return -1;
    sample.in = &dataset;
    space = make_space(&sample);
    dcpl = space < 0 ? -1 : make_dcpl(repack, object->path, &sample);
    type = dcpl < 0 ? -1 : repack_type(repack, object->path, dataset.type);
    if (type >= 0)
        dapl = repack_access_list(dcpl, space, type);
    if (dapl >= 0)
        out = H5Dcreate2(parent, name, type, space, lcpl, dcpl, dapl);
    /* Without storage, all values are the fill value in both files; values of a
     * virtual dataset are in other files. */
    const bool may_have_values = H5Dget_storage_size(in) > 0 ||
                                 H5Pget_layout(dataset.dcpl) == H5D_VIRTUAL;
    if (out >= 0 && sample.nvalues > 0 && may_have_values &&
        (!is_within_limits(repack, object, &dataset) ||
         !copy_sample(repack, object, &sample, out) || !repack_flush(out))) {
        H5Dclose(out);
        out = -1;
    }
    tool_close(space);
    tool_close(dapl);
    tool_close(dcpl);
    tool_close(type);
    tool_dataset_close(&dataset);
    return out;
}

/* ---- attributes ---- */

/* openPMD: the distance of a mesh's values, for each dimension. The order of
 * dimensions does not matter here. */
static bool
scale_spacing(hid_t out, uint64_t step)
{
    double values[H5S_MAX_RANK];
    hid_t attribute = -1, type = -1, space = -1;
    bool ok = true;

    if (H5Aexists(out, "gridSpacing") <= 0)
        return true;
    attribute = H5Aopen(out, "gridSpacing", H5P_DEFAULT);
    type = H5Aget_type(attribute);
    space = H5Aget_space(attribute);
    const hssize_t n = space < 0 ? 0 : H5Sget_simple_extent_npoints(space);
    if (type >= 0 && H5Tget_class(type) == H5T_FLOAT && n > 0 &&
        n <= H5S_MAX_RANK) {
        ok = H5Aread(attribute, H5T_NATIVE_DOUBLE, values) >= 0;
        for (hssize_t i = 0; i < n; i++)
            values[i] *= (double)step;
        ok = ok && H5Awrite(attribute, H5T_NATIVE_DOUBLE, values) >= 0;
    }
    tool_close(attribute);
    tool_close(type);
    tool_close(space);
    return ok;
}

/* netCDF: the NAME of a dimension without variable ends in its length, ten
 * digits wide. */
static bool
count_dimension(hid_t out)
{
    static const char begin[] =
        "This is a netCDF dimension but not a netCDF variable.";
    char text[sizeof begin + 32] = "";
    hid_t attribute = -1, type = -1, space = -1;
    hsize_t dims[H5S_MAX_RANK];
    bool ok = true;

    if (H5Iget_type(out) != H5I_DATASET || H5Aexists(out, "NAME") <= 0)
        return true;
    attribute = H5Aopen(out, "NAME", H5P_DEFAULT);
    type = H5Aget_type(attribute);
    space = H5Dget_space(out);
    const size_t nbytes = H5Tget_size(type);
    if (H5Tget_class(type) == H5T_STRING && H5Tis_variable_str(type) <= 0 &&
        nbytes >= sizeof begin + 10 && nbytes <= sizeof text &&
        H5Sget_simple_extent_ndims(space) == 1 &&
        H5Aread(attribute, type, text) >= 0 &&
        strncmp(text, begin, sizeof begin - 1) == 0) {
        ok = H5Sget_simple_extent_dims(space, dims, NULL) >= 0;
        snprintf(text + sizeof begin - 1, sizeof text - sizeof begin, "%10llu",
                 (unsigned long long)dims[0]);
        ok = ok && H5Awrite(attribute, type, text) >= 0;
    }
    tool_close(attribute);
    tool_close(type);
    tool_close(space);
    return ok;
}

bool
repack_sample_attributes(struct repack *repack, const char *path, hid_t out)
{
    return (scale_spacing(out, repack->request.step) && count_dimension(out)) ||
           repack_fail(repack, path, NULL);
}
