/* terp repack: records in files of the CF conventions how far values may be
 * from the original, in the attributes of tools/common/cf.h. */
#pragma once

#include "tools/repack/objects.h"

/* Notes the errors of a compressed dataset `out`, added to the ones that its
 * original `in` notes. Does nothing without loss, in other files, and if the
 * user refused notes. */
bool
repack_lossy_note(struct repack *repack, const struct repack_object *object,
                  hid_t in, hid_t out);

/* After all notes: makes the variable to which they refer, if there are any. */
bool
repack_lossy_finish(struct repack *repack);
