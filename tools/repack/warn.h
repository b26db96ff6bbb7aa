/* terp repack: warns of bounds that rarely suit the data. */
#pragma once

#include "tools/repack/job.h"

/* Warns if the input is a lossy copy already. */
void
repack_warn_of_lossy(struct repack_job *job);

/* Warns, with the ranges, if one bound for several fields leaves little of some
 * of them. */
void
repack_warn_of_fields(struct repack_job *job);
