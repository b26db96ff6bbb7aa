/* Copies of types and dataspaces for use in other files. HDF5's own copies keep
 * the addresses of shared messages in the original file, and another file would
 * look for the messages there. */
#pragma once

#include <hdf5.h>

/* A copy that is not committed. Close it; negative where HDF5 fails. */
hid_t
tool_type_copy(hid_t type);

/* A copy of the extent, with all values selected. Close it; negative where HDF5
 * fails. */
hid_t
tool_space_copy(hid_t space);
