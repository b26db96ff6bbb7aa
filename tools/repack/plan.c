/* terp repack: chooses whether a dataset is compressed, by which bound and in
 * which chunks. */
#include "tools/repack/plan.h"

#include <stdio.h>
#include <string.h>

#include "codec/format/types.h"
#include "tools/common/chunk_shape.h"
#include "tools/common/text.h"

/* A unit of chunks (struct repack_plan) has at most so many bytes, unless one
 * chunk has more. */
#define UNIT_NBYTES ((uint64_t)256 << 20)

const char *
repack_obstacle(hid_t id)
{
    struct tool_dataset dataset;
    const char *obstacle = NULL;

    if (!tool_dataset_of(id, &dataset))
        return "HDF5 does not tell what it is";
    if (tool_coded_type(dataset.type) == TERP_BYTES)
        obstacle = "no numbers that terp knows";
    else if (dataset.rank == 0)
        obstacle = "no array";
    else if (dataset.nvalues == 0)
        obstacle = "no values";
    else if (H5Pget_layout(dataset.dcpl) == H5D_VIRTUAL)
        obstacle = "virtual";
    else if (H5Pget_external_count(dataset.dcpl) > 0)
        obstacle = "in external files";
    tool_dataset_close(&dataset);
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
plan_chunks(const struct repack_request *request,
            const struct tool_dataset *dataset, hsize_t *chunk_dims)
{
    const struct tool_shape *given = &request->chunk;
    const hsize_t *dims = dataset->dims;
    hsize_t max_dims[H5S_MAX_RANK];

    if ((int)given->rank == dataset->rank)
        for (int i = 0; i < dataset->rank; i++)
            chunk_dims[i] = given->dims[i];
    else if (request->chunk_auto || !dataset->chunked)
        tool_chunk_shape(dataset->rank, dims, chunk_dims);
    else
        memcpy(chunk_dims, dataset->chunk_dims, sizeof dataset->chunk_dims);
    /* HDF5 refuses chunks that are longer than a dim, unless that can grow. */
    H5Sget_simple_extent_dims(dataset->space, NULL, max_dims);
    for (int i = 0; i < dataset->rank; i++)
        if (dims[i] == max_dims[i] && chunk_dims[i] > dims[i])
            chunk_dims[i] = dims[i];
}

/* A unit is the fewest chunks of the output that cover a chunk of the input.
 * Parts are whole units, so that most chunks of the input are decoded once.
 * Where a unit would be too large, it is one chunk. */
static void
plan_unit(const struct tool_dataset *dataset, struct repack_plan *plan)
{
    uint64_t nbytes = dataset->value_nbytes;

    memcpy(plan->unit_dims, plan->chunk_dims, sizeof plan->unit_dims);
    for (int i = 0; dataset->chunked && i < dataset->rank; i++) {
        hsize_t in_chunk = min_u64(dataset->chunk_dims[i], dataset->dims[i]);
        hsize_t chunk = plan->chunk_dims[i];
        plan->unit_dims[i] = div_up(in_chunk, chunk) * chunk;
        if (plan->unit_dims[i] > UNIT_NBYTES / nbytes) {
            memcpy(plan->unit_dims, plan->chunk_dims, sizeof plan->unit_dims);
            return;
        }
        nbytes *= plan->unit_dims[i];
    }
}

/* The chunks of a level follow its boxes, whatever --chunk asks for. */
static void
plan_level(hid_t file, const char *path, const struct tool_dataset *dataset,
           struct repack_plan *plan)
{
    const char *reason;

    plan->level = amrex_level_open(file, path, dataset, &reason);
    if (plan->level != NULL)
        plan->chunk_dims[0] = plan->level->chunk_nvalues;
    else if (reason != NULL)
        fprintf(stderr, "terp repack: %s: not taken box by box: %s\n",
                tool_shown(path), tool_shown(reason));
}

bool
repack_plan(struct repack *repack, struct repack_object *object,
            uint64_t *total_nbytes)
{
    const struct repack_request *request = &repack->request;
    struct repack_plan *plan = &object->plan;
    struct tool_dataset dataset;

    if (!tool_dataset_open(repack->in, object->path, &dataset))
        return repack_fail(repack, object->path, NULL);
    plan->bound = object->rule != NULL ? object->rule->bound : request->bound;
    /* Counts, flags and identifiers stay what they are, unless they are named.
     */
    if (object->rule == NULL && plan->bound.mode != REPACK_KEEP &&
        terp_type_is_integer(tool_coded_type(dataset.type)))
        plan->bound = (struct repack_bound){.mode = REPACK_ABS};
    plan->unwanted = plan->bound.mode == REPACK_KEEP;
    if (plan->reason == NULL && plan->unwanted)
        plan->reason = "not asked for";
    else if (plan->reason == NULL && object->rule == NULL &&
             dataset.nvalues < TOOL_MIN_NVALUES)
        plan->reason = "few values";
    else if (plan->reason == NULL && object->rule == NULL &&
             is_scale(dataset.id))
        plan->reason = "a dimension scale";
    if (plan->reason != NULL) {
        plan->bound.mode = REPACK_KEEP;
        goto out;
    }
    plan_chunks(request, &dataset, plan->chunk_dims);
    if (request->amrex)
        plan_level(repack->in, object->path, &dataset, plan);

    plan_unit(&dataset, plan);
    if (H5Dget_storage_size(dataset.id) > 0)
        *total_nbytes += dataset.nvalues * dataset.value_nbytes;
out:
    tool_dataset_close(&dataset);
    return true;
}
