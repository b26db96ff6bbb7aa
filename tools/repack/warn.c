/* terp repack: warns of bounds that rarely suit the data. */
#include "tools/repack/warn.h"

#include <math.h>
#include <stdio.h>

#include "codec/model/bound.h"
#include "tools/common/fields.h"
#include "tools/common/text.h"

/* Warn if the range of a field is less than this many times the bound: the copy
 * then has few distinct values of the field. */
#define MIN_RANGE_PER_BOUND 10

/* Components are either all lossless or all lossy. */
void
repack_warn_of_lossy(struct repack_job *job)
{
    const struct terp_params *params = &job->in.cd.params;

    if (!job->in.has_terp || job->in.params_error != NULL ||
        !terp_cd_is_coded(&job->in.cd) || terp_is_lossless(params) ||
        terp_is_lossless(&job->params[0]))
        return;
    tool_progress_end(&job->repack->progress);
    fprintf(stderr,
            "terp repack: %s: already lossy: terp compressed it with %s %s "
            "bound of %g; the new error adds to the old one\n",
            tool_shown(job->object->path),
            params->bound_mode == TERP_BOUND_ABSOLUTE ? "an" : "a",
            terp_bound_mode_name(params->bound_mode), params->bound);
}

static void
warn(struct repack_job *job, const char *fields, const char *ranges)
{
    tool_progress_end(&job->repack->progress);
    fprintf(stderr,
            "terp repack: %s: %s with the ranges %s; one bound of %g for all "
            "leaves little of the smallest: use --pwr, or --dataset with "
            "another bound\n",
            tool_shown(job->object->path), fields, tool_shown(ranges),
            job->params[0].bound);
}

/* Warns of an absolute bound for components of different ranges. */
static void
warn_of_components(struct repack_job *job)
{
    char name[TOOL_MAX_NFIELDS][AMREX_MAX_NAME_NBYTES];
    const char *names[TOOL_MAX_NFIELDS];
    double ranges[TOOL_MAX_NFIELDS], least = INFINITY;
    char fields[64], text[TOOL_MAX_RANGES_NBYTES];
    const int n = job->ncomponents < TOOL_MAX_NFIELDS ? (int)job->ncomponents
                                                      : TOOL_MAX_NFIELDS;

    for (int c = 0; c < n; c++) {
        double min, max;
        uint64_t nleft_out;
        tool_range_trim(&job->ranges[c], &min, &max, &nleft_out);
        ranges[c] = max > min ? max - min : 0;
        if (ranges[c] > 0)
            least = fmin(least, ranges[c]);
        amrex_component_name(job->repack->in, job->level, (uint64_t)c, name[c]);
        names[c] = name[c];
    }
    if (least / MIN_RANGE_PER_BOUND >= job->params[0].bound)
        return;
    tool_ranges_text(n, ranges, names, text);
    snprintf(fields, sizeof fields, "it has %llu components",
             (unsigned long long)job->ncomponents);
    warn(job, fields, text);
}

/* Warns of a level that --no-amrex compresses as a line. */
static void
warn_of_line(struct repack_job *job)
{
    tool_progress_end(&job->repack->progress);
    fprintf(stderr,
            "terp repack: %s: a level of boxes, compressed as a line: the "
            "bound of %g is for all of its components, whatever their ranges\n",
            tool_shown(job->object->path), job->params[0].bound);
}

/* Warns of datasets that seem to hold several fields. */
static void
warn_of_others(struct repack_job *job)
{
    const struct tool_fields found = tool_fields_find(&job->in);
    char fields[64], text[TOOL_MAX_RANGES_NBYTES];

    if (found.n == 0 ||
        tool_fields_least(&found) / MIN_RANGE_PER_BOUND >= job->params[0].bound)
        return;
    tool_fields_text(&found, text);
    snprintf(fields, sizeof fields,
             found.outer ? "it seems to hold %d fields, one after the other,"
                         : "it seems to hold %d interleaved fields",
             found.n);
    warn(job, fields, text);
}

void
repack_warn_of_fields(struct repack_job *job)
{
    const struct terp_params *params = &job->params[0];

    if (!job->has_range || !job->written ||
        params->bound_mode != TERP_BOUND_ABSOLUTE || params->bound == 0)
        return;
    if (job->level == NULL &&
        amrex_is_of_components(job->repack->in, job->object->path))
        warn_of_line(job);
    else if (job->level == NULL)
        warn_of_others(job);
    else if (job->ncomponents > 1 && job->object->plan.bound.mode == REPACK_ABS)
        warn_of_components(job);
}
