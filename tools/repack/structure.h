/* terp repack: lists the objects and links of the input and creates them in the
 * output. */
#pragma once

#include "tools/repack/objects.h"

/* Lists the objects and links of the input, plans its datasets and starts the
 * progress bar. */
bool
repack_list(struct repack *repack);

/* Creates all listed objects and links in the output. */
bool
repack_make(struct repack *repack);
