/* Chooses the shape of chunks. */
#include "tools/common/chunk_shape.h"

#include "codec/format/base.h"

/* Target size of chunks. Smaller chunks compress worse; in larger ones, readers
 * of a few values decode more than they need. All chunks that the tool chooses
 * follow it. */
#define CHUNK_NVALUES ((uint64_t)64 * 64 * 64)

/* Chunks below this size are replaced. A frame and HDF5's index take about a
 * hundred bytes per chunk: as much as the rest of a chunk of 4096 bytes that
 * compresses twentyfold. */
#define TINY_NBYTES 4096

/* The number of values in a box whose dims are limited to `side`. */
static uint64_t
count_covered(int rank, const hsize_t *dims, uint64_t side)
{
    uint64_t nvalues = 1;
    for (int i = 0; i < rank; i++)
        nvalues *= min_u64(dims[i], side);
    return nvalues;
}

/* The largest side of a cube that holds CHUNK_NVALUES values of the array.
 * Shorter dims leave more for the others. */
static uint64_t
side_of(int rank, const hsize_t *dims)
{
    uint64_t low = 1, high = CHUNK_NVALUES;

    while (low < high) {
        uint64_t side = low + (high - low + 1) / 2;
        if (count_covered(rank, dims, side) <= CHUNK_NVALUES)
            low = side;
        else
            high = side - 1;
    }
    return low;
}

/* Cuts a dim into equal shares of about `side` values. The padding of the last
 * share is below one value per share. */
static uint64_t
share_of(uint64_t dim, uint64_t side)
{
    uint64_t nshares = (dim + side / 2) / side;
    return nshares <= 1 ? dim : (dim + nshares - 1) / nshares;
}

void
tool_chunk_shape(int rank, const hsize_t *dims, hsize_t *chunk_dims_ret)
{
    uint64_t left_nvalues = CHUNK_NVALUES;
    int ninner = (int)min_u64((uint64_t)rank, 3);
    hsize_t inner[3];

    /* An unlimited dim is 0 before the first write; assume that it becomes
     * long. */
    for (int i = 0; i < ninner; i++) {
        hsize_t dim = dims[rank - ninner + i];
        inner[i] = dim > 0 ? dim : CHUNK_NVALUES;
    }
    uint64_t side = side_of(ninner, inner);
    for (int i = 0; i < ninner; i++) {
        hsize_t share = share_of(inner[i], side);
        chunk_dims_ret[rank - ninner + i] = share;
        left_nvalues /= share;
    }
    /* If the three innermost dims leave capacity in a chunk, the chunk covers
     * several steps of the next slower dims. */
    for (int i = rank - ninner - 1; i >= 0; i--) {
        hsize_t share = dims[i] > 0 ? dims[i] : 1;
        if (share > left_nvalues)
            share = left_nvalues > 1 ? share_of(share, left_nvalues) : 1;
        chunk_dims_ret[i] = share;
        left_nvalues /= share;
    }
}

bool
tool_chunk_is_tiny(const struct tool_dataset *dataset)
{
    hsize_t nstored = 0;

    if (!dataset->chunked || dataset->chunk_nbytes >= TINY_NBYTES)
        return false;
    const struct tool_grid grid = tool_grid_of(dataset, dataset->chunk_dims);
    const uint64_t nchunks = tool_grid_nboxes(&grid);
    return nchunks > 1 &&
           H5Dget_num_chunks(dataset->id, dataset->space, &nstored) >= 0 &&
           nstored >= nchunks / 2;
}
