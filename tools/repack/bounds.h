/* terp repack: finds the error bounds of a dataset. */
#ifndef TERP_TOOLS_REPACK_BOUNDS_H
#define TERP_TOOLS_REPACK_BOUNDS_H

#include "tools/repack/job.h"

/* Fills in job->params, for which it may have to look at all values. */
bool
repack_find_bounds(struct repack_job *job);

#endif
