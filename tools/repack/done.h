/* terp repack: records in a copy how it was made, so that a later run over many
 * files need not make it again. doc/record.md defines the note. */
#pragma once

#include <sys/stat.h>

#include "tools/repack/objects.h"

/* Removes the note that the copy inherits from IN. Writes a new one if the
 * request may concern many files and no value was lost. Call it after all
 * datasets are written. `stat_in` describes IN. */
bool
repack_done_note(struct repack *repack, const struct stat *stat_in);

/* Whether the note of the open file `out` says that it is a copy by the same
 * options, and the datasets of `out` have not changed since. If `stat_in` is
 * not NULL, the copy must also be of a file of this size and time of change.
 * Sets *in_nbytes_ret to the size of the file that was copied. */
bool
repack_done_check(const struct repack_request *request, hid_t out,
                  const struct stat *stat_in, uint64_t *in_nbytes_ret);
