/* terp repack: finds the range of a dataset's values, and derives the bounds
 * from it. */
#include "tools/repack/bounds.h"

#include <math.h>
#include <string.h>

#include "codec/model/bound.h"
#include "tools/repack/fill.h"
#include "tools/repack/plan.h"

/* Number of values that is_inside compares with the range at once. Longer runs
 * more often hold a value outside, and then each value is looked at. */
#define COMPARED_NVALUES ((uint64_t)1024)

/* Lists the fill values, which do not count for the range: the filter's fill
 * value, and the values that netCDF's conventions name. */
static void
find_fills(struct repack_job *job)
{
    double values[TOOL_MAX_NMISSING];
    const int nvalues = tool_missing_values(&job->in, job->wide, values);

    if (tool_fill_bits(&job->in, job->wide, &job->fills[0]))
        job->nfills++;
    for (int i = 0; i < nvalues; i++)
        job->fills[job->nfills++] = tool_number_bits(job->wide, values[i]);
}

/* A value that is neither a fill value nor NaN or infinite. */
static bool
is_valid(const struct repack_job *job, const void *values, uint64_t i)
{
    bool valid = isfinite(tool_value_at(job->wide, values, i));

    for (int j = 0; j < job->nfills; j++)
        valid &= tool_value_bits(job->wide, values, i) != job->fills[j];
    return valid;
}

/* ---- masked values ---- */

static void
keep_bits(bool *has_ret, bool *differ_ret, uint64_t *bits_ret, uint64_t bits)
{
    *differ_ret |= *has_ret && *bits_ret != bits;
    *has_ret = true;
    *bits_ret = bits;
}

/* Replaces the masked values of a slab, or finds out which of them a stream
 * would not keep by itself. */
static void
treat_masked(const struct repack_job *job, struct repack_slab *slab)
{
    for (uint64_t i = 0; i < slab->part.nvalues; i++) {
        if (!slab->masked[i])
            continue;
        if (job->mask_fill != NULL && job->wide)
            memcpy((double *)slab->values + i, &job->mask_fill_bits, 8);
        else if (job->mask_fill != NULL)
            memcpy((float *)slab->values + i, &job->mask_fill_bits, 4);
        else if (is_valid(job, slab->values, i))
            keep_bits(&slab->has_kept, &slab->kept_differ, &slab->kept_bits,
                      tool_value_bits(job->wide, slab->values, i));
    }
}

/* Finds the value that replaces masked values. */
static bool
find_mask_fill(struct repack_job *job)
{
    uint8_t bytes[64] = {0};

    if (job->mask == NULL || !job->repack->request.fills_masked)
        return true;
    job->mask_fill = repack_fill_value(&job->in);
    if (job->mask_fill == NULL || job->in.value_nbytes > sizeof bytes)
        return repack_job_fails(job, TERP_ERR_HDF5);
    memcpy(bytes, job->mask_fill, job->in.value_nbytes);
    if (H5Tconvert(job->in.type, job->native, 1, bytes, NULL, H5P_DEFAULT) < 0)
        return repack_job_fails(job, TERP_ERR_HDF5);
    memcpy(&job->mask_fill_bits, bytes, job->wide ? 8 : 4);
    return true;
}

/* A stream keeps two numbers beside NaN and infinities: the fill value, and a
 * second one. */
static bool
check_kept(const struct repack_job *job)
{
    double second;

    if (!job->has_kept ||
        (!job->kept_differ && !tool_second_fill(&job->in, job->wide, &second)))
        return true;
    return repack_fail(job->repack, job->object->path,
                       "--mask %s: the values that it masks are different "
                       "numbers, and terp keeps only one bit for bit; use "
                       "--mask-fill to replace them by the fill value",
                       job->mask->rule->text);
}

/* ---- the range ---- */

/* Whether `n` values from `at` on lie strictly inside the known range and
 * cannot change it. Most runs do, and the compiler vectorizes this loop.
 * Comparisons with NaN are false, so that NaN counts as inside; NaN does not
 * belong to the range. */
static bool
is_inside(const struct repack_job *job, const void *values, uint64_t at,
          uint64_t n, const struct tool_range *range)
{
    const double low = range->low.next, high = range->high.next;
    int outside = 0;

    if (job->wide)
        for (uint64_t i = at; i < at + n; i++)
            outside |= (((const double *)values)[i] <= low) |
                       (((const double *)values)[i] >= high);
    else
        for (uint64_t i = at; i < at + n; i++)
            outside |= (((const float *)values)[i] <= (float)low) |
                       (((const float *)values)[i] >= (float)high);
    return outside == 0;
}

static void
add_values(const struct repack_job *job, const struct repack_slab *slab,
           uint64_t component, uint64_t begin, uint64_t end)
{
    struct tool_range *range = &slab->range[component];
    const void *values = slab->values;

    for (uint64_t at = begin; at < end; at += COMPARED_NVALUES) {
        uint64_t n = min_u64(COMPARED_NVALUES, end - at);
        if (is_inside(job, values, at, n, &slab->known[component]) ||
            is_inside(job, values, at, n, range))
            continue;
        for (uint64_t i = at; i < at + n; i++)
            if ((slab->masked == NULL || !slab->masked[i]) &&
                is_valid(job, values, i))
                tool_range_add(range, tool_value_at(job->wide, values, i),
                               false);
    }
}

static enum terp_type
type_of(const struct repack_job *job)
{
    return job->wide ? TERP_FLOAT64 : TERP_FLOAT32;
}

static bool
begin_range(struct repack_job *job, struct repack_slab *slab)
{
    for (uint64_t c = 0; c < job->ncomponents; c++) {
        slab->range[c] = tool_range_begin(type_of(job));
        slab->known[c] = job->ranges[c];
    }
    slab->has_kept = slab->kept_differ = false;
    return true;
}

/* Values that are read a second time need not stay. */
static bool
takes_range_parts(struct repack_job *job, struct repack_slab *slab)
{
    (void)slab;
    return job->nreadings > 1;
}

static void
find_range(struct repack_job *job, struct repack_slab *slab)
{
    const struct amrex_level *level = job->level;
    uint64_t at = 0;

    if (slab->masked != NULL)
        treat_masked(job, slab);
    if (level == NULL)
        add_values(job, slab, 0, 0, slab->part.nvalues);
    while (level != NULL && at < slab->part.nvalues) {
        struct amrex_span span = amrex_level_span(level, slab->part.at[0] + at,
                                                  slab->part.nvalues - at);
        add_values(job, slab, span.component, at, at + span.nvalues);
        at += span.nvalues;
    }
}

static bool
finish_range(struct repack_job *job, struct repack_slab *slab)
{
    for (uint64_t c = 0; c < job->ncomponents; c++)
        tool_range_merge(&job->ranges[c], &slab->range[c]);
    job->kept_differ |= slab->kept_differ;
    if (slab->has_kept)
        keep_bits(&job->has_kept, &job->kept_differ, &job->kept_bits,
                  slab->kept_bits);
    return slab->status == TERP_OK || repack_job_fails(job, slab->status);
}

/* Adds the values of a box that was never written: all are the fill value,
 * which may not count. */
static void
add_absent(struct repack_job *job, const struct tool_grid *box)
{
    struct tool_range range = tool_range_begin(type_of(job));

    if (!is_valid(job, &job->fill_bits, 0))
        return;
    tool_range_add(&range, tool_value_at(job->wide, &job->fill_bits, 0), false);
    range.nvalues = box->nvalues;
    range.low.nvalues = box->nvalues;
    range.high.nvalues = box->nvalues;
    tool_range_merge(&job->ranges[0], &range);
}

/* Turns a relative bound into an absolute one by the range of all valid values.
 * The bound stays relative, with the range of each chunk, where all values are
 * equal (range 0) and where the range is unknown. */
static void
resolve_bound(const struct repack_bound *bound, const struct tool_range *range,
              struct terp_params *params)
{
    double min, max;
    uint64_t nleft_out;

    if (bound->mode != REPACK_REL)
        return;
    tool_range_trim(range, &min, &max, &nleft_out);
    if (!(min < max))
        return;
    double absolute = terp_bound_of_range(bound->number, min, max);
    if (absolute > 0 && isfinite(absolute)) {
        params->bound = absolute;
        params->bound_mode = TERP_BOUND_ABSOLUTE;
    }
}

bool
repack_find_bounds(struct repack_job *job)
{
    static const struct repack_steps steps = {begin_range,  takes_range_parts,
                                              find_range,   NULL,
                                              finish_range, add_absent};
    const struct repack_bound *bound = &job->object->plan.bound;
    bool ok = find_mask_fill(job);

    for (uint64_t c = 0; c < job->ncomponents; c++)
        job->ranges[c] = tool_range_begin(type_of(job));
    if (job->has_range)
        find_fills(job);
    if (ok && repack_needs_range(&job->repack->request, &job->object->plan) &&
        job->written && job->has_range) {
        const bool fits = job->split.nslabs <= job->split.nslots;
        /* Otherwise a second reading encodes the values. */
        job->nreadings = fits ? 1 : 2;
        ok = repack_job_do(job, job->native, &steps) && check_kept(job);
        job->has_all = fits;
    }
    for (uint64_t c = 0; c < job->ncomponents; c++) {
        job->params[c] = repack_params(&job->repack->request, bound);
        resolve_bound(bound, &job->ranges[c], &job->params[c]);
        repack_limits_set(&job->repack->request.limits, &job->in,
                          &job->params[c]);
    }
    return ok;
}
