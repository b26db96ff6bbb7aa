/* terp repack: the output, from the unfinished file beside OUT to OUT. */
#pragma once

#include <sys/stat.h>

#include "tools/repack/objects.h"

/* Creates the unfinished file beside OUT. The program removes it at its end
 * unless repack_output_finish has renamed it to OUT. `stat_in` describes IN. */
bool
repack_output_begin(struct repack *repack, const struct stat *stat_in);

/* Creates the HDF5 file with the properties of the input. */
bool
repack_output_create(struct repack *repack);

/* Writes everything to disk, checks that the input has not changed, and renames
 * the file to OUT. */
bool
repack_output_finish(struct repack *repack, const struct stat *stat_in);

/* Removes the unfinished file, if it exists. */
void
repack_output_remove(void);
