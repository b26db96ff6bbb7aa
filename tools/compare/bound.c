/* terp compare: finds the bound that applies to a step of the walk. */
#include <math.h>
#include <string.h>

#include "codec/format/base.h"
#include "codec/model/bound.h"
#include "filter/container.h"
#include "tools/common/members.h"
#include "tools/compare/compare.h"

bool
compare_bounds_are_given(const struct compare_bounds *bounds)
{
    return bounds->absolute > 0 || bounds->relative > 0 ||
           bounds->pointwise > 0;
}

double
compare_relative_bound(double relative, const struct tool_range *range)
{
    struct tool_range kept = *range;
    uint64_t nleft_out;
    double min, max;

    /* Judges the range of A alone: whether B changed an outlier does not
     * matter. */
    kept.low.changed = kept.high.changed = false;
    tool_range_trim(&kept, &min, &max, &nleft_out);
    return min < max ? terp_bound_of_range(relative, min, max) : 0;
}

void
compare_bound_resolve(struct compare_bound *bound,
                      const struct tool_range *range)
{
    if (bound->of_range > 0)
        bound->absolute = compare_relative_bound(bound->of_range, range);
}

/* Converts a PSNR bound into the largest error that one of `n` values can have,
 * as a fraction of the range. */
static double
bound_of_psnr(double psnr, uint64_t n)
{
    return pow(10, -psnr / 20) * sqrt((double)n);
}

/* The bound of B's parameters, which holds for all values. */
static struct compare_bound
bound_of_parameters(const struct compare_walk *walk)
{
    const struct terp_cd *cd = &walk->b->cd;
    const struct terp_params params =
        terp_params_of_type(tool_coded_type(walk->b->type), &cd->params);
    struct compare_bound bound = {.absolute = 0};

    if (cd->pass != TERP_PASS_NONE)
        return bound;
    switch (params.bound_mode) {
    case TERP_BOUND_RELATIVE:
        bound.of_range = params.bound;
        break;
    case TERP_BOUND_POINTWISE:
        bound.absolute = NAN;
        bound.pointwise = params.bound;
        bound.floor = params.floor;
        break;
    case TERP_BOUND_PSNR:
        bound.of_range =
            bound_of_psnr(params.bound, walk->grid.nvalues * walk->ncomponents);
        break;
    default:
        bound.absolute = params.bound;
    }
    return bound;
}

/* The bound in the chunk's stream, if the stream has one. Streams of lossless
 * chunks and of constant chunks have none; their values may have been rounded
 * before. The absolute bound of the parameters is an upper limit. */
static struct compare_bound
bound_of_stream(const struct terp_info *info,
                const struct compare_bound *parameters)
{
    struct compare_bound bound = *parameters;
    const bool is_absolute =
        parameters->of_range == 0 && parameters->pointwise == 0;

    if (is_absolute && parameters->absolute == 0)
        return bound;
    if (info->pointwise_bound > 0)
        return (struct compare_bound){.absolute = NAN,
                                      .pointwise = info->pointwise_bound,
                                      .floor = info->floor,
                                      .is_own = true};
    if (info->bound > 0) {
        if (!is_absolute || info->bound < parameters->absolute)
            bound = (struct compare_bound){
                .absolute = info->bound,
                /* For integers this is the parameters' bound rounded down. */
                .is_own = !terp_type_is_integer(info->chunk.type)};
        return bound;
    }
    bound.is_constant = strcmp(info->pipeline, "constant") == 0;
    if (bound.is_constant && bound.of_range > 1)
        bound.of_range = 1;
    return bound;
}

/* The bound of B's chunk. False if it is damaged. */
static bool
bound_of_chunk(const void *stream, uint64_t nbytes, struct compare_bound *bound)
{
    struct terp_info info = {.size = sizeof info};

    if (terp_inspect(stream, nbytes, &info) != TERP_OK)
        return false;
    *bound = bound_of_stream(&info, bound);
    return true;
}

/* The same of a member, of whose streams the one with the largest bound
 * counts: elements of an array of compounds have streams of their own. */
static bool
bound_of_container(const struct compare_walk *walk, struct compare_bound *bound)
{
    const struct tool_dataset *b = walk->b;
    const struct compare_bound parameters = *bound;
    struct terp_container container;
    struct terp_container_walk at = {.next = 0};
    bool is_first = true;

    if (terp_container_read(walk->chunk.bytes, walk->chunk.nbytes,
                            &container) != TERP_OK)
        return false;
    while (terp_container_next(&container, &at)) {
        struct compare_bound own = parameters;
        struct tool_member member;
        if (!tool_member_find(b->whole_type, at.at, &member))
            continue;
        tool_close(member.type);
        if (member.at != b->member_at)
            continue;
        if (!bound_of_chunk(at.stream, at.stream_nbytes, &own))
            return false;
        if (is_first || own.absolute > bound->absolute)
            *bound = own;
        is_first = false;
    }
    return true;
}

static struct compare_bound
bound_given(const struct compare_bounds *bounds)
{
    struct compare_bound bound = {.absolute = NAN};

    bound.pointwise = bounds->pointwise;
    bound.floor = bounds->floor;
    if (bounds->absolute > 0)
        bound.absolute = bounds->absolute;
    return bound;
}

/* The bound of all values of the step. */
static bool
bound_of_step(struct compare_walk *walk, struct compare_bound *bound)
{
    struct tool_chunk *chunk = &walk->chunk;

    if (chunk->kind == TOOL_CHUNK_STREAM)
        return walk->b->is_member &&
                       terp_container_is(chunk->bytes, chunk->nbytes)
                   ? bound_of_container(walk, bound)
                   : bound_of_chunk(chunk->bytes, chunk->nbytes, bound);
    return chunk->kind == TOOL_CHUNK_ABSENT ||
           chunk->kind == TOOL_CHUNK_PLAIN || chunk->kind == TOOL_CHUNK_HIDDEN;
}

static bool
cannot_read(struct compare_walk *walk)
{
    walk->trouble = "cannot read the bound of a chunk of B";
    return false;
}

/* Reads the head of a container of numbers. In more than one dimension the
 * values of a chunk at the end of the dataset do not stand as in its members.
 */
static bool
begin_members(struct compare_walk *walk, struct compare_part *part)
{
    const struct tool_chunk *chunk = &walk->chunk;

    return (walk->b->rank == 1 &&
            terp_container_read(chunk->bytes, chunk->nbytes,
                                &part->container) == TERP_OK) ||
           cannot_read(walk);
}

/* Goes to the next member of a container of numbers. */
static bool
next_member(struct compare_walk *walk, struct compare_part *part)
{
    const uint64_t value_nbytes = walk->b->value_nbytes;

    if (!terp_container_next(&part->container, &part->walk))
        return false;
    if (part->walk.nbytes % value_nbytes != 0)
        return cannot_read(walk);
    part->bound = bound_of_parameters(walk);
    part->first = part->walk.at / value_nbytes;
    part->length = part->walk.nbytes / value_nbytes;
    part->stride = part->container.value_nbytes / value_nbytes;
    part->n = part->container.nvalues;
    return bound_of_chunk(part->walk.stream, part->walk.stream_nbytes,
                          &part->bound) ||
           cannot_read(walk);
}

bool
compare_walk_part(struct compare_walk *walk,
                  const struct compare_bounds *bounds,
                  struct compare_part *part)
{
    struct tool_chunk *chunk = &walk->chunk;
    const bool begins = !part->has_begun;

    part->has_begun = true;
    if (begins) {
        part->length = walk->grid.nvalues * walk->ncomponents;
        part->n = 1;
        part->bound = bound_given(bounds);
        if (compare_bounds_are_given(bounds) || !walk->b->has_terp)
            return true;
        part->bound = bound_of_parameters(walk);
        tool_chunk_read(walk->b, &walk->grid, chunk);
        if (walk->b->is_member || chunk->kind != TOOL_CHUNK_STREAM ||
            !terp_container_is(chunk->bytes, chunk->nbytes))
            return bound_of_step(walk, &part->bound) || cannot_read(walk);
        if (!begin_members(walk, part))
            return false;
    }
    return part->container.src != NULL && next_member(walk, part);
}

void
compare_part_run(const struct compare_walk *walk,
                 const struct compare_part *part, uint64_t i,
                 uint64_t *begin_ret, uint64_t *end_ret)
{
    const uint64_t nvalues = walk->grid.nvalues * walk->ncomponents;

    *begin_ret = min_u64(nvalues, part->first + i * part->stride);
    *end_ret = min_u64(nvalues, *begin_ret + part->length);
}
