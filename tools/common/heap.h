/* Memory for what HDF5 allocates of values of varying length, text and
 * sequences, when it reads them: many values may refer to one place of a file,
 * so that what they take has no limit in the file. */
#pragma once

#include <hdf5.h>
#include <stdint.h>

struct tool_heap {
    hid_t dxpl; /* to read values with; -1: there is no heap */
    struct tool_heap_block *first;
    uint64_t nbytes; /* of all blocks; TERP_MAX_MEMORY allows them */
};

/* dxpl is negative where HDF5 fails. The heap stays where it is; free it in any
 * case. */
void
tool_heap_open(struct tool_heap *heap);

/* Frees what was read with it. */
void
tool_heap_clear(struct tool_heap *heap);

void
tool_heap_close(struct tool_heap *heap);
