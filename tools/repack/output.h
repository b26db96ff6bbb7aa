/* terp repack: the file that is written, from an unfinished one beside OUT to
 * OUT itself. */
#pragma once

#include <sys/stat.h>

#include "tools/repack/objects.h"

/* Makes the unfinished file beside OUT, which is removed when the program ends
 * before repack_output_finish has given it OUT's name. `stat_in` is of IN. */
bool
repack_output_begin(struct repack *repack, const struct stat *stat_in);

/* Creates the output as an HDF5 file of the input's properties. */
bool
repack_output_create(struct repack *repack);

/* Writes all to the disk, checks that the input is still the same, and gives
 * the file the name of OUT. */
bool
repack_output_finish(struct repack *repack, const struct stat *stat_in);

/* Removes the unfinished file, if there is one. */
void
repack_output_remove(void);
