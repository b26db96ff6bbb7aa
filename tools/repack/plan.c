/* terp repack: chooses whether a dataset is compressed, by which bound and in
 * which chunks. */
#include "tools/repack/plan.h"

#include <stdio.h>
#include <string.h>

#include "codec/format/base.h"
#include "tools/common/chunk_shape.h"
#include "tools/repack/split.h"

/* A unit of chunks (struct repack_plan) has at most so many bytes, unless one
 * chunk has more. */
#define UNIT_NBYTES ((uint64_t)256 << 20)

const char *
repack_obstacle(hid_t dataset)
{
    hid_t type = H5Dget_type(dataset), space = H5Dget_space(dataset);
    hid_t dcpl = H5Dget_create_plist(dataset);
    const char *obstacle = NULL;

    if (type < 0 || space < 0 || dcpl < 0)
        obstacle = "HDF5 does not tell what it is";
    else if (tool_type(type) == TERP_BYTES)
        obstacle = "not float32 or float64";
    else if (H5Sget_simple_extent_ndims(space) == 0)
        obstacle = "no array";
    else if (H5Sget_simple_extent_npoints(space) <= 0)
        obstacle = "no values";
    else if (H5Pget_layout(dcpl) == H5D_VIRTUAL)
        obstacle = "virtual";
    else if (H5Pget_external_count(dcpl) > 0)
        obstacle = "in external files";
    tool_close(type);
    tool_close(space);
    tool_close(dcpl);
    return obstacle;
}

/* Whether the dataset holds coordinates of others. HDF5's dimension scales and
 * netCDF mark such datasets alike. */
static bool
is_scale(hid_t dataset)
{
    static const char mark[] = "DIMENSION_SCALE";
    char text[sizeof mark] = {0};
    bool scale = false;

    if (H5Aexists(dataset, "CLASS") <= 0)
        return false;
    hid_t attribute = H5Aopen(dataset, "CLASS", H5P_DEFAULT);
    hid_t type = attribute >= 0 ? H5Aget_type(attribute) : -1;
    if (type >= 0 && H5Tget_class(type) == H5T_STRING &&
        H5Tis_variable_str(type) == 0 && H5Tget_size(type) <= sizeof text &&
        H5Aread(attribute, type, text) >= 0)
        scale = strncmp(text, mark, sizeof text) == 0;
    tool_close(type);
    tool_close(attribute);
    return scale;
}

static void
plan_chunks(const struct repack_request *request, hid_t dcpl, int rank,
            const hsize_t *dims, const hsize_t *max_dims, hsize_t *chunk_dims)
{
    const struct tool_shape *given = &request->chunk;

    if ((int)given->rank == rank)
        for (int i = 0; i < rank; i++)
            chunk_dims[i] = given->dims[i];
    else if (request->chunk_auto || H5Pget_layout(dcpl) != H5D_CHUNKED)
        tool_chunk_shape(rank, dims, chunk_dims);
    else
        H5Pget_chunk(dcpl, rank, chunk_dims);
    /* HDF5 refuses chunks that are longer than a dim, unless that can grow. */
    for (int i = 0; i < rank; i++)
        if (dims[i] == max_dims[i] && chunk_dims[i] > dims[i])
            chunk_dims[i] = dims[i];
}

/* A unit is the fewest chunks of the output that cover a chunk of the input.
 * Parts are whole units, so that most chunks of the input are decoded once.
 * Where a unit would be too large, it is one chunk. */
static void
plan_unit(hid_t dcpl, int rank, const hsize_t *dims, uint64_t value_nbytes,
          struct repack_plan *plan)
{
    hsize_t in_chunk[H5S_MAX_RANK];
    uint64_t nbytes = value_nbytes;

    memcpy(plan->unit_dims, plan->chunk_dims, sizeof plan->unit_dims);
    if (H5Pget_layout(dcpl) != H5D_CHUNKED ||
        H5Pget_chunk(dcpl, rank, in_chunk) != rank)
        return;
    for (int i = 0; i < rank; i++) {
        hsize_t chunk = plan->chunk_dims[i];
        in_chunk[i] = min_u64(in_chunk[i], dims[i]);
        plan->unit_dims[i] = div_up(in_chunk[i], chunk) * chunk;
        if (plan->unit_dims[i] > UNIT_NBYTES / nbytes) {
            memcpy(plan->unit_dims, plan->chunk_dims, sizeof plan->unit_dims);
            return;
        }
        nbytes *= plan->unit_dims[i];
    }
}

/* The chunks of a level follow its boxes, whatever --chunk asks for. */
static void
plan_level(hid_t file, const char *path, struct repack_plan *plan)
{
    const char *reason;

    plan->level = amrex_level_open(file, path, &reason);
    if (plan->level != NULL)
        plan->chunk_dims[0] = plan->level->chunk_nvalues;
    else if (reason != NULL)
        fprintf(stderr, "terp repack: %s: not taken box by box: %s\n", path,
                reason);
}

bool
repack_plan(struct repack *repack, struct repack_object *object,
            uint64_t *total_nbytes)
{
    const struct repack_request *request = &repack->request;
    struct repack_plan *plan = &object->plan;
    hsize_t dims[H5S_MAX_RANK], max_dims[H5S_MAX_RANK];
    struct repack_split split;
    hid_t space = -1, dcpl = -1;
    hid_t dataset = H5Oopen_by_addr(repack->in, object->address);

    if (dataset < 0)
        return repack_fail(repack, object->path, NULL);
    plan->bound = object->rule != NULL ? object->rule->bound : request->bound;
    plan->reason = repack_obstacle(dataset);
    if (plan->reason == NULL && plan->bound.mode == REPACK_KEEP)
        plan->reason = "not asked for";
    if (plan->reason != NULL)
        goto out;
    space = H5Dget_space(dataset);
    dcpl = H5Dget_create_plist(dataset);
    int rank = H5Sget_simple_extent_dims(space, dims, max_dims);
    uint64_t nvalues = (uint64_t)H5Sget_simple_extent_npoints(space);
    if (object->rule == NULL && nvalues < TOOL_MIN_NVALUES)
        plan->reason = "few values";
    else if (object->rule == NULL && is_scale(dataset))
        plan->reason = "a dimension scale";
    if (plan->reason != NULL)
        goto out;
    plan_chunks(request, dcpl, rank, dims, max_dims, plan->chunk_dims);
    if (request->amrex)
        plan_level(repack->in, object->path, plan);

    /* Where the values do not all fit into memory, they are read once for the
     * range and once to be coded. */
    hid_t type = H5Dget_type(dataset);
    uint64_t value_nbytes = H5Tget_size(type);
    H5Tclose(type);
    plan_unit(dcpl, rank, dims, value_nbytes, plan);
    repack_split(request, rank, dims, plan->unit_dims, value_nbytes, false,
                 &split);
    bool twice = plan->bound.mode == REPACK_REL && split.nparts > split.nslots;
    if (H5Dget_storage_size(dataset) > 0)
        *total_nbytes += nvalues * value_nbytes * (twice ? 2 : 1);
out:
    if (plan->reason != NULL)
        plan->bound.mode = REPACK_KEEP;
    tool_close(dcpl);
    tool_close(space);
    H5Oclose(dataset);
    return true;
}
