/* terp repack: chooses the size of slabs and the number of threads. */
#include "tools/repack/split.h"

#include <stdlib.h>

#include "codec/format/base.h"
#include "tools/common/stored.h"

/* Small slabs keep all threads busy until the end; SLABS_PER_THREAD slabs for
 * each leave little idle time. Large slabs are long runs of the file, such as
 * whole rows of units, which are read faster: a slab that is shorter than a row
 * grows to a row of at most MAX_ROW_NBYTES. Both limits also bound the memory
 * of a slab. */
#define SLABS_PER_THREAD 8
#define MAX_SLAB_NBYTES ((uint64_t)16 << 20)
#define MAX_ROW_NBYTES ((uint64_t)64 << 20)
/* Limit for all slabs in memory. A slab's values are in memory up to three
 * times: as read, cut into chunks, and as streams. */
#define SLABS_NBYTES ((uint64_t)768 << 20)
#define COPIES_PER_SLAB 3
/* Slabs in memory for the device, which encodes this many in the time in which
 * a thread encodes one. */
#define DEVICE_NSLABS 16

/* A grid of blocks. A block is as many whole units as `cap_nbytes` hold, at
 * least one. */
static struct tool_grid
make_grid(const struct tool_dataset *dataset, const hsize_t *unit_dims,
          uint64_t cap_nbytes)
{
    struct tool_grid grid = tool_grid_of(dataset, unit_dims);
    uint64_t nbytes = dataset->value_nbytes;

    for (int i = 0; i < grid.rank; i++)
        nbytes *= unit_dims[i];
    /* A block takes as many units of a row as fit, then as many rows of a
     * plane, and so on. */
    for (int i = grid.rank - 1; i >= 0; i--) {
        uint64_t nunits = div_up(grid.dims[i], unit_dims[i]);
        uint64_t nfit = nbytes > 0 ? cap_nbytes / nbytes : 0;
        uint64_t n = min_u64(nunits, nfit);
        if (n <= 1)
            n = 1;
        grid.step[i] *= n;
        nbytes *= n;
        if (n < nunits)
            break;
    }
    return grid;
}

/* For each chunk, whether it is stored; NULL if all are, or without memory. */
static bool *
find_stored(const struct tool_dataset *dataset)
{
    struct tool_grid grid = tool_grid_of(dataset, dataset->chunk_dims);
    const uint64_t nchunks = tool_grid_nboxes(&grid);
    hsize_t nstored = 0;

    if (H5Dget_num_chunks(dataset->id, dataset->space, &nstored) < 0 ||
        nstored >= nchunks)
        return NULL;
    bool *stored = calloc(nchunks, sizeof *stored);
    for (uint64_t i = 0; stored != NULL && tool_grid_next(&grid); i++)
        stored[i] = !tool_chunk_is_absent(dataset, &grid);
    return stored;
}

/* HDF5 1.10 cannot read unwritten strings and sequences that have a fill value:
 * it would write the fill value to the input. */
struct tool_grid
repack_stored_grid(const struct tool_dataset *dataset, uint64_t cap_nbytes,
                   bool **has_chunks_ret)
{
    struct tool_grid grid = make_grid(dataset, dataset->chunk_dims, cap_nbytes);

    *has_chunks_ret = NULL;
    if (!dataset->chunked)
        return grid;
    *has_chunks_ret = tool_stored_boxes(dataset, &grid);
    if (*has_chunks_ret != NULL || !dataset->has_addresses)
        return grid;
    *has_chunks_ret = find_stored(dataset);
    return *has_chunks_ret != NULL ? tool_grid_of(dataset, dataset->chunk_dims)
                                   : grid;
}

struct repack_split
repack_split(const struct repack_request *request,
             const struct tool_dataset *dataset, const hsize_t *unit_dims,
             bool with_device)
{
    const uint64_t nthreads = (uint64_t)request->nthreads;
    const uint64_t value_nbytes = dataset->value_nbytes;
    uint64_t nbytes = dataset->nvalues * value_nbytes;
    uint64_t row_nbytes = value_nbytes;
    uint64_t nslots = nthreads + (with_device ? DEVICE_NSLABS : 0) + 2;
    struct repack_split split;

    for (int d = 0; d < dataset->rank; d++)
        row_nbytes *= d < dataset->rank - 1 ? unit_dims[d] : dataset->dims[d];
    uint64_t slab_nbytes = min_u64(nbytes / (SLABS_PER_THREAD * nthreads),
                                   SLABS_NBYTES / (COPIES_PER_SLAB * nslots));
    slab_nbytes = min_u64(slab_nbytes, MAX_SLAB_NBYTES);
    if (slab_nbytes < row_nbytes && row_nbytes <= MAX_ROW_NBYTES)
        slab_nbytes = row_nbytes;
    split.grid = make_grid(dataset, unit_dims, slab_nbytes);
    split.nslabs = tool_grid_nboxes(&split.grid);
    slab_nbytes = tool_grid_cap(&split.grid) * value_nbytes;

    nslots = min_u64(nslots, SLABS_NBYTES / (COPIES_PER_SLAB * slab_nbytes));
    nslots = min_u64(nslots, split.nslabs);
    split.nslots = nslots > 0 ? nslots : 1;
    uint64_t nworkers = min_u64(nthreads, split.nslots);
    split.nworkers = (int)nworkers;
    split.nthreads = (int)(nthreads / nworkers);
    return split;
}
