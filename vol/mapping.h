/* New memory in place of memory that must be cleared.
 *
 * HDF5 takes a buffer of zeros for each new chunk of a collective write, and
 * touches only the beginning of it where it writes a mark. The C library clears
 * memory that was used before, but maps a large buffer from the kernel, which
 * takes no time until the buffer is touched. glibc maps what is larger than a
 * limit, and raises the limit when the program frees such a buffer. */
#pragma once

#include <stdint.h>

/* Lets glibc map buffers of `nbytes`, of which HDF5 takes `n`, if that saves
 * time and the user has not set the limit. */
void
vol_mapping_begin(uint64_t n, uint64_t nbytes);

/* Sets the limit to the largest that glibc raises it to: the one from before
 * cannot be read. */
void
vol_mapping_end(void);
