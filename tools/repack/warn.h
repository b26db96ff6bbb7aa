/* terp repack: warns of bounds that are allowed, but seldom meant. */
#pragma once

#include "tools/repack/job.h"

/* A lossy copy of a lossy copy. */
void
repack_warn_of_lossy(struct repack_job *job);

/* A bound for several fields of one dataset that leaves little of some of
 * them; it names their ranges. */
void
repack_warn_of_fields(struct repack_job *job);
