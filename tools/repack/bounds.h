/* terp repack: finds the error bounds of a dataset. */
#pragma once

#include "tools/repack/job.h"

/* Fills in job->params. This may read all values. */
bool
repack_find_bounds(struct repack_job *job);
