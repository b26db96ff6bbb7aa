/* terp repack: decides whether to compress a dataset, with which bound and in
 * which chunks. */
#include "tools/repack/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/format/types.h"
#include "tools/common/attribute.h"
#include "tools/common/chunk_shape.h"
#include "tools/common/line_chunk.h"
#include "tools/common/members.h"
#include "tools/common/text.h"
#include "tools/repack/mask.h"

/* Maximum size of a unit (struct repack_plan) of several chunks. Slabs are
 * whole units, and a slab is in memory up to three times (split.c). */
#define UNIT_NBYTES ((uint64_t)256 << 20)

const char *
repack_obstacle(hid_t id)
{
    struct tool_dataset dataset;
    const char *obstacle = NULL;

    if (!tool_dataset_of(id, &dataset))
        return "HDF5 cannot read its type or shape";
    if (tool_coded_type(dataset.type) == TERP_BYTES &&
        !tool_is_by_member(dataset.type, NULL))
        obstacle = "terp does not compress its type";
    else if (dataset.rank == 0)
        obstacle = "a scalar";
    else if (dataset.nvalues == 0)
        obstacle = "empty";
    else if (H5Pget_layout(dataset.dcpl) == H5D_VIRTUAL)
        obstacle = "a virtual dataset";
    else if (H5Pget_external_count(dataset.dcpl) > 0)
        obstacle = "in external files";
    tool_dataset_close(&dataset);
    return obstacle;
}

static bool
has_class(hid_t dataset, const char *name)
{
    char *class = tool_attribute_text(dataset, "CLASS");
    const bool has = class != NULL && strcmp(class, name) == 0;

    free(class);
    return has;
}

/* Whether the dataset is a dimension scale. HDF5 and netCDF mark scales alike.
 */
static bool
is_scale(hid_t dataset)
{
    return has_class(dataset, "DIMENSION_SCALE");
}

/* Whether the dataset belongs to an index of PyTables, which finds rows of a
 * table by the exact values of a column. */
static bool
is_index(hid_t dataset)
{
    return has_class(dataset, "INDEXARRAY") ||
           has_class(dataset, "CACHEARRAY") ||
           has_class(dataset, "LASTROWARRAY");
}

/* ---- coordinates ---- */

static bool
is_lossy(const struct repack_bound *bound)
{
    return bound->mode != REPACK_KEEP &&
           !(bound->mode == REPACK_ABS && bound->number == 0);
}

bool
repack_note_coordinates(struct repack *repack, hid_t id, const char *path)
{
    if (!is_lossy(&repack->request.bound))
        return true;
    if (repack->coordinates == NULL)
        repack->coordinates = tool_coordinates_new();
    return (repack->coordinates != NULL &&
            tool_coordinates_note(repack->coordinates, id, path)) ||
           repack_fail(repack, path, "not enough memory");
}

static const struct repack_bound lossless = {.mode = REPACK_ABS,
                                             .kind = "lossless"};

/* Notes which members of compound values the user has named. Returns their
 * number. */
static int
note_members(struct repack_request *request, const struct tool_dataset *dataset)
{
    int n = 0;

    for (int i = 0; i < request->nmembers; i++)
        if (tool_is_by_member(dataset->type, request->members[i].name)) {
            struct repack_member *member = &request->members[i];
            member->used = true;
            member->takes_bound |=
                !is_lossy(&member->bound) ||
                tool_member_has_numbers(dataset->type, member->name);
            n++;
        }
    return n;
}

/* Tables hold times, positions and other values that few people want changed,
 * so compound values stay lossless but for named members. */
static void
plan_compound(struct repack *repack, const struct tool_dataset *dataset,
              struct repack_plan *plan)
{
    const int nnamed = note_members(&repack->request, dataset);

    plan->spared = is_lossy(&plan->bound) && nnamed == 0;
    if (is_lossy(&plan->bound) || nnamed > 0)
        plan->bound = lossless;
}

/* Integers (counts, flags, identifiers), compound values and coordinates stay
 * lossless unless a rule names them. */
static void
plan_bound(struct repack *repack, const struct repack_object *object,
           const struct tool_dataset *dataset, struct repack_plan *plan)
{
    plan->bound =
        object->rule != NULL ? object->rule->bound : repack->request.bound;
    if (tool_is_by_member(dataset->type, NULL)) {
        if (object->rule == NULL)
            plan_compound(repack, dataset, plan);
        else if (plan->bound.mode != REPACK_KEEP)
            note_members(&repack->request, dataset);
        return;
    }
    if (object->rule != NULL || !is_lossy(&plan->bound))
        return;
    const bool is_integer =
        terp_type_is_integer(tool_coded_type(dataset->type));
    if (repack->coordinates != NULL && !is_integer)
        plan->coordinate =
            tool_coordinates_kind(repack->coordinates, dataset->id);
    if (plan->coordinate == NULL && !is_integer && is_index(dataset->id))
        plan->coordinate = "index of a table";
    if (plan->coordinate != NULL || is_integer)
        plan->bound = lossless;
}

/* This many names fill a line of the message. */
#define MAX_NNAMED 6

/* Names datasets that stay lossless: compound values (`spared`), or
 * coordinates. */
static void
name_datasets(const struct repack *repack, bool spared, const char *what,
              const char *hint)
{
    uint64_t n = 0;

    for (const struct repack_object *object = repack->first_object;
         object != NULL; object = object->next) {
        const struct repack_plan *plan = &object->plan;
        if (object->type != H5O_TYPE_DATASET ||
            (spared ? !plan->spared : plan->coordinate == NULL) ||
            plan->bound.mode == REPACK_KEEP)
            continue;
        if (n == 0)
            fprintf(stderr, "terp repack: %s stay lossless:", what);
        if (n++ < MAX_NNAMED)
            fprintf(stderr, "%s %s", n == 1 ? "" : ",",
                    tool_shown(object->path));
        if (n <= MAX_NNAMED && !spared)
            fprintf(stderr, " (%s)", plan->coordinate);
    }
    if (n > MAX_NNAMED)
        fprintf(stderr, ", and %llu more", (unsigned long long)n - MAX_NNAMED);
    if (n > 0)
        fprintf(stderr, "; use %s to give them a bound\n", hint);
}

void
repack_name_lossless(const struct repack *repack)
{
    name_datasets(repack, false, "coordinates", "--dataset");
    name_datasets(repack, true, "compound values", "--dataset or --member");
}

/* ---- chunks ---- */

struct terp_params
repack_params(const struct repack_request *request,
              const struct repack_bound *bound)
{
    return (struct terp_params){
        .size = sizeof(struct terp_params),
        .bound_mode = bound->mode == REPACK_ABS   ? TERP_BOUND_ABSOLUTE
                      : bound->mode == REPACK_PWR ? TERP_BOUND_POINTWISE
                                                  : TERP_BOUND_RELATIVE,
        .bound = bound->number,
        .floor = bound->floor,
        .pipeline = request->pipeline,
        .effort = request->effort,
        .format = (int)request->format};
}

static void
choose_chunks(const struct repack_request *request,
              const struct tool_dataset *dataset,
              const struct repack_bound *bound, hsize_t *chunk_dims)
{
    struct terp_params params = repack_params(request, bound);

    if (dataset->rank > 1 || tool_coded_type(dataset->type) == TERP_BYTES) {
        tool_chunk_shape(dataset->rank, dataset->dims, chunk_dims);
        return;
    }
    if (params.effort == TERP_EFFORT_BEST) /* trials would take too long */
        params.effort = TERP_EFFORT_DEFAULT;
    chunk_dims[0] = tool_chunk_of_line(dataset, params);
}

static void
plan_chunks(const struct repack_request *request,
            const struct tool_dataset *dataset, struct repack_plan *plan)
{
    const struct tool_shape *given = &request->chunk;
    const hsize_t *dims = dataset->dims;
    hsize_t *chunk_dims = plan->chunk_dims, max_dims[H5S_MAX_RANK];

    if ((int)given->rank == dataset->rank)
        for (int i = 0; i < dataset->rank; i++)
            chunk_dims[i] = given->dims[i];
    else if (request->chunk_auto || !dataset->chunked ||
             tool_chunk_is_tiny(dataset))
        choose_chunks(request, dataset, &plan->bound, chunk_dims);
    else
        memcpy(chunk_dims, dataset->chunk_dims, sizeof dataset->chunk_dims);
    /* HDF5 refuses chunks longer than a dim that cannot grow. */
    H5Sget_simple_extent_dims(dataset->space, NULL, max_dims);
    for (int i = 0; i < dataset->rank; i++)
        if (dims[i] == max_dims[i] && chunk_dims[i] > dims[i])
            chunk_dims[i] = dims[i];
}

/* A unit is the smallest group of output chunks that covers a chunk of the
 * input. Slabs are whole units: most chunks of the input are decoded once. A
 * unit that would exceed UNIT_NBYTES becomes one chunk. */
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

/* The sign rule of chunks applies to a component if a chunk holds one
 * component. A pointwise bound without a floor keeps signs by itself. */
static enum amrex_bounds
bounds_of_components(const struct repack_request *request,
                     const struct repack_bound *bound)
{
    const bool has_own_signs =
        request->limits.keep_sign == TERP_KEEP_SIGN_OF_CHUNK &&
        !(bound->mode == REPACK_PWR && bound->floor == 0);

    if (!is_lossy(bound))
        return AMREX_LOSSLESS;
    return bound->mode == REPACK_REL || has_own_signs ? AMREX_OWN : AMREX_ONE;
}

/* The chunks of a level follow its boxes and ignore --chunk. */
static void
plan_level(const struct repack *repack, const char *path,
           const struct tool_dataset *dataset, struct repack_plan *plan)
{
    const enum repack_levels levels = repack->request.levels;
    const bool is_relative = plan->bound.mode == REPACK_REL;
    const char *reason = NULL;

    if (levels == REPACK_LEVELS_AS_LINES ||
        (levels == REPACK_LEVELS_FOUND &&
         tool_type(dataset->type) == TERP_BYTES))
        return;
    plan->level = amrex_level_open(repack->in, path, dataset, &reason);
    if (plan->level != NULL) {
        amrex_level_choose_chunk(
            plan->level, bounds_of_components(&repack->request, &plan->bound),
            dataset->value_nbytes, repack->request.format);
        plan->chunk_dims[0] = plan->level->chunk_nvalues;
    } else if (reason != NULL) {
        fprintf(stderr,
                "terp repack: %s: compressed as a line, not box by box: %s%s\n",
                tool_shown(path), tool_shown(reason),
                is_relative
                    ? "; the bound refers to the range of all its values"
                    : "");
    }
}

bool
repack_needs_range(const struct repack_request *request,
                   const struct repack_plan *plan)
{
    return (plan->mask != NULL && !request->fills_masked) ||
           plan->bound.mode == REPACK_REL ||
           (plan->level != NULL && plan->level->ncomponents > 1 &&
            plan->bound.mode == REPACK_ABS && plan->bound.number > 0);
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
    plan_bound(repack, object, &dataset, plan);
    plan->whole =
        request->step > 0 && amrex_is_of_level(repack->in, object->path);
    plan->unwanted = plan->bound.mode == REPACK_KEEP;
    if (plan->reason == NULL && plan->unwanted)
        plan->reason = "no bound given";
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
    plan_level(repack, object->path, &dataset, plan);
    if (plan->level == NULL)
        plan_chunks(request, &dataset, plan);
    if (plan->level == NULL && is_lossy(&plan->bound) &&
        !repack_mask_find(repack, object, &dataset, &plan->mask)) {
        tool_dataset_close(&dataset);
        return false;
    }

    plan_unit(&dataset, plan);
    if (H5Dget_storage_size(dataset.id) > 0)
        *total_nbytes += dataset.nvalues * dataset.value_nbytes;
out:
    tool_dataset_close(&dataset);
    return true;
}
