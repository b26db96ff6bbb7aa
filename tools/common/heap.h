/* Memory for the strings and sequences that HDF5 allocates when it reads values
 * of varying length. Many values may refer to the same bytes of the file, so
 * that the file's size does not limit the memory. */
#pragma once

#include <hdf5.h>
#include <stdint.h>

struct tool_heap {
    hid_t dxpl; /* list for H5Dread; -1: no heap */
    struct tool_heap_block *first;
    uint64_t nbytes; /* of all blocks; TERP_MAX_MEMORY limits them */
};

/* dxpl is negative where HDF5 fails. Do not move the struct afterwards. Close
 * in any case. */
void
tool_heap_open(struct tool_heap *heap);

/* Frees the values that were read. */
void
tool_heap_clear(struct tool_heap *heap);

void
tool_heap_close(struct tool_heap *heap);
