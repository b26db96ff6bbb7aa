/* Copies of types and dataspaces that other files can take: those of HDF5 keep
 * where a message is that objects of their file share, and another file would
 * look for it there. */
#pragma once

#include <hdf5.h>

/* Of a type that need not be committed: one that is not. To be closed; negative
 * where HDF5 fails. */
hid_t
tool_type_copy(hid_t type);

/* Of the extent alone; all of it is selected. Likewise. */
hid_t
tool_space_copy(hid_t space);
