/* terp repack: cuts a dataset into parts that fit into memory. */
#pragma once

#include "tools/common/h5file.h"
#include "tools/repack/request.h"

/* A grid of blocks. A block is as many whole units as `cap_nbytes` hold, at
 * least one. */
struct tool_grid
repack_grid(const struct tool_dataset *dataset, const hsize_t *unit_dims,
            uint64_t cap_nbytes);

/* The same over a chunked dataset whose values are copied one by one. Where
 * chunks were never written, a block may be a chunk, and *has_chunks_ret, which
 * the caller frees, tells for each block whether anything of it is stored;
 * NULL: that is not known, or all is. */
struct tool_grid
repack_stored_grid(const struct tool_dataset *dataset, uint64_t cap_nbytes,
                   bool **has_chunks_ret);

/* How a dataset is shared out among threads, beside which a device may
 * code. */
struct repack_split {
    struct tool_grid grid; /* a part is a box of this */
    uint64_t nparts;
    uint64_t nslots;     /* parts in memory at a time */
    int nworkers;        /* threads that take parts */
    int nthreads;        /* of each of these, for its part */
    int ndevice_threads; /* workers that may code on the device at a time */
};

struct repack_split
repack_split(const struct repack_request *request,
             const struct tool_dataset *dataset, const hsize_t *unit_dims,
             bool with_device);
