/* terp repack: cuts a dataset into slabs that fit into memory. */
#pragma once

#include "tools/common/h5file.h"
#include "tools/repack/request.h"

/* A grid of blocks over a chunked dataset. *has_chunks_ret, which the caller
 * frees, tells for each block whether a chunk of it is stored; NULL: that is
 * unknown, or all chunks are stored. A block may be a chunk where chunks were
 * never written. */
struct tool_grid
repack_stored_grid(const struct tool_dataset *dataset, uint64_t cap_nbytes,
                   bool **has_chunks_ret);

/* How threads, and perhaps a device, share a dataset. */
struct repack_split {
    struct tool_grid grid; /* a slab is a box of this grid */
    uint64_t nslabs;
    uint64_t nslots; /* slabs in memory at a time */
    int nworkers;    /* threads that take slabs */
    int nthreads;    /* threads within a worker, for one slab */
};

struct repack_split
repack_split(const struct repack_request *request,
             const struct tool_dataset *dataset, const hsize_t *unit_dims,
             bool with_device);
