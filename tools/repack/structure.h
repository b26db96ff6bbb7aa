/* terp repack: finds the objects and links of the input, and makes them in the
 * output. */
#pragma once

#include "tools/repack/objects.h"

/* Lists the objects and links of the input, with the plans of its datasets,
 * and starts the progress bar. */
bool
repack_list(struct repack *repack);

/* Makes all of them in the output. */
bool
repack_make(struct repack *repack);
